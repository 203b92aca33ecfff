//! The permission gate, which decides on every tool call, and the requests that wait for a person's answer.
//!
//! Does not know rules or permission modes; the engine implements [`PermissionGate`].

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};
use serde_json::value::RawValue;

use crate::ToolDisplay;

/// Names an open request of the agent. Never reused within a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentRequestId(pub String);

impl fmt::Display for AgentRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool call that is about to run.
#[derive(Clone)]
pub struct GatedCall {
    /// The call's id.
    pub call_id: String,
    /// The tool as the agent knows it.
    pub tool: String,
    /// Its whole input.
    pub input: Arc<RawValue>,
    /// The sub-agent that makes the call; absent for the agent itself.
    pub sub_agent: Option<String>,
    /// The absolute directory that the call runs in; absent if the agent does not report it.
    pub cwd: Option<PathBuf>,
}

/// The gate's decision on a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run; the model receives the reason.
    Deny(String),
}

/// Decides on every tool call before it runs, those of sub-agents included, and again when the agent asks for
/// permission.
///
/// The driver waits for it while it reads the agent's output, so it decides within seconds and never waits for a
/// person. The decision may differ from one call to the next; the latest one applies.
pub trait PermissionGate: Send + Sync + 'static {
    /// The decision.
    fn decide(self: Arc<Self>, call: GatedCall) -> BoxFuture<'static, GateDecision>;
}

/// Denies every call.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyAllGate;

impl PermissionGate for DenyAllGate {
    fn decide(self: Arc<Self>, _: GatedCall) -> BoxFuture<'static, GateDecision> {
        ready(GateDecision::Deny("Tools are disabled in this session. Answer without them.".to_owned())).boxed()
    }
}

/// The agent asks whether a tool may run; a person decides.
#[derive(Clone)]
pub struct PermissionRequest {
    /// The id that the answer names.
    pub request_id: AgentRequestId,
    /// The call's id.
    pub call_id: String,
    /// The tool as the agent knows it.
    pub tool: String,
    /// The whole input. An answer may replace it.
    pub input: Arc<RawValue>,
    /// The sub-agent that makes the call.
    pub sub_agent: Option<String>,
    /// The agent's reason for asking, in its wording.
    pub reason: Option<String>,
    /// How the call is shown, if it is not shown already.
    pub display: ToolDisplay,
}

/// The agent has questions for a person.
#[derive(Clone, PartialEq, Eq)]
pub struct QuestionRequest {
    /// The id that the answer names.
    pub request_id: AgentRequestId,
    /// The call that asks; absent if no tool call does.
    pub call_id: Option<String>,
    /// The sub-agent that asks.
    pub sub_agent: Option<String>,
    /// A sentence above the questions.
    pub title: Option<String>,
    /// The questions.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Clone, PartialEq, Eq)]
pub struct Question {
    /// The id that the answer names.
    pub id: String,
    /// A short heading.
    pub header: Option<String>,
    /// The question itself.
    pub text: String,
    /// How it is answered.
    pub kind: QuestionKind,
    /// Whether an answer is required.
    pub required: bool,
}

/// How a question is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionKind {
    /// By choosing options.
    Choice {
        /// The options.
        options: Vec<QuestionOption>,
        /// Whether several may be chosen.
        allows_multiple: bool,
        /// Whether free text is allowed.
        allows_free_text: bool,
    },
    /// By free text.
    Text,
    /// By a number.
    Number {
        /// Whether it must be whole.
        is_integer: bool,
    },
    /// By yes or no.
    Boolean,
}

/// One option of a question.
#[derive(Clone, PartialEq, Eq)]
pub struct QuestionOption {
    /// The id that the answer names.
    pub id: String,
    /// Its label.
    pub label: String,
    /// Its description.
    pub description: Option<String>,
}

/// The agent proposes a plan and wants to carry it out.
#[derive(Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// The id that the answer names.
    pub request_id: AgentRequestId,
    /// The call that proposes it.
    pub call_id: String,
    /// The plan as Markdown; absent if the agent stores it where the driver cannot read it.
    pub plan: Option<String>,
}

/// A person's (or a policy's) answer to a request.
#[derive(Clone)]
pub enum Answer {
    /// The call runs, with another input if one is given.
    Allow {
        /// The input that replaces the agent's.
        input: Option<Arc<RawValue>>,
    },
    /// The plan is accepted and carried out in a permission mode of the agent.
    AcceptPlan {
        /// The mode, by the agent's name for it.
        mode: String,
    },
    /// The call does not run. The model receives the message unchanged.
    Deny {
        /// Why, or what to do instead.
        message: String,
    },
    /// Answers to questions, by question id.
    Answers(Vec<(String, QuestionAnswer)>),
    /// The person declines to answer.
    Skip,
}

/// The answer to one question.
#[derive(Clone, PartialEq)]
pub enum QuestionAnswer {
    /// The ids of the chosen options, and free text beside or instead of them.
    Selected {
        /// Ids of options.
        options: Vec<String>,
        /// Free text.
        free_text: Vec<String>,
    },
    /// Free text.
    Text(String),
    /// A number.
    Number(f64),
    /// Yes or no.
    Boolean(bool),
}
