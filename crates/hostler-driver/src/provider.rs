use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::value::RawValue;

use crate::{
    InstallError, InstallProgressSink, OpenError, OpenSpec, OpenedConnection, Prompt, ResumeToken, ToolDisplay,
    TranscriptStore, WorkspaceConfiguration,
};

/// How a provider presents itself to people and to the protocol.
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
    /// Where the agent writes its own plans: writing there is planning, not carrying out.
    pub plans_directory: Option<PathBuf>,
}

/// The code that speaks to one provider's executable.
pub trait Driver: Send + Sync + 'static {
    /// Who this driver speaks for.
    fn describe(&self) -> ProviderInfo;

    /// What agents in this directory would be configured by, from files that the host does not know, as a fingerprint: an
    /// agent that was opened under another one is not what would be opened now.
    fn settings_fingerprint(&self, _working_directory: &Path) -> String {
        String::new()
    }

    /// What the configuration of a folder would bring to agents that work in it. Reads files; runs nothing.
    fn workspace_configuration(&self, _working_directory: &Path) -> WorkspaceConfiguration {
        WorkspaceConfiguration::default()
    }

    /// How a call of a tool with this input is shown, as the driver's own events show it. Without a name: as before.
    fn tool_display(&self, _tool: &str, _input: &RawValue, _working_directory: &Path) -> ToolDisplay {
        ToolDisplay::default()
    }

    /// How many bytes a prompt takes on its way to the agent, exactly.
    fn measure_prompt_bytes(&self, prompt: &Prompt) -> usize {
        prompt.expose().len()
            + prompt.blocks().iter().map(hostler_attachments::AttachmentBlock::content_bytes).sum::<usize>()
    }

    /// The most bytes that a prompt may take.
    fn max_prompt_bytes(&self) -> usize {
        usize::MAX
    }

    /// Takes pictures out of the agent's own record of a conversation, so that it no longer sends them; words say in their
    /// place that they are gone. No process may lead the conversation meanwhile. Says how many there were.
    fn remove_images(
        &self,
        _token: &ResumeToken,
        _which: ImageSelection,
    ) -> BoxFuture<'static, Result<usize, RemoveImagesError>> {
        Box::pin(std::future::ready(Err(RemoveImagesError::Unsupported)))
    }

    /// The conversations that the agent keeps by itself; `None` if it keeps none that can be read.
    fn transcript_store(&self) -> Option<Arc<dyn TranscriptStore>> {
        None
    }

    /// What has to be done before an agent can be opened, if there is anything: dropping it leaves it undone. An agent that
    /// is opened without it does it then.
    fn prepare(&self, _progress: InstallProgressSink) -> Option<BoxFuture<'static, Result<(), InstallError>>> {
        None
    }

    /// Starts an agent for one conversation and finishes its handshake.
    ///
    /// Dropping the returned future must not leave a process behind; neither must any error.
    fn open(&self, spec: OpenSpec) -> BoxFuture<'static, Result<OpenedConnection, OpenError>>;
}

/// Which pictures are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageSelection {
    /// Those of the last message that has any.
    Last,
    /// All of them.
    All,
}

/// Why pictures are still part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoveImagesError {
    /// Agents of this kind keep what they were told.
    #[error("this agent cannot forget a picture; begin a new session")]
    Unsupported,
    /// The record of the conversation is not there.
    #[error("the agent's record of the conversation is gone")]
    Missing,
    /// An agent leads the conversation.
    #[error("an agent still works in this conversation; stop it and try again")]
    Busy,
    /// The record could not be read or written.
    #[error("the agent's record of the conversation could not be changed: {0}")]
    Failed(String),
}
