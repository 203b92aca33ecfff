//! From a wish for an agent to a live one: a seat, a start, a handshake.

use std::sync::Arc;

use hostler_driver::{CloseMode, ConnectionFacts, FolderConfiguration, OpenError, OpenSpec, Opened, StderrTail};
use tokio_util::sync::CancellationToken;

use super::agent::{AgentNews, AgentState, Live};
use super::rest::Rest;
use super::trust::Folder;
use super::{Actor, Input};
use crate::config;
use crate::fleet::{Place, Seat, Waiting};
use crate::gate::SessionGate;
use crate::port::AgentStatus;
use crate::transcript::{Failure, activity};
use crate::turn::{AgentPhase, Input as TurnInput, TurnPhase};

impl Actor {
    /// Opens an agent as soon as there is a seat for it.
    pub(super) async fn open_agent(&mut self) {
        self.agent.attempt += 1;
        self.unsent = false;
        self.is_fresh();
        if *self.machine.turn() == TurnPhase::None {
            // It is opened ahead, on a seat that was free.
            return self.assess_for_opening();
        }
        // The process before this one is gone, and its seat is whose turn it is.
        self.rest = Rest::default();
        match self.host.fleet.ask() {
            Place::Now(seat) => {
                self.rest.seat = Some(seat);
                self.assess_for_opening();
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
    pub(super) async fn seated(&mut self, attempt: u64, seat: Seat) {
        if attempt != self.agent.attempt {
            return;
        }
        if let AgentState::Waiting { .. } = self.agent.state {
            self.rest.seat = Some(seat);
            self.assess_for_opening();
        } else {
            drop(seat);
            self.agent_closed().await;
        }
    }

    /// Starts the agent with what was decided about its folder.
    pub(super) async fn start_agent(&mut self, folder: Folder) {
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
        if !ahead && let Some(needed) = self.host.gateway.sign_in_for(&facts.model) {
            // It could only find out for itself that it cannot work.
            let (kind, message) = (hostler_driver::OpenErrorKind::SignInNeeded, needed.sentence());
            let result = Err(OpenError { kind, message, stderr: StderrTail::default() });
            self.tasks.spawn(async move { Input::Agent(AgentNews::Opened { attempt, result }) });
            return;
        }
        let directories = self.session.working_directory().into_iter().chain(facts.more_directories.iter().cloned());
        let checked = directories.map(|directory| self.host.shelf.session_roots.check(&directory));
        if let Err(error) = checked.collect::<Result<(), _>>() {
            // The setting is newer than the session, or a link leads elsewhere by now.
            let (kind, message) = (hostler_driver::OpenErrorKind::NoWorkingDirectory, format!("{error}."));
            let result = Err(OpenError { kind, message, stderr: StderrTail::default() });
            self.tasks.spawn(async move { Input::Agent(AgentNews::Opened { attempt, result }) });
            return;
        }
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
            folder_configuration: folder.configuration.clone(),
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
        self.agent.state = AgentState::Opening { cancel, facts, permission_mode, lease, warm, folder };
        // Those of the agent before it, if there was one.
        self.gate.set_folder_rules(&[]);
        if ahead {
            return;
        }
        self.flush(&mut activity(Some(format!("Starting {}", info.display_name))).into()).await;
    }

    pub(super) async fn opened(&mut self, attempt: u64, result: Result<Opened, OpenError>) {
        let meant = attempt == self.agent.attempt && self.machine.agent() == AgentPhase::Opening;
        let opened = match result {
            Ok(opened) => opened,
            Err(error) => {
                if meant {
                    self.agent.state = AgentState::None;
                    self.clear_activity().await;
                    self.drive(TurnInput::OpenFailed(start_failure(error))).await;
                } else if attempt == self.agent.attempt {
                    self.agent_closed().await;
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
        let ConnectionFacts { pid, version, commands, .. } = opened.facts.clone();
        let status = AgentStatus { session: self.session.uri.to_string(), pid, version };
        self.host.agent_is_there(&self.session.uri, status);
        self.session.commands = commands;
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
        if let (true, AgentState::Opening { folder, .. }) = (opened.facts.applied_configuration, &self.agent.state) {
            self.gate.set_folder_rules(&folder.rules);
        }
        self.go_live(opened);
        self.tell_mode();
        self.clear_activity().await;
        self.drive(TurnInput::Opened).await;
    }

    pub(super) async fn clear_activity(&mut self) {
        if self.session.chat.activity.is_some() {
            self.flush(&mut activity(None).into()).await;
        }
    }

    fn go_live(&mut self, opened: Opened) {
        let AgentState::Opening { facts, permission_mode, lease, warm, folder, .. } =
            std::mem::take(&mut self.agent.state)
        else {
            return;
        };
        let Opened { connection, events, facts: told } = opened;
        let connection = connection.into();
        let Folder { configuration, version, .. } = folder;
        // A configuration that has changed since it was assessed is not applied, and asked about before the first message. So
        // is one about which a decision was made during the start.
        let as_decided = told.applied_configuration == matches!(configuration, FolderConfiguration::Applied { .. });
        let assessed = warm.is_none() && as_decided && version == self.host.trust.version();
        let folder = if told.applied_configuration { configuration } else { FolderConfiguration::Ignored };
        self.agent.state =
            AgentState::Live(Live { connection, events, facts, permission_mode, lease, warm, folder, assessed });
    }
}

fn start_failure(error: OpenError) -> Failure {
    Failure {
        error_type: error.kind.as_str().to_owned(),
        message: error.message,
        stderr: Some(error.stderr.as_str().to_owned()),
    }
}
