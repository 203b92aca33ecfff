//! What the mapping has to know of our own doings.

use std::path::{Path, PathBuf};

use hostler_driver::{DriverEvent, Gate, Steer, SteerId, SubAgentEvent};
use uuid::Uuid;

use crate::wire::{ControlBody, POST_TOOL_USE_FAILURE};

use super::Mapper;

impl Mapper {
    /// A prompt was written: the next turn is (or may be) its answer.
    pub fn prompt_sent(&mut self, id: Uuid) {
        self.causes.prompt_sent(id);
    }

    /// Keeps a person's words until the model can be told; they come too late if nothing is going on.
    pub fn hold(&mut self, steer: Steer) {
        let busy = self.turn.is_some() || self.causes.are_awaited();
        self.steering.hold(steer, busy);
    }

    /// Takes words back; `false` if they are not held.
    pub fn take_back(&mut self, id: &SteerId) -> bool {
        self.steering.take_back(id)
    }

    /// What the model could be told now.
    pub fn next_steer(&self) -> Option<Steer> {
        self.turn.as_ref()?;
        self.steering.next().cloned()
    }

    /// The model is told these words now: whoever takes them has to tell. `false` if they are no longer held.
    pub fn inject(&mut self, id: &SteerId) -> bool {
        self.turn.is_some() && self.steering.inject(id)
    }

    /// These words go as a message of their own, under this id: whoever takes them has to write it.
    pub fn write_steer(&mut self, id: &SteerId, message: Uuid) -> bool {
        self.turn.is_some() && self.steering.write(id, message)
    }

    /// The message that was written and that the model may not have yet.
    pub fn message_on_its_way(&self) -> Option<Uuid> {
        self.steering.on_its_way()
    }

    /// We wanted a message back; whether the agent had it still.
    pub fn message_withdrawn(&mut self, message: Uuid, is_back: bool) -> Option<DriverEvent> {
        self.steering.withdrawn(message, is_back)
    }

    /// Words that came when there was no turn.
    pub fn too_late(&mut self) -> Vec<DriverEvent> {
        self.steering.late()
    }

    /// The agent is gone: nothing is told any more.
    pub fn give_up(&mut self) -> Vec<DriverEvent> {
        self.steering.give_up()
    }

    /// Whether something goes on in the background under this id.
    pub fn runs_in_background(&self, id: &str) -> bool {
        self.background.runs(id)
    }

    /// Where the agent says that it writes the output of what goes on under this id.
    pub fn writes_to(&self, id: &str) -> Option<PathBuf> {
        self.background.output(id).map(Path::to_owned)
    }

    /// We begin or end to tell the agent of another model. It repeats that as the output of a command nobody gave.
    pub fn model_changes(&mut self, begins: bool) {
        self.model_changes = match begins {
            true => self.model_changes.saturating_add(1),
            false => self.model_changes.saturating_sub(1),
        };
    }

    /// Whether a command's output is such a repetition.
    pub(super) fn is_model_change(&self, output: &str) -> bool {
        self.model_changes > 0 && output.starts_with("Set model to")
    }

    /// We refused a call: its result will be a denial.
    pub fn denied(&mut self, tool_use_id: &str) {
        self.tools.deny(tool_use_id);
        self.sub_agents.deny(tool_use_id);
    }

    /// The gate has decided on a call.
    pub fn gated(&mut self, gated: Option<(String, Gate)>) -> Vec<DriverEvent> {
        let Some((id, gate)) = gated else { return Vec::new() };
        let ready = self.tools.is_ready(&id);
        let sub_agent = self.sub_agents.ready(&id);
        let event = DriverEvent::ToolGated { id, gate };
        match sub_agent {
            _ if ready => vec![event],
            Some(agent) => vec![DriverEvent::SubAgent { agent, event: SubAgentEvent::Did(Box::new(event)) }],
            None => Vec::new(),
        }
    }

    /// What our hooks hear of sub-agents' calls, which some builds print late or not at all.
    pub fn hooked(&mut self, body: &ControlBody<'_>) -> Vec<DriverEvent> {
        let mut out = Vec::new();
        match body {
            ControlBody::PreToolUse { ask, .. } | ControlBody::CanUseTool(ask) => self.sub_agent_calls(ask, &mut out),
            ControlBody::PostToolUse { event, agent_id: Some(agent), tool_use_id: Some(call) } => {
                self.sub_agent_ran(agent, call, *event == POST_TOOL_USE_FAILURE, &mut out);
            }
            _ => {}
        }
        out
    }

    /// Something is told again that the agent said in a turn: there is one from now on.
    pub fn begin_turn(&mut self) -> Vec<DriverEvent> {
        let mut out = Vec::new();
        self.turn(&mut out);
        out
    }

    /// The transcript of a conversation exists: it is continued by its path from now on.
    pub fn transcript_found(&mut self, session_id: &str, path: PathBuf) {
        self.resume.transcript_found(session_id, path);
    }
}
