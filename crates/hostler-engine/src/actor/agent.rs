//! The actor's hands: opening, prompting, interrupting and closing the agent.

use std::sync::Arc;

use hostler_driver::{
    Answer, CloseMode, Connection, ConnectionError, DriverEvent, DropError, FolderConfiguration, OpenError, Opened,
    Prompt, RequestId, StderrTail,
};
use hostler_trust::Assessment;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::delivery::Loaded;
use super::policy::Facts;
use super::trust::{AssessedFor, Folder};
use super::warm::SpawnFacts;
use super::{Actor, Input, resume};
use crate::fleet::Seat;
use crate::port::Lease;
use crate::transcript::Failure;
use crate::turn::Input as TurnInput;

/// Something that was started for the agent is finished. Each carries the attempt that it belongs to, so that news of
/// an agent that is no longer meant changes nothing.
pub(crate) enum AgentNews {
    /// There is a seat.
    Seated { attempt: u64, seat: Seat },
    /// The handshake is finished, or it failed.
    Opened { attempt: u64, result: Result<Opened, OpenError> },
    /// The folder was assessed; nothing is known if it could not be.
    Assessed { attempt: u64, purpose: AssessedFor, version: u64, assessment: Option<Box<Assessment>> },
    /// An attempt to open was given up; nothing is left of it.
    OpenAbandoned { attempt: u64 },
    /// What follows the words of a message was read back from the store.
    Loaded { attempt: u64, loaded: Loaded },
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
    /// Pictures were taken out of the conversation, or were not.
    ImagesDropped { result: Result<usize, DropError> },
    /// The tree is empty.
    Closed { attempt: u64 },
}

/// The agent's slot. At most one process at a time.
#[derive(Default)]
pub(super) struct Agent {
    pub(super) attempt: u64,
    /// Counts interrupts, so that the clock of an old one cannot end the wait for a new one.
    pub(super) interrupts: u64,
    pub(super) state: AgentState,
}

#[derive(Default)]
pub(super) enum AgentState {
    #[default]
    None,
    /// All seats are taken, the folder is being assessed, or a person decides about it.
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
        folder: Folder,
    },
    Live(Live),
    /// The process is being ended; its lease ends with it.
    Closing(#[expect(dead_code, reason = "held for its Drop")] Option<Lease>),
}

pub(super) struct Live {
    pub(super) connection: Arc<dyn Connection>,
    pub(super) events: mpsc::Receiver<DriverEvent>,
    pub(super) facts: Facts,
    pub(super) permission_mode: String,
    pub(super) lease: Lease,
    pub(super) warm: Option<SpawnFacts>,
    /// What it was opened with.
    pub(super) folder: FolderConfiguration,
    /// The folder was assessed for the next message already.
    pub(super) assessed: bool,
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

    /// What the live agent was opened with.
    pub(super) fn folder(&self) -> Option<&FolderConfiguration> {
        match &self.state {
            AgentState::Live(live) => Some(&live.folder),
            _ => None,
        }
    }

    /// Whether the folder was assessed for the next message; it is not for the one after that.
    pub(super) fn is_assessed_once(&mut self) -> bool {
        match &mut self.state {
            AgentState::Live(live) => std::mem::take(&mut live.assessed),
            _ => false,
        }
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
    pub(super) fn send_prompt(&mut self, turn: String) {
        let Some(active) = self.session.chat.active_turn.as_ref().filter(|active| active.id == turn) else { return };
        if self.session.delivered.as_ref() == Some(&turn) {
            let words = resume::prompt(&active.response_parts);
            return self.write_prompt(Prompt::new(words));
        }
        let mut message = active.message.clone();
        message.text = resume::with_last_words(message.text, &active.response_parts);
        self.send_message(turn, &message);
    }

    pub(super) fn write_prompt(&mut self, prompt: Prompt) {
        let AgentState::Live(live) = &self.agent.state else { return };
        let (connection, attempt) = (Arc::clone(&live.connection), self.agent.attempt);
        let id = self.prompt_id();
        // Not every build keeps the ids of commands.
        self.prompted = (!prompt.expose().trim_start().starts_with('/')).then_some(id);
        self.message_sent(&prompt, id);
        let prompt = prompt.with_id(id);
        self.unsent = true;
        self.tasks.spawn(async move {
            let result = connection.send(prompt).await;
            Input::Agent(AgentNews::Sent { attempt, result })
        });
    }

    /// The id of the next prompt, by which it is known to be ours wherever the agent keeps it.
    pub(super) fn prompt_id(&self) -> Uuid {
        self.host.prompt_ids.mint(self.session.conversation)
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
            AgentNews::Assessed { attempt, purpose, version, assessment } => {
                self.assessed(attempt, purpose, version, assessment.map(|assessment| *assessment)).await;
            }
            AgentNews::OpenAbandoned { attempt } | AgentNews::Closed { attempt } => {
                if attempt == self.agent.attempt {
                    self.agent_closed().await;
                }
            }
            AgentNews::Loaded { attempt, loaded } => {
                if attempt == self.agent.attempt {
                    self.loaded(loaded).await;
                } else if let Loaded::Steer { reading, .. } = loaded {
                    self.loading.take_if(|now| *now == reading);
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
            AgentNews::ImagesDropped { result } => self.images_dropped(result).await,
            AgentNews::ModeTaken { attempt, word, result } => self.mode_taken(attempt, word, result).await,
            AgentNews::InterruptExpired { attempt, interrupt } => {
                if (attempt, interrupt) == (self.agent.attempt, self.agent.interrupts) {
                    self.drive(TurnInput::InterruptExpired).await;
                }
            }
        }
    }

    /// The agent that was being closed, or whose start was given up, is gone.
    pub(super) async fn agent_closed(&mut self) {
        self.agent.state = AgentState::None;
        self.name_again();
        self.nothing_beside().await;
        self.steer_unknown().await;
        if !self.record_is_due() {
            self.drive(TurnInput::Closed).await;
        }
    }

    /// The process ended by itself. The driver has swept its tree before it said so.
    pub(super) async fn agent_gone(&mut self, status: String, stderr: &StderrTail) {
        if !matches!(self.agent.state, AgentState::Live(_)) {
            return;
        }
        self.agent.state = AgentState::None;
        self.host.agent_gone(&self.session.uri);
        self.name_again();
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
