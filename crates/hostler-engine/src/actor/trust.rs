//! Workspace trust in a session: the folder is assessed before an agent is opened and before a message reaches a live one.
//!
//! An assessment reads files, so it runs on a blocking thread and comes back as [`AgentNews::Assessed`]. Where a person has to
//! decide, opening the agent waits for the answer, without a seat. The decisions are in `hostler_trust`; a decision that is
//! made elsewhere reaches the session as another assessment.

use std::sync::Arc;

use ahp_types::actions::ChatInputCompletedAction;
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::{FolderConfiguration, FolderRule, RequestId};
use hostler_store::AuditEntry;
use hostler_trust::{Assessment, Decision};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::agent::{AgentNews, AgentState};
use super::change::Change;
use super::desk::{input_key, no_longer_needed};
use super::rest::Rest;
use super::{Actor, Input};
use crate::clock::ClockExt as _;
use crate::desk::{Form, InputRequest, Refusal};
use crate::transcript::{Failure, activity};
use crate::turn::{Input as TurnInput, TurnPhase};

/// The key, below `hostler` in the session's `_meta`, that says whether the folder's configuration applies.
const TRUST: &str = "trust";

const WAITING: &str = "Waiting for your decision about this folder";
const CHANGED: &str = "the configuration of this folder has changed; look at it again";

/// What a folder is assessed for.
#[derive(Debug)]
pub(crate) enum AssessedFor {
    /// An agent is about to be opened.
    Opening,
    /// A live agent is about to get the message of this turn.
    Sending(String),
    /// A decision was made somewhere.
    Decision,
}

/// What an agent is opened with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folder {
    pub(super) configuration: FolderConfiguration,
    /// The permission rules that count if the configuration is applied.
    pub(super) rules: Vec<FolderRule>,
    /// The version of the decisions that it follows from.
    pub(super) version: u64,
}

impl Actor {
    /// Assesses the session's folder beside the actor. A token that is cancelled first gives the opening up.
    fn assess(&mut self, purpose: AssessedFor, cancelled: CancellationToken) {
        let (host, attempt) = (Arc::clone(&self.host), self.agent.attempt);
        let provider = self.session.session.provider.clone();
        let directory = self.session.working_directory().unwrap_or_default();
        self.tasks.spawn(async move {
            // Taken before: a decision that is made meanwhile is noticed.
            let version = host.trust.version();
            let assessed = async {
                let assessed = host.assess_for_session(&provider, directory).await;
                assessed.inspect_err(|error| tracing::info!(%error, "a folder's configuration is ignored")).ok()
            };
            Input::Agent(tokio::select! {
                biased;
                () = cancelled.cancelled() => AgentNews::OpenAbandoned { attempt },
                assessment = assessed => AgentNews::Assessed { attempt, purpose, version, assessment: assessment.map(Box::new) },
            })
        });
    }

    /// There is a seat for the agent: what it is opened with depends on the folder.
    pub(super) fn assess_for_opening(&mut self) {
        let cancel = CancellationToken::new();
        self.assess(AssessedFor::Opening, cancel.clone());
        self.agent.state = AgentState::Waiting { cancel };
    }

    /// Writes the turn's prompt. Where the folder was not assessed for this turn already, that comes first.
    pub(super) fn send_to_assessed(&mut self, turn: String) {
        if self.agent.is_assessed_once() {
            return self.send_prompt(turn);
        }
        self.unsent = true;
        self.assess(AssessedFor::Sending(turn), CancellationToken::new());
    }

    /// A decision about some folder was made, here or elsewhere.
    pub(super) fn trust_changed(&mut self) {
        let is_announced = self.session.hostler_meta(TRUST).is_some();
        if is_announced || self.desk.folder_question().is_some() {
            self.assess(AssessedFor::Decision, CancellationToken::new());
        }
    }

    pub(super) async fn assessed(
        &mut self,
        attempt: u64,
        purpose: AssessedFor,
        version: u64,
        assessment: Option<Assessment>,
    ) {
        let is_late = version != self.host.trust.version();
        if let Some(assessment) = &assessment {
            self.tell_trust(assessment).await;
        }
        match purpose {
            AssessedFor::Decision if is_late => self.trust_changed(),
            AssessedFor::Decision => self.decided_elsewhere(assessment).await,
            _ if attempt != self.agent.attempt => {}
            AssessedFor::Opening => match self.agent.state {
                AgentState::Waiting { .. } if is_late => self.assess_for_opening(),
                AgentState::Waiting { .. } => self.open_assessed(assessment, version).await,
                // Given up at the same moment.
                _ => self.agent_closed().await,
            },
            AssessedFor::Sending(_) if is_late => self.assess(purpose, CancellationToken::new()),
            AssessedFor::Sending(turn) => self.send_assessed(turn, assessment.as_ref()).await,
        }
    }

    /// Whether a person is to be asked, who has not left the question open before.
    fn asks(&self, assessment: &Assessment) -> bool {
        assessment.asks() && !self.folder_skipped
    }

    async fn open_assessed(&mut self, assessment: Option<Assessment>, version: u64) {
        match assessment {
            Some(assessment) if self.asks(&assessment) => {
                if *self.machine.turn() == TurnPhase::None {
                    // Nothing is opened ahead before there is an answer.
                    self.agent.state = AgentState::None;
                    self.drive(TurnInput::OpenFailed(Failure::nobody_waits())).await;
                } else {
                    self.ask_about_folder(assessment).await;
                }
            }
            Some(assessment) => {
                let configuration = assessment.folder_configuration();
                self.start_agent(Folder { configuration, rules: assessment.configuration.rules, version }).await;
            }
            None => self.start_agent(Folder { version, ..Folder::default() }).await,
        }
    }

    /// Sends, unless the live agent was opened with something else than what applies now.
    async fn send_assessed(&mut self, turn: String, assessment: Option<&Assessment>) {
        if !matches!(self.machine.turn(), TurnPhase::Running { turn: now, .. } if *now == turn) {
            return self.not_sent(turn, Failure::nobody_waits()).await;
        }
        let applies = assessment.map(Assessment::folder_configuration).unwrap_or_default();
        let asks = assessment.is_some_and(|assessment| self.asks(assessment));
        if asks || self.agent.folder() != Some(&applies) {
            self.drive(TurnInput::Reopen(turn)).await;
        } else {
            self.send_prompt(turn);
        }
    }

    // ── The question ──────────────────────────────────────────────────────────────────────────────────────────────

    /// Asks in the turn. The seat goes to others meanwhile, and every client sees the session.
    async fn ask_about_folder(&mut self, assessment: Assessment) {
        self.rest = Rest::default();
        let (cancel, attempt) = (CancellationToken::new(), self.agent.attempt);
        let cancelled = cancel.clone();
        self.tasks.spawn(async move {
            cancelled.cancelled().await;
            Input::Agent(AgentNews::OpenAbandoned { attempt })
        });
        self.agent.state = AgentState::Waiting { cancel };
        if let Err(error) = self.announce().await {
            tracing::warn!(%error, "a session that waits for a decision could not be announced");
        }
        self.flush(&mut activity(Some(WAITING.to_owned())).into()).await;
        let request = RequestId(format!("folder-{}", Uuid::new_v4()));
        if !self.show_form(InputRequest { request, call: None, form: Form::folder(assessment) }).await {
            self.folder_skipped = true;
            self.open_again().await;
        }
    }

    /// The question is settled: opening begins anew, with what applies now.
    async fn open_again(&mut self) {
        if let AgentState::Waiting { cancel } = &self.agent.state {
            cancel.cancel();
            self.open_agent().await;
        }
    }

    /// The question is taken back if something else is to be asked now, or nothing.
    async fn decided_elsewhere(&mut self, assessment: Option<Assessment>) {
        let Some((request, asked)) = self.desk.folder_question() else { return };
        if assessment.as_ref() == Some(asked) {
            return;
        }
        let request = request.clone();
        let state = assessment.as_ref().map_or("unknown", |assessment| assessment.state.name());
        let entry = self.audit_folder("host", &request, asked, "withdrawn", format!("decided elsewhere: {state}"));
        self.write_down(vec![entry]).await;
        self.withdrawn(&request).await;
        self.open_again().await;
    }

    /// An answer, or that there is none.
    pub(super) async fn folder_decided(
        &mut self,
        said: ChatInputCompletedAction,
        decision: Option<Decision>,
        who: &str,
        origin: Option<ActionOrigin>,
    ) -> Result<(), Refusal> {
        let Some((request, asked)) = self.desk.folder_question() else { return Err(CHANGED.to_owned()) };
        let (request, asked) = (request.clone(), asked.clone());
        if let Some(decision) = decision {
            let provider = self.session.session.provider.clone();
            let now = self.host.assess(&provider, asked.directory.clone()).await;
            let now = now.map_err(|error| error.to_string())?;
            if now.configuration != asked.configuration {
                self.withdrawn(&request).await;
                self.open_again().await;
                return Err(CHANGED.to_owned());
            }
            self.host.decide(asked.clone(), decision).await.map_err(|error| error.to_string())?;
        }
        let (word, why) = match decision {
            Some(Decision::Trust) => ("allow", "the folder is trusted"),
            Some(Decision::TrustSubfolders) => ("allow", "the folder and its subfolders are trusted"),
            Some(Decision::Restrict) => ("deny", "the folder is not trusted"),
            None => ("deny", "not decided; its configuration is ignored in this session"),
        };
        let entry = self.audit_folder(who, &request, &asked, word, why.to_owned());
        let change = Change::default()
            .chat_of(StateAction::ChatInputCompleted(said), origin)
            .session(no_longer_needed(input_key(&request.to_string())))
            .audit([entry]);
        self.commit(change).await.map_err(|error| error.to_string())?;
        self.folder_skipped |= decision.is_none();
        self.desk.close_input(&request.to_string());
        self.project().await;
        self.open_again().await;
        Ok(())
    }

    fn audit_folder(
        &self,
        who: &str,
        request: &RequestId,
        asked: &Assessment,
        decision: &str,
        why: String,
    ) -> AuditEntry {
        AuditEntry {
            at_ms: self.host.clock.now_ms(),
            who: who.to_owned(),
            call: request.to_string(),
            tool: "trust".to_owned(),
            input: asked.directory.display().to_string(),
            sub_agent: None,
            decision: decision.to_owned(),
            why: Some(why),
        }
    }

    /// Says whether the folder's configuration applies, if that is news. A folder that never brought any is not mentioned.
    async fn tell_trust(&mut self, assessment: &Assessment) {
        let skipped = assessment.asks() && self.folder_skipped;
        let trust = json!({
            "state": if skipped { "restricted" } else { assessment.state.name() },
            "directory": assessment.directory.display().to_string(),
            "items": assessment.configuration.items.len(),
        });
        let announced = self.session.hostler_meta(TRUST);
        if announced != Some(&trust) && (announced.is_some() || !assessment.configuration.is_empty()) {
            self.tell_meta(TRUST, trust).await;
        }
    }
}
