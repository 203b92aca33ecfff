//! People answer what waits at the desk, or nobody does.

use ahp_types::actions::{
    ChatInputAnswerChangedAction, ChatInputCompletedAction, ChatToolCallConfirmedAction, SessionConfigChangedAction,
};
use ahp_types::state::{
    ChatInputResponseKind, SessionChatInputRequest, SessionInputRequest, ToolCallCancellationReason,
    ToolCallConfirmationReason,
};
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::{Answer, Gate, RequestId, ToolDisplay};
use hostler_store::AuditEntry;
use serde_json::value::RawValue;

use super::change::Change;
use super::desk::{input_key, no_longer_needed, permission_key};
use super::{Actor, Input};
use crate::clock::ClockExt as _;
use crate::config;
use crate::desk::{Confirmation, Outcome, Reach, Refusal};
use crate::gate::summary;
use crate::permissions::{FixedAnswer, Unattended};
use crate::record::Record;
use crate::session::Dispatch;
use crate::transcript::Output;

const NOBODY: &str =
    "Nobody answered in time, so it is denied. Go on without it, or end the turn and say what is needed.";

/// Who has decided, for the log.
struct Decider {
    who: String,
    why: Option<String>,
    origin: Option<ActionOrigin>,
}

impl Actor {
    /// A client's word about a call.
    pub(super) async fn tool_call_confirmed(
        &mut self,
        dispatch: &Dispatch,
        said: ChatToolCallConfirmedAction,
    ) -> Result<(), Refusal> {
        let worker = self.workers.in_chat(&dispatch.channel).map(str::to_owned);
        let elsewhere = self.desk.permission(&said.tool_call_id).is_some_and(|open| open.worker != worker);
        let of_worker = dispatch.channel != *self.session.chat_uri;
        let turn = if of_worker && worker.is_none() { None } else { self.transcript_of(worker.as_deref()) };
        if elsewhere || turn.is_none_or(|turn| turn.turn() != said.turn_id) {
            return Err("that turn is over, and nobody waits for the answer any more".to_owned());
        }
        let confirmation = self.desk.confirmation(&said)?;
        let decider = Decider { who: dispatch.client_id.clone(), why: None, origin: Some(dispatch.origin()) };
        let made_rules = confirmation.rules.is_some();
        self.settle(confirmation, decider).await?;
        if made_rules {
            self.review().await;
        }
        Ok(())
    }

    /// Stores and publishes a decision about a call, then tells the agent.
    async fn settle(&mut self, confirmation: Confirmation, decider: Decider) -> Result<(), Refusal> {
        let Confirmation { mut action, edited, rules, answer } = confirmation;
        let (call, approved) = (action.tool_call_id.clone(), action.approved);
        let Some(open) = self.desk.permission(&call) else { return Err("nobody waits for this answer".to_owned()) };
        let input = edited.clone().unwrap_or_else(|| open.input.clone());
        let (worker, tool) = (open.worker.clone(), open.tool.clone());
        let home = self.home_of(worker.as_deref());
        if approved && let Gate::Deny(why) = self.gate.ruling(Some(&call), &open.tool, input.get()).gate {
            return Err(format!("it cannot be allowed: {why}"));
        }
        let entry = AuditEntry {
            at_ms: self.host.clock.now_ms(),
            who: decider.who,
            call: call.clone(),
            tool: tool.clone(),
            input: summary(input.get()),
            sub_agent: open.sub_agent.clone(),
            decision: if approved { "allow" } else { "deny" }.to_owned(),
            why: decider.why.or_else(|| made(rules.as_ref())),
        };
        let mut change = Change::default();
        match &rules {
            Some((Reach::Always, rules)) => self.remember(rules.clone()).await?,
            Some((Reach::Session, rules)) => {
                change = change.record(Record::Allowed { rules: rules.iter().map(ToString::to_string).collect() });
            }
            None => {}
        }
        let mut replaced = Output::default();
        if let Some(edited) = &edited {
            let display = self.display(&tool, edited);
            if let Some(turn) = self.transcript_of(worker.as_deref())
                && turn.replace_input(&call, edited.get(), display, &mut replaced)
            {
                action.edited_tool_input = None;
            }
        }
        change = change
            .output_on(&home, replaced)
            .on(home.clone(), StateAction::ChatToolCallConfirmed(action), decider.origin)
            .session(no_longer_needed(permission_key(&call)))
            .audit([entry]);
        self.commit(change).await.map_err(|error| error.to_string())?;

        if let Some((Reach::Session, rules)) = &rules {
            let texts: Vec<_> = rules.iter().map(ToString::to_string).collect();
            self.session.allow(&texts);
            if let Err(error) = self.gate.add_rules(rules) {
                tracing::warn!(%error, "a rule of a session was left out");
            }
        }
        if let Some(open) = self.desk.close_permission(&call) {
            self.answer_agent(open.request, answer);
        }
        let mut output = Output::default();
        if let Some(turn) = self.transcript_of(worker.as_deref()) {
            turn.answered(&call, approved, &mut output);
            if edited.is_some() {
                turn.show_again(&call, &mut output);
            }
        }
        self.flush_on(&home, &mut output).await;
        self.project().await;
        Ok(())
    }

    /// How a call is shown with an input that its agent has not named.
    fn display(&self, tool: &str, input: &RawValue) -> ToolDisplay {
        let driver = self.host.drivers.get(&self.session.session.provider);
        driver.map(|driver| driver.display(tool, input, self.gate.directory())).unwrap_or_default()
    }

    /// Writes rules that hold for ever into the host's book.
    async fn remember(&self, rules: Vec<hostler_rules::Rule>) -> Result<(), Refusal> {
        let (book, directory) = (self.host.rules.clone(), self.gate.directory().to_owned());
        let written = tokio::task::spawn_blocking(move || book.add(Some(&directory), &rules)).await;
        match written {
            Ok(Ok(_)) => {
                self.host.look_at_rules();
                Ok(())
            }
            Ok(Err(error)) => Err(format!("{error}; it can still be allowed once")),
            Err(_) => Err("the host is stopping".to_owned()),
        }
    }

    /// Rules or the mode have changed: what waits and is decided by them now is not asked any more.
    pub(super) async fn review(&mut self) {
        let waiting: Vec<_> = self.desk.permissions().map(|open| open.call.clone()).collect();
        for call in waiting {
            let Some(open) = self.desk.permission(&call) else { continue };
            let ruling = self.gate.ruling(Some(&call), &open.tool, open.input.get());
            let (approved, message) = match ruling.gate {
                Gate::Ask => continue,
                Gate::Allow => (true, None),
                Gate::Deny(why) => (false, Some(why)),
            };
            let decider = Decider { who: ruling.who.to_owned(), why: Some(ruling.why), origin: None };
            self.decide(call, approved, message, decider).await;
        }
    }

    /// The host itself decides about a call that waits.
    async fn decide(&mut self, call: String, approved: bool, message: Option<String>, decider: Decider) {
        let worker = self.desk.permission(&call).and_then(|open| open.worker.clone());
        let Some(turn_id) = self.transcript_of(worker.as_deref()).map(|turn| turn.turn().to_owned()) else { return };
        let action = ChatToolCallConfirmedAction {
            turn_id,
            tool_call_id: call,
            meta: None,
            approved,
            confirmed: approved.then_some(ToolCallConfirmationReason::Setting),
            reason: (!approved).then_some(ToolCallCancellationReason::Denied),
            edited_tool_input: None,
            user_suggestion: None,
            reason_message: message.clone().map(Into::into),
            selected_option_id: None,
        };
        let answer = match message {
            Some(message) if !approved => Answer::Deny { message },
            _ if approved => Answer::Allow { input: None },
            _ => Answer::Deny { message: crate::desk::PLAIN_DENIAL.to_owned() },
        };
        let confirmation = Confirmation { action, edited: None, rules: None, answer };
        if let Err(reason) = self.settle(confirmation, decider).await {
            tracing::warn!(reason, "a call still waits for a person");
        }
    }

    /// A client's draft of an answer, for all to see.
    pub(super) async fn input_answer_changed(
        &mut self,
        dispatch: &Dispatch,
        draft: ChatInputAnswerChangedAction,
    ) -> Result<(), Refusal> {
        self.desk.check_draft(&draft.request_id, &draft.question_id, draft.answer.as_ref())?;
        let id = draft.request_id.clone();
        let action = StateAction::ChatInputAnswerChanged(draft);
        let change = Change::default().chat_of(action, Some(dispatch.origin()));
        self.commit(change).await.map_err(|error| error.to_string())?;
        // Whoever hears the session alone sees the drafts as well.
        if let Some(request) = self.session.open_input(&id).cloned() {
            let chat = self.session.chat_uri.to_string();
            let needed = SessionChatInputRequest { id: input_key(&id), chat, request };
            self.needed(SessionInputRequest::ChatInput(needed)).await;
        }
        Ok(())
    }

    /// A client's answers.
    pub(super) async fn input_completed(
        &mut self,
        dispatch: &Dispatch,
        said: ChatInputCompletedAction,
    ) -> Result<(), Refusal> {
        if self.is_stop_question(&said.request_id) {
            return self.stop_question_answered(dispatch, said).await;
        }
        let request = self.session.open_input(&said.request_id);
        let drafts = request.and_then(|request| request.answers.clone()).unwrap_or_default();
        let outcome = self.desk.completion(&said, |question| drafts.get(question).cloned())?;
        self.complete(said, outcome, &dispatch.client_id, Some(dispatch.origin())).await
    }

    async fn complete(
        &mut self,
        said: ChatInputCompletedAction,
        outcome: Outcome,
        who: &str,
        origin: Option<ActionOrigin>,
    ) -> Result<(), Refusal> {
        let id = said.request_id.clone();
        let call = self.desk.input(&id).and_then(|open| open.call.clone());
        let (answer, mode) = match outcome {
            Outcome::Folder(decision) => return self.folder_decided(said, decision, who, origin).await,
            Outcome::Answered(answer) => (answer, None),
            Outcome::Proceed(name) => {
                let mode = config::mode(name, false);
                (Answer::Proceed { mode: config::agent_mode(mode).to_owned() }, Some((name, mode)))
            }
        };
        let no = matches!(answer, Answer::Deny { .. } | Answer::Skip);
        let entry = AuditEntry {
            at_ms: self.host.clock.now_ms(),
            who: who.to_owned(),
            call: call.unwrap_or_else(|| id.clone()),
            tool: if mode.is_some() { "plan" } else { "question" }.to_owned(),
            input: String::new(),
            sub_agent: None,
            decision: if no { "deny" } else { "allow" }.to_owned(),
            why: mode.map(|(name, _)| format!("the plan is carried out in the mode {name}")),
        };
        let mut change = Change::default()
            .chat_of(StateAction::ChatInputCompleted(said), origin)
            .session(no_longer_needed(input_key(&id)))
            .audit([entry]);
        if let Some((name, _)) = mode {
            let config = config::said_by_mode(name, &self.newest_values());
            let changed = SessionConfigChangedAction { config, replace: None };
            change = change.session(StateAction::SessionConfigChanged(changed));
        }
        self.commit(change).await.map_err(|error| error.to_string())?;
        if let Some((_, mode)) = mode {
            // Before the agent goes on under it.
            self.gate.set_mode(mode);
            self.agent.took_mode(config::agent_mode(mode));
        }
        if let Some(open) = self.desk.close_input(&id) {
            self.answer_agent(open.request, answer);
        }
        self.project().await;
        if mode.is_some() {
            self.review().await;
        }
        Ok(())
    }

    // ── Nobody answers ────────────────────────────────────────────────────────────────────────────────────────────

    /// Starts the clock, if there is one.
    pub(super) fn wait_for_somebody(&mut self, request: RequestId) {
        match &self.host.permissions.unattended {
            Unattended::Wait => {}
            Unattended::DenyAfter(time) => {
                let over = self.host.clock.sleep(*time);
                self.tasks.spawn(async move {
                    over.await;
                    Input::Unanswered(request)
                });
            }
            Unattended::Answer(_) => {
                self.tasks.spawn(async move { Input::Unanswered(request) });
            }
        }
    }

    /// Nobody has answered in time.
    pub(super) async fn unanswered(&mut self, request: &RequestId) {
        let (approved, message) = match &self.host.permissions.unattended {
            Unattended::Wait => return,
            Unattended::DenyAfter(_) => (false, NOBODY.to_owned()),
            Unattended::Answer(FixedAnswer::Allow) => (true, String::new()),
            Unattended::Answer(FixedAnswer::Deny(message)) => (false, message.clone()),
        };
        let call = self.desk.permissions().find(|open| open.request == *request).map(|open| open.call.clone());
        if let Some(call) = call {
            let why = Some("the policy for requests that nobody answers".to_owned());
            let decider = Decider { who: "unattended".to_owned(), why, origin: None };
            return self.decide(call, approved, (!approved).then_some(message), decider).await;
        }
        let id = request.to_string();
        let Some(open) = self.desk.input(&id) else { return };
        let (response, outcome) = match open.form.unattended(approved) {
            Some(outcome @ Outcome::Folder(_)) => (ChatInputResponseKind::Cancel, outcome),
            Some(outcome) => (ChatInputResponseKind::Accept, outcome),
            None if approved => (ChatInputResponseKind::Cancel, Outcome::Answered(Answer::Skip)),
            None => (ChatInputResponseKind::Decline, Outcome::Answered(Answer::Deny { message })),
        };
        let said = ChatInputCompletedAction { request_id: id, response, answers: None };
        if let Err(reason) = self.complete(said, outcome, "unattended", None).await {
            tracing::warn!(reason, "questions still wait for a person");
        }
    }
}

fn made(rules: Option<&(Reach, Vec<hostler_rules::Rule>)>) -> Option<String> {
    let (reach, rules) = rules?;
    let reach = if *reach == Reach::Always { "always" } else { "in this session" };
    let rules = rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Some(format!("allowed {reach}: {rules}"))
}
