//! What sub-agents do. The agent prints whole blocks of them, some builds not all of them; what our own hooks hear fills
//! the gaps, as far as tool calls are concerned.

use std::collections::HashMap;

use hostler_driver::{
    DriverEvent, PartId, PartKind, Prompt, SubAgentEvent, SubAgentId, SubAgentOutcome, SubAgentStart, TokenUsage,
    ToolOutcome,
};

use crate::display;
use crate::wire::{
    AgentReturned, AssistantMessage, Block, Content, TaskNotification, TaskStarted, TaskUpdated, ToolAsk, UserMessage,
};

use super::tools::Tools;
use super::usage::TurnUsage;
use super::{Events, Mapper, edit};

/// More sub-agents at work than any agent has; what further ones do is not told.
const MAX_RUNNING: usize = 256;

/// How much of the reason of a failure is passed on, in characters.
const MAX_REASON: usize = 500;

const CUT_OFF: &str = "The sub-agent ended before the call was finished.";

/// The sub-agents that work.
#[derive(Debug, Default)]
pub(super) struct SubAgents {
    running: HashMap<String, Running>,
    /// By the calls that made them, which is how the agent names them in messages.
    by_call: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct Running {
    call: String,
    parent: Option<String>,
    tools: Tools,
    usage: TurnUsage,
    /// The answer whose tokens are counted.
    answer: Option<String>,
    /// Its parent does not wait for it, or works beside the turns itself.
    background: bool,
    /// The agent prints what it does.
    heard: bool,
    /// Words of it were shown behind its last call.
    spoke: bool,
    /// How it ended, as far as that is said before its call returns.
    told: Option<SubAgentOutcome>,
}

impl SubAgents {
    fn named(&self, call: &str) -> Option<&String> {
        self.by_call.get(call)
    }

    /// The one that made a call.
    fn owner(&self, call: &str) -> Option<&String> {
        self.running.iter().find(|(_, agent)| agent.tools.knows(call)).map(|(id, _)| id)
    }

    fn remove(&mut self, id: &str) -> Option<Running> {
        let agent = self.running.remove(id)?;
        self.by_call.remove(&agent.call);
        Some(agent)
    }

    /// The call will be refused, whoever makes it.
    pub(super) fn deny(&mut self, call: &str) {
        for agent in self.running.values_mut().filter(|agent| agent.tools.knows(call)) {
            agent.tools.deny(call);
        }
    }

    /// The sub-agent whose call waits for a decision.
    pub(super) fn ready(&self, call: &str) -> Option<SubAgentId> {
        let id = self.owner(call).filter(|id| self.running.get(*id).is_some_and(|agent| agent.tools.is_ready(call)))?;
        Some(SubAgentId(id.clone()))
    }

    /// Some of them go on beside the turns, and with them those that they have made.
    pub(super) fn go_on(&mut self, events: &[DriverEvent]) {
        for event in events {
            let DriverEvent::BackgroundChanged(task) = event else { continue };
            let mut found = vec![task.id.clone()];
            while let Some(id) = found.pop() {
                if let Some(agent) = self.running.get_mut(&id) {
                    agent.background = true;
                }
                let waited_for = self.running.iter().filter(|(_, agent)| !agent.background);
                found.extend(waited_for.filter(|(_, a)| a.parent.as_ref() == Some(&id)).map(|(id, _)| id.clone()));
            }
        }
    }
}

/// What is said of a sub-agent that failed, where the agent does not say why.
const FAILED: &str = "The sub-agent failed.";

impl Mapper {
    pub(super) fn sub_agent_started(&mut self, started: &TaskStarted<'_>, out: &mut Events) {
        let is_agent = started.task_type.as_deref().is_some_and(|kind| kind.contains("agent"));
        let (true, Some(call)) = (is_agent, started.tool_use_id.as_deref()) else { return };
        let id = started.task_id.to_string();
        // It starts again: what was open is over.
        self.sub_agent_over(&id, None, out);
        if self.sub_agents.running.len() >= MAX_RUNNING {
            return;
        }
        let parent = self.sub_agents.owner(call).cloned();
        let background = parent.as_ref().and_then(|parent| self.sub_agents.running.get(parent));
        let background = background.is_some_and(|parent| parent.background);
        let agent = Running { call: call.to_owned(), parent: parent.clone(), background, ..Running::default() };
        self.sub_agents.running.insert(id.clone(), agent);
        self.sub_agents.by_call.insert(call.to_owned(), id.clone());
        let start = SubAgentStart {
            call: call.to_owned(),
            parent: parent.map(SubAgentId),
            kind: started.subagent_type.as_deref().map(str::to_owned),
            description: started.description.as_deref().unwrap_or_default().to_owned(),
            prompt: Prompt::new(started.prompt.as_deref().unwrap_or_default()),
        };
        out.push(DriverEvent::SubAgent { agent: SubAgentId(id), event: SubAgentEvent::Started(start) });
    }

    /// A whole message of a sub-agent.
    pub(super) fn on_sub_assistant(&mut self, call: &str, message: &AssistantMessage<'_>, out: &mut Events) {
        let Some(id) = self.sub_agents.named(call).cloned() else {
            self.skipped.sub_agent += 1;
            return;
        };
        for block in &message.blocks {
            match block {
                Block::Text(text) => self.sub_agent_says(&id, PartKind::Text, text, out),
                Block::Thinking(text) => self.sub_agent_says(&id, PartKind::Reasoning, text, out),
                Block::ToolUse { id: call, name, input } => {
                    let ask = ToolAsk::of(call, name, input, &id);
                    self.sub_agent_calls(&ask, out);
                }
                Block::ToolResult { .. } | Block::Other => {}
            }
        }
        let Some(agent) = self.sub_agents.running.get_mut(&id) else { return };
        agent.heard = true;
        if message.is_synthetic() {
            return;
        }
        match agent.answer.as_deref() == Some(&*message.id) {
            true => agent.usage.message_counted(message.usage),
            false => {
                agent.answer = Some(message.id.to_string());
                agent.usage.message_started(message.usage, message.model.as_deref());
            }
        }
        let usage = agent.usage.so_far();
        out.push(did(&id, DriverEvent::Usage(usage)));
    }

    /// Results of a sub-agent's calls. Its texts are what it was told.
    pub(super) fn on_sub_user(&mut self, call: &str, message: &UserMessage<'_>, out: &mut Events) {
        let Some(id) = self.sub_agents.named(call).cloned() else {
            self.skipped.sub_agent += 1;
            return;
        };
        let Content::Blocks(blocks) = &message.content else { return };
        if let Some(result) = message.tool_use_result {
            self.agent_returned(result, out);
        }
        let Some(agent) = self.sub_agents.running.get_mut(&id) else { return };
        agent.heard = true;
        for meta in &message.tool_results {
            if let (true, Some(call)) = (meta.rejected(), &meta.id) {
                agent.tools.deny(call);
            }
        }
        let mut edit = message.tool_use_result.and_then(edit::of);
        for block in blocks {
            if let Block::ToolResult { id: call, is_error, content } = block {
                if message.refused {
                    agent.tools.deny(call);
                }
                let edit = edit.take().filter(|_| !is_error);
                let finished = agent.tools.finish(call, *is_error, Block::tool_output(*content), edit);
                out.extend(finished.map(|event| did(&id, event)));
            }
        }
        for block in blocks {
            if let Block::ToolResult { id: call, .. } = block {
                self.returned_within(call, out);
            }
        }
    }

    /// A call of a sub-agent has returned. If it made another one whose end was told, that one is over now: what it
    /// handed back is not told once more.
    fn returned_within(&mut self, call: &str, out: &mut Events) {
        let Some(id) = self.sub_agents.named(call).cloned() else { return };
        if self.sub_agents.running.get(&id).is_some_and(|agent| agent.told.is_some()) {
            self.sub_agent_over(&id, None, out);
        }
    }

    /// A sub-agent is about to make a call: said by its message, or by our hook, whichever comes first.
    pub(super) fn sub_agent_calls(&mut self, ask: &ToolAsk<'_>, out: &mut Events) {
        let Some(id) = ask.agent_id.as_deref() else { return };
        let Some(agent) = self.sub_agents.running.get_mut(id) else { return };
        agent.spoke = false;
        let (call, name) = (ask.tool_use_id.to_string(), ask.tool.to_string());
        if agent.tools.start(&call) {
            let display = display::display(&name, None, &self.directory);
            out.push(did(id, DriverEvent::ToolStarted { id: call.clone(), name: name.clone(), display }));
        }
        if agent.tools.ready(&call) {
            let display = display::display(&name, Some(ask.input), &self.directory);
            let input = ask.input.to_owned().into();
            out.push(did(id, DriverEvent::ToolReady { id: call, input, display }));
        }
    }

    /// A call of a sub-agent has run, as our hook hears. Where the agent prints its result, that says more.
    pub(super) fn sub_agent_ran(&mut self, id: &str, call: &str, failed: bool, out: &mut Events) {
        let Some(agent) = self.sub_agents.running.get_mut(id).filter(|agent| !agent.heard) else { return };
        let outcome = if failed { ToolOutcome::Failed } else { ToolOutcome::Succeeded };
        out.extend(agent.tools.finish_with(call, outcome, String::new()).map(|event| did(id, event)));
    }

    fn sub_agent_says(&mut self, id: &str, kind: PartKind, text: &str, out: &mut Events) {
        let Some(agent) = self.sub_agents.running.get_mut(id).filter(|_| !text.is_empty()) else { return };
        agent.spoke |= kind == PartKind::Text;
        self.parts += 1;
        let part = PartId(self.parts);
        out.push(did(id, DriverEvent::PartStarted { part, kind }));
        out.push(did(id, DriverEvent::Delta { part, text: text.to_owned() }));
    }

    /// A call has returned. If a sub-agent is what it did, that one is over, and these were its last words.
    pub(super) fn agent_returned(&mut self, result: &serde_json::value::RawValue, out: &mut Events) {
        if self.sub_agents.running.is_empty() {
            return;
        }
        let Ok(returned) = serde_json::from_str::<AgentReturned<'_>>(result.get()) else { return };
        let Some(id) = returned.agent_id.as_deref().filter(|_| !returned.is_async) else { return };
        let Some(agent) = self.sub_agents.running.get_mut(id) else { return };
        if let Some(usage) = returned.usage {
            agent.usage.message_counted(usage);
        }
        if let Some(words) = returned.last_words().filter(|_| !agent.spoke) {
            self.sub_agent_says(id, PartKind::Text, &words, out);
        }
        self.sub_agent_over(id, Some(SubAgentOutcome::Completed), out);
    }

    /// The call that made a sub-agent has failed, or was refused.
    pub(super) fn call_failed(&mut self, call: &str, why: &str, out: &mut Events) {
        if let Some(id) = self.sub_agents.named(call).cloned() {
            self.sub_agent_over(&id, Some(SubAgentOutcome::Failed(why.chars().take(MAX_REASON).collect())), out);
        }
    }

    /// A task is over. Where somebody waits for it, its call returns next, with its last words.
    pub(super) fn sub_agent_notified(&mut self, over: &TaskNotification<'_>, out: &mut Events) {
        let Some(agent) = self.sub_agents.running.get_mut(&*over.task_id) else { return };
        let outcome = match over.status.as_deref() {
            Some("failed") => {
                let why = over.summary.as_deref().filter(|why| !why.is_empty());
                let why = why.unwrap_or(FAILED);
                SubAgentOutcome::Failed(why.chars().take(MAX_REASON).collect())
            }
            Some("stopped" | "killed") => SubAgentOutcome::Stopped,
            _ => SubAgentOutcome::Completed,
        };
        agent.told = Some(outcome);
        if agent.background {
            self.sub_agent_over(&over.task_id, None, out);
        }
    }

    /// Somebody stopped a task, or it is over. Older builds say no more than this of one in the background that ends in the
    /// middle of a turn.
    pub(super) fn sub_agent_updated(&mut self, update: &TaskUpdated<'_>, out: &mut Events) {
        let id = &*update.task_id;
        let in_background = self.sub_agents.running.get(id).is_some_and(|agent| agent.background);
        let outcome = match update.patch.status.as_deref() {
            Some("killed" | "stopped") => SubAgentOutcome::Stopped,
            Some("completed") if in_background => SubAgentOutcome::Completed,
            Some("failed") if in_background => SubAgentOutcome::Failed(FAILED.to_owned()),
            _ => return,
        };
        self.sub_agent_over(id, Some(outcome), out);
    }

    /// The turn is over, and with it everything that it waited for.
    pub(super) fn sub_agents_of_turn_over(&mut self, out: &mut Events) {
        let waited_for = self.sub_agents.running.iter().filter(|(_, agent)| !agent.background);
        let ids: Vec<_> = waited_for.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.sub_agent_over(&id, Some(SubAgentOutcome::Stopped), out);
        }
    }

    /// What was told of the end before counts.
    fn sub_agent_over(&mut self, id: &str, outcome: Option<SubAgentOutcome>, out: &mut Events) {
        let Some(mut agent) = self.sub_agents.remove(id) else { return };
        out.extend(agent.tools.finish_all(CUT_OFF).into_iter().map(|event| did(id, event)));
        let usage = agent.usage.so_far();
        if usage != TokenUsage::default() {
            out.push(did(id, DriverEvent::Usage(usage)));
        }
        let outcome = agent.told.or(outcome).unwrap_or(SubAgentOutcome::Completed);
        let event = SubAgentEvent::Finished(outcome);
        out.push(DriverEvent::SubAgent { agent: SubAgentId(id.to_owned()), event });
    }
}

fn did(id: &str, event: DriverEvent) -> DriverEvent {
    DriverEvent::SubAgent { agent: SubAgentId(id.to_owned()), event: SubAgentEvent::Did(Box::new(event)) }
}
