//! The Claude Code driver: its configuration and its implementation of [`Driver`].

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hostler_driver::{
    ConversationStart, Driver, ImageSelection, OpenError, OpenSpec, OpenedConnection, Prompt, ProviderInfo,
    RemoveImagesError, ResumeToken, ToolDisplay, TranscriptStore, TranscriptStoreError, WorkspaceConfiguration,
};
use hostler_process::SupervisorCommand;
use serde_json::value::RawValue;

use crate::Executable;
use crate::open;
use crate::prompt;
use crate::remove_images;
use crate::settings_fingerprint::settings_fingerprint;
use crate::tool_display;
use crate::transcript_locator::config_directory;
use crate::transcripts::ClaudeTranscriptStore;
use crate::version::{ClaudeVersion, VersionCache};
use crate::wire_stats::{WireCounters, WireStats};
use crate::workspace::{self, ConfigurationSnapshot};

/// Timeout of a handshake, cold caches and slow disks included.
pub const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest line of a prompt. Both builds accept more, but the provider accepts requests of 32 MB, and the agent
/// adds its own instructions and the conversation.
const MAX_PROMPT_BYTES: usize = 28_000_000;

/// What the driver needs from its host.
#[derive(Clone)]
pub struct ClaudeConfig {
    /// The executable to start.
    pub executable: Executable,
    /// The host's own environment.
    pub host_environment: Vec<(OsString, OsString)>,
    /// Names of variables that contain an upstream's credential: no agent may see them.
    pub upstream_credentials: Vec<OsString>,
    /// Variables that the configuration adds to every agent's environment.
    pub agent_env: Vec<(OsString, OsString)>,
    /// The supervisor of the agents.
    pub supervisor: SupervisorCommand,
    /// The directory of the conversation locks.
    pub runtime_dir: PathBuf,
    /// This host's description for other hosts that need one of its conversations.
    pub lock_holder: String,
    /// Timeout of a handshake.
    pub handshake_timeout: Duration,
    /// The oldest supported version.
    pub min_version: ClaudeVersion,
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
            lock_holder: "another host".to_owned(),
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            min_version: ClaudeVersion::oldest_tested(),
            default_model: "claude-sonnet-4-5".to_owned(),
        }
    }
}

impl ClaudeConfig {
    fn plans_directory(&self) -> Option<PathBuf> {
        Some(self.config_directory()?.join("plans"))
    }

    /// The agents' configuration directory.
    pub(crate) fn config_directory(&self) -> Option<PathBuf> {
        let variable = |name: &str| {
            let mut all = self.agent_env.iter().chain(&self.host_environment);
            all.find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
        };
        config_directory(variable)
    }
}

/// The directory to which newer builds let the model write its plan, also in plan mode.
pub fn plans_directory<'a>(variable: impl Fn(&str) -> Option<&'a OsStr>) -> Option<PathBuf> {
    Some(config_directory(variable)?.join("plans"))
}

impl fmt::Debug for ClaudeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environments contain secrets.
        f.debug_struct("ClaudeConfig")
            .field("executable", &self.executable)
            .field("runtime_dir", &self.runtime_dir)
            .field("handshake_timeout", &self.handshake_timeout)
            .field("min_version", &self.min_version)
            .finish_non_exhaustive()
    }
}

/// Starts Claude Code and reads its transcripts.
pub struct ClaudeDriver {
    config: Arc<ClaudeConfig>,
    versions: Arc<VersionCache>,
    transcript_store: Option<Arc<ClaudeTranscriptStore>>,
    counters: Arc<WireCounters>,
    lacks_config_root: Arc<AtomicBool>,
}

impl fmt::Debug for ClaudeDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaudeDriver").field("config", &self.config).finish_non_exhaustive()
    }
}

impl ClaudeDriver {
    /// A driver for one executable. Removes staged configurations of killed hosts from the runtime directory.
    pub fn new(config: ClaudeConfig) -> Self {
        workspace::remove_stale_stages(&config.runtime_dir, &config.lock_holder);
        let transcript_store = config
            .config_directory()
            .map(|directory| Arc::new(ClaudeTranscriptStore::for_config_directory(&directory)));
        Self {
            config: Arc::new(config),
            versions: Arc::default(),
            transcript_store,
            counters: Arc::default(),
            lacks_config_root: Arc::default(),
        }
    }

    /// What its connections have read and skipped. Counts of unknown and sub-agent messages are added when a
    /// connection ends.
    pub fn stats(&self) -> WireStats {
        self.counters.snapshot()
    }
}

impl ClaudeDriver {
    /// Ensures that the agent continues from the active branch, whatever branch another agent noted last.
    fn ensure_active_branch(
        &self,
        start: &ConversationStart,
    ) -> Option<BoxFuture<'static, Result<(), TranscriptStoreError>>> {
        let ConversationStart::Resume { token, .. } = start else { return None };
        let archive = self.transcript_store.as_ref()?;
        Some(archive.ensure_active_branch(archive.conversation_id(token)?))
    }
}

impl Driver for ClaudeDriver {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo {
            id: "claude".to_owned(),
            display_name: "Claude Code".to_owned(),
            description: "Anthropic's coding agent, run by the Claude Code executable.".to_owned(),
            default_model: self.config.default_model.clone(),
            plans_directory: self.config.plans_directory(),
        }
    }

    fn settings_fingerprint(&self, working_directory: &Path) -> String {
        settings_fingerprint(self.config.config_directory().as_deref(), working_directory)
    }

    fn workspace_configuration(&self, working_directory: &Path) -> WorkspaceConfiguration {
        ConfigurationSnapshot::read(working_directory, self.config.config_directory().as_deref()).configuration
    }

    fn tool_display(&self, tool: &str, input: &RawValue, working_directory: &Path) -> ToolDisplay {
        tool_display::display_tool_call(tool, Some(input), working_directory)
    }

    fn measure_prompt_bytes(&self, prompt: &Prompt) -> usize {
        prompt::line_length(prompt)
    }

    fn max_prompt_bytes(&self) -> usize {
        MAX_PROMPT_BYTES
    }

    fn remove_images(
        &self,
        token: &ResumeToken,
        which: ImageSelection,
    ) -> BoxFuture<'static, Result<usize, RemoveImagesError>> {
        remove_images::remove_images(self.config.clone(), token.clone(), which).boxed()
    }

    fn transcript_store(&self) -> Option<Arc<dyn TranscriptStore>> {
        self.transcript_store.clone().map(|archive| archive as Arc<dyn TranscriptStore>)
    }

    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<OpenedConnection, OpenError>> {
        let shared = open::OpenContext {
            config: Arc::clone(&self.config),
            versions: Arc::clone(&self.versions),
            counters: Arc::clone(&self.counters),
            host_agents: self.transcript_store.as_ref().map(|archive| archive.host_agents()).unwrap_or_default(),
            lacks_config_root: Arc::clone(&self.lacks_config_root),
        };
        let back = self.ensure_active_branch(&spec.conversation);
        let open = open::open_connection(shared, spec);
        async move {
            if let Some(Err(error)) = futures::future::OptionFuture::from(back).await {
                tracing::debug!(%error, "failed to determine the active branch of the transcript");
            }
            open.await
        }
        .boxed()
    }
}
