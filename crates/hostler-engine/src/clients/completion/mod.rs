//! Completions for drafts: files, other chats, commands.
//!
//! Only the token that ends at the cursor counts; an item replaces it.

mod fuzzy;
mod items;
mod token;

use std::path::PathBuf;

use ahp_types::commands::CompletionItem;
use hostler_driver::SlashCommand;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::sessions::actor::SessionInput;
use crate::uri;
use crate::{EngineError, InvalidParams};

/// The session's data for completions.
#[derive(Debug, Default)]
pub(crate) struct CompletionContext {
    pub(crate) directories: Vec<PathBuf>,
    /// Other chats with completed turns, by URI and title.
    pub(crate) chats: Vec<(String, String)>,
    pub(crate) commands: Vec<SlashCommand>,
}

impl Engine {
    /// The completions for a draft in a chat with the cursor at `offset`, in UTF-16 units.
    ///
    /// # Errors
    /// If there is no such chat, or no such position in the text.
    pub async fn completions(
        &self,
        channel: &str,
        text: &str,
        offset: i64,
    ) -> Result<Vec<CompletionItem>, EngineError> {
        let place = usize::try_from(offset).ok().and_then(|offset| token::token_at(text, offset));
        let token = place.ok_or(InvalidParams::TextOffset(offset))?;
        let mut letters = token.text.chars();
        let (trigger, query) = (letters.next(), letters.as_str());
        // Commands are recognized only at the start of a message.
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
            let files = self.host.resources.list_files(&directory).await;
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
