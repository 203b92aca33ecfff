//! What a driver needs to open an agent, and the trait by which the engine controls a live one.
//!
//! Owns the open parameters, the resume token, steering messages, setting changes and the errors of opening and of a
//! connection. Does not know how an agent is started.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use secrecy::SecretString;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::{AgentRequestId, Answer, DriverEvent, FolderConfiguration, PermissionGate, Prompt, StderrTail};

/// Continues a conversation later. Only the driver that created it can interpret it.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct ResumeToken(pub String);

/// Which conversation the agent works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConversationStart {
    /// A new conversation under an id that the host chose.
    New(Uuid),
    /// A conversation that exists, under the id of its lock, continued by the token the driver reported.
    Resume {
        /// The id the conversation was created with: the key of its lock.
        id: Uuid,
        /// Where the conversation continues.
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

/// The agent's model API: the loopback gateway, with a bearer that is valid nowhere else.
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
    /// Whether the agent may search the web; some providers do not support it.
    pub web_search: bool,
    /// The permission mode, by the agent's name for it (`default` unless configured otherwise).
    pub permission_mode: String,
    /// The effort level, by the agent's name for it; `None`: the agent's default.
    pub effort: Option<String>,
    /// The token budget for thinking; `None`: the agent's default.
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

/// Facts from the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The agent's process id.
    pub pid: u32,
    /// The agent's version, if the handshake reports it.
    pub version: Option<String>,
    /// The agent's own slash commands, if the handshake reports them.
    pub commands: Vec<SlashCommand>,
    /// Whether the configuration of the working directory applies.
    pub applied_configuration: bool,
}

/// A slash command.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SlashCommand {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its arguments, as a hint for the user.
    pub argument_hint: String,
}

/// A connection whose handshake is finished.
pub struct OpenedConnection {
    /// Controls the agent.
    pub connection: Box<dyn AgentConnection>,
    /// The agent's events, in order. Closes after [`DriverEvent::ProcessExited`].
    pub events: mpsc::Receiver<DriverEvent>,
    /// Facts from the handshake.
    pub info: ConnectionInfo,
}

impl fmt::Debug for OpenedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("facts", &self.info).finish_non_exhaustive()
    }
}

/// How an agent is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseMode {
    /// Close stdin, wait until the agent has written its files, then continue as [`Now`](Self::Now).
    Graceful,
    /// SIGTERM, one second, then SIGKILL until the process tree is empty.
    Now,
}

/// A live agent process for one conversation.
///
/// All methods may be called from any task; none of them blocks on the agent's output.
pub trait AgentConnection: Send + Sync + 'static {
    /// Writes a prompt and returns its message id.
    fn send(&self, prompt: Prompt) -> BoxFuture<'_, Result<Uuid, ConnectionError>>;

    /// Interrupts the agent. The turn's end still arrives as an event.
    fn interrupt(&self) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// Answers a request of the agent. Each request can be answered once, and not after it was withdrawn.
    fn answer(&self, request: &AgentRequestId, answer: Answer) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// Holds a steer until the agent accepts it in the running turn: at the agent's next tool call (a sub-agent's
    /// call does not count). It replaces a held steer that is not delivered yet. Either
    /// [`SteerInjected`](DriverEvent::SteerInjected) or [`SteerUndelivered`](DriverEvent::SteerUndelivered) follows,
    /// unless the steer is cancelled; the latter at once if no turn runs and no prompt waits for one. The delivery of
    /// a steer with attachments takes a while; a steer that the agent does not accept within the turn is reported as
    /// undelivered.
    fn steer(&self, steer: SteeringMessage);

    /// Cancels the held steer with this id. `false` if none is held: it was delivered, or was reported as
    /// undelivered.
    fn cancel_steering(&self, id: &SteeringMessageId) -> bool;

    /// Changes a setting of the live agent; returns when the agent has confirmed it. [`ConnectionError::Refused`] if
    /// the agent does not support the change while it runs.
    fn apply_setting(&self, change: AgentSettingChange) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// Stops one background task; the consequences arrive as events.
    fn stop_task(&self, id: &str) -> BoxFuture<'_, Result<(), ConnectionError>>;

    /// The file to which the agent writes the output of a background task, as the agent reports it.
    fn task_output_path(&self, id: &str) -> Option<PathBuf>;

    /// Ends the process and everything it started; returns when its tree is empty and its lock is free. Idempotent.
    fn close(&self, mode: CloseMode) -> BoxFuture<'_, ()>;
}

/// The longest steering text, in UTF-16 units. Agents truncate a longer text or move it to a file; the limit leaves
/// room for the driver's framing.
pub const MAX_STEERING_UTF16_UNITS: usize = 8_000;

/// Names a steer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SteeringMessageId(pub String);

/// A user's message for the running turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SteeringMessage {
    /// The id that the receipts carry.
    pub id: SteeringMessageId,
    /// Text and attachments.
    pub prompt: Prompt,
}

impl SteeringMessage {
    /// Whether the text is within the size limit. A longer one is never delivered, only reported as undelivered.
    pub fn is_within_size_limit(&self) -> bool {
        self.prompt.expose().encode_utf16().count() <= MAX_STEERING_UTF16_UNITS
    }
}

/// A setting of a live agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentSettingChange {
    /// The permission mode, by the agent's name for it.
    PermissionMode(String),
    /// The model, by its id in the agent's form.
    Model(String),
    /// The effort level, by the agent's name for it; `None`: the agent's default.
    Effort(Option<String>),
    /// The token budget for thinking; `None`: the agent's default.
    ThinkingBudget(Option<u32>),
}

/// Why a connection cannot carry out a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectionError {
    /// There is no such request, or it has been answered or withdrawn.
    #[error("the request was already answered or withdrawn")]
    RequestNotOpen,
    /// The process has ended.
    #[error("the agent has exited{}", .0.as_ref().map(|s| format!(": {s}")).unwrap_or_default())]
    Exited(Option<String>),
    /// The agent answered with an error.
    #[error("the agent rejected the request: {0}")]
    Refused(String),
}

impl ConnectionError {
    /// The machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RequestNotOpen => "requestNotPending",
            Self::Exited(_) => "agentExited",
            Self::Refused(_) => "agentRefused",
        }
    }
}

/// Why an agent could not be opened.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct OpenError {
    /// What kind of failure it is.
    pub kind: OpenErrorKind,
    /// One sentence for a person, with what to do next.
    pub message: String,
    /// The redacted end of the agent's stderr.
    pub stderr: StderrTail,
}

impl OpenError {
    /// The machine-readable code, which is the code of its kind.
    pub fn code(&self) -> &'static str {
        self.kind.as_str()
    }
}

/// The kinds of failed starts that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenErrorKind {
    /// No executable, or it cannot be executed.
    ExecutableMissing,
    /// The version of the executable is not supported.
    WrongVersion,
    /// It ended before the handshake was finished.
    ExitedEarly,
    /// The handshake did not finish in time.
    HandshakeTimeout,
    /// The agent refused the handshake.
    HandshakeRefused,
    /// Another process of this user runs the conversation.
    ConversationBusy,
    /// The agent's transcript of the conversation is missing, so it cannot be continued.
    ConversationMissing,
    /// The working directory does not exist.
    NoWorkingDirectory,
    /// The agent's upstream requires a sign-in, and there is none.
    SignInRequired,
    /// Anything else.
    Other,
}

impl OpenErrorKind {
    /// The machine-readable code that clients see as the error's type.
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
