//! One run: a workload, a fault in its midst, the host's end, and what must be true after the next one's start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahp_types::state::{ChatState, ResponsePart, TurnState};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::ChildStdin;

use crate::client::{Client, Heard, Return};
use crate::common::{Host, PATIENCE};
use crate::faults;
use crate::place::Place;
use crate::plan::{Agent, Dice, Fault, Plan, Step};
use crate::slow::SlowDisk;
use crate::watchdog::Watchdog;
use crate::witness::{self, Kind, Witness};

/// Streamed output is written at the latest after this time.
const WRITTEN_WITHIN: Duration = Duration::from_millis(100);

/// How often a message may come too early, because something else has begun to run, before that is a fault of its own.
const ATTEMPTS: u32 = 20;

/// What is worth counting.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Count {
    pub(crate) runs: u32,
    pub(crate) injected: u32,
    pub(crate) accepted: usize,
    /// Of those, the ones that nobody took back; they were all found in their places.
    pub(crate) kept: usize,
    /// Turns that were running when the host ended, and are told as such by the next one.
    pub(crate) interrupted: u32,
}

/// Does what a plan says; panics where a promise was not kept.
pub(crate) async fn run(plan: Plan, watchdog: Arc<Watchdog>) -> Count {
    let mut scene = Scene::begin(&plan, watchdog).await;
    scene.work(&plan).await;
    let before = scene.end(&plan).await;
    let interrupted = scene.come_back(&plan, before).await;
    let kept = scene.go_on().await;
    let Scene { witness, host, stdin, place, injected, .. } = scene;
    host.stop().await;
    drop(stdin);
    place.nothing_left().await;
    Count { runs: 1, injected: injected.into(), accepted: witness.accepted(), kept, interrupted: interrupted.into() }
}

struct Scene {
    place: Place,
    host: Host,
    stdin: Option<ChildStdin>,
    agent: Agent,
    clients: [Client; 2],
    witness: Witness,
    dice: Dice,
    watchdog: Arc<Watchdog>,
    injected: bool,
    /// A fault that kept the disk from being written in time.
    disk_was_bad: bool,
    slow: Option<SlowDisk>,
}

/// What was known when the host ended.
struct Before {
    /// What each client had seen, and its running turn with the text that must be there.
    seen: [(ChatState, Option<Stream>); 2],
    politely: bool,
}

struct Stream {
    turn: String,
    heard: String,
    /// So many bytes of it were old enough to be written.
    safe: usize,
}

impl Scene {
    async fn begin(plan: &Plan, watchdog: Arc<Watchdog>) -> Self {
        let mut place = Place::new(plan.agent, plan.fault == Fault::DiskFull).await;
        let (host, stdin) = place.serve().await;
        let (first, chat) = Client::create(&host.url(), &place.work()).await;
        let second = Client::subscribe(&host.url(), &chat).await;
        let mut scene = Self {
            place,
            host,
            stdin: Some(stdin),
            agent: plan.agent,
            clients: [first, second],
            witness: Witness::default(),
            dice: plan.dice.clone(),
            watchdog,
            injected: false,
            disk_was_bad: false,
            slow: None,
        };
        // A session is there for good as soon as its first message is accepted.
        scene.send(0, Kind::Turn, &plan.first).await;
        scene.listen_while(|scene| scene.witness.last_is_accepted().is_none()).await;
        assert_eq!(scene.witness.last_is_accepted(), Some(true));
        scene
    }

    // ── The workload ──────────────────────────────────────────────────────────────────────────────────────────────

    async fn work(&mut self, plan: &Plan) {
        for (index, (silence, step)) in plan.steps.iter().enumerate() {
            if self.fault_is_due(plan, index).await {
                return;
            }
            self.listen(*silence).await;
            self.step(step).await;
        }
        if !self.fault_is_due(plan, plan.steps.len()).await {
            let rest = Duration::from_millis(self.dice.below(60));
            self.listen(rest).await;
        }
    }

    /// Does the fault if this is its place; whether the host has ended by it.
    async fn fault_is_due(&mut self, plan: &Plan, index: usize) -> bool {
        if plan.fault_after.0 != index {
            return false;
        }
        self.listen(plan.fault_after.1).await;
        let pid = self.host.pid;
        match plan.fault {
            // Both are the host's end, which is no part of the workload.
            Fault::HostKilled | Fault::StdinEnds => {
                self.injected = true;
                return true;
            }
            Fault::AgentKilled => self.inject(|| faults::kill_agent(pid)).await,
            Fault::SupervisorKilled => self.inject(|| faults::kill_supervisor(pid)).await,
            Fault::GatewayCut => self.inject(|| faults::cut_gateway(pid)).await,
            Fault::Malformed => self.inject(|| faults::write_malformed(pid)).await,
            Fault::ClientsCut => {
                self.clients.iter_mut().for_each(Client::leave);
                self.injected = true;
            }
            Fault::DiskFull => {
                self.place.fill();
                self.injected = true;
                self.disk_was_bad = true;
                if plan.killed && plan.patient {
                    // The host ends while its disk is full.
                    self.listen(plan.lasts).await;
                    return true;
                }
                self.during(plan.lasts).await;
                self.place.free();
            }
            Fault::DiskSlow => {
                let each = Duration::from_millis(4 + self.dice.below(60));
                self.slow = Some(SlowDisk::start(pid, each, plan.lasts * 2));
                self.disk_was_bad = true;
                self.during(plan.lasts).await;
            }
        }
        false
    }

    /// Does a fault now, or soon: what it is done to may not be there yet.
    async fn inject(&mut self, fault: impl Fn() -> bool) {
        for _ in 0..ATTEMPTS {
            self.injected = fault();
            if self.injected {
                return;
            }
            let pause = if self.agent == Agent::Fake { 25 } else { 150 };
            self.listen(Duration::from_millis(pause)).await;
        }
    }

    /// While the fault lasts, people go on.
    async fn during(&mut self, lasts: Duration) {
        let kinds = [Kind::Queued, Kind::Turn, Kind::Steering];
        let pieces = 3;
        for kind in kinds {
            self.listen(lasts / pieces).await;
            self.send(0, kind, "hello").await;
        }
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Say(who, prompt) => self.send(*who, Kind::Turn, prompt).await,
            Step::Queue(who, prompt) => self.send(*who, Kind::Queued, prompt).await,
            Step::Steer(who, prompt) => self.send(*who, Kind::Steering, prompt).await,
            Step::Cancel(who) => self.cancel(*who).await,
            Step::Unqueue(who) => {
                let queue = self.clients[*who].state.queued_messages.clone().unwrap_or_default();
                if let Some(message) = queue.last() {
                    let action = json!({"type": "chat/pendingMessageRemoved", "kind": "queued", "id": message.id});
                    let number = self.clients[*who].dispatch(action).await;
                    let id = self.clients[*who].id.clone();
                    self.witness.taken_back(&id, number, &message.message.text);
                }
            }
            Step::Resume(who) => {
                if let Some(turn) = self.clients[*who].state.turns.last().map(|turn| turn.id.clone()) {
                    self.clients[*who].dispatch(json!({"type": "chat/turnResume", "turnId": turn})).await;
                }
            }
            Step::Leave(who) => self.clients[*who].leave(),
            Step::Return(who) => self.return_client(*who).await,
        }
    }

    async fn send(&mut self, who: usize, kind: Kind, prompt: &str) {
        let between = if self.agent == Agent::Fake { " " } else { "\n" };
        let text = format!("{prompt}{between}{}", self.witness.tag());
        let client = &mut self.clients[who];
        let number = client.dispatch(witness::action(kind, &text)).await;
        let id = client.id.clone();
        self.witness.sent(&id, number, kind);
    }

    async fn cancel(&mut self, who: usize) {
        if let Some(turn) = self.clients[who].state.active_turn.as_ref().map(|turn| turn.id.clone()) {
            let action = json!({"type": "chat/turnCancelled", "turnId": turn, "duration": 1});
            self.clients[who].dispatch(action).await;
        }
    }

    /// A client that had left comes back, and says again what was not answered. Answers how it was made whole.
    async fn return_client(&mut self, who: usize) {
        if !self.clients[who].is_here() {
            self.reconnect(who).await;
            self.clients[who].repeat().await;
        }
    }

    async fn reconnect(&mut self, who: usize) {
        let url = self.host.url();
        let client = &mut self.clients[who];
        let slot = client.state.steering_message.as_ref().map(|message| message.message.text.clone());
        let (how, heard) = client.come_back(&url).await;
        if how == Return::Snapshot {
            self.witness.slot_unseen(slot.as_deref(), &self.clients[who].state);
        }
        heard.iter().for_each(|heard| self.witness.heard(heard));
    }

    // ── Listening ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// Hears whatever comes for a while.
    async fn listen(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        while let Some(heard) = self.hear(until).await {
            self.react(heard).await;
        }
    }

    /// Hears whatever comes as long as something is so.
    async fn listen_while(&mut self, holds: impl Fn(&Self) -> bool) {
        let until = tokio::time::Instant::now() + PATIENCE;
        while holds(self) {
            match self.hear(until).await {
                Some(heard) => self.react(heard).await,
                None => panic!("waited in vain; the chat is {:#?}", self.clients[0].state),
            }
        }
    }

    /// What one of the clients hears next, and which.
    async fn hear(&mut self, until: tokio::time::Instant) -> Option<(usize, Option<Heard>)> {
        let [first, second] = &mut self.clients;
        tokio::select! {
            heard = first.hear() => Some((0, heard)),
            heard = second.hear() => Some((1, heard)),
            () = tokio::time::sleep_until(until) => None,
        }
    }

    async fn react(&mut self, (who, heard): (usize, Option<Heard>)) {
        let Some(heard) = heard else { return };
        self.witness.heard(&heard);
        let action = &heard.envelope["action"];
        let asks = action["type"] == "chat/toolCallReady" && action.get("confirmed").is_none_or(Value::is_null);
        if asks && who == 0 {
            let approved = match self.dice.below(8) {
                // Nobody answers.
                0 => return,
                1 => false,
                _ => true,
            };
            let answer = json!({"type": "chat/toolCallConfirmed", "turnId": action["turnId"],
                "toolCallId": action["toolCallId"], "approved": approved});
            self.clients[who].dispatch(answer).await;
        }
    }

    // ── The end, and after it ─────────────────────────────────────────────────────────────────────────────────────

    /// The host ends; answers what clients know then.
    async fn end(&mut self, plan: &Plan) -> Before {
        let politely = match plan.fault {
            Fault::HostKilled => false,
            Fault::StdinEnds => true,
            _ => !plan.killed,
        };
        let ended = Instant::now();
        if !politely {
            self.host.signal(Signal::SIGKILL);
        } else if plan.fault == Fault::StdinEnds {
            drop(self.stdin.take());
        } else {
            self.host.signal(Signal::SIGTERM);
        }
        while self.clients.iter().any(Client::is_here) {
            let heard = self.hear(tokio::time::Instant::now() + PATIENCE).await.expect("the host ends its connections");
            if let Some(heard) = &heard.1 {
                self.witness.heard(heard);
            }
        }
        let status = self.host.ended().await;
        assert!(!politely || status.code() == Some(0), "{status:?}\n{}", self.host.log());
        if let Some(slow) = self.slow.take() {
            self.injected = slow.ended().await;
        }
        self.place.free();
        let watchdog = &self.watchdog;
        let seen = self.clients.each_ref().map(|client| {
            let stream = client.state.active_turn.as_ref().map(|turn| {
                let heard = client.text(&turn.id).unwrap_or_default();
                // A host that gets no processor cannot write either: only time that was there to be used counts.
                let is_old = |at: &Instant| politely || watchdog.usable(*at, ended) > WRITTEN_WITHIN;
                let safe = client.seen.iter().rfind(|(at, _)| is_old(at)).map_or(0, |(_, length)| *length);
                Stream { turn: turn.id.clone(), heard, safe: if self.disk_was_bad { 0 } else { safe } }
            });
            (client.state.clone(), stream)
        });
        Before { seen, politely }
    }

    /// The next host: all that was promised is there. Answers whether a turn was interrupted.
    async fn come_back(&mut self, plan: &Plan, before: Before) -> bool {
        if plan.patient {
            self.place.nothing_left().await;
        }
        let (host, stdin) = self.place.serve().await;
        (self.host, self.stdin) = (host, Some(stdin));
        for who in [0, 1] {
            self.reconnect(who).await;
            let heard = self.clients[who].is_whole().await;
            heard.iter().for_each(|heard| self.witness.heard(heard));
            let (then, stream) = &before.seen[who];
            let client = &self.clients[who];
            witness::check_past(then, &client.state);
            assert!(client.state.active_turn.is_none(), "nothing runs by itself: {:#?}", client.state.active_turn);
            if let Some(Stream { turn, heard, safe }) = stream {
                let kept = client.text(turn).expect("the running turn is there");
                assert!(heard.starts_with(&kept) || kept.starts_with(heard), "{kept:?} was kept of {heard:?}");
                assert!(kept.len() >= *safe, "{} bytes were kept, {safe} were old enough to be", kept.len());
            }
        }
        self.witness.check(&self.clients[0].state);
        assert!(self.host.agents().is_empty(), "nothing is sent again by itself");
        let last = self.clients[0].state.turns.last();
        let interrupted = last.filter(|turn| turn.state == TurnState::Error && is_interrupted(&turn.response_parts));
        assert!(
            !before.politely || interrupted.is_none(),
            "a host that was asked to stop ends its turns: {interrupted:?}"
        );
        let interrupted = interrupted.map(|turn| turn.id.clone());

        for who in [0, 1] {
            self.clients[who].repeat().await;
        }
        self.listen_while(|scene| !scene.clients.iter().all(Client::has_all_answers)).await;
        if let Some(turn) = &interrupted
            && self.dice.one_in(3)
        {
            self.clients[0].dispatch(json!({"type": "chat/turnResume", "turnId": turn})).await;
            self.listen(Duration::from_millis(100)).await;
        }
        interrupted.is_some()
    }

    /// The next message works, whatever was left behind. Answers how many messages are there then.
    async fn go_on(&mut self) -> usize {
        for _ in 0..ATTEMPTS {
            self.settle().await;
            self.send(0, Kind::Turn, "hello").await;
            let tag = self.witness.last_tag().to_owned();
            self.listen_while(|scene| scene.witness.last_is_accepted().is_none()).await;
            if self.witness.last_is_accepted() == Some(false) {
                continue;
            }
            let is_over =
                |scene: &Self| scene.clients[0].state.turns.iter().any(|turn| turn.message.text.ends_with(&tag));
            self.listen_while(|scene| !is_over(scene)).await;
            let chat = &self.clients[0].state;
            let turn = chat.turns.iter().find(|turn| turn.message.text.ends_with(&tag)).unwrap();
            assert_eq!(turn.state, TurnState::Complete, "the next message does not work: {turn:#?}");
            let said = self.clients[0].text(&turn.id).unwrap_or_default();
            assert!(said.contains(&tag), "the agent answers something else: {turn:#?}");
            for who in [0, 1] {
                let heard = self.clients[who].is_whole().await;
                heard.iter().for_each(|heard| self.witness.heard(heard));
            }
            return self.witness.check(&self.clients[0].state);
        }
        panic!("no message was accepted in {ATTEMPTS} attempts: {:#?}", self.clients[0].state);
    }

    /// Whatever runs is cancelled, until nothing runs.
    async fn settle(&mut self) {
        for _ in 0..ATTEMPTS {
            let Some(turn) = self.clients[0].state.active_turn.as_ref().map(|turn| turn.id.clone()) else { return };
            self.cancel(0).await;
            let runs = |scene: &Self| scene.clients[0].state.active_turn.as_ref().is_some_and(|now| now.id == turn);
            self.listen_while(runs).await;
        }
    }
}

fn is_interrupted(parts: &[ResponsePart]) -> bool {
    matches!(parts.last(), Some(ResponsePart::Error(part)) if part.error.error_type == "interrupted")
}
