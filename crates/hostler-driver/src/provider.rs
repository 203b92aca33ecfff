//! The [`Driver`] trait: what the engine asks of the code behind one provider.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::value::RawValue;

use crate::{
    InstallError, InstallProgressSink, OpenError, OpenSpec, OpenedConnection, Prompt, ResumeToken, ToolDisplay,
    TranscriptStore, WorkspaceConfiguration,
};

/// A provider's name and defaults, for clients and for the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderInfo {
    /// The provider's id; a legal URI scheme, since session URIs are `<id>:/<uuid>`.
    pub id: String,
    /// The name that clients show.
    pub display_name: String,
    /// One sentence about the agent.
    pub description: String,
    /// The model that is used when a message names none.
    pub default_model: String,
    /// The directory to which the agent writes its plans; writes there count as planning.
    pub plans_directory: Option<PathBuf>,
}

/// Runs one provider's executable.
pub trait Driver: Send + Sync + 'static {
    /// The provider of this driver.
    fn describe(&self) -> ProviderInfo;

    /// A fingerprint of the settings files, unknown to the host, that configure agents in this directory. An agent
    /// that was opened under another fingerprint has outdated settings.
    fn settings_fingerprint(&self, _working_directory: &Path) -> String {
        String::new()
    }

    /// The configuration that a folder brings to agents in it. Reads files and runs nothing.
    fn workspace_configuration(&self, _working_directory: &Path) -> WorkspaceConfiguration {
        WorkspaceConfiguration::default()
    }

    /// How a call of a tool with this input is displayed, the same as in the driver's events. An empty name retains the
    /// previous display.
    fn tool_display(&self, _tool: &str, _input: &RawValue, _working_directory: &Path) -> ToolDisplay {
        ToolDisplay::default()
    }

    /// The exact number of bytes that a prompt takes on the wire to the agent.
    fn measure_prompt_bytes(&self, prompt: &Prompt) -> usize {
        prompt.expose().len()
            + prompt.blocks().iter().map(hostler_attachments::AttachmentBlock::content_bytes).sum::<usize>()
    }

    /// The largest prompt, in bytes.
    fn max_prompt_bytes(&self) -> usize {
        usize::MAX
    }

    /// Removes images from the agent's transcript, so that it no longer sends them; a text takes the place of each.
    /// No process may run the conversation meanwhile. Returns how many images were removed.
    fn remove_images(
        &self,
        _token: &ResumeToken,
        _which: ImageSelection,
    ) -> BoxFuture<'static, Result<usize, RemoveImagesError>> {
        Box::pin(std::future::ready(Err(RemoveImagesError::Unsupported)))
    }

    /// The transcripts that the agent stores; `None` if it stores none that can be read.
    fn transcript_store(&self) -> Option<Arc<dyn TranscriptStore>> {
        None
    }

    /// Preparation that is needed before an agent can be opened (an install), if any. Dropping the future cancels it;
    /// [`open`](Self::open) then does it itself.
    fn prepare(&self, _progress: InstallProgressSink) -> Option<BoxFuture<'static, Result<(), InstallError>>> {
        None
    }

    /// Starts an agent for one conversation and finishes its handshake.
    ///
    /// Dropping the returned future must not leave a process behind; neither must any error.
    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<OpenedConnection, OpenError>>;
}

/// Which images to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageSelection {
    /// Those of the last message that has images.
    Last,
    /// All images.
    All,
}

/// Why images could not be removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveImagesError {
    /// Agents of this kind cannot change their transcript.
    #[error("this agent does not support removing images; start a new session")]
    Unsupported,
    /// The transcript does not exist.
    #[error("the agent's transcript of the conversation does not exist")]
    Missing,
    /// An agent is running in the conversation.
    #[error("an agent is running in this conversation; stop it and try again")]
    Busy,
    /// The transcript could not be read or written.
    #[error("failed to update the agent's transcript: {0}")]
    Failed(String),
}

impl RemoveImagesError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsupported => "imageRemovalUnsupported",
            Self::Missing => "transcriptNotFound",
            Self::Busy => "agentBusy",
            Self::Failed(_) => "transcriptNotWritable",
        }
    }
}
