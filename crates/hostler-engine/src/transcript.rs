//! From what an agent does to what clients see: driver events become AHP actions. Pure.

use std::collections::HashMap;

use ahp_types::StringOrMarkdown;
use ahp_types::actions::{
    ChatActivityChangedAction, ChatDeltaAction, ChatErrorAction, ChatReasoningAction, ChatResponsePartAction,
    ChatToolCallCompleteAction, ChatToolCallConfirmedAction, ChatToolCallDeltaAction, ChatToolCallReadyAction,
    ChatToolCallStartAction, ChatTurnCancelledAction, ChatTurnCompleteAction, ChatUsageAction, StateAction,
};
use ahp_types::common::JsonObject;
use ahp_types::state::{
    ErrorInfo, ErrorResponsePart, MarkdownResponsePart, ReasoningResponsePart, ResponsePart,
    SystemNotificationResponsePart, ToolCallCancellationReason, ToolCallConfirmationReason, ToolCallResult, ToolInput,
    ToolResultContent, ToolResultTextContent, UsageInfo,
};
use hostler_driver::{DriverEvent, PartId, PartKind, TokenUsage, ToolOutcome, TurnFailure, TurnOutcome};

use crate::budget::LimitReached;
use crate::turn::End;

/// Why a turn could not go on, in the words that clients see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The machine-readable kind.
    pub(crate) error_type: String,
    /// A sentence.
    pub(crate) message: String,
    /// The redacted end of the agent's stderr.
    pub(crate) stderr: Option<String>,
}

impl From<TurnFailure> for Failure {
    fn from(failure: TurnFailure) -> Self {
        let status = failure.status.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
        Self {
            error_type: failure.category.as_str().to_owned(),
            message: format!("{}{status} {}", sentence(&failure.message), failure.category.advice()),
            stderr: None,
        }
    }
}

/// Ends with a full stop, so that another sentence can follow.
fn sentence(text: &str) -> String {
    let text = text.trim();
    match text.chars().last() {
        Some('.' | '!' | '?') => text.to_owned(),
        _ => format!("{text}."),
    }
}

/// The running turn, as far as its parts are concerned.
#[derive(Debug)]
pub(crate) struct Transcript {
    turn: String,
    parts: HashMap<PartId, Part>,
    tools: HashMap<String, Tool>,
    made: usize,
    empty: bool,
    activity: bool,
    /// A request of the agent waits for a limit, which output that was under way before does not change.
    held: bool,
    /// The limit that the turn has a note about.
    noted: Option<LimitReached>,
}

#[derive(Debug)]
struct Part {
    id: String,
    kind: PartKind,
}

#[derive(Debug)]
struct Tool {
    name: String,
    input: Option<String>,
}

impl Transcript {
    pub(crate) fn new(turn: String) -> Self {
        Self {
            turn,
            parts: HashMap::new(),
            tools: HashMap::new(),
            made: 0,
            empty: true,
            activity: false,
            held: false,
            noted: None,
        }
    }

    /// Appends the actions that one event means. Consecutive deltas of one part become one action.
    pub(crate) fn show(&mut self, event: DriverEvent, out: &mut Vec<StateAction>) {
        if self.activity && !self.held && !matches!(event, DriverEvent::Retrying { .. }) {
            self.activity = false;
            out.push(activity(None));
        }
        match event {
            DriverEvent::PartStarted { part, kind } => self.part_started(part, kind, out),
            DriverEvent::Delta { part, text } => self.delta(part, text, out),
            DriverEvent::ToolStarted { id, name } => self.tool_started(id, name, out),
            DriverEvent::ToolInputDelta { id, json } => {
                if self.tools.contains_key(&id) {
                    out.push(StateAction::ChatToolCallDelta(ChatToolCallDeltaAction {
                        turn_id: self.turn.clone(),
                        tool_call_id: id,
                        meta: None,
                        content: Some(json),
                        invocation_message: None,
                    }));
                }
            }
            DriverEvent::ToolReady { id, input } => self.tool_ready(&id, input.get(), out),
            DriverEvent::ToolFinished { id, outcome, output } => self.tool_finished(&id, outcome, output, out),
            DriverEvent::Usage(usage) => out.push(StateAction::ChatUsage(ChatUsageAction {
                turn_id: self.turn.clone(),
                usage: usage_info(usage),
                meta: None,
            })),
            DriverEvent::Retrying { attempt, max, delay, .. } => {
                self.activity = true;
                let seconds = delay.as_secs_f64().ceil();
                out.push(activity(Some(format!("Retrying {attempt} of {max} in {seconds} s"))));
            }
            DriverEvent::Notice(text) => {
                self.made += 1;
                out.push(self.part(ResponsePart::SystemNotification(SystemNotificationResponsePart {
                    content: StringOrMarkdown::Plain(text),
                    meta: None,
                })));
            }
            DriverEvent::TurnBegan(_)
            | DriverEvent::ResumeToken(_)
            | DriverEvent::TurnEnded(_)
            | DriverEvent::Gone { .. } => {}
        }
    }

    /// A request of the agent waits for a limit, or no longer does.
    pub(crate) fn hold(&mut self, reached: Option<&LimitReached>, out: &mut Vec<StateAction>) {
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
            self.made += 1;
            out.push(self.part(ResponsePart::SystemNotification(SystemNotificationResponsePart {
                content: StringOrMarkdown::Plain(notice),
                meta: None,
            })));
        }
        out.push(activity(Some(reached.activity())));
    }

    fn part(&self, part: ResponsePart) -> StateAction {
        StateAction::ChatResponsePart(ChatResponsePartAction { turn_id: self.turn.clone(), part, meta: None })
    }

    fn part_started(&mut self, part: PartId, kind: PartKind, out: &mut Vec<StateAction>) {
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

    fn delta(&mut self, part: PartId, text: String, out: &mut Vec<StateAction>) {
        let Some(Part { id, kind }) = self.parts.get(&part) else {
            tracing::warn!("a delta for a part that never started was skipped");
            return;
        };
        match out.last_mut() {
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

    fn tool_started(&mut self, id: String, name: String, out: &mut Vec<StateAction>) {
        self.empty = false;
        out.push(StateAction::ChatToolCallStart(ChatToolCallStartAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.clone(),
            meta: None,
            display_name: name.clone(),
            tool_name: name.clone(),
            intention: None,
            contributor: None,
        }));
        self.tools.insert(id, Tool { name, input: None });
    }

    fn tool_ready(&mut self, id: &str, input: &str, out: &mut Vec<StateAction>) {
        let Some(tool) = self.tools.get_mut(id) else { return };
        tool.input = Some(input.to_owned());
        let message = format!("Using {}", tool.name);
        out.push(self.ready(id, message, Some(ToolCallConfirmationReason::NotNeeded)));
    }

    fn ready(&self, id: &str, message: String, confirmed: Option<ToolCallConfirmationReason>) -> StateAction {
        let input = self.tools.get(id).and_then(|tool| tool.input.clone());
        StateAction::ChatToolCallReady(ChatToolCallReadyAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.to_owned(),
            meta: None,
            contributor: None,
            intention: None,
            invocation_message: message.into(),
            tool_input: input.map(ToolInput::Inline),
            confirmation_title: None,
            risk_assessment: None,
            edits: None,
            editable: None,
            confirmed,
            options: None,
        })
    }

    fn tool_finished(&mut self, id: &str, outcome: ToolOutcome, output: String, out: &mut Vec<StateAction>) {
        let Some(tool) = self.tools.get(id) else { return };
        let name = tool.name.clone();
        if outcome == ToolOutcome::Denied {
            // AHP cancels a call only while it waits for a confirmation: ask again and answer in one breath.
            out.push(self.ready(id, format!("{name} was refused"), None));
            out.push(StateAction::ChatToolCallConfirmed(ChatToolCallConfirmedAction {
                turn_id: self.turn.clone(),
                tool_call_id: id.to_owned(),
                meta: None,
                approved: false,
                confirmed: None,
                reason: Some(ToolCallCancellationReason::Denied),
                edited_tool_input: None,
                user_suggestion: None,
                reason_message: Some(output.into()),
                selected_option_id: None,
            }));
            return;
        }
        let success = outcome == ToolOutcome::Succeeded;
        let past = if success { format!("Used {name}") } else { format!("{name} failed") };
        out.push(StateAction::ChatToolCallComplete(ChatToolCallCompleteAction {
            turn_id: self.turn.clone(),
            tool_call_id: id.to_owned(),
            meta: None,
            result: ToolCallResult {
                success,
                past_tense_message: past.into(),
                content: Some(vec![ToolResultContent::Text(ToolResultTextContent { text: output })]),
                structured_content: None,
                error: None,
            },
            requires_result_confirmation: None,
        }));
    }

    /// The actions that end the turn, in order.
    pub(crate) fn end(&mut self, end: End<Failure>, duration: i64, out: &mut Vec<StateAction>) {
        if std::mem::take(&mut self.activity) {
            out.push(activity(None));
        }
        let turn_id = self.turn.clone();
        match end {
            End::Agent(TurnOutcome::Completed { empty }) => {
                if empty && self.empty {
                    out.push(self.part(ResponsePart::SystemNotification(SystemNotificationResponsePart {
                        content: "The agent ended the turn without an answer.".into(),
                        meta: None,
                    })));
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

/// `chat/error` with its part.
pub(crate) fn error(turn_id: String, duration: i64, failure: Failure) -> StateAction {
    let stderr = failure.stderr.filter(|text| !text.trim().is_empty());
    let meta = stderr.map(|text| {
        let mut hostler = JsonObject::new();
        hostler.insert("stderr".to_owned(), text.into());
        let mut meta = JsonObject::new();
        meta.insert("hostler".to_owned(), hostler.into());
        meta
    });
    let error = ErrorInfo { error_type: failure.error_type, message: failure.message, stack: None, meta };
    let part = ErrorResponsePart { error, resumable: None };
    StateAction::ChatError(ChatErrorAction { turn_id, duration, part, meta: None })
}

/// `chat/activityChanged`.
pub(crate) fn activity(text: Option<String>) -> StateAction {
    StateAction::ChatActivityChanged(ChatActivityChangedAction { activity: text })
}

fn usage_info(usage: TokenUsage) -> UsageInfo {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut hostler = JsonObject::new();
    if usage.cache_write > 0 {
        hostler.insert("cacheWriteTokens".to_owned(), usage.cache_write.into());
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
        input_tokens: Some(number(usage.input)),
        output_tokens: Some(number(usage.output)),
        model: usage.model,
        cache_read_tokens: (usage.cache_read > 0).then(|| number(usage.cache_read)),
        meta,
    }
}
