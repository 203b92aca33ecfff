//! One run: a workload, a fault during it, the host's end, and the checks after the next start.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahp_types::state::{ChatState, ResponsePart, TurnState};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::process::ChildStdin;

use crate::chaos::chaos_client::{ChaosClient, ReceivedEnvelope, ResyncKind};
use crate::chaos::chaos_environment::ChaosEnvironment;
use crate::chaos::delivery_checker::{self, DeliveryChecker, SendKind};
use crate::chaos::faults;
use crate::chaos::run_plan::{Agent, ClientStep, Fault, RunPlan, SeededRandom};
use crate::chaos::slow_disk::SlowDisk;
use crate::common::{HostProcess, TEST_TIMEOUT};
use crate::reconnect::scheduling_watchdog::SchedulingWatchdog;

/// Maximum delay until streamed output is written.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(100);

/// How often a message may be rejected because another turn has started, before that counts as a failure.
const MAX_SEND_ATTEMPTS: u32 = 20;

/// Counts over runs.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RunCounts {
    pub(crate) runs: u32,
    pub(crate) faults_injected: u32,
    pub(crate) accepted: usize,
    /// Accepted messages that were not withdrawn; all of them were found.
    pub(crate) retained: usize,
    /// Turns that were running when the host ended, and that the next host shows as interrupted.
    pub(crate) interrupted: u32,
}

/// Runs a plan; panics if a guarantee is broken.
pub(crate) async fn run(plan: RunPlan, watchdog: Arc<SchedulingWatchdog>) -> RunCounts {
    let mut scene = ChaosRun::begin(&plan, watchdog).await;
    scene.work(&plan).await;
    let before = scene.end(&plan).await;
    let interrupted = scene.restart_and_check(&plan, before).await;
    let retained = scene.send_next_message().await;
    let ChaosRun { delivery_checker: witness, host, stdin, environment: place, injected, .. } = scene;
    host.stop().await;
    drop(stdin);
    place.wait_until_no_processes().await;
    RunCounts {
        runs: 1,
        faults_injected: injected.into(),
        accepted: witness.accepted_count(),
        retained,
        interrupted: interrupted.into(),
    }
}

struct ChaosRun {
    environment: ChaosEnvironment,
    host: HostProcess,
    stdin: Option<ChildStdin>,
    agent: Agent,
    clients: [ChaosClient; 2],
    delivery_checker: DeliveryChecker,
    random: SeededRandom,
    watchdog: Arc<SchedulingWatchdog>,
    injected: bool,
    /// A fault that delayed writes to the disk.
    disk_was_bad: bool,
    slow: Option<SlowDisk>,
}

/// What was known when the host ended.
struct StateBeforeEnd {
    /// State of each client, and its running turn with the text that must survive.
    seen: [(ChatState, Option<StreamedTurn>); 2],
    was_graceful: bool,
}

struct StreamedTurn {
    turn: String,
    received_text: String,
    /// Bytes that were old enough to be written.
    durable_bytes: usize,
}

impl ChaosRun {
    async fn begin(plan: &RunPlan, watchdog: Arc<SchedulingWatchdog>) -> Self {
        let mut place = ChaosEnvironment::new(plan.agent, plan.fault == Fault::DiskFull).await;
        let (host, stdin) = place.serve().await;
        let (first, chat) = ChaosClient::create(&host.url(), &place.work()).await;
        let second = ChaosClient::subscribe(&host.url(), &chat).await;
        let mut scene = Self {
            environment: place,
            host,
            stdin: Some(stdin),
            agent: plan.agent,
            clients: [first, second],
            delivery_checker: DeliveryChecker::default(),
            random: plan.random.clone(),
            watchdog,
            injected: false,
            disk_was_bad: false,
            slow: None,
        };
        // A session is durable as soon as its first message is accepted.
        scene.send(0, SendKind::Turn, &plan.first_prompt).await;
        scene.listen_while(|scene| scene.delivery_checker.last_is_accepted().is_none()).await;
        assert_eq!(scene.delivery_checker.last_is_accepted(), Some(true));
        scene
    }

    // ── The workload ──────────────────────────────────────────────────────────────────────────────────────────────

    async fn work(&mut self, plan: &RunPlan) {
        for (index, (silence, step)) in plan.steps.iter().enumerate() {
            if self.fault_is_due(plan, index).await {
                return;
            }
            self.listen(*silence).await;
            self.step(step).await;
        }
        if !self.fault_is_due(plan, plan.steps.len()).await {
            let rest = Duration::from_millis(self.random.below(60));
            self.listen(rest).await;
        }
    }

    /// Injects the fault if it is due; returns whether the host has ended by it.
    async fn fault_is_due(&mut self, plan: &RunPlan, index: usize) -> bool {
        if plan.fault_after.0 != index {
            return false;
        }
        self.listen(plan.fault_after.1).await;
        let pid = self.host.pid;
        match plan.fault {
            // Both end the host, which is not part of the workload.
            Fault::HostKilled | Fault::StdinEnds => {
                self.injected = true;
                return true;
            }
            Fault::AgentKilled => self.inject(|| faults::kill_agent(pid)).await,
            Fault::SupervisorKilled => self.inject(|| faults::kill_supervisor(pid)).await,
            Fault::GatewayCut => self.inject(|| faults::cut_gateway(pid)).await,
            Fault::Malformed => self.inject(|| faults::write_malformed(pid)).await,
            Fault::ClientsCut => {
                self.clients.iter_mut().for_each(ChaosClient::disconnect);
                self.injected = true;
            }
            Fault::DiskFull => {
                self.environment.fill_disk();
                self.injected = true;
                self.disk_was_bad = true;
                if plan.is_host_killed && plan.waits_for_processes {
                    // The host ends while its disk is full.
                    self.listen(plan.fault_duration).await;
                    return true;
                }
                self.work_during_fault(plan.fault_duration).await;
                self.environment.free_disk();
            }
            Fault::DiskSlow => {
                let each = Duration::from_millis(4 + self.random.below(60));
                self.slow = Some(SlowDisk::start(pid, each, plan.fault_duration * 2));
                self.disk_was_bad = true;
                self.work_during_fault(plan.fault_duration).await;
            }
        }
        false
    }

    /// Injects a fault now, or soon: its target may not exist yet.
    async fn inject(&mut self, fault: impl Fn() -> bool) {
        for _ in 0..MAX_SEND_ATTEMPTS {
            self.injected = fault();
            if self.injected {
                return;
            }
            let pause = if self.agent == Agent::Fake { 25 } else { 150 };
            self.listen(Duration::from_millis(pause)).await;
        }
    }

    /// Continues the workload during the fault.
    async fn work_during_fault(&mut self, lasts: Duration) {
        let kinds = [SendKind::Queued, SendKind::Turn, SendKind::Steering];
        let pieces = 3;
        for kind in kinds {
            self.listen(lasts / pieces).await;
            self.send(0, kind, "hello").await;
        }
    }

    async fn step(&mut self, step: &ClientStep) {
        match step {
            ClientStep::SendMessage(who, prompt) => self.send(*who, SendKind::Turn, prompt).await,
            ClientStep::Queue(who, prompt) => self.send(*who, SendKind::Queued, prompt).await,
            ClientStep::Steer(who, prompt) => self.send(*who, SendKind::Steering, prompt).await,
            ClientStep::Cancel(who) => self.cancel(*who).await,
            ClientStep::Unqueue(who) => {
                let queue = self.clients[*who].state.queued_messages.clone().unwrap_or_default();
                if let Some(message) = queue.last() {
                    let action = json!({"type": "chat/pendingMessageRemoved", "kind": "queued", "id": message.id});
                    let number = self.clients[*who].dispatch(action).await;
                    let id = self.clients[*who].id.clone();
                    self.delivery_checker.record_removal(&id, number, &message.message.text);
                }
            }
            ClientStep::Resume(who) => {
                if let Some(turn) = self.clients[*who].state.turns.last().map(|turn| turn.id.clone()) {
                    self.clients[*who].dispatch(json!({"type": "chat/turnResume", "turnId": turn})).await;
                }
            }
            ClientStep::Leave(who) => self.clients[*who].disconnect(),
            ClientStep::Return(who) => self.return_client(*who).await,
        }
    }

    async fn send(&mut self, who: usize, kind: SendKind, prompt: &str) {
        let between = if self.agent == Agent::Fake { " " } else { "\n" };
        let text = format!("{prompt}{between}{}", self.delivery_checker.next_tag());
        let client = &mut self.clients[who];
        let number = client.dispatch(delivery_checker::action(kind, &text)).await;
        let id = client.id.clone();
        self.delivery_checker.record_sent(&id, number, kind);
    }

    async fn cancel(&mut self, who: usize) {
        if let Some(turn) = self.clients[who].state.active_turn.as_ref().map(|turn| turn.id.clone()) {
            let action = json!({"type": "chat/turnCancelled", "turnId": turn, "duration": 1});
            self.clients[who].dispatch(action).await;
        }
    }

    /// Reconnects a client, which repeats unanswered dispatches.
    async fn return_client(&mut self, who: usize) {
        if !self.clients[who].is_connected() {
            self.reconnect(who).await;
            self.clients[who].redispatch_unanswered().await;
        }
    }

    async fn reconnect(&mut self, who: usize) {
        let url = self.host.url();
        let client = &mut self.clients[who];
        let slot = client.state.steering_message.as_ref().map(|message| message.message.text.clone());
        let (how, received) = client.reconnect(&url).await;
        if how == ResyncKind::Snapshot {
            self.delivery_checker.record_snapshot(slot.as_deref(), &self.clients[who].state);
        }
        received.iter().for_each(|received| self.delivery_checker.record_envelope(received));
    }

    // ── Listening ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// Receives events for a while.
    async fn listen(&mut self, time: Duration) {
        let until = tokio::time::Instant::now() + time;
        while let Some(received) = self.receive(until).await {
            self.handle_received(received).await;
        }
    }

    /// Receives events while a condition holds.
    async fn listen_while(&mut self, holds: impl Fn(&Self) -> bool) {
        let until = tokio::time::Instant::now() + TEST_TIMEOUT;
        while holds(self) {
            match self.receive(until).await {
                Some(received) => self.handle_received(received).await,
                None => panic!("waited in vain; the chat is {:#?}", self.clients[0].state),
            }
        }
    }

    /// Returns the next event of one of the clients, and which client.
    async fn receive(&mut self, until: tokio::time::Instant) -> Option<(usize, Option<ReceivedEnvelope>)> {
        let [first, second] = &mut self.clients;
        tokio::select! {
            received = first.receive() => Some((0, received)),
            received = second.receive() => Some((1, received)),
            () = tokio::time::sleep_until(until) => None,
        }
    }

    async fn handle_received(&mut self, (who, received): (usize, Option<ReceivedEnvelope>)) {
        let Some(received) = received else { return };
        self.delivery_checker.record_envelope(&received);
        let action = &received.envelope["action"];
        let asks = action["type"] == "chat/toolCallReady" && action.get("confirmed").is_none_or(Value::is_null);
        if asks && who == 0 {
            let approved = match self.random.below(8) {
                // No client answers.
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

    /// Ends the host; returns what clients know then.
    async fn end(&mut self, plan: &RunPlan) -> StateBeforeEnd {
        let politely = match plan.fault {
            Fault::HostKilled => false,
            Fault::StdinEnds => true,
            _ => !plan.is_host_killed,
        };
        let ended = Instant::now();
        if !politely {
            self.host.signal(Signal::SIGKILL);
        } else if plan.fault == Fault::StdinEnds {
            drop(self.stdin.take());
        } else {
            self.host.signal(Signal::SIGTERM);
        }
        while self.clients.iter().any(ChaosClient::is_connected) {
            let received =
                self.receive(tokio::time::Instant::now() + TEST_TIMEOUT).await.expect("the host ends its connections");
            if let Some(received) = &received.1 {
                self.delivery_checker.record_envelope(received);
            }
        }
        let status = self.host.wait_for_exit().await;
        assert!(!politely || status.code() == Some(0), "{status:?}\n{}", self.host.stderr_text());
        if let Some(slow) = self.slow.take() {
            self.injected = slow.wait_for_end().await;
        }
        self.environment.free_disk();
        let watchdog = &self.watchdog;
        let seen = self.clients.each_ref().map(|client| {
            let stream = client.state.active_turn.as_ref().map(|turn| {
                let received_text = client.text(&turn.id).unwrap_or_default();
                // A host without processor time cannot write: only usable time counts.
                let is_old = |at: &Instant| politely || watchdog.usable_time(*at, ended) > MAX_WRITE_DELAY;
                let safe = client.text_progress.iter().rfind(|(at, _)| is_old(at)).map_or(0, |(_, length)| *length);
                StreamedTurn {
                    turn: turn.id.clone(),
                    received_text,
                    durable_bytes: if self.disk_was_bad { 0 } else { safe },
                }
            });
            (client.state.clone(), stream)
        });
        StateBeforeEnd { seen, was_graceful: politely }
    }

    /// Starts the next host and checks all guarantees. Returns whether a turn was interrupted.
    async fn restart_and_check(&mut self, plan: &RunPlan, before: StateBeforeEnd) -> bool {
        if plan.waits_for_processes {
            self.environment.wait_until_no_processes().await;
        }
        let (host, stdin) = self.environment.serve().await;
        (self.host, self.stdin) = (host, Some(stdin));
        for who in [0, 1] {
            self.reconnect(who).await;
            let received = self.clients[who].assert_state_matches_host().await;
            received.iter().for_each(|received| self.delivery_checker.record_envelope(received));
            let (then, stream) = &before.seen[who];
            let client = &self.clients[who];
            delivery_checker::check_past(then, &client.state);
            assert!(
                client.state.active_turn.is_none(),
                "no turn runs after the restart: {:#?}",
                client.state.active_turn
            );
            if let Some(StreamedTurn { turn, received_text, durable_bytes }) = stream {
                let stored = client.text(turn).expect("the running turn exists");
                assert!(
                    received_text.starts_with(&stored) || stored.starts_with(received_text),
                    "{stored:?} was stored of {received_text:?}"
                );
                assert!(
                    stored.len() >= *durable_bytes,
                    "{} bytes were stored, {durable_bytes} were old enough",
                    stored.len()
                );
            }
        }
        self.delivery_checker.check_chat(&self.clients[0].state);
        assert!(self.host.agents().is_empty(), "no message is sent again automatically");
        let last = self.clients[0].state.turns.last();
        let interrupted = last.filter(|turn| turn.state == TurnState::Error && is_interrupted(&turn.response_parts));
        assert!(
            !before.was_graceful || interrupted.is_none(),
            "a host that was asked to stop ends its turns: {interrupted:?}"
        );
        let interrupted = interrupted.map(|turn| turn.id.clone());

        for who in [0, 1] {
            self.clients[who].redispatch_unanswered().await;
        }
        self.listen_while(|scene| !scene.clients.iter().all(ChaosClient::has_all_answers)).await;
        if let Some(turn) = &interrupted
            && self.random.one_in(3)
        {
            self.clients[0].dispatch(json!({"type": "chat/turnResume", "turnId": turn})).await;
            self.listen(Duration::from_millis(100)).await;
        }
        interrupted.is_some()
    }

    /// Checks that the next message works. Returns how many messages are present then.
    async fn send_next_message(&mut self) -> usize {
        for _ in 0..MAX_SEND_ATTEMPTS {
            self.cancel_until_idle().await;
            self.send(0, SendKind::Turn, "hello").await;
            let tag = self.delivery_checker.last_tag().to_owned();
            self.listen_while(|scene| scene.delivery_checker.last_is_accepted().is_none()).await;
            if self.delivery_checker.last_is_accepted() == Some(false) {
                continue;
            }
            let is_over =
                |scene: &Self| scene.clients[0].state.turns.iter().any(|turn| turn.message.text.ends_with(&tag));
            self.listen_while(|scene| !is_over(scene)).await;
            let chat = &self.clients[0].state;
            let turn = chat.turns.iter().find(|turn| turn.message.text.ends_with(&tag)).unwrap();
            assert_eq!(turn.state, TurnState::Complete, "the next message does not work: {turn:#?}");
            let text = self.clients[0].text(&turn.id).unwrap_or_default();
            assert!(text.contains(&tag), "the agent answers something else: {turn:#?}");
            for who in [0, 1] {
                let received = self.clients[who].assert_state_matches_host().await;
                received.iter().for_each(|received| self.delivery_checker.record_envelope(received));
            }
            return self.delivery_checker.check_chat(&self.clients[0].state);
        }
        panic!("no message was accepted in {MAX_SEND_ATTEMPTS} attempts: {:#?}", self.clients[0].state);
    }

    /// Cancels running turns until none runs.
    async fn cancel_until_idle(&mut self) {
        for _ in 0..MAX_SEND_ATTEMPTS {
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
