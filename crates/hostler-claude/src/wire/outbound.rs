//! Lines for the agent: prompts, control requests and control answers.

use std::io;

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::prompt::PromptMessage;

/// Our hooks, by the agent's event names, which are their callback ids too.
pub const PRE_TOOL_USE: &str = "PreToolUse";
/// The tool has run.
pub const POST_TOOL_USE: &str = "PostToolUse";
/// The tool has run and failed.
pub const POST_TOOL_USE_FAILURE: &str = "PostToolUseFailure";

/// Most lines are shorter.
const TYPICAL_LINE_BYTES: usize = 512;

/// A line for the agent. A malformed line would end the agent, so all lines are created here.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostMessage<'a> {
    /// A prompt.
    User {
        /// Always empty: the process has one conversation.
        session_id: &'static str,
        /// The prompt.
        message: PromptMessage<'a>,
        /// Always `null`.
        parent_tool_use_id: Option<()>,
        /// The id of the prompt in the agent. A repeated id is silently dropped.
        uuid: Uuid,
        /// How it is queued while a turn runs.
        priority: MessagePriority,
    },
    /// A request to the agent.
    ControlRequest {
        /// Unique within the process.
        request_id: &'a str,
        /// The request.
        request: HostControlRequest,
    },
    /// An answer to the agent.
    ControlResponse {
        /// The answer.
        response: HostControlResponse<'a>,
    },
}

/// How a message that arrives during a turn is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessagePriority {
    /// It gets a turn of its own. Every prompt has this priority: without it the agent folds the prompt into the
    /// running turn if that calls a tool, and older builds do not report it.
    Later,
    /// It is folded into the running turn when a tool call ends.
    Next,
}

/// A request to the agent.
#[derive(Debug, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum HostControlRequest {
    /// The handshake.
    Initialize {
        /// Our hooks.
        hooks: Hooks,
        /// Whether to forward sub-agents' messages; builds that cannot do it ignore this.
        #[serde(rename = "forwardSubagentText")]
        forward_subagent_text: bool,
        /// Whether background tasks can be stopped one by one: builds that would end background sub-agents on an
        /// interrupt then let them continue.
        #[serde(rename = "perTaskStopAffordance")]
        per_task_stop_affordance: bool,
    },
    /// Interrupt the turn.
    Interrupt,
    /// Cancel a message in the agent's queue.
    CancelAsyncMessage {
        /// The message.
        message_uuid: Uuid,
    },
    /// Stop a background task.
    StopTask {
        /// The task.
        task_id: String,
    },
    /// Change the model.
    SetModel {
        /// The model. Without one the agent would choose its own.
        model: String,
    },
    /// Change the thinking budget.
    SetMaxThinkingTokens {
        /// The budget; `null` is the agent's default.
        max_thinking_tokens: Option<u32>,
    },
    /// Change settings. They are merged with those of the command line, so that pinned ones stay.
    ApplyFlagSettings {
        /// The change.
        settings: LiveSettings,
    },
    /// Change the permission mode.
    SetPermissionMode {
        /// The mode.
        mode: String,
    },
}

/// Settings that can change at runtime.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LiveSettings {
    /// The effort level.
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

/// Without a matcher a hook receives every call.
#[derive(Debug, Serialize)]
struct HookMatcher {
    #[serde(rename = "hookCallbackIds")]
    callback_ids: [&'static str; 1],
}

/// An answer to a request of the agent.
#[derive(Debug, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum HostControlResponse<'a> {
    /// A successful answer.
    Success {
        /// The request's id.
        request_id: &'a str,
        /// The answer.
        response: ControlResponseBody<'a>,
    },
    /// The request cannot be answered; the agent must not wait.
    Error {
        /// The request's id.
        request_id: &'a str,
        /// The reason.
        error: &'a str,
    },
}

/// The body of an answer, in the agent's formats.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ControlResponseBody<'a> {
    /// To a permission request: the tool runs.
    Allow {
        /// `allow`.
        behavior: &'static str,
        /// The input that it runs with. Older builds treat a missing one as a denial.
        #[serde(rename = "updatedInput")]
        input: &'a RawValue,
        /// Permission updates. Never one that would be written to a settings file.
        #[serde(rename = "updatedPermissions", skip_serializing_if = "Vec::is_empty")]
        permissions: Vec<PermissionUpdate<'a>>,
    },
    /// To a permission request: the tool does not run; the model receives the message unchanged.
    Deny {
        /// `deny`.
        behavior: &'static str,
        /// The reason.
        message: &'a str,
    },
    /// To a hook.
    Hook {
        /// The decision.
        #[serde(rename = "hookSpecificOutput")]
        output: HookOutput<'a>,
    },
    /// To a hook, without a decision or context.
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

/// A permission update for the lifetime of the process.
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
    /// Context for the model beside the tool's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_context: Option<&'a str>,
}

impl<'a> HostMessage<'a> {
    /// The line, without its line feed.
    pub fn to_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = Vec::with_capacity(self.estimated_length());
        serde_json::to_writer(&mut line, self)?;
        Ok(line)
    }

    /// The length of the line, without creating it.
    pub fn length(&self) -> Result<usize, serde_json::Error> {
        let mut counted = ByteCounter(0);
        serde_json::to_writer(&mut counted, self)?;
        Ok(counted.0)
    }

    /// An upper bound for all but the rarest lines, so that a large line is not reallocated while it grows.
    fn estimated_length(&self) -> usize {
        let contents = match self {
            Self::User { message, .. } => message.size_bytes(),
            Self::ControlRequest { .. } | Self::ControlResponse { .. } => 0,
        };
        TYPICAL_LINE_BYTES + contents + contents / 2
    }
}

/// A writer that only counts bytes.
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
    /// The handshake: hooks before and after every tool call.
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
    /// Allows a permission request, with the tool's input.
    pub fn allow(input: &'a RawValue) -> Self {
        Self::Allow { behavior: "allow", input, permissions: Vec::new() }
    }

    /// The same, and the process changes to another permission mode.
    pub fn allow_with_mode(input: &'a RawValue, mode: &'a str) -> Self {
        let permissions = vec![PermissionUpdate { kind: "setMode", mode, destination: "session" }];
        Self::Allow { behavior: "allow", input, permissions }
    }

    /// Denies a permission request.
    pub fn deny(message: &'a str) -> Self {
        Self::Deny { behavior: "deny", message }
    }

    /// Allows a call in the PreToolUse hook.
    pub fn allow_in_hook() -> Self {
        Self::hook("allow", "Allowed by Hostler's permission rules.")
    }

    /// Makes the agent ask for permission, regardless of its own decision.
    pub fn ask_in_hook() -> Self {
        Self::hook("ask", "Hostler asks the user for approval.")
    }

    /// Denies a call in the PreToolUse hook.
    pub fn deny_in_hook(reason: &'a str) -> Self {
        Self::hook("deny", reason)
    }

    /// Answers a hook that runs after a call.
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

    /// Adds context for the model to the decision.
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
    fn handshake_registers_hooks_for_every_call() {
        let request = HostControlRequest::initialize();
        assert_eq!(
            line(&HostMessage::ControlRequest { request_id: "r1", request }),
            r#"{"type":"control_request","request_id":"r1","request":{"subtype":"initialize","hooks":{"PreToolUse":[{"hookCallbackIds":["PreToolUse"]}],"PostToolUse":[{"hookCallbackIds":["PostToolUse"]}],"PostToolUseFailure":[{"hookCallbackIds":["PostToolUseFailure"]}]},"forwardSubagentText":true,"perTaskStopAffordance":true}}"#
        );
    }

    #[test]
    fn denials_have_the_expected_json() {
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
