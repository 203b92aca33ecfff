//! `ActionMapper`: maps driver events of a running turn to AHP actions.
//!
//! Pure: it owns the state of the turn's response parts and tool calls. It knows neither the store nor subscribers.

mod action_buffer;
mod failure;
mod local_command;
mod sub_agent;
mod tool_calls;

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

pub(crate) use self::action_buffer::{ActionBuffer, content_hash, content_uri, named_content_uri, truncate_at_char};
pub(crate) use self::failure::{TurnErrorDetails, chat_error_action, mark_not_resumable};
pub(crate) use self::local_command::LOCAL_COMMAND_TOOL;
pub(crate) use self::sub_agent::SubAgentLink;
use self::tool_calls::ToolCalls;
use crate::sessions::budget::LimitReached;
use crate::sessions::turn::TurnEndReason;

/// Prefix of the notice that the agent has compacted its conversation.
pub(crate) const COMPACTION_NOTICE_PREFIX: &str = "The conversation was compacted";

/// The state of the running turn's response parts.
#[derive(Debug)]
pub(crate) struct ActionMapper {
    turn: String,
    parts: HashMap<PartId, MappedPart>,
    tool_calls: ToolCalls,
    part_count: usize,
    is_empty: bool,
    has_activity: bool,
    /// Whether a request of the agent waits for a limit. Output that was sent before the wait does not clear it.
    is_waiting_for_limit: bool,
    /// The limit that the turn has a notice about.
    noted_limit: Option<LimitReached>,
    /// The agent's usage so far, including completed turns.
    total_usage: TokenUsage,
    /// The part of it that belongs to completed turns.
    prior_usage: TokenUsage,
}

#[derive(Debug)]
struct MappedPart {
    id: String,
    kind: PartKind,
}

impl ActionMapper {
    pub(crate) fn new(turn: String) -> Self {
        let tool_calls = ToolCalls::new(turn.clone());
        Self {
            turn,
            parts: HashMap::new(),
            tool_calls,
            part_count: 0,
            is_empty: true,
            has_activity: false,
            is_waiting_for_limit: false,
            noted_limit: None,
            total_usage: TokenUsage::default(),
            prior_usage: TokenUsage::default(),
        }
    }

    /// The mapper of a resumed turn, which continues after its existing parts.
    pub(crate) fn resumed(turn: String, parts: usize) -> Self {
        Self { part_count: parts, is_empty: parts == 0, ..Self::new(turn) }
    }

    /// The mapper of the turn that continues this one after a split.
    pub(crate) fn continue_in(&self, turn: String) -> Self {
        Self { total_usage: self.total_usage.clone(), prior_usage: self.total_usage.clone(), ..Self::new(turn) }
    }

    /// Whether a call of the turn has not ended.
    pub(crate) fn has_open_calls(&self) -> bool {
        self.tool_calls.has_open_calls()
    }

    /// The turn's id.
    pub(crate) fn turn(&self) -> &str {
        &self.turn
    }

    /// Appends the actions of one event. Consecutive deltas of one part become one action.
    pub(crate) fn map_event(&mut self, event: DriverEvent, out: &mut ActionBuffer) {
        let stays = matches!(
            event,
            DriverEvent::Retrying { .. } | DriverEvent::ToolProgress { .. } | DriverEvent::CompactionStarted
        );
        if self.has_activity && !self.is_waiting_for_limit && !stays {
            self.has_activity = false;
            out.push(activity_action(None));
        }
        match event {
            DriverEvent::PartStarted { part, kind } => self.start_part(part, kind, out),
            DriverEvent::PartDelta { part, text } => self.append_delta(part, text, out),
            DriverEvent::ToolStarted { id, name, display } => {
                self.is_empty = false;
                self.tool_calls.start(id, name, display, out);
            }
            DriverEvent::ToolInputDelta { id, json } => self.tool_calls.append_input(id, json, out),
            DriverEvent::ToolReady { id, input, display } => {
                self.tool_calls.complete_input(id, input.get(), display, out)
            }
            DriverEvent::ToolDecided { id, decision: gate } => self.tool_calls.apply_gate(&id, &gate, out),
            DriverEvent::ToolFinished { id, outcome, output, edit } => {
                self.tool_calls.finish(&id, outcome, output, edit, out);
            }
            DriverEvent::ToolProgress { .. } if self.is_waiting_for_limit => {}
            DriverEvent::ToolProgress { elapsed, .. } => {
                self.has_activity = true;
                out.push(activity_action(Some(format!("A tool has been running for {} s", elapsed.as_secs()))));
            }
            DriverEvent::Usage(usage) => {
                self.total_usage = usage;
                out.push(StateAction::ChatUsage(ChatUsageAction {
                    turn_id: self.turn.clone(),
                    usage: usage_info(&self.total_usage, &self.prior_usage),
                    meta: None,
                }));
            }
            DriverEvent::Retrying { attempt, max_attempts: max, delay, .. } => {
                self.has_activity = true;
                let seconds = delay.as_secs_f64().ceil();
                out.push(activity_action(Some(format!("Retrying {attempt} of {max} in {seconds} s"))));
            }
            DriverEvent::Notice(text) => self.add_notice(text, out),
            DriverEvent::CompactionStarted => {
                self.has_activity = true;
                out.push(activity_action(Some("Compacting the conversation".to_owned())));
            }
            DriverEvent::CompactionFinished { tokens_before: before, tokens_after: after } => self.add_notice(
                match (before, after) {
                    (Some(before), Some(after)) => {
                        format!("{COMPACTION_NOTICE_PREFIX} from {before} to {after} tokens.")
                    }
                    _ => format!("{COMPACTION_NOTICE_PREFIX}."),
                },
                out,
            ),
            DriverEvent::CompactionFailed(why) => {
                self.add_notice(format!("The conversation could not be compacted: {why}"), out);
            }
            DriverEvent::PermissionRequested(_)
            | DriverEvent::QuestionsAsked(_)
            | DriverEvent::PlanProposed(_)
            | DriverEvent::RequestWithdrawn(_)
            | DriverEvent::TurnStarted(_)
            | DriverEvent::MessageStarted
            | DriverEvent::SteerInjected(_)
            | DriverEvent::SteerUndelivered(_)
            | DriverEvent::BackgroundTaskChanged(_)
            | DriverEvent::BackgroundTaskEnded { .. }
            | DriverEvent::SubAgent { .. }
            | DriverEvent::ResumeToken(_)
            | DriverEvent::PermissionModeChanged(_)
            | DriverEvent::TurnEnded(_)
            | DriverEvent::ProcessExited { .. } => {}
        }
    }

    /// Shows that the agent has sent nothing for this long. The next event clears it.
    pub(crate) fn report_stall(&mut self, time: &str, out: &mut ActionBuffer) {
        // The wait for a limit is displayed already.
        if !self.is_waiting_for_limit {
            self.has_activity = true;
            out.push(activity_action(Some(format!("Stalled: no output from the agent for {time}"))));
        }
    }

    /// Adds a notice for people to the turn.
    pub(crate) fn add_notice(&mut self, text: String, out: &mut ActionBuffer) {
        self.part_count += 1;
        out.push(self.part_action(ResponsePart::SystemNotification(SystemNotificationResponsePart {
            content: StringOrMarkdown::Plain(text),
            meta: None,
        })));
    }

    /// Shows or clears that a request of the agent waits for a limit.
    pub(crate) fn set_limit_wait(&mut self, reached: Option<&LimitReached>, out: &mut ActionBuffer) {
        let Some(reached) = reached else {
            if std::mem::take(&mut self.is_waiting_for_limit) && std::mem::take(&mut self.has_activity) {
                out.push(activity_action(None));
            }
            return;
        };
        (self.is_waiting_for_limit, self.has_activity) = (true, true);
        // One notice per limit: retries and parallel requests of the agent add none.
        if !self.noted_limit.as_ref().is_some_and(|noted| noted.is_same_limit(reached))
            && let Some(notice) = reached.notice()
        {
            self.noted_limit = Some(reached.clone());
            self.add_notice(notice, out);
        }
        out.push(activity_action(Some(reached.activity())));
    }

    fn part_action(&self, part: ResponsePart) -> StateAction {
        StateAction::ChatResponsePart(ChatResponsePartAction { turn_id: self.turn.clone(), part, meta: None })
    }

    fn start_part(&mut self, part: PartId, kind: PartKind, out: &mut ActionBuffer) {
        self.part_count += 1;
        self.is_empty = false;
        let id = format!("p{}", self.part_count);
        let content = String::new();
        out.push(self.part_action(match kind {
            PartKind::Text => ResponsePart::Markdown(MarkdownResponsePart { id: id.clone(), content }),
            PartKind::Reasoning => ResponsePart::Reasoning(ReasoningResponsePart { id: id.clone(), content }),
        }));
        self.parts.insert(part, MappedPart { id, kind });
    }

    fn append_delta(&mut self, part: PartId, text: String, out: &mut ActionBuffer) {
        let Some(MappedPart { id, kind }) = self.parts.get(&part) else {
            tracing::warn!("skipped a delta of a response part that never started");
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

    // ── Confirmations ─────────────────────────────────────────────────────────────────────────────────────────────

    /// Shows that a call waits for a confirmation. `false` if it has ended or waits already.
    pub(crate) fn request_confirmation(
        &mut self,
        request: &PermissionRequest,
        options: Vec<ConfirmationOption>,
        edit: Option<FileEdit>,
        out: &mut ActionBuffer,
    ) -> bool {
        self.is_empty = false;
        self.tool_calls.request_confirmation(request, options, edit, out)
    }

    /// Records a person's answer about a call. The action of the answer precedes the actions that are added here.
    pub(crate) fn record_answer(&mut self, call: &str, approved: bool, out: &mut ActionBuffer) {
        self.tool_calls.record_answer(call, approved, out);
    }

    /// Replaces a call's input with the one that a person entered. `true` if the action was added here, because one of
    /// the inputs is referred to by hash; otherwise the protocol's own action carries it.
    pub(crate) fn replace_input(
        &mut self,
        call: &str,
        input: &str,
        display: ToolDisplay,
        out: &mut ActionBuffer,
    ) -> bool {
        self.tool_calls.replace_input(call, input, display, out)
    }

    /// Updates the display of a running call whose input a person replaced. Not earlier: an answer refers to the input
    /// that was displayed with the request.
    pub(crate) fn show_edited_call(&mut self, call: &str, out: &mut ActionBuffer) {
        self.tool_calls.show_edited_call(call, out);
    }

    /// Starts a call that needs no permission: it asks questions, or proposes a plan.
    pub(crate) fn run_without_permission(&mut self, call: &str, out: &mut ActionBuffer) {
        self.is_empty = false;
        self.tool_calls.run(call, out);
    }

    /// Withdraws the request for a confirmation of the call.
    pub(crate) fn withdraw_request(&mut self, call: &str, out: &mut ActionBuffer) {
        self.tool_calls.withdraw_request(call, out);
    }

    /// A call's input, if it is complete.
    pub(crate) fn call_input(&self, call: &str) -> Option<&str> {
        self.tool_calls.input(call)
    }

    /// The actions that end the turn, in order.
    pub(crate) fn end_turn(&mut self, end: TurnEndReason<TurnErrorDetails>, duration: i64, out: &mut ActionBuffer) {
        if std::mem::take(&mut self.has_activity) {
            out.push(activity_action(None));
        }
        let turn_id = self.turn.clone();
        match end {
            TurnEndReason::AgentOutcome(TurnOutcome::Completed { empty }) => {
                if empty && self.is_empty {
                    self.add_notice("The agent ended the turn without an answer.".to_owned(), out);
                }
                out.push(StateAction::ChatTurnComplete(ChatTurnCompleteAction { turn_id, duration, meta: None }));
            }
            TurnEndReason::AgentOutcome(TurnOutcome::Interrupted) | TurnEndReason::Cancelled => {
                out.push(StateAction::ChatTurnCancelled(ChatTurnCancelledAction { turn_id, duration, meta: None }));
            }
            TurnEndReason::AgentOutcome(TurnOutcome::Failed(failure)) => {
                out.push(chat_error_action(turn_id, duration, failure.into()))
            }
            TurnEndReason::Failed(failure) => out.push(chat_error_action(turn_id, duration, failure)),
        }
    }
}

/// `chat/activityChanged`.
pub(crate) fn activity_action(text: Option<String>) -> StateAction {
    StateAction::ChatActivityChanged(ChatActivityChangedAction { activity: text })
}

/// The usage of a turn: the agent's total without the usage of earlier turns.
fn usage_info(usage: &TokenUsage, before: &TokenUsage) -> UsageInfo {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let cache_read = usage.cache_read.saturating_sub(before.cache_read);
    let cache_write = usage.cache_write.saturating_sub(before.cache_write);
    let mut hostler = JsonObject::new();
    if cache_write > 0 {
        hostler.insert("cacheWriteTokens".to_owned(), cache_write.into());
    }
    if let Some(context) = usage.context_tokens {
        hostler.insert("contextTokens".to_owned(), context.into());
    }
    if let Some(cost) = usage.cost_usd {
        hostler.insert("costUsd".to_owned(), (cost - before.cost_usd.unwrap_or_default()).max(0.0).into());
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
