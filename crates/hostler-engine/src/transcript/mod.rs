//! From what an agent does to what clients see: driver events become AHP actions. Pure.

mod failure;
mod local;
mod output;
mod tools;
mod worker;

use std::collections::HashMap;

use ahp_types::StringOrMarkdown;
use ahp_types::actions::{
    ChatActivityChangedAction, ChatDeltaAction, ChatReasoningAction, ChatResponsePartAction, ChatTurnCancelledAction,
    ChatTurnCompleteAction, ChatUsageAction, StateAction,
};
use ahp_types::common::JsonObject;
use ahp_types::state::{
    ConfirmationOption, MarkdownResponsePart, ReasoningResponsePart, ResponsePart, SystemNotificationResponsePart,
    UsageInfo,
};
use hostler_driver::{
    DriverEvent, FileEdit, PartId, PartKind, PermissionRequest, TokenUsage, ToolDisplay, TurnOutcome,
};

pub(crate) use self::failure::{Failure, error, not_resumable};
pub(crate) use self::local::TOOL;
pub(crate) use self::output::{Output, beginning, content_hash, content_uri, named_content_uri};
use self::tools::Tools;
pub(crate) use self::worker::WorkerLink;
use crate::budget::LimitReached;
use crate::turn::End;

/// How the note begins that the agent has shortened its conversation.
pub(crate) const COMPACTED: &str = "The conversation was compacted";

/// The running turn, as far as its parts are concerned.
#[derive(Debug)]
pub(crate) struct Transcript {
    turn: String,
    parts: HashMap<PartId, Part>,
    tools: Tools,
    made: usize,
    empty: bool,
    activity: bool,
    /// A request of the agent waits for a limit, which output that was under way before does not change.
    held: bool,
    /// The limit that the turn has a note about.
    noted: Option<LimitReached>,
    /// What the agent's work has used so far, in turns that are over as well.
    used: TokenUsage,
    /// What of that belongs to turns that are over.
    used_before: TokenUsage,
}

#[derive(Debug)]
struct Part {
    id: String,
    kind: PartKind,
}

impl Transcript {
    pub(crate) fn new(turn: String) -> Self {
        let tools = Tools::new(turn.clone());
        Self {
            turn,
            parts: HashMap::new(),
            tools,
            made: 0,
            empty: true,
            activity: false,
            held: false,
            noted: None,
            used: TokenUsage::default(),
            used_before: TokenUsage::default(),
        }
    }

    /// A turn that is taken up again, behind the parts that it has.
    pub(crate) fn resumed(turn: String, parts: usize) -> Self {
        Self { made: parts, empty: parts == 0, ..Self::new(turn) }
    }

    /// The agent's work goes on in another turn.
    pub(crate) fn continued_in(&self, turn: String) -> Self {
        Self { used: self.used.clone(), used_before: self.used.clone(), ..Self::new(turn) }
    }

    /// Whether a call is not over.
    pub(crate) fn has_open_calls(&self) -> bool {
        self.tools.any_open()
    }

    /// The turn.
    pub(crate) fn turn(&self) -> &str {
        &self.turn
    }

    /// Appends the actions that one event means. Consecutive deltas of one part become one action.
    pub(crate) fn show(&mut self, event: DriverEvent, out: &mut Output) {
        let stays = matches!(
            event,
            DriverEvent::Retrying { .. } | DriverEvent::ToolProgress { .. } | DriverEvent::CompactionStarted
        );
        if self.activity && !self.held && !stays {
            self.activity = false;
            out.push(activity(None));
        }
        match event {
            DriverEvent::PartStarted { part, kind } => self.part_started(part, kind, out),
            DriverEvent::Delta { part, text } => self.delta(part, text, out),
            DriverEvent::ToolStarted { id, name, display } => {
                self.empty = false;
                self.tools.started(id, name, display, out);
            }
            DriverEvent::ToolInputDelta { id, json } => self.tools.input_delta(id, json, out),
            DriverEvent::ToolReady { id, input, display } => self.tools.ready(id, input.get(), display, out),
            DriverEvent::ToolGated { id, gate } => self.tools.gated(&id, &gate, out),
            DriverEvent::ToolFinished { id, outcome, output, edit } => {
                self.tools.finished(&id, outcome, output, edit, out);
            }
            DriverEvent::ToolProgress { .. } if self.held => {}
            DriverEvent::ToolProgress { elapsed, .. } => {
                self.activity = true;
                out.push(activity(Some(format!("A tool has been running for {} s", elapsed.as_secs()))));
            }
            DriverEvent::Usage(usage) => {
                self.used = usage;
                out.push(StateAction::ChatUsage(ChatUsageAction {
                    turn_id: self.turn.clone(),
                    usage: usage_info(&self.used, &self.used_before),
                    meta: None,
                }));
            }
            DriverEvent::Retrying { attempt, max, delay, .. } => {
                self.activity = true;
                let seconds = delay.as_secs_f64().ceil();
                out.push(activity(Some(format!("Retrying {attempt} of {max} in {seconds} s"))));
            }
            DriverEvent::Notice(text) => self.notice(text, out),
            DriverEvent::CompactionStarted => {
                self.activity = true;
                out.push(activity(Some("Compacting the conversation".to_owned())));
            }
            DriverEvent::CompactionFinished { before, after } => self.notice(
                match (before, after) {
                    (Some(before), Some(after)) => {
                        format!("{COMPACTED} from {before} to {after} tokens.")
                    }
                    _ => format!("{COMPACTED}."),
                },
                out,
            ),
            DriverEvent::CompactionFailed(why) => {
                self.notice(format!("The conversation could not be compacted: {why}"), out);
            }
            DriverEvent::PermissionRequested(_)
            | DriverEvent::QuestionsAsked(_)
            | DriverEvent::PlanProposed(_)
            | DriverEvent::RequestWithdrawn(_)
            | DriverEvent::TurnBegan(_)
            | DriverEvent::MessageStarted
            | DriverEvent::SteerInjected(_)
            | DriverEvent::SteerUndelivered(_)
            | DriverEvent::BackgroundChanged(_)
            | DriverEvent::BackgroundEnded { .. }
            | DriverEvent::SubAgent { .. }
            | DriverEvent::ResumeToken(_)
            | DriverEvent::PermissionModeChanged(_)
            | DriverEvent::TurnEnded(_)
            | DriverEvent::Gone { .. } => {}
        }
    }

    /// Nothing was heard for this long. The next thing that is heard takes it back.
    pub(crate) fn stall(&mut self, time: &str, out: &mut Output) {
        // One that waits for a limit says so already.
        if !self.held {
            self.activity = true;
            out.push(activity(Some(format!("Stalled: nothing was heard from the agent for {time}"))));
        }
    }

    /// Something that a person should know stands in the turn.
    pub(crate) fn notice(&mut self, text: String, out: &mut Output) {
        self.made += 1;
        out.push(self.part(ResponsePart::SystemNotification(SystemNotificationResponsePart {
            content: StringOrMarkdown::Plain(text),
            meta: None,
        })));
    }

    /// A request of the agent waits for a limit, or no longer does.
    pub(crate) fn hold(&mut self, reached: Option<&LimitReached>, out: &mut Output) {
        let Some(reached) = reached else {
            if std::mem::take(&mut self.held) && std::mem::take(&mut self.activity) {
                out.push(activity(None));
            }
            return;
        };
        (self.held, self.activity) = (true, true);
        // Once per limit: an agent that asks again, or twice at a time, is no news.
        if !self.noted.as_ref().is_some_and(|noted| noted.is_same_limit(reached))
            && let Some(notice) = reached.notice()
        {
            self.noted = Some(reached.clone());
            self.notice(notice, out);
        }
        out.push(activity(Some(reached.activity())));
    }

    fn part(&self, part: ResponsePart) -> StateAction {
        StateAction::ChatResponsePart(ChatResponsePartAction { turn_id: self.turn.clone(), part, meta: None })
    }

    fn part_started(&mut self, part: PartId, kind: PartKind, out: &mut Output) {
        self.made += 1;
        self.empty = false;
        let id = format!("p{}", self.made);
        let content = String::new();
        out.push(self.part(match kind {
            PartKind::Text => ResponsePart::Markdown(MarkdownResponsePart { id: id.clone(), content }),
            PartKind::Reasoning => ResponsePart::Reasoning(ReasoningResponsePart { id: id.clone(), content }),
        }));
        self.parts.insert(part, Part { id, kind });
    }

    fn delta(&mut self, part: PartId, text: String, out: &mut Output) {
        let Some(Part { id, kind }) = self.parts.get(&part) else {
            tracing::warn!("a delta for a part that never started was skipped");
            return;
        };
        match out.actions.last_mut() {
            Some(StateAction::ChatDelta(last)) if *kind == PartKind::Text && last.part_id == *id => {
                last.content.push_str(&text);
                return;
            }
            Some(StateAction::ChatReasoning(last)) if *kind == PartKind::Reasoning && last.part_id == *id => {
                last.content.push_str(&text);
                return;
            }
            _ => {}
        }
        let (turn_id, part_id) = (self.turn.clone(), id.clone());
        out.push(match kind {
            PartKind::Text => StateAction::ChatDelta(ChatDeltaAction { turn_id, part_id, content: text, meta: None }),
            PartKind::Reasoning => {
                StateAction::ChatReasoning(ChatReasoningAction { turn_id, part_id, content: text, meta: None })
            }
        });
    }

    // ── People are asked ──────────────────────────────────────────────────────────────────────────────────────────

    /// Shows that a call waits for a person. `false` if it cannot: the call is over, or waits already.
    pub(crate) fn ask(
        &mut self,
        request: &PermissionRequest,
        options: Vec<ConfirmationOption>,
        edit: Option<FileEdit>,
        out: &mut Output,
    ) -> bool {
        self.empty = false;
        self.tools.ask(request, options, edit, out)
    }

    /// A person has answered about a call, in an action that stands before what is said here.
    pub(crate) fn answered(&mut self, call: &str, approved: bool, out: &mut Output) {
        self.tools.answered(call, approved, out);
    }

    /// A person wants another input for a call. `true` if it was said here, since it or the old one is named by its
    /// hash; otherwise the protocol's own action says it.
    pub(crate) fn replace_input(&mut self, call: &str, input: &str, display: ToolDisplay, out: &mut Output) -> bool {
        self.tools.replace_input(call, input, display, out)
    }

    /// The call runs with what a person has put in place of its input: from now on its sentence says so. Not before: what is
    /// answered is what was shown.
    pub(crate) fn show_again(&mut self, call: &str, out: &mut Output) {
        self.tools.show_again(call, out);
    }

    /// The call needs nobody's permission: it asks questions, or proposes a plan.
    pub(crate) fn asks_by_itself(&mut self, call: &str, out: &mut Output) {
        self.empty = false;
        self.tools.run(call, out);
    }

    /// Nobody waits for an answer about the call any more.
    pub(crate) fn withdrawn(&mut self, call: &str, out: &mut Output) {
        self.tools.withdrawn(call, out);
    }

    /// A call's input, if it is complete.
    pub(crate) fn input_of(&self, call: &str) -> Option<&str> {
        self.tools.input(call)
    }

    /// The actions that end the turn, in order.
    pub(crate) fn end(&mut self, end: End<Failure>, duration: i64, out: &mut Output) {
        if std::mem::take(&mut self.activity) {
            out.push(activity(None));
        }
        let turn_id = self.turn.clone();
        match end {
            End::Agent(TurnOutcome::Completed { empty }) => {
                if empty && self.empty {
                    self.notice("The agent ended the turn without an answer.".to_owned(), out);
                }
                out.push(StateAction::ChatTurnComplete(ChatTurnCompleteAction { turn_id, duration, meta: None }));
            }
            End::Agent(TurnOutcome::Interrupted) | End::Cancelled => {
                out.push(StateAction::ChatTurnCancelled(ChatTurnCancelledAction { turn_id, duration, meta: None }));
            }
            End::Agent(TurnOutcome::Failed(failure)) => out.push(error(turn_id, duration, failure.into())),
            End::Failed(failure) => out.push(error(turn_id, duration, failure)),
        }
    }
}

/// `chat/activityChanged`.
pub(crate) fn activity(text: Option<String>) -> StateAction {
    StateAction::ChatActivityChanged(ChatActivityChangedAction { activity: text })
}

/// What a turn has used: all that the agent's work has, without what belongs to turns before.
fn usage_info(usage: &TokenUsage, before: &TokenUsage) -> UsageInfo {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let cache_read = usage.cache_read.saturating_sub(before.cache_read);
    let cache_write = usage.cache_write.saturating_sub(before.cache_write);
    let mut hostler = JsonObject::new();
    if cache_write > 0 {
        hostler.insert("cacheWriteTokens".to_owned(), cache_write.into());
    }
    if let Some(context) = usage.context {
        hostler.insert("contextTokens".to_owned(), context.into());
    }
    if let Some(cost) = usage.cost {
        hostler.insert("costUsd".to_owned(), (cost - before.cost.unwrap_or_default()).max(0.0).into());
    }
    if let Some(window) = usage.context_window {
        hostler.insert("contextWindow".to_owned(), window.into());
    }
    let meta = (!hostler.is_empty()).then(|| {
        let mut meta = JsonObject::new();
        meta.insert("hostler".to_owned(), hostler.into());
        meta
    });
    UsageInfo {
        input_tokens: Some(number(usage.input.saturating_sub(before.input))),
        output_tokens: Some(number(usage.output.saturating_sub(before.output))),
        model: usage.model.clone(),
        cache_read_tokens: (cache_read > 0).then(|| number(cache_read)),
        meta,
    }
}
