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
use crate::expected_policy::{Deed, Policy, Verdict};
use crate::observer::Watch;
use crate::steps::{Edit, IDS, Step, Word};

type Checked = Result<(), TestCaseError>;

/// A request of an agent.
struct Asked {
    request: String,
    call: String,
    deed: Deed,
    turn: Option<String>,
    /// Whether the agent withdrew it.
    withdrawn: bool,
    answered: bool,
}

/// A live agent and its requests.
struct Living {
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
    watch: Watch,
    living: Option<Living>,
    policy: Policy,
    /// The policy before the last step.
    before: Policy,
    /// How many accepted confirmations the policy includes.
    learned: usize,
    last_word: Option<Dispatch>,
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
        let wish =
            CreateSession { uri: session.clone(), working_directories: vec![folder], ..CreateSession::default() };
        rig.engine.create_session(wish).unwrap();
        let watch = Watch::on(&rig, &session).await;
        let (policy, before) = (Policy::new(), Policy::new());
        let mut world = Self {
            rig,
            session,
            directory,
            watch,
            living: None,
            policy,
            before,
            learned: 0,
            last_word: None,
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
            Step::Call { call, deed } => self.call(*call, *deed).await,
            Step::Ask { request, call, deed, sub_agent } => self.ask(*request, *call, *deed, *sub_agent).await,
            Step::Gate { call, deed, sub_agent } => self.ask_gate(*call, *deed, *sub_agent)?,
            Step::Withdraw { request } => self.withdraw(*request).await,
            Step::Finish { call, success } => self.finish(*call, *success).await,
            Step::Say(word) => self.say(word, "ada").await,
            Step::Both(one, other) => {
                let (one, other) = (self.word(one, "ada"), self.word(other, "bob"));
                self.last_word = Some(other.clone());
                tokio::join!(self.rig.engine.dispatch(one), self.rig.engine.dispatch(other));
            }
            Step::Repeat => {
                if let Some(word) = self.last_word.clone() {
                    self.rig.engine.dispatch(word).await;
                }
            }
            Step::Mode { mode, word } => self.change_mode(mode, word.as_ref()).await,
            Step::Rules(book) => {
                self.files += 1;
                std::fs::write(self.rig.state.join("rules.toml"), book.text(self.files)).unwrap();
                (self.policy.book, self.policy.always) = (*book, Default::default());
            }
            Step::End => self.emit(DriverEvent::TurnEnded(TurnOutcome::Completed { empty: false })).await,
            Step::Cancel { obeys } => self.cancel(*obeys).await?,
            Step::Die => self.die().await?,
            Step::Turn if self.watch.turn().is_none() => self.start_turn().await,
            Step::Turn => {}
        }
        self.settle().await;
        self.check()
    }

    /// Disposes of the session; the host is reused for the next case.
    pub(crate) async fn end(mut self) -> Result<(Rig, Tally), TestCaseError> {
        self.settle().await;
        self.check()?;
        self.hear_the_rest().await?;
        self.rig.engine.dispose_session(&self.session).await.unwrap();
        self.rig.engine.remove_subscriber(self.watch.subscriber.id());
        Ok((self.rig, self.tally))
    }

    // ── Agent steps ───────────────────────────────────────────────────────────────────────────────────────────────

    async fn emit(&self, event: DriverEvent) {
        if let Some(living) = &self.living {
            living.agent.emit(event).await;
        }
    }

    fn raw(&self, deed: Deed) -> Arc<RawValue> {
        RawValue::from_string(deed.input(&self.directory)).unwrap().into()
    }

    async fn call(&mut self, call: u8, deed: Deed) {
        let (id, display) = (name(call), ToolDisplay::default());
        let started = DriverEvent::ToolStarted { id: id.clone(), name: deed.tool().into(), display: display.clone() };
        self.emit(started).await;
        self.emit(DriverEvent::ToolReady { id, input: self.raw(deed), display }).await;
    }

    async fn ask(&mut self, request: u8, call: u8, deed: Deed, sub_agent: bool) {
        let (request, call) = (format!("r{request}"), name(call));
        let (turn, input) = (self.watch.turn(), self.raw(deed));
        let Some(living) = &mut self.living else { return };
        let asked =
            Asked { request: request.clone(), call: call.clone(), deed, turn, withdrawn: false, answered: false };
        living.asked.push(asked);
        let event = DriverEvent::PermissionRequested(PermissionRequest {
            request_id: AgentRequestId(request),
            call_id: call,
            tool: deed.tool().into(),
            input,
            sub_agent: sub_agent.then(|| "helper".to_owned()),
            reason: None,
            display: ToolDisplay::default(),
        });
        living.agent.emit(event).await;
    }

    /// Checks that the gate decides as the policy does; counts an approval.
    fn ask_gate(&mut self, call: u8, deed: Deed, sub_agent: bool) -> Checked {
        let Some(living) = &self.living else { return Ok(()) };
        let input = self.raw(deed);
        let sub_agent = sub_agent.then_some("helper");
        let call = GatedCall { call_id: &name(call), tool: deed.tool(), input: &input, sub_agent, cwd: None };
        let gate = living.gate.decide(&call);
        prop_assert_eq!(
            Verdict::from(&gate),
            self.policy.verdict(deed),
            "{:?} under {:?}: {:?}",
            deed,
            self.policy,
            gate
        );
        Ok(())
    }

    async fn withdraw(&mut self, request: u8) {
        let id = format!("r{request}");
        let Some(living) = &mut self.living else { return };
        for asked in living.asked.iter_mut().filter(|asked| asked.request == id) {
            asked.withdrawn = true;
        }
        living.agent.emit(DriverEvent::RequestWithdrawn(AgentRequestId(id))).await;
    }

    async fn finish(&self, call: u8, success: bool) {
        let outcome = if success { ToolOutcome::Succeeded } else { ToolOutcome::Denied };
        self.emit(DriverEvent::ToolFinished { id: name(call), outcome, output: "out".into(), edit: None }).await;
    }

    async fn die(&mut self) -> Checked {
        self.check()?;
        if let Some(living) = self.living.take() {
            let gone = DriverEvent::ProcessExited { status: "signal 9".into(), stderr: StderrTail::default() };
            living.agent.emit(gone).await;
            received(&living.agent).await;
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
        }
    }

    fn word(&mut self, word: &Word, client: &str) -> Dispatch {
        let turn = self.watch.turn().filter(|_| word.right_turn);
        let waiting: Vec<_> = (0..IDS).map(name).filter(|call| word.aimed && self.watch.waits(call)).collect();
        let call = match waiting.len() {
            0 => name(word.call),
            all => waiting[usize::from(word.call) % all].clone(),
        };
        let shown = self.watch.waiting_input(&call);
        let waits = Deed::ALL.into_iter().find(|deed| shown.as_ref() == Some(&deed.input(&self.directory)));
        let tool = |deed: Deed| waits.is_some_and(|waits| waits.tool() == deed.tool());
        let edited = match word.edit {
            Edit::None => None,
            Edit::Deed(deed) => tool(deed).then(|| deed.input(&self.directory)),
            Edit::Broken => Some("{".to_owned()),
        };
        let action = ChatToolCallConfirmedAction {
            turn_id: turn.unwrap_or_else(|| "another turn".to_owned()),
            tool_call_id: call,
            meta: None,
            approved: word.approved,
            confirmed: None,
            reason: None,
            edited_tool_input: edited,
            user_suggestion: None,
            reason_message: None,
            selected_option_id: word.option.map(str::to_owned),
        };
        self.dispatch(client, default_chat_uri(&self.session), StateAction::ChatToolCallConfirmed(action))
    }

    async fn say(&mut self, word: &Word, client: &str) {
        let word = self.word(word, client);
        self.last_word = Some(word.clone());
        self.rig.engine.dispatch(word).await;
    }

    async fn change_mode(&mut self, mode: &'static str, word: Option<&Word>) {
        let config = JsonObject::from_iter([("permissionMode".to_owned(), mode.into())]);
        let action = StateAction::SessionConfigChanged(SessionConfigChangedAction { config, replace: None });
        let change = self.dispatch("ada", self.session.clone(), action);
        let seq = change.client_seq;
        // The agent accepts every mode, and has capacity for the next one.
        if let Some(living) = &mut self.living {
            while living.agent.permission_modes.try_recv().is_ok() {}
        }
        self.rig.engine.dispatch(change).await;
        if let Some(word) = word {
            self.say(word, "bob").await;
        }
        let ours = |item: &PublishedAction| {
            matches!(&*item.action, StateAction::SessionConfigChanged(_))
                && item.origin.as_ref().is_some_and(|by| by.client_seq == seq)
        };
        if self.watch.until("the mode", ours).await.rejection.is_none() {
            self.policy.mode = mode;
        }
    }

    async fn cancel(&mut self, obeys: bool) -> Checked {
        let Some(turn_id) = self.watch.turn() else { return Ok(()) };
        let action = StateAction::ChatTurnCancelled(ChatTurnCancelledAction { turn_id, duration: 1, meta: None });
        let cancel = self.dispatch("ada", default_chat_uri(&self.session), action);
        self.rig.engine.dispatch(cancel).await;
        let Some(living) = &self.living else { return Ok(()) };
        if obeys {
            living.agent.wait_interrupted().await;
            living.agent.emit(DriverEvent::TurnEnded(TurnOutcome::Interrupted)).await;
        } else {
            living.agent.wait_closed().await;
            self.check()?;
            self.living = None;
        }
        Ok(())
    }

    /// Sends the next message, to the live agent or to a new one.
    async fn start_turn(&mut self) {
        self.turns += 1;
        let action = StateAction::ChatTurnStarted(started(&format!("t{}", self.turns), "go"));
        let message = self.dispatch("ada", default_chat_uri(&self.session), action);
        self.rig.engine.dispatch(message).await;
        let said = |item: &PublishedAction| matches!(&*item.action, StateAction::ChatTurnStarted(_));
        if self.watch.until("the message", said).await.rejection.is_some() {
            // A terminated agent has not exited yet.
            return;
        }
        if let Some(living) = &mut self.living {
            if living.agent.prompts.recv().await.is_some() {
                return;
            }
            // The host has closed the agent meanwhile.
            self.living = None;
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
        self.living = Some(Living { agent, gate, asked: Vec::new() });
    }

    // ── Invariants ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Waits until the session has processed everything.
    async fn settle(&mut self) {
        if let Some(living) = &self.living {
            received(&living.agent).await;
        }
        let word = Word { call: IDS, aimed: false, approved: false, option: None, edit: Edit::None, right_turn: true };
        let word = self.word(&word, "the test");
        let seq = word.client_seq;
        self.rig.engine.dispatch(word).await;
        let answered = |item: &PublishedAction| item.origin.as_ref().is_some_and(|by| by.client_seq == seq);
        self.watch.until("the end of a step", answered).await;
    }

    /// Collects the answers that the agent has received so far.
    fn collect(&mut self) -> Vec<(String, Answer)> {
        let mut answers = Vec::new();
        if let Some(living) = &mut self.living {
            while let Ok((AgentRequestId(request), answer)) = living.agent.answers.try_recv() {
                answers.push((request, answer));
            }
        }
        answers
    }

    fn check(&mut self) -> Checked {
        // In this order: the cause of an answer is published before the answer.
        let answers = self.collect();
        self.watch.catch_up();
        self.learn()?;
        for (request, answer) in answers {
            self.check_answer(&request, &answer)?;
        }
        for word in self.watch.accepted.iter().filter(|word| !word.approved) {
            let status = self.watch.status(&word.turn, &word.call);
            prop_assert_eq!(status.as_deref(), Some("cancelled"), "what is denied never runs: {:?}", word);
        }
        Ok(())
    }

    /// Checks the confirmations that were accepted in this step: each was about a pending call, and none about a call
    /// that rules or mode deny.
    fn learn(&mut self) -> Checked {
        for at in self.learned..self.watch.accepted.len() {
            let word = &self.watch.accepted[at];
            let Some(shown) = &word.shown else {
                return Err(TestCaseError::fail(format!("accepted for a call that did not wait: {word:?}")));
            };
            if !word.approved {
                continue;
            }
            let asked = self.living.iter().flat_map(|living| &living.asked);
            let asked =
                asked.rev().find(|asked| asked.call == word.call && asked.deed.input(&self.directory) == *shown);
            let Some(tool) = asked.map(|asked| asked.deed.tool()) else {
                // The agent that asked is gone, and receives no answer.
                continue;
            };
            let runs = word.edited.as_ref().unwrap_or(shown);
            let deed = Deed::of(tool, runs, &self.directory).expect("a deed of this test");
            let verdicts = [self.before.verdict(deed), self.policy.verdict(deed)];
            if word.person {
                prop_assert!(
                    verdicts.iter().any(|verdict| *verdict != Verdict::Deny),
                    "{:?} under {:?}",
                    word,
                    self.policy
                );
            } else {
                // A longer-lasting approval also allows other pending calls.
                let new = self.policy.session.contains(&deed) || self.policy.always.contains(&deed);
                prop_assert!(verdicts.contains(&Verdict::Allow) || new, "{:?} under {:?}", word, self.policy);
            }
            match word.option.as_deref() {
                Some("allow-session") => drop(self.policy.session.insert(deed)),
                Some("allow-always-1") => drop(self.policy.always.insert(deed)),
                _ => {}
            }
        }
        self.learned = self.watch.accepted.len();
        Ok(())
    }

    fn check_answer(&mut self, request: &str, answer: &Answer) -> Checked {
        let Some(living) = &mut self.living else { return Ok(()) };
        let open = |asked: &&mut Asked| asked.request == request && !asked.answered;
        let Answer::Allow { input } = answer else {
            prop_assert!(matches!(answer, Answer::Deny { .. }), "{:?}", answer);
            // Of several requests with one id, the latest one is rejected.
            let asked = living.asked.iter_mut().rev().find(open);
            let Some(asked) = asked else { return Err(twice(request, answer)) };
            asked.answered = true;
            self.tally.denied += 1;
            return Ok(());
        };
        for asked in living.asked.iter_mut().filter(|asked| asked.request == request && !asked.answered) {
            let asked_input = asked.deed.input(&self.directory);
            let yes = self.watch.accepted.iter_mut().find(|word| {
                word.approved
                    && !word.told
                    && word.call == asked.call
                    && Some(&word.turn) == asked.turn.as_ref()
                    && word.shown.as_deref() == Some(&asked_input)
                    && word.edited.as_deref() == input.as_deref().map(RawValue::get)
            });
            if let Some(yes) = yes {
                (yes.told, asked.answered) = (true, true);
                *(if yes.person { &mut self.tally.allowed_by_people } else { &mut self.tally.allowed_by_policy }) += 1;
                return Ok(());
            }
        }
        let known = living.asked.iter().any(|asked| asked.request == request && !asked.answered);
        Err(if known {
            TestCaseError::fail(format!("{request} was allowed by nobody"))
        } else {
            twice(request, answer)
        })
    }

    /// Checks that every approval reaches the agent that asked, and that no request is left waiting.
    async fn hear_the_rest(&mut self) -> Checked {
        let missing = |world: &Self| {
            // A closed agent receives nothing more, and does nothing more.
            let living = world.living.as_ref().filter(|living| !living.agent.is_closed())?;
            let untold = world.watch.accepted.iter().find(|word| {
                let asked = living
                    .asked
                    .iter()
                    .any(|asked| asked.call == word.call && asked.turn.as_deref() == Some(&*word.turn));
                word.approved && !word.told && asked
            });
            let unanswered = living.asked.iter().find(|asked| {
                !asked.answered
                    && !asked.withdrawn
                    && asked.turn == world.watch.turn()
                    && !world.watch.waits(&asked.call)
            });
            untold.map(|word| format!("{word:?}")).or(unanswered.map(|asked| format!("{} is open", asked.request)))
        };
        for _ in 0..200 {
            let Some(what) = missing(self) else { return Ok(()) };
            let Some(living) = &mut self.living else { return Ok(()) };
            match tokio::time::timeout(Duration::from_secs(2), living.agent.answers.recv()).await {
                Ok(Some((AgentRequestId(request), answer))) => self.check_answer(&request, &answer)?,
                _ => {
                    return Err(TestCaseError::fail(format!(
                        "the agent was not told: {what}; turn {:?}",
                        self.watch.turn()
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
