//! Clients that hear channels: they subscribe, read back, leave, and come back.

use std::time::Duration;

use tokio::sync::oneshot;

use super::Engine;
use crate::actor::{Input, Subscribe};
use crate::hub::{Subscriber, SubscriberId};
use crate::paging::{self, Extent};
use crate::returning::{Presence, Reconnected};
use crate::{EngineError, uri};

/// How long a subscription waits for a sub-agent's chat.
const EARLY: Duration = Duration::from_secs(5);

impl Engine {
    /// Subscribes to a channel. The snapshot arrives in the subscriber's queue under `token`, before any later
    /// envelope of the channel.
    ///
    /// # Errors
    /// If there is no such channel.
    pub async fn subscribe(&self, channel: &str, subscriber: &Subscriber, token: u64) -> Result<(), EngineError> {
        self.subscribe_to(channel, Extent::All, subscriber, token).await
    }

    /// Subscribes to a channel as [`subscribe`](Self::subscribe) does. If it is a chat, the snapshot has turns to the given
    /// extent, and the cursor of those before them.
    ///
    /// # Errors
    /// If there is no such channel.
    pub async fn subscribe_to(
        &self,
        channel: &str,
        extent: Extent,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        if channel == uri::ROOT {
            return self.host.subscribe_root(subscriber.clone(), token).await;
        }
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        if uri::is_terminal(channel) {
            return self.host.subscribe_terminal(channel, subscriber.clone(), token).await;
        }
        if channel.starts_with(uri::WATCH) {
            return self.host.subscribe_watch(channel, subscriber.clone(), token).await;
        }
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.waken(&session).await.ok_or_else(not_found)?;
        let (reply, answer) = oneshot::channel();
        let subscribe = Subscribe { channel: channel.to_owned(), extent, subscriber: subscriber.clone(), token, reply };
        handle.send(Input::Subscribe(subscribe)).await.map_err(|_| not_found())?;
        answer.await.map_err(|_| not_found())?
    }

    /// Loads turns of a chat before those that the subscriber was sent: `chat/turnsLoaded` arrives in its queue under
    /// `token`, and nobody else hears it.
    ///
    /// # Errors
    /// If there is no such chat, the subscriber does not hear it, or the cursor is not the one that it was sent last.
    pub async fn fetch_turns(
        &self,
        chat: &str,
        cursor: Option<&str>,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        self.host.fetch_turns(chat, cursor, subscriber, token).await
    }

    /// Why older turns were not loaded after all: the connection has another view of the chat by now.
    pub fn stale_view() -> EngineError {
        paging::stale()
    }

    /// A connection is the client's from now on: when the client comes back, it is known how far its chats reach back.
    pub fn shows(&self, client: &str, subscriber: &Subscriber) {
        self.host.hub.clients.shows(client, subscriber.views());
    }

    /// Subscribes to a channel as [`subscribe_to`](Self::subscribe_to) does. Where a sub-agent's chat is not there yet, it is
    /// waited for: whoever sees its call may be faster than it is.
    ///
    /// # Errors
    /// If there is no such channel, and none within a few seconds.
    pub async fn subscribe_soon(
        &self,
        channel: &str,
        extent: Extent,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let mut begun = self.host.workers_begun.subscribe();
        let mut over = self.host.clock.sleep(EARLY);
        loop {
            let result = self.subscribe_to(channel, extent, subscriber, token).await;
            if !matches!(result, Err(EngineError::ChannelNotFound(_))) || !self.may_begin(channel) {
                return result;
            }
            tokio::select! {
                Ok(()) = begun.changed() => {}
                () = &mut over => return result,
                () = subscriber.gone() => return result,
                () = self.host.stop.cancelled() => return result,
            }
        }
    }

    /// Whether a channel may be there in a moment: the chat of a sub-agent, in a session that is there.
    pub fn may_begin(&self, channel: &str) -> bool {
        uri::is_worker(channel) && uri::session_of(channel).is_some_and(|session| self.host.sessions().knows(&session))
    }

    /// The subscriber no longer hears the channel.
    pub fn unsubscribe(&self, channel: &str, subscriber: SubscriberId) {
        self.host.hub.unsubscribe(channel, subscriber);
        self.host.end_watches();
    }

    /// A client says that it no longer hears the channel. If that is a session, the client is no longer part of it.
    pub async fn client_unsubscribed(&self, client: &str, channel: &str, subscriber: SubscriberId) {
        self.unsubscribe(channel, subscriber);
        self.host.leave_session(client, channel).await;
    }

    /// The subscriber is gone.
    pub fn forget_subscriber(&self, subscriber: SubscriberId) {
        self.host.hub.forget(subscriber);
        self.host.end_watches();
    }

    /// A client connects under an identity that is kept, together with a memo for its surface. It is there until the
    /// presence is dropped.
    pub async fn client_arrived(&self, client: &str, memo: &str) -> Presence {
        self.host.client_arrived(client, memo).await
    }

    /// The memo of a client that was here lately, in this life of the host or an earlier one.
    pub fn client_memo(&self, client: &str) -> Option<String> {
        self.host.hub.clients.memo(client)
    }

    /// Takes a client up again where it left: what it missed, or snapshots, arrives in the subscriber's queue.
    ///
    /// # Errors
    /// [`EngineError::ClientUnknown`] if nobody of that name was here lately.
    pub async fn reconnect(
        &self,
        client: &str,
        last_seen: u64,
        channels: &[String],
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<Reconnected, EngineError> {
        self.host.reconnect(client, last_seen, channels, subscriber, token).await
    }
}
