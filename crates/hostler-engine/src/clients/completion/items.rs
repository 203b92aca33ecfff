//! Completion items for a token. Pure.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ahp_types::commands::CompletionItem;
use ahp_types::common::JsonObject;
use ahp_types::state::{MessageAttachment, MessageChatAttachment, MessageResourceAttachment, SimpleMessageAttachment};
use hostler_driver::SlashCommand;
use url::Url;

use super::fuzzy::{self, MatchScore};
use super::token::Token;
use crate::resources::FileList;

/// Maximum number of items.
const MAX_COMPLETION_ITEMS: usize = 50;

/// The prefix of a query for chats.
pub(super) const CHAT_QUERY_PREFIX: &str = "chat:";

/// Files that match a query. Files of the first directory are named relative to it, others by their absolute path.
pub(super) fn file_items(token: &Token<'_>, query: &str, places: &[(PathBuf, FileList)]) -> Vec<CompletionItem> {
    let mut found: Vec<(MatchScore, usize, &str)> = Vec::new();
    for (place, (_, files)) in places.iter().enumerate() {
        found.extend(files.iter().filter_map(|path| Some((fuzzy::score_match(query, path)?, place, &**path))));
    }
    found.sort_unstable();
    found.truncate(MAX_COMPLETION_ITEMS);
    let mut same: HashMap<&str, usize> = HashMap::new();
    for (.., path) in &found {
        *same.entry(file_name(path)).or_default() += 1;
    }
    let trigger = token.text.chars().next().unwrap_or('@');
    let items = found.iter().filter_map(|(_, place, path)| {
        let (directory, _) = places.get(*place)?;
        let whole = directory.join(path);
        let shown = if *place == 0 { (*path).to_owned() } else { whole.to_str()?.to_owned() };
        // Files with the same name are distinguished by their directories.
        let label =
            if same.get(file_name(path)).is_some_and(|count| *count > 1) { shown.as_str() } else { file_name(path) };
        let attachment = file_attachment(label, &whole)?;
        let quoted = shown.contains(char::is_whitespace);
        let text = if quoted { format!("{trigger}\"{shown}\"") } else { format!("{trigger}{shown}") };
        Some(completion_item(token, text, attachment))
    });
    items.collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Chats (by URI and title) whose titles match a query.
pub(super) fn chat_items(token: &Token<'_>, query: &str, chats: &[(String, String)]) -> Vec<CompletionItem> {
    let query = query.to_lowercase();
    let found = chats.iter().filter(|(_, title)| title.to_lowercase().contains(&query));
    let items = found.take(MAX_COMPLETION_ITEMS).map(|(resource, title)| {
        let attachment = MessageChatAttachment {
            label: title.clone(),
            range: None,
            display_kind: None,
            meta: None,
            resource: resource.clone(),
            end_turn: None,
        };
        completion_item(token, format!("#{CHAT_QUERY_PREFIX}{title}"), MessageAttachment::Chat(attachment))
    });
    items.collect()
}

/// Commands whose names match a query.
pub(super) fn command_items(token: &Token<'_>, query: &str, commands: &[SlashCommand]) -> Vec<CompletionItem> {
    let mut found: Vec<_> =
        commands.iter().filter_map(|command| Some((fuzzy::score_match(query, &command.name)?, command))).collect();
    found.sort_by(|(one, a), (two, b)| (one, &a.name).cmp(&(two, &b.name)));
    let items = found.into_iter().take(MAX_COMPLETION_ITEMS).map(|(_, command)| {
        let mut meta = JsonObject::new();
        for (key, text) in [("description", &command.description), ("argumentHint", &command.argument_hint)] {
            if !text.is_empty() {
                meta.insert(key.to_owned(), text.as_str().into());
            }
        }
        let name = format!("/{}", command.name);
        let attachment = SimpleMessageAttachment {
            label: name.clone(),
            range: None,
            display_kind: Some("command".to_owned()),
            meta: (!meta.is_empty()).then_some(meta),
            model_representation: None,
        };
        completion_item(token, name, MessageAttachment::Simple(attachment))
    });
    items.collect()
}

fn completion_item(token: &Token<'_>, insert_text: String, attachment: MessageAttachment) -> CompletionItem {
    let place = |units: usize| i64::try_from(units).ok();
    CompletionItem { insert_text, range_start: place(token.start), range_end: place(token.end), attachment }
}

fn file_attachment(label: &str, path: &Path) -> Option<MessageAttachment> {
    Some(MessageAttachment::Resource(MessageResourceAttachment {
        label: label.to_owned(),
        range: None,
        display_kind: Some("document".to_owned()),
        meta: None,
        uri: Url::from_file_path(path).ok()?.into(),
        size_hint: None,
        content_type: None,
        nonce: None,
        selection: None,
    }))
}
