//! Sub-agents end: by themselves, with whom they work for, by a person's word, or with the process.

use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::actions::ChatTurnCancelledAction;
use hostler_driver::{SubAgentOutcome, TurnOutcome};

use super::change::{Change, Home};
use super::dispatch::Refusal;
use super::turns::STORE_RETRY;
use super::workers::AtWork;
use super::{Actor, Input};
use crate::session::Dispatch;
use crate::transcript::{Failure, Output, error, not_resumable};
use crate::turn::End;

/// What is said where a sub-agent has worked whose chat the store never took.
const UNSEEN: &str = "A sub-agent worked unseen: the host could not store what it did.";

impl Actor {
    pub(super) async fn worker_finished(&mut self, agent: &str, outcome: SubAgentOutcome) {
        if let Some(start) = self.workers.unshown.remove(agent) {
            self.worker_started(agent.to_owned(), start).await;
        }
        if let Some(start) = self.workers.unshown.remove(agent) {
            let parent = start.parent.as_ref().map(|parent| parent.0.as_str());
            let home = self.home_of(parent);
            let mut output = Output::default();
            if let Some(transcript) = self.transcript_of(parent) {
                transcript.notice(UNSEEN.to_owned(), &mut output);
            }
            self.flush_on(&home, &mut output).await;
        }
        let end = match outcome {
            SubAgentOutcome::Completed => End::Agent(TurnOutcome::Completed { empty: false }),
            SubAgentOutcome::Failed(message) => End::Failed(Failure::of_sub_agent(message)),
            SubAgentOutcome::Stopped => End::Cancelled,
        };
        let mut ends = self.ends_below(agent);
        ends.push((agent.to_owned(), end));
        self.end_workers(ends).await;
    }

    /// The turn ends, and with it the sub-agents that it waited for. They are forgotten once that is stored.
    pub(super) fn end_waited_for(&mut self, mut change: Change) -> Change {
        let waited_for = self.workers.at_work.values_mut().filter(|worker| !worker.background);
        for worker in waited_for {
            change = worker.end(End::Cancelled, change);
        }
        change
    }

    /// The end of the turn is stored.
    pub(super) fn forget_waited_for(&mut self) {
        self.workers.at_work.retain(|_, worker| worker.background);
    }

    /// The process is gone, and all sub-agents with it.
    pub(super) async fn no_workers(&mut self) {
        self.workers.unshown.clear();
        let ends = self.workers.at_work.keys().map(|agent| (agent.clone(), End::Failed(interrupted()))).collect();
        self.end_workers(ends).await;
    }

    /// The turns of sub-agents that were running when the host died end now.
    pub(super) async fn end_interrupted_workers(&mut self) {
        let mut change = Change::default();
        let mut any = false;
        for worker in &self.session.workers {
            if let Some(turn) = &worker.chat.active_turn {
                any = true;
                let end = not_resumable(error(turn.id.clone(), 0, interrupted()));
                change = change.on(Home::Worker(Arc::clone(&worker.uri)), end, None);
            }
        }
        if !any {
            return;
        }
        let change = self.nothing_needed(change);
        if let Err(error) = self.commit(change).await {
            tracing::error!(%error, "interrupted sub-agents could not be ended");
        }
    }

    /// Ends sub-agents. Whoever of them waits for a person waits no longer.
    async fn end_workers(&mut self, ends: Vec<(String, End<Failure>)>) {
        let mut said = Vec::new();
        let mut ended = Vec::new();
        for (agent, end) in ends {
            if let Some(mut worker) = self.workers.at_work.remove(&agent) {
                said.push((Arc::clone(&worker.chat), worker.last_words(end)));
                ended.push(agent);
            }
        }
        if ended.is_empty() {
            return;
        }
        let waiting = !self.workers.unstored.is_empty();
        self.workers.unstored.extend(said);
        // Ends are stored in their order: one that was refused is tried again soon, and these with it.
        if !waiting {
            self.store_ends().await;
        }
        for agent in &ended {
            self.clear_desk_of(agent).await;
        }
        self.project().await;
    }

    /// Stores and publishes ends. What the store refuses is tried again, as a turn's end is.
    pub(super) async fn store_ends(&mut self) {
        let mut change = Change::default();
        for (chat, said) in &self.workers.unstored {
            let home = Home::Worker(Arc::clone(chat));
            change = said.iter().fold(change, |change, action| change.on(home.clone(), action.clone(), None));
            change = self.nothing_needed_in(chat, change);
        }
        match self.commit(change).await {
            Ok(()) => self.workers.unstored.clear(),
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "the end of a sub-agent could not be stored yet");
                let pause = self.host.clock.sleep(STORE_RETRY);
                self.tasks.spawn(async move {
                    pause.await;
                    Input::RetryWorkers
                });
            }
        }
    }

    /// Ends that the store has refused are tried again.
    pub(super) async fn retry_workers(&mut self) {
        if !self.workers.unstored.is_empty() {
            self.store_ends().await;
            self.project().await;
        }
    }

    /// The ends of those that a sub-agent has made, directly or not: they end with it.
    fn ends_below(&self, agent: &str) -> Vec<(String, End<Failure>)> {
        let all = self.workers.with_descendants(agent).into_iter();
        all.filter(|id| id != agent).map(|id| (id, End::Cancelled)).collect()
    }

    // ── A person stops one ────────────────────────────────────────────────────────────────────────────────────────

    /// A client stops the turn of a sub-agent's chat. That is possible where nobody waits for it.
    pub(super) async fn worker_cancelled(
        &mut self,
        dispatch: &Dispatch,
        action: ChatTurnCancelledAction,
    ) -> Result<(), Refusal> {
        let Some(agent) = self.workers.in_chat(&dispatch.channel).map(str::to_owned) else {
            return Err("no turn is running".to_owned());
        };
        let Some(worker) = self.workers.at_work.get(&agent).filter(|at| at.transcript.turn() == action.turn_id) else {
            return Err("another turn is running".to_owned());
        };
        if !self.beside.contains_key(&agent) {
            let parent = self.home_of(worker.parent.as_deref());
            let chat = self.channel(&parent);
            let turn = self.session.chat_on(&chat).and_then(|chat| chat.active_turn.as_ref());
            return Err(match turn {
                Some(turn) => format!("the turn {:?} of {chat} waits for this sub-agent; stop that one", turn.id),
                None => format!("this sub-agent is about to end with what {chat} did"),
            });
        }
        let below = self.ends_below(&agent);
        let home = Home::Worker(Arc::clone(&worker.chat));
        let cancelled = StateAction::ChatTurnCancelled(action);
        let change = Change::default().on(home, cancelled, Some(dispatch.origin()));
        let change = self.nothing_needed_in(&dispatch.channel, change);
        self.commit(change).await.map_err(|error| error.to_string())?;
        self.workers.at_work.remove(&agent);
        self.clear_desk_of(&agent).await;
        self.end_workers(below).await;
        self.stop_each(vec![agent]);
        self.project().await;
        Ok(())
    }
}

impl AtWork {
    fn end(&mut self, end: End<Failure>, change: Change) -> Change {
        let home = Home::Worker(Arc::clone(&self.chat));
        self.last_words(end).into_iter().fold(change, |change, action| change.on(home.clone(), action, None))
    }

    /// What is said in its chat at its end.
    fn last_words(&mut self, end: End<Failure>) -> Vec<StateAction> {
        let duration = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let mut output = Output::default();
        self.transcript.end(end, duration, &mut output);
        output.actions.into_iter().map(not_resumable).collect()
    }
}

fn interrupted() -> Failure {
    Failure {
        error_type: "interrupted".to_owned(),
        message: "The agent ended while this sub-agent was at work.".to_owned(),
        stderr: None,
    }
}
