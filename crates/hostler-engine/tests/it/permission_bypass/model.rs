//! One session, its agents and its clients, and the invariants that are checked after every step.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::{ChatToolCallConfirmedAction, ChatTurnCancelledAction, SessionConfigChangedAction};
use ahp_types::common::JsonObject;
use hostler_driver::{
    AgentRequestId, Answer, DriverEvent, GatedCall, PermissionGate, PermissionRequest, StderrTail, ToolDisplay,
    ToolOutcome, TurnOutcome,
};
use hostler_engine::{CreateSession, Dispatch, PublishedAction, default_chat_uri};
use hostler_testkit::fake_driver::FakeAgent;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::common::{Rig, started};
use crate::permission_bypass::expected_policy::{ExpectedDecision, Policy, TestCall};
use crate::permission_bypass::observer::Observer;
use crate::permission_bypass::steps::{ClientAnswer, Edit, IDS, Step};

type Checked = Result<(), TestCaseError>;

/// A request of an agent.
struct Asked {
    request: String,
    call: String,
    test_call: TestCall,
    turn: Option<String>,
    /// Whether the agent withdrew it.
    withdrawn: bool,
    answered: bool,
}

/// A live agent and its requests.
struct LiveAgent {
    agent: FakeAgent,
    gate: Arc<dyn PermissionGate>,
    asked: Vec<Asked>,
}

/// Counts of the answers that the agents of a case received.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) allowed_by_people: usize,
    pub(crate) allowed_by_policy: usize,
    pub(crate) denied: usize,
}

pub(crate) struct World {
    rig: Rig,
    session: String,
    directory: PathBuf,
    observer: Observer,
    live_agent: Option<LiveAgent>,
    policy: Policy,
    /// The policy before the last step.
    before: Policy,
    /// How many accepted confirmations the policy includes.
    applied_confirmations: usize,
    last_answer: Option<Dispatch>,
    dispatches: i64,
    turns: usize,
    files: usize,
    tally: Tally,
}

fn name(id: u8) -> String {
    format!("c{id}")
}

impl World {
    pub(crate) async fn begin(rig: Rig) -> Self {
        let session = format!("claude:/{}", Uuid::new_v4());
        let directory = rig.work.join(Uuid::new_v4().to_string());
        std::fs::create_dir(&directory).unwrap();
        let _ = std::fs::remove_file(rig.state.join("rules.toml"));
        let folder = url::Url::from_file_path(&directory).unwrap().to_string();
        let request =
            CreateSession { uri: session.clone(), working_directories: vec![folder], ..CreateSession::default() };
        rig.engine.create_session(request).unwrap();
        let observer = Observer::on(&rig, &session).await;
        let (policy, before) = (Policy::new(), Policy::new());
        let mut world = Self {
            rig,
            session,
            directory,
            observer,
            live_agent: None,
            policy,
            before,
            applied_confirmations: 0,
            last_answer: None,
            dispatches: 0,
            turns: 0,
            files: 0,
            tally: Tally::default(),
        };
        world.start_turn().await;
        world
    }

    /// Executes a step and checks the invariants.
    pub(crate) async fn take(&mut self, step: &Step) -> Checked {
        self.before = self.policy.clone();
        match step {
            Step::Call { call, test_call } => self.call(*call, *test_call).await,
            Step::Ask { request, call, test_call, sub_agent } => {
                self.ask(*request, *call, *test_call, *sub_agent).await
            }
            Step::Gate { call, test_call, sub_agent } => self.ask_gate(*call, *test_call, *sub_agent)?,
            Step::Withdraw { request } => self.withdraw(*request).await,
            Step::Finish { call, success } => self.finish(*call, *success).await,
            Step::Answer(answer) => self.send_answer(answer, "ada").await,
            Step::Both(one, other) => {
                let (one, other) = (self.answer_dispatch(one, "ada"), self.answer_dispatch(other, "bob"));
                self.last_answer = Some(other.clone());
                tokio::join!(self.rig.engine.dispatch(one), self.rig.engine.dispatch(other));
            }
            Step::Repeat => {
                if let Some(dispatch) = self.last_answer.clone() {
                    self.rig.engine.dispatch(dispatch).await;
                }
            }
            Step::Mode { mode, answer } => self.change_mode(mode, answer.as_ref()).await,
            Step::Rules(rules_file) => {
                self.files += 1;
                std::fs::write(self.rig.state.join("rules.toml"), rules_file.text(self.files)).unwrap();
                (self.policy.rules_file, self.policy.always) = (*rules_file, Default::default());
            }
            Step::End => self.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await,
            Step::Cancel { obeys } => self.cancel(*obeys).await?,
            Step::Crash => self.crash().await?,
            Step::Turn if self.observer.turn().is_none() => self.start_turn().await,
            Step::Turn => {}
        }
        self.settle().await;
        self.check()
    }

    /// Disposes of the session; the host is reused for the next case.
    pub(crate) async fn end(mut self) -> Result<(Rig, Tally), TestCaseError> {
        self.settle().await;
        self.check()?;
        self.receive_remaining_answers().await?;
        self.rig.engine.dispose_session(&self.session).await.unwrap();
        self.rig.engine.remove_subscriber(self.observer.subscriber.id());
        Ok((self.rig, self.tally))
    }

    // ── Agent steps ───────────────────────────────────────────────────────────────────────────────────────────────

    async fn emit(&self, event: DriverEvent) {
        if let Some(live_agent) = &self.live_agent {
            live_agent.agent.emit(event).await;
        }
    }

    fn raw(&self, test_call: TestCall) -> Arc<RawValue> {
        RawValue::from_string(test_call.input(&self.directory)).unwrap().into()
    }

    async fn call(&mut self, call: u8, test_call: TestCall) {
        let (id, display) = (name(call), ToolDisplay::default());
        let started =
            DriverEvent::ToolStarted { id: id.clone(), name: test_call.tool().into(), display: display.clone() };
        self.emit(started).await;
        self.emit(DriverEvent::ToolReady { id, input: self.raw(test_call), display }).await;
    }

    async fn ask(&mut self, request: u8, call: u8, test_call: TestCall, sub_agent: bool) {
        let (request, call) = (format!("r{request}"), name(call));
        let (turn, input) = (self.observer.turn(), self.raw(test_call));
        let Some(live_agent) = &mut self.live_agent else { return };
        let asked =
            Asked { request: request.clone(), call: call.clone(), test_call, turn, withdrawn: false, answered: false };
        live_agent.asked.push(asked);
        let event = DriverEvent::PermissionRequested(PermissionRequest {
            request_id: AgentRequestId(request),
            call_id: call,
            tool: test_call.tool().into(),
            input,
            sub_agent: sub_agent.then(|| "helper".to_owned()),
            reason: None,
            display: ToolDisplay::default(),
        });
        live_agent.agent.emit(event).await;
    }

    /// Checks that the gate decides as the policy does; counts an approval.
    fn ask_gate(&mut self, call: u8, test_call: TestCall, sub_agent: bool) -> Checked {
        let Some(live_agent) = &self.live_agent else { return Ok(()) };
        let input = self.raw(test_call);
        let sub_agent = sub_agent.then_some("helper");
        let call = GatedCall { call_id: &name(call), tool: test_call.tool(), input: &input, sub_agent, cwd: None };
        let gate = live_agent.gate.decide(&call);
        prop_assert_eq!(
            ExpectedDecision::from(&gate),
            self.policy.decision(test_call),
            "{:?} under {:?}: {:?}",
            test_call,
            self.policy,
            gate
        );
        Ok(())
    }

    async fn withdraw(&mut self, request: u8) {
        let id = format!("r{request}");
        let Some(live_agent) = &mut self.live_agent else { return };
        for asked in live_agent.asked.iter_mut().filter(|asked| asked.request == id) {
            asked.withdrawn = true;
        }
        live_agent.agent.emit(DriverEvent::RequestWithdrawn(AgentRequestId(id))).await;
    }

    async fn finish(&self, call: u8, success: bool) {
        let outcome = if success { ToolOutcome::Succeeded } else { ToolOutcome::Denied };
        self.emit(DriverEvent::ToolFinished { id: name(call), outcome, output: "out".into(), edit: None }).await;
    }

    async fn crash(&mut self) -> Checked {
        self.check()?;
        if let Some(live_agent) = self.live_agent.take() {
            let gone = DriverEvent::ProcessExited { status: "signal 9".into(), stderr: StderrTail::default() };
            live_agent.agent.emit(gone).await;
            received(&live_agent.agent).await;
        }
        Ok(())
    }

    // ── Client steps ──────────────────────────────────────────────────────────────────────────────────────────────

    fn dispatch(&mut self, client: &str, channel: String, action: StateAction) -> Dispatch {
        self.dispatches += 1;
        // Each session has clients of its own, so that their sequence numbers start again.
        let client_id = format!("{client} of {}", self.session);
        Dispatch {
            client_id,
            client_seq: self.dispatches,
            channel,
            action,
            subscriber: None,
            attachment_contents: Default::default(),
            facts: Default::default(),
        }
    }

    fn answer_dispatch(&mut self, answer: &ClientAnswer, client: &str) -> Dispatch {
        let turn = self.observer.turn().filter(|_| answer.right_turn);
        let waiting: Vec<_> = (0..IDS).map(name).filter(|call| answer.aimed && self.observer.waits(call)).collect();
        let call = match waiting.len() {
            0 => name(answer.call),
            all => waiting[usize::from(answer.call) % all].clone(),
        };
        let shown = self.observer.waiting_input(&call);
        let waits =
            TestCall::ALL.into_iter().find(|test_call| shown.as_ref() == Some(&test_call.input(&self.directory)));
        let tool = |test_call: TestCall| waits.is_some_and(|waits| waits.tool() == test_call.tool());
        let edited = match answer.edit {
            Edit::None => None,
            Edit::TestCall(test_call) => tool(test_call).then(|| test_call.input(&self.directory)),
            Edit::Broken => Some("{".to_owned()),
        };
        let action = ChatToolCallConfirmedAction {
            turn_id: turn.unwrap_or_else(|| "another turn".to_owned()),
            tool_call_id: call,
            meta: None,
            approved: answer.approved,
            confirmed: None,
            reason: None,
            edited_tool_input: edited,
            user_suggestion: None,
            reason_message: None,
            selected_option_id: answer.option.map(str::to_owned),
        };
        self.dispatch(client, default_chat_uri(&self.session), StateAction::ChatToolCallConfirmed(action))
    }

    async fn send_answer(&mut self, answer: &ClientAnswer, client: &str) {
        let dispatch = self.answer_dispatch(answer, client);
        self.last_answer = Some(dispatch.clone());
        self.rig.engine.dispatch(dispatch).await;
    }

    async fn change_mode(&mut self, mode: &'static str, answer: Option<&ClientAnswer>) {
        let config = JsonObject::from_iter([("permissionMode".to_owned(), mode.into())]);
        let action = StateAction::SessionConfigChanged(SessionConfigChangedAction { config, replace: None });
        let change = self.dispatch("ada", self.session.clone(), action);
        let seq = change.client_seq;
        // The agent accepts every mode, and has capacity for the next one.
        if let Some(live_agent) = &mut self.live_agent {
            while live_agent.agent.permission_modes.try_recv().is_ok() {}
        }
        self.rig.engine.dispatch(change).await;
        if let Some(answer) = answer {
            self.send_answer(answer, "bob").await;
        }
        let is_change = |item: &PublishedAction| {
            matches!(&*item.action, StateAction::SessionConfigChanged(_))
                && item.origin.as_ref().is_some_and(|by| by.client_seq == seq)
        };
        if self.observer.until("the mode", is_change).await.rejection.is_none() {
            self.policy.mode = mode;
        }
    }

    async fn cancel(&mut self, obeys: bool) -> Checked {
        let Some(turn_id) = self.observer.turn() else { return Ok(()) };
        let action = StateAction::ChatTurnCancelled(ChatTurnCancelledAction { turn_id, duration: 1, meta: None });
        let cancel = self.dispatch("ada", default_chat_uri(&self.session), action);
        self.rig.engine.dispatch(cancel).await;
        let Some(live_agent) = &self.live_agent else { return Ok(()) };
        if obeys {
            live_agent.agent.wait_interrupted().await;
            live_agent.agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
        } else {
            live_agent.agent.wait_closed().await;
            self.check()?;
            self.live_agent = None;
        }
        Ok(())
    }

    /// Sends the next message, to the live agent or to a new one.
    async fn start_turn(&mut self) {
        self.turns += 1;
        let action = StateAction::ChatTurnStarted(started(&format!("t{}", self.turns), "go"));
        let message = self.dispatch("ada", default_chat_uri(&self.session), action);
        self.rig.engine.dispatch(message).await;
        let is_turn_start = |item: &PublishedAction| matches!(&*item.action, StateAction::ChatTurnStarted(_));
        if self.observer.until("the message", is_turn_start).await.rejection.is_some() {
            // A terminated agent has not exited yet.
            return;
        }
        if let Some(live_agent) = &mut self.live_agent {
            if live_agent.agent.prompts.recv().await.is_some() {
                return;
            }
            // The host has closed the agent meanwhile.
            self.live_agent = None;
        }
        // Starts of disposed sessions may still be queued, and a host may open agents that it does not need.
        let (agent, gate) = loop {
            let start = self.rig.starts.next_start().await;
            if start.spec.working_directory != self.directory || start.is_abandoned() {
                continue;
            }
            let gate = Arc::clone(&start.spec.permission_gate);
            let mut agent = start.succeed();
            if agent.prompts.recv().await.is_some() {
                break (agent, gate);
            }
        };
        self.live_agent = Some(LiveAgent { agent, gate, asked: Vec::new() });
    }

    // ── Invariants ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Waits until the session has processed everything.
    async fn settle(&mut self) {
        if let Some(live_agent) = &self.live_agent {
            received(&live_agent.agent).await;
        }
        let answer =
            ClientAnswer { call: IDS, aimed: false, approved: false, option: None, edit: Edit::None, right_turn: true };
        let dispatch = self.answer_dispatch(&answer, "the test");
        self.rig.engine.dispatch(dispatch).await;
        self.observer.until_answered(self.dispatches).await;
        self.wait_for_previews().await;
    }

    /// Waits until requests whose diff preview is read are displayed or answered.
    async fn wait_for_previews(&mut self) {
        let has_answers = |world: &Self| world.live_agent.as_ref().is_some_and(|live| !live.agent.answers.is_empty());
        for _ in 0..2_000 {
            self.observer.catch_up();
            if has_answers(self) || self.find_unanswered().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// A request of the current turn that is neither displayed nor answered.
    fn find_unanswered(&self) -> Option<&Asked> {
        // A closed agent receives nothing more, and does nothing more.
        let live_agent = self.live_agent.as_ref().filter(|live_agent| !live_agent.agent.is_closed())?;
        live_agent.asked.iter().find(|asked| {
            !asked.answered
                && !asked.withdrawn
                && asked.turn == self.observer.turn()
                && !self.observer.waits(&asked.call)
        })
    }

    /// Collects the answers that the agent has received so far.
    fn collect(&mut self) -> Vec<(String, Answer)> {
        let mut answers = Vec::new();
        if let Some(live_agent) = &mut self.live_agent {
            while let Ok((AgentRequestId(request), answer)) = live_agent.agent.answers.try_recv() {
                answers.push((request, answer));
            }
        }
        answers
    }

    fn check(&mut self) -> Checked {
        // In this order: the cause of an answer is published before the answer.
        let answers = self.collect();
        self.observer.catch_up();
        self.apply_confirmations()?;
        for (request, answer) in answers {
            self.check_answer(&request, &answer)?;
        }
        for confirmation in self.observer.accepted.iter().filter(|confirmation| !confirmation.approved) {
            let status = self.observer.status(&confirmation.turn, &confirmation.call);
            prop_assert_eq!(status.as_deref(), Some("cancelled"), "a denied call does not run: {:?}", confirmation);
        }
        Ok(())
    }

    /// Checks the confirmations that were accepted in this step: each was about a pending call, and none about a call
    /// that rules or mode deny.
    fn apply_confirmations(&mut self) -> Checked {
        for at in self.applied_confirmations..self.observer.accepted.len() {
            let confirmation = &self.observer.accepted[at];
            let Some(shown) = &confirmation.shown else {
                return Err(TestCaseError::fail(format!("accepted for a call that was not pending: {confirmation:?}")));
            };
            if !confirmation.approved {
                continue;
            }
            let asked = self.live_agent.iter().flat_map(|live_agent| &live_agent.asked);
            let asked = asked
                .rev()
                .find(|asked| asked.call == confirmation.call && asked.test_call.input(&self.directory) == *shown);
            let Some(tool) = asked.map(|asked| asked.test_call.tool()) else {
                // The agent that asked is gone, and receives no answer.
                continue;
            };
            let runs = confirmation.edited.as_ref().unwrap_or(shown);
            let test_call = TestCall::of(tool, runs, &self.directory).expect("a call of this test");
            let decisions = [self.before.decision(test_call), self.policy.decision(test_call)];
            if confirmation.person {
                prop_assert!(
                    decisions.iter().any(|decision| *decision != ExpectedDecision::Deny),
                    "{:?} under {:?}",
                    confirmation,
                    self.policy
                );
            } else {
                // A longer-lasting approval also allows other pending calls.
                let new = self.policy.session.contains(&test_call) || self.policy.always.contains(&test_call);
                prop_assert!(
                    decisions.contains(&ExpectedDecision::Allow) || new,
                    "{:?} under {:?}",
                    confirmation,
                    self.policy
                );
            }
            match confirmation.option.as_deref() {
                Some("allow-session") => drop(self.policy.session.insert(test_call)),
                Some("allow-always-1") => drop(self.policy.always.insert(test_call)),
                _ => {}
            }
        }
        self.applied_confirmations = self.observer.accepted.len();
        Ok(())
    }

    fn check_answer(&mut self, request: &str, answer: &Answer) -> Checked {
        let Some(live_agent) = &mut self.live_agent else { return Ok(()) };
        let open = |asked: &&mut Asked| asked.request == request && !asked.answered;
        let Answer::Allow { input } = answer else {
            prop_assert!(matches!(answer, Answer::Deny { .. }), "{:?}", answer);
            // Of several requests with one id, the latest one is rejected.
            let asked = live_agent.asked.iter_mut().rev().find(open);
            let Some(asked) = asked else { return Err(twice(request, answer)) };
            asked.answered = true;
            self.tally.denied += 1;
            return Ok(());
        };
        for asked in live_agent.asked.iter_mut().filter(|asked| asked.request == request && !asked.answered) {
            let asked_input = asked.test_call.input(&self.directory);
            let yes = self.observer.accepted.iter_mut().find(|confirmation| {
                confirmation.approved
                    && !confirmation.is_received
                    && confirmation.call == asked.call
                    && Some(&confirmation.turn) == asked.turn.as_ref()
                    && confirmation.shown.as_deref() == Some(&asked_input)
                    && confirmation.edited.as_deref() == input.as_deref().map(RawValue::get)
            });
            if let Some(yes) = yes {
                (yes.is_received, asked.answered) = (true, true);
                *(if yes.person { &mut self.tally.allowed_by_people } else { &mut self.tally.allowed_by_policy }) += 1;
                return Ok(());
            }
        }
        let known = live_agent.asked.iter().any(|asked| asked.request == request && !asked.answered);
        Err(if known {
            TestCaseError::fail(format!("{request} was allowed without a confirmation"))
        } else {
            twice(request, answer)
        })
    }

    /// Checks that every approval reaches the agent that asked, and that no request is left waiting.
    async fn receive_remaining_answers(&mut self) -> Checked {
        let missing = |world: &Self| {
            // A closed agent receives nothing more, and does nothing more.
            let live_agent = world.live_agent.as_ref().filter(|live_agent| !live_agent.agent.is_closed())?;
            let unreceived = world.observer.accepted.iter().find(|confirmation| {
                let asked = live_agent
                    .asked
                    .iter()
                    .any(|asked| asked.call == confirmation.call && asked.turn.as_deref() == Some(&*confirmation.turn));
                confirmation.approved && !confirmation.is_received && asked
            });
            unreceived
                .map(|confirmation| format!("{confirmation:?}"))
                .or_else(|| world.find_unanswered().map(|asked| format!("{} is open", asked.request)))
        };
        for _ in 0..200 {
            let Some(what) = missing(self) else { return Ok(()) };
            let Some(live_agent) = &mut self.live_agent else { return Ok(()) };
            match tokio::time::timeout(Duration::from_secs(2), live_agent.agent.answers.recv()).await {
                Ok(Some((AgentRequestId(request), answer))) => self.check_answer(&request, &answer)?,
                _ => {
                    return Err(TestCaseError::fail(format!(
                        "the agent received no answer: {what}; turn {:?}",
                        self.observer.turn()
                    )));
                }
            }
        }
        Ok(())
    }
}

fn twice(request: &str, answer: &Answer) -> TestCaseError {
    TestCaseError::fail(format!("{request} was answered once too often: {answer:?}"))
}

/// Waits until the host has received all events of an agent.
async fn received(agent: &FakeAgent) {
    while !agent.events.is_closed() && agent.events.capacity() < agent.events.max_capacity() {
        tokio::task::yield_now().await;
    }
}
