//! The actor at the desk: shows what the agent waits for, and takes it away again.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::{
    ChatInputCompletedAction, ChatInputRequestedAction, SessionInputNeededRemovedAction, SessionInputNeededSetAction,
};
use ahp_types::state::{
    ChatInputResponseKind, SessionChatInputRequest, SessionInputRequest, SessionToolConfirmationRequest,
    ToolCallConfirmationState,
};
use hostler_driver::{Answer, DriverEvent, FileEdit, Gate, PermissionRequest, RequestId};
use hostler_rules::{Disk, Resolver as _, Scope};
use hostler_store::AuditEntry;

use super::Actor;
use super::change::Change;
use crate::clock::ClockExt as _;
use crate::desk::{Choices, Form, InputRequest, Open, Permission};
use crate::gate::summary;
use crate::preview::Proposal;
use crate::stopping;
use crate::transcript::Output;

const TOO_LATE: &str = "The turn is over; this was not asked any more.";
const OVER: &str = "The call is over already; nobody decides about it any more.";
const NOT_SHOWN: &str = "The host could not show this to anybody, so it is denied.";

/// How much of a plan that is in a file is shown.
const MAX_PLAN: u64 = 256 * 1024;

/// How long a question waits for the picture of what is asked.
const MOST_PREVIEW: Duration = Duration::from_secs(2);

impl Actor {
    /// The agent asks in the middle of a turn.
    pub(super) async fn asked(&mut self, event: DriverEvent) {
        match event {
            DriverEvent::PermissionRequested(request) => self.permission_requested(request).await,
            DriverEvent::QuestionsAsked(asked) => {
                let form = Form::new(asked.title, asked.questions);
                self.inquired(InputRequest { request: asked.request, call: asked.call, form }).await;
            }
            DriverEvent::PlanProposed(proposed) => {
                let told = proposed.plan.or_else(|| self.plan_in(&proposed.call));
                let plan = match told {
                    Some(plan) => Some(plan),
                    None => self.written_plan().await,
                };
                let form = Form::plan(plan);
                self.inquired(InputRequest { request: proposed.request, call: Some(proposed.call), form }).await;
            }
            _ => {}
        }
    }

    /// The agent asks although no turn is running: it must not wait for ever.
    pub(super) fn asked_too_late(&mut self, event: DriverEvent) {
        let request = match event {
            DriverEvent::PermissionRequested(request) => request.request,
            DriverEvent::QuestionsAsked(asked) => asked.request,
            DriverEvent::PlanProposed(proposed) => proposed.request,
            _ => return,
        };
        self.deny(request, TOO_LATE);
    }

    fn deny(&mut self, request: RequestId, message: &str) {
        self.answer_agent(request, Answer::Deny { message: message.to_owned() });
    }

    /// Some builds propose a plan whose text is in the call alone.
    fn plan_in(&self, call: &str) -> Option<String> {
        let input: serde_json::Value = serde_json::from_str(self.transcript.as_ref()?.input_of(call)?).ok()?;
        input.get("plan")?.as_str().filter(|plan| !plan.trim().is_empty()).map(str::to_owned)
    }

    /// Others let the model write it into a file.
    async fn written_plan(&self) -> Option<String> {
        let file = self.gate.plan()?;
        let read = tokio::task::spawn_blocking(move || {
            let mut plan = Vec::new();
            fs_err::File::open(file)?.take(MAX_PLAN).read_to_end(&mut plan)?;
            Ok::<_, std::io::Error>(plan)
        });
        let plan = read.await.ok()?.inspect_err(|error| tracing::warn!(%error, "a plan could not be read")).ok()?;
        Some(String::from_utf8_lossy(&plan).into_owned()).filter(|plan| !plan.trim().is_empty())
    }

    async fn permission_requested(&mut self, request: PermissionRequest) {
        let (id, call) = (request.request.clone(), request.call.clone());
        let input = request.input.get();
        let ruling = self.gate.ruling(Some(&call), &request.tool, input);
        // A rule that asks is stronger than any that allows: no rule can be offered against it.
        let offers = ruling.who != "rule";
        let edit = self.preview(&request).await;
        let suggest =
            |scope| if offers { self.gate.suggestions(&call, &request.tool, input, scope) } else { Vec::new() };
        let choices = Choices::new(&suggest(Scope::Session), &suggest(Scope::Workspace));
        // One that works unseen asks in its parent's place.
        let worker = request.sub_agent.clone().filter(|agent| self.workers.chat(agent).is_some());
        let home = self.home_of(worker.as_deref());
        let Some(options) = self.desk.ask(request.clone(), worker.clone(), choices) else {
            tracing::warn!("a request that is open already, or one too many, was denied");
            return self.deny(id, NOT_SHOWN);
        };
        let mut output = Output::default();
        let turn = self.transcript_of(worker.as_deref());
        let shown = turn.is_some_and(|turn| turn.ask(&request, options, edit, &mut output));
        let shown = self.flush_on(&home, &mut output).await && shown;
        let chat = self.channel(&home);
        let Some(pending) = self.session.pending_call(&chat, &call).filter(|_| shown) else {
            self.desk.close_permission(&call);
            return self.deny(id, NOT_SHOWN);
        };
        let needed = SessionInputRequest::ToolConfirmation(SessionToolConfirmationRequest {
            id: permission_key(&call),
            turn_id: self.turn_in(&chat),
            chat: chat.to_string(),
            tool_call: ToolCallConfirmationState::PendingConfirmation(pending.clone()),
        });
        self.needed(needed).await;
        self.wait_for_somebody(id);
        // Rules or mode have changed while the agent asked.
        if ruling.gate != Gate::Ask {
            self.review().await;
        }
    }

    /// Whether a sub-agent asks that works in a chat of its own, inside of a turn or not.
    pub(super) fn is_workers(&self, asked: &DriverEvent) -> bool {
        let DriverEvent::PermissionRequested(request) = asked else { return false };
        request.sub_agent.as_ref().is_some_and(|agent| self.workers.chat(agent).is_some())
    }

    fn turn_in(&self, chat: &str) -> String {
        let turn = self.session.chat_on(chat).and_then(|chat| chat.active_turn.as_ref());
        turn.map(|turn| turn.id.clone()).unwrap_or_default()
    }

    /// What the call would make of a file, if the agent may read that file without a question.
    async fn preview(&self, request: &PermissionRequest) -> Option<FileEdit> {
        let proposal = Proposal::of(&request.tool, request.input.get(), self.gate.directory())?;
        let gate = Arc::clone(&self.gate);
        let picture = tokio::task::spawn_blocking(move || {
            let place = Disk.resolve(&proposal.path).ok()?;
            let reading = serde_json::json!({ "file_path": place }).to_string();
            let readable = gate.ruling(None, "Read", &reading).gate == Gate::Allow;
            readable.then(|| proposal.picture(&place)).flatten()
        });
        // A slow disk is no reason to let people wait for the question.
        tokio::time::timeout(MOST_PREVIEW, picture).await.ok()?.ok()?
    }

    async fn inquired(&mut self, asked: InputRequest) {
        let request = asked.request.clone();
        if !self.show_form(asked).await {
            self.deny(request, NOT_SHOWN);
        }
    }

    /// Shows questions, which wait for a person from then on. `false` if they could not be shown.
    pub(super) async fn show_form(&mut self, asked: InputRequest) -> bool {
        let (request, call) = (asked.request.clone(), asked.call.clone());
        let id = request.to_string();
        let shown = asked.form.request(id.clone());
        if !self.desk.inquire(id.clone(), asked) {
            tracing::warn!("questions that are open already, or too many, were not asked");
            return false;
        }
        let mut output = Output::default();
        if let (Some(turn), Some(call)) = (self.transcript.as_mut(), &call) {
            turn.asks_by_itself(call, &mut output);
        }
        output.push(StateAction::ChatInputRequested(ChatInputRequestedAction { request: shown.clone() }));
        if !self.flush(&mut output).await || self.session.open_input(&id).is_none() {
            self.desk.close_input(&id);
            return false;
        }
        let chat = self.session.chat_uri.to_string();
        let needed = SessionChatInputRequest { id: input_key(&id), chat, request: shown };
        self.needed(SessionInputRequest::ChatInput(needed)).await;
        self.wait_for_somebody(request);
        true
    }

    pub(super) async fn needed(&mut self, request: SessionInputRequest) {
        let needed = Box::new(SessionInputNeededSetAction { request });
        self.tell_session(StateAction::SessionInputNeededSet(needed)).await;
        self.project().await;
    }

    /// The agent does not wait any longer.
    pub(super) async fn withdrawn(&mut self, request: &RequestId) {
        let Some((id, open)) = self.desk.withdraw(request) else { return };
        let mut output = Output::default();
        match open {
            Open::Permission(open) => {
                let home = self.home_of(open.worker.as_deref());
                if let Some(turn) = self.transcript_of(open.worker.as_deref()) {
                    turn.withdrawn(&id, &mut output);
                }
                self.flush_on(&home, &mut output).await;
                self.write_down(vec![withdrawal(&open, self.host.clock.now_ms())]).await;
                self.tell_session(no_longer_needed(permission_key(&id))).await;
            }
            Open::Input => {
                let response = ChatInputResponseKind::Cancel;
                let action = ChatInputCompletedAction { request_id: id.clone(), response, answers: None };
                self.flush(&mut StateAction::ChatInputCompleted(action).into()).await;
                self.tell_session(no_longer_needed(input_key(&id))).await;
            }
        }
        self.project().await;
    }

    /// The call that an event says is over, although it waits for a person.
    pub(super) fn waits_although_over(&self, event: &DriverEvent) -> Option<String> {
        match event {
            DriverEvent::ToolFinished { id, .. } => self.desk.permission(id).map(|open| open.call.clone()),
            _ => None,
        }
    }

    /// There is nothing left to decide about a call, and whoever waits for the decision hears no.
    pub(super) async fn overtaken(&mut self, call: &str) {
        let Some(open) = self.desk.close_permission(call) else { return };
        self.write_down(vec![withdrawal(&open, self.host.clock.now_ms())]).await;
        self.deny(open.request, OVER);
        self.tell_session(no_longer_needed(permission_key(call))).await;
        self.project().await;
    }

    /// The turn is over, and with it everything that was asked in it: what the session says about that.
    pub(super) fn nothing_needed(&self, change: Change) -> Change {
        let stays = |chat: &str| self.workers.in_chat(chat).is_some_and(|agent| self.workers.goes_on(agent));
        self.not_needed(change, |chat| !stays(chat))
    }

    /// The same about one chat.
    pub(super) fn nothing_needed_in(&self, chat: &str, change: Change) -> Change {
        self.not_needed(change, |of| of == chat)
    }

    fn not_needed(&self, change: Change, over: impl Fn(&str) -> bool) -> Change {
        let open = self.session.session.input_needed.iter().flatten().filter_map(|request| match request {
            SessionInputRequest::ChatInput(request) => Some((&request.id, &request.chat)),
            SessionInputRequest::ToolConfirmation(request) => Some((&request.id, &request.chat)),
            _ => None,
        });
        // What the session itself asks belongs to no turn.
        let open = open.filter(|(id, chat)| *id != stopping::KEY && over(chat));
        open.fold(change, |change, (id, _)| change.session(no_longer_needed(id.clone())))
    }

    /// The turn is over: nobody can answer what was asked in it, or by those that it waited for.
    pub(super) async fn clear_desk(&mut self) {
        let now = self.host.clock.now_ms();
        let Self { desk, workers, .. } = self;
        let closed = desk.clear(|agent| workers.goes_on(agent));
        let entries = closed.iter().map(|open| withdrawal(open, now)).collect();
        self.write_down(entries).await;
    }

    /// A sub-agent is over: nobody can answer what it asked, and it hears no.
    pub(super) async fn clear_desk_of(&mut self, agent: &str) {
        let now = self.host.clock.now_ms();
        let closed = self.desk.clear_worker(agent);
        self.write_down(closed.iter().map(|open| withdrawal(open, now)).collect()).await;
        for open in closed {
            self.deny(open.request, OVER);
        }
    }
}

/// The name of a call among what a session waits for.
pub(super) fn permission_key(call: &str) -> String {
    format!("call:{call}")
}

/// The name of questions among what a session waits for.
pub(super) fn input_key(id: &str) -> String {
    format!("input:{id}")
}

pub(super) fn no_longer_needed(id: String) -> StateAction {
    StateAction::SessionInputNeededRemoved(SessionInputNeededRemovedAction { id })
}

fn withdrawal(open: &Permission, at_ms: i64) -> AuditEntry {
    AuditEntry {
        at_ms,
        who: "host".to_owned(),
        call: open.call.clone(),
        tool: open.tool.clone(),
        input: summary(open.input.get()),
        sub_agent: open.sub_agent.clone(),
        decision: "withdrawn".to_owned(),
        why: None,
    }
}
