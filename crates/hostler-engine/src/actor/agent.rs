//! The actor's hands: opening, prompting, interrupting and closing the agent.

use std::sync::Arc;

use hostler_driver::{
    Answer, CloseMode, Connection, ConnectionError, ConnectionFacts, DriverEvent, OpenError, OpenSpec, Opened, Prompt,
    RequestId, StderrTail,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::policy::Facts;
use super::rest::Rest;
use super::warm::SpawnFacts;
use super::{Actor, Input, resume};
use crate::config;
use crate::fleet::{Place, Seat, Waiting};
use crate::gate::SessionGate;
use crate::port::{AgentStatus, Lease};
use crate::transcript::{Failure, activity};
use crate::turn::{AgentPhase, Input as TurnInput, TurnPhase};

/// Something that was started for the agent is finished. Each carries the attempt that it belongs to, so that news of
/// an agent that is no longer meant changes nothing.
pub(crate) enum AgentNews {
    /// There is a seat.
    Seated { attempt: u64, seat: Seat },
    /// The handshake is finished, or it failed.
    Opened { attempt: u64, result: Result<Opened, OpenError> },
    /// An attempt to open was given up; nothing is left of it.
    OpenAbandoned { attempt: u64 },
    /// The prompt was written, or could not be.
    Sent { attempt: u64, result: Result<Uuid, ConnectionError> },
    /// The agent works by these facts from now on, or it could not be told all of them.
    Adapted { attempt: u64, facts: Facts, result: Result<(), ConnectionError> },
    /// The time for reacting to an interrupt is over.
    InterruptExpired { attempt: u64, interrupt: u64 },
    /// An answer to a request was written, or came too late.
    Answered { result: Result<(), ConnectionError> },
    /// A permission mode was taken, or was not.
    ModeTaken { attempt: u64, word: &'static str, result: Result<(), ConnectionError> },
    /// The tree is empty.
    Closed { attempt: u64 },
}

/// The agent's slot. At most one process at a time.
#[derive(Default)]
pub(super) struct Agent {
    attempt: u64,
    /// Counts interrupts, so that the clock of an old one cannot end the wait for a new one.
    interrupts: u64,
    state: AgentState,
}

#[derive(Default)]
enum AgentState {
    #[default]
    None,
    /// All seats are taken.
    Waiting {
        cancel: CancellationToken,
    },
    Opening {
        cancel: CancellationToken,
        facts: Facts,
        permission_mode: String,
        lease: Lease,
        /// Set as long as nobody has had a message for it.
        warm: Option<SpawnFacts>,
    },
    Live(Live),
    /// The process is being ended; its lease ends with it.
    Closing(#[expect(dead_code, reason = "held for its Drop")] Option<Lease>),
}

struct Live {
    connection: Arc<dyn Connection>,
    events: mpsc::Receiver<DriverEvent>,
    facts: Facts,
    permission_mode: String,
    lease: Lease,
    warm: Option<SpawnFacts>,
}

impl Agent {
    /// The next event of the live agent; never, if there is none.
    pub(super) async fn next_event(&mut self) -> Option<DriverEvent> {
        match &mut self.state {
            AgentState::Live(live) => match live.events.recv().await {
                Some(event) => Some(event),
                // The driver always says `Gone` before it closes the channel; should it not, this is it.
                None => {
                    Some(DriverEvent::Gone { status: "the driver ended".to_owned(), stderr: StderrTail::default() })
                }
            },
            _ => std::future::pending().await,
        }
    }

    /// An event that is there already.
    pub(super) fn waiting_event(&mut self) -> Option<DriverEvent> {
        match &mut self.state {
            AgentState::Live(live) => live.events.try_recv().ok(),
            _ => None,
        }
    }

    /// Whether anything of a process may still be there.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.state, AgentState::None)
    }

    /// What the agent was started with, or told since, and its right to use the gateway.
    pub(super) fn facts(&self) -> Option<(&Facts, &Lease)> {
        match &self.state {
            AgentState::Opening { facts, lease, .. } | AgentState::Live(Live { facts, lease, .. }) => {
                Some((facts, lease))
            }
            _ => None,
        }
    }

    /// The live agent works by these facts now.
    pub(super) fn took_facts(&mut self, new: Facts) {
        if let AgentState::Live(Live { facts, .. }) = &mut self.state {
            *facts = new;
        }
    }

    /// The way to the live agent, and its attempt.
    pub(super) fn connection(&self) -> Option<(Arc<dyn Connection>, u64)> {
        match &self.state {
            AgentState::Live(live) => Some((Arc::clone(&live.connection), self.attempt)),
            _ => None,
        }
    }

    /// Whether the agent of this attempt is live.
    pub(super) fn is_live(&self, attempt: u64) -> bool {
        attempt == self.attempt && matches!(self.state, AgentState::Live(_))
    }

    /// The live agent works under this permission mode now.
    pub(super) fn took_mode(&mut self, mode: &str) {
        if let AgentState::Live(live) = &mut self.state {
            mode.clone_into(&mut live.permission_mode);
        }
    }

    /// What the agent was opened with, if it was opened ahead and nobody has had a message for it.
    pub(super) fn warm(&self) -> Option<&SpawnFacts> {
        match &self.state {
            AgentState::Opening { warm, .. } | AgentState::Live(Live { warm, .. }) => warm.as_ref(),
            _ => None,
        }
    }

    /// A message is here: the agent is like any other from now on. `false` if it was before.
    pub(super) fn no_longer_warm(&mut self) -> bool {
        match &mut self.state {
            AgentState::Live(live) => live.warm.take().is_some(),
            _ => false,
        }
    }

    /// The permission mode, in the agent's words, that the agent works under.
    pub(super) fn permission_mode(&self) -> Option<&str> {
        match &self.state {
            AgentState::Opening { permission_mode, .. } | AgentState::Live(Live { permission_mode, .. }) => {
                Some(permission_mode)
            }
            _ => None,
        }
    }
}

impl Actor {
    /// Opens an agent as soon as there is a seat for it.
    pub(super) async fn open_agent(&mut self) {
        self.agent.attempt += 1;
        self.unsent = false;
        if *self.machine.turn() == TurnPhase::None {
            // It is opened ahead, on a seat that was free.
            return self.start_agent().await;
        }
        // The process before this one is gone, and its seat is whose turn it is.
        self.rest = Rest::default();
        match self.host.fleet.ask() {
            Place::Now(seat) => {
                self.rest.seat = Some(seat);
                self.start_agent().await;
            }
            Place::Later(waiting) => self.wait_for_seat(waiting).await,
        }
    }

    async fn wait_for_seat(&mut self, waiting: Waiting) {
        let attempt = self.agent.attempt;
        let text = waiting.sentence();
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        self.tasks.spawn(async move {
            let news = tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentNews::OpenAbandoned { attempt },
                seat = waiting.seat() => AgentNews::Seated { attempt, seat },
            };
            Input::Agent(news)
        });
        self.agent.state = AgentState::Waiting { cancel };
        self.flush(&mut activity(Some(text)).into()).await;
    }

    /// The seat is here, unless it was given up in the same moment; then it goes back.
    async fn seated(&mut self, attempt: u64, seat: Seat) {
        if attempt != self.agent.attempt {
            return;
        }
        if let AgentState::Waiting { .. } = self.agent.state {
            self.rest.seat = Some(seat);
            self.start_agent().await;
        } else {
            drop(seat);
            self.agent.state = AgentState::None;
            self.drive(TurnInput::Closed).await;
        }
    }

    async fn start_agent(&mut self) {
        let attempt = self.agent.attempt;
        let Some(driver) = self.host.drivers.get(&self.session.session.provider).cloned() else {
            let message = format!("This host does not offer the agent {:?}.", self.session.session.provider);
            let result = Err(OpenError {
                kind: hostler_driver::OpenErrorKind::ExecutableMissing,
                message,
                stderr: StderrTail::default(),
            });
            self.tasks.spawn(async move { Input::Agent(AgentNews::Opened { attempt, result }) });
            return;
        };
        let info = driver.describe();
        let facts = self.wanted_facts(&self.usual_model(&info.default_model));
        let warm = (*self.machine.turn() == TurnPhase::None).then(|| self.spawn_facts(&*driver));
        let ahead = warm.is_some();
        let lease = self.host.gateway.lease(&self.session.uri, &self.session.chat_uri, &facts.model);
        let permission_mode = config::agent_mode(self.wanted_mode()).to_owned();
        let spec = OpenSpec {
            conversation: self.session.conversation_start(),
            working_directory: self.session.working_directory().unwrap_or_default(),
            model: lease.model.clone(),
            web_search: lease.web_search,
            permission_mode: permission_mode.clone(),
            effort: facts.effort.clone(),
            thinking_budget: facts.thinking_budget,
            more_directories: facts.more_directories.clone(),
            endpoint: lease.endpoint.clone(),
            gatekeeper: Arc::<SessionGate>::clone(&self.gate),
        };
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        self.tasks.spawn(async move {
            let news = tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentNews::OpenAbandoned { attempt },
                result = driver.open(spec) => AgentNews::Opened { attempt, result },
            };
            Input::Agent(news)
        });
        self.agent.state = AgentState::Opening { cancel, facts, permission_mode, lease, warm };
        if ahead {
            return;
        }
        self.flush(&mut activity(Some(format!("Starting {}", info.display_name))).into()).await;
    }

    pub(super) fn send_prompt(&mut self, turn: String) {
        let Some(active) = self.session.chat.active_turn.as_ref().filter(|active| active.id == turn) else { return };
        let prompt = match self.session.delivered.as_ref() == Some(&turn) {
            true => Prompt::new(resume::prompt(&active.response_parts)),
            false => Prompt::new(active.message.text.clone()),
        };
        let AgentState::Live(live) = &self.agent.state else { return };
        let (connection, attempt) = (Arc::clone(&live.connection), self.agent.attempt);
        self.unsent = true;
        self.tasks.spawn(async move {
            let result = connection.send(prompt).await;
            Input::Agent(AgentNews::Sent { attempt, result })
        });
    }

    pub(super) fn interrupt_agent(&mut self) {
        let AgentState::Live(live) = &self.agent.state else { return };
        let (connection, attempt) = (Arc::clone(&live.connection), self.agent.attempt);
        self.agent.interrupts += 1;
        let interrupt = self.agent.interrupts;
        let grace = self.host.clock.sleep(self.host.interrupt_grace);
        self.tasks.spawn(async move {
            // The answer does not matter: the turn's end is what counts, and the clock covers its absence.
            let asking = async {
                if let Err(error) = connection.interrupt().await {
                    tracing::debug!(%error, "an interrupt was not answered");
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = asking => {}
                () = grace => {}
            }
            Input::Agent(AgentNews::InterruptExpired { attempt, interrupt })
        });
    }

    pub(super) fn close_agent(&mut self, mode: CloseMode) {
        let attempt = self.agent.attempt;
        self.host.agent_gone(&self.session.uri);
        match std::mem::take(&mut self.agent.state) {
            AgentState::Waiting { cancel } => {
                cancel.cancel();
                self.agent.state = AgentState::Closing(None);
            }
            AgentState::Opening { cancel, lease, .. } => {
                cancel.cancel();
                self.agent.state = AgentState::Closing(Some(lease));
            }
            AgentState::Live(live) => {
                self.agent.state = AgentState::Closing(Some(live.lease));
                self.tasks.spawn(async move {
                    live.connection.close(mode).await;
                    Input::Agent(AgentNews::Closed { attempt })
                });
            }
            other => {
                self.agent.state = other;
                self.tasks.spawn(async move { Input::Agent(AgentNews::Closed { attempt }) });
            }
        }
    }

    pub(super) async fn agent_news(&mut self, news: AgentNews) {
        match news {
            AgentNews::Seated { attempt, seat } => self.seated(attempt, seat).await,
            AgentNews::Opened { attempt, result } => self.opened(attempt, result).await,
            AgentNews::OpenAbandoned { attempt } | AgentNews::Closed { attempt } => {
                if attempt == self.agent.attempt {
                    self.agent.state = AgentState::None;
                    self.nothing_beside().await;
                    self.steer_unknown().await;
                    self.drive(TurnInput::Closed).await;
                }
            }
            AgentNews::Sent { attempt, result } => {
                if attempt == self.agent.attempt {
                    self.unsent = false;
                    self.hand_steer();
                }
                if let Err(error) = result {
                    tracing::debug!(attempt, %error, "a prompt could not be written; the agent's end follows");
                }
            }
            AgentNews::Adapted { attempt, facts, result } => self.adapted(attempt, facts, result).await,
            AgentNews::Answered { result } => {
                if let Err(error) = result {
                    tracing::debug!(%error, "an answer came too late");
                }
            }
            AgentNews::ModeTaken { attempt, word, result } => self.mode_taken(attempt, word, result).await,
            AgentNews::InterruptExpired { attempt, interrupt } => {
                if (attempt, interrupt) == (self.agent.attempt, self.agent.interrupts) {
                    self.drive(TurnInput::InterruptExpired).await;
                }
            }
        }
    }

    async fn opened(&mut self, attempt: u64, result: Result<Opened, OpenError>) {
        let meant = attempt == self.agent.attempt && self.machine.agent() == AgentPhase::Opening;
        let opened = match result {
            Ok(opened) => opened,
            Err(error) => {
                if meant {
                    self.agent.state = AgentState::None;
                    self.clear_activity().await;
                    self.drive(TurnInput::OpenFailed(start_failure(error))).await;
                } else if attempt == self.agent.attempt {
                    self.agent.state = AgentState::None;
                    self.drive(TurnInput::Closed).await;
                }
                return;
            }
        };
        if !meant {
            // Given up in the very moment in which it succeeded: it closes itself.
            self.tasks.spawn(async move {
                opened.connection.close(CloseMode::Now).await;
                Input::Agent(AgentNews::Closed { attempt })
            });
            return;
        }
        // Known before it is announced: whoever hears of the session may ask for its agent.
        let ConnectionFacts { pid, version } = opened.facts.clone();
        let status = AgentStatus { session: self.session.uri.to_string(), pid, version };
        self.host.agent_is_there(&self.session.uri, status);
        // One that was opened ahead is announced with its first message.
        let announced = if *self.machine.turn() == TurnPhase::None { Ok(()) } else { self.announce().await };
        if let Err(error) = announced {
            self.host.agent_gone(&self.session.uri);
            opened.connection.close(CloseMode::Now).await;
            self.agent.state = AgentState::None;
            self.flush(&mut activity(None).into()).await;
            let failure = Failure { error_type: "store".to_owned(), message: error.to_string(), stderr: None };
            self.drive(TurnInput::OpenFailed(failure)).await;
            return;
        }
        self.go_live(opened);
        self.tell_mode();
        self.clear_activity().await;
        self.drive(TurnInput::Opened).await;
    }

    async fn clear_activity(&mut self) {
        if self.session.chat.activity.is_some() {
            self.flush(&mut activity(None).into()).await;
        }
    }

    fn go_live(&mut self, opened: Opened) {
        let AgentState::Opening { facts, permission_mode, lease, warm, .. } = std::mem::take(&mut self.agent.state)
        else {
            return;
        };
        let Opened { connection, events, .. } = opened;
        let connection = connection.into();
        self.agent.state = AgentState::Live(Live { connection, events, facts, permission_mode, lease, warm });
    }

    /// The process ended by itself. The driver has swept its tree before it said so.
    pub(super) async fn agent_gone(&mut self, status: String, stderr: &StderrTail) {
        if !matches!(self.agent.state, AgentState::Live(_)) {
            return;
        }
        self.agent.state = AgentState::None;
        self.host.agent_gone(&self.session.uri);
        let failure = Failure {
            error_type: "agentExited".to_owned(),
            message: format!(
                "The agent ended in the middle of the turn ({status}). Resume the turn, or send a message to go on."
            ),
            stderr: Some(stderr.as_str().to_owned()),
        };
        self.nothing_beside().await;
        self.drive(TurnInput::Gone(failure)).await;
        self.steer_unknown().await;
    }

    /// Tells the agent what was decided. What follows from it arrives as events.
    pub(super) fn answer_agent(&mut self, request: RequestId, answer: Answer) {
        let Some((connection, _)) = self.agent.connection() else { return };
        self.tasks.spawn(async move {
            let result = connection.answer(&request, answer).await;
            Input::Agent(AgentNews::Answered { result })
        });
    }
}

fn start_failure(error: OpenError) -> Failure {
    Failure {
        error_type: error.kind.as_str().to_owned(),
        message: error.message,
        stderr: Some(error.stderr.as_str().to_owned()),
    }
}
