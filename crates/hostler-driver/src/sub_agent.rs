//! Agents that an agent lets work for it.

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

/// What happens to a sub-agent.
///
/// It starts before everything else that is said about it, and nothing follows its end, unless it starts again.
#[derive(Debug, Clone)]
pub enum SubAgentEvent {
    /// It begins to work. Whether its parent waits for it is said by [`DriverEvent::BackgroundChanged`].
    Started(SubAgentStart),
    /// It does something: parts, tool calls, usage. The ids of parts and calls are unique within the connection.
    Activity(Box<DriverEvent>),
    /// Its work is over, with everything that it began.
    Finished(SubAgentOutcome),
}

/// A sub-agent that begins to work.
#[derive(Clone)]
pub struct SubAgentStart {
    /// The call that made it.
    pub call_id: String,
    /// The sub-agent whose call that was; absent for the agent itself.
    pub parent_id: Option<SubAgentId>,
    /// Which kind of sub-agent it is, in the agent's words.
    pub kind: Option<String>,
    /// What it is for, in a few words.
    pub description: String,
    /// What it is told.
    pub prompt: Prompt,
}

/// How a sub-agent's work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubAgentOutcome {
    /// It did what it was told.
    Completed,
    /// It could not, and why, in a sentence.
    Failed(String),
    /// Somebody stopped it.
    Stopped,
}
