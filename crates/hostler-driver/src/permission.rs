//! Who may do what: the gate that sees every tool call, and the questions that only a person can answer.

use std::fmt;
use std::path::Path;

use serde_json::value::RawValue;
use std::sync::Arc;

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
#[derive(Clone, Copy)]
pub struct GatedCall<'a> {
    /// The call's id.
    pub call_id: &'a str,
    /// The tool as the agent knows it.
    pub tool: &'a str,
    /// Its whole input.
    pub input: &'a RawValue,
    /// The sub-agent that makes the call; absent for the agent itself.
    pub sub_agent: Option<&'a str>,
    /// The directory that the call runs in, absolute; absent where the agent does not say.
    pub cwd: Option<&'a Path>,
}

/// What becomes of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It does not run; the model is told why.
    Deny(String),
}

/// Decides on every tool call before it runs, sub-agents' included, and again when the agent asks for permission.
///
/// It is asked on the way of the agent's output: it answers at once, from what it knows. Its answer may change from one
/// call to the next; the latest one counts.
pub trait PermissionGate: Send + Sync + 'static {
    /// The decision.
    fn decide(&self, call: &GatedCall<'_>) -> GateDecision;
}

/// Lets nothing pass.
#[derive(Debug, Clone, Copy, Default)]
pub struct DenyAllGate;

impl PermissionGate for DenyAllGate {
    fn decide(&self, _: &GatedCall<'_>) -> GateDecision {
        GateDecision::Deny("Tools are switched off in this session; answer without them.".to_owned())
    }
}

/// The agent wants to run a tool, and a person must say whether it may.
#[derive(Clone)]
pub struct PermissionRequest {
    /// What the answer must name.
    pub request_id: AgentRequestId,
    /// The call's id.
    pub call_id: String,
    /// The tool as the agent knows it.
    pub tool: String,
    /// The whole input. An answer may replace it.
    pub input: Arc<RawValue>,
    /// The sub-agent that makes the call.
    pub sub_agent: Option<String>,
    /// Why the agent asks, in its words.
    pub reason: Option<String>,
    /// How the call is shown, where it is not shown already.
    pub display: ToolDisplay,
}

/// The agent has questions to a person.
#[derive(Clone, PartialEq, Eq)]
pub struct QuestionRequest {
    /// What the answer must name.
    pub request_id: AgentRequestId,
    /// The call that asks; absent where no tool call does.
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
    /// What the answer names.
    pub id: String,
    /// A word or two above it.
    pub header: Option<String>,
    /// The question itself.
    pub text: String,
    /// How it is answered.
    pub kind: QuestionKind,
    /// Whether an answer may not be left out.
    pub required: bool,
}

/// How a question is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionKind {
    /// By choosing.
    Choice {
        /// The options.
        options: Vec<QuestionOption>,
        /// Whether several may be chosen.
        allows_multiple: bool,
        /// Whether an answer in own words is possible.
        allows_free_text: bool,
    },
    /// In own words.
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
    /// What the answer names.
    pub id: String,
    /// What people read.
    pub label: String,
    /// More about it.
    pub description: Option<String>,
}

/// The agent proposes a plan and wants to carry it out.
#[derive(Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// What the answer must name.
    pub request_id: AgentRequestId,
    /// The call that proposes it.
    pub call_id: String,
    /// The plan as Markdown; absent if the agent keeps it where the driver cannot read it.
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
    /// The plan is carried out in a permission mode of the agent.
    AcceptPlan {
        /// The mode, in the agent's words.
        mode: String,
    },
    /// No. The model reads the message as it stands.
    Deny {
        /// Why, or what to do instead.
        message: String,
    },
    /// What a person answered to questions, by their ids.
    Answers(Vec<(String, QuestionAnswer)>),
    /// The person does not want to answer.
    Skip,
}

/// The answer to one question.
#[derive(Clone, PartialEq)]
pub enum QuestionAnswer {
    /// The ids of the chosen options, and own words beside or instead of them.
    Selected {
        /// Ids of options.
        options: Vec<String>,
        /// Own words.
        free_text: Vec<String>,
    },
    /// Own words.
    Text(String),
    /// A number.
    Number(f64),
    /// Yes or no.
    Boolean(bool),
}
