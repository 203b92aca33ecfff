//! Subscriptions of clients: subscribe, load older turns, unsubscribe, reconnect.

use std::time::Duration;

use tokio::sync::oneshot;

use super::Engine;
use crate::clients::broadcaster::{Subscriber, SubscriberId};
use crate::clients::reconnect::{PresenceGuard, ReconnectOutcome};
use crate::sessions::actor::{SessionInput, SubscribeOutcome, SubscribeRequest};
use crate::sessions::paging::{self, PreparedTurns, SnapshotTurns};
use crate::{EngineError, uri};

/// Maximum time that a subscription waits for a sub-agent's chat.
const SUB_AGENT_CHAT_WAIT_TIMEOUT: Duration = Duration::from_secs(5);

impl Engine {
    /// Subscribes to a channel. The snapshot arrives in the subscriber's queue under `token`, before any later
    /// envelope of the channel.
    ///
    /// # Errors
    /// If there is no such channel.
    pub async fn subscribe(&self, channel: &str, subscriber: &Subscriber, token: u64) -> Result<(), EngineError> {
        self.subscribe_with_turns(channel, SnapshotTurns::All, subscriber, token).await
    }

    /// Subscribes to a channel as [`subscribe`](Self::subscribe) does. The snapshot of a chat contains the requested
    /// turns, and the cursor of those before them.
    ///
    /// # Errors
    /// If there is no such channel, or the receiving end of the subscriber's queue is dropped.
    pub async fn subscribe_with_turns(
        &self,
        channel: &str,
        extent: SnapshotTurns,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        tokio::select! {
            result = self.deliver_subscription(channel, extent, subscriber, token) => result,
            () = subscriber.closed() => Err(EngineError::ChannelNotFound(channel.to_owned())),
        }
    }

    async fn deliver_subscription(
        &self,
        channel: &str,
        extent: SnapshotTurns,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        if channel == uri::ROOT_CHANNEL_URI {
            return self.host.subscribe_root(subscriber.clone(), token).await;
        }
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        if uri::is_terminal_channel(channel) {
            return self.host.subscribe_terminal(channel, subscriber.clone(), token).await;
        }
        if channel.starts_with(uri::RESOURCE_WATCH_PREFIX) {
            return self.host.subscribe_watch(channel, subscriber.clone(), token).await;
        }
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let mut prepared = PreparedTurns::default();
        loop {
            let handle = self.host.load_session(&session).await.ok_or_else(not_found)?;
            let (reply, answer) = oneshot::channel();
            let (channel_uri, subscriber) = (channel.to_owned(), subscriber.clone());
            let subscribe = SubscribeRequest { channel: channel_uri, extent, subscriber, token, prepared, reply };
            handle.send(SessionInput::Subscribe(subscribe)).await.map_err(|_| not_found())?;
            match answer.await.map_err(|_| not_found())?? {
                SubscribeOutcome::Subscribed => return Ok(()),
                // The session is not unloaded meanwhile, because this handle exists.
                SubscribeOutcome::ReadFirst(part, earlier) => {
                    prepared = self.host.read_stored_part(channel, part, earlier).await?;
                }
            }
        }
    }

    /// Loads turns of a chat before those that the subscriber has: `chat/turnsLoaded` arrives in its queue under
    /// `token`, and in no other.
    ///
    /// # Errors
    /// If there is no such chat, the subscriber is not subscribed to it, or the cursor is not the last one that it
    /// received.
    pub async fn fetch_turns(
        &self,
        chat: &str,
        cursor: Option<&str>,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        self.host.fetch_turns(chat, cursor, subscriber, token).await
    }

    /// The error for older turns that were not loaded, because the connection has another view of the chat by now.
    pub fn stale_view_error() -> EngineError {
        paging::stale_cursor_error()
    }

    /// Associates a connection with a client, so that the turn windows of its chats are known when the client
    /// reconnects.
    pub fn attach(&self, client: &str, subscriber: &Subscriber) {
        self.host.publication.clients().attach(client, subscriber.turn_windows());
    }

    /// Subscribes to a channel as [`subscribe_with_turns`](Self::subscribe_with_turns) does, and waits for a
    /// sub-agent's chat that does not exist yet: a client may see its call earlier.
    ///
    /// # Errors
    /// If the channel does not exist within a few seconds.
    pub async fn subscribe_or_wait(
        &self,
        channel: &str,
        extent: SnapshotTurns,
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let mut begun = self.host.catalog.sub_agent_chats_started();
        let mut over = self.host.clock.sleep(SUB_AGENT_CHAT_WAIT_TIMEOUT);
        loop {
            let result = self.subscribe_with_turns(channel, extent, subscriber, token).await;
            if !matches!(result, Err(EngineError::ChannelNotFound(_))) || !self.is_channel_expected(channel) {
                return result;
            }
            tokio::select! {
                Ok(()) = begun.changed() => {}
                () = &mut over => return result,
                () = subscriber.closed() => return result,
                () = self.host.tasks.stopped() => return result,
            }
        }
    }

    /// Whether a channel may exist soon: the chat of a sub-agent in an existing session.
    pub fn is_channel_expected(&self, channel: &str) -> bool {
        uri::is_sub_agent_chat(channel)
            && uri::session_of(channel).is_some_and(|session| self.host.catalog.sessions().contains(&session))
    }

    /// Unsubscribes the subscriber from the channel.
    pub fn unsubscribe(&self, channel: &str, subscriber: SubscriberId) {
        self.host.publication.unsubscribe(channel, subscriber);
        self.host.remove_idle_watches();
    }

    /// Unsubscribes on a client's request. If the channel is a session, the client is no longer active in it.
    pub async fn unsubscribe_client(&self, client: &str, channel: &str, subscriber: SubscriberId) {
        self.unsubscribe(channel, subscriber);
        self.host.leave_session(client, channel).await;
    }

    /// Removes a subscriber.
    pub fn remove_subscriber(&self, subscriber: SubscriberId) {
        self.host.publication.remove_subscriber(subscriber);
        self.host.remove_idle_watches();
    }

    /// Registers a connected client with the metadata of its surface; both are stored. The client is present until the
    /// guard is dropped.
    pub async fn connect_client(&self, client: &str, memo: &str) -> PresenceGuard {
        self.host.connect_client(client, memo).await
    }

    /// The metadata of a client that was connected recently, also before a restart.
    pub fn client_metadata(&self, client: &str) -> Option<String> {
        self.host.publication.clients().client_metadata(client)
    }

    /// Continues a client's subscriptions: the missed envelopes, or snapshots, arrive in the subscriber's queue.
    ///
    /// # Errors
    /// [`EngineError::ClientUnknown`] if no client with this id was connected recently.
    pub async fn reconnect(
        &self,
        client: &str,
        last_seen: u64,
        channels: &[String],
        subscriber: &Subscriber,
        token: u64,
    ) -> Result<ReconnectOutcome, EngineError> {
        self.host.reconnect(client, last_seen, channels, subscriber, token).await
    }
}
