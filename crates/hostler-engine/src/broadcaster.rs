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
use hostler_redact::variant_name;
use hostler_store::{PublishedAction, Publisher};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client_registry::ClientRegistry;
use crate::paging::OlderTurns;
use crate::progress::ProgressUpdate;
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
    queued_bytes: Arc<AtomicUsize>,
    overflow: CancellationToken,
    turn_windows: TurnWindows,
}

/// Where the turns begin that a connection was sent, by chat.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnWindows(Arc<Mutex<HashMap<Arc<str>, TurnWindow>>>);

/// Where a connection's turns of a chat begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnWindow {
    pub(crate) first_turn: usize,
    /// Whether it was this connection that was sent them. What an earlier one was sent last may never have arrived.
    pub(crate) is_confirmed: bool,
}

impl TurnWindows {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, TurnWindow>> {
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
        let deliveries = Deliveries { queue: receiver, queued_bytes: Arc::clone(&queued) };
        let (overflow, views) = (CancellationToken::new(), TurnWindows::default());
        (Self { id, queue, queued_bytes: queued, overflow, turn_windows: views }, deliveries)
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
    pub(crate) fn turn_window(&self, chat: &str) -> Option<TurnWindow> {
        self.turn_windows.lock().get(chat).copied()
    }

    /// The turns of a chat that it has begin here. Must run in sequence order.
    pub(crate) fn set_turn_window(&self, chat: &Arc<str>, first: usize) {
        self.turn_windows.lock().insert(Arc::clone(chat), TurnWindow { first_turn: first, is_confirmed: true });
    }

    /// It takes the place of an earlier connection, whose client has kept what it was sent.
    pub(crate) fn inherit_turn_windows(&self, earlier: &TurnWindows) {
        let mut earlier = earlier.lock().clone();
        earlier.values_mut().for_each(|beginning| beginning.is_confirmed = false);
        *self.turn_windows.lock() = earlier;
    }

    pub(crate) fn turn_windows(&self) -> &TurnWindows {
        &self.turn_windows
    }

    /// Returns when nobody reads the queue any more.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Puts something into the queue behind everything that is there. `false` if the subscriber is cut off.
    pub fn deliver(&self, delivery: Delivery) -> bool {
        if self.overflow.is_cancelled() {
            return false;
        }
        let size = delivery.queued_bytes();
        let before = self.queued_bytes.fetch_add(size, Ordering::AcqRel);
        if size > 0 && before > 0 && before + size > SUBSCRIBER_QUEUE_MAX_BYTES {
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
const SUBSCRIBER_QUEUE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// A subscriber's queue, from the other end.
#[derive(Debug)]
pub struct Deliveries {
    queue: mpsc::Receiver<Delivery>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Deliveries {
    /// The next delivery; `None` when there will be no more. May be dropped and asked again.
    pub async fn recv(&mut self) -> Option<Delivery> {
        let delivery = self.queue.recv().await?;
        self.release_queued_bytes(&delivery);
        Some(delivery)
    }

    /// The next deliveries, at most so many; how many there were, 0 when there will be no more.
    pub async fn recv_many(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        let count = self.queue.recv_many(into, most).await;
        into.iter().rev().take(count).for_each(|delivery| self.release_queued_bytes(delivery));
        count
    }

    /// The next delivery, if it is there.
    ///
    /// # Errors
    /// If it is not.
    pub fn try_recv(&mut self) -> Result<Delivery, mpsc::error::TryRecvError> {
        let delivery = self.queue.try_recv()?;
        self.release_queued_bytes(&delivery);
        Ok(delivery)
    }

    /// Whether nothing is there now.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn release_queued_bytes(&self, delivery: &Delivery) {
        self.queued_bytes.fetch_sub(delivery.queued_bytes(), Ordering::AcqRel);
    }
}

/// What arrives in a subscriber's queue, in order.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// A numbered action.
    Envelope(Arc<PublishedAction>),
    /// A catalogue event, not numbered.
    Notification(Arc<HostNotification>),
    /// The answer to a reconnection: what the client missed on its channels. Every later envelope is newer.
    Replay {
        /// The caller's name for the request.
        token: u64,
        /// In order; `None` if the past does not reach back that far any more and snapshots are needed.
        missed: Option<Vec<Arc<PublishedAction>>>,
    },
    /// The answer to a wish for older turns of a chat.
    TurnsLoaded {
        /// The caller's name for the request.
        token: u64,
        /// The action that loads them, which nobody else hears; `None` if the connection has another view by now.
        envelope: Option<Arc<PublishedAction>>,
    },
    /// The answer to a subscription: what the channel was at that number. Every later envelope is newer.
    Snapshot {
        /// The caller's name for the request.
        token: u64,
        /// The state, and since when it holds.
        snapshot: ChannelSnapshot,
    },
}

impl Delivery {
    /// About how much memory an envelope takes; the rest is few, and asked for.
    fn queued_bytes(&self) -> usize {
        match self {
            Self::Envelope(item) => item.memory_bytes(),
            _ => 0,
        }
    }
}

/// A channel's state at a number.
#[derive(Debug, Clone)]
pub struct ChannelSnapshot {
    /// The channel.
    pub resource: Arc<str>,
    /// Its state.
    pub state: ChannelState,
    /// Turns that come before those of the state, if it is a chat of which memory does not hold all.
    pub older_turns: Option<OlderTurns>,
    /// The last number that the state includes.
    pub from_seq: u64,
}

/// A catalogue event.
pub struct HostNotification {
    /// What happened.
    pub kind: HostNotificationKind,
    frame: OnceLock<Bytes>,
}

// A summary has a title that somebody wrote.
impl fmt::Debug for HostNotification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notice({})", variant_name(&self.kind))
    }
}

/// The kinds of notices.
#[derive(Debug, Clone)]
pub enum HostNotificationKind {
    /// A sign-in is not good any more, and somebody has to sign in again.
    SignInExpired(Box<ProtectedResourceMetadata>),
    /// Something that one client waits for has come this far.
    Progress(Box<ProgressUpdate>),
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

impl HostNotification {
    pub(crate) fn new(kind: HostNotificationKind) -> Self {
        Self { kind, frame: OnceLock::new() }
    }

    /// The wire frame, made by whoever needs it first.
    pub fn frame(&self, encode: impl FnOnce(&HostNotificationKind) -> Bytes) -> Bytes {
        self.frame.get_or_init(|| encode(&self.kind)).clone()
    }
}

/// How much of the recent past is held in memory for clients that come back.
const REPLAY_BUFFER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The same for what terminals show, which can be much: it must not drive out what sessions say.
const TERMINAL_REPLAY_BUFFER_MAX_BYTES: usize = 8 * 1024 * 1024;

/// Which subscribers hear which channel, and what was said recently.
#[derive(Debug)]
pub(crate) struct Broadcaster {
    channels: Mutex<HashMap<Arc<str>, Vec<Subscriber>>>,
    replay_buffer: Mutex<ReplayBuffer>,
    terminal_replay_buffer: Mutex<ReplayBuffer>,
    pub(crate) clients: ClientRegistry,
}

/// The recent past: every envelope with a number above `from`.
#[derive(Debug)]
struct ReplayBuffer {
    items: VecDeque<Arc<PublishedAction>>,
    floor_seq: u64,
    bytes: usize,
    max_bytes: usize,
}

impl ReplayBuffer {
    fn push(&mut self, item: &Arc<PublishedAction>) {
        self.bytes += item.memory_bytes();
        self.items.push_back(Arc::clone(item));
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.items.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.memory_bytes());
            self.floor_seq = oldest.seq;
        }
    }

    fn envelopes_since(&self, after: u64, channels: &HashSet<Arc<str>>) -> Vec<Arc<PublishedAction>> {
        let start = self.items.partition_point(|item| item.seq <= after);
        self.items.range(start..).filter(|item| channels.contains(&item.channel)).cloned().collect()
    }
}

impl Broadcaster {
    /// A hub that begins at this moment of the host's clock.
    pub(crate) fn new(began: Duration) -> Self {
        let past =
            |limit| Mutex::new(ReplayBuffer { items: VecDeque::new(), floor_seq: 0, bytes: 0, max_bytes: limit });
        let (replay_buffer, terminal_replay_buffer) =
            (past(REPLAY_BUFFER_MAX_BYTES), past(TERMINAL_REPLAY_BUFFER_MAX_BYTES));
        Self { channels: Mutex::default(), replay_buffer, terminal_replay_buffer, clients: ClientRegistry::new(began) }
    }

    /// This life's numbers are all above `seq`.
    pub(crate) fn set_replay_floor(&self, seq: u64) {
        for of_terminal in [false, true] {
            let mut past = self.lock_replay_buffer(of_terminal);
            past.floor_seq = past.floor_seq.max(seq);
        }
    }

    /// What terminals have shown up to this number is not told any more: whoever missed some of it needs snapshots.
    pub(crate) fn discard_terminal_replay(&self, seq: u64) {
        let mut past = self.lock_replay_buffer(true);
        past.items.retain(|item| item.seq > seq);
        past.bytes = past.items.iter().map(|item| item.memory_bytes()).sum();
        past.floor_seq = past.floor_seq.max(seq);
    }

    fn lock_replay_buffer(&self, of_terminal: bool) -> MutexGuard<'_, ReplayBuffer> {
        let past = if of_terminal { &self.terminal_replay_buffer } else { &self.replay_buffer };
        past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every envelope of these channels above this number is held.
    pub(crate) fn replay_floor<'a>(&self, channels: impl IntoIterator<Item = &'a (impl AsRef<str> + 'a)>) -> u64 {
        let from = self.lock_replay_buffer(false).floor_seq;
        match channels.into_iter().any(|channel| uri::is_terminal_channel(channel.as_ref())) {
            true => from.max(self.lock_replay_buffer(true).floor_seq),
            false => from,
        }
    }

    /// What was said on some channels after a number; `None` if that is too long ago. Must run in sequence order.
    pub(crate) fn replay(&self, after: u64, channels: &HashSet<Arc<str>>) -> Option<Vec<Arc<PublishedAction>>> {
        if after < self.replay_floor(channels) {
            return None;
        }
        let mut missed = self.lock_replay_buffer(false).envelopes_since(after, channels);
        let shown = self.lock_replay_buffer(true).envelopes_since(after, channels);
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
                gone.turn_windows.lock().remove(channel);
            }
            if list.is_empty() {
                channels.remove(channel);
            }
        }
    }

    /// The subscriber is gone.
    pub(crate) fn remove_subscriber(&self, id: SubscriberId) {
        self.lock().retain(|_, list| {
            list.retain(|known| known.id != id);
            !list.is_empty()
        });
    }

    /// Whether somebody hears a channel.
    pub(crate) fn is_subscribed(&self, channel: &str, id: SubscriberId) -> bool {
        self.lock().get(channel).is_some_and(|list| list.iter().any(|known| known.id == id))
    }

    /// Whether anybody hears the channel.
    pub(crate) fn has_subscribers(&self, channel: &str) -> bool {
        self.lock().contains_key(channel)
    }

    /// The channel is gone.
    pub(crate) fn close_channel(&self, channel: &str) {
        self.lock().remove(channel);
    }

    /// Tells everybody who hears `channel`. Must run in sequence order.
    pub(crate) fn notify(&self, channel: &str, kind: HostNotificationKind) {
        let notice = Arc::new(HostNotification::new(kind));
        self.deliver_to_subscribers(channel, |subscriber| {
            subscriber.deliver(Delivery::Notification(Arc::clone(&notice)))
        });
    }

    /// Hands the newest envelope to a subscriber, unless it hears the channel anyway. Must run in sequence order.
    pub(crate) fn deliver_latest(&self, seq: u64, subscriber: &Subscriber) {
        let newest =
            |of_terminal| self.lock_replay_buffer(of_terminal).items.back().filter(|item| item.seq == seq).cloned();
        let Some(item) = newest(false).or_else(|| newest(true)) else { return };
        if !self.is_subscribed(&item.channel, subscriber.id) {
            subscriber.deliver(Delivery::Envelope(item));
        }
    }

    fn deliver_to_subscribers(&self, channel: &str, mut deliver: impl FnMut(&Subscriber) -> bool) {
        let mut channels = self.lock();
        let Some(list) = channels.get_mut(channel) else { return };
        list.retain(|subscriber| deliver(subscriber));
        if list.is_empty() {
            channels.remove(channel);
        }
    }
}

impl Publisher for Broadcaster {
    fn publish(&self, item: &Arc<PublishedAction>) {
        self.lock_replay_buffer(uri::is_terminal_channel(&item.channel)).push(item);
        self.clients.remember_answer(item);
        self.deliver_to_subscribers(&item.channel, |subscriber| {
            subscriber.deliver(Delivery::Envelope(Arc::clone(item)))
        });
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
    fn envelope(seq: u64, channel: &str, size: usize) -> Arc<PublishedAction> {
        let action = StateAction::TerminalData(TerminalDataAction { data: String::new() });
        Arc::new(PublishedAction::from_journal(seq, channel.into(), action, "x".repeat(size / 3).into(), None))
    }

    #[test]
    fn a_subscriber_that_does_not_read_is_cut_off_by_bytes() {
        let (subscriber, mut deliveries) = Subscriber::new(10_000);
        let large = envelope(1, TERMINAL, SUBSCRIBER_QUEUE_MAX_BYTES / 4);
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
        assert!(subscriber.deliver(Delivery::Envelope(envelope(1, TERMINAL, 2 * SUBSCRIBER_QUEUE_MAX_BYTES))));
        assert!(!subscriber.deliver(Delivery::Envelope(envelope(2, TERMINAL, 1))));
    }

    #[test]
    fn a_terminal_that_floods_does_not_drive_out_what_sessions_said() {
        let hub = Broadcaster::new(Duration::ZERO);
        hub.set_replay_floor(0);
        hub.publish(&envelope(1, SESSION, 300));
        for seq in 2..100 {
            hub.publish(&envelope(seq, TERMINAL, TERMINAL_REPLAY_BUFFER_MAX_BYTES / 10));
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
        hub.discard_terminal_replay(100);
        assert_eq!(numbers(98, &[SESSION, TERMINAL]), None, "one of them is gone");
        assert_eq!(numbers(100, &[SESSION, TERMINAL]), Some(vec![]));
        assert_eq!((hub.replay_floor(&[SESSION]), hub.replay_floor(&[TERMINAL]) > 80), (0, true));
    }
}
