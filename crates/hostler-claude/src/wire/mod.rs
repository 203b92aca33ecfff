//! Claude Code's NDJSON, both ways: one JSON object per line.
//!
//! Parsing is optimized for the hot path: one pass over a stream event, strings borrowed unless they contain escapes,
//! and unused parts stay raw text. Unknown types, subtypes and fields are normal: they become
//! [`WireMessage::Unknown`] and are counted, and are never an error.

mod control;
mod inbound;
mod message;
mod outbound;
mod prompt;
mod stream;
mod system;
mod task;
mod turn_result;

pub use control::{AgentControlRequest, AgentControlResponse, ControlRequestBody, Elicitation, ToolPermissionRequest};
pub use inbound::{IgnoredMessage, WireError, WireMessage};
pub use message::{AssistantMessage, MessageBlock, MessageContent, SYNTHETIC_MODEL, ToolResultMeta, UserMessage};
pub use outbound::{
    ControlResponseBody, HostControlRequest, HostControlResponse, HostMessage, LiveSettings, MessagePriority,
    POST_TOOL_USE, POST_TOOL_USE_FAILURE, PRE_TOOL_USE,
};
pub use prompt::PromptMessage;
pub use stream::{BlockDelta, BlockStart, ModelStreamEvent, StreamLine, WireTokenCounts};
pub use system::{
    ApiRetry, CompactBoundary, CompactMetadata, IgnoredSystemMessage, InitMessage, StatusMessage, SystemMessage,
};
pub use task::{
    BackgroundTasks, BackgroundedWork, CommandLifecycle, ListedTask, SubAgentResult, TaskNotification, TaskPatch,
    TaskStarted, TaskUpdated,
};
pub use turn_result::{ModelUsage, PermissionDenial, TurnResult};

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;

/// A string that borrows from its line if possible.
///
/// `Option<Cow<str>>` never borrows under serde; this newtype does.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WireText<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Deref for WireText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
