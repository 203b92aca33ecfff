//! The conversation goes on elsewhere: others write into the agent's record, too.
//!
//! The journal is the truth about what this host ran, the record about what others did. Whose a turn is says the id of its
//! message; a turn that the agent began by itself belongs to whoever led the one before it. What others did is appended as
//! if it had happened here, each turn once: how far the record was heard is stored in the same commit.

use std::sync::Arc;
use std::time::Duration;

use hostler_driver::{Archive, ArchiveError, Chronicle, Stray, ToldTurn, TurnMark};
use jiff::Timestamp;
use uuid::Uuid;

use super::appending::News;
use super::dispatch::Refusal;
use super::sent::Claims;
use super::{Actor, Input};
use crate::clock::ClockExt as _;
use crate::found::{is_led, is_young};
use crate::transcript::{Output, activity};
use crate::turn::{AgentPhase, Input as TurnInput, TurnPhase};

/// How long somebody waits for a look at the record. What it would show comes later then.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// How long somebody waits for it who only wants to see the session.
const MOMENT: Duration = Duration::from_millis(150);

/// When it is looked at again whether somebody else is still in the middle of a turn: nothing may ever say so.
const AGAIN: Duration = Duration::from_secs(60);

/// The same, if the turn looks as if it were over: only the process says that it is not.
const SOON: Duration = Duration::from_secs(2);

/// The longest time between two looks at a record that cannot be read.
const LONGEST: Duration = Duration::from_secs(10 * 60);

/// How often it is looked at in vain before it is left alone until it changes, or somebody opens the session.
const TRIES: u32 = 10;

/// How often the record is looked at while a turn of ours runs, which changes it all the time.
const PACE: Duration = Duration::from_secs(10);

/// How many turns of others are stored at a time. Whoever opens the session does not wait for more.
const GROUP: usize = 16;

const CONTINUED: &str = "Continued elsewhere";

const NOTE: &str = "Somebody else has continued this conversation meanwhile. The agent does not know of it; it is closed after \
                    this turn.";

/// What the actor knows about its agent's record.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// A look is under way.
    looking: bool,
    /// The record has changed since.
    again: bool,
    /// When it was looked at last, by the host's clock.
    looked: Option<Duration>,
    /// Somebody else is in the middle of a turn.
    led: bool,
    /// It is looked at again soon.
    timed: bool,
    /// How often it could not be read since it was.
    failures: u32,
    /// The running turn says already that somebody else has continued.
    noted: bool,
    /// When our last turn began, and when it ended, by the host's clock.
    began: Option<i64>,
    ended: Option<i64>,
    /// The agent remembers a conversation that has gone on without it.
    stale: bool,
    /// A message waits in the queue until somebody else is done.
    held: bool,
}

impl Elsewhere {
    /// Whether nothing is to be expected.
    pub(super) fn is_quiet(&self) -> bool {
        !self.looking && !self.led && !self.timed
    }
}

impl Actor {
    /// The way to the agent's record of the conversation, where there is one.
    fn record(&self) -> Option<(Arc<dyn Archive>, Uuid)> {
        let token = self.session.token.as_ref().filter(|_| self.session.stored)?;
        let archive = self.host.drivers.get(&self.session.session.provider)?.archive()?;
        let conversation = archive.conversation(token).unwrap_or(self.session.conversation);
        Some((archive, conversation))
    }

    /// The record has changed, by whomever.
    pub(super) fn record_changed(&mut self) {
        let running = self.session.chat.active_turn.is_some();
        let now = self.host.clock.monotonic();
        let early = self.elsewhere.looked.is_some_and(|looked| now.saturating_sub(looked) < PACE);
        if self.elsewhere.looking || (running && early) {
            // The turn's end looks again.
            self.elsewhere.again = true;
            return;
        }
        self.look_at_record();
    }

    /// Somebody else was in the middle of a turn a while ago.
    pub(super) fn look_again(&mut self) {
        self.elsewhere.timed = false;
        self.record_changed();
    }

    fn look_at_record(&mut self) {
        let Some((archive, conversation)) = self.record() else { return };
        (self.elsewhere.looking, self.elsewhere.again) = (true, false);
        self.elsewhere.looked = Some(self.host.clock.monotonic());
        self.tasks.spawn(async move { Input::RecordRead(archive.open(conversation).await) });
    }

    /// A turn of ours begins, or goes on.
    pub(super) fn record_is_ours(&mut self) {
        (self.elsewhere.began, self.elsewhere.ended) = (Some(self.host.clock.now_ms()), None);
    }

    /// The turn is over: what its own words have put off is looked at.
    pub(super) fn record_is_quiet(&mut self) {
        self.elsewhere.noted = false;
        self.elsewhere.ended = Some(self.host.clock.now_ms());
        if std::mem::take(&mut self.elsewhere.again) && !self.elsewhere.looking {
            self.look_at_record();
        }
    }

    pub(super) async fn record_read(&mut self, read: Result<Arc<dyn Chronicle>, ArchiveError>) {
        self.elsewhere.looking = false;
        match read {
            Ok(chronicle) => self.elsewhere.again |= !self.hear(chronicle).await,
            Err(error) => self.not_read(&error).await,
        }
        if std::mem::take(&mut self.elsewhere.again) {
            self.record_changed();
        }
        if !self.elsewhere.led && std::mem::take(&mut self.elsewhere.held) {
            let queue = self.queue_now(false);
            self.drive(queue).await;
        }
    }

    /// Looks at the record now, before something follows that builds on it. An agent of ours that waits may know less.
    pub(super) async fn catch_up(&mut self) {
        let Some((archive, conversation)) = self.record() else { return };
        match self.host.clock.timeout(PATIENCE, archive.open(conversation)).await {
            Some(Ok(chronicle)) => while !self.hear(Arc::clone(&chronicle)).await {},
            Some(Err(error)) => self.not_read(&error).await,
            None => {
                tracing::warn!(session = &*self.session.uri, "the agent's record takes long; it is read later");
                self.look_at_record();
            }
        }
    }

    /// Looks at the record when the session is opened. Whoever opens it sees what can be told at once, and the rest as it comes.
    pub(super) async fn first_look(&mut self, chronicle: Option<Arc<dyn Chronicle>>) {
        let Some((archive, conversation)) = self.record() else { return };
        let opened = match chronicle {
            Some(chronicle) => Some(Ok(chronicle)),
            None => self.host.clock.timeout(MOMENT, archive.open(conversation)).await,
        };
        let heard = match opened {
            Some(Ok(chronicle)) => self.hear(chronicle).await,
            Some(Err(error)) => {
                self.not_read(&error).await;
                true
            }
            None => false,
        };
        if !heard {
            self.look_at_record();
        }
    }

    /// Whether something can be said here: not while somebody else is in the middle of a turn.
    pub(super) async fn check_elsewhere(&mut self) -> Result<(), Refusal> {
        if self.session.chat.active_turn.is_none() {
            self.catch_up().await;
        }
        match self.elsewhere.led {
            true => Err("the conversation is being continued elsewhere; wait until that turn is over".to_owned()),
            false => Ok(()),
        }
    }

    /// The queue waits until somebody else is done. It goes on by itself then, and only then: after a restart of the host, for
    /// example, a person has to see to it.
    pub(super) fn hold_queue(&mut self) {
        self.elsewhere.held = true;
    }

    /// Whether the agent does not know what others have said meanwhile.
    pub(super) fn is_stale(&self) -> bool {
        self.elsewhere.stale
    }

    /// An agent that is opened now reads the record as it is.
    pub(super) fn is_fresh(&mut self) {
        self.elsewhere.stale = false;
    }

    /// Closes an agent that does not know the conversation any more, once it has nothing to do.
    pub(super) async fn retire_stale(&mut self) {
        let waits = matches!(self.machine.agent(), AgentPhase::Idle | AgentPhase::Opening);
        if self.elsewhere.stale && waits && *self.machine.turn() == TurnPhase::None {
            self.drive(TurnInput::Retire).await;
        }
    }

    // ── What others did ───────────────────────────────────────────────────────────────────────────────────────────

    /// Hears what others did. `false` if there is more of it: then the same, or another look, goes on from there.
    pub(super) async fn hear(&mut self, chronicle: Arc<dyn Chronicle>) -> bool {
        self.elsewhere.failures = 0;
        let (marks, strays) = (chronicle.turns(), chronicle.strays());
        let Some(heard) = self.session.heard else {
            // An earlier version led it up to here, under ids that say nothing.
            self.session.heard = Some(marks.last().map_or(Uuid::nil(), |mark| mark.id));
            return true;
        };
        let mut ours = self.ours(marks);
        let first = self.first_unheard(marks, &ours, heard).await;
        let claims = self.claim(&chronicle, first, &mut ours).await;
        let gone_on = self.gone_on(marks, &ours);
        let mut end = marks.len();
        let mut led = None;
        if let (Some(mark), Some(false)) = (marks.last(), ours.last())
            && (end > first || gone_on == Some(end - 1))
            && self.is_at_it(&chronicle, News::Turn(end - 1), mark.over).await
        {
            (end, led) = (end - 1, Some(if mark.over { SOON } else { AGAIN }));
            tracing::debug!(session = &*self.session.uri, turn = %mark.id, "somebody else is at work");
        }
        let mut news = self.stray_news(strays, &ours).await;
        if let Some(new @ News::Stray(place)) = news.last().copied()
            && let Some(stray) = strays.get(place)
            && self.is_at_it(&chronicle, new, stray.mark.over).await
        {
            (_, led) = (news.pop(), Some(if stray.mark.over { SOON } else { AGAIN }));
        }
        self.set_led(led).await;
        news.extend(gone_on.filter(|place| *place < end).map(News::GoneOn));
        for (place, mark) in marks.iter().enumerate().take(end).skip(first) {
            if ours.get(place) == Some(&false) && !self.is_known(mark.id).await {
                news.push(News::Turn(place));
            }
        }
        if news.is_empty() {
            self.heard_up_to(marks, end, &claims);
            return true;
        }
        if self.session.chat.active_turn.is_some() {
            self.note_elsewhere().await;
            return true;
        }
        if news.iter().any(|new| !matches!(new, News::Stray(_))) {
            // What it remembers is no longer the conversation.
            self.elsewhere.stale |= self.machine.agent() != AgentPhase::Absent;
        }
        let forgets = self.forgets(&chronicle, first, heard);
        let all = news.len() <= GROUP;
        news.truncate(GROUP);
        let stored = self.append(&chronicle, &news, forgets).await;
        if stored && all {
            self.heard_up_to(marks, end, &claims);
        } else if stored && let Some(News::Turn(last)) = news.last() {
            self.heard_up_to(marks, last + 1, &claims);
        }
        self.project().await;
        self.save_snapshot().await;
        // What could not be stored now is not tried again at once.
        all || !stored
    }

    /// The place of the first turn of the record that was not looked at.
    async fn first_unheard(&self, marks: &[TurnMark], ours: &[bool], heard: Uuid) -> usize {
        if heard.is_nil() {
            return 0;
        }
        if let Some(place) = marks.iter().position(|mark| mark.id == heard) {
            return place + 1;
        }
        // Somebody has led the conversation back to an earlier turn, and on from there.
        for (place, (mark, ours)) in marks.iter().zip(ours).enumerate().rev() {
            if *ours || self.is_known(mark.id).await {
                return place + 1;
            }
        }
        0
    }

    /// The place of the last turn that others led, if it was told before it was over. What follows when we go on from there
    /// is in our own agent's words.
    fn gone_on(&self, marks: &[TurnMark], ours: &[bool]) -> Option<usize> {
        let told = self.session.others?;
        let place = marks.iter().rposition(|mark| mark.id == told.turn && mark.length > told.length)?;
        (ours.get(place + 1) != Some(&true)).then_some(place)
    }

    /// What others said while a turn of ours ran, if the conversation went on from ours. Where it went on from theirs it is
    /// part of it; where they left their own turns behind, that was their wish.
    async fn stray_news(&self, strays: &[Stray], ours: &[bool]) -> Vec<News> {
        let (mut news, mut before) = (Vec::new(), None);
        for (place, Stray { mark, fork }) in strays.iter().enumerate() {
            let others = match mark.message {
                Some(id) => !self.is_ours(id) && !mark.command,
                // It is its who led the one before it.
                None => before == Some((*fork, true)),
            };
            before = Some((*fork, others));
            if others && ours.get(*fork) == Some(&true) && !self.is_known(mark.id).await {
                news.push(News::Stray(place));
            }
        }
        news
    }

    /// Whether the conversation has left something that is here: it goes on from an earlier turn.
    fn forgets(&self, chronicle: &Arc<dyn Chronicle>, first: usize, heard: Uuid) -> bool {
        chronicle.strays().iter().any(|Stray { mark, fork }| {
            mark.id == heard || (*fork >= first && mark.message.is_some_and(|id| self.is_ours(id)))
        })
    }

    pub(super) fn is_ours(&self, message: Uuid) -> bool {
        self.host.prompt_ids.is_ours(self.session.conversation, message)
    }

    /// Which turns of the record were led by this host, as far as ids say so. One without a message is its who led the one before
    /// it; of a command that was looked at before, the same is assumed.
    fn ours(&self, marks: &[TurnMark]) -> Vec<bool> {
        let owners = marks.iter().scan(false, |ours, mark| {
            *ours = mark.message.map_or(*ours, |id| self.is_ours(id) || (mark.command && *ours));
            Some(*ours)
        });
        owners.collect()
    }

    /// Whether a turn of the record is here, since it was taken in.
    async fn is_known(&self, turn: Uuid) -> bool {
        let id = turn.to_string();
        if self.session.has_turn(&id) {
            return true;
        }
        // A store that cannot be read must not be taken for one that has nothing.
        self.host.store.turn(&self.session.uri, &id).await.map_or(true, |found| found.is_some())
    }

    /// Whether somebody is still at the last turn.
    async fn is_at_it(&self, chronicle: &Arc<dyn Chronicle>, new: News, over: bool) -> bool {
        let Some((archive, conversation)) = self.record() else { return false };
        if let Some(led) = is_led(&*archive, conversation, over).await {
            return led;
        }
        let told = new.tell(chronicle).await.ok().flatten();
        told.is_some_and(|turn| is_young(&turn, self.host.clock.now_ms()))
    }

    /// Whether a turn was begun while our last one ran. An agent may still be writing the end of ours down, so that the record
    /// does not show yet that they are on two branches.
    pub(super) fn is_meanwhile(&self, told: &ToldTurn) -> bool {
        let began = told.began.as_ref().and_then(|began| began.parse::<Timestamp>().ok());
        let ran = self.elsewhere.began.zip(self.elsewhere.ended);
        began.zip(ran).is_some_and(|(at, (began, ended))| (began..=ended).contains(&at.as_millisecond()))
    }

    /// Everything before a place of the record was looked at. It is stored with the next snapshot: until then it would be
    /// found to be known.
    fn heard_up_to(&mut self, marks: &[TurnMark], end: usize, claims: &Claims) {
        self.session.sent.drain(..claims.before(end));
        if let Some(mark) = end.checked_sub(1).and_then(|last| marks.get(last)) {
            self.session.heard = Some(mark.id);
        }
    }

    /// Somebody else has continued while a turn of ours runs.
    async fn note_elsewhere(&mut self) {
        (self.elsewhere.again, self.elsewhere.stale) = (true, true);
        if std::mem::replace(&mut self.elsewhere.noted, true) {
            return;
        }
        let mut output = Output::default();
        if let Some(transcript) = self.transcript.as_mut() {
            transcript.notice(NOTE.to_owned(), &mut output);
        }
        self.flush(&mut output).await;
    }

    /// Shows whether somebody else is in the middle of a turn, and looks again after this time if so.
    async fn set_led(&mut self, led: Option<Duration>) {
        let news = std::mem::replace(&mut self.elsewhere.led, led.is_some()) != led.is_some();
        let shown = self.session.chat.activity.as_deref() == Some(CONTINUED);
        // The end of a turn of ours takes away what was shown before it.
        let is_due = news || self.session.chat.active_turn.is_none();
        if shown != led.is_some() && is_due {
            self.flush(&mut activity(led.map(|_| CONTINUED.to_owned())).into()).await;
        }
        if let Some(pause) = led {
            self.look_after(pause);
        }
    }

    fn look_after(&mut self, pause: Duration) {
        if std::mem::replace(&mut self.elsewhere.timed, true) {
            return;
        }
        let pause = self.host.clock.sleep(pause);
        self.tasks.spawn(async move {
            pause.await;
            Input::LookAgain
        });
    }

    /// The record could not be read. Nobody goes on in one that is gone; another one may be read later.
    async fn not_read(&mut self, error: &ArchiveError) {
        tracing::debug!(session = &*self.session.uri, %error, "the agent's record was not read");
        match error {
            ArchiveError::Missing => self.set_led(None).await,
            _ => {
                self.elsewhere.failures = self.elsewhere.failures.saturating_add(1);
                if self.elsewhere.failures < TRIES {
                    let pause = AGAIN.saturating_mul(2u32.saturating_pow(self.elsewhere.failures - 1));
                    self.look_after(LONGEST.min(pause));
                }
            }
        }
    }

    /// Somebody opens the session: a record that was left alone is tried again.
    pub(super) fn reopened(&mut self) {
        if self.elsewhere.failures >= TRIES && !self.elsewhere.looking {
            self.elsewhere.failures = 0;
            self.look_at_record();
        }
    }
}
