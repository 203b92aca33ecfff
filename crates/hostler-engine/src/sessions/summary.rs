//! A session's summary in the session list.

use std::sync::Arc;

use ahp_types::state::{ChatState, SessionChatSummary, SessionStatus, SessionSummary};

use crate::sessions::annotations;
use crate::sessions::background_on_stop;
use crate::sessions::session::Session;
use crate::sessions::sub_agent_chat::SubAgentChat;
use crate::uri;

/// How many sub-agent chats the summary contains, the newest ones. The session state contains all of them.
const MAX_LISTED_SUB_AGENT_CHATS: usize = 100;

impl Session {
    /// The session's summary in the session list. Aggregates are computed only here.
    pub(crate) fn summary(&self) -> SessionSummary {
        let (session, chat) = (&self.session, &self.chat);
        let activity_bits =
            SessionStatus::InputNeeded.bits() | SessionStatus::Idle.bits() | SessionStatus::Error.bits();
        let asks = self.sub_agent_chats.iter().any(SubAgentChat::needs_input)
            || background_on_stop::has_stop_question(session);
        let activity = match asks {
            true => SessionStatus::InputNeeded.bits(),
            false => chat.status & activity_bits,
        };
        let status = (session.status & !activity_bits) | activity;
        SessionSummary {
            provider: session.provider.clone(),
            title: session.title.clone(),
            status,
            activity: chat.activity.clone(),
            origin: session.origin.clone(),
            project: session.project.clone(),
            working_directories: session.working_directories.clone(),
            annotations: annotations::summarize(uri::annotations_uri(&self.uri), &self.annotations),
            resource: self.uri.to_string(),
            created_at: self.created_at.clone(),
            modified_at: chat.modified_at.clone(),
            changes: None,
            meta: session.meta.clone(),
            chats: Some(self.listed_chats()),
            default_chat: session.default_chat.clone(),
        }
    }

    fn listed_chats(&self) -> Vec<SessionChatSummary> {
        let older = self.sub_agent_chats.len().saturating_sub(MAX_LISTED_SUB_AGENT_CHATS);
        let workers = self.sub_agent_chats.iter().skip(older).map(|worker| &worker.state);
        let line = |chat: &Arc<ChatState>| SessionChatSummary {
            resource: chat.resource.clone(),
            title: chat.title.clone(),
            origin: chat.origin.clone(),
            interactivity: chat.interactivity,
            status: Some(chat.status),
            changes: None,
        };
        std::iter::once(&self.chat).chain(workers).map(line).collect()
    }
}
