//! Checks the required order of a driver's events.

use std::collections::{HashMap, HashSet};

use hostler_driver::{DriverEvent, PartId, PartKind, SubAgentEvent, SubAgentId, ToolOutcome, TurnOutcome};

/// Checks events one by one and panics at the first one out of order.
#[derive(Default)]
pub(crate) struct OrderCheck {
    in_turn: bool,
    usage_is_last: bool,
    pub(crate) parts: HashMap<PartId, (PartKind, String)>,
    parts_of_turn: HashSet<PartId>,
    tools: HashMap<String, Tool>,
    pub(crate) outcomes: Vec<TurnOutcome>,
    pub(crate) tool_outcomes: HashMap<String, ToolOutcome>,
    pub(crate) notices: Vec<String>,
    pub(crate) background: HashSet<String>,
    /// Running sub-agents, each with a check of its own.
    pub(crate) sub_agents: HashMap<SubAgentId, OrderCheck>,
}

#[derive(Debug, PartialEq)]
enum Tool {
    Started,
    Ready,
    Finished,
}

impl OrderCheck {
    fn sub_agent(&mut self, agent: &SubAgentId, event: &SubAgentEvent) {
        match event {
            SubAgentEvent::Started(start) => {
                let parent = start.parent_id.as_ref();
                assert!(parent.is_none_or(|parent| self.sub_agents.contains_key(parent)), "{agent} has no parent");
                let order = Self { in_turn: true, ..Self::default() };
                assert!(self.sub_agents.insert(agent.clone(), order).is_none(), "{agent} starts twice");
            }
            SubAgentEvent::Activity(event) => {
                if let DriverEvent::PartStarted { part, .. } = &**event {
                    assert!(!self.parts.contains_key(part), "{part:?} is the agent's own");
                }
                let order = self.sub_agents.get_mut(agent).unwrap_or_else(|| panic!("{agent} has not started"));
                order.see(event);
            }
            SubAgentEvent::Finished(_) => {
                let order = self.sub_agents.remove(agent).unwrap_or_else(|| panic!("{agent} has not started"));
                assert!(order.tools.values().all(|tool| *tool == Tool::Finished), "{agent} leaves calls open");
                self.tool_outcomes.extend(order.tool_outcomes);
            }
        }
    }

    pub(crate) fn see(&mut self, event: &DriverEvent) {
        let anywhere = matches!(
            event,
            DriverEvent::TurnStarted(_)
                | DriverEvent::PermissionModeChanged(_)
                | DriverEvent::BackgroundTaskChanged(_)
                | DriverEvent::BackgroundTaskEnded { .. }
                | DriverEvent::SubAgent { .. }
        );
        assert!(self.in_turn || anywhere, "outside of a turn: {event:?}");
        let usage_was_last = std::mem::take(&mut self.usage_is_last);
        match event {
            DriverEvent::TurnStarted(_) => {
                assert!(!self.in_turn, "a turn begins within a turn");
                self.in_turn = true;
                self.parts_of_turn.clear();
                self.tools.clear();
            }
            DriverEvent::PartStarted { part, kind } => {
                assert!(self.parts.insert(*part, (*kind, String::new())).is_none(), "{part:?} was used before");
                self.parts_of_turn.insert(*part);
            }
            DriverEvent::PartDelta { part, text } => {
                assert!(self.parts_of_turn.contains(part), "{part:?} grows in a turn that did not start it");
                assert!(!text.is_empty(), "{part:?} grows by nothing");
                self.parts.get_mut(part).unwrap().1.push_str(text);
            }
            DriverEvent::ToolStarted { id, .. } => {
                assert_eq!(self.tools.insert(id.clone(), Tool::Started), None, "{id} starts again");
            }
            DriverEvent::ToolInputDelta { id, json } => {
                assert_eq!(self.tools.get(id), Some(&Tool::Started), "{id} gets input");
                assert!(!json.is_empty(), "{id} gets empty input");
            }
            DriverEvent::ToolReady { id, .. } => {
                assert_eq!(self.tools.insert(id.clone(), Tool::Ready), Some(Tool::Started), "{id} is ready");
            }
            DriverEvent::ToolFinished { id, outcome, .. } => {
                let before = self.tools.insert(id.clone(), Tool::Finished);
                assert!(matches!(before, Some(Tool::Started | Tool::Ready)), "{id} finishes after {before:?}");
                self.tool_outcomes.insert(id.clone(), *outcome);
            }
            DriverEvent::Usage(_) => self.usage_is_last = true,
            // The token may come between usage and end.
            DriverEvent::ResumeToken(_) | DriverEvent::PermissionModeChanged(_) => self.usage_is_last = usage_was_last,
            DriverEvent::Notice(text) => self.notices.push(text.clone()),
            DriverEvent::Retrying { .. }
            | DriverEvent::MessageStarted
            | DriverEvent::CompactionStarted
            | DriverEvent::CompactionFinished { .. }
            | DriverEvent::CompactionFailed(_) => {}
            DriverEvent::BackgroundTaskChanged(task) => {
                assert!(self.background.insert(task.id.clone()), "{} was reported already", task.id);
                self.usage_is_last = usage_was_last;
            }
            DriverEvent::BackgroundTaskEnded { id } => {
                assert!(self.background.remove(id), "{id} ends without having begun");
                self.usage_is_last = usage_was_last;
            }
            DriverEvent::TurnEnded(outcome) => {
                assert!(usage_was_last, "a turn ends without its usage");
                let open: Vec<_> = self.tools.iter().filter(|(_, tool)| **tool != Tool::Finished).collect();
                assert!(open.is_empty(), "calls are open behind their turn: {open:?}");
                self.outcomes.push(outcome.clone());
                self.in_turn = false;
            }
            DriverEvent::SubAgent { agent, event } => {
                self.sub_agent(agent, event);
                self.usage_is_last = usage_was_last;
            }
            DriverEvent::ToolDecided { .. }
            | DriverEvent::ToolProgress { .. }
            | DriverEvent::PermissionRequested(_)
            | DriverEvent::QuestionsAsked(_)
            | DriverEvent::PlanProposed(_)
            | DriverEvent::RequestWithdrawn(_)
            | DriverEvent::SteerInjected(_)
            | DriverEvent::SteerUndelivered(_)
            | DriverEvent::ProcessExited { .. } => panic!("the mapping knows nothing of requests and processes"),
        }
    }
}
