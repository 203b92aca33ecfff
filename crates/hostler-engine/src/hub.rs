//! The fan-out: who hears what.
//!
//! Called under the sequencer's lock, in the order of numbers, so that every subscriber sees one order. A subscriber
//! whose queue is full is cut off: it reconnects and is made whole; single envelopes are never dropped.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ahp_types::notifications::PartialSessionSummary;
use ahp_types::state::{ProtectedResourceMetadata, SessionSummary};
use bytes::Bytes;
use hostler_redact::variant;
use hostler_store::{Published, Publisher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clients::Clients;
use crate::paging::OlderTurns;
use crate::progress::Progress;
use crate::state::ChannelState;
use crate::uri;

/// Names a subscriber within this host's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriberId(u64);

/// One connection's way of hearing things.
#[derive(Debug, Clone)]
pub struct Subscriber {
    id: SubscriberId,
    queue: mpsc::Sender<Delivery>,
    /// About how much memory the envelopes in the queue take.
    queued: Arc<AtomicUsize>,
    overflow: CancellationToken,
    views: Views,
}

/// Where the turns begin that a connection was sent, by chat.
#[derive(Debug, Clone, Default)]
pub(crate) struct Views(Arc<Mutex<HashMap<Arc<str>, Beginning>>>);

/// Where a connection's turns of a chat begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beginning {
    pub(crate) first: usize,
    /// Whether it was this connection that was sent them. What an earlier one was sent last may never have arrived.
    pub(crate) sure: bool,
}

impl Views {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Beginning>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber {
    /// A subscriber with a queue for `capacity` deliveries.
    pub fn new(capacity: usize) -> (Self, Deliveries) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (queue, receiver) = mpsc::channel(capacity);
        let queued = Arc::new(AtomicUsize::new(0));
        let id = SubscriberId(NEXT.fetch_add(1, Ordering::Relaxed));
        let deliveries = Deliveries { queue: receiver, queued: Arc::clone(&queued) };
        let (overflow, views) = (CancellationToken::new(), Views::default());
        (Self { id, queue, queued, overflow, views }, deliveries)
    }

    /// Who this is.
    pub fn id(&self) -> SubscriberId {
        self.id
    }

    /// Fires when the queue was full and the subscriber has been cut off.
    pub fn overflow(&self) -> &CancellationToken {
        &self.overflow
    }

    /// Where the turns of a chat begin that it was sent; `None` if nobody knows.
    pub(crate) fn first_turn(&self, chat: &str) -> Option<Beginning> {
        self.views.lock().get(chat).copied()
    }

    /// The turns of a chat that it has begin here. Must run in sequence order.
    pub(crate) fn turns_begin(&self, chat: &Arc<str>, first: usize) {
        self.views.lock().insert(Arc::clone(chat), Beginning { first, sure: true });
    }

    /// It takes the place of an earlier connection, whose client has kept what it was sent.
    pub(crate) fn takes_over(&self, earlier: &Views) {
        let mut earlier = earlier.lock().clone();
        earlier.values_mut().for_each(|beginning| beginning.sure = false);
        *self.views.lock() = earlier;
    }

    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// Returns when nobody reads the queue any more.
    pub(crate) async fn gone(&self) {
        self.queue.closed().await;
    }

    /// Puts something into the queue behind everything that is there. `false` if the subscriber is cut off.
    pub fn deliver(&self, delivery: Delivery) -> bool {
        if self.overflow.is_cancelled() {
            return false;
        }
        let size = delivery.size();
        let before = self.queued.fetch_add(size, Ordering::AcqRel);
        if size > 0 && before > 0 && before + size > MAX_QUEUED {
            self.overflow.cancel();
            return false;
        }
        match self.queue.try_send(delivery) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.overflow.cancel();
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

/// How much memory the envelopes may take that wait for one subscriber.
const MAX_QUEUED: usize = 64 * 1024 * 1024;

/// A subscriber's queue, from the other end.
#[derive(Debug)]
pub struct Deliveries {
    queue: mpsc::Receiver<Delivery>,
    queued: Arc<AtomicUsize>,
}

impl Deliveries {
    /// The next delivery; `None` when there will be no more. May be dropped and asked again.
    pub async fn recv(&mut self) -> Option<Delivery> {
        let delivery = self.queue.recv().await?;
        self.taken(&delivery);
        Some(delivery)
    }

    /// The next deliveries, at most so many; how many there were, 0 when there will be no more.
    pub async fn recv_many(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        let count = self.queue.recv_many(into, most).await;
        into.iter().rev().take(count).for_each(|delivery| self.taken(delivery));
        count
    }

    /// The next delivery, if it is there.
    ///
    /// # Errors
    /// If it is not.
    pub fn try_recv(&mut self) -> Result<Delivery, mpsc::error::TryRecvError> {
        let delivery = self.queue.try_recv()?;
        self.taken(&delivery);
        Ok(delivery)
    }

    /// Whether nothing is there now.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn taken(&self, delivery: &Delivery) {
        self.queued.fetch_sub(delivery.size(), Ordering::AcqRel);
    }
}

/// What arrives in a subscriber's queue, in order.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// A numbered action.
    Envelope(Arc<Published>),
    /// A catalogue event, not numbered.
    Notice(Arc<Notice>),
    /// The answer to a reconnection: what the client missed on its channels. Every later envelope is newer.
    Replay {
        /// The caller's name for the request.
        token: u64,
        /// In order; `None` if the past does not reach back that far any more and snapshots are needed.
        missed: Option<Vec<Arc<Published>>>,
    },
    /// The answer to a wish for older turns of a chat.
    Turns {
        /// The caller's name for the request.
        token: u64,
        /// The action that loads them, which nobody else hears; `None` if the connection has another view by now.
        loaded: Option<Arc<Published>>,
    },
    /// The answer to a subscription: what the channel was at that number. Every later envelope is newer.
    Snapshot {
        /// The caller's name for the request.
        token: u64,
        /// The state, and since when it holds.
        snapshot: SnapshotAt,
    },
}

impl Delivery {
    /// About how much memory an envelope takes; the rest is few, and asked for.
    fn size(&self) -> usize {
        match self {
            Self::Envelope(item) => item.size(),
            _ => 0,
        }
    }
}

/// A channel's state at a number.
#[derive(Debug, Clone)]
pub struct SnapshotAt {
    /// The channel.
    pub resource: Arc<str>,
    /// Its state.
    pub state: ChannelState,
    /// Turns that come before those of the state, if it is a chat of which memory does not hold all.
    pub older: Option<OlderTurns>,
    /// The last number that the state includes.
    pub from_seq: u64,
}

/// A catalogue event.
pub struct Notice {
    /// What happened.
    pub kind: NoticeKind,
    frame: OnceLock<Bytes>,
}

// A summary has a title that somebody wrote.
impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notice({})", variant(&self.kind))
    }
}

/// The kinds of notices.
#[derive(Debug, Clone)]
pub enum NoticeKind {
    /// A sign-in is not good any more, and somebody has to sign in again.
    SignInOver(Box<ProtectedResourceMetadata>),
    /// Something that one client waits for has come this far.
    Progress(Box<Progress>),
    /// A session is there.
    SessionAdded(Box<SessionSummary>),
    /// A session is gone.
    SessionRemoved(Arc<str>),
    /// A session's line in the list changed.
    SessionSummaryChanged {
        /// The session.
        session: Arc<str>,
        /// The fields that changed.
        changes: Box<PartialSessionSummary>,
    },
}

impl Notice {
    pub(crate) fn new(kind: NoticeKind) -> Self {
        Self { kind, frame: OnceLock::new() }
    }

    /// The wire frame, made by whoever needs it first.
    pub fn frame(&self, encode: impl FnOnce(&NoticeKind) -> Bytes) -> Bytes {
        self.frame.get_or_init(|| encode(&self.kind)).clone()
    }
}

/// How much of the recent past is held in memory for clients that come back.
const PAST_BYTES: usize = 64 * 1024 * 1024;

/// The same for what terminals show, which can be much: it must not drive out what sessions say.
const TERMINALS_PAST_BYTES: usize = 8 * 1024 * 1024;

/// Which subscribers hear which channel, and what was said recently.
#[derive(Debug)]
pub(crate) struct Hub {
    channels: Mutex<HashMap<Arc<str>, Vec<Subscriber>>>,
    past: Mutex<Past>,
    terminals_past: Mutex<Past>,
    pub(crate) clients: Clients,
}

/// The recent past: every envelope with a number above `from`.
#[derive(Debug)]
struct Past {
    items: VecDeque<Arc<Published>>,
    from: u64,
    bytes: usize,
    limit: usize,
}

impl Past {
    fn push(&mut self, item: &Arc<Published>) {
        self.bytes += item.size();
        self.items.push_back(Arc::clone(item));
        while self.bytes > self.limit {
            let Some(oldest) = self.items.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.size());
            self.from = oldest.seq;
        }
    }

    fn since(&self, after: u64, channels: &HashSet<Arc<str>>) -> Vec<Arc<Published>> {
        let start = self.items.partition_point(|item| item.seq <= after);
        self.items.range(start..).filter(|item| channels.contains(&item.channel)).cloned().collect()
    }
}

impl Hub {
    /// A hub that begins at this moment of the host's clock.
    pub(crate) fn new(began: Duration) -> Self {
        let past = |limit| Mutex::new(Past { items: VecDeque::new(), from: 0, bytes: 0, limit });
        let (past, terminals_past) = (past(PAST_BYTES), past(TERMINALS_PAST_BYTES));
        Self { channels: Mutex::default(), past, terminals_past, clients: Clients::new(began) }
    }

    /// This life's numbers are all above `seq`.
    pub(crate) fn begin(&self, seq: u64) {
        for of_terminal in [false, true] {
            let mut past = self.past(of_terminal);
            past.from = past.from.max(seq);
        }
    }

    /// What terminals have shown up to this number is not told any more: whoever missed some of it needs snapshots.
    pub(crate) fn forget_terminals(&self, seq: u64) {
        let mut past = self.past(true);
        past.items.retain(|item| item.seq > seq);
        past.bytes = past.items.iter().map(|item| item.size()).sum();
        past.from = past.from.max(seq);
    }

    fn past(&self, of_terminal: bool) -> MutexGuard<'_, Past> {
        let past = if of_terminal { &self.terminals_past } else { &self.past };
        past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every envelope of these channels above this number is held.
    pub(crate) fn past_from<'a>(&self, channels: impl IntoIterator<Item = &'a (impl AsRef<str> + 'a)>) -> u64 {
        let from = self.past(false).from;
        match channels.into_iter().any(|channel| uri::is_terminal(channel.as_ref())) {
            true => from.max(self.past(true).from),
            false => from,
        }
    }

    /// What was said on some channels after a number; `None` if that is too long ago. Must run in sequence order.
    pub(crate) fn replay(&self, after: u64, channels: &HashSet<Arc<str>>) -> Option<Vec<Arc<Published>>> {
        if after < self.past_from(channels) {
            return None;
        }
        let mut missed = self.past(false).since(after, channels);
        let shown = self.past(true).since(after, channels);
        if !shown.is_empty() {
            missed.extend(shown);
            missed.sort_by_key(|item| item.seq);
        }
        Some(missed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<Subscriber>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the subscriber hears the channel. Must run in sequence order.
    pub(crate) fn subscribe(&self, channel: &Arc<str>, subscriber: &Subscriber) {
        let mut channels = self.lock();
        let list = channels.entry(Arc::clone(channel)).or_default();
        if !list.iter().any(|known| known.id == subscriber.id) {
            list.push(subscriber.clone());
        }
    }

    pub(crate) fn unsubscribe(&self, channel: &str, id: SubscriberId) {
        let mut channels = self.lock();
        if let Some(list) = channels.get_mut(channel) {
            for gone in list.extract_if(.., |known| known.id == id) {
                gone.views.lock().remove(channel);
            }
            if list.is_empty() {
                channels.remove(channel);
            }
        }
    }

    /// The subscriber is gone.
    pub(crate) fn forget(&self, id: SubscriberId) {
        self.lock().retain(|_, list| {
            list.retain(|known| known.id != id);
            !list.is_empty()
        });
    }

    /// Whether somebody hears a channel.
    pub(crate) fn hears(&self, channel: &str, id: SubscriberId) -> bool {
        self.lock().get(channel).is_some_and(|list| list.iter().any(|known| known.id == id))
    }

    /// Whether anybody hears the channel.
    pub(crate) fn is_heard(&self, channel: &str) -> bool {
        self.lock().contains_key(channel)
    }

    /// The channel is gone.
    pub(crate) fn close(&self, channel: &str) {
        self.lock().remove(channel);
    }

    /// Tells everybody who hears `channel`. Must run in sequence order.
    pub(crate) fn notify(&self, channel: &str, kind: NoticeKind) {
        let notice = Arc::new(Notice::new(kind));
        self.each(channel, |subscriber| subscriber.deliver(Delivery::Notice(Arc::clone(&notice))));
    }

    /// Hands the newest envelope to a subscriber, unless it hears the channel anyway. Must run in sequence order.
    pub(crate) fn hand(&self, seq: u64, subscriber: &Subscriber) {
        let newest = |of_terminal| self.past(of_terminal).items.back().filter(|item| item.seq == seq).cloned();
        let Some(item) = newest(false).or_else(|| newest(true)) else { return };
        if !self.hears(&item.channel, subscriber.id) {
            subscriber.deliver(Delivery::Envelope(item));
        }
    }

    fn each(&self, channel: &str, mut deliver: impl FnMut(&Subscriber) -> bool) {
        let mut channels = self.lock();
        let Some(list) = channels.get_mut(channel) else { return };
        list.retain(|subscriber| deliver(subscriber));
        if list.is_empty() {
            channels.remove(channel);
        }
    }
}

impl Publisher for Hub {
    fn publish(&self, item: &Arc<Published>) {
        self.past(uri::is_terminal(&item.channel)).push(item);
        self.clients.remember(item);
        self.each(&item.channel, |subscriber| subscriber.deliver(Delivery::Envelope(Arc::clone(item))));
    }
}

#[cfg(test)]
mod tests {
    use ahp_types::StateAction;
    use ahp_types::actions::TerminalDataAction;

    use super::*;

    const TERMINAL: &str = "ahp-terminal:/1";
    const SESSION: &str = "claude:/1";

    /// An envelope that takes about so much memory.
    fn envelope(seq: u64, channel: &str, size: usize) -> Arc<Published> {
        let action = StateAction::TerminalData(TerminalDataAction { data: String::new() });
        Arc::new(Published::stored(seq, channel.into(), action, "x".repeat(size / 3).into(), None))
    }

    #[test]
    fn a_subscriber_that_does_not_read_is_cut_off_by_bytes() {
        let (subscriber, mut deliveries) = Subscriber::new(10_000);
        let large = envelope(1, TERMINAL, MAX_QUEUED / 4);
        let deliver = || subscriber.deliver(Delivery::Envelope(Arc::clone(&large)));
        // Whoever reads can be told any amount.
        for _ in 0..20 {
            assert!(deliver());
            assert!(deliveries.try_recv().is_ok());
        }
        assert_eq!((0..20).take_while(|_| deliver()).count(), 3);
        assert!(subscriber.overflow().is_cancelled());
    }

    #[test]
    fn one_envelope_may_be_larger_than_the_queue() {
        let (subscriber, _deliveries) = Subscriber::new(10);
        assert!(subscriber.deliver(Delivery::Envelope(envelope(1, TERMINAL, 2 * MAX_QUEUED))));
        assert!(!subscriber.deliver(Delivery::Envelope(envelope(2, TERMINAL, 1))));
    }

    #[test]
    fn a_terminal_that_floods_does_not_drive_out_what_sessions_said() {
        let hub = Hub::new(Duration::ZERO);
        hub.begin(0);
        hub.publish(&envelope(1, SESSION, 300));
        for seq in 2..100 {
            hub.publish(&envelope(seq, TERMINAL, TERMINALS_PAST_BYTES / 10));
        }
        hub.publish(&envelope(100, SESSION, 300));
        let channels = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<HashSet<Arc<str>>>();
        let numbers = |after, names: &[&str]| {
            let missed = hub.replay(after, &channels(names))?;
            Some(missed.iter().map(|item| item.seq).collect::<Vec<_>>())
        };
        assert_eq!(numbers(0, &[SESSION]), Some(vec![1, 100]));
        assert_eq!(numbers(0, &[SESSION, TERMINAL]), None, "too much was shown meanwhile");
        assert_eq!(numbers(98, &[SESSION, TERMINAL]), Some(vec![99, 100]), "in the order of numbers");
        hub.forget_terminals(100);
        assert_eq!(numbers(98, &[SESSION, TERMINAL]), None, "one of them is gone");
        assert_eq!(numbers(100, &[SESSION, TERMINAL]), Some(vec![]));
        assert_eq!((hub.past_from(&[SESSION]), hub.past_from(&[TERMINAL]) > 80), (0, true));
    }
}
