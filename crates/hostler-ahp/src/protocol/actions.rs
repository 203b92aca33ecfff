//! The actions of AHP's union, one row each.

use ahp_types::StateAction;
use serde_json::Value;

use super::AllowedSender::{Client, Host, OwnClient, ToolOwner};
use super::ChannelKind::{
    Annotations, AutomationRun, Automations, Canvas, Changeset, Chat, ResourceWatch, Root, Session, Terminal,
};
use super::HostSupport::{NotOffered, Offered};
use super::{AllowedSender, ChannelKind, HostSupport, SinceVersion};

/// Properties of an action.
#[derive(Debug)]
pub(crate) struct ActionRow {
    pub(crate) name: &'static str,
    /// Kinds of channels that it belongs to.
    pub(crate) channels: &'static [ChannelKind],
    pub(crate) allowed_sender: AllowedSender,
    pub(crate) since: SinceVersion,
    pub(crate) support: HostSupport,
    /// When it is accepted; empty if always, or if only the host dispatches it.
    pub(crate) precondition: &'static str,
    /// Parses it, for the reason why parsing fails.
    parse: fn(Value) -> serde_json::Result<StateAction>,
}

impl ActionRow {
    /// Why a value cannot be parsed as this action.
    pub(crate) fn parse_error(&self, value: Value) -> Option<serde_json::Error> {
        (self.parse)(value).err()
    }
}

macro_rules! actions {
    ($($variant:ident $name:literal $channels:tt $by:ident $since:tt $here:expr, $when:literal;)+) => {
        /// All actions.
        pub(crate) static ALL: &[&ActionRow] = &[$(&rows::$variant),+];

        /// The row of an action; `None` if the protocol's types do not know it. The compiler checks that every action
        /// of the union has one.
        pub(crate) fn row(action: &StateAction) -> Option<&'static ActionRow> {
            match action {
                $(StateAction::$variant(_) => Some(&rows::$variant),)+
                StateAction::Unknown(_) => None,
            }
        }

        #[allow(non_upper_case_globals, reason = "each row has the name of its action")]
        mod rows {
            use super::*;
            $(pub(super) static $variant: ActionRow = ActionRow {
                name: $name,
                channels: &$channels,
                allowed_sender: $by,
                since: SinceVersion $since,
                support: $here,
                precondition: $when,
                parse: |value| serde_json::from_value(value).map(StateAction::$variant),
            };)+
        }

        #[cfg(test)]
        pub(super) fn in_the_types() -> Vec<ahp_types::ActionType> {
            vec![$(ahp_types::ActionType::$variant),+]
        }
    };
}

/// The row of the action with this name.
pub(crate) fn find_by_name(name: &str) -> Option<&'static ActionRow> {
    ALL.iter().find(|action| action.name == name).copied()
}

const MULTIPLE_CHATS: HostSupport = NotOffered("several chats in a session");
const CHAT_DIRECTORIES: HostSupport = NotOffered("changes of a session's first directory, or directories of a chat");
const CHANGESETS: HostSupport = NotOffered("changesets");
const CANVASES: HostSupport = NotOffered("canvases");
const AUTOMATIONS: HostSupport = NotOffered("automations");
const CUSTOMIZATIONS: HostSupport = NotOffered("customizations");
const MCP_SERVERS: HostSupport = NotOffered("MCP servers that clients start and stop");
const MCP_AUTH: HostSupport = NotOffered("sign-ins for MCP servers");

actions! {
    RootAgentsChanged "root/agentsChanged" [Root] Host (0, 1, 0) Offered, "";
    RootActiveSessionsChanged "root/activeSessionsChanged" [Root] Host (0, 1, 0) NotOffered("a count of active sessions"), "";
    RootTerminalsChanged "root/terminalsChanged" [Root] Host (0, 1, 0) Offered, "";
    RootConfigChanged "root/configChanged" [Root] Client (0, 1, 0) Offered, "all values together are smaller than 1 MiB";

    SessionReady "session/ready" [Session] Host (0, 1, 0) Offered, "";
    SessionCreationFailed "session/creationFailed" [Session] Host (0, 1, 0) NotOffered("sessions whose creation fails: a failed start is a failed turn, and the next message starts the agent again"), "";
    SessionChatAdded "session/chatAdded" [Session] Host (0, 4, 0) Offered, "";
    SessionChatRemoved "session/chatRemoved" [Session] Host (0, 4, 0) MULTIPLE_CHATS, "";
    SessionChatUpdated "session/chatUpdated" [Session] Host (0, 4, 0) Offered, "";
    SessionChatsReordered "session/chatsReordered" [Session] Host (0, 9, 0) MULTIPLE_CHATS, "";
    SessionDefaultChatChanged "session/defaultChatChanged" [Session] Host (0, 4, 0) MULTIPLE_CHATS, "";
    // VS Code dispatches this on the chat's channel to rename a chat.
    SessionTitleChanged "session/titleChanged" [Session, Chat] Client (0, 1, 0) Offered, "the title has 1 to 1000 bytes";
    SessionServerToolsChanged "session/serverToolsChanged" [Session] Host (0, 1, 0) NotOffered("a list of the agent's tools"), "";
    SessionActiveClientSet "session/activeClientSet" [Session] OwnClient (0, 5, 0) Offered, "";
    SessionActiveClientRemoved "session/activeClientRemoved" [Session] OwnClient (0, 5, 0) Offered, "the client is active in the session";
    SessionWorkingDirectorySet "session/workingDirectorySet" [Session] Client (0, 7, 0) Offered, "the directory exists and its URI is in the host's form";
    SessionWorkingDirectoryRemoved "session/workingDirectoryRemoved" [Session] Client (0, 7, 0) Offered, "the directory is in the session and is not the first";
    SessionWorkingDirectoryReplaced "session/workingDirectoryReplaced" [Session] Client (0, 8, 0) CHAT_DIRECTORIES, "";
    SessionInputNeededSet "session/inputNeededSet" [Session] Host (0, 5, 1) Offered, "";
    SessionInputNeededRemoved "session/inputNeededRemoved" [Session] Host (0, 5, 1) Offered, "";
    SessionCustomizationsChanged "session/customizationsChanged" [Session] Host (0, 1, 0) CUSTOMIZATIONS, "";
    SessionCustomizationUpdated "session/customizationUpdated" [Session] Host (0, 1, 0) CUSTOMIZATIONS, "";
    SessionCustomizationRemoved "session/customizationRemoved" [Session] Host (0, 2, 0) CUSTOMIZATIONS, "";
    SessionCustomizationToggled "session/customizationToggled" [Session] Client (0, 1, 0) CUSTOMIZATIONS, "";
    SessionMcpServerStateChanged "session/mcpServerStateChanged" [Session] Host (0, 3, 0) MCP_SERVERS, "";
    SessionMcpServerStartRequested "session/mcpServerStartRequested" [Session] Client (0, 5, 2) MCP_SERVERS, "";
    SessionMcpServerStopRequested "session/mcpServerStopRequested" [Session] Client (0, 5, 2) MCP_SERVERS, "";
    SessionMcpServerBackgroundRequested "session/mcpServerBackgroundRequested" [Session] Client (0, 9, 0) MCP_SERVERS, "";
    SessionIsReadChanged "session/isReadChanged" [Session] Client (0, 1, 0) Offered, "";
    SessionIsArchivedChanged "session/isArchivedChanged" [Session] Client (0, 1, 0) Offered, "";
    SessionActivityChanged "session/activityChanged" [Session] Host (0, 1, 0) NotOffered("an activity of the session, because each chat has its own"), "";
    SessionChangesetsChanged "session/changesetsChanged" [Session] Host (0, 2, 0) CHANGESETS, "";
    SessionConfigChanged "session/configChanged" [Session] Client (0, 1, 0) Offered, "the keys can be changed and the values match the schema";
    SessionMetaChanged "session/metaChanged" [Session] Host (0, 1, 0) Offered, "";

    ChatTurnStarted "chat/turnStarted" [Chat] Client (0, 4, 0) Offered, "no turn is running, the id is new, the message is from the user and not empty, and the queued message that it refers to, if any, is in the queue";
    ChatResponsePart "chat/responsePart" [Chat] Host (0, 4, 0) Offered, "";
    ChatDelta "chat/delta" [Chat] Host (0, 4, 0) Offered, "";
    ChatReasoning "chat/reasoning" [Chat] Host (0, 4, 0) Offered, "";
    ChatUsage "chat/usage" [Chat] Host (0, 4, 0) Offered, "";
    ChatTurnComplete "chat/turnComplete" [Chat] Host (0, 4, 0) Offered, "";
    ChatTurnCancelled "chat/turnCancelled" [Chat] Client (0, 4, 0) Offered, "that turn is running";
    ChatError "chat/error" [Chat] Host (0, 4, 0) Offered, "";
    ChatTurnResume "chat/turnResume" [Chat] Client (0, 9, 0) Offered, "no turn is running, and the turn is the last one and ended with a resumable error";
    ChatToolCallStart "chat/toolCallStart" [Chat] Host (0, 4, 0) Offered, "";
    ChatToolCallDelta "chat/toolCallDelta" [Chat] Host (0, 4, 0) Offered, "";
    ChatToolCallReady "chat/toolCallReady" [Chat] Host (0, 4, 0) Offered, "";
    ChatToolCallConfirmed "chat/toolCallConfirmed" [Chat] Client (0, 4, 0) Offered, "the call waits for a confirmation; the first answer wins";
    ChatToolCallContentChanged "chat/toolCallContentChanged" [Chat] ToolOwner (0, 4, 0) Offered, "";
    ChatToolCallComplete "chat/toolCallComplete" [Chat] ToolOwner (0, 4, 0) Offered, "";
    ChatToolCallResultConfirmed "chat/toolCallResultConfirmed" [Chat] Client (0, 4, 0) NotOffered("results that wait for a confirmation"), "";
    ChatToolCallAuthRequired "chat/toolCallAuthRequired" [Chat] Host (0, 6, 0) MCP_AUTH, "";
    ChatToolCallAuthResolved "chat/toolCallAuthResolved" [Chat] Host (0, 6, 0) MCP_AUTH, "";
    ChatInputRequested "chat/inputRequested" [Chat] Host (0, 4, 0) Offered, "";
    ChatInputAnswerChanged "chat/inputAnswerChanged" [Chat] Client (0, 4, 0) Offered, "the request is pending, and the answer matches the question";
    ChatInputCompleted "chat/inputCompleted" [Chat] Client (0, 4, 0) Offered, "the request is pending; to accept it, every required question needs an answer";
    ChatPendingMessageSet "chat/pendingMessageSet" [Chat] Client (0, 4, 0) Offered, "the message is from the user and not empty, has not become a turn, and the queue is not full";
    ChatPendingMessageRemoved "chat/pendingMessageRemoved" [Chat] Client (0, 4, 0) Offered, "the message is pending";
    ChatQueuedMessagesReordered "chat/queuedMessagesReordered" [Chat] Client (0, 4, 0) Offered, "at least one message is queued";
    ChatDraftChanged "chat/draftChanged" [Chat] Client (0, 5, 0) Offered, "";
    ChatTruncated "chat/truncated" [Chat] Client (0, 4, 0) NotOffered("truncation of a chat"), "";
    ChatTurnsLoaded "chat/turnsLoaded" [Chat] Host (0, 5, 1) Offered, "";
    ChatActivityChanged "chat/activityChanged" [Chat] Host (0, 5, 0) Offered, "";
    ChatIsReadChanged "chat/isReadChanged" [Chat] Client (0, 9, 0) Offered, "";
    ChatIsArchivedChanged "chat/isArchivedChanged" [Chat] Client (0, 9, 0) Offered, "";
    ChatMovableChanged "chat/movableChanged" [Chat] Host (0, 9, 0) MULTIPLE_CHATS, "";
    ChatChangesetsChanged "chat/changesetsChanged" [Chat] Host (0, 9, 0) CHANGESETS, "";
    ChatBackgroundWorkSet "chat/backgroundWorkSet" [Chat] Host (0, 9, 0) Offered, "";
    ChatBackgroundWorkRemoved "chat/backgroundWorkRemoved" [Chat] Host (0, 9, 0) Offered, "";
    ChatWorkingDirectorySet "chat/workingDirectorySet" [Chat] Client (0, 7, 0) CHAT_DIRECTORIES, "";
    ChatWorkingDirectoryRemoved "chat/workingDirectoryRemoved" [Chat] Client (0, 7, 0) CHAT_DIRECTORIES, "";
    ChatCanvasesChanged "chat/canvasesChanged" [Chat] Host (0, 10, 0) CANVASES, "";

    ChangesetStatusChanged "changeset/statusChanged" [Changeset] Host (0, 2, 0) CHANGESETS, "";
    ChangesetFileSet "changeset/fileSet" [Changeset] Host (0, 2, 0) CHANGESETS, "";
    ChangesetFileRemoved "changeset/fileRemoved" [Changeset] Host (0, 2, 0) CHANGESETS, "";
    ChangesetFilesReviewChanged "changeset/filesReviewChanged" [Changeset] Client (0, 6, 0) CHANGESETS, "";
    ChangesetContentChanged "changeset/contentChanged" [Changeset] Host (0, 4, 0) CHANGESETS, "";
    ChangesetOperationsChanged "changeset/operationsChanged" [Changeset] Host (0, 2, 0) CHANGESETS, "";
    ChangesetOperationStatusChanged "changeset/operationStatusChanged" [Changeset] Host (0, 3, 0) CHANGESETS, "";
    ChangesetCleared "changeset/cleared" [Changeset] Host (0, 2, 0) CHANGESETS, "";

    AnnotationsSet "annotations/set" [Annotations] Client (0, 4, 0) Offered, "the annotation has at least one entry";
    AnnotationsUpdated "annotations/updated" [Annotations] Client (0, 4, 0) Offered, "the annotation exists";
    AnnotationsRemoved "annotations/removed" [Annotations] Client (0, 4, 0) Offered, "the annotation exists";
    AnnotationsEntrySet "annotations/entrySet" [Annotations] Client (0, 4, 0) Offered, "the annotation exists";
    AnnotationsEntryRemoved "annotations/entryRemoved" [Annotations] Client (0, 4, 0) Offered, "the entry exists and is not the only one";

    TerminalData "terminal/data" [Terminal] Host (0, 1, 0) Offered, "";
    TerminalInput "terminal/input" [Terminal] Client (0, 1, 0) Offered, "the shell of the terminal is running, and at most 256 KiB of input are pending. The echo does not contain the input";
    TerminalResized "terminal/resized" [Terminal] Client (0, 1, 0) Offered, "columns and rows are from 1 to 2000";
    TerminalClaimed "terminal/claimed" [Terminal] Client (0, 1, 0) Offered, "the client holds the terminal, or a session or a disconnected client does. It can claim the terminal for itself or for a chat of a session; the holder can also transfer it to another known client";
    TerminalTitleChanged "terminal/titleChanged" [Terminal] Client (0, 1, 0) Offered, "the title has 1 to 1000 bytes";
    TerminalCwdChanged "terminal/cwdChanged" [Terminal] Host (0, 1, 0) Offered, "";
    TerminalExited "terminal/exited" [Terminal] Host (0, 1, 0) Offered, "";
    TerminalCleared "terminal/cleared" [Terminal] Client (0, 1, 0) Offered, "";
    TerminalCommandDetectionAvailable "terminal/commandDetectionAvailable" [Terminal] Host (0, 1, 0) Offered, "";
    TerminalCommandExecuted "terminal/commandExecuted" [Terminal] Host (0, 1, 0) Offered, "";
    TerminalCommandFinished "terminal/commandFinished" [Terminal] Host (0, 1, 0) Offered, "";

    ResourceWatchChanged "resourceWatch/changed" [ResourceWatch] Host (0, 2, 0) Offered, "";

    CanvasStateChanged "canvas/stateChanged" [Canvas] Host (0, 10, 0) CANVASES, "";

    AutomationCreateRequested "automation/createRequested" [Automations] Client (0, 8, 0) AUTOMATIONS, "";
    AutomationUpdateRequested "automation/updateRequested" [Automations] Client (0, 8, 0) AUTOMATIONS, "";
    AutomationSet "automation/set" [Automations] Host (0, 8, 0) AUTOMATIONS, "";
    AutomationRemoved "automation/removed" [Automations] Client (0, 8, 0) AUTOMATIONS, "";
    AutomationRunLifecycleChanged "automationRun/lifecycleChanged" [AutomationRun] Host (0, 8, 0) AUTOMATIONS, "";
    AutomationRunSessionSet "automationRun/sessionSet" [AutomationRun] Host (0, 8, 0) AUTOMATIONS, "";
    AutomationRunSessionRemoved "automationRun/sessionRemoved" [AutomationRun] Host (0, 8, 0) AUTOMATIONS, "";
    AutomationRunPrimarySessionChanged "automationRun/primarySessionChanged" [AutomationRun] Host (0, 8, 0) AUTOMATIONS, "";
    AutomationRunCancelRequested "automationRun/cancelRequested" [AutomationRun] Client (0, 8, 0) AUTOMATIONS, "";
}
