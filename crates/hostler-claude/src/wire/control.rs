//! Control messages from the agent: its requests, and its answers to ours.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::WireText;
use super::outbound::{POST_TOOL_USE, POST_TOOL_USE_FAILURE, PRE_TOOL_USE};

/// A request of the agent. It is pending until it is answered.
#[derive(Debug)]
pub struct AgentControlRequest<'a> {
    /// The id that the answer names.
    pub request_id: WireText<'a>,
    /// The request.
    pub body: ControlRequestBody<'a>,
}

/// The kinds of requests.
#[derive(Debug)]
pub enum ControlRequestBody<'a> {
    /// Whether a tool may run.
    CanUseTool(ToolPermissionRequest<'a>),
    /// Our hook fires: a tool is about to run.
    PreToolUse {
        /// The call.
        request: ToolPermissionRequest<'a>,
        /// The path of the transcript.
        transcript_path: Option<WireText<'a>>,
    },
    /// Our hook fires: a tool has run, or has failed.
    PostToolUse {
        /// The event's name; the answer must repeat it.
        event: &'static str,
        /// The call.
        tool_use_id: Option<WireText<'a>>,
        /// The sub-agent that made it.
        agent_id: Option<WireText<'a>>,
    },
    /// A request about a tool, in an unknown shape. It must not be treated as allowed.
    UnreadableTool {
        /// The call, if it could be parsed.
        tool_use_id: Option<WireText<'a>>,
        /// Whether it comes from our hook.
        is_hook: bool,
    },
    /// An MCP server asks the user something.
    Elicitation(Elicitation<'a>),
    /// A request that is not supported or cannot be parsed.
    Other {
        /// Its subtype, if it has one.
        subtype: Option<WireText<'a>>,
    },
}

/// A tool call that waits for a decision.
#[derive(Debug)]
pub struct ToolPermissionRequest<'a> {
    /// The call.
    pub tool_use_id: WireText<'a>,
    /// The tool.
    pub tool: WireText<'a>,
    /// Its whole input.
    pub input: &'a RawValue,
    /// The sub-agent that makes the call.
    pub agent_id: Option<WireText<'a>>,
    /// Why the agent asks.
    pub reason: Option<WireText<'a>>,
    /// The directory that the call runs in; only hooks report it.
    pub cwd: Option<WireText<'a>>,
}

impl<'a> ToolPermissionRequest<'a> {
    /// A sub-agent's call, from its message.
    pub(crate) fn for_sub_agent(call: &'a str, tool: &'a str, input: &'a RawValue, agent: &'a str) -> Self {
        let text = |text: &'a str| WireText(text.into());
        Self { tool_use_id: text(call), tool: text(tool), input, agent_id: Some(text(agent)), reason: None, cwd: None }
    }
}

/// A question from an MCP server.
#[derive(Debug, Deserialize)]
pub struct Elicitation<'a> {
    /// The server.
    #[serde(borrow, default)]
    pub mcp_server_name: Option<WireText<'a>>,
    /// The question.
    #[serde(borrow, default)]
    pub message: Option<WireText<'a>>,
    /// A page that the user should visit instead of answering here.
    #[serde(borrow, default)]
    pub url: Option<WireText<'a>>,
    /// A JSON schema of the answer.
    #[serde(borrow, default)]
    pub requested_schema: Option<&'a RawValue>,
}

/// An answer of the agent to one of our requests.
#[derive(Debug)]
pub struct AgentControlResponse<'a> {
    /// The request.
    pub request_id: WireText<'a>,
    /// The answer's body, or the reason for the refusal.
    pub outcome: Result<Option<&'a RawValue>, WireText<'a>>,
}

#[derive(Deserialize)]
struct RequestFields<'a> {
    #[serde(borrow)]
    subtype: WireText<'a>,
    #[serde(borrow, default)]
    tool_use_id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    tool_name: Option<WireText<'a>>,
    #[serde(borrow, default)]
    agent_id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    decision_reason: Option<WireText<'a>>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct HookInput<'a> {
    #[serde(borrow, default)]
    hook_event_name: Option<WireText<'a>>,
    #[serde(borrow, default)]
    transcript_path: Option<WireText<'a>>,
    #[serde(borrow, default)]
    cwd: Option<WireText<'a>>,
    #[serde(borrow, default)]
    tool_name: Option<WireText<'a>>,
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<WireText<'a>>,
    #[serde(borrow, default)]
    agent_id: Option<WireText<'a>>,
}

impl HookInput<'_> {
    fn is_event(&self, event: &str) -> bool {
        self.hook_event_name.as_deref() == Some(event)
    }
}

#[derive(Deserialize)]
struct ResponseFields<'a> {
    #[serde(borrow)]
    subtype: WireText<'a>,
    #[serde(borrow)]
    request_id: WireText<'a>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<WireText<'a>>,
}

impl<'a> AgentControlRequest<'a> {
    /// Whether text in our answer reaches the agent itself (not a sub-agent).
    pub fn is_from_main_agent(&self) -> bool {
        match &self.body {
            ControlRequestBody::PreToolUse { request: ask, .. } => ask.agent_id.is_none(),
            ControlRequestBody::PostToolUse { agent_id, .. } => agent_id.is_none(),
            _ => false,
        }
    }

    /// Never fails: a request that cannot be parsed must still get an answer.
    pub(super) fn parse(request_id: WireText<'a>, raw: &'a RawValue) -> Self {
        let body = match serde_json::from_str::<RequestFields<'a>>(raw.get()) {
            Ok(fields) => fields.into_body(raw),
            // It may be a permission request with unexpected fields.
            Err(_) => match serde_json::from_str::<Subtype<'a>>(raw.get()) {
                Ok(Subtype { subtype: Some(subtype) }) => match &*subtype {
                    "can_use_tool" => ControlRequestBody::UnreadableTool { tool_use_id: None, is_hook: false },
                    "hook_callback" => ControlRequestBody::UnreadableTool { tool_use_id: None, is_hook: true },
                    _ => ControlRequestBody::Other { subtype: Some(subtype) },
                },
                _ => ControlRequestBody::Other { subtype: None },
            },
        };
        Self { request_id, body }
    }
}

#[derive(Deserialize)]
struct Subtype<'a> {
    #[serde(borrow, default)]
    subtype: Option<WireText<'a>>,
}

impl<'a> RequestFields<'a> {
    fn into_body(self, raw: &'a RawValue) -> ControlRequestBody<'a> {
        match &*self.subtype {
            "can_use_tool" => match (self.tool_use_id, self.tool_name, self.input.filter(|input| is_object(input))) {
                (Some(tool_use_id), Some(tool), Some(input)) => ControlRequestBody::CanUseTool(ToolPermissionRequest {
                    tool_use_id,
                    tool,
                    input,
                    agent_id: self.agent_id,
                    reason: self.decision_reason.filter(|reason| !reason.is_empty()),
                    cwd: None,
                }),
                (tool_use_id, ..) => ControlRequestBody::UnreadableTool { tool_use_id, is_hook: false },
            },
            "hook_callback" => parse_hook(self.tool_use_id, self.input),
            "elicitation" => match serde_json::from_str(raw.get()) {
                Ok(elicitation) => ControlRequestBody::Elicitation(elicitation),
                Err(_) => ControlRequestBody::Other { subtype: Some(self.subtype) },
            },
            _ => ControlRequestBody::Other { subtype: Some(self.subtype) },
        }
    }
}

fn parse_hook<'a>(tool_use_id: Option<WireText<'a>>, input: Option<&'a RawValue>) -> ControlRequestBody<'a> {
    let Some(input) = input.and_then(|raw| serde_json::from_str::<HookInput<'a>>(raw.get()).ok()) else {
        return ControlRequestBody::UnreadableTool { tool_use_id, is_hook: true };
    };
    let after = [POST_TOOL_USE, POST_TOOL_USE_FAILURE].into_iter().find(|event| input.is_event(event));
    if let Some(event) = after {
        let tool_use_id = input.tool_use_id.or(tool_use_id);
        return ControlRequestBody::PostToolUse { event, tool_use_id, agent_id: input.agent_id };
    }
    let is_ours = input.is_event(PRE_TOOL_USE);
    let tool_use_id = input.tool_use_id.or(tool_use_id);
    match (tool_use_id, input.tool_name, input.tool_input.filter(|input| is_object(input))) {
        (Some(tool_use_id), Some(tool), Some(tool_input)) if is_ours => ControlRequestBody::PreToolUse {
            request: ToolPermissionRequest {
                tool_use_id,
                tool,
                input: tool_input,
                agent_id: input.agent_id,
                reason: None,
                cwd: input.cwd,
            },
            transcript_path: input.transcript_path,
        },
        (tool_use_id, ..) => ControlRequestBody::UnreadableTool { tool_use_id, is_hook: true },
    }
}

fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

impl<'a> AgentControlResponse<'a> {
    pub(super) fn parse(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let fields: ResponseFields<'a> = serde_json::from_str(raw.get())?;
        let outcome = match &*fields.subtype {
            "success" => Ok(fields.response),
            _ => Err(fields.error.unwrap_or(WireText("no reason given".into()))),
        };
        Ok(Self { request_id: fields.request_id, outcome })
    }
}
