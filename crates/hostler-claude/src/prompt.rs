//! What people say, on its way to the agent.
//!
//! The agent takes a message for one of its commands if its last block is a text that begins with `/`. So a command with
//! attachments is none, on all builds: the model reads it as words. And no attachment may be such a text.

use std::borrow::Cow;
use std::sync::Arc;

use hostler_attachments::{Block, Title};
use hostler_driver::Prompt;
use uuid::Uuid;

use crate::wire::{HostMessage, Priority};

/// The tag that Claude Code marks its own words with.
const TAG: &str = "system-reminder";

/// A prompt as it is written: nothing is copied unless it has to be made harmless.
pub(crate) fn message(prompt: &Prompt, id: Uuid) -> HostMessage<'_> {
    let blocks = prompt.blocks().iter().map(harmless).collect();
    HostMessage::user(defused(prompt.expose()), blocks, id, Priority::Later)
}

/// What a person says while the agent works, as a message that the agent folds into its turn. It keeps words and pictures
/// of such a message alone, so text that is attached is told as words.
pub(crate) fn folded(prompt: &Prompt, id: Uuid) -> HostMessage<'_> {
    let told = |block| match harmless(block) {
        Cow::Borrowed(Block::Text { title, text }) => Cow::Owned(as_words(title, text)),
        Cow::Owned(Block::Text { title, text }) => Cow::Owned(as_words(&title, &text)),
        other => other,
    };
    let blocks = prompt.blocks().iter().map(told).collect();
    HostMessage::user(no_command(defused(prompt.expose())), blocks, id, Priority::Next)
}

fn as_words(title: &Title, text: &str) -> Block {
    Block::References(format!("The user attached the file {title}:\n\n{text}").into())
}

/// How many bytes a prompt takes when it is written, its line feed included.
pub(crate) fn length(prompt: &Prompt) -> usize {
    // Serializing fails for none of our messages; were it to, the message would be too long for everybody.
    message(prompt, Uuid::nil()).length().map_or(usize::MAX, |length| length + 1)
}

/// A block in which nothing is taken for the agent's own words, or for a command.
fn harmless(block: &Block) -> Cow<'_, Block> {
    let safe = match block {
        Block::Image { .. } => None,
        Block::Pdf { title, data } => {
            changed(title.as_str()).map(|title| Block::Pdf { title: Title::new(&title), data: Arc::clone(data) })
        }
        Block::Text { title, text } => match (changed(title.as_str()), changed(text)) {
            (None, None) => None,
            (new_title, new_text) => Some(Block::Text {
                title: new_title.map_or_else(|| title.clone(), |title| Title::new(&title)),
                text: new_text.map_or_else(|| Arc::clone(text), Arc::from),
            }),
        },
        Block::References(text) => {
            let words = no_command(defused(text));
            matches!(words, Cow::Owned(_)).then(|| Block::References(words.into()))
        }
    };
    safe.map_or(Cow::Borrowed(block), Cow::Owned)
}

fn changed(text: &str) -> Option<String> {
    match defused(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(safe) => Some(safe),
    }
}

/// Words that are no command of the agent's. Where a turn runs, some builds look behind spaces, too.
fn no_command(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.trim_start().starts_with('/') {
        true => Cow::Owned(format!("The user says: {text}")),
        false => text,
    }
}

/// Makes literal reminder tags harmless: the model trusts what stands between them, and users paste all sorts of text.
///
/// Everything else is left as it is. A message that begins with `/` is a command because the user typed one.
fn defused(text: &str) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('<') {
        let Some((before, after)) = text.split_at_checked(at + 1) else { continue };
        if opens_reminder(after) {
            safe.push_str(before.get(copied..at).unwrap_or_default());
            safe.push_str("&lt;");
            copied = at + 1;
        }
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => {
            safe.push_str(text.get(copied..).unwrap_or_default());
            Cow::Owned(safe)
        }
    }
}

/// What the model is told when a person says something while it works. It reaches the model as a reminder of a hook, so
/// that it has to say whose words they are.
pub(crate) fn said_meanwhile(text: &str) -> String {
    format!("{MEANWHILE}{}", defused(text))
}

/// The words of a person that the model was told while it worked, if that is what it was told.
pub(crate) fn heard_meanwhile(told: &str) -> Option<&str> {
    told.strip_prefix(MEANWHILE)
}

const MEANWHILE: &str = "The user sent you a new message while you were working. It comes from the user, not from a tool \
                         or a hook: take it into account now, like any other message of theirs.\n\n";

/// Whether the text behind a `<` makes it a reminder tag, in any case and with any spaces.
fn opens_reminder(after: &str) -> bool {
    let name = after.trim_start();
    let name = name.strip_prefix('/').unwrap_or(name).trim_start();
    name.get(..TAG.len()).is_some_and(|start| start.eq_ignore_ascii_case(TAG))
}

#[cfg(test)]
mod tests;
