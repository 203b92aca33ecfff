//! `Host`: the services that all sessions share. Each service owns the state of its domain.
//!
//! The rules file is polled every second. When it changes, every session evaluates its pending calls again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::common::JsonObject;
use hostler_driver::Clock;
use hostler_store::Store;
use tokio::time::MissedTickBehavior;

use crate::EngineError;
use crate::agents::AgentService;
use crate::attachments::AttachmentService;
use crate::catalog::CatalogService;
use crate::clients::publication::PublicationService;
use crate::external_sessions::ExternalSessionService;
use crate::host_tasks::HostTasks;
use crate::permissions::PermissionService;
use crate::resources::ResourceService;
use crate::sessions::background_on_stop::BackgroundOnStop;
use crate::sessions::local_command::{self, LocalCommand};
use crate::terminals::TerminalService;

/// Interval at which the rules file is checked while no call asks for it.
const RULES_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The values of the host's configuration that its parts read.
pub(crate) struct HostSettings {
    /// How long an agent may take to react to an interrupt.
    pub(crate) interrupt_grace: Duration,
    /// What happens to background work when a turn is stopped, unless the session configures it.
    pub(crate) background_on_stop: BackgroundOnStop,
    /// Maximum number of queued messages per chat.
    pub(crate) max_queued_messages: usize,
    /// Maximum number of completed turns of an open chat in memory.
    pub(crate) turns_in_memory: usize,
    /// How long a client may be disconnected before it is no longer active in its sessions.
    pub(crate) client_absence_timeout: Duration,
    pub(crate) default_provider: String,
    pub(crate) default_directory: PathBuf,
    /// Whether clients may run commands in the user's shell.
    pub(crate) allow_shell_commands: bool,
    /// Values that new sessions start with.
    pub(crate) session_defaults: JsonObject,
}

/// The state that all actors share.
pub(crate) struct Host {
    pub(crate) settings: HostSettings,
    pub(crate) store: Store,
    pub(crate) publication: PublicationService,
    pub(crate) catalog: CatalogService,
    pub(crate) agents: AgentService,
    pub(crate) permissions: PermissionService,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) attachments: AttachmentService,
    pub(crate) tasks: HostTasks,
    pub(crate) resources: ResourceService,
    pub(crate) terminals: TerminalService,
    pub(crate) external: ExternalSessionService,
}

impl Host {
    /// The command that a message contains for the host itself, if it is not for the agent.
    pub(crate) fn local_command(&self, text: &str) -> Option<LocalCommand> {
        local_command::parse(text).filter(|local| match local {
            LocalCommand::Shell(_) => {
                self.settings.allow_shell_commands && !self.agents.gateway().is_model_script(text)
            }
            LocalCommand::Rename(_) => true,
        })
    }

    /// The normalized URI of a directory that a session may work in.
    pub(crate) async fn resolve_directory(self: &Arc<Self>, uri: String) -> Result<String, EngineError> {
        let host = Arc::clone(self);
        let resolved =
            tokio::task::spawn_blocking(move || host.resources.session_roots().resolve_directory(&uri)).await;
        resolved.unwrap_or(Err(EngineError::Stopping))
    }

    /// Polls the rules and trust files, because editors of these files do not notify the host. Ends with the host.
    pub(crate) fn poll_rules_and_trust(self: &Arc<Self>) {
        let host = Arc::downgrade(self);
        let watch = async move {
            let mut ticks = tokio::time::interval(RULES_POLL_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(host) = host.upgrade() else { return };
                let polled = tokio::task::spawn_blocking(move || {
                    host.permissions.notify_rule_changes();
                    host.permissions.notify_trust_changes();
                });
                if let Err(error) = polled.await {
                    tracing::error!(%error, "failed to poll the rules and trust files");
                }
            }
        };
        self.tasks.spawn_until_stopped(watch);
    }
}
