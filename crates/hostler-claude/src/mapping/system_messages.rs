//! Maps `system` messages: starts of turns, background tasks, compaction, retries.

use std::time::Duration;

use hostler_driver::{ApiErrorCategory, DriverEvent};

use crate::wire::{ApiRetry, InitMessage, StatusMessage, SystemMessage};

use super::compaction::CompactionTracker;
use super::{EventMapper, Events};

impl EventMapper {
    pub(super) fn on_system(&mut self, message: &SystemMessage<'_>, out: &mut Events) {
        match message {
            SystemMessage::Init(init) => self.on_init(init, out),
            SystemMessage::ApiRetry(retry) => {
                self.current_turn(out);
                out.push(retry_event(retry));
            }
            SystemMessage::CompactBoundary(boundary) => {
                let facts = &boundary.compact_metadata;
                self.finish_compaction(|compaction| compaction.finish(facts), out);
                if let Some(turn) = &mut self.turn {
                    self.meter.on_compaction(&mut turn.usage, facts.post_tokens);
                }
            }
            SystemMessage::Status(status) => self.on_status(status, out),
            SystemMessage::TaskStarted(started) => {
                self.start_sub_agent(started, out);
                let goes_on = self.background.on_task_started(started);
                self.sub_agents.move_to_background(goes_on.as_slice());
                out.extend(goes_on);
            }
            SystemMessage::TaskUpdated(update) => {
                out.extend(self.background.on_task_updated(update));
                self.on_sub_agent_updated(update, out);
            }
            SystemMessage::BackgroundTasks(list) => {
                let changes = self.background.on_task_list(list);
                self.sub_agents.move_to_background(&changes);
                out.extend(changes);
            }
            SystemMessage::TaskNotification(over) => {
                let (event, reason) = self.background.on_task_notification(over);
                out.extend(event);
                self.on_sub_agent_notification(over, out);
                if let Some(reason) = reason {
                    self.causes.announce(reason, self.turn.is_some());
                }
            }
            SystemMessage::Informational { content: Some(content) } => self.emit_notice(content, out),
            SystemMessage::PermissionDenied { tool_use_id: Some(id) } => self.mark_denied(id),
            SystemMessage::Informational { .. }
            | SystemMessage::PermissionDenied { .. }
            | SystemMessage::Ignored(_) => {}
        }
    }

    fn on_status(&mut self, status: &StatusMessage<'_>, out: &mut Events) {
        match status.status.as_deref() {
            Some("requesting") => self.causes.on_request(),
            Some("compacting") => {
                self.current_turn(out);
                out.extend(self.compaction.start());
            }
            _ => {}
        }
        if let Some(mode) = &status.permission_mode {
            out.push(DriverEvent::PermissionModeChanged(mode.to_string()));
        }
        if let Some(reason) = status.compaction_failure() {
            self.finish_compaction(|compaction| compaction.fail(reason), out);
        }
    }

    /// A compaction is over: it counts as output, even if the turn has no other.
    fn finish_compaction(&mut self, how: impl FnOnce(&mut CompactionTracker) -> Events, out: &mut Events) {
        let turn = self.current_turn(out);
        turn.has_output = true;
        let events = how(&mut self.compaction);
        out.extend(events);
    }

    fn on_init(&mut self, init: &InitMessage<'_>, out: &mut Events) {
        if self.turn.is_none() {
            let cause = self.causes.start_turn(Some(init));
            self.start_turn(cause, out);
        }
        self.causes.on_prompts_answered(init.user_message_uuids.as_deref());
        self.resume.set_session(init.session_id.as_deref());
        out.extend(self.resume.token_at_turn_start());
        if let Some(turn) = &mut self.turn {
            turn.usage.set_model(init.model.as_deref());
        }
    }
}

fn retry_event(retry: &ApiRetry) -> DriverEvent {
    DriverEvent::Retrying {
        attempt: retry.attempt,
        max_attempts: retry.max_retries,
        delay: Duration::try_from_secs_f64(retry.retry_delay_ms / 1000.0).unwrap_or_default(),
        status: retry.error_status,
        category: retry.error_status.map_or(ApiErrorCategory::Network, ApiErrorCategory::from_status),
    }
}
