//! What the host reports to the mapper: prompts sent, steers, decisions, hooks and setting changes.

use std::path::{Path, PathBuf};

use hostler_driver::{DriverEvent, GateDecision, SteeringMessage, SteeringMessageId, SubAgentEvent};
use uuid::Uuid;

use crate::wire::{ControlRequestBody, POST_TOOL_USE_FAILURE};

use super::EventMapper;

impl EventMapper {
    /// A prompt was sent: the next turn is (or may be) its answer.
    pub fn prompt_sent(&mut self, id: Uuid) {
        self.causes.prompt_sent(id);
    }

    /// Holds a steer until it can be injected; it is late if no turn runs and no prompt waits.
    pub fn queue_steering(&mut self, steer: SteeringMessage) {
        let busy = self.turn.is_some() || self.causes.has_waiting_prompts();
        self.steering.queue(steer, busy);
    }

    /// Cancels a steer; `false` if it is not held.
    pub fn cancel_steering(&mut self, id: &SteeringMessageId) -> bool {
        self.steering.cancel(id)
    }

    /// The steer that could be injected now.
    pub fn next_steering(&self) -> Option<SteeringMessage> {
        self.turn.as_ref()?;
        self.steering.next().cloned()
    }

    /// Marks a steer as injected; the caller then has to send it. `false` if it is no longer held.
    pub fn inject_steering(&mut self, id: &SteeringMessageId) -> bool {
        self.turn.is_some() && self.steering.inject(id)
    }

    /// Marks a steer as sent in a message of its own, with this id; the caller then has to write it.
    pub fn send_steering_as_message(&mut self, id: &SteeringMessageId, message: Uuid) -> bool {
        self.turn.is_some() && self.steering.send_as_message(id, message)
    }

    /// The message that was written and that the model may not have received yet.
    pub fn message_in_flight(&self) -> Option<Uuid> {
        self.steering.message_in_flight()
    }

    /// The result of cancelling a message: whether the agent still had it queued.
    pub fn on_message_cancelled(&mut self, message: Uuid, is_back: bool) -> Option<DriverEvent> {
        self.steering.on_message_cancelled(message, is_back)
    }

    /// Reports steers that arrived when there was no turn.
    pub fn take_late_steering(&mut self) -> Vec<DriverEvent> {
        self.steering.take_late()
    }

    /// The agent has exited: all steers are undelivered.
    pub fn abandon_steering(&mut self) -> Vec<DriverEvent> {
        self.steering.abandon_all()
    }

    /// Whether a background task with this id is running.
    pub fn is_running_in_background(&self, id: &str) -> bool {
        self.background.is_running(id)
    }

    /// The output file of a task, as the agent reports it.
    pub fn task_output_path(&self, id: &str) -> Option<PathBuf> {
        self.background.output_path(id).map(Path::to_owned)
    }

    /// A model change is being sent or is finished. The agent echoes it as the output of a command that was not sent.
    pub fn set_model_change_pending(&mut self, begins: bool) {
        self.pending_model_changes = match begins {
            true => self.pending_model_changes.saturating_add(1),
            false => self.pending_model_changes.saturating_sub(1),
        };
    }

    /// Whether a command's output is such an echo.
    pub(super) fn is_model_change_echo(&self, output: &str) -> bool {
        self.pending_model_changes > 0 && output.starts_with("Set model to")
    }

    /// A call was denied: its result will be a denial.
    pub fn mark_denied(&mut self, tool_use_id: &str) {
        self.tools.mark_denied(tool_use_id);
        self.sub_agents.mark_denied(tool_use_id);
    }

    /// The gate has decided on a call.
    pub fn on_gate_decision(&mut self, gated: Option<(String, GateDecision)>) -> Vec<DriverEvent> {
        let Some((id, gate)) = gated else { return Vec::new() };
        let ready = self.tools.is_ready(&id);
        let sub_agent = self.sub_agents.awaiting_decision(&id);
        let event = DriverEvent::ToolDecided { id, decision: gate };
        match sub_agent {
            _ if ready => vec![event],
            Some(agent) => vec![DriverEvent::SubAgent { agent, event: SubAgentEvent::Activity(Box::new(event)) }],
            None => Vec::new(),
        }
    }

    /// Reports from our hooks about sub-agents' calls, which some builds print late or not at all.
    pub fn on_hook(&mut self, body: &ControlRequestBody<'_>) -> Vec<DriverEvent> {
        let mut out = Vec::new();
        match body {
            ControlRequestBody::PreToolUse { request: ask, .. } | ControlRequestBody::CanUseTool(ask) => {
                self.on_sub_agent_call(ask, &mut out)
            }
            ControlRequestBody::PostToolUse { event, agent_id: Some(agent), tool_use_id: Some(call) } => {
                self.on_sub_agent_call_finished(agent, call, *event == POST_TOOL_USE_FAILURE, &mut out);
            }
            _ => {}
        }
        out
    }

    /// Starts a turn if none runs; used when stored output of a turn is replayed.
    pub fn ensure_turn(&mut self) -> Vec<DriverEvent> {
        let mut out = Vec::new();
        self.current_turn(&mut out);
        out
    }

    /// The transcript of the conversation exists: from now on its path is the resume token.
    pub fn transcript_found(&mut self, session_id: &str, path: PathBuf) {
        self.resume.set_transcript(session_id, path);
    }
}
