use serde::Deserialize;
use serde_json::value::RawValue;

use super::Text;
use super::outbound::{POST_TOOL_USE, POST_TOOL_USE_FAILURE, PRE_TOOL_USE};

/// A request of the agent to us. It stays open until we answer it.
#[derive(Debug)]
pub struct ControlAsk<'a> {
    /// What the answer must name.
    pub request_id: Text<'a>,
    /// What is asked.
    pub body: ControlBody<'a>,
}

/// What the agent asks.
#[derive(Debug)]
pub enum ControlBody<'a> {
    /// May this tool run?
    CanUseTool(ToolAsk<'a>),
    /// Our hook fires: a tool is about to run.
    PreToolUse {
        /// The call.
        ask: ToolAsk<'a>,
        /// Where the conversation is stored.
        transcript_path: Option<Text<'a>>,
    },
    /// Our hook fires: a tool has run, or has failed.
    PostToolUse {
        /// Which of the two, in the agent's words; the answer must repeat it.
        event: &'static str,
        /// The call.
        tool_use_id: Option<Text<'a>>,
        /// The sub-agent that made it.
        agent_id: Option<Text<'a>>,
    },
    /// A request about a tool, in a shape that we cannot read. It must not be taken for a yes.
    UnreadableTool {
        /// The call, if that could be read.
        tool_use_id: Option<Text<'a>>,
        /// Whether our hook asks.
        hook: bool,
    },
    /// An MCP server asks the user something.
    Elicitation(Elicitation<'a>),
    /// A request that we cannot serve, or cannot read.
    Other {
        /// Its subtype, where it has one.
        subtype: Option<Text<'a>>,
    },
}

/// A tool call that waits for a decision.
#[derive(Debug)]
pub struct ToolAsk<'a> {
    /// The call.
    pub tool_use_id: Text<'a>,
    /// The tool.
    pub tool: Text<'a>,
    /// Its whole input.
    pub input: &'a RawValue,
    /// The sub-agent that makes the call.
    pub agent_id: Option<Text<'a>>,
    /// Why the agent asks.
    pub reason: Option<Text<'a>>,
    /// The directory that the call runs in; only hooks say it.
    pub cwd: Option<Text<'a>>,
}

impl<'a> ToolAsk<'a> {
    /// A sub-agent's call, as its message tells of it.
    pub(crate) fn of(call: &'a str, tool: &'a str, input: &'a RawValue, agent: &'a str) -> Self {
        let text = |text: &'a str| Text(text.into());
        Self { tool_use_id: text(call), tool: text(tool), input, agent_id: Some(text(agent)), reason: None, cwd: None }
    }
}

/// A question of an MCP server.
#[derive(Debug, Deserialize)]
pub struct Elicitation<'a> {
    /// The server.
    #[serde(borrow, default)]
    pub mcp_server_name: Option<Text<'a>>,
    /// What it says.
    #[serde(borrow, default)]
    pub message: Option<Text<'a>>,
    /// A page that the user is to visit instead of answering here.
    #[serde(borrow, default)]
    pub url: Option<Text<'a>>,
    /// A JSON schema of the answer.
    #[serde(borrow, default)]
    pub requested_schema: Option<&'a RawValue>,
}

/// An answer of the agent to a request of ours.
#[derive(Debug)]
pub struct ControlAnswer<'a> {
    /// The request.
    pub request_id: Text<'a>,
    /// The answer's body, or the sentence of the refusal.
    pub outcome: Result<Option<&'a RawValue>, Text<'a>>,
}

#[derive(Deserialize)]
struct AskFields<'a> {
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow, default)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    agent_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    decision_reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct HookInput<'a> {
    #[serde(borrow, default)]
    hook_event_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    transcript_path: Option<Text<'a>>,
    #[serde(borrow, default)]
    cwd: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_name: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    agent_id: Option<Text<'a>>,
}

impl HookInput<'_> {
    fn is(&self, event: &str) -> bool {
        self.hook_event_name.as_deref() == Some(event)
    }
}

#[derive(Deserialize)]
struct AnswerFields<'a> {
    #[serde(borrow)]
    subtype: Text<'a>,
    #[serde(borrow)]
    request_id: Text<'a>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<Text<'a>>,
}

impl<'a> ControlAsk<'a> {
    /// Whether the agent itself (not a sub-agent) is told what our answer says beside its decision.
    pub fn reaches_agent(&self) -> bool {
        match &self.body {
            ControlBody::PreToolUse { ask, .. } => ask.agent_id.is_none(),
            ControlBody::PostToolUse { agent_id, .. } => agent_id.is_none(),
            _ => false,
        }
    }

    /// Never fails: a request that we cannot read must still get an answer.
    pub(super) fn parse(request_id: Text<'a>, raw: &'a RawValue) -> Self {
        let body = match serde_json::from_str::<AskFields<'a>>(raw.get()) {
            Ok(fields) => fields.named(raw),
            // It may be a request for permission whose fields are not what they should be.
            Err(_) => match serde_json::from_str::<Subtype<'a>>(raw.get()) {
                Ok(Subtype { subtype: Some(subtype) }) => match &*subtype {
                    "can_use_tool" => ControlBody::UnreadableTool { tool_use_id: None, hook: false },
                    "hook_callback" => ControlBody::UnreadableTool { tool_use_id: None, hook: true },
                    _ => ControlBody::Other { subtype: Some(subtype) },
                },
                _ => ControlBody::Other { subtype: None },
            },
        };
        Self { request_id, body }
    }
}

#[derive(Deserialize)]
struct Subtype<'a> {
    #[serde(borrow, default)]
    subtype: Option<Text<'a>>,
}

impl<'a> AskFields<'a> {
    fn named(self, raw: &'a RawValue) -> ControlBody<'a> {
        match &*self.subtype {
            "can_use_tool" => match (self.tool_use_id, self.tool_name, self.input.filter(|input| is_object(input))) {
                (Some(tool_use_id), Some(tool), Some(input)) => ControlBody::CanUseTool(ToolAsk {
                    tool_use_id,
                    tool,
                    input,
                    agent_id: self.agent_id,
                    reason: self.decision_reason.filter(|reason| !reason.is_empty()),
                    cwd: None,
                }),
                (tool_use_id, ..) => ControlBody::UnreadableTool { tool_use_id, hook: false },
            },
            "hook_callback" => hook(self.tool_use_id, self.input),
            "elicitation" => match serde_json::from_str(raw.get()) {
                Ok(elicitation) => ControlBody::Elicitation(elicitation),
                Err(_) => ControlBody::Other { subtype: Some(self.subtype) },
            },
            _ => ControlBody::Other { subtype: Some(self.subtype) },
        }
    }
}

fn hook<'a>(tool_use_id: Option<Text<'a>>, input: Option<&'a RawValue>) -> ControlBody<'a> {
    let Some(input) = input.and_then(|raw| serde_json::from_str::<HookInput<'a>>(raw.get()).ok()) else {
        return ControlBody::UnreadableTool { tool_use_id, hook: true };
    };
    let after = [POST_TOOL_USE, POST_TOOL_USE_FAILURE].into_iter().find(|event| input.is(event));
    if let Some(event) = after {
        let tool_use_id = input.tool_use_id.or(tool_use_id);
        return ControlBody::PostToolUse { event, tool_use_id, agent_id: input.agent_id };
    }
    let is_ours = input.is(PRE_TOOL_USE);
    let tool_use_id = input.tool_use_id.or(tool_use_id);
    match (tool_use_id, input.tool_name, input.tool_input.filter(|input| is_object(input))) {
        (Some(tool_use_id), Some(tool), Some(tool_input)) if is_ours => ControlBody::PreToolUse {
            ask: ToolAsk {
                tool_use_id,
                tool,
                input: tool_input,
                agent_id: input.agent_id,
                reason: None,
                cwd: input.cwd,
            },
            transcript_path: input.transcript_path,
        },
        (tool_use_id, ..) => ControlBody::UnreadableTool { tool_use_id, hook: true },
    }
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

impl<'a> ControlAnswer<'a> {
    pub(super) fn parse(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let fields: AnswerFields<'a> = serde_json::from_str(raw.get())?;
        let outcome = match &*fields.subtype {
            "success" => Ok(fields.response),
            _ => Err(fields.error.unwrap_or(Text("no reason given".into()))),
        };
        Ok(Self { request_id: fields.request_id, outcome })
    }
}
