//! Completions for what somebody is typing: files, other chats, commands.
//!
//! Only the word that ends at the cursor counts, and it is what an item replaces.

mod file_list;
mod fuzzy;
mod items;
mod token;

use std::path::PathBuf;

use ahp_types::commands::CompletionItem;
use hostler_driver::SlashCommand;
use tokio::sync::oneshot;

pub(crate) use self::file_list::FileListCache;
use crate::EngineError;
use crate::actor::SessionInput;
use crate::engine::Engine;
use crate::uri;

/// What a session knows that can be offered.
#[derive(Debug, Default)]
pub(crate) struct CompletionContext {
    pub(crate) directories: Vec<PathBuf>,
    /// Other chats with something in them, by URI and title.
    pub(crate) chats: Vec<(String, String)>,
    pub(crate) commands: Vec<SlashCommand>,
}

impl Engine {
    /// What can be offered to somebody who types a message in a chat and has the cursor at `offset`, in UTF-16 units.
    ///
    /// # Errors
    /// If there is no such chat, or no such place in the text.
    pub async fn completions(
        &self,
        channel: &str,
        text: &str,
        offset: i64,
    ) -> Result<Vec<CompletionItem>, EngineError> {
        let place = usize::try_from(offset).ok().and_then(|offset| token::token_at(text, offset));
        let token = place.ok_or_else(|| EngineError::Invalid(format!("{offset} is not a place in the text")))?;
        let mut letters = token.text.chars();
        let (trigger, query) = (letters.next(), letters.as_str());
        // Commands stand at the beginning of a message, or are none.
        if !matches!((trigger, token.start), (Some('@' | '#'), _) | (Some('/'), 0)) {
            return Ok(Vec::new());
        }
        let known = self.completion_context(channel).await?;
        match (trigger, query.strip_prefix(items::CHAT_QUERY_PREFIX)) {
            (Some('/'), _) => return Ok(items::command_items(&token, query, &known.commands)),
            (Some('#'), Some(title)) => return Ok(items::chat_items(&token, title, &known.chats)),
            _ => {}
        }
        let mut places = Vec::new();
        for directory in known.directories {
            let files = self
                .host
                .file_lists
                .files(&directory, self.host.resources.session_roots.resolved_private_paths())
                .await;
            places.push((directory, files));
        }
        let mut offered = items::file_items(&token, query, &places);
        if trigger == Some('#') && items::CHAT_QUERY_PREFIX.starts_with(query) {
            offered.extend(items::chat_items(&token, "", &known.chats));
        }
        Ok(offered)
    }

    async fn completion_context(&self, channel: &str) -> Result<CompletionContext, EngineError> {
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.load_session(&session).await.ok_or_else(not_found)?;
        let (reply, known) = oneshot::channel();
        handle.send(SessionInput::CompletionContext(channel.to_owned(), reply)).await?;
        known.await.map_err(|_| EngineError::Stopping)?.ok_or_else(not_found)
    }
}
