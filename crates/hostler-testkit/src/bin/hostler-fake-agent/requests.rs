//! Handles control requests of the host.

use anyhow::Result;
use serde_json::{Value, json};

use crate::agent_loop::{FakeAgentLoop, string_or_empty};
use crate::output;

impl FakeAgentLoop {
    /// Answers a request and carries it out.
    pub(crate) fn handle_request(&mut self, id: &str, subtype: &str, body: &Value) -> Result<()> {
        match subtype {
            "initialize" => {
                let mut answer = json!({"commands": [], "models": [], "pid": std::process::id()});
                if let Some(version) = self.version {
                    answer["claude_code_version"] = json!(version);
                }
                output::print_response(id, &answer)
            }
            "interrupt" if self.is_stubborn => Ok(()),
            "interrupt" => output::print_response(id, &json!({})),
            "set_model" => {
                self.model = string_or_empty(&body["model"]);
                let output = format!("<local-command-stdout>Set model to {}</local-command-stdout>", self.model);
                self.print_user(&json!(output))?;
                output::print_response(id, &json!({}))
            }
            "apply_flag_settings" if body["settings"]["effortLevel"] == "bogus" => {
                output::print_error_response(id, "no such effort")
            }
            "set_permission_mode" | "set_max_thinking_tokens" | "apply_flag_settings" => {
                output::print_response(id, &json!({}))
            }
            "cancel_async_message" => {
                let before = self.queue.len();
                self.queue.retain(|prompt| prompt.uuid.as_deref() != body["message_uuid"].as_str());
                output::print_response(id, &json!({"cancelled": self.queue.len() < before}))
            }
            "stop_task" => {
                output::print_response(id, &json!({}))?;
                self.stop_background()
            }
            other => output::print_error_response(id, &format!("Unsupported control request subtype: {other}")),
        }
    }
}
