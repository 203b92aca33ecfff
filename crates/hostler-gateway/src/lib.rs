//! The loopback gateway: speaks the Anthropic Messages API to agents and calls the configured upstreams.
//!
//! An agent process gets a bearer that is worth something only here and only while the process is registered; the
//! upstream's own credential never leaves this crate. One request goes this way:
//!
//! 1. `server` accepts the connection, which `connection` bounds in number and time; `handler` checks the `Host` header and
//!    authenticates (before anything else), reads and checks the body;
//! 2. `limits` lets it through, holds it or refuses it, by what the `ledger` says is used;
//! 3. an [`Upstream`] answers with a whole body or with a stream of server-sent events;
//! 4. `relay` waits for the first event, then passes events on as they come, while `usage` reads the token counts
//!    from the two event types that hold them.
//!
//! The crate knows nothing of sessions, drivers or clients: a [`Lease`] only carries their names.

#![forbid(unsafe_code)]

mod auth;
mod betas;
mod catalogue;
mod connection;
mod credential;
mod dollars;
mod envelope;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod handler;
mod host_names;
mod lease;
mod ledger;
mod limits;
mod metrics;
mod model_cache;
mod model_id;
mod models;
mod observe;
mod passage;
mod prices;
mod relay;
mod server;
mod sign_in;
mod sse;
mod upstream;
mod upstreams;
mod usage;

pub use betas::ALLOWED_BETAS;
pub use catalogue::Model;
pub use connection::ConnectionLimits;
pub use credential::keyring::{Keyring, SystemKeyring};
pub use credential::vault::{CredentialVault, Kept, Place, StoredCredential};
pub use credential::{
    CredentialError, CredentialSource, FileCredential, FixedCredential, MissingCredential, Stamp, Standing,
};
pub use dollars::Dollars;
pub use gateway::{Choice, Gateway, GatewayConfig, GatewayError};
pub use lease::{Lease, Registration};
pub use ledger::LedgerError;
pub use limits::{Budget, Held, Limits, Measure, OverLimit, Reached, Scope, SessionLimits, SessionStatus};
pub use observe::{Ending, FinishedRequest, ObservedRequest, RequestLog, RequestObserver};
pub use prices::{BadPattern, Price, Prices};
pub use sign_in::{BroughtCredential, Protected, Resource, SignInError, SignInTurn, SignIns};
pub use upstream::anthropic::{AnthropicConfig, AnthropicUpstream, CredentialHeader};
pub use upstream::copilot::{
    Clock, CopilotConfig, CopilotConfigError, CopilotMode, CopilotUpstream, DeviceCode, DeviceLoginConfig,
    GITHUB_API_URL, GITHUB_URL, LoginError, SystemClock, device_login, device_login_by,
};
pub use upstream::http::Timeouts;
pub use upstream::openai::{Dialect, LaterSystem, OpenAiConfig, OpenAiUpstream, TokenLimit};
pub use upstream::scripted::ScriptedUpstream;
pub use upstream::{
    AnswerBody, Betas, EventBytes, Manners, Refusal, UnknownModels, Upstream, UpstreamAnswer, UpstreamCall,
    UpstreamError, UpstreamModel,
};
pub use upstreams::{NamedUpstream, Upstreams, UpstreamsError};
pub use usage::{TokenCounts, UsageTotals};
