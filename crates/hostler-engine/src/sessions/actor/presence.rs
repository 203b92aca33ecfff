//! Presence of clients: subscribe, reconnect, and removal after an absence.

use std::sync::Arc;
use std::time::Duration;

use ahp_types::StateAction;
use ahp_types::actions::SessionActiveClientRemovedAction;

use super::context::SessionContext;
use super::{SessionInput, SubscribeOutcome, SubscribeRequest};
use crate::EngineError;
use crate::attachments::ChatView;
use crate::sessions::state::ChannelState;

/// Whether a client is connected.
#[derive(Debug, PartialEq, Eq)]
enum Presence {
    Connected,
    /// The client may reconnect within this time.
    Away(Duration),
    /// The time to reconnect is over.
    Expired,
}

impl Presence {
    fn new(away_since: Option<Duration>, now: Duration, timeout: Duration) -> Self {
        match away_since.map(|since| (since + timeout).saturating_sub(now)) {
            None => Self::Connected,
            Some(Duration::ZERO) => Self::Expired,
            Some(remaining) => Self::Away(remaining),
        }
    }
}

impl SessionContext {
    fn presence_of(&self, client: &str) -> Presence {
        let away_since = self.host.publication.clients().away_since(client);
        Presence::new(away_since, self.host.clock.monotonic(), self.host.settings.client_absence_timeout)
    }

    /// Starts the reconnect timeouts of clients that were active in the session before a restart.
    pub(super) async fn start_reconnect_timeouts(&mut self) {
        let active = self.session.session.active_clients.iter();
        let clients: Vec<_> = active.map(|active| active.client_id.clone()).collect();
        for client in clients {
            self.host.publication.clients().mark_participant(&client);
            match self.presence_of(&client) {
                Presence::Connected => {}
                Presence::Expired => self.remove_active_client(client).await,
                Presence::Away(remaining) => {
                    let timeout = self.host.clock.sleep(remaining);
                    self.tasks.spawn(async move {
                        timeout.await;
                        SessionInput::ClientReconnectTimeout(client)
                    });
                }
            }
        }
    }

    /// Removes a client that has not reconnected. A client that reconnected meanwhile has a timeout of its own.
    pub(super) async fn handle_reconnect_timeout(&mut self, client: String) {
        match self.presence_of(&client) {
            Presence::Expired => self.remove_active_client(client).await,
            Presence::Away(_) => {}
            // The client may have been unknown before.
            Presence::Connected => self.host.publication.clients().mark_participant(&client),
        }
    }

    /// Removes an absent client from the session's active clients.
    pub(super) async fn remove_active_client(&mut self, client_id: String) {
        if self.session.session.active_clients.iter().any(|active| active.client_id == client_id) {
            let action = SessionActiveClientRemovedAction { client_id };
            self.publish_session_action(StateAction::SessionActiveClientRemoved(action)).await;
        }
    }

    /// The current state of the session and one of its chats.
    pub(super) fn view_chat(&self, channel: &str) -> Option<ChatView> {
        let (chat, storage) = self.session.chat_with_storage(channel)?;
        Some(ChatView {
            session: Arc::clone(&self.session.session),
            chat: Arc::clone(chat),
            evicted_turns: storage.evicted.clone(),
            annotations: Arc::clone(&self.session.annotations),
        })
    }

    /// Takes the snapshot and the subscription at one sequence number. Turns that are not in memory are read by the
    /// requester before. Returns whether the client is subscribed.
    pub(super) async fn subscribe_client(&mut self, subscribe: SubscribeRequest) -> bool {
        let SubscribeRequest { channel, extent, subscriber, token, prepared, reply } = subscribe;
        let result = if let Some((chat, storage)) = self.session.chat_with_storage(&channel) {
            match self.host.chat_snapshot(chat, &storage.evicted, extent, &subscriber, prepared) {
                Ok(shown) => {
                    self.host.publication.deliver_chat_snapshot(channel.as_str().into(), shown, subscriber, token).await
                }
                Err((part, prepared)) => {
                    let _ = reply.send(Ok(SubscribeOutcome::ReadFirst(part, prepared)));
                    return false;
                }
            }
        } else {
            let (resource, state) = if channel == *self.session.uri {
                (Arc::clone(&self.session.uri), ChannelState::Session(Arc::clone(&self.session.session)))
            } else if self.session.is_annotations_channel(&channel) {
                (channel.as_str().into(), ChannelState::Annotations(Arc::clone(&self.session.annotations)))
            } else {
                let _ = reply.send(Err(EngineError::ChannelNotFound(channel)));
                return false;
            };
            self.host.publication.deliver_snapshot(resource, state, subscriber, token).await
        };
        let is_subscribed = result.is_ok();
        let _ = reply.send(result.map(|()| SubscribeOutcome::Subscribed));
        is_subscribed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_expires_when_its_time_to_reconnect_is_over() {
        let presence = |away: Option<u64>, now| {
            Presence::new(away.map(Duration::from_secs), Duration::from_secs(now), Duration::from_secs(30))
        };
        assert_eq!(presence(None, 100), Presence::Connected);
        assert_eq!(presence(Some(90), 100), Presence::Away(Duration::from_secs(20)));
        assert_eq!(presence(Some(70), 100), Presence::Expired);
        assert_eq!(presence(Some(10), 100), Presence::Expired);
    }
}
