//! Claude Code's NDJSON, both ways: one JSON object per line.
//!
//! Reading is made for the hot path: one pass over a stream event, strings borrowed where they hold no escapes, and
//! what nobody looks at stays raw text. Types, subtypes and fields that we do not know are normal: they become
//! [`WireMessage::Unknown`] and are counted, never an error.

mod control;
mod inbound;
mod message;
mod outbound;
mod outcome;
mod prompt;
mod stream;
mod system;
mod task;

pub use control::{ControlAnswer, ControlAsk, ControlBody, Elicitation, ToolAsk};
pub use inbound::{NamedMessage, WireError, WireMessage};
pub use message::{AssistantMessage, Block, Content, SYNTHETIC, ToolResultMeta, UserMessage};
pub use outbound::{
    ControlReply, HostMessage, HostRequest, LiveSettings, POST_TOOL_USE, POST_TOOL_USE_FAILURE, PRE_TOOL_USE, Priority,
    Verdict,
};
pub use outcome::{ModelUse, PermissionDenial, TurnResult};
pub use prompt::PromptMessage;
pub use stream::{BlockDelta, BlockStart, StreamEvent, StreamLine, Tokens};
pub use system::{ApiRetry, CompactBoundary, CompactMetadata, Init, NamedSystem, Status, SystemMessage};
pub use task::{
    AgentReturned, BackgroundTasks, CommandLifecycle, LeftBehind, ListedTask, TaskNotification, TaskPatch, TaskStarted,
    TaskUpdated,
};

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;

/// A string that borrows from its line where it can.
///
/// `Option<Cow<str>>` never borrows under serde; this newtype does.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}
