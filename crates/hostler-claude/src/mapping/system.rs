//! News about the session: beginnings of turns, background work, compaction, retries.

use std::time::Duration;

use hostler_driver::{ApiErrorCategory, DriverEvent};

use crate::wire::{ApiRetry, Init, Status, SystemMessage};

use super::compaction::Compaction;
use super::{Events, Mapper};

impl Mapper {
    pub(super) fn on_system(&mut self, message: &SystemMessage<'_>, out: &mut Events) {
        match message {
            SystemMessage::Init(init) => self.on_init(init, out),
            SystemMessage::ApiRetry(retry) => {
                self.turn(out);
                out.push(retrying(retry));
            }
            SystemMessage::CompactBoundary(boundary) => {
                let facts = &boundary.compact_metadata;
                self.compacted(|compaction| compaction.finished(facts), out);
                if let Some(turn) = &mut self.turn {
                    self.meter.shortened(&mut turn.usage, facts.post_tokens);
                }
            }
            SystemMessage::Status(status) => self.on_status(status, out),
            SystemMessage::TaskStarted(started) => {
                self.sub_agent_started(started, out);
                let goes_on = self.background.started(started);
                self.sub_agents.go_on(goes_on.as_slice());
                out.extend(goes_on);
            }
            SystemMessage::TaskUpdated(update) => {
                out.extend(self.background.updated(update));
                self.sub_agent_updated(update, out);
            }
            SystemMessage::BackgroundTasks(list) => {
                let changes = self.background.listed(list);
                self.sub_agents.go_on(&changes);
                out.extend(changes);
            }
            SystemMessage::TaskNotification(over) => {
                let (event, reason) = self.background.notified(over);
                out.extend(event);
                self.sub_agent_notified(over, out);
                if let Some(reason) = reason {
                    self.causes.announce(reason, self.turn.is_some());
                }
            }
            SystemMessage::Informational { content: Some(content) } => self.notice(content, out),
            SystemMessage::PermissionDenied { tool_use_id: Some(id) } => self.denied(id),
            SystemMessage::Informational { .. } | SystemMessage::PermissionDenied { .. } | SystemMessage::Named(_) => {}
        }
    }

    fn on_status(&mut self, status: &Status<'_>, out: &mut Events) {
        match status.status.as_deref() {
            Some("requesting") => self.causes.on_request(),
            Some("compacting") => {
                self.turn(out);
                out.extend(self.compaction.started());
            }
            _ => {}
        }
        if let Some(mode) = &status.permission_mode {
            out.push(DriverEvent::PermissionModeChanged(mode.to_string()));
        }
        if let Some(reason) = status.compaction_failed() {
            self.compacted(|compaction| compaction.failed(reason), out);
        }
    }

    /// A compaction is over: that is something to show, also where the turn shows nothing else.
    fn compacted(&mut self, how: impl FnOnce(&mut Compaction) -> Events, out: &mut Events) {
        let turn = self.turn(out);
        turn.produced = true;
        let events = how(&mut self.compaction);
        out.extend(events);
    }

    fn on_init(&mut self, init: &Init<'_>, out: &mut Events) {
        if self.turn.is_none() {
            let cause = self.causes.begin(Some(init));
            self.begin(cause, out);
        }
        self.causes.answered(init.user_message_uuids.as_deref());
        self.resume.session_named(init.session_id.as_deref());
        out.extend(self.resume.at_beginning());
        if let Some(turn) = &mut self.turn {
            turn.usage.answered_by(init.model.as_deref());
        }
    }
}

fn retrying(retry: &ApiRetry) -> DriverEvent {
    DriverEvent::Retrying {
        attempt: retry.attempt,
        max: retry.max_retries,
        delay: Duration::try_from_secs_f64(retry.retry_delay_ms / 1000.0).unwrap_or_default(),
        status: retry.error_status,
        category: retry.error_status.map_or(ApiErrorCategory::Network, ApiErrorCategory::from_status),
    }
}
