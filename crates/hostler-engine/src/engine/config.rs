//! `EngineConfig`: the parts and settings that an engine starts with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::common::JsonObject;
use hostler_attachments::AttachmentLimits;
use hostler_driver::{Clock, Driver};
use hostler_store::StoreOptions;
use hostler_trust::TrustOptions;

use crate::agents::model_gateway::ModelGateway;
use crate::agents::pool::AgentPoolConfig;
use crate::external_sessions::ExternalSessionFilter;
use crate::permissions::PermissionConfig;
use crate::resources::{GrantPolicy, SessionRoots};
use crate::sessions::background_on_stop::BackgroundOnStop;
use crate::terminals::TerminalsConfig;
use crate::terminals::command_runner::CommandRunner;

/// Default time that a client may be disconnected before it is no longer active in its sessions, as in VS Code's own
/// host.
pub const DEFAULT_CLIENT_ABSENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// Default maximum number of queued messages per chat.
pub const DEFAULT_MAX_QUEUED_MESSAGES: usize = 100;

/// Default maximum number of completed turns of an open chat in memory.
pub const DEFAULT_TURNS_IN_MEMORY: usize = 50;

/// The parts and settings of an engine.
pub struct EngineConfig {
    /// Location and options of the store.
    pub store: StoreOptions,
    /// The offered agents, the default first.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// The gateway.
    pub gateway: Arc<dyn ModelGateway>,
    /// The working directory of sessions that name none.
    pub default_directory: PathBuf,
    /// How clients' requests for files outside of the sessions' directories are answered.
    pub grant_policy: GrantPolicy,
    /// The directories that sessions may work in.
    pub session_roots: SessionRoots,
    /// How long an agent may take to react to an interrupt.
    pub interrupt_grace: Duration,
    /// What happens to background work when a turn is stopped, unless the session configures it.
    pub background_on_stop: BackgroundOnStop,
    /// Maximum number of queued messages per chat.
    pub max_queued_messages: usize,
    /// Maximum number of completed turns of an open chat in memory; older ones are read on request.
    pub turns_in_memory: usize,
    /// Settings of permissions.
    pub permissions: PermissionConfig,
    /// How long a client may be disconnected before it is no longer active in its sessions. A restart disconnects all
    /// clients; then the time counts from the start.
    pub client_absence_timeout: Duration,
    /// The clock of timeouts and deadlines: the system's, or a test's.
    pub clock: Arc<dyn Clock>,
    /// Limits and timeouts of agent processes.
    pub agent_pool: AgentPoolConfig,
    /// Limits on the attachments of one message.
    pub attachment_limits: AttachmentLimits,
    /// Runs the machine's programs.
    pub command_runner: Arc<dyn CommandRunner>,
    /// Whether clients may run commands in the user's shell.
    pub allow_shell_commands: bool,
    /// Settings of terminals; `None` if they are disabled.
    pub terminals: Option<TerminalsConfig>,
    /// Values from the host's own settings that new sessions start with. They override the values that clients write
    /// into the host's configuration.
    pub session_defaults: JsonObject,
    /// Which external sessions are listed, if the host's own settings define it.
    pub external_session_filter: Option<ExternalSessionFilter>,
    /// Whether the contents of sessions can be searched.
    pub enable_search: bool,
    /// The host's own settings for workspace trust. People's decisions are in the state directory.
    pub trust: TrustOptions,
}
