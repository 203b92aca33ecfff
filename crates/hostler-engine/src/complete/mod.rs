//! Completions for what somebody is typing: files, other chats, commands.
//!
//! Only the word that ends at the cursor counts, and it is what an item replaces.

mod fuzzy;
mod items;
mod token;
mod walk;

use std::path::PathBuf;

use ahp_types::commands::CompletionItem;
use hostler_driver::AgentCommand;
use tokio::sync::oneshot;

pub(crate) use self::walk::Walks;
use crate::EngineError;
use crate::actor::Input;
use crate::engine::Engine;
use crate::uri;

/// What a session knows that can be offered.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) directories: Vec<PathBuf>,
    /// Other chats with something in them, by URI and title.
    pub(crate) chats: Vec<(String, String)>,
    pub(crate) commands: Vec<AgentCommand>,
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
        let place = usize::try_from(offset).ok().and_then(|offset| token::at(text, offset));
        let token = place.ok_or_else(|| EngineError::Invalid(format!("{offset} is not a place in the text")))?;
        let mut letters = token.text.chars();
        let (trigger, query) = (letters.next(), letters.as_str());
        // Commands stand at the beginning of a message, or are none.
        if !matches!((trigger, token.start), (Some('@' | '#'), _) | (Some('/'), 0)) {
            return Ok(Vec::new());
        }
        let known = self.known_in(channel).await?;
        match (trigger, query.strip_prefix(items::CHAT)) {
            (Some('/'), _) => return Ok(items::commands(&token, query, &known.commands)),
            (Some('#'), Some(title)) => return Ok(items::chats(&token, title, &known.chats)),
            _ => {}
        }
        let mut places = Vec::new();
        for directory in known.directories {
            let files = self.host.walks.files(&directory, self.host.shelf.session_roots.private()).await;
            places.push((directory, files));
        }
        let mut offered = items::files(&token, query, &places);
        if trigger == Some('#') && items::CHAT.starts_with(query) {
            offered.extend(items::chats(&token, "", &known.chats));
        }
        Ok(offered)
    }

    async fn known_in(&self, channel: &str) -> Result<Known, EngineError> {
        let not_found = || EngineError::ChannelNotFound(channel.to_owned());
        let session = uri::session_of(channel).ok_or_else(not_found)?;
        let handle = self.host.waken(&session).await.ok_or_else(not_found)?;
        let (reply, known) = oneshot::channel();
        handle.send(Input::Known(channel.to_owned(), reply)).await?;
        known.await.map_err(|_| EngineError::Stopping)?.ok_or_else(not_found)
    }
}
