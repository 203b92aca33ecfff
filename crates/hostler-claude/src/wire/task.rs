//! Messages about tasks (sub-agents and long commands) and about the lifecycle of prompts.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{MessageBlock, MessageContent, WireText, WireTokenCounts};

/// A `system/task_started` line: a sub-agent or a long command starts.
#[derive(Debug, Deserialize)]
pub struct TaskStarted<'a> {
    /// The task.
    #[serde(borrow)]
    pub task_id: WireText<'a>,
    /// The call that started it.
    #[serde(borrow, default)]
    pub tool_use_id: Option<WireText<'a>>,
    /// What it does.
    #[serde(borrow, default)]
    pub description: Option<WireText<'a>>,
    /// `local_bash`, `local_agent`, …
    #[serde(borrow, default)]
    pub task_type: Option<WireText<'a>>,
    /// The kind of sub-agent (newer builds).
    #[serde(borrow, default)]
    pub subagent_type: Option<WireText<'a>>,
    /// A sub-agent's prompt.
    #[serde(borrow, default)]
    pub prompt: Option<WireText<'a>>,
    /// Whether the agent continues without waiting for it; older builds do not report it.
    #[serde(default)]
    pub is_backgrounded: Option<bool>,
}

/// A `system/task_updated` line.
#[derive(Debug, Deserialize)]
pub struct TaskUpdated<'a> {
    /// The task.
    #[serde(borrow)]
    pub task_id: WireText<'a>,
    /// The changed fields.
    #[serde(borrow, default)]
    pub patch: TaskPatch<'a>,
}

/// The changed fields of a task.
#[derive(Debug, Default, Deserialize)]
pub struct TaskPatch<'a> {
    /// `completed`, `failed`, `killed`, `running`, …
    #[serde(borrow, default)]
    pub status: Option<WireText<'a>>,
}

/// A `system/task_notification` line: a task is over, and the model is or will be notified.
#[derive(Debug, Deserialize)]
pub struct TaskNotification<'a> {
    /// The task.
    #[serde(borrow)]
    pub task_id: WireText<'a>,
    /// `completed`, `failed`, or `stopped` by anything but the model.
    #[serde(borrow, default)]
    pub status: Option<WireText<'a>>,
    /// A sentence about a command; the final text of a sub-agent.
    #[serde(borrow, default)]
    pub summary: Option<WireText<'a>>,
}

/// A `system/background_tasks_changed` line: all background tasks (newer builds).
#[derive(Debug, Deserialize)]
pub struct BackgroundTasks<'a> {
    /// All of them.
    #[serde(borrow)]
    pub tasks: Vec<ListedTask<'a>>,
}

/// One of them.
#[derive(Debug, Deserialize)]
pub struct ListedTask<'a> {
    /// The task.
    #[serde(borrow)]
    pub task_id: WireText<'a>,
}

/// A tool result's report about a task that continues in the background.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackgroundedWork<'a> {
    /// A command that continues.
    #[serde(borrow, default)]
    background_task_id: Option<WireText<'a>>,
    /// A sub-agent.
    #[serde(borrow, default)]
    agent_id: Option<WireText<'a>>,
    /// Whether the sub-agent continues.
    #[serde(default)]
    is_async: bool,
}

impl BackgroundedWork<'_> {
    /// The task that continues.
    pub fn task_id(&self) -> Option<&str> {
        let agent = self.agent_id.as_deref().filter(|_| self.is_async);
        self.background_task_id.as_deref().or(agent)
    }
}

/// The result of a call that started a sub-agent.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubAgentResult<'a> {
    /// The sub-agent.
    #[serde(borrow, default)]
    pub agent_id: Option<WireText<'a>>,
    /// Whether it continues in the background.
    #[serde(default)]
    pub is_async: bool,
    /// The usage of its last answer.
    #[serde(default)]
    pub usage: Option<WireTokenCounts>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl SubAgentResult<'_> {
    /// The sub-agent's final text. The agent's own notes precede it.
    pub fn final_text(&self) -> Option<String> {
        let MessageContent::Blocks(blocks) = super::message::parse_content(self.content?).ok()? else { return None };
        blocks.into_iter().rev().find_map(|block| match block {
            MessageBlock::Text(text) => Some(text.0.into_owned()),
            _ => None,
        })
    }
}

/// A `command_lifecycle` line: what happened to a prompt (newer builds).
#[derive(Debug, Deserialize)]
pub struct CommandLifecycle<'a> {
    /// The prompt.
    #[serde(borrow)]
    pub command_uuid: WireText<'a>,
    /// `queued`, `started`, `completed`, `cancelled`.
    #[serde(borrow)]
    pub state: WireText<'a>,
}
