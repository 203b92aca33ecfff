//! Syncs the session list with the result of a transcript scan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahp_types::common::JsonObject;
use ahp_types::state::{SessionChatSummary, SessionStatus, SessionSummary};
use hostler_driver::ExternalConversation;
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::ExternalSession;
use crate::catalog::{SessionRegistry, summary_changes};
use crate::clients::broadcaster::HostNotificationKind;
use crate::host::Host;
use crate::sessions::actor::SessionInput;
use crate::{clock, uri};

/// Number of conversations that are handled under one lock.
const SCAN_BATCH_CONVERSATIONS: usize = 256;

/// The parts of the last scan that the next one needs.
#[derive(Default)]
pub(crate) struct ScanState {
    uris: HashMap<Uuid, Arc<str>>,
    /// Conversations that belong to sessions of the store.
    local_conversations: HashMap<Uuid, ExternalConversation>,
}

/// The owner of a conversation.
enum ConversationOwner {
    /// None: it is an external session.
    Unowned,
    /// A stored session.
    Session(Arc<str>),
    /// It was deleted, or an operation on it is in progress.
    Hidden,
}

/// The owner of a conversation whose external session would have this URI.
fn conversation_owner(sessions: &SessionRegistry, conversation: Uuid, uri: &str) -> ConversationOwner {
    match sessions.conversation_owner(conversation) {
        Some(Some(session)) => ConversationOwner::Session(Arc::clone(session)),
        Some(None) => ConversationOwner::Hidden,
        None if sessions.is_local(uri) => ConversationOwner::Hidden,
        None => ConversationOwner::Unowned,
    }
}

impl Host {
    /// Updates the list to the conversations of a scan, which are sorted from newest to oldest.
    pub(super) async fn sync_catalog(
        self: &Arc<Self>,
        provider: &str,
        seen: &mut ScanState,
        found: Vec<ExternalConversation>,
    ) {
        let (show, now) = (self.external_session_filter(), self.clock.now());
        let (mut ours, mut there) = (HashMap::new(), HashSet::new());
        let mut uris = HashMap::with_capacity(found.len());
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() {
            let mut notices = Vec::new();
            {
                let mut sessions = self.catalog.sessions();
                for conversation in found.by_ref().take(SCAN_BATCH_CONVERSATIONS) {
                    let known = seen.uris.remove(&conversation.id);
                    let uri = known.unwrap_or_else(|| format!("{provider}:/{}", conversation.id).into());
                    uris.insert(conversation.id, Arc::clone(&uri));
                    match conversation_owner(&sessions, conversation.id, &uri) {
                        ConversationOwner::Hidden => {}
                        ConversationOwner::Session(session) => {
                            ours.insert(conversation.id, (session, conversation));
                        }
                        ConversationOwner::Unowned => {
                            let is_listed = show.includes(there.len(), conversation.modified, now);
                            there.insert(Arc::clone(&uri));
                            notices.extend(self.list_conversation(
                                &mut sessions,
                                provider,
                                uri,
                                conversation,
                                is_listed,
                            ));
                        }
                    }
                }
            }
            self.publish_list_changes(notices).await;
        }
        seen.uris = uris;
        let notices = {
            let mut sessions = self.catalog.sessions();
            let is_gone =
                |(uri, found): &(&Arc<str>, &ExternalSession)| found.provider == provider && !there.contains(*uri);
            let gone: Vec<_> = sessions.external_sessions().filter(is_gone).map(|(uri, _)| Arc::clone(uri)).collect();
            gone.iter().for_each(|uri| drop(sessions.remove_external(uri)));
            gone.into_iter().filter(|uri| !sessions.is_local(uri)).filter_map(|uri| self.unlist(uri)).collect()
        };
        self.publish_list_changes(notices).await;
        self.notify_sessions(seen, ours);
    }

    async fn publish_list_changes(&self, notices: Vec<HostNotificationKind>) {
        if notices.is_empty() {
            return;
        }
        if let Err(error) = self.publication.publish_notifications(notices).await {
            tracing::debug!(%error, "failed to publish external sessions: the store has stopped");
        }
    }

    /// Adds a conversation to the list, or updates it.
    fn list_conversation(
        &self,
        sessions: &mut SessionRegistry,
        provider: &str,
        uri: Arc<str>,
        conversation: ExternalConversation,
        is_listed: bool,
    ) -> Option<HostNotificationKind> {
        let is_same = sessions.external(&uri).is_some_and(|old| old.conversation == conversation);
        if is_same && self.catalog.contains(&uri) == is_listed {
            return None;
        }
        let line = is_listed.then(|| external_session_summary(provider, &uri, &conversation));
        let found = ExternalSession { provider: provider.to_owned(), conversation };
        sessions.insert_external(Arc::clone(&uri), found);
        self.catalog.mark_changed(&uri);
        let Some(line) = line else {
            return self.catalog.remove(&uri).then_some(HostNotificationKind::SessionRemoved(uri));
        };
        self.update_list_entry(uri, line)
    }

    /// Adds a session to the list, or updates it, depending on whether it was listed.
    pub(crate) fn update_list_entry(&self, session: Arc<str>, line: SessionSummary) -> Option<HostNotificationKind> {
        let previous = self.catalog.summary(&session);
        self.catalog.upsert(&session, &line);
        let Some(previous) = previous else { return Some(HostNotificationKind::SessionAdded(Box::new(line))) };
        let changes = Box::new(summary_changes(&previous, &line));
        (*changes != Default::default()).then_some(HostNotificationKind::SessionSummaryChanged { session, changes })
    }

    /// Removes a deleted conversation from the list.
    fn unlist(&self, uri: Arc<str>) -> Option<HostNotificationKind> {
        self.catalog.mark_removed(&uri);
        self.catalog.remove(&uri).then_some(HostNotificationKind::SessionRemoved(uri))
    }

    /// Notifies sessions of changes of their agents' transcripts.
    fn notify_sessions(self: &Arc<Self>, seen: &mut ScanState, ours: HashMap<Uuid, (Arc<str>, ExternalConversation)>) {
        let mut now = HashMap::with_capacity(ours.len());
        for (id, (session, conversation)) in ours {
            let before = seen.local_conversations.remove(&id);
            let same = before.as_ref() == Some(&conversation);
            if same || self.notify_session(&session, before.as_ref(), &conversation) {
                now.insert(id, conversation);
            }
        }
        seen.local_conversations = now;
    }

    /// Notifies one session. `false` if its mailbox is full: then it is notified after the next scan. Scans never wait
    /// for sessions.
    fn notify_session(
        self: &Arc<Self>,
        session: &Arc<str>,
        before: Option<&ExternalConversation>,
        now: &ExternalConversation,
    ) -> bool {
        let handle = {
            let mut sessions = self.catalog.sessions();
            let same =
                before.is_some_and(|before| (&before.custom_title, &before.tag) == (&now.custom_title, &now.tag));
            // An unloaded session is loaded for changes that its summary displays and for new external turns, because
            // no agent of this host is running there.
            let wakes = |line: SessionSummary| {
                let titled = now.custom_title.as_ref().is_some_and(|title| *title != line.title);
                let tagged = |tag: &String| *tag != session_tag(line.meta.as_ref()).unwrap_or_default();
                titled || now.tag.as_ref().is_some_and(tagged)
            };
            let said = before.is_some_and(|before| before.modified != now.modified);
            if said || (!same && self.catalog.summary(session).is_some_and(wakes)) {
                sessions.get_or_load(self, session)
            } else {
                sessions.live(session).cloned()
            }
        };
        handle.is_none_or(|handle| handle.try_send(SessionInput::TranscriptChanged(Box::new(now.clone()))))
    }
}

/// The summary of an external session.
pub(super) fn external_session_summary(
    provider: &str,
    uri: &Arc<str>,
    conversation: &ExternalConversation,
) -> SessionSummary {
    let status = SessionStatus::Idle.bits() | SessionStatus::IsRead.bits();
    let directory = conversation.working_directory.as_ref().and_then(|path| Url::from_file_path(path).ok());
    let modified_at = clock::format_timestamp(conversation.modified);
    let default_chat = uri::default_chat_uri(uri);
    let chat = SessionChatSummary {
        resource: default_chat.clone(),
        title: String::new(),
        origin: None,
        interactivity: None,
        status: Some(status),
        changes: None,
    };
    SessionSummary {
        provider: provider.to_owned(),
        title: conversation.title.clone(),
        status,
        activity: None,
        origin: None,
        project: None,
        working_directories: Some(directory.map(String::from).into_iter().collect()),
        annotations: None,
        resource: uri.to_string(),
        created_at: conversation.created.clone().unwrap_or_else(|| modified_at.clone()),
        modified_at,
        changes: None,
        meta: Some(external_session_meta(conversation)),
        chats: Some(vec![chat]),
        default_chat: Some(default_chat),
    }
}

/// The `_meta` of a session for a conversation that another program started.
pub(crate) fn external_session_meta(conversation: &ExternalConversation) -> JsonObject {
    let mut hostler = JsonObject::from_iter([("external".to_owned(), Value::Bool(true))]);
    if let Some(tag) = conversation.tag.as_ref().filter(|tag| !tag.is_empty()) {
        hostler.insert(TAG_META_KEY.to_owned(), json!(tag));
    }
    JsonObject::from_iter([("hostler".to_owned(), Value::Object(hostler))])
}

/// The key of a session's tag, below `hostler` in its `_meta`.
pub(crate) const TAG_META_KEY: &str = "tag";

/// A session's tag.
pub(crate) fn session_tag(meta: Option<&JsonObject>) -> Option<&str> {
    meta?.get("hostler")?.get(TAG_META_KEY)?.as_str()
}
