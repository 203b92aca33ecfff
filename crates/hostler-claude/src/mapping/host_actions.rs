//! What the mapping has to know of our own doings.

use std::path::{Path, PathBuf};

use hostler_driver::{DriverEvent, GateDecision, SteeringMessage, SteeringMessageId, SubAgentEvent};
use uuid::Uuid;

use crate::wire::{ControlRequestBody, POST_TOOL_USE_FAILURE};

use super::EventMapper;

impl EventMapper {
    /// A prompt was written: the next turn is (or may be) its answer.
    pub fn prompt_sent(&mut self, id: Uuid) {
        self.causes.prompt_sent(id);
    }

    /// Keeps a person's words until the model can be told; they come too late if nothing is going on.
    pub fn queue_steering(&mut self, steer: SteeringMessage) {
        let busy = self.turn.is_some() || self.causes.has_waiting_prompts();
        self.steering.queue(steer, busy);
    }

    /// Takes words back; `false` if they are not held.
    pub fn cancel_steering(&mut self, id: &SteeringMessageId) -> bool {
        self.steering.cancel(id)
    }

    /// What the model could be told now.
    pub fn next_steering(&self) -> Option<SteeringMessage> {
        self.turn.as_ref()?;
        self.steering.next().cloned()
    }

    /// The model is told these words now: whoever takes them has to tell. `false` if they are no longer held.
    pub fn inject_steering(&mut self, id: &SteeringMessageId) -> bool {
        self.turn.is_some() && self.steering.inject(id)
    }

    /// These words go as a message of their own, under this id: whoever takes them has to write it.
    pub fn send_steering_as_message(&mut self, id: &SteeringMessageId, message: Uuid) -> bool {
        self.turn.is_some() && self.steering.send_as_message(id, message)
    }

    /// The message that was written and that the model may not have yet.
    pub fn message_in_flight(&self) -> Option<Uuid> {
        self.steering.message_in_flight()
    }

    /// We wanted a message back; whether the agent had it still.
    pub fn on_message_cancelled(&mut self, message: Uuid, is_back: bool) -> Option<DriverEvent> {
        self.steering.on_message_cancelled(message, is_back)
    }

    /// Words that came when there was no turn.
    pub fn take_late_steering(&mut self) -> Vec<DriverEvent> {
        self.steering.take_late()
    }

    /// The agent is gone: nothing is told any more.
    pub fn abandon_steering(&mut self) -> Vec<DriverEvent> {
        self.steering.abandon_all()
    }

    /// Whether something goes on in the background under this id.
    pub fn is_running_in_background(&self, id: &str) -> bool {
        self.background.is_running(id)
    }

    /// Where the agent says that it writes the output of what goes on under this id.
    pub fn task_output_path(&self, id: &str) -> Option<PathBuf> {
        self.background.output_path(id).map(Path::to_owned)
    }

    /// We begin or end to tell the agent of another model. It repeats that as the output of a command nobody gave.
    pub fn set_model_change_pending(&mut self, begins: bool) {
        self.pending_model_changes = match begins {
            true => self.pending_model_changes.saturating_add(1),
            false => self.pending_model_changes.saturating_sub(1),
        };
    }

    /// Whether a command's output is such a repetition.
    pub(super) fn is_model_change_echo(&self, output: &str) -> bool {
        self.pending_model_changes > 0 && output.starts_with("Set model to")
    }

    /// We refused a call: its result will be a denial.
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

    /// What our hooks hear of sub-agents' calls, which some builds print late or not at all.
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

    /// Something is told again that the agent said in a turn: there is one from now on.
    pub fn ensure_turn(&mut self) -> Vec<DriverEvent> {
        let mut out = Vec::new();
        self.current_turn(&mut out);
        out
    }

    /// The transcript of a conversation exists: it is continued by its path from now on.
    pub fn transcript_found(&mut self, session_id: &str, path: PathBuf) {
        self.resume.set_transcript(session_id, path);
    }
}
