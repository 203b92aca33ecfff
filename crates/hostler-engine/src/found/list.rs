//! The list follows the archives: what a look shows, against what is known.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ahp_types::common::JsonObject;
use ahp_types::state::{SessionChatSummary, SessionStatus, SessionSummary};
use hostler_driver::FoundConversation;
use hostler_store::{Batch, Durability};
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::FoundSession;
use crate::actor::Input;
use crate::catalogue::difference;
use crate::host::{Host, Sessions};
use crate::hub::NoticeKind;
use crate::{clock, uri};

/// So many conversations are looked up before others get their turn.
const PIECE: usize = 256;

/// What the last look at an archive showed, as far as the next one needs it.
#[derive(Default)]
pub(crate) struct Seen {
    uris: HashMap<Uuid, Arc<str>>,
    /// Those that are sessions here.
    ours: HashMap<Uuid, FoundConversation>,
}

/// Whose a conversation is.
enum Owner {
    /// Nobody's here: it is a found session.
    Nobody,
    /// A session's.
    Session(Arc<str>),
    /// It was deleted, or somebody is about to do something with it.
    Hidden,
}

/// A change of the list.
enum Step {
    Put { uri: Arc<str>, conversation: Box<FoundConversation>, shown: bool },
    Gone(Arc<str>),
}

impl Sessions {
    fn owner(&self, conversation: Uuid, uri: &str) -> Owner {
        match self.conversations.get(&conversation) {
            Some(Some(session)) => Owner::Session(Arc::clone(session)),
            Some(None) => Owner::Hidden,
            None if self.is_ours(uri) => Owner::Hidden,
            None => Owner::Nobody,
        }
    }

    /// Whether a conversation is known, whoever led it.
    pub(crate) fn has_conversation(&self, id: Uuid) -> bool {
        self.conversations.contains_key(&id) || self.found.values().any(|found| found.conversation.id == id)
    }

    /// The conversations of a session of the store.
    pub(crate) fn conversations_of(&self, session: &str) -> Vec<Uuid> {
        let of_it = self.conversations.iter().filter(|(_, owner)| owner.as_deref() == Some(session));
        of_it.map(|(id, _)| *id).collect()
    }

    /// Whether a session is more than found.
    fn is_ours(&self, uri: &str) -> bool {
        self.live.contains_key(uri) || self.dormant.contains_key(uri) || self.leaving.contains(uri)
    }
}

impl Host {
    /// Brings the list up to date with what a look at a provider's archive has shown, the newest first.
    pub(super) async fn compare(self: &Arc<Self>, provider: &str, seen: &mut Seen, found: Vec<FoundConversation>) {
        let (show, now) = (self.shown_external(), self.clock.now());
        let (mut steps, mut ours) = (Vec::new(), HashMap::new());
        let mut uris = HashMap::with_capacity(found.len());
        let mut there = HashSet::new();
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() {
            let sessions = self.sessions();
            for conversation in found.by_ref().take(PIECE) {
                let known = seen.uris.remove(&conversation.id);
                let uri = known.unwrap_or_else(|| format!("{provider}:/{}", conversation.id).into());
                uris.insert(conversation.id, Arc::clone(&uri));
                match sessions.owner(conversation.id, &uri) {
                    Owner::Hidden => {}
                    Owner::Session(session) => drop(ours.insert(conversation.id, (session, conversation))),
                    Owner::Nobody => {
                        let shown = show.admits(there.len(), conversation.modified, now);
                        there.insert(Arc::clone(&uri));
                        let same = sessions.found.get(&uri).is_some_and(|old| old.conversation == conversation);
                        if !same || self.catalogue.has(&uri) != shown {
                            steps.push(Step::Put { uri, conversation: Box::new(conversation), shown });
                        }
                    }
                }
            }
        }
        seen.uris = uris;
        let gone = |(uri, found): (&Arc<str>, &FoundSession)| {
            (found.provider == provider && !there.contains(uri)).then(|| Step::Gone(Arc::clone(uri)))
        };
        steps.extend(self.sessions().found.iter().filter_map(gone));
        self.take_steps(provider, steps).await;
        self.tell_ours(seen, ours);
    }

    async fn take_steps(self: &Arc<Self>, provider: &str, steps: Vec<Step>) {
        let mut steps = steps.into_iter().peekable();
        while steps.peek().is_some() {
            let notices: Vec<_> = {
                let mut sessions = self.sessions();
                steps.by_ref().take(PIECE).filter_map(|step| self.step(&mut sessions, provider, step)).collect()
            };
            let hub = Arc::clone(&self.hub);
            let told = Batch::new(None, Durability::Memory).then(move |_| {
                notices.into_iter().for_each(|notice| hub.notify(uri::ROOT, notice));
            });
            if let Err(error) = self.store.sequencer().submit(told).await {
                tracing::debug!(%error, "what was found came too late");
            }
        }
    }

    /// Takes a step, if nothing has come between: then it is tried again after the next look.
    fn step(&self, sessions: &mut Sessions, provider: &str, step: Step) -> Option<NoticeKind> {
        match step {
            Step::Gone(uri) => {
                sessions.found.remove(&uri)?;
                if sessions.is_ours(&uri) {
                    return None;
                }
                self.search.gone(&uri);
                let listed = self.catalogue.remove(&uri);
                listed.then_some(NoticeKind::SessionRemoved(uri))
            }
            Step::Put { uri, conversation, shown } => {
                if !matches!(sessions.owner(conversation.id, &uri), Owner::Nobody) {
                    return None;
                }
                let line = shown.then(|| summary(provider, &uri, &conversation));
                let found = FoundSession { provider: provider.to_owned(), conversation: *conversation };
                sessions.found.insert(Arc::clone(&uri), found);
                self.search.changed(&uri);
                let Some(line) = line else {
                    return self.catalogue.remove(&uri).then_some(NoticeKind::SessionRemoved(uri));
                };
                let told = self.catalogue.summary(&uri);
                self.catalogue.put(&uri, &line);
                let Some(told) = told else { return Some(NoticeKind::SessionAdded(Box::new(line))) };
                let changes = Box::new(difference(&told, &line));
                (*changes != Default::default()).then_some(NoticeKind::SessionSummaryChanged { session: uri, changes })
            }
        }
    }

    /// Tells sessions what has become of their agents' records.
    fn tell_ours(self: &Arc<Self>, seen: &mut Seen, ours: HashMap<Uuid, (Arc<str>, FoundConversation)>) {
        let mut now = HashMap::with_capacity(ours.len());
        for (id, (session, conversation)) in ours {
            let before = seen.ours.remove(&id);
            let same = before.as_ref() == Some(&conversation);
            if same || self.tell_session_of(&session, before.as_ref(), &conversation) {
                now.insert(id, conversation);
            }
        }
        seen.ours = now;
    }

    /// `false` if the session is too busy to hear it: then it is told after the next look. Looks wait for nobody.
    fn tell_session_of(
        self: &Arc<Self>,
        session: &Arc<str>,
        before: Option<&FoundConversation>,
        now: &FoundConversation,
    ) -> bool {
        let handle = {
            let mut sessions = self.sessions();
            let same = before.is_some_and(|before| (&before.given_title, &before.tag) == (&now.given_title, &now.tag));
            // One that is at rest is woken for what people see in the list, and for what others say in it: no agent of ours is there.
            let wakes = |line: SessionSummary| {
                let titled = now.given_title.as_ref().is_some_and(|title| *title != line.title);
                titled || now.tag.is_news_to(tag_of(line.meta.as_ref()))
            };
            let said = before.is_some_and(|before| before.modified != now.modified);
            if said || (!same && self.catalogue.summary(session).is_some_and(wakes)) {
                sessions.wake(self, session)
            } else {
                sessions.live.get(session).cloned()
            }
        };
        handle.is_none_or(|handle| handle.try_send(Input::Record(Box::new(now.clone()))))
    }
}

/// The line of a session that was only found.
pub(super) fn summary(provider: &str, uri: &Arc<str>, conversation: &FoundConversation) -> SessionSummary {
    let status = SessionStatus::Idle.bits() | SessionStatus::IsRead.bits();
    let directory = conversation.directory.as_ref().and_then(|path| Url::from_file_path(path).ok());
    let modified_at = clock::text(conversation.modified);
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
        meta: Some(meta(conversation)),
        chats: Some(vec![chat]),
        default_chat: Some(default_chat),
    }
}

/// What a session's `_meta` says of a conversation that was begun elsewhere.
pub(crate) fn meta(conversation: &FoundConversation) -> JsonObject {
    let mut hostler = JsonObject::from_iter([("external".to_owned(), Value::Bool(true))]);
    if let Some(tag) = conversation.tag.text() {
        hostler.insert(TAG.to_owned(), json!(tag));
    }
    JsonObject::from_iter([("hostler".to_owned(), Value::Object(hostler))])
}

/// The key of a session's tag, below `hostler` in its `_meta`.
pub(crate) const TAG: &str = "tag";

/// A session's tag.
pub(crate) fn tag_of(meta: Option<&JsonObject>) -> Option<&str> {
    meta?.get("hostler")?.get(TAG)?.as_str()
}
