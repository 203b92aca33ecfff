//! Sub-agents: maps their messages to [`SubAgentEvent`]s. The agent prints their whole blocks, some builds not all of
//! them; our own hooks supply the missing tool calls.

use std::collections::HashMap;

use hostler_driver::{
    DriverEvent, PartId, PartKind, Prompt, SubAgentEvent, SubAgentId, SubAgentOutcome, SubAgentStart, TokenUsage,
    ToolOutcome,
};

use crate::tool_display;
use crate::wire::{
    AssistantMessage, MessageBlock, MessageContent, SubAgentResult, TaskNotification, TaskStarted, TaskUpdated,
    ToolPermissionRequest, UserMessage,
};

use super::tool_calls::ToolCallTracker;
use super::usage::TurnUsage;
use super::{EventMapper, Events, file_edit};

/// More concurrent sub-agents than any agent has; further ones are not reported.
const MAX_RUNNING_SUB_AGENTS: usize = 256;

/// Maximum length of a failure's reason, in characters.
const MAX_REASON_CHARS: usize = 500;

const UNFINISHED_CALL_OUTPUT: &str = "The sub-agent ended before the tool call finished.";

/// The running sub-agents.
#[derive(Debug, Default)]
pub(super) struct SubAgentTracker {
    running: HashMap<String, RunningSubAgent>,
    /// By the calls that started them, which identify them in messages.
    by_call: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct RunningSubAgent {
    call: String,
    parent: Option<String>,
    tools: ToolCallTracker,
    usage: TurnUsage,
    /// The answer whose tokens are being counted.
    answer: Option<String>,
    /// Its parent does not wait for it, or runs in the background itself.
    is_background: bool,
    /// The agent prints its messages.
    prints_output: bool,
    /// Text of it was emitted after its last call.
    has_final_text: bool,
    /// Its outcome, if it was reported before its call returned.
    reported_outcome: Option<SubAgentOutcome>,
}

impl SubAgentTracker {
    fn by_call_id(&self, call: &str) -> Option<&String> {
        self.by_call.get(call)
    }

    /// The sub-agent that made a call.
    fn find_caller(&self, call: &str) -> Option<&String> {
        self.running.iter().find(|(_, agent)| agent.tools.contains(call)).map(|(id, _)| id)
    }

    fn remove(&mut self, id: &str) -> Option<RunningSubAgent> {
        let agent = self.running.remove(id)?;
        self.by_call.remove(&agent.call);
        Some(agent)
    }

    /// The call will be denied, whichever agent made it.
    pub(super) fn mark_denied(&mut self, call: &str) {
        for agent in self.running.values_mut().filter(|agent| agent.tools.contains(call)) {
            agent.tools.mark_denied(call);
        }
    }

    /// The sub-agent whose call waits for a decision.
    pub(super) fn awaiting_decision(&self, call: &str) -> Option<SubAgentId> {
        let id = self
            .find_caller(call)
            .filter(|id| self.running.get(*id).is_some_and(|agent| agent.tools.is_ready(call)))?;
        Some(SubAgentId(id.clone()))
    }

    /// Sub-agents move to the background, together with those that they started.
    pub(super) fn move_to_background(&mut self, events: &[DriverEvent]) {
        for event in events {
            let DriverEvent::BackgroundTaskChanged(task) = event else { continue };
            let mut found = vec![task.id.clone()];
            while let Some(id) = found.pop() {
                if let Some(agent) = self.running.get_mut(&id) {
                    agent.is_background = true;
                }
                let waited_for = self.running.iter().filter(|(_, agent)| !agent.is_background);
                found.extend(waited_for.filter(|(_, a)| a.parent.as_ref() == Some(&id)).map(|(id, _)| id.clone()));
            }
        }
    }
}

/// The reason of a failure if the agent reports none.
const DEFAULT_FAILURE_REASON: &str = "The sub-agent failed.";

impl EventMapper {
    pub(super) fn start_sub_agent(&mut self, started: &TaskStarted<'_>, out: &mut Events) {
        let is_agent = started.task_type.as_deref().is_some_and(|kind| kind.contains("agent"));
        let (true, Some(call)) = (is_agent, started.tool_use_id.as_deref()) else { return };
        let id = started.task_id.to_string();
        // It starts again: its open parts and calls are over.
        self.finish_sub_agent(&id, None, out);
        if self.sub_agents.running.len() >= MAX_RUNNING_SUB_AGENTS {
            return;
        }
        let parent = self.sub_agents.find_caller(call).cloned();
        let background = parent.as_ref().and_then(|parent| self.sub_agents.running.get(parent));
        let background = background.is_some_and(|parent| parent.is_background);
        let agent = RunningSubAgent {
            call: call.to_owned(),
            parent: parent.clone(),
            is_background: background,
            ..RunningSubAgent::default()
        };
        self.sub_agents.running.insert(id.clone(), agent);
        self.sub_agents.by_call.insert(call.to_owned(), id.clone());
        let start = SubAgentStart {
            call_id: call.to_owned(),
            parent_id: parent.map(SubAgentId),
            kind: started.subagent_type.as_deref().map(str::to_owned),
            description: started.description.as_deref().unwrap_or_default().to_owned(),
            prompt: Prompt::new(started.prompt.as_deref().unwrap_or_default()),
        };
        out.push(DriverEvent::SubAgent { agent: SubAgentId(id), event: SubAgentEvent::Started(start) });
    }

    /// A whole message of a sub-agent.
    pub(super) fn on_sub_agent_message(&mut self, call: &str, message: &AssistantMessage<'_>, out: &mut Events) {
        let Some(id) = self.sub_agents.by_call_id(call).cloned() else {
            self.skipped.sub_agent += 1;
            return;
        };
        for block in &message.blocks {
            match block {
                MessageBlock::Text(text) => self.emit_sub_agent_part(&id, PartKind::Text, text, out),
                MessageBlock::Thinking(text) => self.emit_sub_agent_part(&id, PartKind::Reasoning, text, out),
                MessageBlock::ToolUse { id: call, name, input } => {
                    let ask = ToolPermissionRequest::for_sub_agent(call, name, input, &id);
                    self.on_sub_agent_call(&ask, out);
                }
                MessageBlock::ToolResult { .. } | MessageBlock::Other => {}
            }
        }
        let Some(agent) = self.sub_agents.running.get_mut(&id) else { return };
        agent.prints_output = true;
        if message.is_synthetic() {
            return;
        }
        match agent.answer.as_deref() == Some(&*message.id) {
            true => agent.usage.update_counts(message.usage),
            false => {
                agent.answer = Some(message.id.to_string());
                agent.usage.start_message(message.usage, message.model.as_deref());
            }
        }
        let usage = agent.usage.so_far();
        out.push(sub_agent_activity(&id, DriverEvent::Usage(usage)));
    }

    /// Results of a sub-agent's calls. Texts in the message are its prompt.
    pub(super) fn on_sub_agent_results(&mut self, call: &str, message: &UserMessage<'_>, out: &mut Events) {
        let Some(id) = self.sub_agents.by_call_id(call).cloned() else {
            self.skipped.sub_agent += 1;
            return;
        };
        let MessageContent::Blocks(blocks) = &message.content else { return };
        if let Some(result) = message.tool_use_result {
            self.on_sub_agent_returned(result, out);
        }
        let Some(agent) = self.sub_agents.running.get_mut(&id) else { return };
        agent.prints_output = true;
        for meta in &message.tool_results {
            if let (true, Some(call)) = (meta.is_rejected(), &meta.id) {
                agent.tools.mark_denied(call);
            }
        }
        let mut edit = message.tool_use_result.and_then(file_edit::parse_file_edit);
        for block in blocks {
            if let MessageBlock::ToolResult { id: call, is_error, content } = block {
                if message.is_refused {
                    agent.tools.mark_denied(call);
                }
                let edit = edit.take().filter(|_| !is_error);
                let finished =
                    agent.tools.finish_with_result(call, *is_error, MessageBlock::tool_output(*content), edit);
                out.extend(finished.map(|event| sub_agent_activity(&id, event)));
            }
        }
        for block in blocks {
            if let MessageBlock::ToolResult { id: call, .. } = block {
                self.finish_nested_sub_agent(call, out);
            }
        }
    }

    /// A call of a sub-agent has returned. If it started a nested one whose end was reported, that one is over; its
    /// final text is not emitted again.
    fn finish_nested_sub_agent(&mut self, call: &str, out: &mut Events) {
        let Some(id) = self.sub_agents.by_call_id(call).cloned() else { return };
        if self.sub_agents.running.get(&id).is_some_and(|agent| agent.reported_outcome.is_some()) {
            self.finish_sub_agent(&id, None, out);
        }
    }

    /// A sub-agent is about to make a call: reported by its message or by our hook, whichever comes first.
    pub(super) fn on_sub_agent_call(&mut self, ask: &ToolPermissionRequest<'_>, out: &mut Events) {
        let Some(id) = ask.agent_id.as_deref() else { return };
        let Some(agent) = self.sub_agents.running.get_mut(id) else { return };
        agent.has_final_text = false;
        let (call, name) = (ask.tool_use_id.to_string(), ask.tool.to_string());
        if agent.tools.start(&call) {
            let display = tool_display::display_tool_call(&name, None, &self.directory);
            out.push(sub_agent_activity(
                id,
                DriverEvent::ToolStarted { id: call.clone(), name: name.clone(), display },
            ));
        }
        if agent.tools.mark_ready(&call) {
            let display = tool_display::display_tool_call(&name, Some(ask.input), &self.directory);
            let input = ask.input.to_owned().into();
            out.push(sub_agent_activity(id, DriverEvent::ToolReady { id: call, input, display }));
        }
    }

    /// A call of a sub-agent has run, as reported by our hook. If the agent prints its result, that one has more
    /// detail.
    pub(super) fn on_sub_agent_call_finished(&mut self, id: &str, call: &str, failed: bool, out: &mut Events) {
        let Some(agent) = self.sub_agents.running.get_mut(id).filter(|agent| !agent.prints_output) else { return };
        let outcome = if failed { ToolOutcome::Failed } else { ToolOutcome::Succeeded };
        out.extend(agent.tools.finish_as(call, outcome, String::new()).map(|event| sub_agent_activity(id, event)));
    }

    fn emit_sub_agent_part(&mut self, id: &str, kind: PartKind, text: &str, out: &mut Events) {
        let Some(agent) = self.sub_agents.running.get_mut(id).filter(|_| !text.is_empty()) else { return };
        agent.has_final_text |= kind == PartKind::Text;
        self.last_part_id += 1;
        let part = PartId(self.last_part_id);
        out.push(sub_agent_activity(id, DriverEvent::PartStarted { part, kind }));
        out.push(sub_agent_activity(id, DriverEvent::PartDelta { part, text: text.to_owned() }));
    }

    /// A call has returned. If it ran a sub-agent, the sub-agent is over and the result is its final text.
    pub(super) fn on_sub_agent_returned(&mut self, result: &serde_json::value::RawValue, out: &mut Events) {
        if self.sub_agents.running.is_empty() {
            return;
        }
        let Ok(returned) = serde_json::from_str::<SubAgentResult<'_>>(result.get()) else { return };
        let Some(id) = returned.agent_id.as_deref().filter(|_| !returned.is_async) else { return };
        let Some(agent) = self.sub_agents.running.get_mut(id) else { return };
        if let Some(usage) = returned.usage {
            agent.usage.update_counts(usage);
        }
        if let Some(final_text) = returned.final_text().filter(|_| !agent.has_final_text) {
            self.emit_sub_agent_part(id, PartKind::Text, &final_text, out);
        }
        self.finish_sub_agent(id, Some(SubAgentOutcome::Completed), out);
    }

    /// The call that started a sub-agent has failed or was denied.
    pub(super) fn on_sub_agent_call_failed(&mut self, call: &str, why: &str, out: &mut Events) {
        if let Some(id) = self.sub_agents.by_call_id(call).cloned() {
            self.finish_sub_agent(
                &id,
                Some(SubAgentOutcome::Failed(why.chars().take(MAX_REASON_CHARS).collect())),
                out,
            );
        }
    }

    /// A task is over. If its parent waits for it, the call returns next, with the final text.
    pub(super) fn on_sub_agent_notification(&mut self, over: &TaskNotification<'_>, out: &mut Events) {
        let Some(agent) = self.sub_agents.running.get_mut(&*over.task_id) else { return };
        let outcome = match over.status.as_deref() {
            Some("failed") => {
                let why = over.summary.as_deref().filter(|why| !why.is_empty());
                let why = why.unwrap_or(DEFAULT_FAILURE_REASON);
                SubAgentOutcome::Failed(why.chars().take(MAX_REASON_CHARS).collect())
            }
            Some("stopped" | "killed") => SubAgentOutcome::Stopped,
            _ => SubAgentOutcome::Completed,
        };
        agent.reported_outcome = Some(outcome);
        if agent.is_background {
            self.finish_sub_agent(&over.task_id, None, out);
        }
    }

    /// A task was stopped or is over. For a background task that ends during a turn, older builds report nothing
    /// else.
    pub(super) fn on_sub_agent_updated(&mut self, update: &TaskUpdated<'_>, out: &mut Events) {
        let id = &*update.task_id;
        let in_background = self.sub_agents.running.get(id).is_some_and(|agent| agent.is_background);
        let outcome = match update.patch.status.as_deref() {
            Some("killed" | "stopped") => SubAgentOutcome::Stopped,
            Some("completed") if in_background => SubAgentOutcome::Completed,
            Some("failed") if in_background => SubAgentOutcome::Failed(DEFAULT_FAILURE_REASON.to_owned()),
            _ => return,
        };
        self.finish_sub_agent(id, Some(outcome), out);
    }

    /// The turn is over, and with it all sub-agents that it waited for.
    pub(super) fn stop_sub_agents_of_turn(&mut self, out: &mut Events) {
        let waited_for = self.sub_agents.running.iter().filter(|(_, agent)| !agent.is_background);
        let ids: Vec<_> = waited_for.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.finish_sub_agent(&id, Some(SubAgentOutcome::Stopped), out);
        }
    }

    /// An outcome that was reported earlier takes precedence.
    fn finish_sub_agent(&mut self, id: &str, outcome: Option<SubAgentOutcome>, out: &mut Events) {
        let Some(mut agent) = self.sub_agents.remove(id) else { return };
        out.extend(
            agent.tools.finish_all(UNFINISHED_CALL_OUTPUT).into_iter().map(|event| sub_agent_activity(id, event)),
        );
        let usage = agent.usage.so_far();
        if usage != TokenUsage::default() {
            out.push(sub_agent_activity(id, DriverEvent::Usage(usage)));
        }
        let outcome = agent.reported_outcome.or(outcome).unwrap_or(SubAgentOutcome::Completed);
        let event = SubAgentEvent::Finished(outcome);
        out.push(DriverEvent::SubAgent { agent: SubAgentId(id.to_owned()), event });
    }
}

fn sub_agent_activity(id: &str, event: DriverEvent) -> DriverEvent {
    DriverEvent::SubAgent { agent: SubAgentId(id.to_owned()), event: SubAgentEvent::Activity(Box::new(event)) }
}
