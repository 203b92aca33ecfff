//! What an engine is made of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::common::JsonObject;
use hostler_attachments::AttachmentLimits;
use hostler_driver::{Clock, Driver};
use hostler_store::StoreOptions;
use hostler_trust::TrustOptions;

use crate::agent_pool::AgentPoolConfig;
use crate::background_on_stop::BackgroundOnStop;
use crate::command_runner::CommandRunner;
use crate::external_sessions::ExternalSessionFilter;
use crate::model_gateway::ModelGateway;
use crate::permissions::PermissionConfig;
use crate::resources::{GrantPolicy, SessionRoots};
use crate::terminals::TerminalsConfig;

/// How long a client may be away before it is no longer part of its sessions, as in VS Code's own host.
pub const DEFAULT_CLIENT_ABSENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// How many messages may wait in one chat, if nobody says otherwise.
pub const DEFAULT_MAX_QUEUED_MESSAGES: usize = 100;

/// How many ended turns of an open chat memory holds, if nobody says otherwise.
pub const DEFAULT_TURNS_IN_MEMORY: usize = 50;

/// What an engine is made of.
pub struct EngineConfig {
    /// Where the journal lives.
    pub store: StoreOptions,
    /// The agents on offer, the default first.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// The gateway.
    pub gateway: Arc<dyn ModelGateway>,
    /// Where sessions work that name no directory.
    pub default_directory: PathBuf,
    /// What becomes of a client's request for files outside of the sessions' directories.
    pub grant_policy: GrantPolicy,
    /// Where sessions may work.
    pub session_roots: SessionRoots,
    /// How long an agent may take to react to an interrupt.
    pub interrupt_grace: Duration,
    /// What becomes of background work when a turn is stopped, if a session does not say otherwise.
    pub background_on_stop: BackgroundOnStop,
    /// How many messages may wait in one chat.
    pub max_queued_messages: usize,
    /// How many ended turns of an open chat memory holds; older ones are read when somebody wants them.
    pub turns_in_memory: usize,
    /// How permissions are treated.
    pub permissions: PermissionConfig,
    /// How long a client may be away before it is no longer part of its sessions. A restart takes all clients away; then
    /// it counts from the start.
    pub client_absence_timeout: Duration,
    /// What windows and deadlines are measured by: the machine's own time, or a test's.
    pub clock: Arc<dyn Clock>,
    /// How long and how many agents are kept.
    pub agent_pool: AgentPoolConfig,
    /// The most that one message may carry.
    pub attachment_limits: AttachmentLimits,
    /// What runs the machine's programs.
    pub command_runner: Arc<dyn CommandRunner>,
    /// Whether clients may run commands in the user's shell.
    pub allow_shell_commands: bool,
    /// What terminals are made of; nothing if they are switched off.
    pub terminals: Option<TerminalsConfig>,
    /// What new sessions begin with by the host's own settings, which beat what clients write into its configuration.
    pub session_defaults: JsonObject,
    /// Which conversations that were led elsewhere are listed, if the host's own settings say so.
    pub external_session_filter: Option<ExternalSessionFilter>,
    /// Whether what is said in sessions can be searched.
    pub enable_search: bool,
    /// What the host's own settings say about workspace trust. The decisions of people are in the state directory.
    pub trust: TrustOptions,
}
