//! Work in the background, and the turn that follows from its end.

use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::conversation::{Conversation, Flow};
use crate::wire;

const TASK: &str = "bfake";

/// Something that will be over.
pub(crate) struct Background {
    ends: Instant,
}

impl Conversation {
    /// How long there is nothing to do.
    pub(crate) fn idle(&self) -> Duration {
        let left = self.background.as_ref().map(|task| task.ends.saturating_duration_since(Instant::now()));
        left.unwrap_or(Duration::from_secs(3600))
    }

    pub(crate) fn start_background(&mut self, time: Duration) -> Result<Flow> {
        self.background = Some(Background { ends: Instant::now() + time });
        self.system(&json!({"subtype": "background_tasks_changed",
            "tasks": [{"task_id": TASK, "task_type": "local_bash", "description": "the fake job"}]}))?;
        self.system(&json!({"subtype": "task_started", "task_id": TASK, "task_type": "local_bash",
            "description": "the fake job", "is_backgrounded": true}))?;
        self.answer(&["started"])?;
        Ok(Flow::Goes)
    }

    /// The time is over: says so, and begins a turn about it.
    pub(crate) fn background_ends(&mut self) -> Result<()> {
        if self.background.take().is_some() {
            let summary = "Background command \"the fake job\" completed (exit code 0)";
            self.ended("completed", "completed", summary)?;
            self.init(None)?;
            self.answer(&["it is over"])?;
        }
        Ok(())
    }

    /// The host has stopped it.
    pub(crate) fn background_stops(&mut self) -> Result<()> {
        if self.background.take().is_some() {
            self.ended("killed", "stopped", "the fake job")?;
        }
        Ok(())
    }

    fn ended(&self, patch: &str, status: &str, summary: &str) -> Result<()> {
        self.system(&json!({"subtype": "task_updated", "task_id": TASK, "patch": {"status": patch}}))?;
        self.system(&json!({"subtype": "task_notification", "task_id": TASK, "status": status, "summary": summary}))?;
        self.system(&json!({"subtype": "background_tasks_changed", "tasks": []}))
    }

    /// Shortens nothing, but says all that is said about it.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.system(&json!({"subtype": "status", "status": "compacting"}))?;
        self.system(&json!({"subtype": "status", "status": null, "compact_result": "success"}))?;
        self.system(
            &json!({"subtype": "compact_boundary", "compact_metadata": {"pre_tokens": 900, "post_tokens": 90}}),
        )?;
        self.user(&json!("This session is being continued: a secret summary"))?;
        self.user(&json!("<local-command-stdout>Compacted </local-command-stdout>"))?;
        self.result(&json!({"subtype": "success", "is_error": false, "result": "", "usage": {}}))
    }

    fn system(&self, fields: &Value) -> Result<()> {
        let mut message = json!({"type": "system", "session_id": self.store.session});
        if let (Some(message), Some(fields)) = (message.as_object_mut(), fields.as_object()) {
            message.extend(fields.clone());
        }
        wire::print(&message)
    }
}
