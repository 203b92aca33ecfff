//! Links a tool call with the chat of the sub-agent that it started.

use ahp_types::StateAction;
use ahp_types::actions::ChatToolCallContentChangedAction;
use ahp_types::common::JsonObject;
use ahp_types::state::{ToolResultContent, ToolResultSubagentContent};

use super::ActionMapper;
use super::action_buffer::ActionBuffer;
use super::tool_calls::{ToolCalls, display_meta};

/// The sub-agent that a call started, for the display of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubAgentLink {
    /// The URI of its chat.
    pub(crate) chat: String,
    /// Its task.
    pub(crate) description: String,
    /// Its type.
    pub(crate) kind: Option<String>,
}

impl SubAgentLink {
    pub(super) fn content(&self) -> ToolResultContent {
        ToolResultContent::Subagent(ToolResultSubagentContent {
            resource: self.chat.clone(),
            title: self.description.clone(),
            agent_name: self.kind.clone(),
            description: None,
        })
    }

    /// Adds the hints by which VS Code displays sub-agents.
    pub(super) fn add_hints(&self, hints: &mut JsonObject) {
        let described = [
            ("subagentChatUri", Some(&self.chat)),
            ("subagentDescription", Some(&self.description)),
            ("subagentAgentName", self.kind.as_ref()),
        ];
        for (key, value) in described {
            if let Some(value) = value {
                hints.insert(key.to_owned(), value.as_str().into());
            }
        }
    }
}

impl ActionMapper {
    /// The mapper of a sub-agent chat's turn: requests in it are about the sub-agent's own calls.
    pub(crate) fn for_sub_agent(turn: String) -> Self {
        let mut transcript = Self::new(turn);
        transcript.tool_calls.is_sub_agent_turn = true;
        transcript
    }

    /// Links a call of this turn with the sub-agent that it started.
    pub(crate) fn link_sub_agent(&mut self, call: &str, link: SubAgentLink, out: &mut ActionBuffer) {
        self.tool_calls.link_sub_agent(call, link, out);
    }
}

impl ToolCalls {
    fn link_sub_agent(&mut self, id: &str, link: SubAgentLink, out: &mut ActionBuffer) {
        // The sub-agent is working, so its call is running.
        self.run(id, out);
        let turn_id = self.turn.clone();
        let Some(call) = self.running_call(id) else { return };
        let content = vec![link.content()];
        call.sub_agent = Some(link);
        out.push(StateAction::ChatToolCallContentChanged(ChatToolCallContentChangedAction {
            turn_id,
            tool_call_id: id.to_owned(),
            meta: display_meta(&call.display, call.sub_agent.as_ref()),
            content,
        }));
    }
}
