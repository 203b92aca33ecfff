//! Tool calls of the fake agent: the model makes them, the host decides on them and may add context for the model.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::agent_loop::{FakeAgentLoop, TurnFlow, string_or_empty};
use crate::host_input::UserPrompt;

/// Result of a call, and the context that the model received with it.
struct FakeToolResult {
    is_error: bool,
    output: String,
    added_context: Vec<String>,
}

/// Tool call of the model.
pub(crate) struct FakeToolCall {
    name: String,
    input: Value,
}

impl FakeToolCall {
    /// Returns a shell call.
    pub(crate) fn bash() -> Self {
        Self::new("Bash".to_owned(), json!({"command": "true"}))
    }

    pub(crate) fn new(name: String, input: Value) -> Self {
        Self { name, input }
    }
}

impl FakeAgentLoop {
    /// Calls a tool several times in a row, and repeats the received context.
    pub(crate) fn call_tools(&mut self, call: &FakeToolCall, count: u64, sub_agent: Option<&str>) -> Result<TurnFlow> {
        let mut context = Vec::new();
        for number in 0..count {
            let id = if number == 0 { "toolu_fake".to_owned() } else { format!("toolu_fake_{number}") };
            if sub_agent.is_none() {
                self.print_tool_use(call, &id)?;
            }
            let Some(called) = self.call_tool(call, &id, sub_agent)? else {
                return Ok(TurnFlow::Exit(ExitCode::SUCCESS));
            };
            if sub_agent.is_none() {
                let FakeToolResult { is_error, output, .. } = &called;
                self.print_user(
                    &json!([{"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": output}]),
                )?;
            }
            context.extend(called.added_context);
            if sub_agent.is_none() {
                context.extend(self.take_joining_prompts());
            }
        }
        match context.is_empty() {
            true => self.print_answer(&["no tool, then"])?,
            false => self.print_answer(&[&format!("received: {}", context.join(" / "))])?,
        }
        Ok(TurnFlow::Continue)
    }

    /// Takes the messages that the host wrote for this turn while the call ran.
    fn take_joining_prompts(&mut self) -> Vec<String> {
        let (now, later) = std::mem::take(&mut self.queue).into_iter().partition(|prompt| prompt.joins_running_turn);
        self.queue = later;
        now.into_iter().map(|prompt: UserPrompt| prompt.text).collect()
    }

    fn print_tool_use(&mut self, FakeToolCall { name, input }: &FakeToolCall, id: &str) -> Result<()> {
        self.print_message_start()?;
        self.print_stream_event(&json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}}))?;
        self.print_stream_event(&json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": input.to_string()}}))?;
        self.print_assistant_block(&json!({"type": "tool_use", "id": id, "name": name, "input": input}))?;
        self.print_stream_event(&json!({"type": "content_block_stop", "index": 1}))
    }

    /// Hook, permission request, run, hook. `None` if the host has disconnected.
    fn call_tool(&mut self, call: &FakeToolCall, id: &str, sub_agent: Option<&str>) -> Result<Option<FakeToolResult>> {
        let mut context = Vec::new();
        let Some(decision) = self.call_hook("PreToolUse", call, id, sub_agent, &mut context)? else { return Ok(None) };
        let FakeToolCall { name, input } = call;
        let mut output = "done".to_owned();
        let refused =
            |output: String, context| Ok(Some(FakeToolResult { is_error: true, output, added_context: context }));
        match decision["permissionDecision"].as_str() {
            Some("deny") => {
                let reason = string_or_empty(&decision["permissionDecisionReason"]);
                return refused(format!("PreToolUse:{name} hook error: {reason}"), context);
            }
            Some("allow") => {}
            _ => {
                let request = json!({"subtype": "can_use_tool", "tool_name": name, "input": input,
                    "tool_use_id": id, "agent_id": sub_agent});
                let Some(verdict) = self.request_host(&request)? else { return Ok(None) };
                if verdict["response"]["behavior"] != "allow" {
                    return refused(string_or_empty(&verdict["response"]["message"]), context);
                }
                if let Some(updated) = verdict["response"].get("updatedInput").filter(|updated| *updated != input) {
                    output = updated.to_string();
                }
            }
        }
        let ran = self.call_hook("PostToolUse", call, id, sub_agent, &mut context)?;
        Ok(ran.map(|_| FakeToolResult { is_error: false, output, added_context: context }))
    }

    fn call_hook(
        &mut self,
        event: &str,
        FakeToolCall { name, input }: &FakeToolCall,
        id: &str,
        sub_agent: Option<&str>,
        context: &mut Vec<String>,
    ) -> Result<Option<Value>> {
        let mut fields = json!({"hook_event_name": event, "tool_name": name, "tool_input": input, "tool_use_id": id,
            "session_id": self.store.conversation_id, "transcript_path": self.store.path});
        if let Some(agent) = sub_agent {
            fields["agent_id"] = json!(agent);
        }
        let request = json!({"subtype": "hook_callback", "callback_id": event, "tool_use_id": id, "input": fields});
        let Some(answer) = self.request_host(&request)? else { return Ok(None) };
        let output = answer["response"]["hookSpecificOutput"].clone();
        context.extend(output["additionalContext"].as_str().map(str::to_owned));
        Ok(Some(output))
    }
}
