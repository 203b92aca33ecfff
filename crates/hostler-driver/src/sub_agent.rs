//! Sub-agents and their events.

use std::fmt;

use crate::{DriverEvent, Prompt};

/// Names a sub-agent within one connection. [`GatedCall`](crate::GatedCall), requests and background work name it in the
/// same way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubAgentId(pub String);

impl fmt::Display for SubAgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An event of a sub-agent.
///
/// A sub-agent starts before its other events, and no event follows its end unless it starts again.
#[derive(Debug, Clone)]
pub enum SubAgentEvent {
    /// It starts. [`DriverEvent::BackgroundTaskChanged`] reports whether its parent does not wait for it.
    Started(SubAgentStart),
    /// One of its own events: parts, tool calls, usage. The ids of parts and calls are unique within the connection.
    Activity(Box<DriverEvent>),
    /// Its work is over, including everything that it started.
    Finished(SubAgentOutcome),
}

/// How a sub-agent was started.
#[derive(Clone)]
pub struct SubAgentStart {
    /// The call that started it.
    pub call_id: String,
    /// The sub-agent that made the call; absent for the agent itself.
    pub parent_id: Option<SubAgentId>,
    /// The kind of sub-agent, by the agent's name for it.
    pub kind: Option<String>,
    /// A short description of its task.
    pub description: String,
    /// Its prompt.
    pub prompt: Prompt,
}

/// How a sub-agent's work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubAgentOutcome {
    /// It finished its task.
    Completed,
    /// It failed, with the reason in a sentence.
    Failed(String),
    /// It was stopped.
    Stopped,
}
