//! The machine moves: its effects are carried out, and turns begin and end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ahp_types::actions::{ChatTurnStartedAction, SessionTitleChangedAction};
use ahp_types::state::MessageKind;
use ahp_types::{ActionOrigin, StateAction};
use hostler_driver::CloseMode;
use hostler_store::{Blob, StoreError};
use uuid::Uuid;

use super::change::Change;
use super::{Actor, Input};
use crate::clock::ClockExt as _;
use crate::local::Local;
use crate::session::{message, title_of};
use crate::transcript::{Failure, Output, Transcript, error};
use crate::turn::{Effect, End, Input as TurnInput, TurnPhase};

/// How long to wait before something is stored again after a failure.
pub(super) const STORE_RETRY: Duration = Duration::from_millis(500);

impl Actor {
    /// Feeds the machine and carries out what it says, until nothing follows.
    pub(super) async fn drive(&mut self, input: TurnInput<Failure>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for effect in self.machine.step(input) {
                match effect {
                    Effect::StartQueued(message) => inputs.extend(self.start_queued(&message).await),
                    Effect::StartOwn(reason) => inputs.push_back(self.start_own(reason).await),
                    Effect::Note(reason) => self.note_own_work(reason).await,
                    Effect::Open => self.open_agent().await,
                    Effect::Adapt => self.adapt_agent(),
                    Effect::Send(turn) => match self.use_warm().await {
                        Ok(()) => self.send_to_assessed(turn),
                        Err(failure) => inputs.push_back(TurnInput::Distrusted(failure)),
                    },
                    Effect::RunLocal(turn) => {
                        if self.run_local(&turn).await {
                            inputs.push_back(TurnInput::LocalOver(turn));
                        }
                    }
                    Effect::StopLocal => self.stop_local(),
                    Effect::Show | Effect::Drop => {}
                    Effect::Interrupt => self.interrupt_agent(),
                    Effect::Close => self.close_agent(CloseMode::Now),
                    Effect::CloseGracefully => self.close_agent(CloseMode::Graceful),
                    Effect::End(turn, end) => {
                        if self.end_turn(turn, end).await {
                            inputs.push_back(self.queue_now(false));
                            inputs.push_back(TurnInput::EndStored);
                        }
                    }
                }
            }
        }
        self.tell_queue().await;
    }

    // ── Turns begin ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Makes a turn durable and shows it: for a session's first message together with the session itself, in one
    /// transaction, and with what the message names.
    pub(super) async fn begin_turn(
        &mut self,
        action: ChatTurnStartedAction,
        origin: Option<ActionOrigin>,
        blobs: Vec<Blob>,
    ) -> Result<(), StoreError> {
        let turn = action.turn_id.clone();
        let renames = matches!(self.host.local(&action.message.text), Some(Local::Rename(_)));
        let untitled = self.session.session.title.is_empty() && !renames;
        let title = (untitled && action.message.origin.kind == MessageKind::User)
            .then(|| SessionTitleChangedAction { title: title_of(&action.message) });
        let mut change = Change::default().chat_of(StateAction::ChatTurnStarted(action), origin).blobs(blobs).opens();
        if let Some(title) = title {
            change = change.session(StateAction::SessionTitleChanged(title));
        }
        self.commit(change).await?;
        self.turn_begins(Transcript::new(turn)).await;
        Ok(())
    }

    /// The chat shows a turn that has just begun, or that goes on.
    pub(super) async fn turn_begins(&mut self, transcript: Transcript) {
        self.turn_started = Instant::now();
        self.record_is_ours();
        self.transcript = Some(transcript);
        self.project().await;
    }

    /// The agent works without having been asked: a turn of its own shows what it does.
    async fn start_own(&mut self, reason: String) -> TurnInput<Failure> {
        let turn_id = Uuid::new_v4().to_string();
        let action = ChatTurnStartedAction {
            turn_id: turn_id.clone(),
            started_at: self.host.clock.now_text(),
            message: message(reason, MessageKind::SystemNotification),
            queued_message_id: None,
            meta: None,
        };
        match self.begin_turn(action, None, Vec::new()).await {
            Ok(()) => TurnInput::OwnTurn(turn_id),
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "what the agent does by itself cannot be shown");
                TurnInput::NotStarted
            }
        }
    }

    /// The agent does something of its own before it comes to the turn's message.
    async fn note_own_work(&mut self, reason: String) {
        let mut output = Output::default();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.notice(reason, &mut output);
        }
        self.flush(&mut output).await;
    }

    // ── Turns end ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// Stores and publishes a turn's end. `false` if the store refused; then it is tried again later.
    pub(super) async fn end_turn(&mut self, turn: String, end: End<Failure>) -> bool {
        let duration = self.turn_duration();
        let mut output = Output::default();
        let shown = self.name_sign_in(self.name_budget(end.clone()));
        let slot = self.empty_slot();
        let transcript = self.transcript.get_or_insert_with(|| Transcript::new(turn.clone()));
        if let Some(told) = &slot.told {
            transcript.notice(told.clone(), &mut output);
        }
        transcript.end(shown, duration, &mut output);
        self.clear_desk().await;
        let change = self.nothing_needed(Change::default().output(output));
        let change = slot.after(self.end_waited_for(change));
        match self.commit(change).await {
            Ok(()) => {
                self.forget_waited_for();
                self.turn_is_over().await;
                self.mark_unread().await;
                self.project().await;
                self.save_snapshot().await;
                true
            }
            Err(error) => {
                tracing::error!(session = &*self.session.uri, %error, "a turn's end could not be stored yet");
                let pause = self.host.clock.sleep(STORE_RETRY);
                self.tasks.spawn(async move {
                    pause.await;
                    Input::RetryEnd(turn, end)
                });
                false
            }
        }
    }

    /// Forgets what belonged to the turn alone.
    pub(super) async fn turn_is_over(&mut self) {
        self.transcript = None;
        self.look_at_branch();
        self.turn_left_the_line();
        self.record_is_quiet();
        self.tell_budget().await;
    }

    pub(super) fn turn_duration(&self) -> i64 {
        i64::try_from(self.turn_started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The end of a turn is tried again, after the store has refused it.
    pub(super) async fn retry_end(&mut self, turn: String, end: End<Failure>) {
        if matches!(self.machine.turn(), TurnPhase::Ending(ending) if *ending == turn) && self.end_turn(turn, end).await
        {
            let queue = self.queue_now(false);
            self.drive(queue).await;
            self.drive(TurnInput::EndStored).await;
        }
    }

    /// Something that the store has refused is tried again soon.
    pub(super) fn retry_queue(&mut self) {
        let pause = self.host.clock.sleep(STORE_RETRY);
        self.tasks.spawn(async move {
            pause.await;
            Input::QueueDue
        });
    }

    /// A turn that was running when the host died ends now.
    pub(super) async fn end_interrupted_turn(&mut self) {
        let Some(turn) = self.session.chat.active_turn.as_ref().map(|turn| turn.id.clone()) else {
            self.project().await;
            return;
        };
        let failure = Failure {
            error_type: "interrupted".to_owned(),
            message: "The host stopped while this turn was running. Resume it, or send a message to continue the \
                      conversation."
                .to_owned(),
            stderr: None,
        };
        let slot = self.empty_slot();
        let mut output = Output::default();
        if let Some(told) = &slot.told {
            Transcript::new(turn.clone()).notice(told.clone(), &mut output);
        }
        let change = Change::default().output(output).chat(error(turn, 0, failure));
        let change = slot.after(self.nothing_needed(change));
        if let Err(error) = self.commit(change).await {
            tracing::error!(%error, "an interrupted turn could not be ended");
        }
        // It was acknowledged, so it is listed, even if its agent never came up.
        if !self.session.listed
            && let Err(error) = self.announce().await
        {
            tracing::error!(%error, "an interrupted session could not be announced");
        }
        self.project().await;
    }
}
