//! The state of a session and its chats, and the private facts that the host stores with them. No I/O.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use ahp_types::actions::{ChatTurnStartedAction, StateAction};
use ahp_types::state::{
    AnnotationsState, ChatInputRequest, ChatState, ChatSummary, Message, MessageKind, MessageOrigin, PendingMessage,
    ResponsePart, SessionConfigState, SessionLifecycle, SessionState, SessionStatus, ToolCallPendingConfirmationState,
    ToolCallState,
};
use hostler_attachments::DisplayName;
use hostler_driver::{ConversationStart, ResumeToken, SlashCommand};
use hostler_redact::variant_name;
use hostler_rules::{Effect, Rule, RuleError, RuleScope, RuleSet};
use hostler_store::{SnapshotRow, StoreError};
use url::Url;
use uuid::Uuid;

use crate::attachments::{self, AttachmentContents};
use crate::clients::broadcaster::Subscriber;
use crate::sessions::dispatch_facts::DispatchFacts;
use crate::sessions::record::{ExternalTurn, MetadataSync, SessionSnapshot};
use crate::sessions::state::{ApplyOutcome, Reduce as _, chat_summary_change};
use crate::sessions::sub_agent_chat::{self, SubAgentChat};
use crate::sessions::turn_storage::TurnStorage;
use crate::uri;

/// How many messages that left the queue are remembered.
const MAX_CONSUMED_MESSAGES: usize = 64;

/// How many prompts are remembered with their turns.
const MAX_PROMPT_TURNS: usize = 256;

/// The host's key in a `_meta`.
pub(crate) const HOSTLER_META_KEY: &str = "hostler";

/// A client's request to change something; the surface has checked its form and the client's identity.
#[derive(Clone)]
pub struct Dispatch {
    /// The logical client.
    pub client_id: String,
    /// The client's number of this dispatch.
    pub client_seq: i64,
    /// The channel.
    pub channel: String,
    /// The requested action.
    pub action: StateAction,
    /// The connection that sent it, for a unicast answer.
    pub subscriber: Option<Subscriber>,
    /// Contents of the attachments that the message refers to; surfaces leave it empty.
    pub attachment_contents: AttachmentContents,
    /// What the action needs from the disk; surfaces leave it empty.
    pub facts: DispatchFacts,
}

impl Dispatch {
    /// Whether it contains a message with attachments, which have to be prepared first.
    pub fn has_attachments(&self) -> bool {
        attachments::has_attachments(&self.action)
    }

    pub(crate) fn origin(&self) -> ahp_types::ActionOrigin {
        ahp_types::ActionOrigin { client_id: self.client_id.clone(), client_seq: self.client_seq }
    }
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("client_id", &self.client_id)
            .field("client_seq", &self.client_seq)
            .field("channel", &self.channel)
            .field("action", &variant_name(&self.action))
            .finish_non_exhaustive()
    }
}

/// The states of a session and its chats, changed by the reducers only, and the host's private facts.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) uri: Arc<str>,
    pub(crate) chat_uri: Arc<str>,
    pub(crate) session: Arc<SessionState>,
    pub(crate) chat: Arc<ChatState>,
    /// Comments of people on places in files.
    pub(crate) annotations: Arc<AnnotationsState>,
    /// The slash commands that the agent has reported.
    pub(crate) commands: Vec<SlashCommand>,
    /// The chats of sub-agents, in the order of their start.
    pub(crate) sub_agent_chats: Vec<SubAgentChat>,
    pub(crate) created_at: String,
    /// The key of the conversation's lock, and its first session id.
    pub(crate) conversation: Uuid,
    /// Resumes the conversation; `None` until the agent has confirmed it.
    pub(crate) resume_token: Option<ResumeToken>,
    /// Rules that apply until the session is deleted.
    pub(crate) rules: RuleSet,
    /// The last turn whose message the agent has.
    pub(crate) delivered_turn: Option<String>,
    /// The id of that message in the transcript, if known.
    pub(crate) delivered_prompt_id: Option<Uuid>,
    /// The turns of recent prompts, by the prompts' ids in the transcript.
    pub(crate) prompt_turns: VecDeque<(Uuid, String)>,
    /// The steering message that was injected and whose answer has not started.
    pub(crate) injected_message: Option<String>,
    /// Queued messages that became turns recently: an edit of one of them is rejected.
    pub(crate) consumed_messages: VecDeque<String>,
    /// Which of the chat's turns are stored.
    pub(crate) turn_storage: TurnStorage,
    /// How many of the chat's first turns are not imported yet.
    pub(crate) unimported_turns: usize,
    /// The transcript's turn that is the first imported one: earlier ones are not imported yet.
    pub(crate) import_cursor: Option<Uuid>,
    /// How often the transcript was missing when turns were to be imported.
    pub(crate) missing_transcript_count: usize,
    /// The last turn of the transcript that was synced, whichever process ran it; nil before the first one. `None` for
    /// a conversation of an earlier version, whose prompts cannot be recognized in the transcript.
    pub(crate) synced_through: Option<Uuid>,
    /// The last external turn, and how much of it is appended.
    pub(crate) last_external_turn: Option<ExternalTurn>,
    /// Sync state of the title and the tag in the transcript.
    pub(crate) metadata_sync: MetadataSync,
    /// Whether the session is stored.
    pub(crate) is_stored: bool,
    /// Whether the session is announced in the session list.
    pub(crate) is_listed: bool,
}

impl Session {
    /// Creates a provisional session, in memory only.
    pub(crate) fn provisional(
        session_uri: Arc<str>,
        provider: String,
        directories: Vec<String>,
        config: Option<SessionConfigState>,
        now: String,
    ) -> Self {
        let chat_uri: Arc<str> = uri::default_chat_uri(&session_uri).into();
        let status = SessionStatus::Idle.bits() | SessionStatus::IsRead.bits();
        let summary = ChatSummary {
            resource: chat_uri.to_string(),
            title: String::new(),
            status,
            activity: None,
            modified_at: now.clone(),
            changes: None,
            origin: None,
            movable: None,
            interactivity: None,
            working_directories: None,
        };
        let chat = sub_agent_chat::empty_chat(&summary);
        let session = SessionState {
            provider,
            title: String::new(),
            status,
            activity: None,
            origin: None,
            project: None,
            working_directories: Some(directories),
            annotations: None,
            lifecycle: SessionLifecycle::Creating,
            creation_error: None,
            server_tools: None,
            active_clients: Vec::new(),
            chats: vec![summary],
            default_chat: Some(chat_uri.to_string()),
            config,
            customizations: None,
            changesets: None,
            input_needed: None,
            meta: None,
        };
        Self {
            conversation: uri::conversation_id(&session_uri),
            uri: session_uri,
            chat_uri,
            session: Arc::new(session),
            chat: Arc::new(chat),
            annotations: Arc::new(AnnotationsState { annotations: Vec::new() }),
            commands: Vec::new(),
            sub_agent_chats: Vec::new(),
            created_at: now,
            resume_token: None,
            rules: RuleSet::default(),
            delivered_turn: None,
            delivered_prompt_id: None,
            prompt_turns: VecDeque::new(),
            injected_message: None,
            consumed_messages: VecDeque::new(),
            turn_storage: TurnStorage::default(),
            unimported_turns: 0,
            import_cursor: None,
            missing_transcript_count: 0,
            synced_through: Some(Uuid::nil()),
            metadata_sync: MetadataSync::default(),
            last_external_turn: None,
            is_stored: false,
            is_listed: false,
        }
    }

    /// A value of the host's part of the session's `_meta`.
    pub(crate) fn hostler_meta(&self, key: &str) -> Option<&serde_json::Value> {
        self.session.meta.as_ref()?.get(HOSTLER_META_KEY)?.get(key)
    }

    /// Applies an action to the state. Every published action of the session passes here.
    pub(crate) fn apply(&mut self, channel: &str, action: &StateAction) -> ApplyOutcome {
        if channel != &*self.chat_uri {
            if self.is_annotations_channel(channel) {
                return Arc::make_mut(&mut self.annotations).reduce(action);
            }
            if let Some(worker) = self.sub_agent_chats.iter_mut().find(|worker| *worker.uri == *channel) {
                return worker.apply(action);
            }
            if let StateAction::SessionChatAdded(added) = action
                && self.chat_by_uri(&added.summary.resource).is_none()
            {
                self.sub_agent_chats.push(SubAgentChat::new(&added.summary));
            }
            return Arc::make_mut(&mut self.session).reduce(action);
        }
        let outcome = Arc::make_mut(&mut self.chat).reduce(action);
        self.turn_storage.clamp_to_chat(&self.chat);
        if let StateAction::ChatTurnStarted(ChatTurnStartedAction { queued_message_id: Some(message), .. }) = action {
            self.consumed_messages.push_back(message.clone());
            if self.consumed_messages.len() > MAX_CONSUMED_MESSAGES {
                self.consumed_messages.pop_front();
            }
        }
        if self.chat.steering_message.as_ref().map(|message| &message.id) != self.injected_message.as_ref() {
            self.injected_message = None;
        }
        outcome
    }

    /// Whether a channel belongs to the session.
    pub(crate) fn has_channel(&self, channel: &str) -> bool {
        *channel == *self.uri || self.chat_by_uri(channel).is_some() || self.is_annotations_channel(channel)
    }

    /// Whether a channel is the session's annotations channel.
    pub(crate) fn is_annotations_channel(&self, channel: &str) -> bool {
        uri::annotated_session(channel) == Some(&*self.uri)
    }

    /// The queued messages.
    pub(crate) fn queued_messages(&self) -> &[PendingMessage] {
        self.chat.queued_messages.as_deref().unwrap_or_default()
    }

    /// The steering message, and whether it was injected.
    pub(crate) fn steering_message(&self) -> Option<(&PendingMessage, bool)> {
        let message = self.chat.steering_message.as_ref()?;
        Some((message, self.injected_message.as_deref() == Some(&message.id)))
    }

    /// The sub-agent chat of a channel.
    pub(crate) fn sub_agent_chat(&self, channel: &str) -> Option<&SubAgentChat> {
        self.sub_agent_chats.iter().find(|worker| *worker.uri == *channel)
    }

    /// The chat of a channel.
    pub(crate) fn chat_by_uri(&self, channel: &str) -> Option<&Arc<ChatState>> {
        if channel == &*self.chat_uri {
            return Some(&self.chat);
        }
        self.sub_agent_chat(channel).map(|worker| &worker.state)
    }

    /// All chats, each with its storage state.
    pub(crate) fn chats(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ChatState>, &TurnStorage)> {
        let workers = self.sub_agent_chats.iter().map(|worker| (&worker.uri, &worker.state, &worker.turn_storage));
        std::iter::once((&self.chat_uri, &self.chat, &self.turn_storage)).chain(workers)
    }

    /// The chat of a channel, with its storage state.
    pub(crate) fn chat_with_storage(&self, channel: &str) -> Option<(&Arc<ChatState>, &TurnStorage)> {
        self.chats().find(|(uri, ..)| ***uri == *channel).map(|(_, chat, storage)| (chat, storage))
    }

    /// Whether some turns are not in memory.
    pub(crate) fn has_evicted_turns(&self) -> bool {
        self.chats().any(|(_, _, storage)| storage.evicted.count > 0)
    }

    /// Notes that all turns that were passed to the store are committed.
    pub(crate) fn mark_turns_committed(&mut self) {
        self.turn_storage.mark_committed();
        self.sub_agent_chats.iter_mut().for_each(|worker| worker.turn_storage.mark_committed());
    }

    /// Evicts committed turns until each chat has at most `window` turns in memory.
    pub(crate) fn evict_turns(&mut self, window: usize) {
        self.turn_storage.evict(&self.session, &mut self.chat, window);
        for worker in &mut self.sub_agent_chats {
            worker.turn_storage.evict(&self.session, &mut worker.state, window);
        }
    }

    /// Whether a turn that is in memory, or was since the session was loaded, has this id, in any chat.
    pub(crate) fn has_turn(&self, id: &str) -> bool {
        self.chats().any(|(_, chat, storage)| {
            storage.has_evicted(id)
                || chat.turns.iter().any(|turn| turn.id == id)
                || chat.active_turn.as_ref().is_some_and(|turn| turn.id == id)
        })
    }

    /// The actions that update the session's chat summaries where they differ from the chats.
    pub(crate) fn chat_projections(&self) -> Vec<StateAction> {
        let chats = std::iter::once(&self.chat).chain(self.sub_agent_chats.iter().map(|worker| &worker.state));
        chats.filter_map(|chat| self.chat_projection(chat)).collect()
    }

    /// Notes the id of a prompt that is sent for a turn.
    pub(crate) fn add_prompt(&mut self, id: Uuid, turn: String) {
        self.prompt_turns.push_back((id, turn));
        self.prompt_turns.drain(..self.prompt_turns.len().saturating_sub(MAX_PROMPT_TURNS));
    }

    /// Notes that the agent has a turn's message, with its id in the transcript if it is known.
    pub(crate) fn set_delivered(&mut self, turn: String, prompt_id: Option<Uuid>) {
        if let Some(id) = prompt_id.filter(|id| self.prompt_turns.back().is_none_or(|(last, _)| last != id)) {
            self.add_prompt(id, turn.clone());
        }
        (self.delivered_turn, self.delivered_prompt_id) = (Some(turn), prompt_id);
    }

    fn chat_projection(&self, chat: &ChatState) -> Option<StateAction> {
        let line = self.session.chats.iter().find(|line| line.resource == chat.resource)?;
        let next = ChatSummary { status: chat.status, modified_at: chat.modified_at.clone(), ..line.clone() };
        chat_summary_change(line, next)
    }

    /// The snapshot for the store: the session without completed turns, and the completed turns that are not stored
    /// yet.
    pub(crate) fn snapshot_row(&self) -> Result<SnapshotRow, StoreError> {
        let encode = |error: serde_json::Error| StoreError::Database(format!("a snapshot cannot be encoded: {error}"));
        let chat = clone_without_turns(&self.chat);
        let snapshot = SessionSnapshot {
            session: (*self.session).clone(),
            chat,
            sub_agent_chats: self.sub_agent_chats.iter().map(|worker| clone_without_turns(&worker.state)).collect(),
            created_at: self.created_at.clone(),
            conversation: self.conversation,
            resume_token: self.resume_token.clone(),
            session_rules: self.rules.iter().map(ToString::to_string).collect(),
            delivered_turn: self.delivered_turn.clone(),
            delivered_prompt_id: self.delivered_prompt_id,
            prompt_turns: self.prompt_turns.clone(),
            consumed_messages: self.consumed_messages.clone(),
            annotations: (!self.annotations.annotations.is_empty()).then(|| (*self.annotations).clone()),
            commands: self.commands.clone(),
            unimported_turns: self.unimported_turns,
            import_cursor: self.import_cursor,
            missing_transcript_count: self.missing_transcript_count,
            synced_through: self.synced_through,
            last_external_turn: self.last_external_turn,
            metadata_sync: self.metadata_sync.clone(),
            evicted_turns: self
                .chats()
                .filter(|(_, _, storage)| storage.evicted.count > 0)
                .map(|(uri, _, storage)| (uri.to_string(), storage.evicted.clone()))
                .collect(),
        };
        let body = serde_json::to_string(&snapshot).map_err(encode)?;
        let (mut turns, mut chats) = (Vec::new(), Vec::new());
        for (uri, chat, storage) in self.chats() {
            turns.extend(storage.unsubmitted_rows(uri, chat).map_err(encode)?);
            chats.extend(storage.changed_chat_row(uri, chat));
        }
        Ok(SnapshotRow { body, turns, chats })
    }

    /// Notes that all completed turns were passed to the store.
    pub(crate) fn mark_turns_submitted(&mut self) {
        self.turn_storage.mark_submitted(&self.chat);
        for worker in &mut self.sub_agent_chats {
            worker.turn_storage.mark_submitted(&worker.state);
        }
    }

    /// The agent's working directory.
    pub(crate) fn working_directory(&self) -> Option<PathBuf> {
        let first = self.session.working_directories.as_ref()?.first()?;
        Url::parse(first).ok()?.to_file_path().ok()
    }

    /// A value of the session's configuration.
    pub(crate) fn config_value(&self, key: &str) -> Option<&str> {
        self.session.config.as_ref()?.values.get(key)?.as_str()
    }

    /// A call of a chat's running turn that waits for confirmation.
    pub(crate) fn pending_call(&self, chat: &str, call: &str) -> Option<&ToolCallPendingConfirmationState> {
        self.chat_by_uri(chat)?.active_turn.as_ref()?.response_parts.iter().find_map(|part| match part {
            ResponsePart::ToolCall(part) => match &part.tool_call {
                ToolCallState::PendingConfirmation(state) if state.tool_call_id == call => Some(state),
                _ => None,
            },
            _ => None,
        })
    }

    /// An unanswered input request of the running turn.
    pub(crate) fn open_input_request(&self, id: &str) -> Option<&ChatInputRequest> {
        self.chat.active_turn.as_ref()?.response_parts.iter().find_map(|part| match part {
            ResponsePart::InputRequest(part) if part.response.is_none() && part.request.id == id => Some(&part.request),
            _ => None,
        })
    }

    /// Restores the session's rules. An unreadable rule allows nothing.
    pub(crate) fn add_session_rules(&mut self, texts: &[String]) {
        for text in texts {
            match Rule::parse(Effect::Allow, RuleScope::Session, text).map(|rule| self.rules.add(rule)) {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "ignored an invalid rule of a session"),
                // The rule itself is not logged: an allowed command may contain a password.
                Err(RuleError { problem, position, .. }) => {
                    tracing::warn!(problem, position, "failed to parse a rule of a session");
                }
            }
        }
    }

    /// How the driver opens the conversation.
    pub(crate) fn conversation_start(&self) -> ConversationStart {
        match &self.resume_token {
            Some(token) => ConversationStart::Resume { id: self.conversation, token: token.clone() },
            None => ConversationStart::New(self.conversation),
        }
    }
}

/// Clones a chat without its completed turns, without copying those first.
pub(crate) fn clone_without_turns(chat: &ChatState) -> ChatState {
    ChatState {
        resource: chat.resource.clone(),
        title: chat.title.clone(),
        status: chat.status,
        activity: chat.activity.clone(),
        modified_at: chat.modified_at.clone(),
        changes: chat.changes.clone(),
        origin: chat.origin.clone(),
        movable: chat.movable,
        interactivity: chat.interactivity,
        working_directories: chat.working_directories.clone(),
        changesets: chat.changesets.clone(),
        background_work: chat.background_work.clone(),
        canvases: chat.canvases.clone(),
        turns: Vec::new(),
        turns_next_cursor: chat.turns_next_cursor.clone(),
        active_turn: chat.active_turn.clone(),
        steering_message: chat.steering_message.clone(),
        queued_messages: chat.queued_messages.clone(),
        draft: chat.draft.clone(),
        meta: chat.meta.clone(),
    }
}

/// Creates a message that no person wrote.
pub(crate) fn new_message(text: String, kind: MessageKind) -> Message {
    Message { text, origin: MessageOrigin { kind }, attachments: None, model: None, agent: None, meta: None }
}

/// Creates a title from the first message: from its text, or from its attachments.
pub(crate) fn title_from_message(message: &Message) -> String {
    match attachments::message_attachments(message).first() {
        Some(attached) if message.text.trim().is_empty() => {
            title_from_text(DisplayName::new(attachments::attachment_label(attached)).as_str())
        }
        _ => title_from_text(&message.text),
    }
}

/// Creates a title from a text: its first line, cut at a word boundary.
pub(crate) fn title_from_text(text: &str) -> String {
    const MAX: usize = 60;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("New session");
    if line.chars().count() <= MAX {
        return line.to_owned();
    }
    let mut title: String = line.chars().take(MAX).collect();
    if let Some(space) = title.rfind(char::is_whitespace) {
        title.truncate(space);
    }
    format!("{}…", title.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_the_first_line_cut_at_a_word() {
        assert_eq!(title_from_text("\n  hi there  \nmore"), "hi there");
        assert_eq!(title_from_text("   "), "New session");
        let long = "word ".repeat(30);
        let title = title_from_text(&long);
        assert!(title.ends_with("word…") && title.chars().count() <= 61, "{title}");
        assert!(title_from_text(&"ü".repeat(100)).ends_with('…'));
    }
}
