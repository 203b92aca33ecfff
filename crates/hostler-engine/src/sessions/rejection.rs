//! `ActionRejection`: why a dispatched action is rejected, with a message for a person and a code for programs.

use hostler_driver::ConnectionError;
use hostler_rules::RuleStoreError;
use hostler_store::{PublishedRejection, StoreError};

use crate::EngineError;
use crate::attachments::AttachmentRejection;
use crate::error::InvalidParams;
use crate::permissions::pending_requests::AnswerError;
use crate::sessions::annotations::AnnotationError;
use crate::sessions::config::ConfigValueError;
use crate::terminals::TerminalActionError;

/// Why a client's action is rejected.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ActionRejection {
    /// The channel does not support the action.
    #[error("this host does not support the action on this channel")]
    Unsupported,
    /// There is no such chat.
    #[error("the chat does not exist")]
    ChatNotFound,
    /// The chat belongs to a sub-agent.
    #[error("the chat of a sub-agent is read-only; only its requests can be answered")]
    SubAgentChatReadOnly,

    /// The session has too many active clients.
    #[error("a session can have at most {max} active clients; one of them must leave first")]
    TooManyActiveClients {
        /// The limit.
        max: usize,
    },
    /// The client is not active in the session.
    #[error("the client is not active in this session")]
    ClientNotActive,
    /// The directory's URI is not the normalized one.
    #[error("use the normalized URI of the directory: {uri:?}")]
    DirectoryNotNormalized {
        /// The normalized URI.
        uri: String,
    },
    /// The primary directory cannot be removed.
    #[error("the first working directory of a session cannot be removed")]
    PrimaryDirectory,
    /// The directory is not one of the session's.
    #[error("the directory is not a working directory of this session")]
    DirectoryNotInSession,
    /// The title is empty or too long.
    #[error("a title must have 1 to {max} bytes")]
    InvalidTitle {
        /// Maximum length in bytes.
        max: usize,
    },

    /// A turn is running.
    #[error("a turn is running; queue the message, or wait until the turn has ended")]
    TurnActive,
    /// Another process is running a turn.
    #[error("another process is running a turn in this conversation; wait until it has ended")]
    ActiveElsewhere,
    /// The turn was cancelled while its message waited for the transcript.
    #[error("the turn was cancelled before it started")]
    CancelledBeforeStart,
    /// The turn's id is empty or in use.
    #[error("the turn ID is empty or already in use; use a new one")]
    InvalidTurnId,
    /// No turn is running.
    #[error("no turn is running")]
    NoActiveTurn,
    /// Another turn is running.
    #[error("another turn is running")]
    OtherTurnActive,
    /// The turn has ended.
    #[error("the turn has already ended")]
    TurnEnded,
    /// Only the last turn can be resumed.
    #[error("only the last turn can be resumed")]
    NotLastTurn,
    /// The turn did not fail, or cannot be resumed.
    #[error("the turn did not fail, or it cannot be resumed")]
    TurnNotResumable,
    /// The host itself carried out the turn.
    #[error("a command of the host cannot be resumed; send the message again")]
    LocalTurnNotResumable,
    /// A turn waits for the sub-agent.
    #[error("the turn {turn:?} of {chat} waits for this sub-agent; cancel that turn instead")]
    SubAgentInForeground {
        /// The turn that waits.
        turn: String,
        /// Its chat.
        chat: String,
    },
    /// The sub-agent ends with its parent's turn.
    #[error("this sub-agent is about to end with the turn of {chat}")]
    SubAgentEnding {
        /// The parent's chat.
        chat: String,
    },

    /// The message's id is empty.
    #[error("the message needs an ID")]
    InvalidMessageId,
    /// The message has no text and no attachments.
    #[error("the message is empty")]
    MessageEmpty,
    /// The message is not the user's.
    #[error("a client can only send messages of its user")]
    NotUserMessage,
    /// The message's attachments were not planned.
    #[error("the attachments of the message were not prepared; send it again")]
    AttachmentsNotPrepared,
    /// The attachments cannot be sent.
    #[error(transparent)]
    Attachments(#[from] AttachmentRejection),
    /// The command line is empty.
    #[error("the command is empty; write it after the {prefix:?}, as in \"{prefix}ls\"")]
    EmptyCommand {
        /// The prefix of commands.
        prefix: &'static str,
    },
    /// The queue is full.
    #[error("the queue is full ({max} messages); wait until a turn has ended, or remove a message")]
    QueueFull {
        /// The limit.
        max: usize,
    },
    /// No message is queued.
    #[error("the queue is empty")]
    QueueEmpty,
    /// The message is not queued.
    #[error("the message is not in the queue")]
    MessageNotQueued,
    /// The message is queued already.
    #[error("the message is in the queue; remove it from the queue first")]
    MessageAlreadyQueued,
    /// The queued message has become a turn.
    #[error("the message has already become a turn; cancel the turn instead")]
    MessageAlreadySent,
    /// The message is a steer of the running turn.
    #[error("the message is being delivered to the running turn; withdraw it first")]
    MessageIsSteering,
    /// The message is not a steer of the running turn.
    #[error("the message does not wait for the running turn")]
    MessageNotSteering,
    /// The agent has received the steer.
    #[error("the agent has already received the message")]
    MessageAlreadyDelivered,

    /// A configuration value is invalid.
    #[error(transparent)]
    Config(#[from] ConfigValueError),
    /// Too many changes of the permission mode are pending.
    #[error("too many changes of the permission mode are pending; wait for the agent")]
    TooManyModeChanges,
    /// The agent did not apply the permission mode.
    #[error("the agent did not apply the permission mode and was stopped: {0}")]
    ModeNotApplied(ConnectionError),

    /// The answer to a request is invalid.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A rule or the permission mode denies the call.
    #[error("the call cannot be allowed: {reason}")]
    CallDenied {
        /// Why the call is denied.
        reason: String,
    },
    /// A permanent rule could not be stored.
    #[error("{0}; the call can still be allowed once")]
    RuleNotStored(RuleStoreError),
    /// The folder's configuration has changed since the question was created.
    #[error("the configuration of this folder has changed; review it again")]
    FolderChanged,

    /// A change of annotations is invalid.
    #[error(transparent)]
    Annotation(#[from] AnnotationError),
    /// An action on a terminal is invalid.
    #[error(transparent)]
    Terminal(#[from] TerminalActionError),
    /// Another error of the engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ActionRejection {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsupported => "unsupportedAction",
            Self::ChatNotFound => "chatNotFound",
            Self::SubAgentChatReadOnly => "chatReadOnly",
            Self::TooManyActiveClients { .. } => "tooManyActiveClients",
            Self::ClientNotActive => "clientNotActive",
            Self::DirectoryNotNormalized { .. } => "directoryNotNormalized",
            Self::PrimaryDirectory => "primaryDirectory",
            Self::DirectoryNotInSession => "directoryNotInSession",
            Self::InvalidTitle { .. } => "invalidTitle",
            Self::TurnActive => "turnActive",
            Self::ActiveElsewhere => "activeElsewhere",
            Self::CancelledBeforeStart => "cancelledBeforeStart",
            Self::InvalidTurnId => "invalidTurnId",
            Self::NoActiveTurn => "noActiveTurn",
            Self::OtherTurnActive => "otherTurnActive",
            Self::TurnEnded => "turnEnded",
            Self::NotLastTurn => "notLastTurn",
            Self::TurnNotResumable | Self::LocalTurnNotResumable => "turnNotResumable",
            Self::SubAgentInForeground { .. } => "subAgentInForeground",
            Self::SubAgentEnding { .. } => "subAgentEnding",
            Self::InvalidMessageId => "invalidMessageId",
            Self::MessageEmpty => "messageEmpty",
            Self::NotUserMessage => "notUserMessage",
            Self::AttachmentsNotPrepared => "attachmentsNotPrepared",
            Self::Attachments(error) => error.code(),
            Self::EmptyCommand { .. } => "emptyCommand",
            Self::QueueFull { .. } => "queueFull",
            Self::QueueEmpty => "queueEmpty",
            Self::MessageNotQueued => "messageNotQueued",
            Self::MessageAlreadyQueued => "messageAlreadyQueued",
            Self::MessageAlreadySent => "messageAlreadySent",
            Self::MessageIsSteering => "messageIsSteering",
            Self::MessageNotSteering => "messageNotSteering",
            Self::MessageAlreadyDelivered => "messageAlreadyDelivered",
            Self::Config(error) => error.code(),
            Self::TooManyModeChanges => "tooManyModeChanges",
            Self::ModeNotApplied(_) => "modeNotApplied",
            Self::Answer(error) => error.code(),
            Self::CallDenied { .. } => "callDenied",
            Self::RuleNotStored(error) => error.code(),
            Self::FolderChanged => "folderChanged",
            Self::Annotation(error) => error.code(),
            Self::Terminal(error) => error.code(),
            Self::Engine(error) => error.code(),
        }
    }
}

impl From<StoreError> for ActionRejection {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

impl From<InvalidParams> for ActionRejection {
    fn from(error: InvalidParams) -> Self {
        Self::Engine(error.into())
    }
}

impl From<ActionRejection> for PublishedRejection {
    fn from(rejection: ActionRejection) -> Self {
        Self { code: rejection.code(), message: rejection.to_string() }
    }
}
