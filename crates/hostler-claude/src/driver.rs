use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hostler_driver::{
    Archive, ArchiveError, ConversationStart, Driver, DropError, Images, OpenError, OpenSpec, Opened, Prompt,
    ProviderInfo, ResumeToken, ToolDisplay, WorkspaceConfiguration,
};
use hostler_process::SupervisorCommand;
use serde_json::value::RawValue;

use crate::Executable;
use crate::display;
use crate::fingerprint::fingerprint;
use crate::forget;
use crate::open;
use crate::prompt;
use crate::stats::{Counters, WireStats};
use crate::stored::Transcripts;
use crate::transcript::config_directory;
use crate::version::{Version, VersionCache};
use crate::workspace::{self, Snapshot};

/// How long a handshake may take: cold caches and slow disks included.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest line that a prompt may be. Both builds take more, but the provider takes requests of 32 MB, and the agent
/// adds to the line its own instructions and the conversation.
const LONGEST_PROMPT: usize = 28_000_000;

/// What the driver needs to know about this host.
#[derive(Clone)]
pub struct ClaudeConfig {
    /// What is started.
    pub executable: Executable,
    /// The host's own environment.
    pub host_environment: Vec<(OsString, OsString)>,
    /// Names of variables that hold an upstream's credential: no agent may see them.
    pub upstream_credentials: Vec<OsString>,
    /// What the configuration adds to every agent's environment.
    pub agent_env: Vec<(OsString, OsString)>,
    /// What is put between the host and its agents.
    pub supervisor: SupervisorCommand,
    /// Where the conversations' locks are.
    pub runtime_dir: PathBuf,
    /// How this host names itself to others that want one of its conversations.
    pub holder: String,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// The oldest version that is driven.
    pub min_version: Version,
    /// The model that is used when a message names none.
    pub default_model: String,
}

impl ClaudeConfig {
    /// A configuration with the usual timeout, version and model, and an empty environment.
    pub fn new(executable: Executable, supervisor: SupervisorCommand, runtime_dir: PathBuf) -> Self {
        Self {
            executable,
            host_environment: Vec::new(),
            upstream_credentials: Vec::new(),
            agent_env: Vec::new(),
            supervisor,
            runtime_dir,
            holder: "another Hostler".to_owned(),
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            min_version: Version::oldest_tested(),
            default_model: "claude-sonnet-4-5".to_owned(),
        }
    }
}

impl ClaudeConfig {
    fn plans(&self) -> Option<PathBuf> {
        Some(self.config_directory()?.join("plans"))
    }

    /// Where agents keep their own files.
    pub(crate) fn config_directory(&self) -> Option<PathBuf> {
        let variable = |name: &str| {
            let mut all = self.agent_env.iter().chain(&self.host_environment);
            all.find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
        };
        config_directory(variable)
    }
}

/// Where newer builds let the model write its plan, in plan mode too, in an environment.
pub fn plans_directory<'a>(variable: impl Fn(&str) -> Option<&'a OsStr>) -> Option<PathBuf> {
    Some(config_directory(variable)?.join("plans"))
}

impl fmt::Debug for ClaudeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environments hold secrets.
        f.debug_struct("ClaudeConfig")
            .field("executable", &self.executable)
            .field("runtime_dir", &self.runtime_dir)
            .field("handshake_timeout", &self.handshake_timeout)
            .field("min_version", &self.min_version)
            .finish_non_exhaustive()
    }
}

/// Drives Claude Code.
pub struct ClaudeDriver {
    config: Arc<ClaudeConfig>,
    versions: Arc<VersionCache>,
    archive: Option<Arc<Transcripts>>,
    counters: Arc<Counters>,
    is_older: Arc<AtomicBool>,
}

impl fmt::Debug for ClaudeDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeDriver").field("config", &self.config).finish_non_exhaustive()
    }
}

impl ClaudeDriver {
    /// A driver for one executable. Removes what agents of hosts that were killed have left in the runtime directory.
    pub fn new(config: ClaudeConfig) -> Self {
        workspace::remove_leftovers(&config.runtime_dir, &config.holder);
        let archive = config.config_directory().map(|directory| Arc::new(Transcripts::under(&directory)));
        Self {
            config: Arc::new(config),
            versions: Arc::default(),
            archive,
            counters: Arc::default(),
            is_older: Arc::default(),
        }
    }

    /// What its connections have read and skipped. Unknown and sub-agent messages are added when a connection ends.
    pub fn stats(&self) -> WireStats {
        self.counters.snapshot()
    }
}

impl ClaudeDriver {
    /// Sees to it that the agent goes on with the conversation, wherever another one has left off.
    fn lead_back(&self, start: &ConversationStart) -> Option<BoxFuture<'static, Result<(), ArchiveError>>> {
        let ConversationStart::Resume { token, .. } = start else { return None };
        let archive = self.archive.as_ref()?;
        Some(archive.lead_back(archive.conversation(token)?))
    }
}

impl Driver for ClaudeDriver {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo {
            id: "claude".to_owned(),
            display_name: "Claude Code".to_owned(),
            description: "Anthropic's coding agent, run by the real Claude Code executable.".to_owned(),
            default_model: self.config.default_model.clone(),
            plans: self.config.plans(),
        }
    }

    fn settings_fingerprint(&self, working_directory: &Path) -> String {
        fingerprint(self.config.config_directory().as_deref(), working_directory)
    }

    fn workspace_configuration(&self, working_directory: &Path) -> WorkspaceConfiguration {
        Snapshot::read(working_directory, self.config.config_directory().as_deref()).configuration
    }

    fn display(&self, tool: &str, input: &RawValue, working_directory: &Path) -> ToolDisplay {
        display::display(tool, Some(input), working_directory)
    }

    fn measure(&self, prompt: &Prompt) -> usize {
        prompt::length(prompt)
    }

    fn longest_prompt(&self) -> usize {
        LONGEST_PROMPT
    }

    fn drop_images(&self, token: &ResumeToken, which: Images) -> BoxFuture<'static, Result<usize, DropError>> {
        forget::drop_images(self.config.clone(), token.clone(), which).boxed()
    }

    fn archive(&self) -> Option<Arc<dyn Archive>> {
        self.archive.clone().map(|archive| archive as Arc<dyn Archive>)
    }

    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<Opened, OpenError>> {
        let shared = open::Shared {
            config: Arc::clone(&self.config),
            versions: Arc::clone(&self.versions),
            counters: Arc::clone(&self.counters),
            own: self.archive.as_ref().map(|archive| archive.own_agents()).unwrap_or_default(),
            is_older: Arc::clone(&self.is_older),
        };
        let back = self.lead_back(&spec.conversation);
        let open = open::open(shared, spec);
        async move {
            if let Some(Err(error)) = futures::future::OptionFuture::from(back).await {
                tracing::debug!(%error, "it is not known where the agent goes on");
            }
            open.await
        }
        .boxed()
    }
}
