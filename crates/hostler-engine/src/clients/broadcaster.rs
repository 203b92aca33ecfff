//! The broadcaster: delivers envelopes and notifications to the subscribers of channels.
//!
//! Owns subscribers, their queues and the replay buffers. Called under the sequencer's lock, in sequence order, so that
//! every subscriber sees one order. A subscriber whose queue is full is disconnected: it reconnects and receives what
//! it missed; single envelopes are never dropped.

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

use crate::agents::install_progress::ProgressUpdate;
use crate::clients::registry::ClientRegistry;
use crate::sessions::paging::OlderTurns;
use crate::sessions::state::ChannelState;
use crate::uri;

/// Identifies a subscriber within this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubscriberId(u64);

/// The sending end of one connection's queue.
#[derive(Debug, Clone)]
pub struct Subscriber {
    id: SubscriberId,
    queue: mpsc::Sender<Delivery>,
    /// Approximate memory of the queued envelopes.
    queued_bytes: Arc<AtomicUsize>,
    overflow: CancellationToken,
    turn_windows: TurnWindows,
}

/// The first turn that a connection has, by chat.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnWindows(Arc<Mutex<HashMap<Arc<str>, TurnWindow>>>);

/// The first turn of a chat that a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TurnWindow {
    pub(crate) first_turn: usize,
    /// Whether this connection received them. The last turns that an earlier connection was sent may not have arrived.
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

    /// The subscriber's id.
    pub fn id(&self) -> SubscriberId {
        self.id
    }

    /// Cancelled when the queue is full and the subscriber is disconnected.
    pub fn overflow(&self) -> &CancellationToken {
        &self.overflow
    }

    /// The first turn of a chat that the connection has; `None` if unknown.
    pub(crate) fn turn_window(&self, chat: &str) -> Option<TurnWindow> {
        self.turn_windows.lock().get(chat).copied()
    }

    /// Sets the first turn of a chat that the connection has. Must run in sequence order.
    pub(crate) fn set_turn_window(&self, chat: &Arc<str>, first: usize) {
        self.turn_windows.lock().insert(Arc::clone(chat), TurnWindow { first_turn: first, is_confirmed: true });
    }

    /// Inherits the windows of an earlier connection, whose client still has its turns.
    pub(crate) fn inherit_turn_windows(&self, earlier: &TurnWindows) {
        let mut earlier = earlier.lock().clone();
        earlier.values_mut().for_each(|beginning| beginning.is_confirmed = false);
        *self.turn_windows.lock() = earlier;
    }

    pub(crate) fn turn_windows(&self) -> &TurnWindows {
        &self.turn_windows
    }

    /// Returns when the receiving end is dropped.
    pub(crate) async fn closed(&self) {
        self.queue.closed().await;
    }

    /// Appends a delivery to the queue. `false` if the subscriber is disconnected.
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

/// Maximum memory of the envelopes in one subscriber's queue.
const SUBSCRIBER_QUEUE_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The receiving end of a subscriber's queue.
#[derive(Debug)]
pub struct Deliveries {
    queue: mpsc::Receiver<Delivery>,
    queued_bytes: Arc<AtomicUsize>,
}

impl Deliveries {
    /// The next delivery; `None` when there are no more. Cancel-safe.
    pub async fn recv(&mut self) -> Option<Delivery> {
        let delivery = self.queue.recv().await?;
        self.release_queued_bytes(&delivery);
        Some(delivery)
    }

    /// The next deliveries, at most `most`; returns their number, 0 when there are no more.
    pub async fn recv_many(&mut self, into: &mut Vec<Delivery>, most: usize) -> usize {
        let count = self.queue.recv_many(into, most).await;
        into.iter().rev().take(count).for_each(|delivery| self.release_queued_bytes(delivery));
        count
    }

    /// The next delivery, if one is available.
    ///
    /// # Errors
    /// If none is available.
    pub fn try_recv(&mut self) -> Result<Delivery, mpsc::error::TryRecvError> {
        let delivery = self.queue.try_recv()?;
        self.release_queued_bytes(&delivery);
        Ok(delivery)
    }

    /// Whether no delivery is available now.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn release_queued_bytes(&self, delivery: &Delivery) {
        self.queued_bytes.fetch_sub(delivery.queued_bytes(), Ordering::AcqRel);
    }
}

/// An item of a subscriber's queue, in order.
#[derive(Debug, Clone)]
pub enum Delivery {
    /// A numbered action.
    Envelope(Arc<PublishedAction>),
    /// A catalog event, not numbered.
    Notification(Arc<HostNotification>),
    /// The answer to a reconnect: the envelopes that the client missed on its channels. Every later envelope is newer.
    Replay {
        /// The caller's id of the request.
        token: u64,
        /// In order; `None` if the replay does not reach back far enough and snapshots are needed.
        missed: Option<Vec<Arc<PublishedAction>>>,
    },
    /// The answer to a request for older turns of a chat.
    TurnsLoaded {
        /// The caller's id of the request.
        token: u64,
        /// The unicast action that loads them; `None` if the connection has another view by now.
        envelope: Option<Arc<PublishedAction>>,
    },
    /// The answer to a subscription: the state of the channel at a sequence number. Every later envelope is newer.
    Snapshot {
        /// The caller's id of the request.
        token: u64,
        /// The state, and its sequence number.
        snapshot: ChannelSnapshot,
    },
}

impl Delivery {
    /// Approximate memory of an envelope; other deliveries are few and requested, and do not count.
    fn queued_bytes(&self) -> usize {
        match self {
            Self::Envelope(item) => item.memory_bytes(),
            _ => 0,
        }
    }
}

/// A channel's state at a sequence number.
#[derive(Debug, Clone)]
pub struct ChannelSnapshot {
    /// The channel.
    pub resource: Arc<str>,
    /// Its state.
    pub state: ChannelState,
    /// Turns before those of the state, if some of a chat's turns are not in memory.
    pub older_turns: Option<OlderTurns>,
    /// The last sequence number that the state includes.
    pub from_seq: u64,
}

/// A catalog event.
pub struct HostNotification {
    /// What happened.
    pub kind: HostNotificationKind,
    frame: OnceLock<Bytes>,
}

// Redacted, because a summary contains a title that a person wrote.
impl fmt::Debug for HostNotification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notice({})", variant_name(&self.kind))
    }
}

/// The kinds of notifications.
#[derive(Debug, Clone)]
pub enum HostNotificationKind {
    /// A sign-in has expired and is needed again.
    SignInExpired(Box<ProtectedResourceMetadata>),
    /// Progress of an operation that one client waits for.
    Progress(Box<ProgressUpdate>),
    /// A session was added to the list.
    SessionAdded(Box<SessionSummary>),
    /// A session was removed from the list.
    SessionRemoved(Arc<str>),
    /// A session's summary changed.
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

    /// The wire frame, encoded at the first use and shared.
    pub fn frame(&self, encode: impl FnOnce(&HostNotificationKind) -> Bytes) -> Bytes {
        self.frame.get_or_init(|| encode(&self.kind)).clone()
    }
}

/// Maximum memory of recent envelopes for clients that reconnect.
const REPLAY_BUFFER_MAX_BYTES: usize = 64 * 1024 * 1024;

/// The same for envelopes of terminals, which can be many: they must not evict envelopes of sessions.
const TERMINAL_REPLAY_BUFFER_MAX_BYTES: usize = 8 * 1024 * 1024;

/// The subscribers of channels, and the recent envelopes.
#[derive(Debug)]
pub(crate) struct Broadcaster {
    channels: Mutex<HashMap<Arc<str>, Vec<Subscriber>>>,
    replay_buffer: Mutex<ReplayBuffer>,
    terminal_replay_buffer: Mutex<ReplayBuffer>,
    clients: ClientRegistry,
}

/// Recent envelopes: all with a sequence number above `from`.
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
    /// A broadcaster that starts at this time of the host's clock.
    pub(crate) fn new(began: Duration) -> Self {
        let past =
            |limit| Mutex::new(ReplayBuffer { items: VecDeque::new(), floor_seq: 0, bytes: 0, max_bytes: limit });
        let (replay_buffer, terminal_replay_buffer) =
            (past(REPLAY_BUFFER_MAX_BYTES), past(TERMINAL_REPLAY_BUFFER_MAX_BYTES));
        Self { channels: Mutex::default(), replay_buffer, terminal_replay_buffer, clients: ClientRegistry::new(began) }
    }

    pub(crate) fn clients(&self) -> &ClientRegistry {
        &self.clients
    }

    /// Raises the replay floor: all sequence numbers of this process are above `seq`.
    pub(crate) fn set_replay_floor(&self, seq: u64) {
        for of_terminal in [false, true] {
            let mut past = self.lock_replay_buffer(of_terminal);
            past.floor_seq = past.floor_seq.max(seq);
        }
    }

    /// Discards envelopes of terminals up to this number: clients that missed some of them need snapshots.
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

    /// The number above which all envelopes of these channels are in the buffers.
    pub(crate) fn replay_floor<'a>(&self, channels: impl IntoIterator<Item = &'a (impl AsRef<str> + 'a)>) -> u64 {
        let from = self.lock_replay_buffer(false).floor_seq;
        match channels.into_iter().any(|channel| uri::is_terminal_channel(channel.as_ref())) {
            true => from.max(self.lock_replay_buffer(true).floor_seq),
            false => from,
        }
    }

    /// The envelopes of some channels after a number; `None` if the buffers do not reach back that far. Must run in
    /// sequence order.
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

    /// Subscribes to the channel. Must run in sequence order.
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

    /// Removes a subscriber.
    pub(crate) fn remove_subscriber(&self, id: SubscriberId) {
        self.lock().retain(|_, list| {
            list.retain(|known| known.id != id);
            !list.is_empty()
        });
    }

    /// Whether a subscriber is subscribed to a channel.
    pub(crate) fn is_subscribed(&self, channel: &str, id: SubscriberId) -> bool {
        self.lock().get(channel).is_some_and(|list| list.iter().any(|known| known.id == id))
    }

    /// Whether the channel has subscribers.
    pub(crate) fn has_subscribers(&self, channel: &str) -> bool {
        self.lock().contains_key(channel)
    }

    /// Removes a channel.
    pub(crate) fn close_channel(&self, channel: &str) {
        self.lock().remove(channel);
    }

    /// Notifies all subscribers of `channel`. Must run in sequence order.
    pub(crate) fn notify(&self, channel: &str, kind: HostNotificationKind) {
        let notice = Arc::new(HostNotification::new(kind));
        self.deliver_to_subscribers(channel, |subscriber| {
            subscriber.deliver(Delivery::Notification(Arc::clone(&notice)))
        });
    }

    /// Delivers the newest envelope to a subscriber, unless it is subscribed to the channel. Must run in sequence
    /// order.
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

    /// An envelope of about this size in memory.
    fn envelope(seq: u64, channel: &str, size: usize) -> Arc<PublishedAction> {
        let action = StateAction::TerminalData(TerminalDataAction { data: String::new() });
        Arc::new(PublishedAction::from_journal(seq, channel.into(), action, "x".repeat(size / 3).into(), None))
    }

    #[test]
    fn slow_subscriber_is_disconnected_by_queued_bytes() {
        let (subscriber, mut deliveries) = Subscriber::new(10_000);
        let large = envelope(1, TERMINAL, SUBSCRIBER_QUEUE_MAX_BYTES / 4);
        let deliver = || subscriber.deliver(Delivery::Envelope(Arc::clone(&large)));
        // A subscriber that reads can receive any amount.
        for _ in 0..20 {
            assert!(deliver());
            assert!(deliveries.try_recv().is_ok());
        }
        assert_eq!((0..20).take_while(|_| deliver()).count(), 3);
        assert!(subscriber.overflow().is_cancelled());
    }

    #[test]
    fn single_envelope_may_exceed_the_queue_limit() {
        let (subscriber, _deliveries) = Subscriber::new(10);
        assert!(subscriber.deliver(Delivery::Envelope(envelope(1, TERMINAL, 2 * SUBSCRIBER_QUEUE_MAX_BYTES))));
        assert!(!subscriber.deliver(Delivery::Envelope(envelope(2, TERMINAL, 1))));
    }

    #[test]
    fn terminal_output_does_not_evict_session_envelopes() {
        let broadcaster = Broadcaster::new(Duration::ZERO);
        broadcaster.set_replay_floor(0);
        broadcaster.publish(&envelope(1, SESSION, 300));
        for seq in 2..100 {
            broadcaster.publish(&envelope(seq, TERMINAL, TERMINAL_REPLAY_BUFFER_MAX_BYTES / 10));
        }
        broadcaster.publish(&envelope(100, SESSION, 300));
        let channels = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<HashSet<Arc<str>>>();
        let numbers = |after, names: &[&str]| {
            let missed = broadcaster.replay(after, &channels(names))?;
            Some(missed.iter().map(|item| item.seq).collect::<Vec<_>>())
        };
        assert_eq!(numbers(0, &[SESSION]), Some(vec![1, 100]));
        assert_eq!(numbers(0, &[SESSION, TERMINAL]), None, "too much was shown meanwhile");
        assert_eq!(numbers(98, &[SESSION, TERMINAL]), Some(vec![99, 100]), "in the order of numbers");
        broadcaster.discard_terminal_replay(100);
        assert_eq!(numbers(98, &[SESSION, TERMINAL]), None, "one of them is gone");
        assert_eq!(numbers(100, &[SESSION, TERMINAL]), Some(vec![]));
        assert_eq!((broadcaster.replay_floor(&[SESSION]), broadcaster.replay_floor(&[TERMINAL]) > 80), (0, true));
    }
}
