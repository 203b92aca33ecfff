//! The agent's background work: commands and sub-agents that run beside the turns.

use ahp_types::StateAction;
use ahp_types::actions::{ChatBackgroundWorkRemovedAction, ChatBackgroundWorkSetAction};
use ahp_types::state::{BackgroundShellWork, BackgroundSubagentWork, BackgroundWork};
use hostler_driver::{BackgroundTask, BackgroundTaskKind, ConnectionError, DriverEvent};
use tokio::sync::oneshot;

use super::SessionActor;
use crate::EngineError;
use crate::clock::ClockExt as _;

/// Maximum number of tracked pieces of background work.
const MAX_BACKGROUND_TASKS: usize = 256;

/// Result of stopping one piece of work.
pub(crate) type StopTaskResult = Result<(), EngineError>;

impl SessionActor {
    pub(super) async fn handle_background_event(&mut self, event: DriverEvent) {
        match event {
            DriverEvent::BackgroundTaskChanged(task) if self.background_tasks.len() < MAX_BACKGROUND_TASKS => {
                let id = task.id.clone();
                let known = self.background_tasks.insert(id.clone(), task.clone()).is_some();
                self.sub_agents.move_to_background(&id);
                if let Some(work) = self.to_background_work(task) {
                    let action = StateAction::ChatBackgroundWorkSet(ChatBackgroundWorkSetAction { work });
                    self.publish_output(&mut action.into()).await;
                }
                if !known {
                    self.handle_background_started(&id).await;
                }
            }
            DriverEvent::BackgroundTaskEnded { id } if self.background_tasks.remove(&id).is_some() => {
                self.remove_background_work(id).await;
                self.update_stop_question().await;
            }
            _ => {}
        }
    }

    fn to_background_work(&self, task: BackgroundTask) -> Option<BackgroundWork> {
        let known = self.session.chat.background_work.iter().flatten().find_map(|work| match work {
            BackgroundWork::Shell(shell) if shell.id == task.id => Some(shell.started_at.clone()),
            BackgroundWork::Subagent(agent) if agent.id == task.id => Some(agent.started_at.clone()),
            _ => None,
        });
        let started_at = known.unwrap_or_else(|| self.host.clock.now_timestamp());
        match task.kind {
            BackgroundTaskKind::Shell => Some(BackgroundWork::Shell(BackgroundShellWork {
                id: task.id,
                label: task.description.clone(),
                started_at,
                meta: None,
                command: task.description,
                terminal: None,
            })),
            // A sub-agent without a chat cannot be displayed here either.
            BackgroundTaskKind::SubAgent => Some(BackgroundWork::Subagent(BackgroundSubagentWork {
                chat: self.sub_agents.chat_uri(&task.id)?.to_string(),
                id: task.id,
                label: task.description,
                started_at,
                meta: None,
            })),
        }
    }

    async fn remove_background_work(&mut self, id: String) {
        let action = StateAction::ChatBackgroundWorkRemoved(ChatBackgroundWorkRemovedAction { id });
        self.publish_output(&mut action.into()).await;
    }

    /// Clears the background work of an ended process.
    pub(super) async fn clear_background_tasks(&mut self) {
        self.background_tasks.clear();
        self.clear_stop_question().await;
        self.end_all_sub_agents().await;
        let shown = self.session.chat.background_work.iter().flatten();
        let ids: Vec<_> = shown
            .filter_map(|work| match work {
                BackgroundWork::Shell(work) => Some(work.id.clone()),
                BackgroundWork::Subagent(work) => Some(work.id.clone()),
                BackgroundWork::Unknown(_) => None,
            })
            .collect();
        for id in ids {
            self.remove_background_work(id).await;
        }
    }

    /// Stops one piece of work on a client's request. Its effects arrive as events.
    pub(super) fn stop_background_task(&mut self, id: String, reply: oneshot::Sender<StopTaskResult>) {
        let connection = self.agent.connection().filter(|_| self.background_tasks.contains_key(&id));
        let Some((connection, _)) = connection else {
            let _ = reply.send(Err(EngineError::BackgroundWorkNotFound(id)));
            return;
        };
        self.host.tasks.spawn(async move {
            let stopped = connection.stop_task(&id).await.map_err(|error| match error {
                ConnectionError::RequestNotOpen => EngineError::BackgroundWorkEnded(id.clone()),
                other => EngineError::Agent(other),
            });
            // The requester may have disconnected.
            let _ = reply.send(stopped);
        });
    }
}
