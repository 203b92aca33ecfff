//! The engine: one actor per session, a pure turn machine, state moved by the AHP reducers alone, and the fan-out.
//!
//! **Architecture Invariant:** the engine knows no JSON-RPC, no protocol version and no particular agent. Surfaces call
//! [`Engine`]; agents are behind `hostler_driver::Driver`; the gateway is behind the [`ModelGateway`] port.

#![forbid(unsafe_code)]

mod actor;
mod annotations;
mod attach;
mod budget;
mod catalogue;
mod clients;
mod clock;
mod commands;
mod complete;
mod config;
mod configure;
mod desk;
mod engine;
mod error;
mod fleet;
mod found;
mod gate;
mod git;
mod host;
mod hub;
mod local;
mod paging;
mod past;
mod permissions;
mod port;
mod preview;
mod progress;
mod prompt_ids;
mod record;
mod resources;
mod restore;
mod returning;
mod root;
mod search;
mod session;
mod sign_in;
mod state;
mod stopping;
mod summary;
mod terminals;
mod transcript;
mod turn;
mod uri;
mod worker;

pub use actor::BackgroundOutput;
pub use attach::{Contents, Fetch, FetchError, Listed, Listing, NoFetch, PlanSummary};
pub use budget::{Held, LimitKind, LimitReached, SessionBudget, SessionLimits, Spent};
pub use catalogue::SessionPage;
pub use clock::SystemClock;
pub use commands::{CommandEnd, CommandSpec, Commands, Program, RunningCommand};
pub use configure::{ConfigWish, SessionConfig};
pub use engine::{ABSENCE, Content, CreateSession, Engine, EngineConfig, MAX_QUEUE, TURNS_IN_MEMORY, TrustedFolders};
pub use error::EngineError;
pub use fleet::{Caps, FleetConfig, FleetStatus};
pub use found::{Checkup, Finding, FindingKind, ShowExternal};
pub use hostler_attachments::Limits as AttachmentLimits;
pub use hostler_driver::{Clock, Images};
pub use hostler_files::{Access, EntryKind, FileError, FileKind, WriteMode};
pub use hostler_search::{Hit, Kind as TextKind, SearchError, SessionHits};
pub use hostler_store::{AuditEntry, AuditRow, BlobOptions, Published, Retention, StoreOptions};
pub use hostler_trust::{
    Assessment, Decision as TrustDecision, TrustEntry, TrustError, TrustListing, TrustOptions, TrustState, TrustedBy,
};
pub use hub::{Deliveries, Delivery, Notice, NoticeKind, SnapshotAt, Subscriber, SubscriberId};
pub use paging::{Extent, OlderTurns};
pub use permissions::{FixedAnswer, PermissionConfig, Unattended};
pub use port::{AgentStatus, Lease, ModelGateway, ModelInfo, Protected, SignInError, SignInNeed, SignInTurn};
pub use progress::{Progress, ProgressWish};
pub use resources::{
    Grant, GrantPolicy, MAX_CONTENTS, Resolved, ResourceContents, ResourceError, Resources, SessionRoots,
    WatchResource, WriteResource,
};
pub use returning::{Presence, Reconnected};
pub use search::{Found, SearchWish};
pub use session::Dispatch;
pub use state::{ChannelState, Outcome, Reduce, Refused};
pub use stopping::BackgroundOnStop;
pub use terminals::{
    CreateTerminal, MAX_TERMINALS, SCROLLBACK, Shell, ShellSpec, Shells, TerminalError, TerminalSize, TerminalsConfig,
};
pub use turn::{AgentPhase, Effect, End, Input as TurnInput, MessageId, Need, TurnId, TurnMachine, TurnPhase};
pub use uri::{
    ROOT, annotated as annotated_session, annotations as annotations_uri, default_chat_uri, is_session_uri,
    is_terminal as is_terminal_channel, worker_chat_uri,
};
