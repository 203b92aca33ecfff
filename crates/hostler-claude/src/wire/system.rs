//! `system` messages: starts of turns, status, retries, compaction and tasks.

use serde::Deserialize;
use uuid::Uuid;

use super::{BackgroundTasks, TaskNotification, TaskStarted, TaskUpdated, WireText};

/// A `system` line.
#[derive(Debug)]
pub enum SystemMessage<'a> {
    /// A turn starts. Printed at the start of every turn, not once per process.
    Init(InitMessage<'a>),
    /// The agent waits before it calls its model again.
    ApiRetry(ApiRetry),
    /// The conversation was compacted.
    CompactBoundary(CompactBoundary),
    /// The agent's status.
    Status(StatusMessage<'a>),
    /// A sub-agent or a long command starts.
    TaskStarted(TaskStarted<'a>),
    /// A task changed.
    TaskUpdated(TaskUpdated<'a>),
    /// A task is over.
    TaskNotification(TaskNotification<'a>),
    /// The background tasks.
    BackgroundTasks(BackgroundTasks<'a>),
    /// A sentence for the user.
    Informational {
        /// The sentence.
        content: Option<WireText<'a>>,
    },
    /// A tool call was denied by rule or mode, without asking the host.
    PermissionDenied {
        /// The call.
        tool_use_id: Option<WireText<'a>>,
    },
    /// A message that is known by name and not used.
    Ignored(IgnoredSystemMessage),
}

/// The agent's status.
#[derive(Debug, Deserialize)]
pub struct StatusMessage<'a> {
    /// `requesting`, `compacting`, or none.
    #[serde(borrow, default)]
    pub status: Option<WireText<'a>>,
    /// The permission mode, when it has changed.
    #[serde(borrow, default, rename = "permissionMode")]
    pub permission_mode: Option<WireText<'a>>,
    /// `success` or `failed`, after a compaction.
    #[serde(borrow, default)]
    pub compact_result: Option<WireText<'a>>,
    /// Why a compaction failed.
    #[serde(borrow, default)]
    pub compact_error: Option<WireText<'a>>,
}

impl StatusMessage<'_> {
    /// Why a compaction failed, if one did.
    pub fn compaction_failure(&self) -> Option<&str> {
        match (&self.compact_error, self.compact_result.as_deref()) {
            (Some(error), _) => Some(error),
            (None, Some("failed")) => Some("The agent gave no reason."),
            _ => None,
        }
    }
}

/// The start of a turn.
#[derive(Debug, Deserialize)]
pub struct InitMessage<'a> {
    /// The conversation's id. `/clear` changes it.
    #[serde(borrow, default)]
    pub session_id: Option<WireText<'a>>,
    /// The model in use.
    #[serde(borrow, default)]
    pub model: Option<WireText<'a>>,
    /// The capabilities of this build; older builds report none.
    #[serde(borrow, default)]
    capabilities: Option<Vec<WireText<'a>>>,
    /// The prompts that the turn answers; newer builds only, and only for turns that answer a prompt.
    #[serde(default)]
    pub user_message_uuids: Option<Vec<Uuid>>,
}

impl InitMessage<'_> {
    /// Whether this build names the prompts that a turn answers.
    pub fn has_prompt_lifecycle(&self) -> bool {
        self.capabilities.iter().flatten().any(|capability| &**capability == "msg_lifecycle_v1")
    }
}

/// A retry notice.
#[derive(Debug, Deserialize)]
pub struct ApiRetry {
    /// The number of the next attempt, from 1.
    #[serde(default)]
    pub attempt: u32,
    /// The maximum number of attempts.
    #[serde(default)]
    pub max_retries: u32,
    /// The delay; a fraction on some builds.
    #[serde(default)]
    pub retry_delay_ms: f64,
    /// The HTTP status; `null` if the connection failed.
    #[serde(default)]
    pub error_status: Option<u16>,
}

/// A finished compaction.
#[derive(Debug, Deserialize)]
pub struct CompactBoundary {
    /// Its metadata.
    #[serde(default)]
    pub compact_metadata: CompactMetadata,
}

/// The metadata of a compaction.
#[derive(Debug, Default, Deserialize)]
pub struct CompactMetadata {
    /// Tokens before.
    #[serde(default)]
    pub pre_tokens: Option<u64>,
    /// Tokens after.
    #[serde(default)]
    pub post_tokens: Option<u64>,
}

/// System messages that are known by name only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the agent's own, and nothing more is known about them")]
pub enum IgnoredSystemMessage {
    ControlRequestProgress,
    HookProgress,
    HookResponse,
    HookStarted,
    Notification,
    SessionStateChanged,
    SessionTitleChanged,
    TaskProgress,
    ThinkingTokens,
    UiInvalidate,
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    subtype: WireText<'a>,
    #[serde(borrow, default)]
    tool_use_id: Option<WireText<'a>>,
}

#[derive(Deserialize)]
struct InformationalFields<'a> {
    #[serde(borrow, default)]
    content: Option<WireText<'a>>,
}

impl<'a> SystemMessage<'a> {
    /// `None` for an unknown subtype.
    pub(super) fn parse(line: &'a [u8]) -> Result<Option<Self>, serde_json::Error> {
        let fields: Fields<'a> = serde_json::from_slice(line)?;
        Ok(Some(match &*fields.subtype {
            "init" => Self::Init(serde_json::from_slice(line)?),
            "api_retry" => Self::ApiRetry(serde_json::from_slice(line)?),
            "compact_boundary" => Self::CompactBoundary(serde_json::from_slice(line)?),
            "status" => Self::Status(serde_json::from_slice(line)?),
            "task_started" => Self::TaskStarted(serde_json::from_slice(line)?),
            "task_updated" => Self::TaskUpdated(serde_json::from_slice(line)?),
            "task_notification" => Self::TaskNotification(serde_json::from_slice(line)?),
            "background_tasks_changed" => Self::BackgroundTasks(serde_json::from_slice(line)?),
            "informational" => {
                let InformationalFields { content } = serde_json::from_slice(line)?;
                Self::Informational { content }
            }
            "permission_denied" => Self::PermissionDenied { tool_use_id: fields.tool_use_id },
            subtype => match IgnoredSystemMessage::from_subtype(subtype) {
                Some(named) => Self::Ignored(named),
                None => return Ok(None),
            },
        }))
    }
}

impl IgnoredSystemMessage {
    fn from_subtype(subtype: &str) -> Option<Self> {
        Some(match subtype {
            "control_request_progress" => Self::ControlRequestProgress,
            "hook_progress" => Self::HookProgress,
            "hook_response" => Self::HookResponse,
            "hook_started" => Self::HookStarted,
            "notification" => Self::Notification,
            "session_state_changed" => Self::SessionStateChanged,
            "session_title_changed" => Self::SessionTitleChanged,
            "task_progress" => Self::TaskProgress,
            "thinking_tokens" => Self::ThinkingTokens,
            "ui_invalidate" => Self::UiInvalidate,
            _ => return None,
        })
    }
}
