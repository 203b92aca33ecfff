//! Background work of the fake agent, and the turn that follows its end.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::agent_loop::{FakeAgentLoop, TurnFlow};
use crate::output;

const BACKGROUND_TASK_ID: &str = "bfake";

/// Background work with an end time.
pub(crate) struct FakeBackgroundTask {
    ends_at: Instant,
}

impl FakeAgentLoop {
    /// Returns the time until the background work ends.
    pub(crate) fn time_until_background_end(&self) -> Duration {
        let left = self.background.as_ref().map(|task| task.ends_at.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::from_secs(3600))
    }

    pub(crate) fn start_background(&mut self, time: Duration) -> Result<TurnFlow> {
        self.background = Some(FakeBackgroundTask { ends_at: Instant::now() + time });
        self.print_system(&json!({"subtype": "background_tasks_changed",
            "tasks": [{"task_id": BACKGROUND_TASK_ID, "task_type": "local_bash", "description": "the fake job"}]}))?;
        self.print_system(
            &json!({"subtype": "task_started", "task_id": BACKGROUND_TASK_ID, "task_type": "local_bash",
            "description": "the fake job", "is_backgrounded": true}),
        )?;
        self.print_answer(&["started"])?;
        Ok(TurnFlow::Continue)
    }

    /// Reports the end of the work and starts a turn about it.
    pub(crate) fn end_background(&mut self) -> Result<()> {
        if self.background.take().is_some() {
            let summary = "Background command \"the fake job\" completed (exit code 0)";
            self.print_background_end("completed", "completed", summary)?;
            self.print_init(None)?;
            self.print_answer(&["it is over"])?;
        }
        Ok(())
    }

    /// Stops the work at the host's request.
    pub(crate) fn stop_background(&mut self) -> Result<()> {
        if self.background.take().is_some() {
            self.print_background_end("killed", "stopped", "the fake job")?;
        }
        Ok(())
    }

    fn print_background_end(&self, patch: &str, status: &str, summary: &str) -> Result<()> {
        self.print_system(
            &json!({"subtype": "task_updated", "task_id": BACKGROUND_TASK_ID, "patch": {"status": patch}}),
        )?;
        self.print_system(&json!({"subtype": "task_notification", "task_id": BACKGROUND_TASK_ID, "status": status, "summary": summary}))?;
        self.print_system(&json!({"subtype": "background_tasks_changed", "tasks": []}))
    }

    /// Prints the messages of a compaction without compacting.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.print_system(&json!({"subtype": "status", "status": "compacting"}))?;
        self.print_system(&json!({"subtype": "status", "status": null, "compact_result": "success"}))?;
        self.print_system(
            &json!({"subtype": "compact_boundary", "compact_metadata": {"pre_tokens": 900, "post_tokens": 90}}),
        )?;
        self.print_user(&json!("This session is being continued: a secret summary"))?;
        self.print_user(&json!("<local-command-stdout>Compacted </local-command-stdout>"))?;
        self.print_result(&json!({"subtype": "success", "is_error": false, "result": "", "usage": {}}))
    }

    fn print_system(&self, fields: &Value) -> Result<()> {
        let mut message = json!({"type": "system", "session_id": self.store.conversation_id});
        if let (Some(message), Some(fields)) = (message.as_object_mut(), fields.as_object()) {
            message.extend(fields.clone());
        }
        output::print_message(&message)
    }
}
