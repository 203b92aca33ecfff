//! Carries out the effects of background work, and clients' requests about it: stop a piece, or read its output from
//! the file that the agent has named for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatInputCompletedAction;
use hostler_driver::ConnectionError;
use hostler_files::{FileError, Roots};
use tokio::sync::oneshot;

use super::SessionActor;
use super::background_work::{BackgroundContext, BackgroundEffect, BackgroundEvent, stop_question_removed};
use super::session_change::SessionChange;
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::sessions::background_on_stop::BackgroundOnStop;
use crate::sessions::config;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::Dispatch;
use crate::sessions::turn::AgentPhase;

/// Maximum size of the returned output, counted from the end.
const MAX_BACKGROUND_OUTPUT_BYTES: u64 = 64 * 1024;

/// Result of stopping one piece of work.
pub(crate) type StopTaskResult = Result<(), EngineError>;

/// The last output of a piece of background work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundOutput {
    /// The text.
    pub output: String,
    /// Whether earlier output was left out.
    pub truncated: bool,
}

impl SessionActor {
    /// Passes an event to the background work and carries out the effects.
    pub(super) async fn step_background(&mut self, event: BackgroundEvent) {
        for effect in self.background_effects(event) {
            match effect {
                BackgroundEffect::PublishInChat(action) => {
                    self.ctx.publish_output(&mut action.into()).await;
                }
                BackgroundEffect::PublishInSession(action) => {
                    self.ctx.publish_session_action(action).await;
                    self.ctx.update_summaries().await;
                }
                BackgroundEffect::MoveToBackground(agent) => self.sub_agents.move_to_background(&agent),
                BackgroundEffect::Stop(ids) => self.stop_background_tasks(ids),
                BackgroundEffect::EndSubAgents => self.end_all_sub_agents().await,
            }
        }
    }

    fn background_effects(&mut self, event: BackgroundEvent) -> Vec<BackgroundEffect> {
        let own = self.ctx.session.config_value(config::BACKGROUND_ON_STOP).and_then(BackgroundOnStop::from_name);
        let context = BackgroundContext {
            session: &self.ctx.session,
            on_stop: own.unwrap_or(self.ctx.host.settings.background_on_stop),
            is_interrupting: self.machine.agent_phase() == AgentPhase::Interrupting,
            now: self.ctx.host.clock.now_timestamp(),
            sub_agent_chat: &|agent| self.sub_agents.chat_uri(agent).map(ToString::to_string),
        };
        self.background_tasks.on(event, &context)
    }

    /// Handles a person's answer to the session's question. `None` if another request is answered.
    pub(super) async fn handle_stop_question_answer(
        &mut self,
        dispatch: &Dispatch,
        said: &ChatInputCompletedAction,
    ) -> Option<Result<(), ActionRejection>> {
        let chosen = match self.background_tasks.chosen_tasks(said)? {
            Ok(chosen) => chosen,
            Err(error) => return Some(Err(error.into())),
        };
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatInputCompleted(said.clone()), Some(dispatch.origin()))
            .session_action(stop_question_removed());
        if let Err(error) = self.ctx.commit(change).await {
            return Some(Err(error.into()));
        }
        self.step_background(BackgroundEvent::Answered(chosen)).await;
        self.ctx.update_summaries().await;
        Some(Ok(()))
    }

    /// Stops pieces of work, one after the other.
    pub(super) fn stop_background_tasks(&mut self, ids: Vec<String>) {
        let Some((connection, _)) = self.agent.connection() else { return };
        let session = Arc::clone(&self.ctx.session.uri);
        self.ctx.host.tasks.spawn(async move {
            for id in ids {
                match connection.stop_task(&id).await {
                    Ok(()) | Err(ConnectionError::RequestNotOpen) => {}
                    Err(error) => tracing::warn!(session = &*session, id, %error, "failed to stop background work"),
                }
            }
        });
    }

    /// Stops one piece of work on a client's request. Its effects arrive as events.
    pub(super) fn stop_background_task(&mut self, id: String, reply: oneshot::Sender<StopTaskResult>) {
        let connection = self.agent.connection().filter(|_| self.background_tasks.contains(&id));
        let Some((connection, _)) = connection else {
            let _ = reply.send(Err(EngineError::BackgroundWorkNotFound(id)));
            return;
        };
        self.ctx.host.tasks.spawn(async move {
            let stopped = connection.stop_task(&id).await.map_err(|error| match error {
                ConnectionError::RequestNotOpen => EngineError::BackgroundWorkEnded(id.clone()),
                other => EngineError::Agent(other),
            });
            // The requester may have disconnected.
            let _ = reply.send(stopped);
        });
    }

    /// Reads the output of a piece of work for a client.
    pub(super) fn read_background_output(
        &self,
        id: &str,
        reply: oneshot::Sender<Result<BackgroundOutput, EngineError>>,
    ) {
        let connection = self.agent.connection().filter(|_| self.background_tasks.contains(id));
        let Some((connection, _)) = connection else {
            let _ = reply.send(Err(EngineError::BackgroundWorkNotFound(id.to_owned())));
            return;
        };
        let Some(path) = connection.task_output_path(id) else {
            let reason = "the agent did not report an output file".to_owned();
            let _ = reply.send(Err(EngineError::BackgroundOutputUnavailable { id: id.to_owned(), reason }));
            return;
        };
        let id = id.to_owned();
        self.ctx.host.tasks.spawn_blocking(move || {
            let output = read_file_tail(&path)
                .map_err(|error| EngineError::BackgroundOutputUnavailable { id, reason: error.to_string() });
            // The requester may have disconnected.
            let _ = reply.send(output);
        });
    }
}

/// The end of a regular file. A link must not point out of its directory or to a file of another name.
fn read_file_tail(path: &Path) -> Result<BackgroundOutput, FileError> {
    let directory = path.parent().map(PathBuf::from).ok_or(FileError::NotFound)?;
    let opened = Roots::new([directory]).open(path)?;
    let same = |part: fn(&Path) -> Option<&OsStr>| part(&opened.resolved().path) == part(path);
    if !same(Path::file_name) || !same(|path| path.parent().and_then(Path::file_name)) {
        return Err(FileError::Outside);
    }
    let (contents, truncated) = opened.read_tail(MAX_BACKGROUND_OUTPUT_BYTES)?;
    Ok(BackgroundOutput { output: String::from_utf8_lossy(&contents).into_owned(), truncated })
}
