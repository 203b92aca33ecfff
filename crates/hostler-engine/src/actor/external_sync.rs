//! The conversation goes on elsewhere: others write into the agent's record, too.
//!
//! The journal is the truth about what this host ran, the record about what others did. Whose a turn is says the id of its
//! message; a turn that the agent began by itself belongs to whoever led the one before it. What others did is appended as
//! if it had happened here, each turn once: how far the record was heard is stored in the same commit.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{AbandonedTurn, LoadedTurn, Transcript, TranscriptStore, TranscriptStoreError, TurnIndexEntry};
use jiff::Timestamp;
use uuid::Uuid;

use super::dispatch::RejectReason;
use super::external_turns::ExternalTurnRef;
use super::unconfirmed_commands::ConfirmedCommands;
use super::{SessionActor, SessionInput};
use crate::action_mapper::{ActionBuffer, activity_action};
use crate::clock::ClockExt as _;
use crate::external_sessions::{is_active_elsewhere, is_recent};
use crate::turn::{AgentPhase, TurnInput, TurnPhase};

/// How long somebody waits for a look at the record. What it would show comes later then.
pub(super) const TRANSCRIPT_SYNC_TIMEOUT: Duration = Duration::from_secs(3);

/// How long somebody waits for it who only wants to see the session.
const FIRST_SYNC_TIMEOUT: Duration = Duration::from_millis(150);

/// When it is looked at again whether somebody else is still in the middle of a turn: nothing may ever say so.
const EXTERNAL_SYNC_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// The same, if the turn looks as if it were over: only the process says that it is not.
const FINISHED_TURN_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The longest time between two looks at a record that cannot be read.
const MAX_SYNC_RETRY_DELAY: Duration = Duration::from_secs(10 * 60);

/// How often it is looked at in vain before it is left alone until it changes, or somebody opens the session.
const MAX_SYNC_FAILURES: u32 = 10;

/// How often the record is looked at while a turn of ours runs, which changes it all the time.
const RUNNING_TURN_SYNC_INTERVAL: Duration = Duration::from_secs(10);

/// How many turns of others are stored at a time. Whoever opens the session does not wait for more.
const MAX_EXTERNAL_BATCH_TURNS: usize = 16;

const ACTIVE_ELSEWHERE_ACTIVITY: &str = "Continued elsewhere";

const CONTINUED_ELSEWHERE_NOTICE: &str = "Somebody else has continued this conversation meanwhile. The agent does not know of it; it is closed after \
                    this turn.";

/// What the actor knows about its agent's record.
#[derive(Debug, Default)]
pub(super) struct ExternalSync {
    /// A look is under way.
    is_syncing: bool,
    /// The record has changed since.
    sync_again: bool,
    /// When it was looked at last, by the host's clock.
    last_sync_at: Option<Duration>,
    /// Somebody else is in the middle of a turn.
    is_active_elsewhere: bool,
    /// It is looked at again soon.
    poll_scheduled: bool,
    /// How often it could not be read since it was.
    failures: u32,
    /// The running turn says already that somebody else has continued.
    is_noted_in_turn: bool,
    /// When our last turn began, and when it ended, by the host's clock.
    turn_started_ms: Option<i64>,
    turn_ended_ms: Option<i64>,
    /// The agent remembers a conversation that has gone on without it.
    agent_is_stale: bool,
    /// A message waits in the queue until somebody else is done.
    queue_waits: bool,
}

impl ExternalSync {
    /// Whether nothing is to be expected.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_syncing && !self.is_active_elsewhere && !self.poll_scheduled
    }
}

impl SessionActor {
    /// The way to the agent's record of the conversation, where there is one.
    fn transcript_source(&self) -> Option<(Arc<dyn TranscriptStore>, Uuid)> {
        let token = self.session.resume_token.as_ref().filter(|_| self.session.is_stored)?;
        let archive = self.host.drivers.get(&self.session.session.provider)?.transcript_store()?;
        let conversation = archive.conversation_id(token).unwrap_or(self.session.conversation);
        Some((archive, conversation))
    }

    /// The record has changed, by whomever.
    pub(super) fn handle_transcript_changed(&mut self) {
        let running = self.session.chat.active_turn.is_some();
        let now = self.host.clock.monotonic();
        let early = self
            .external_sync
            .last_sync_at
            .is_some_and(|looked| now.saturating_sub(looked) < RUNNING_TURN_SYNC_INTERVAL);
        if self.external_sync.is_syncing || (running && early) {
            // The turn's end looks again.
            self.external_sync.sync_again = true;
            return;
        }
        self.start_sync();
    }

    /// Somebody else was in the middle of a turn a while ago.
    pub(super) fn poll_transcript(&mut self) {
        self.external_sync.poll_scheduled = false;
        self.handle_transcript_changed();
    }

    fn start_sync(&mut self) {
        let Some((archive, conversation)) = self.transcript_source() else { return };
        (self.external_sync.is_syncing, self.external_sync.sync_again) = (true, false);
        self.external_sync.last_sync_at = Some(self.host.clock.monotonic());
        self.tasks.spawn(async move { SessionInput::TranscriptOpened(archive.open(conversation).await) });
    }

    /// A turn of ours begins, or goes on.
    pub(super) fn mark_turn_started(&mut self) {
        (self.external_sync.turn_started_ms, self.external_sync.turn_ended_ms) = (Some(self.host.clock.now_ms()), None);
    }

    /// The turn is over: what its own words have put off is looked at.
    pub(super) fn mark_turn_ended(&mut self) {
        self.external_sync.is_noted_in_turn = false;
        self.external_sync.turn_ended_ms = Some(self.host.clock.now_ms());
        if std::mem::take(&mut self.external_sync.sync_again) && !self.external_sync.is_syncing {
            self.start_sync();
        }
    }

    pub(super) async fn handle_transcript_opened(&mut self, read: Result<Arc<dyn Transcript>, TranscriptStoreError>) {
        self.external_sync.is_syncing = false;
        match read {
            Ok(chronicle) => self.external_sync.sync_again |= !self.sync_transcript(chronicle).await,
            Err(error) => self.handle_transcript_error(&error).await,
        }
        if std::mem::take(&mut self.external_sync.sync_again) {
            self.handle_transcript_changed();
        }
        if !self.external_sync.is_active_elsewhere && std::mem::take(&mut self.external_sync.queue_waits) {
            let queue = self.queue_changed_input(false);
            self.drive(queue).await;
        }
    }

    /// Looks at the record now, before something follows that builds on it. An agent of ours that waits may know less.
    pub(super) async fn sync_now(&mut self) {
        let Some((archive, conversation)) = self.transcript_source() else { return };
        match self.host.clock.timeout(TRANSCRIPT_SYNC_TIMEOUT, archive.open(conversation)).await {
            Some(Ok(chronicle)) => while !self.sync_transcript(Arc::clone(&chronicle)).await {},
            Some(Err(error)) => self.handle_transcript_error(&error).await,
            None => {
                tracing::warn!(session = &*self.session.uri, "the agent's record takes long; it is read later");
                self.start_sync();
            }
        }
    }

    /// Looks at the record when the session is opened. Whoever opens it sees what can be told at once, and the rest as it comes.
    pub(super) async fn sync_on_open(&mut self, chronicle: Option<Arc<dyn Transcript>>) {
        let Some((archive, conversation)) = self.transcript_source() else { return };
        let opened = match chronicle {
            Some(chronicle) => Some(Ok(chronicle)),
            None => self.host.clock.timeout(FIRST_SYNC_TIMEOUT, archive.open(conversation)).await,
        };
        let heard = match opened {
            Some(Ok(chronicle)) => self.sync_transcript(chronicle).await,
            Some(Err(error)) => {
                self.handle_transcript_error(&error).await;
                true
            }
            None => false,
        };
        if !heard {
            self.start_sync();
        }
    }

    /// Whether something can be said here: not while somebody else is in the middle of a turn.
    pub(super) async fn check_not_active_elsewhere(&mut self) -> Result<(), RejectReason> {
        if self.session.chat.active_turn.is_none() {
            self.sync_now().await;
        }
        match self.external_sync.is_active_elsewhere {
            true => Err("the conversation is being continued elsewhere; wait until that turn is over".to_owned()),
            false => Ok(()),
        }
    }

    /// The queue waits until somebody else is done. It goes on by itself then, and only then: after a restart of the host, for
    /// example, a person has to see to it.
    pub(super) fn hold_queue_for_external_turn(&mut self) {
        self.external_sync.queue_waits = true;
    }

    /// Whether the agent does not know what others have said meanwhile.
    pub(super) fn is_agent_stale(&self) -> bool {
        self.external_sync.agent_is_stale
    }

    /// An agent that is opened now reads the record as it is.
    pub(super) fn clear_agent_stale(&mut self) {
        self.external_sync.agent_is_stale = false;
    }

    /// Closes an agent that does not know the conversation any more, once it has nothing to do.
    pub(super) async fn retire_stale_agent(&mut self) {
        let waits = matches!(self.machine.agent_phase(), AgentPhase::Idle | AgentPhase::Opening);
        if self.external_sync.agent_is_stale && waits && *self.machine.turn_phase() == TurnPhase::None {
            self.drive(TurnInput::RetireAgent).await;
        }
    }

    // ── What others did ───────────────────────────────────────────────────────────────────────────────────────────

    /// Hears what others did. `false` if there is more of it: then the same, or another look, goes on from there.
    pub(super) async fn sync_transcript(&mut self, chronicle: Arc<dyn Transcript>) -> bool {
        self.external_sync.failures = 0;
        let (marks, strays) = (chronicle.turns(), chronicle.abandoned_turns());
        let Some(heard) = self.session.synced_through else {
            // An earlier version led it up to here, under ids that say nothing.
            self.session.synced_through = Some(marks.last().map_or(Uuid::nil(), |mark| mark.id));
            return true;
        };
        let mut ours = self.own_turns(marks);
        let first = self.first_unsynced_turn(marks, &ours, heard).await;
        let claims = self.confirm_own_commands(&chronicle, first, &mut ours).await;
        let gone_on = self.extended_turn(marks, &ours);
        let mut end = marks.len();
        let mut led = None;
        if let (Some(mark), Some(false)) = (marks.last(), ours.last())
            && (end > first || gone_on == Some(end - 1))
            && self.is_turn_active(&chronicle, ExternalTurnRef::Turn(end - 1), mark.is_complete).await
        {
            (end, led) = (
                end - 1,
                Some(if mark.is_complete { FINISHED_TURN_POLL_INTERVAL } else { EXTERNAL_SYNC_POLL_INTERVAL }),
            );
            tracing::debug!(session = &*self.session.uri, turn = %mark.id, "somebody else is at work");
        }
        let mut news = self.abandoned_external_turns(strays, &ours).await;
        if let Some(new @ ExternalTurnRef::Abandoned(place)) = news.last().copied()
            && let Some(stray) = strays.get(place)
            && self.is_turn_active(&chronicle, new, stray.turn.is_complete).await
        {
            (_, led) = (
                news.pop(),
                Some(if stray.turn.is_complete { FINISHED_TURN_POLL_INTERVAL } else { EXTERNAL_SYNC_POLL_INTERVAL }),
            );
        }
        self.set_active_elsewhere(led).await;
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
        if self.session.chat.active_turn.is_some() {
            self.note_external_turn().await;
            return true;
        }
        if news.iter().any(|new| !matches!(new, ExternalTurnRef::Abandoned(_))) {
            // What it remembers is no longer the conversation.
            self.external_sync.agent_is_stale |= self.machine.agent_phase() != AgentPhase::Absent;
        }
        let forgets = self.has_switched_branch(&chronicle, first, heard);
        let all = news.len() <= MAX_EXTERNAL_BATCH_TURNS;
        news.truncate(MAX_EXTERNAL_BATCH_TURNS);
        let stored = self.append_external_turns(&chronicle, &news, forgets).await;
        if stored && all {
            self.mark_synced_through(marks, end, &claims);
        } else if stored && let Some(ExternalTurnRef::Turn(last)) = news.last() {
            self.mark_synced_through(marks, last + 1, &claims);
        }
        self.update_summaries().await;
        self.save_snapshot().await;
        // What could not be stored now is not tried again at once.
        all || !stored
    }

    /// The place of the first turn of the record that was not looked at.
    async fn first_unsynced_turn(&self, marks: &[TurnIndexEntry], ours: &[bool], heard: Uuid) -> usize {
        if heard.is_nil() {
            return 0;
        }
        if let Some(place) = marks.iter().position(|mark| mark.id == heard) {
            return place + 1;
        }
        // Somebody has led the conversation back to an earlier turn, and on from there.
        for (place, (mark, ours)) in marks.iter().zip(ours).enumerate().rev() {
            if *ours || self.is_turn_stored(mark.id).await {
                return place + 1;
            }
        }
        0
    }

    /// The place of the last turn that others led, if it was told before it was over. What follows when we go on from there
    /// is in our own agent's words.
    fn extended_turn(&self, marks: &[TurnIndexEntry], ours: &[bool]) -> Option<usize> {
        let told = self.session.last_external_turn?;
        let place = marks.iter().rposition(|mark| mark.id == told.turn && mark.record_count > told.length)?;
        (ours.get(place + 1) != Some(&true)).then_some(place)
    }

    /// What others said while a turn of ours ran, if the conversation went on from ours. Where it went on from theirs it is
    /// part of it; where they left their own turns behind, that was their wish.
    async fn abandoned_external_turns(&self, strays: &[AbandonedTurn], ours: &[bool]) -> Vec<ExternalTurnRef> {
        let (mut news, mut before) = (Vec::new(), None);
        for (place, AbandonedTurn { turn: mark, fork_index: fork }) in strays.iter().enumerate() {
            let others = match mark.message_id {
                Some(id) => !self.is_own_prompt(id) && !mark.is_command,
                // It is its who led the one before it.
                None => before == Some((*fork, true)),
            };
            before = Some((*fork, others));
            if others && ours.get(*fork) == Some(&true) && !self.is_turn_stored(mark.id).await {
                news.push(ExternalTurnRef::Abandoned(place));
            }
        }
        news
    }

    /// Whether the conversation has left something that is here: it goes on from an earlier turn.
    fn has_switched_branch(&self, chronicle: &Arc<dyn Transcript>, first: usize, heard: Uuid) -> bool {
        chronicle.abandoned_turns().iter().any(|AbandonedTurn { turn: mark, fork_index: fork }| {
            mark.id == heard || (*fork >= first && mark.message_id.is_some_and(|id| self.is_own_prompt(id)))
        })
    }

    pub(super) fn is_own_prompt(&self, message: Uuid) -> bool {
        self.host.prompt_ids.is_minted_here(self.session.conversation, message)
    }

    /// Which turns of the record were led by this host, as far as ids say so. One without a message is its who led the one before
    /// it; of a command that was looked at before, the same is assumed.
    fn own_turns(&self, marks: &[TurnIndexEntry]) -> Vec<bool> {
        let owners = marks.iter().scan(false, |ours, mark| {
            *ours = mark.message_id.map_or(*ours, |id| self.is_own_prompt(id) || (mark.is_command && *ours));
            Some(*ours)
        });
        owners.collect()
    }

    /// Whether a turn of the record is here, since it was taken in.
    async fn is_turn_stored(&self, turn: Uuid) -> bool {
        let id = turn.to_string();
        if self.session.has_turn(&id) {
            return true;
        }
        // A store that cannot be read must not be taken for one that has nothing.
        self.host.store.find_turn(&self.session.uri, &id).await.map_or(true, |found| found.is_some())
    }

    /// Whether somebody is still at the last turn.
    async fn is_turn_active(&self, chronicle: &Arc<dyn Transcript>, new: ExternalTurnRef, over: bool) -> bool {
        let Some((archive, conversation)) = self.transcript_source() else { return false };
        if let Some(led) = is_active_elsewhere(&*archive, conversation, over).await {
            return led;
        }
        let told = new.load(chronicle).await.ok().flatten();
        told.is_some_and(|turn| is_recent(&turn, self.host.clock.now_ms()))
    }

    /// Whether a turn was begun while our last one ran. An agent may still be writing the end of ours down, so that the record
    /// does not show yet that they are on two branches.
    pub(super) fn is_concurrent_turn(&self, told: &LoadedTurn) -> bool {
        let began = told.started_at.as_ref().and_then(|began| began.parse::<Timestamp>().ok());
        let ran = self.external_sync.turn_started_ms.zip(self.external_sync.turn_ended_ms);
        began.zip(ran).is_some_and(|(at, (began, ended))| (began..=ended).contains(&at.as_millisecond()))
    }

    /// Everything before a place of the record was looked at. It is stored with the next snapshot: until then it would be
    /// found to be known.
    fn mark_synced_through(&mut self, marks: &[TurnIndexEntry], end: usize, claims: &ConfirmedCommands) {
        self.session.unconfirmed_commands.drain(..claims.confirmed_before(end));
        if let Some(mark) = end.checked_sub(1).and_then(|last| marks.get(last)) {
            self.session.synced_through = Some(mark.id);
        }
    }

    /// Somebody else has continued while a turn of ours runs.
    async fn note_external_turn(&mut self) {
        (self.external_sync.sync_again, self.external_sync.agent_is_stale) = (true, true);
        if std::mem::replace(&mut self.external_sync.is_noted_in_turn, true) {
            return;
        }
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.action_mapper.as_mut() {
            transcript.add_notice(CONTINUED_ELSEWHERE_NOTICE.to_owned(), &mut output);
        }
        self.publish_output(&mut output).await;
    }

    /// Shows whether somebody else is in the middle of a turn, and looks again after this time if so.
    async fn set_active_elsewhere(&mut self, led: Option<Duration>) {
        let news = std::mem::replace(&mut self.external_sync.is_active_elsewhere, led.is_some()) != led.is_some();
        let shown = self.session.chat.activity.as_deref() == Some(ACTIVE_ELSEWHERE_ACTIVITY);
        // The end of a turn of ours takes away what was shown before it.
        let is_due = news || self.session.chat.active_turn.is_none();
        if shown != led.is_some() && is_due {
            self.publish_output(&mut activity_action(led.map(|_| ACTIVE_ELSEWHERE_ACTIVITY.to_owned())).into()).await;
        }
        if let Some(pause) = led {
            self.schedule_poll(pause);
        }
    }

    fn schedule_poll(&mut self, pause: Duration) {
        if std::mem::replace(&mut self.external_sync.poll_scheduled, true) {
            return;
        }
        let pause = self.host.clock.sleep(pause);
        self.tasks.spawn(async move {
            pause.await;
            SessionInput::PollTranscript
        });
    }

    /// The record could not be read. Nobody goes on in one that is gone; another one may be read later.
    async fn handle_transcript_error(&mut self, error: &TranscriptStoreError) {
        tracing::debug!(session = &*self.session.uri, %error, "the agent's record was not read");
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

    /// Somebody opens the session: a record that was left alone is tried again.
    pub(super) fn retry_sync_on_open(&mut self) {
        if self.external_sync.failures >= MAX_SYNC_FAILURES && !self.external_sync.is_syncing {
            self.external_sync.failures = 0;
            self.start_sync();
        }
    }
}
