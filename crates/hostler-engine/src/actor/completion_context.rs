//! Collects the session's part of completions: working directories, other chats and slash commands.

use ahp_types::state::TurnState;
use url::Url;

use super::SessionActor;
use crate::completion::CompletionContext;
use crate::local_command;

impl SessionActor {
    /// The completion context of a chat; `None` if it is not a chat of this session.
    pub(super) fn completion_context(&self, channel: &str) -> Option<CompletionContext> {
        if channel != &*self.session.uri && self.session.chat_by_uri(channel).is_none() {
            return None;
        }
        let directories = self.session.session.working_directories.iter().flatten();
        let others = self.session.chats().filter(|(uri, chat, storage)| {
            let completed = || chat.turns.iter().any(|turn| turn.state == TurnState::Complete);
            ***uri != *channel && (storage.evicted.has_completed_turn || completed())
        });
        let title = |title: &str| match title.trim() {
            "" => self.session.session.title.clone(),
            title => title.to_owned(),
        };
        // Titles are single lines.
        let line = |title: String| title.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(CompletionContext {
            directories: directories.filter_map(|uri| Url::parse(uri).ok()?.to_file_path().ok()).collect(),
            chats: others.map(|(uri, chat, _)| (uri.to_string(), line(title(&chat.title)))).collect(),
            commands: local_command::slash_commands().chain(self.session.commands.iter().cloned()).collect(),
        })
    }
}
