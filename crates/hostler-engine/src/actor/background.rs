//! Work that goes on beside the turns.

use ahp_types::StateAction;
use ahp_types::actions::{ChatBackgroundWorkRemovedAction, ChatBackgroundWorkSetAction};
use ahp_types::state::{BackgroundShellWork, BackgroundSubagentWork, BackgroundWork};
use hostler_driver::{BackgroundKind, BackgroundTask, ConnectionError, DriverEvent};
use tokio::sync::oneshot;

use super::Actor;
use crate::EngineError;
use crate::clock::ClockExt as _;

/// How many pieces of background work are told apart.
const MAX_BESIDE: usize = 256;

/// How the end of one piece of work went.
pub(crate) type Stopped = Result<(), EngineError>;

impl Actor {
    pub(super) async fn background(&mut self, event: DriverEvent) {
        match event {
            DriverEvent::BackgroundChanged(task) if self.beside.len() < MAX_BESIDE => {
                let id = task.id.clone();
                let known = self.beside.insert(id.clone(), task.clone()).is_some();
                self.workers.let_go(&id);
                if let Some(work) = self.work(task) {
                    let action = StateAction::ChatBackgroundWorkSet(ChatBackgroundWorkSetAction { work });
                    self.flush(&mut action.into()).await;
                }
                if !known {
                    self.began_beside(&id).await;
                }
            }
            DriverEvent::BackgroundEnded { id } if self.beside.remove(&id).is_some() => {
                self.work_is_over(id).await;
                self.ask_what_stops().await;
            }
            _ => {}
        }
    }

    fn work(&self, task: BackgroundTask) -> Option<BackgroundWork> {
        let known = self.session.chat.background_work.iter().flatten().find_map(|work| match work {
            BackgroundWork::Shell(shell) if shell.id == task.id => Some(shell.started_at.clone()),
            BackgroundWork::Subagent(agent) if agent.id == task.id => Some(agent.started_at.clone()),
            _ => None,
        });
        let started_at = known.unwrap_or_else(|| self.host.clock.now_text());
        match task.kind {
            BackgroundKind::Shell => Some(BackgroundWork::Shell(BackgroundShellWork {
                id: task.id,
                label: task.description.clone(),
                started_at,
                meta: None,
                command: task.description,
                terminal: None,
            })),
            // One that works unseen cannot be shown here either.
            BackgroundKind::SubAgent => Some(BackgroundWork::Subagent(BackgroundSubagentWork {
                chat: self.workers.chat(&task.id)?.to_string(),
                id: task.id,
                label: task.description,
                started_at,
                meta: None,
            })),
        }
    }

    async fn work_is_over(&mut self, id: String) {
        let action = StateAction::ChatBackgroundWorkRemoved(ChatBackgroundWorkRemovedAction { id });
        self.flush(&mut action.into()).await;
    }

    /// The process is gone, and everything that it did beside the turns.
    pub(super) async fn nothing_beside(&mut self) {
        self.beside.clear();
        self.nothing_to_stop().await;
        self.no_workers().await;
        let shown = self.session.chat.background_work.iter().flatten();
        let ids: Vec<_> = shown
            .filter_map(|work| match work {
                BackgroundWork::Shell(work) => Some(work.id.clone()),
                BackgroundWork::Subagent(work) => Some(work.id.clone()),
                BackgroundWork::Unknown(_) => None,
            })
            .collect();
        for id in ids {
            self.work_is_over(id).await;
        }
    }

    /// A person wants one piece of work to end. What follows from it arrives as events.
    pub(super) fn stop_work(&mut self, id: String, reply: oneshot::Sender<Stopped>) {
        let connection = self.agent.connection().filter(|_| self.beside.contains_key(&id));
        let Some((connection, _)) = connection else {
            let _ =
                reply.send(Err(EngineError::Invalid(format!("nothing of the name {id:?} works in the background"))));
            return;
        };
        self.host.tasks.spawn(async move {
            let stopped = connection.stop_task(&id).await.map_err(|error| match error {
                ConnectionError::NotOpen => EngineError::Invalid(format!("{id:?} is over already")),
                other => EngineError::Invalid(other.to_string()),
            });
            // Whoever asked may have left.
            let _ = reply.send(stopped);
        });
    }
}
