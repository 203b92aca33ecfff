//! What a session is: its states and the private facts beside them. No I/O.

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
use crate::broadcaster::Subscriber;
use crate::session_record::{ExternalTurn, MetadataSync, SessionSnapshot, UnconfirmedCommand};
use crate::state::{ApplyOutcome, Reduce as _, chat_summary_change};
use crate::sub_agent_chat::{self, SubAgentChat};
use crate::turn_storage::TurnStorage;
use crate::uri;

/// How many messages are remembered that have left the queue.
const MAX_CONSUMED_MESSAGES: usize = 64;

/// How much is remembered of what was sent to the agent. One that writes nothing down is not waited for.
const MAX_UNCONFIRMED_COMMANDS: usize = 64;

/// The key of the host's own facts in a `_meta`.
pub(crate) const HOSTLER_META_KEY: &str = "hostler";

/// A client's wish to change something, whose form and identity the surface has checked.
#[derive(Clone)]
pub struct Dispatch {
    /// The logical client.
    pub client_id: String,
    /// The client's own number for this dispatch.
    pub client_seq: i64,
    /// The channel.
    pub channel: String,
    /// What is to happen.
    pub action: StateAction,
    /// The connection that it came over, for an answer that only it needs.
    pub subscriber: Option<Subscriber>,
    /// What its message names instead of carrying it; surfaces leave it empty.
    pub attachment_contents: AttachmentContents,
}

impl Dispatch {
    /// Whether it brings a message with attachments, which have to be prepared first.
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

/// The states of a session and its chats, moved by the reducers alone.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) uri: Arc<str>,
    pub(crate) chat_uri: Arc<str>,
    pub(crate) session: Arc<SessionState>,
    pub(crate) chat: Arc<ChatState>,
    /// What people have written about places in files.
    pub(crate) annotations: Arc<AnnotationsState>,
    /// The commands that the agent has told of.
    pub(crate) commands: Vec<SlashCommand>,
    /// The chats of sub-agents, in the order of their beginning.
    pub(crate) sub_agent_chats: Vec<SubAgentChat>,
    pub(crate) created_at: String,
    /// The key of the conversation's lock, and its first session id.
    pub(crate) conversation: Uuid,
    /// How it goes on; `None` until the agent has confirmed it.
    pub(crate) resume_token: Option<ResumeToken>,
    /// What is allowed as long as the session lives.
    pub(crate) rules: RuleSet,
    /// The last turn whose message the agent has.
    pub(crate) delivered_turn: Option<String>,
    /// By which id the agent's record has it, if it is known by one.
    pub(crate) delivered_prompt_id: Option<Uuid>,
    /// The steering message that the agent was told of; its answer has not begun.
    pub(crate) injected_message: Option<String>,
    /// Queued messages that have become turns lately: an edit of one of them comes too late.
    pub(crate) consumed_messages: VecDeque<String>,
    /// What the store has of the chat's turns.
    pub(crate) turn_storage: TurnStorage,
    /// How many of the chat's first turns are still to be taken in from the agent's record.
    pub(crate) unimported_turns: usize,
    /// The turn of the record that the first one is which was taken in: those before it are still to come.
    pub(crate) import_cursor: Option<Uuid>,
    /// How often the record was not there when they were to be taken in.
    pub(crate) missing_transcript_count: usize,
    /// The last turn of the agent's record that was looked at, whoever led it; nil before the first one, and absent where
    /// an earlier version led the conversation, which left no trace of itself in the record.
    pub(crate) synced_through: Option<Uuid>,
    /// The last turn that others led, and how much of it was told.
    pub(crate) last_external_turn: Option<ExternalTurn>,
    /// What is known of the name and the tag in the agent's record.
    pub(crate) metadata_sync: MetadataSync,
    /// What the agent was told and its record was not heard to say yet, as far as commands need it.
    pub(crate) unconfirmed_commands: VecDeque<UnconfirmedCommand>,
    /// Whether the store knows the session.
    pub(crate) is_stored: bool,
    /// Whether the world knows it.
    pub(crate) is_listed: bool,
}

impl Session {
    /// A provisional session: memory only.
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
            injected_message: None,
            consumed_messages: VecDeque::new(),
            turn_storage: TurnStorage::default(),
            unimported_turns: 0,
            import_cursor: None,
            missing_transcript_count: 0,
            synced_through: Some(Uuid::nil()),
            metadata_sync: MetadataSync::default(),
            unconfirmed_commands: VecDeque::new(),
            last_external_turn: None,
            is_stored: false,
            is_listed: false,
        }
    }

    /// What the session's `_meta` says under a key of the host's own.
    pub(crate) fn hostler_meta(&self, key: &str) -> Option<&serde_json::Value> {
        self.session.meta.as_ref()?.get(HOSTLER_META_KEY)?.get(key)
    }

    /// Moves the state. Every number that clients see has passed here.
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

    /// Whether a channel is the one of the session's annotations.
    pub(crate) fn is_annotations_channel(&self, channel: &str) -> bool {
        uri::annotated_session(channel) == Some(&*self.uri)
    }

    /// The messages that wait for their turn.
    pub(crate) fn queued_messages(&self) -> &[PendingMessage] {
        self.chat.queued_messages.as_deref().unwrap_or_default()
    }

    /// The message that is to be folded into the running turn, and whether the agent was told of it.
    pub(crate) fn steering_message(&self) -> Option<(&PendingMessage, bool)> {
        let message = self.chat.steering_message.as_ref()?;
        Some((message, self.injected_message.as_deref() == Some(&message.id)))
    }

    /// The chat of a sub-agent.
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

    /// All chats, each with what the store has of its turns.
    pub(crate) fn chats(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<ChatState>, &TurnStorage)> {
        let workers = self.sub_agent_chats.iter().map(|worker| (&worker.uri, &worker.state, &worker.turn_storage));
        std::iter::once((&self.chat_uri, &self.chat, &self.turn_storage)).chain(workers)
    }

    /// The chat of a channel, and what the store has of its turns.
    pub(crate) fn chat_with_storage(&self, channel: &str) -> Option<(&Arc<ChatState>, &TurnStorage)> {
        self.chats().find(|(uri, ..)| ***uri == *channel).map(|(_, chat, kept)| (chat, kept))
    }

    /// Whether there are turns that are not in memory.
    pub(crate) fn has_evicted_turns(&self) -> bool {
        self.chats().any(|(_, _, kept)| kept.evicted.count > 0)
    }

    /// What was stored up to now is committed.
    pub(crate) fn mark_turns_committed(&mut self) {
        self.turn_storage.mark_committed();
        self.sub_agent_chats.iter_mut().for_each(|worker| worker.turn_storage.mark_committed());
    }

    /// Lets turns go that the store has, until no chat has more than so many in memory.
    pub(crate) fn evict_turns(&mut self, window: usize) {
        self.turn_storage.evict(&self.session, &mut self.chat, window);
        for worker in &mut self.sub_agent_chats {
            worker.turn_storage.evict(&self.session, &mut worker.state, window);
        }
    }

    /// Whether a turn of any chat that is in memory has this id.
    pub(crate) fn has_turn(&self, id: &str) -> bool {
        self.chats().any(|(_, chat, _)| {
            chat.turns.iter().any(|turn| turn.id == id) || chat.active_turn.as_ref().is_some_and(|turn| turn.id == id)
        })
    }

    /// The actions that bring the session's lines about its chats up to date, as far as they are not.
    pub(crate) fn chat_projections(&self) -> Vec<StateAction> {
        let chats = std::iter::once(&self.chat).chain(self.sub_agent_chats.iter().map(|worker| &worker.state));
        chats.filter_map(|chat| self.chat_projection(chat)).collect()
    }

    /// Remembers what was sent to the agent.
    pub(crate) fn add_unconfirmed_command(&mut self, sent: UnconfirmedCommand) {
        self.unconfirmed_commands.push_back(sent);
        let over = self.unconfirmed_commands.len().saturating_sub(MAX_UNCONFIRMED_COMMANDS);
        self.unconfirmed_commands.drain(..over);
    }

    fn chat_projection(&self, chat: &ChatState) -> Option<StateAction> {
        let line = self.session.chats.iter().find(|line| line.resource == chat.resource)?;
        let next = ChatSummary { status: chat.status, modified_at: chat.modified_at.clone(), ..line.clone() };
        chat_summary_change(line, next)
    }

    /// The session as the store keeps it: without the ended turns, and the turns that the store does not hold yet.
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
            consumed_messages: self.consumed_messages.clone(),
            annotations: (!self.annotations.annotations.is_empty()).then(|| (*self.annotations).clone()),
            commands: self.commands.clone(),
            unimported_turns: self.unimported_turns,
            import_cursor: self.import_cursor,
            missing_transcript_count: self.missing_transcript_count,
            synced_through: self.synced_through,
            last_external_turn: self.last_external_turn,
            metadata_sync: self.metadata_sync.clone(),
            unconfirmed_commands: self.unconfirmed_commands.clone(),
            evicted_turns: self
                .chats()
                .filter(|(_, _, kept)| kept.evicted.count > 0)
                .map(|(uri, _, kept)| (uri.to_string(), kept.evicted.clone()))
                .collect(),
        };
        let body = serde_json::to_string(&snapshot).map_err(encode)?;
        let (mut turns, mut chats) = (Vec::new(), Vec::new());
        for (uri, chat, kept) in self.chats() {
            turns.extend(kept.unsubmitted_rows(uri, chat).map_err(encode)?);
            chats.extend(kept.changed_chat_row(uri, chat));
        }
        Ok(SnapshotRow { body, turns, chats })
    }

    /// The store was given every ended turn now.
    pub(crate) fn mark_turns_submitted(&mut self) {
        self.turn_storage.mark_submitted(&self.chat);
        for worker in &mut self.sub_agent_chats {
            worker.turn_storage.mark_submitted(&worker.state);
        }
    }

    /// The directory that the agent works in.
    pub(crate) fn working_directory(&self) -> Option<PathBuf> {
        let first = self.session.working_directories.as_ref()?.first()?;
        Url::parse(first).ok()?.to_file_path().ok()
    }

    /// A value of the session's configuration.
    pub(crate) fn config_value(&self, key: &str) -> Option<&str> {
        self.session.config.as_ref()?.values.get(key)?.as_str()
    }

    /// A call of a chat's running turn that waits for a confirmation.
    pub(crate) fn pending_call(&self, chat: &str, call: &str) -> Option<&ToolCallPendingConfirmationState> {
        self.chat_by_uri(chat)?.active_turn.as_ref()?.response_parts.iter().find_map(|part| match part {
            ResponsePart::ToolCall(part) => match &part.tool_call {
                ToolCallState::PendingConfirmation(state) if state.tool_call_id == call => Some(state),
                _ => None,
            },
            _ => None,
        })
    }

    /// A request for input of the running turn that is not answered.
    pub(crate) fn open_input_request(&self, id: &str) -> Option<&ChatInputRequest> {
        self.chat.active_turn.as_ref()?.response_parts.iter().find_map(|part| match part {
            ResponsePart::InputRequest(part) if part.response.is_none() && part.request.id == id => Some(&part.request),
            _ => None,
        })
    }

    /// Takes back what was allowed as long as the session lives. A rule that cannot be read allows nothing.
    pub(crate) fn add_session_rules(&mut self, texts: &[String]) {
        for text in texts {
            match Rule::parse(Effect::Allow, RuleScope::Session, text).map(|rule| self.rules.add(rule)) {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "a rule of a session was left out"),
                // Not the rule itself: a command that was allowed may hold a password.
                Err(RuleError { problem, position, .. }) => {
                    tracing::warn!(problem, position, "a rule of a session could not be read");
                }
            }
        }
    }

    /// What the driver is to open.
    pub(crate) fn conversation_start(&self) -> ConversationStart {
        match &self.resume_token {
            Some(token) => ConversationStart::Resume { id: self.conversation, token: token.clone() },
            None => ConversationStart::New(self.conversation),
        }
    }
}

/// A chat without its ended turns, which can be many, copied without copying them first.
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

/// A message that no person wrote.
pub(crate) fn new_message(text: String, kind: MessageKind) -> Message {
    Message { text, origin: MessageOrigin { kind }, attachments: None, model: None, agent: None, meta: None }
}

/// A title made from the first message: of its words, or of what is attached.
pub(crate) fn title_from_message(message: &Message) -> String {
    match attachments::message_attachments(message).first() {
        Some(attached) if message.text.trim().is_empty() => {
            title_from_text(DisplayName::new(attachments::attachment_label(attached)).as_str())
        }
        _ => title_from_text(&message.text),
    }
}

/// A title made from a text: its first line, cut at a word.
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
    fn a_title_is_the_first_line_cut_at_a_word() {
        assert_eq!(title_from_text("\n  hi there  \nmore"), "hi there");
        assert_eq!(title_from_text("   "), "New session");
        let long = "word ".repeat(30);
        let title = title_from_text(&long);
        assert!(title.ends_with("word…") && title.chars().count() <= 61, "{title}");
        assert!(title_from_text(&"ü".repeat(100)).ends_with('…'));
    }
}
