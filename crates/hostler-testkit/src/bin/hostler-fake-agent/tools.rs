//! Tool calls: the model writes them, the host decides on them, and may tell the model something beside.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::{Value, json};

use crate::conversation::{Conversation, Flow, text};
use crate::input::Prompt;

/// What a call came to, and what the model was told beside it.
struct Called {
    is_error: bool,
    output: String,
    told: Vec<String>,
}

/// A call as the model writes it.
pub(crate) struct Call {
    name: String,
    input: Value,
}

impl Call {
    /// Some call of a shell.
    pub(crate) fn shell() -> Self {
        Self::of("Bash".to_owned(), json!({"command": "true"}))
    }

    pub(crate) fn of(name: String, input: Value) -> Self {
        Self { name, input }
    }
}

impl Conversation {
    /// Calls a tool several times, one after the other, and says what was told.
    pub(crate) fn tools(&mut self, call: &Call, count: u64, sub_agent: Option<&str>) -> Result<Flow> {
        let mut told = Vec::new();
        for number in 0..count {
            let id = if number == 0 { "toolu_fake".to_owned() } else { format!("toolu_fake_{number}") };
            if sub_agent.is_none() {
                self.written_by_model(call, &id)?;
            }
            let Some(called) = self.call(call, &id, sub_agent)? else { return Ok(Flow::Exit(ExitCode::SUCCESS)) };
            if sub_agent.is_none() {
                let Called { is_error, output, .. } = &called;
                self.user(
                    &json!([{"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": output}]),
                )?;
            }
            told.extend(called.told);
            if sub_agent.is_none() {
                told.extend(self.folded());
            }
        }
        match told.is_empty() {
            true => self.answer(&["no tool, then"])?,
            false => self.answer(&[&format!("told: {}", told.join(" / "))])?,
        }
        Ok(Flow::Goes)
    }

    /// What the host wrote for this turn while the call ran.
    fn folded(&mut self) -> Vec<String> {
        let (now, later) = std::mem::take(&mut self.queue).into_iter().partition(|prompt| prompt.folds);
        self.queue = later;
        now.into_iter().map(|prompt: Prompt| prompt.text).collect()
    }

    fn written_by_model(&mut self, Call { name, input }: &Call, id: &str) -> Result<()> {
        self.message_start()?;
        self.event(&json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": id, "name": name, "input": {}}}))?;
        self.event(&json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": input.to_string()}}))?;
        self.whole(&json!({"type": "tool_use", "id": id, "name": name, "input": input}))?;
        self.event(&json!({"type": "content_block_stop", "index": 1}))
    }

    /// Hook, permission, run, hook. `None` if the host has gone.
    fn call(&mut self, call: &Call, id: &str, sub_agent: Option<&str>) -> Result<Option<Called>> {
        let mut told = Vec::new();
        let Some(decision) = self.hook("PreToolUse", call, id, sub_agent, &mut told)? else { return Ok(None) };
        let Call { name, input } = call;
        let mut output = "done".to_owned();
        let refused = |output: String, told| Ok(Some(Called { is_error: true, output, told }));
        match decision["permissionDecision"].as_str() {
            Some("deny") => {
                let reason = text(&decision["permissionDecisionReason"]);
                return refused(format!("PreToolUse:{name} hook error: {reason}"), told);
            }
            Some("allow") => {}
            _ => {
                let request = json!({"subtype": "can_use_tool", "tool_name": name, "input": input,
                    "tool_use_id": id, "agent_id": sub_agent});
                let Some(verdict) = self.ask(&request)? else { return Ok(None) };
                if verdict["response"]["behavior"] != "allow" {
                    return refused(text(&verdict["response"]["message"]), told);
                }
                if let Some(updated) = verdict["response"].get("updatedInput").filter(|updated| *updated != input) {
                    output = updated.to_string();
                }
            }
        }
        let ran = self.hook("PostToolUse", call, id, sub_agent, &mut told)?;
        Ok(ran.map(|_| Called { is_error: false, output, told }))
    }

    fn hook(
        &mut self,
        event: &str,
        Call { name, input }: &Call,
        id: &str,
        sub_agent: Option<&str>,
        told: &mut Vec<String>,
    ) -> Result<Option<Value>> {
        let mut fields = json!({"hook_event_name": event, "tool_name": name, "tool_input": input, "tool_use_id": id,
            "session_id": self.store.session, "transcript_path": self.store.path});
        if let Some(agent) = sub_agent {
            fields["agent_id"] = json!(agent);
        }
        let request = json!({"subtype": "hook_callback", "callback_id": event, "tool_use_id": id, "input": fields});
        let Some(answer) = self.ask(&request)? else { return Ok(None) };
        let output = answer["response"]["hookSpecificOutput"].clone();
        told.extend(output["additionalContext"].as_str().map(str::to_owned));
        Ok(Some(output))
    }
}
