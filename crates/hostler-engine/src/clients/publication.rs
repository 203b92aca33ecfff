//! Publication: everything that clients see goes through here, in the order of the sequencer.
//!
//! [`PublicationService`] owns the way to the sequencer, the broadcaster with its replay buffers and the registry of
//! clients, and the state of the root channel. It reads no session's state and no journal.

use std::sync::Arc;

use ahp_types::common::JsonObject;
use ahp_types::state::RootState;
use hostler_store::{ActionEntry, Batch, BatchDurability, PublishedRejection, Sequencer, StoreError};
use tokio::sync::MutexGuard;

use super::broadcaster::{Broadcaster, ChannelSnapshot, Delivery, HostNotificationKind, Subscriber, SubscriberId};
use super::registry::ClientRegistry;
use super::root_channel::RootChannel;
use crate::sessions::paging::{ChatSnapshot, OlderTurns};
use crate::sessions::session::Dispatch;
use crate::sessions::state::ChannelState;
use crate::{EngineError, attachments, terminals, uri};

/// Publishes to the subscribers of channels.
pub(crate) struct PublicationService {
    sequencer: Sequencer,
    pub(super) broadcaster: Arc<Broadcaster>,
    pub(super) root_channel: RootChannel,
}

impl PublicationService {
    /// `broadcaster` is the publisher of the sequencer.
    pub(crate) fn new(sequencer: Sequencer, broadcaster: Arc<Broadcaster>, root_channel: RootChannel) -> Self {
        Self { sequencer, broadcaster, root_channel }
    }

    /// Publishes a batch; its commit follows.
    pub(crate) async fn submit(&self, batch: Batch) -> Result<(), StoreError> {
        self.sequencer.submit(batch).await
    }

    /// Commits and publishes a batch, and returns the last number.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<u64, StoreError> {
        self.sequencer.commit(batch).await
    }

    /// The last sequence number that was assigned.
    pub(crate) fn current_seq(&self) -> u64 {
        self.sequencer.current_seq()
    }

    /// Commits everything; nothing is published afterwards.
    pub(crate) async fn stop(&self) {
        self.sequencer.stop().await;
    }

    pub(crate) fn clients(&self) -> &ClientRegistry {
        self.broadcaster.clients()
    }

    pub(crate) fn unsubscribe(&self, channel: &str, subscriber: SubscriberId) {
        self.broadcaster.unsubscribe(channel, subscriber);
    }

    pub(crate) fn remove_subscriber(&self, subscriber: SubscriberId) {
        self.broadcaster.remove_subscriber(subscriber);
    }

    /// Whether a subscriber is subscribed to a channel.
    pub(crate) fn is_subscribed(&self, channel: &str, subscriber: SubscriberId) -> bool {
        self.broadcaster.is_subscribed(channel, subscriber)
    }

    /// Whether a channel has subscribers.
    pub(crate) fn has_subscribers(&self, channel: &str) -> bool {
        self.broadcaster.has_subscribers(channel)
    }

    /// Removes a channel.
    pub(crate) fn close_channel(&self, channel: &str) {
        self.broadcaster.close_channel(channel);
    }

    /// Discards the envelopes of terminals: another terminal may reuse the URI of a removed one.
    pub(crate) fn discard_terminal_replay(&self) {
        self.broadcaster.discard_terminal_replay(self.current_seq());
    }

    /// Notifies all subscribers of the root channel. Must run in sequence order.
    pub(crate) fn notify(&self, kind: HostNotificationKind) {
        self.broadcaster.notify(uri::ROOT_CHANNEL_URI, kind);
    }

    /// Notifies all subscribers of the root channel, after everything that was published before.
    pub(crate) async fn publish_notifications(&self, kinds: Vec<HostNotificationKind>) -> Result<(), StoreError> {
        let broadcaster = Arc::clone(&self.broadcaster);
        let marker = Batch::new(None, BatchDurability::Memory).after_publish(move |_| {
            kinds.into_iter().for_each(|kind| broadcaster.notify(uri::ROOT_CHANNEL_URI, kind));
        });
        self.submit(marker).await
    }

    /// A batch whose last envelope the subscriber receives even on a channel that it is not subscribed to.
    pub(crate) fn with_echo(&self, batch: Batch, subscriber: Option<Subscriber>) -> Batch {
        let broadcaster = Arc::clone(&self.broadcaster);
        batch.after_publish(move |seq| {
            if let Some(subscriber) = subscriber {
                broadcaster.deliver_latest(seq, &subscriber);
            }
        })
    }

    /// Locks the state of the root channel for a writer.
    pub(crate) async fn lock_root(&self) -> MutexGuard<'_, Arc<RootState>> {
        self.root_channel.lock().await
    }

    /// The values that clients have set in the host's configuration.
    pub(crate) fn config_values(&self) -> Arc<JsonObject> {
        self.root_channel.config_values()
    }

    /// Registers the subscriber and puts the snapshot into its queue, in sequence order: envelopes that follow it are
    /// newer.
    pub(crate) async fn deliver_snapshot(
        &self,
        resource: Arc<str>,
        state: ChannelState,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let subscribed = self.subscribe_callback(resource, state, None, subscriber, token);
        let marker = Batch::new(None, BatchDurability::Memory).after_publish(subscribed);
        self.submit(marker).await?;
        Ok(())
    }

    /// Does the same for a chat, with the turns that the subscriber asked for.
    pub(crate) async fn deliver_chat_snapshot(
        &self,
        resource: Arc<str>,
        shown: ChatSnapshot,
        subscriber: Subscriber,
        token: u64,
    ) -> Result<(), EngineError> {
        let ChatSnapshot { state, first_turn: first, older_turns: older } = shown;
        let (chat, viewer) = (Arc::clone(&resource), subscriber.clone());
        let subscribed = self.subscribe_callback(resource, ChannelState::Chat(state), older, subscriber, token);
        let marker = Batch::new(None, BatchDurability::Memory).after_publish(move |from_seq| {
            viewer.set_turn_window(&chat, first);
            subscribed(from_seq);
        });
        self.submit(marker).await?;
        Ok(())
    }

    fn subscribe_callback(
        &self,
        resource: Arc<str>,
        state: ChannelState,
        older: Option<OlderTurns>,
        subscriber: Subscriber,
        token: u64,
    ) -> impl FnOnce(u64) + Send + 'static {
        let broadcaster = Arc::clone(&self.broadcaster);
        move |from_seq| {
            let snapshot = ChannelSnapshot { resource: Arc::clone(&resource), state, older_turns: older, from_seq };
            if subscriber.deliver(Delivery::Snapshot { token, snapshot }) {
                broadcaster.subscribe(&resource, &subscriber);
            }
        }
    }

    /// Numbers and publishes a rejection; it is never stored. The rejected client receives it even on a channel that it
    /// is not subscribed to.
    pub(crate) async fn reject(&self, mut dispatch: Dispatch, rejection: impl Into<PublishedRejection>) {
        attachments::strip_contents(&mut dispatch.action);
        terminals::strip_terminal_input(&mut dispatch.action);
        let (origin, from) = (dispatch.origin(), dispatch.subscriber);
        let entry = match ActionEntry::new(dispatch.channel.into(), dispatch.action) {
            Ok(entry) => entry.with_origin(Some(origin)).with_rejection(rejection.into()),
            Err(error) => {
                tracing::warn!(%error, "failed to encode a rejected action");
                return;
            }
        };
        let batch = self.with_echo(Batch::new(None, BatchDurability::Memory).entry(entry), from);
        if let Err(error) = self.submit(batch).await {
            tracing::debug!(%error, "failed to publish a rejection: the store has stopped");
        }
    }
}
