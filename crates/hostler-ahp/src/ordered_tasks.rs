//! Work of one connection that waits for sessions or disks, in order per key: the reader hands it over and continues.
//!
//! Work that is the first of its key and does not have to wait is done at once, without a task. All other work of a key
//! runs in one task, which ends when there is no more.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::session_of;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

/// Work in order per key.
#[derive(Clone)]
pub(crate) struct OrderedTasks {
    tasks: TaskTracker,
    /// The work behind the running one, by key. A key without running work has no entry.
    queues: Arc<Mutex<HashMap<String, VecDeque<BoxFuture<'static, ()>>>>>,
}

impl OrderedTasks {
    pub(crate) fn new(tasks: TaskTracker) -> Self {
        Self { tasks, queues: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<BoxFuture<'static, ()>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out work after all earlier work of the same key.
    pub(crate) fn enqueue(&self, key: &str, work: impl Future<Output = ()> + Send + 'static) {
        let mut work = work.boxed();
        {
            let mut queues = self.lock();
            if let Some(queue) = queues.get_mut(key) {
                return queue.push_back(work);
            }
            queues.insert(key.to_owned(), VecDeque::new());
        }
        // The task polls unfinished work again, with its own waker.
        let unfinished = match work.as_mut().now_or_never() {
            Some(()) => match self.next(key) {
                None => return,
                Some(next) => next,
            },
            None => work,
        };
        let (queues, key) = (self.clone(), key.to_owned());
        self.tasks.spawn(async move {
            unfinished.await;
            while let Some(next) = queues.next(&key) {
                next.await;
            }
        });
    }

    /// The next work of a key, whose running work is done.
    fn next(&self, key: &str) -> Option<BoxFuture<'static, ()>> {
        let mut queues = self.lock();
        let next = queues.get_mut(key).and_then(VecDeque::pop_front);
        if next.is_none() {
            queues.remove(key);
        }
        next
    }

    /// Returns when the work of a key that is queued now is done.
    pub(crate) fn earlier_work(&self, key: &str) -> impl Future<Output = ()> + Send + use<> {
        let is_busy = self.lock().contains_key(key);
        let done = is_busy.then(|| {
            let (sender, done) = oneshot::channel();
            self.enqueue(key, async move {
                let _ = sender.send(());
            });
            done
        });
        async move {
            if let Some(done) = done {
                let _ = done.await;
            }
        }
    }
}

/// The order of a client's messages.
///
/// A session's dispatches are carried out in the order of arrival, and everything waits for the creation of its session.
/// A subscription takes long if its session is loaded from the disk: it delays later messages of its channel only.
#[derive(Clone)]
pub(crate) struct MessageOrder {
    creations: OrderedTasks,
    dispatches: OrderedTasks,
    subscriptions: OrderedTasks,
}

impl MessageOrder {
    pub(crate) fn new(tasks: &TaskTracker) -> Self {
        let queue = || OrderedTasks::new(tasks.clone());
        Self { creations: queue(), dispatches: queue(), subscriptions: queue() }
    }

    /// Creates a session.
    pub(crate) fn enqueue_creation(&self, session: &str, work: impl Future<Output = ()> + Send + 'static) {
        self.creations.enqueue(session, work);
    }

    /// Carries out a dispatch after the earlier ones of its session and the earlier subscriptions of its channel.
    pub(crate) fn enqueue_dispatch(&self, channel: &str, work: impl Future<Output = ()> + Send + 'static) {
        let (created, subscribed) = (self.creation(channel), self.earlier_subscriptions(channel));
        self.dispatches.enqueue(&session_key(channel), async move {
            created.await;
            subscribed.await;
            work.await;
        });
    }

    /// Subscribes or unsubscribes after the earlier subscriptions of the channel.
    pub(crate) fn enqueue_subscription(&self, channel: &str, work: impl Future<Output = ()> + Send + 'static) {
        let created = self.creation(channel);
        self.subscriptions.enqueue(channel, async move {
            created.await;
            work.await;
        });
    }

    /// Returns when the channel's session is created, if the client has requested it.
    pub(crate) fn creation(&self, channel: &str) -> impl Future<Output = ()> + Send + use<> {
        self.creations.earlier_work(&session_key(channel))
    }

    /// Returns when the earlier dispatches to the channel's session are carried out.
    pub(crate) fn earlier_dispatches(&self, channel: &str) -> impl Future<Output = ()> + Send + use<> {
        self.dispatches.earlier_work(&session_key(channel))
    }

    /// Returns when the earlier subscriptions of the channel are answered.
    pub(crate) fn earlier_subscriptions(&self, channel: &str) -> impl Future<Output = ()> + Send + use<> {
        self.subscriptions.earlier_work(channel)
    }
}

/// The session of a channel; channels without one have their own order.
fn session_key(channel: &str) -> Cow<'_, str> {
    session_of(channel).map_or(channel.into(), Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "claude:/s";

    /// Records the order of work.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<&'static str>>>);

    impl Log {
        fn add(&self, what: &'static str) -> impl Future<Output = ()> + Send + use<> {
            let log = self.clone();
            async move { log.0.lock().unwrap().push(what) }
        }

        /// Work that waits for a signal.
        fn add_after(
            &self,
            signal: oneshot::Receiver<()>,
            what: &'static str,
        ) -> impl Future<Output = ()> + Send + use<> {
            let done = self.add(what);
            async move {
                signal.await.unwrap();
                done.await;
            }
        }

        fn read(&self) -> Vec<&'static str> {
            self.0.lock().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn work_that_does_not_wait_is_done_at_once_and_without_a_task() {
        let (tasks, log) = (TaskTracker::new(), Log::default());
        let order = MessageOrder::new(&tasks);
        order.enqueue_dispatch(SESSION, log.add("dispatch"));
        order.enqueue_subscription(SESSION, log.add("subscribe"));
        assert_eq!(log.read(), ["dispatch", "subscribe"]);
        assert!(tasks.is_empty() && order.dispatches.lock().is_empty() && order.subscriptions.lock().is_empty());
    }

    #[tokio::test]
    async fn messages_wait_for_the_creation_of_their_session_and_not_for_another_session() {
        let (tasks, log) = (TaskTracker::new(), Log::default());
        let order = MessageOrder::new(&tasks);
        let chat = hostler_engine::default_chat_uri(SESSION);
        let (stalled, signal) = oneshot::channel();
        order.enqueue_creation(SESSION, log.add_after(signal, "create"));
        order.enqueue_subscription(&chat, log.add("subscribe"));
        order.enqueue_dispatch(&chat, log.add("first dispatch"));
        order.enqueue_dispatch(SESSION, log.add("second dispatch"));
        let later = order.earlier_dispatches(&chat);
        order.enqueue_dispatch("claude:/other", log.add("other session"));
        assert_eq!(log.read(), ["other session"]);
        stalled.send(()).unwrap();
        later.await;
        assert_eq!(log.read(), ["other session", "create", "subscribe", "first dispatch", "second dispatch"]);
        tasks.close();
        tasks.wait().await;
        assert!(order.creations.lock().is_empty() && order.dispatches.lock().is_empty(), "no queue remains");
    }

    #[tokio::test]
    async fn pending_subscription_delays_its_own_channel_only() {
        let (tasks, log) = (TaskTracker::new(), Log::default());
        let order = MessageOrder::new(&tasks);
        let (chat, worker) =
            (hostler_engine::default_chat_uri(SESSION), hostler_engine::sub_agent_chat_uri(SESSION, "call"));
        let (stalled, signal) = oneshot::channel();
        order.enqueue_subscription(&worker, log.add_after(signal, "subscribe"));
        order.enqueue_dispatch(&chat, log.add("other channel"));
        order.enqueue_subscription(&worker, log.add("unsubscribe"));
        order.enqueue_dispatch(&worker, log.add("dispatch"));
        assert_eq!(log.read(), ["other channel"]);
        let later = order.earlier_dispatches(SESSION);
        stalled.send(()).unwrap();
        later.await;
        assert_eq!(log.read(), ["other channel", "subscribe", "unsubscribe", "dispatch"]);
    }

    #[tokio::test]
    async fn pending_dispatch_delays_no_subscription() {
        let (tasks, log) = (TaskTracker::new(), Log::default());
        let order = MessageOrder::new(&tasks);
        let (stalled, signal) = oneshot::channel();
        order.enqueue_dispatch(SESSION, log.add_after(signal, "dispatch"));
        order.enqueue_subscription(SESSION, log.add("subscribe"));
        order.creation(SESSION).await;
        assert_eq!(log.read(), ["subscribe"]);
        stalled.send(()).unwrap();
        order.earlier_dispatches(SESSION).await;
        assert_eq!(log.read(), ["subscribe", "dispatch"]);
    }
}
