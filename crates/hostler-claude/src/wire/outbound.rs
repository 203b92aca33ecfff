use std::io;

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::prompt::PromptMessage;

/// Our hooks, by the agent's names for their events, which are their callback ids too.
pub const PRE_TOOL_USE: &str = "PreToolUse";
/// The tool has run.
pub const POST_TOOL_USE: &str = "PostToolUse";
/// The tool has run and failed.
pub const POST_TOOL_USE_FAILURE: &str = "PostToolUseFailure";

/// Most lines are no longer than this.
const TYPICAL_LINE_BYTES: usize = 512;

/// A line for the agent. A malformed line would end it, so lines are made here and nowhere else.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostMessage<'a> {
    /// A prompt.
    User {
        /// Always empty: the process knows its conversation.
        session_id: &'static str,
        /// The prompt.
        message: PromptMessage<'a>,
        /// Always `null`.
        parent_tool_use_id: Option<()>,
        /// The id that the agent will know the prompt by. A repeated one is dropped without a word.
        uuid: Uuid,
        /// What becomes of it while a turn runs.
        priority: MessagePriority,
    },
    /// We ask the agent something.
    ControlRequest {
        /// Unique within the process.
        request_id: &'a str,
        /// What.
        request: HostControlRequest,
    },
    /// We answer the agent.
    ControlResponse {
        /// The answer.
        response: HostControlResponse<'a>,
    },
}

/// What becomes of a message that comes while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessagePriority {
    /// It gets a turn of its own. Every prompt has it: without it the agent folds the prompt into the running turn if that
    /// calls a tool, and older builds do not say so.
    Later,
    /// It is folded into the running turn when a tool call ends.
    Next,
}

/// What we ask of the agent.
#[derive(Debug, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum HostControlRequest {
    /// The handshake.
    Initialize {
        /// Our hooks.
        hooks: Hooks,
        /// Builds that can forward what sub-agents say do it; others ignore this.
        #[serde(rename = "forwardSubagentText")]
        forward_subagent_text: bool,
        /// People can stop each piece of background work by itself: builds that would end sub-agents in the background
        /// with an interrupt let them go on.
        #[serde(rename = "perTaskStopAffordance")]
        per_task_stop_affordance: bool,
    },
    /// Stop what you are doing.
    Interrupt,
    /// Take a message back that waits in the agent's queue.
    CancelAsyncMessage {
        /// Which.
        message_uuid: Uuid,
    },
    /// End something that goes on in the background.
    StopTask {
        /// What.
        task_id: String,
    },
    /// Use another model from now on.
    SetModel {
        /// Which. Without one the agent would choose its own.
        model: String,
    },
    /// Think more or less from now on.
    SetMaxThinkingTokens {
        /// How much; `null` is the agent's own choice.
        max_thinking_tokens: Option<u32>,
    },
    /// Change settings. They are merged with those of the command line, so that what these pin stays.
    ApplyFlagSettings {
        /// The change.
        settings: LiveSettings,
    },
    /// Ask differently from now on.
    SetPermissionMode {
        /// How.
        mode: String,
    },
}

/// Settings that can change while the agent lives.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveSettings {
    /// How hard the model is to think.
    pub effort_level: String,
}

/// Hooks by event.
#[derive(Debug, Serialize)]
pub struct Hooks {
    #[serde(rename = "PreToolUse")]
    pre_tool_use: [HookMatcher; 1],
    #[serde(rename = "PostToolUse")]
    post_tool_use: [HookMatcher; 1],
    #[serde(rename = "PostToolUseFailure")]
    post_tool_use_failure: [HookMatcher; 1],
}

/// Without a matcher a hook sees every call.
#[derive(Debug, Serialize)]
struct HookMatcher {
    #[serde(rename = "hookCallbackIds")]
    callback_ids: [&'static str; 1],
}

/// Our answer to a request of the agent.
#[derive(Debug, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum HostControlResponse<'a> {
    /// We could answer.
    Success {
        /// Their request.
        request_id: &'a str,
        /// The answer.
        response: ControlResponseBody<'a>,
    },
    /// We cannot answer; the agent must not wait.
    Error {
        /// Their request.
        request_id: &'a str,
        /// Why.
        error: &'a str,
    },
}

/// What we say to a request, in the shapes that the agent knows.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ControlResponseBody<'a> {
    /// To a permission request: the tool runs.
    Allow {
        /// `allow`.
        behavior: &'static str,
        /// The input that it runs with. Older builds take a missing one for a refusal.
        #[serde(rename = "updatedInput")]
        input: &'a RawValue,
        /// What changes with it. Never anything that would be written to a settings file.
        #[serde(rename = "updatedPermissions", skip_serializing_if = "Vec::is_empty")]
        permissions: Vec<PermissionUpdate<'a>>,
    },
    /// To a permission request: it does not; the model reads the message as it stands.
    Deny {
        /// `deny`.
        behavior: &'static str,
        /// Why.
        message: &'a str,
    },
    /// To a hook.
    Hook {
        /// The decision.
        #[serde(rename = "hookSpecificOutput")]
        output: HookOutput<'a>,
    },
    /// To a hook that decides nothing, with nothing to say.
    Empty {},
    /// To an MCP server's question.
    Elicitation {
        /// `accept`, `decline` or `cancel`.
        action: &'static str,
        /// The answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<serde_json::Value>,
    },
}

/// A change of permissions that lasts as long as the process.
#[derive(Debug, Serialize)]
pub struct PermissionUpdate<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    mode: &'a str,
    destination: &'static str,
}

/// A hook's decision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookOutput<'a> {
    hook_event_name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_decision_reason: Option<&'a str>,
    /// What the model is told beside the tool's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_context: Option<&'a str>,
}

impl<'a> HostMessage<'a> {
    /// The line, without its newline.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = Vec::with_capacity(self.estimated_length());
        serde_json::to_writer(&mut line, self)?;
        Ok(line)
    }

    /// How long the line is, without making it.
    pub fn length(&self) -> Result<usize, serde_json::Error> {
        let mut counted = ByteCounter(0);
        serde_json::to_writer(&mut counted, self)?;
        Ok(counted.0)
    }

    /// Enough for all but the rarest lines, so that a large one is not moved while it grows.
    fn estimated_length(&self) -> usize {
        let contents = match self {
            Self::User { message, .. } => message.size_bytes(),
            Self::ControlRequest { .. } | Self::ControlResponse { .. } => 0,
        };
        TYPICAL_LINE_BYTES + contents + contents / 2
    }
}

/// Writes nothing and knows how much it would have been.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl HostControlRequest {
    /// The handshake: hooks that see every tool call, before and after.
    pub fn initialize() -> Self {
        let hook = |event| [HookMatcher { callback_ids: [event] }];
        let hooks = Hooks {
            pre_tool_use: hook(PRE_TOOL_USE),
            post_tool_use: hook(POST_TOOL_USE),
            post_tool_use_failure: hook(POST_TOOL_USE_FAILURE),
        };
        Self::Initialize { hooks, forward_subagent_text: true, per_task_stop_affordance: true }
    }
}

impl<'a> ControlResponseBody<'a> {
    /// Grants a permission request, with the input that the tool is to run with.
    pub fn allow(input: &'a RawValue) -> Self {
        Self::Allow { behavior: "allow", input, permissions: Vec::new() }
    }

    /// The same, and the process changes to another permission mode.
    pub fn allow_with_mode(input: &'a RawValue, mode: &'a str) -> Self {
        let permissions = vec![PermissionUpdate { kind: "setMode", mode, destination: "session" }];
        Self::Allow { behavior: "allow", input, permissions }
    }

    /// Refuses a permission request.
    pub fn deny(message: &'a str) -> Self {
        Self::Deny { behavior: "deny", message }
    }

    /// Lets a call pass in the PreToolUse hook.
    pub fn allow_in_hook() -> Self {
        Self::hook("allow", "Hostler's rules allow it.")
    }

    /// Makes the agent ask for permission, whatever it would do by itself.
    pub fn ask_in_hook() -> Self {
        Self::hook("ask", "Hostler asks the user.")
    }

    /// Refuses a call in the PreToolUse hook.
    pub fn deny_in_hook(reason: &'a str) -> Self {
        Self::hook("deny", reason)
    }

    /// Answers a hook behind a call.
    pub fn post_tool_use(event: &'static str, context: Option<&'a str>) -> Self {
        match context {
            None => Self::Empty {},
            Some(context) => Self::Hook {
                output: HookOutput {
                    hook_event_name: event,
                    permission_decision: None,
                    permission_decision_reason: None,
                    additional_context: Some(context),
                },
            },
        }
    }

    /// The same decision, and the model is told something beside it.
    pub fn with_context(mut self, context: Option<&'a str>) -> Self {
        if let Self::Hook { output } = &mut self {
            output.additional_context = context;
        }
        self
    }

    fn hook(decision: &'static str, reason: &'a str) -> Self {
        let output = HookOutput {
            hook_event_name: PRE_TOOL_USE,
            permission_decision: Some(decision),
            permission_decision_reason: Some(reason),
            additional_context: None,
        };
        Self::Hook { output }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn line(message: &HostMessage<'_>) -> String {
        String::from_utf8(message.to_line().unwrap()).unwrap()
    }

    #[test]
    fn the_handshake_registers_hooks_that_see_every_call() {
        let request = HostControlRequest::initialize();
        assert_eq!(
            line(&HostMessage::ControlRequest { request_id: "r1", request }),
            r#"{"type":"control_request","request_id":"r1","request":{"subtype":"initialize","hooks":{"PreToolUse":[{"hookCallbackIds":["PreToolUse"]}],"PostToolUse":[{"hookCallbackIds":["PostToolUse"]}],"PostToolUseFailure":[{"hookCallbackIds":["PostToolUseFailure"]}]},"forwardSubagentText":true,"perTaskStopAffordance":true}}"#
        );
    }

    #[test]
    fn refusals_have_the_shapes_that_the_agent_reads() {
        let success = |response| HostMessage::ControlResponse {
            response: HostControlResponse::Success { request_id: "q", response },
        };
        assert_eq!(
            line(&success(ControlResponseBody::deny("no"))),
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"q","response":{"behavior":"deny","message":"no"}}}"#
        );
        assert_eq!(
            line(&success(ControlResponseBody::deny_in_hook("no"))),
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"q","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"no"}}}}"#
        );
    }
}
