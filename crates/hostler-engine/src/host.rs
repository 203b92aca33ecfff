//! `Host`: the services that all sessions share. Each service owns the state of its domain.
//!
//! The rules file is polled every second. When it changes, every session evaluates its pending calls again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ahp_types::common::JsonObject;
use hostler_driver::Clock;
use hostler_store::Store;
use tokio::sync::OnceCell;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use url::Url;

use crate::EngineError;
use crate::agents::AgentService;
use crate::attachments::AttachmentService;
use crate::catalog::CatalogService;
use crate::clients::publication::PublicationService;
use crate::error::InvalidParams;
use crate::external_sessions::{ExternalSessionScanner, MetadataWriter, UnimportedTurns};
use crate::permissions::PermissionService;
use crate::resources::ResourceService;
use crate::sessions::background_on_stop::BackgroundOnStop;
use crate::sessions::local_command::{self, LocalCommand};
use crate::sessions::prompt_ids::PromptIds;
use crate::terminals::TerminalService;

/// Interval at which the rules file is checked while no call asks for it.
const RULES_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of working directories of a session.
pub(crate) const MAX_SESSION_DIRECTORIES: usize = 16;

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
    pub(crate) tasks: TaskTracker,
    pub(crate) resources: ResourceService,
    pub(crate) terminals: TerminalService,
    pub(crate) external_scanner: ExternalSessionScanner,
    pub(crate) metadata_writer: MetadataWriter,
    /// Turns that are not imported yet.
    pub(crate) unimported_turns: UnimportedTurns,
    /// Distinguishes prompts of this host from those of other processes in the agents' transcripts.
    pub(crate) prompt_ids: PromptIds,
    /// Cancelled when the host shuts down: nothing new starts.
    pub(crate) stop: CancellationToken,
    pub(crate) shutdown_once: OnceCell<()>,
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

    /// Polls the rules and trust files, because editors of these files do not notify the host. Ends with the host.
    pub(crate) fn poll_rules_and_trust(self: &Arc<Self>) {
        let (host, stop) = (Arc::downgrade(self), self.stop.clone());
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
        self.tasks.spawn(async move { stop.run_until_cancelled(watch).await });
    }

    /// The file URIs of a session's working directories: the primary one, then the additional ones.
    pub(crate) fn resolve_directories(&self, wanted: &[String]) -> Result<Vec<String>, EngineError> {
        if wanted.len() > MAX_SESSION_DIRECTORIES {
            return Err(InvalidParams::TooManyDirectories.into());
        }
        let mut directories: Vec<String> = Vec::new();
        for uri in wanted {
            let uri = self.resolve_directory(uri)?;
            if !directories.contains(&uri) {
                directories.push(uri);
            }
        }
        if directories.is_empty() {
            directories.push(directory_uri(&self.settings.default_directory)?);
            self.resources.session_roots().check(&self.settings.default_directory)?;
        }
        Ok(directories)
    }

    /// The normalized URI of a directory that a session may work in.
    pub(crate) fn resolve_directory(&self, uri: &str) -> Result<String, EngineError> {
        let path = Url::parse(uri).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
        let path = path.ok_or_else(|| InvalidParams::FileUri(uri.to_owned()))?;
        let uri = directory_uri(&path)?;
        self.resources.session_roots().check(&path)?;
        Ok(uri)
    }
}

fn directory_uri(path: &Path) -> Result<String, EngineError> {
    if !path.is_dir() {
        return Err(InvalidParams::DirectoryNotFound(path.to_owned()).into());
    }
    Url::from_file_path(path).map(String::from).map_err(|()| InvalidParams::RelativePath(path.to_owned()).into())
}
