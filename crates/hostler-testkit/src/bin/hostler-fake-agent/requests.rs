//! What the host asks of the agent.

use anyhow::Result;
use serde_json::{Value, json};

use crate::conversation::{Conversation, text};
use crate::wire;

impl Conversation {
    /// Answers it, and does what it asks.
    pub(crate) fn request(&mut self, id: &str, subtype: &str, body: &Value) -> Result<()> {
        match subtype {
            "initialize" => {
                let mut answer = json!({"commands": [], "models": [], "pid": std::process::id()});
                if let Some(version) = self.version {
                    answer["claude_code_version"] = json!(version);
                }
                wire::answer(id, &answer)
            }
            "interrupt" if self.stubborn => Ok(()),
            "interrupt" => wire::answer(id, &json!({})),
            "set_model" => {
                self.model = text(&body["model"]);
                let told = format!("<local-command-stdout>Set model to {}</local-command-stdout>", self.model);
                self.user(&json!(told))?;
                wire::answer(id, &json!({}))
            }
            "apply_flag_settings" if body["settings"]["effortLevel"] == "bogus" => wire::refuse(id, "no such effort"),
            "set_permission_mode" | "set_max_thinking_tokens" | "apply_flag_settings" => wire::answer(id, &json!({})),
            "cancel_async_message" => {
                let before = self.queue.len();
                self.queue.retain(|prompt| prompt.uuid.as_deref() != body["message_uuid"].as_str());
                wire::answer(id, &json!({"cancelled": self.queue.len() < before}))
            }
            "stop_task" => {
                wire::answer(id, &json!({}))?;
                self.background_stops()
            }
            other => wire::refuse(id, &format!("Unsupported control request subtype: {other}")),
        }
    }
}
