//! Carries out the effects of background work, and clients' requests about it: stop a piece, or read its output from
//! the file that the agent has named for it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahp_types::actions::ChatInputCompletedAction;
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::{AgentConnection, ConnectionError};
use hostler_files::{FileError, Roots};
use tokio::sync::oneshot;

use super::agent::SessionAgent;
use super::background_work::{
    BackgroundContext, BackgroundEffect, BackgroundEvent, BackgroundTasks, stop_question_removed,
};
use super::context::SessionContext;
use super::effect::SessionEffect;
use super::session_change::SessionChange;
use super::sub_agents::SubAgents;
use crate::EngineError;
use crate::clock::ClockExt as _;
use crate::sessions::background_on_stop::BackgroundOnStop;
use crate::sessions::config;
use crate::sessions::rejection::ActionRejection;

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

impl BackgroundTasks {
    /// Passes an event and carries out the effects. `is_interrupting` is whether the agent's turn was just stopped.
    pub(super) async fn step(
        &mut self,
        event: BackgroundEvent,
        is_interrupting: bool,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Vec<SessionEffect> {
        let mut next = Vec::new();
        for effect in self.effects_of(event, is_interrupting, sub_agents, ctx) {
            match effect {
                BackgroundEffect::PublishInChat(action) => {
                    ctx.publish_output(&mut action.into()).await;
                }
                BackgroundEffect::PublishInSession(action) => {
                    ctx.publish_session_action(action).await;
                    ctx.update_summaries().await;
                }
                BackgroundEffect::MoveToBackground(agent) => sub_agents.move_to_background(&agent),
                BackgroundEffect::Stop(ids) => next.push(SessionEffect::StopTasks(ids)),
                BackgroundEffect::EndSubAgents => next.extend(sub_agents.end_all(ctx).await),
            }
        }
        next
    }

    fn effects_of(
        &mut self,
        event: BackgroundEvent,
        is_interrupting: bool,
        sub_agents: &SubAgents,
        ctx: &SessionContext,
    ) -> Vec<BackgroundEffect> {
        let own = ctx.session.config_value(config::BACKGROUND_ON_STOP).and_then(BackgroundOnStop::from_name);
        let context = BackgroundContext {
            session: &ctx.session,
            on_stop: own.unwrap_or(ctx.host.settings.background_on_stop),
            is_interrupting,
            now: ctx.host.clock.now_timestamp(),
            sub_agent_chat: &|agent| sub_agents.chat_uri(agent).map(ToString::to_string),
        };
        self.on(event, &context)
    }

    /// Accepts a person's answer to the session's question. `None` if another request is answered.
    pub(super) async fn answer_stop_question(
        &mut self,
        said: &ChatInputCompletedAction,
        origin: ActionOrigin,
        sub_agents: &mut SubAgents,
        ctx: &mut SessionContext,
    ) -> Option<Result<Vec<SessionEffect>, ActionRejection>> {
        let chosen = match self.chosen_tasks(said)? {
            Ok(chosen) => chosen,
            Err(error) => return Some(Err(error.into())),
        };
        let change = SessionChange::default()
            .client_chat_action(StateAction::ChatInputCompleted(said.clone()), Some(origin))
            .session_action(stop_question_removed());
        if let Err(error) = ctx.commit(change).await {
            return Some(Err(error.into()));
        }
        let effects = self.step(BackgroundEvent::Answered(chosen), false, sub_agents, ctx).await;
        ctx.update_summaries().await;
        Some(Ok(effects))
    }

    /// The agent's connection, if it has this piece of work.
    fn connection_of(&self, id: &str, agent: &SessionAgent) -> Result<Arc<dyn AgentConnection>, EngineError> {
        let connection = agent.connection().filter(|_| self.contains(id));
        connection.map(|(connection, _)| connection).ok_or_else(|| EngineError::BackgroundWorkNotFound(id.to_owned()))
    }

    /// Stops one piece of work on a client's request. Its effects arrive as events.
    pub(super) fn stop_task(
        &self,
        id: String,
        agent: &SessionAgent,
        ctx: &SessionContext,
        reply: oneshot::Sender<StopTaskResult>,
    ) {
        let connection = match self.connection_of(&id, agent) {
            Ok(connection) => connection,
            Err(error) => return drop(reply.send(Err(error))),
        };
        ctx.host.tasks.spawn(async move {
            let stopped = connection.stop_task(&id).await.map_err(|error| match error {
                ConnectionError::RequestNotOpen => EngineError::BackgroundWorkEnded(id.clone()),
                other => EngineError::Agent(other),
            });
            // The requester may have disconnected.
            let _ = reply.send(stopped);
        });
    }

    /// Reads the output of a piece of work for a client.
    pub(super) fn read_output(
        &self,
        id: String,
        agent: &SessionAgent,
        ctx: &SessionContext,
        reply: oneshot::Sender<Result<BackgroundOutput, EngineError>>,
    ) {
        let connection = match self.connection_of(&id, agent) {
            Ok(connection) => connection,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let Some(path) = connection.task_output_path(&id) else {
            let reason = "the agent did not report an output file".to_owned();
            return drop(reply.send(Err(EngineError::BackgroundOutputUnavailable { id, reason })));
        };
        ctx.host.tasks.spawn_blocking(move || {
            let output = read_file_tail(&path)
                .map_err(|error| EngineError::BackgroundOutputUnavailable { id, reason: error.to_string() });
            // The requester may have disconnected.
            let _ = reply.send(output);
        });
    }
}

/// Stops pieces of work, one after the other.
pub(super) fn stop_tasks(ids: Vec<String>, agent: &SessionAgent, ctx: &SessionContext) {
    let Some((connection, _)) = agent.connection() else { return };
    let session = Arc::clone(&ctx.session.uri);
    ctx.host.tasks.spawn(async move {
        for id in ids {
            match connection.stop_task(&id).await {
                Ok(()) | Err(ConnectionError::RequestNotOpen) => {}
                Err(error) => tracing::warn!(session = &*session, id, %error, "failed to stop background work"),
            }
        }
    });
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
