//! External sync: appends turns that another process added to the agent's transcript.
//!
//! The journal is authoritative for turns of this host, the transcript for turns of other processes. The id of its
//! message identifies the owner of a turn; a turn that the agent started by itself belongs to the process that ran the
//! turn before it. The transcript is synced when a session is opened, before an agent is opened for it, and when the
//! transcript changes. External turns are appended as durable changes, each once: the sync position is part of the same
//! commit.
//!
//! - An idle agent is closed first, because it remembers another conversation; a working agent gets a note in its turn
//!   and is closed after it.
//! - While another process runs a turn, messages are rejected, queued ones wait, and the activity displays the reason.
//! - External turns are stored in groups: opening a session waits briefly for the first group, sending a message waits
//!   for all groups.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{AbandonedTurn, LoadedTurn, Transcript, TranscriptStore, TranscriptStoreError, TurnIndexEntry};
use jiff::Timestamp;
use uuid::Uuid;

use super::effect::SessionEffect;
use super::external_turns::ExternalTurnRef;
use super::unconfirmed_commands::ConfirmedCommands;
use super::{SessionActor, SessionInput};
use crate::clock::ClockExt as _;
use crate::external_sessions::{is_active_elsewhere, is_recent};
use crate::sessions::action_mapper::{ActionBuffer, activity_action};
use crate::sessions::rejection::ActionRejection;
use crate::sessions::turn::AgentPhase;

/// Maximum time that a request waits for a transcript sync; later changes arrive as actions.
pub(super) const TRANSCRIPT_SYNC_TIMEOUT: Duration = Duration::from_secs(3);

/// The same for opening a session.
const FIRST_SYNC_TIMEOUT: Duration = Duration::from_millis(150);

/// Interval of checks whether another process still runs a turn: its end may cause no notification.
const EXTERNAL_SYNC_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The same for a turn that looks complete: only the process shows that it continues.
const FINISHED_TURN_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum delay between two attempts to read an unreadable transcript.
const MAX_SYNC_RETRY_DELAY: Duration = Duration::from_secs(10 * 60);

/// Number of failed attempts after which the transcript is not read until it changes or the session is opened.
const MAX_SYNC_FAILURES: u32 = 10;

/// Minimum time between two syncs while a turn of this host runs, because that turn changes the transcript constantly.
const RUNNING_TURN_SYNC_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of external turns that are stored together. Opening a session waits for one batch only.
const MAX_EXTERNAL_BATCH_TURNS: usize = 16;

const ACTIVE_ELSEWHERE_ACTIVITY: &str = "Continued elsewhere";

const CONTINUED_ELSEWHERE_NOTICE: &str = "Another process has continued this conversation. The agent does not know those turns, so it is closed after \
                    this turn.";

/// The state of the transcript sync.
#[derive(Debug, Default)]
pub(super) struct ExternalSync {
    /// Whether a sync is in progress.
    is_syncing: bool,
    /// Whether the transcript has changed since it started.
    sync_again: bool,
    /// Time of the last sync, by the host's clock.
    last_sync_at: Option<Duration>,
    /// Whether another process is running a turn.
    is_active_elsewhere: bool,
    /// Whether a check is scheduled.
    poll_scheduled: bool,
    /// Number of failed reads since the last successful one.
    failures: u32,
    /// Whether the running turn has the notice that another process continued the conversation.
    is_noted_in_turn: bool,
    /// Whether a queued message waits for another process's turn to end.
    queue_waits: bool,
}

impl ExternalSync {
    /// Whether neither a sync nor another process's turn is in progress or expected.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_syncing && !self.is_active_elsewhere && !self.poll_scheduled
    }
}

impl SessionActor {
    /// The transcript store and the id of the session's conversation, if there is a transcript.
    fn transcript_source(&self) -> Option<(Arc<dyn TranscriptStore>, Uuid)> {
        let token = self.ctx.session.resume_token.as_ref().filter(|_| self.ctx.session.is_stored)?;
        let transcript_store = self.ctx.host.agents.driver(&self.ctx.session.session.provider)?.transcript_store()?;
        let conversation = transcript_store.conversation_id(token).unwrap_or(self.ctx.session.conversation);
        Some((transcript_store, conversation))
    }

    /// Handles a change of the transcript, by this host or another process.
    pub(super) fn handle_transcript_changed(&mut self) {
        let running = self.ctx.session.chat.active_turn.is_some();
        let now = self.ctx.host.clock.monotonic();
        let early = self
            .external_sync
            .last_sync_at
            .is_some_and(|looked| now.saturating_sub(looked) < RUNNING_TURN_SYNC_INTERVAL);
        if self.external_sync.is_syncing || (running && early) {
            // The turn's end syncs again.
            self.external_sync.sync_again = true;
            return;
        }
        self.start_sync();
    }

    /// Checks whether another process still runs a turn.
    pub(super) fn poll_transcript(&mut self) {
        self.external_sync.poll_scheduled = false;
        self.handle_transcript_changed();
    }

    fn start_sync(&mut self) {
        let Some((transcript_store, conversation)) = self.transcript_source() else { return };
        (self.external_sync.is_syncing, self.external_sync.sync_again) = (true, false);
        self.external_sync.last_sync_at = Some(self.ctx.host.clock.monotonic());
        self.ctx.tasks.spawn(async move { SessionInput::TranscriptOpened(transcript_store.open(conversation).await) });
    }

    /// Records that the turn has ended, and starts the sync that was deferred during it.
    pub(super) fn mark_turn_ended(&mut self) {
        self.external_sync.is_noted_in_turn = false;
        self.ctx.turn.ended_ms = Some(self.ctx.host.clock.now_ms());
        if std::mem::take(&mut self.external_sync.sync_again) && !self.external_sync.is_syncing {
            self.start_sync();
        }
    }

    pub(super) async fn handle_transcript_opened(&mut self, read: Result<Arc<dyn Transcript>, TranscriptStoreError>) {
        self.external_sync.is_syncing = false;
        match read {
            Ok(transcript) => self.external_sync.sync_again |= !self.sync_transcript(transcript).await,
            Err(error) => self.handle_transcript_error(&error).await,
        }
        if std::mem::take(&mut self.external_sync.sync_again) {
            self.handle_transcript_changed();
        }
        if !self.external_sync.is_active_elsewhere && std::mem::take(&mut self.external_sync.queue_waits) {
            self.perform(vec![SessionEffect::QueueChanged { resume: false }]).await;
        }
    }

    /// Syncs before something that depends on the whole conversation, because an idle agent may know less.
    pub(super) async fn sync_now(&mut self) {
        let Some((transcript_store, conversation)) = self.transcript_source() else { return };
        match self.ctx.host.clock.timeout(TRANSCRIPT_SYNC_TIMEOUT, transcript_store.open(conversation)).await {
            Some(Ok(transcript)) => while !self.sync_transcript(Arc::clone(&transcript)).await {},
            Some(Err(error)) => self.handle_transcript_error(&error).await,
            None => {
                tracing::warn!(session = &*self.ctx.session.uri, "transcript sync timed out; retrying later");
                self.start_sync();
            }
        }
    }

    /// Syncs when the session is opened. The client sees the turns that are available at once, and receives the others
    /// as actions.
    pub(super) async fn sync_on_open(&mut self, transcript: Option<Arc<dyn Transcript>>) {
        let Some((transcript_store, conversation)) = self.transcript_source() else { return };
        let opened = match transcript {
            Some(transcript) => Some(Ok(transcript)),
            None => self.ctx.host.clock.timeout(FIRST_SYNC_TIMEOUT, transcript_store.open(conversation)).await,
        };
        let is_synced = match opened {
            Some(Ok(transcript)) => self.sync_transcript(transcript).await,
            Some(Err(error)) => {
                self.handle_transcript_error(&error).await;
                true
            }
            None => false,
        };
        if !is_synced {
            self.start_sync();
        }
    }

    /// Checks that no other process is running a turn.
    pub(super) async fn check_not_active_elsewhere(&mut self) -> Result<(), ActionRejection> {
        if self.ctx.session.chat.active_turn.is_none() {
            self.sync_now().await;
        }
        match self.external_sync.is_active_elsewhere {
            true => Err(ActionRejection::ActiveElsewhere),
            false => Ok(()),
        }
    }

    /// Holds the queue until another process's turn ends; then it continues automatically. After a restart of the host
    /// a person has to continue it.
    pub(super) fn hold_queue_for_external_turn(&mut self) {
        self.external_sync.queue_waits = true;
    }

    // ── External turns ────────────────────────────────────────────────────────────────────────────────────────────

    /// Appends new external turns. `false` if more remain: then another call continues from there.
    pub(super) async fn sync_transcript(&mut self, transcript: Arc<dyn Transcript>) -> bool {
        self.external_sync.failures = 0;
        let (marks, abandoned) = (transcript.turns(), transcript.abandoned_turns());
        let Some(synced_through) = self.ctx.session.synced_through else {
            // The session is from an earlier version, whose prompt ids do not identify the owner.
            self.ctx.session.synced_through = Some(marks.last().map_or(Uuid::nil(), |mark| mark.id));
            return true;
        };
        let mut ours = self.own_turns(marks);
        let first = self.first_unsynced_turn(marks, &ours, synced_through).await;
        let claims = self.confirm_own_commands(&transcript, first, &mut ours).await;
        let gone_on = self.extended_turn(marks, &ours);
        let mut end = marks.len();
        let mut poll_interval = None;
        if let (Some(mark), Some(false)) = (marks.last(), ours.last())
            && (end > first || gone_on == Some(end - 1))
            && self.is_turn_active(&transcript, ExternalTurnRef::Turn(end - 1), mark.is_complete).await
        {
            (end, poll_interval) = (
                end - 1,
                Some(if mark.is_complete { FINISHED_TURN_POLL_INTERVAL } else { EXTERNAL_SYNC_POLL_INTERVAL }),
            );
            tracing::debug!(session = &*self.ctx.session.uri, turn = %mark.id, "another process is running a turn");
        }
        let mut news = self.abandoned_external_turns(abandoned, &ours).await;
        if let Some(new @ ExternalTurnRef::Abandoned(place)) = news.last().copied()
            && let Some(abandoned_turn) = abandoned.get(place)
            && self.is_turn_active(&transcript, new, abandoned_turn.turn.is_complete).await
        {
            (_, poll_interval) = (
                news.pop(),
                Some(if abandoned_turn.turn.is_complete {
                    FINISHED_TURN_POLL_INTERVAL
                } else {
                    EXTERNAL_SYNC_POLL_INTERVAL
                }),
            );
        }
        self.set_active_elsewhere(poll_interval).await;
        news.extend(gone_on.filter(|place| *place < end).map(ExternalTurnRef::Extended));
        for (place, mark) in marks.iter().enumerate().take(end).skip(first) {
            if ours.get(place) == Some(&false) && !self.is_turn_stored(mark.id).await {
                news.push(ExternalTurnRef::Turn(place));
            }
        }
        if news.is_empty() {
            self.mark_synced_through(marks, end, &claims);
            return true;
        }
        if self.ctx.session.chat.active_turn.is_some() {
            self.note_external_turn().await;
            return true;
        }
        if news.iter().any(|new| !matches!(new, ExternalTurnRef::Abandoned(_))) {
            // The agent remembers another conversation.
            self.agent.is_stale |= self.machine.agent_phase() != AgentPhase::Absent;
        }
        let forgets = self.has_switched_branch(&transcript, first, synced_through);
        let all = news.len() <= MAX_EXTERNAL_BATCH_TURNS;
        news.truncate(MAX_EXTERNAL_BATCH_TURNS);
        let stored = self.append_external_turns(&transcript, &news, forgets).await;
        if stored && all {
            self.mark_synced_through(marks, end, &claims);
        } else if stored && let Some(ExternalTurnRef::Turn(last)) = news.last() {
            self.mark_synced_through(marks, last + 1, &claims);
        }
        self.ctx.update_summaries().await;
        self.ctx.save_snapshot().await;
        // Turns that could not be stored are not retried at once.
        all || !stored
    }

    /// Index of the first turn of the transcript that is not synced.
    async fn first_unsynced_turn(&self, marks: &[TurnIndexEntry], ours: &[bool], synced_through: Uuid) -> usize {
        if synced_through.is_nil() {
            return 0;
        }
        if let Some(place) = marks.iter().position(|mark| mark.id == synced_through) {
            return place + 1;
        }
        // The conversation has been continued from an earlier turn.
        for (place, (mark, ours)) in marks.iter().zip(ours).enumerate().rev() {
            if *ours || self.is_turn_stored(mark.id).await {
                return place + 1;
            }
        }
        0
    }

    /// Index of the last external turn, if it was appended before it was complete. After a turn of this host, further
    /// output is the own agent's.
    fn extended_turn(&self, marks: &[TurnIndexEntry], ours: &[bool]) -> Option<usize> {
        let last_synced = self.ctx.session.last_external_turn?;
        let place =
            marks.iter().rposition(|mark| mark.id == last_synced.turn && mark.record_count > last_synced.length)?;
        (ours.get(place + 1) != Some(&true)).then_some(place)
    }

    /// External turns that were abandoned because the conversation continued from a concurrent turn of this host. If it
    /// continued from the external ones, they are part of it; turns that another process abandoned for its own later
    /// turn are left out.
    async fn abandoned_external_turns(&self, abandoned: &[AbandonedTurn], ours: &[bool]) -> Vec<ExternalTurnRef> {
        let (mut news, mut before) = (Vec::new(), None);
        for (place, AbandonedTurn { turn: mark, fork_index: fork }) in abandoned.iter().enumerate() {
            let others = match mark.message_id {
                Some(id) => !self.is_own_prompt(id) && !mark.is_command,
                // It belongs to the process that ran the turn before it.
                None => before == Some((*fork, true)),
            };
            before = Some((*fork, others));
            if others && ours.get(*fork) == Some(&true) && !self.is_turn_stored(mark.id).await {
                news.push(ExternalTurnRef::Abandoned(place));
            }
        }
        news
    }

    /// Whether the conversation has abandoned a stored turn: it continues from an earlier one.
    fn has_switched_branch(&self, transcript: &Arc<dyn Transcript>, first: usize, synced_through: Uuid) -> bool {
        transcript.abandoned_turns().iter().any(|AbandonedTurn { turn: mark, fork_index: fork }| {
            mark.id == synced_through || (*fork >= first && mark.message_id.is_some_and(|id| self.is_own_prompt(id)))
        })
    }

    pub(super) fn is_own_prompt(&self, message: Uuid) -> bool {
        self.ctx.host.external.is_own_prompt(self.ctx.session.conversation, message)
    }

    /// Which turns of the transcript belong to this host, by their ids. A turn without a message belongs to the process
    /// that ran the turn before it; the same is assumed for commands that were synced before.
    fn own_turns(&self, marks: &[TurnIndexEntry]) -> Vec<bool> {
        let owners = marks.iter().scan(false, |ours, mark| {
            *ours = mark.message_id.map_or(*ours, |id| self.is_own_prompt(id) || (mark.is_command && *ours));
            Some(*ours)
        });
        owners.collect()
    }

    /// Whether a turn of the transcript is stored here by an import or a sync.
    async fn is_turn_stored(&self, turn: Uuid) -> bool {
        let id = turn.to_string();
        if self.ctx.session.has_turn(&id) {
            return true;
        }
        // A store that cannot be read must not count as empty.
        self.ctx.host.store.find_turn(&self.ctx.session.uri, &id).await.map_or(true, |found| found.is_some())
    }

    /// Whether another process is still running the last turn.
    async fn is_turn_active(&self, transcript: &Arc<dyn Transcript>, new: ExternalTurnRef, over: bool) -> bool {
        let Some((transcript_store, conversation)) = self.transcript_source() else { return false };
        if let Some(is_active) = is_active_elsewhere(&*transcript_store, conversation, over).await {
            return is_active;
        }
        let loaded = new.load(transcript).await.ok().flatten();
        loaded.is_some_and(|turn| is_recent(&turn, self.ctx.host.clock.now_ms()))
    }

    /// Whether a turn was started during this host's last turn. The agent may not have written the end of that turn
    /// yet, so the transcript does not show the two branches yet.
    pub(super) fn is_concurrent_turn(&self, loaded: &LoadedTurn) -> bool {
        let began = loaded.started_at.as_ref().and_then(|began| began.parse::<Timestamp>().ok());
        let ran = self.ctx.turn.started_ms.zip(self.ctx.turn.ended_ms);
        began.zip(ran).is_some_and(|(at, (began, ended))| (began..=ended).contains(&at.as_millisecond()))
    }

    /// Advances the sync position. It is stored with the next snapshot; after a crash before that, the next sync
    /// recognizes the turns as known.
    fn mark_synced_through(&mut self, marks: &[TurnIndexEntry], end: usize, claims: &ConfirmedCommands) {
        self.ctx.session.unconfirmed_commands.drain(..claims.confirmed_before(end));
        if let Some(mark) = end.checked_sub(1).and_then(|last| marks.get(last)) {
            self.ctx.session.synced_through = Some(mark.id);
        }
    }

    /// Adds a notice to the running turn that another process has continued the conversation.
    async fn note_external_turn(&mut self) {
        (self.external_sync.sync_again, self.agent.is_stale) = (true, true);
        if std::mem::replace(&mut self.external_sync.is_noted_in_turn, true) {
            return;
        }
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.ctx.turn.mapper.as_mut() {
            transcript.add_notice(CONTINUED_ELSEWHERE_NOTICE.to_owned(), &mut output);
        }
        self.ctx.publish_output(&mut output).await;
    }

    /// Displays whether another process is running a turn, and schedules the next check after this time.
    async fn set_active_elsewhere(&mut self, poll_interval: Option<Duration>) {
        let news = std::mem::replace(&mut self.external_sync.is_active_elsewhere, poll_interval.is_some())
            != poll_interval.is_some();
        let shown = self.ctx.session.chat.activity.as_deref() == Some(ACTIVE_ELSEWHERE_ACTIVITY);
        // The end of this host's turn clears the activity.
        let is_due = news || self.ctx.session.chat.active_turn.is_none();
        if shown != poll_interval.is_some() && is_due {
            self.ctx
                .publish_output(
                    &mut activity_action(poll_interval.map(|_| ACTIVE_ELSEWHERE_ACTIVITY.to_owned())).into(),
                )
                .await;
        }
        if let Some(pause) = poll_interval {
            self.schedule_poll(pause);
        }
    }

    fn schedule_poll(&mut self, pause: Duration) {
        if std::mem::replace(&mut self.external_sync.poll_scheduled, true) {
            return;
        }
        let pause = self.ctx.host.clock.sleep(pause);
        self.ctx.tasks.spawn(async move {
            pause.await;
            SessionInput::PollTranscript
        });
    }

    /// Handles an unreadable transcript. No process continues in a missing one; another error is retried.
    async fn handle_transcript_error(&mut self, error: &TranscriptStoreError) {
        tracing::debug!(session = &*self.ctx.session.uri, %error, "failed to read transcript");
        match error {
            TranscriptStoreError::Missing => self.set_active_elsewhere(None).await,
            _ => {
                self.external_sync.failures = self.external_sync.failures.saturating_add(1);
                if self.external_sync.failures < MAX_SYNC_FAILURES {
                    let pause = EXTERNAL_SYNC_POLL_INTERVAL
                        .saturating_mul(2u32.saturating_pow(self.external_sync.failures - 1));
                    self.schedule_poll(MAX_SYNC_RETRY_DELAY.min(pause));
                }
            }
        }
    }

    /// Retries reading when the session is opened, after it was given up.
    pub(super) fn retry_sync_on_open(&mut self) {
        if self.external_sync.failures >= MAX_SYNC_FAILURES && !self.external_sync.is_syncing {
            self.external_sync.failures = 0;
            self.start_sync();
        }
    }
}
