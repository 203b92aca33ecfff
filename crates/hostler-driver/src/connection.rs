use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use secrecy::SecretString;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::{AgentRequestId, Answer, DriverEvent, FolderConfiguration, PermissionGate, Prompt, StderrTail};

/// What continues a conversation later: opaque to everybody but the driver that gave it.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ResumeToken(pub String);

/// Which dialogue the agent is to lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationStart {
    /// A new conversation under an id that the host chose.
    New(Uuid),
    /// A conversation that exists, under the id of its lock, continued by the token the driver reported.
    Resume {
        /// The id the conversation was created with: the key of its lock.
        id: Uuid,
        /// Where it goes on.
        token: ResumeToken,
    },
}

impl ConversationStart {
    /// The conversation's id, which is also the key of its cross-host lock.
    pub fn id(&self) -> Uuid {
        match self {
            Self::New(id) | Self::Resume { id, .. } => *id,
        }
    }
}

/// Where the agent finds its model: the loopback gateway, with a bearer that is worth nothing elsewhere.
#[derive(Debug, Clone)]
pub struct GatewayEndpoint {
    /// `http://127.0.0.1:<port>`, without a trailing slash.
    pub base_url: String,
    /// The whole bearer, `<nonce>.<id>`.
    pub bearer: SecretString,
}

/// Everything a driver needs to open a connection.
#[derive(Clone)]
pub struct OpenSpec {
    /// New or continued.
    pub conversation: ConversationStart,
    /// An existing directory.
    pub working_directory: PathBuf,
    /// The model's id in the agent's form.
    pub model: String,
    /// Whether the agent may search the web: some providers cannot do it.
    pub web_search: bool,
    /// The permission mode, in the agent's words (`default` unless configured otherwise).
    pub permission_mode: String,
    /// How hard the model is to think, in the agent's words; absent: the agent's own choice.
    pub effort: Option<String>,
    /// How many tokens it may spend on thinking; absent: the agent's own choice.
    pub thinking_budget: Option<u32>,
    /// Directories beside the working directory that the agent may use.
    pub additional_directories: Vec<PathBuf>,
    /// Whether the configuration of the working directory applies.
    pub folder_configuration: FolderConfiguration,
    /// The gateway.
    pub endpoint: GatewayEndpoint,
    /// Decides on every tool call.
    pub permission_gate: Arc<dyn PermissionGate>,
}

impl fmt::Debug for OpenSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSpec")
            .field("conversation", &self.conversation)
            .field("working_directory", &self.working_directory)
            .field("model", &self.model)
            .field("permission_mode", &self.permission_mode)
            .finish_non_exhaustive()
    }
}

/// Facts that the handshake established.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The agent's process id.
    pub pid: u32,
    /// The agent's version, where the handshake tells it.
    pub version: Option<String>,
    /// The commands that the agent itself knows, where the handshake tells them.
    pub commands: Vec<SlashCommand>,
    /// Whether the configuration of the working directory applies.
    pub applied_configuration: bool,
}

/// A command that begins with a slash.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may stand behind it.
    pub argument_hint: String,
}

/// A connection whose handshake is finished.
pub struct OpenedConnection {
    /// The way to the agent.
    pub connection: Box<dyn AgentConnection>,
    /// What the agent does, in order. Closes after [`DriverEvent::Gone`].
    pub events: mpsc::Receiver<DriverEvent>,
    /// What is known about it.
    pub info: ConnectionInfo,
}

impl fmt::Debug for OpenedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("facts", &self.info).finish_non_exhaustive()
    }
}

/// How much politeness a close may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// Close stdin, let the agent finish writing its files, then the ladder.
    Graceful,
    /// The ladder at once: SIGTERM, one second, SIGKILL, until the tree is empty.
    Now,
}

/// A live agent process for one conversation.
///
/// All methods may be called from any task; none of them blocks on the agent's output.
pub trait AgentConnection: Send + Sync + 'static {
    /// Writes a prompt and returns the id that the agent will know it by.
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<Uuid, ConnectionError>>;

    /// Asks the agent to stop what it is doing. The turn's end still arrives as an event.
    fn interrupt(&self) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// Answers a request of the agent. Each can be answered once, and none after it was withdrawn.
    fn answer(&self, request: &AgentRequestId, answer: Answer) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// Holds a person's words for the agent until it can be told in the middle of its turn: at the next tool call of
    /// its own (a sub-agent's does not count). What was held before and not told is replaced. Either
    /// [`SteerInjected`](DriverEvent::SteerInjected) or [`SteerUndelivered`](DriverEvent::SteerUndelivered) follows,
    /// unless it is taken back: at once if no turn runs and no prompt waits for one. With attachments it may be on its way
    /// for a while; what the agent cannot be told in the middle of a turn is given back.
    fn steer(&self, steer: SteeringMessage);

    /// Takes words back that are held under this id. `false` if they are not: the agent was told, or will not be.
    fn cancel_steering(&self, id: &SteeringMessageId) -> bool;

    /// Changes the rules that the agent works under; returns when the agent has taken the change.
    /// [`ConnectionError::Refused`] where the agent cannot take it while it lives.
    fn apply_setting(&self, change: AgentSettingChange) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// Ends one piece of background work; what follows from it arrives as events.
    fn stop_task(&self, id: &str) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// Where the agent says that it writes the output of a piece of background work.
    fn task_output_path(&self, id: &str) -> Option<PathBuf>;

    /// Ends the process and everything it started; returns when its tree is empty and its lock is free.
    /// Calling it twice is the same as calling it once.
    fn close(&self, mode: CloseMode) -> BoxFuture<'_, ()>;
}

/// The longest words that an agent can be told in the middle of its turn, in UTF-16 units. Agents cut what is longer, or
/// put it into a file; this leaves room for what a driver says around it.
pub const MAX_STEERING_UTF16_UNITS: usize = 8_000;

/// Names a person's words that are to be folded into a running turn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SteeringMessageId(pub String);

/// A person's words for an agent that is working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SteeringMessage {
    /// What the receipts name.
    pub id: SteeringMessageId,
    /// The words.
    pub prompt: Prompt,
}

impl SteeringMessage {
    /// Whether the words are short enough to be told. Longer ones are never told, only given back.
    pub fn is_within_size_limit(&self) -> bool {
        self.prompt.expose().encode_utf16().count() <= MAX_STEERING_UTF16_UNITS
    }
}

/// A rule that an agent works under, and that may change while it lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentSettingChange {
    /// The permission mode, in the agent's words.
    PermissionMode(String),
    /// The model, by its id in the agent's form.
    Model(String),
    /// How hard the model is to think, in the agent's words; absent: the agent's own choice.
    Effort(Option<String>),
    /// How many tokens it may spend on thinking; absent: the agent's own choice.
    ThinkingBudget(Option<u32>),
}

/// The connection cannot do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ConnectionError {
    /// There is no such request, or it has been answered or withdrawn.
    #[error("the request is no longer open")]
    RequestNotOpen,
    /// The process has ended.
    #[error("the agent has ended{}", .0.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
    Exited(Option<String>),
    /// The agent answered with an error.
    #[error("the agent refused: {0}")]
    Refused(String),
}

/// Why an agent could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct OpenError {
    /// What kind of failure it is.
    pub kind: OpenErrorKind,
    /// One sentence for a person, with what to do next.
    pub message: String,
    /// The redacted end of what the agent wrote to stderr.
    pub stderr: StderrTail,
}

/// The kinds of failed starts that callers tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenErrorKind {
    /// No executable, or it cannot be executed.
    ExecutableMissing,
    /// The executable is a version that cannot be driven.
    WrongVersion,
    /// It ended before the handshake was finished.
    ExitedEarly,
    /// The handshake did not finish in time.
    HandshakeTimeout,
    /// The agent refused the handshake.
    HandshakeRefused,
    /// Another process of this user drives the conversation.
    ConversationBusy,
    /// The agent's own record of the conversation is gone, so that it cannot be continued.
    ConversationMissing,
    /// The working directory is gone.
    NoWorkingDirectory,
    /// Nobody has signed in to what the agent is to work with.
    SignInRequired,
    /// Anything else.
    Other,
}

impl OpenErrorKind {
    /// The machine-readable name that clients see as the error's type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExecutableMissing => "agentMissing",
            Self::WrongVersion => "agentVersion",
            Self::ExitedEarly => "agentExited",
            Self::HandshakeTimeout => "agentTimeout",
            Self::HandshakeRefused => "agentRefused",
            Self::ConversationBusy => "conversationBusy",
            Self::ConversationMissing => "conversationMissing",
            Self::NoWorkingDirectory => "workingDirectoryMissing",
            Self::SignInRequired => "auth",
            Self::Other => "agentStartFailed",
        }
    }
}
