//! Collects the session's part of completions: working directories, other chats and slash commands.

use ahp_types::state::TurnState;
use url::Url;

use crate::clients::completion::CompletionContext;
use crate::sessions::local_command;
use crate::sessions::session::Session;

impl CompletionContext {
    /// The completion context of a chat; `None` if it is not a chat of the session.
    pub(super) fn new(session: &Session, channel: &str) -> Option<Self> {
        if channel != &*session.uri && session.chat_by_uri(channel).is_none() {
            return None;
        }
        let directories = session.session.working_directories.iter().flatten();
        let others = session.chats().filter(|(uri, chat, storage)| {
            let completed = || chat.turns.iter().any(|turn| turn.state == TurnState::Complete);
            ***uri != *channel && (storage.evicted.has_completed_turn || completed())
        });
        let title = |title: &str| match title.trim() {
            "" => session.session.title.clone(),
            title => title.to_owned(),
        };
        // Titles are single lines.
        let line = |title: String| title.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(Self {
            directories: directories.filter_map(|uri| Url::parse(uri).ok()?.to_file_path().ok()).collect(),
            chats: others.map(|(uri, chat, _)| (uri.to_string(), line(title(&chat.title)))).collect(),
            commands: local_command::slash_commands().chain(session.commands.iter().cloned()).collect(),
        })
    }
}
