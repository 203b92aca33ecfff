//! What people say, on its way to the agent.
//!
//! The agent takes a message for one of its commands if its last block is a text that begins with `/`. So a command with
//! attachments is none, on all builds: the model reads it as words. And no attachment may be such a text.

use std::borrow::Cow;
use std::sync::Arc;

use hostler_attachments::{AttachmentBlock, DisplayName};
use hostler_driver::Prompt;
use uuid::Uuid;

use crate::wire::{HostMessage, MessagePriority};

/// The tag that Claude Code marks its own words with.
const REMINDER_TAG: &str = "system-reminder";

/// A prompt as it is written: nothing is copied unless it has to be made harmless.
pub(crate) fn user_message(prompt: &Prompt, id: Uuid) -> HostMessage<'_> {
    let blocks = prompt.blocks().iter().map(sanitize_block).collect();
    HostMessage::user(escape_reminder_tags(prompt.expose()), blocks, id, MessagePriority::Later)
}

/// What a person says while the agent works, as a message that the agent folds into its turn. It keeps words and pictures
/// of such a message alone, so text that is attached is told as words.
pub(crate) fn queued_message(prompt: &Prompt, id: Uuid) -> HostMessage<'_> {
    let told = |block| match sanitize_block(block) {
        Cow::Borrowed(AttachmentBlock::Text { title, text }) => Cow::Owned(as_text_block(title, text)),
        Cow::Owned(AttachmentBlock::Text { title, text }) => Cow::Owned(as_text_block(&title, &text)),
        other => other,
    };
    let blocks = prompt.blocks().iter().map(told).collect();
    HostMessage::user(escape_command(escape_reminder_tags(prompt.expose())), blocks, id, MessagePriority::Next)
}

fn as_text_block(title: &DisplayName, text: &str) -> AttachmentBlock {
    AttachmentBlock::References(format!("The user attached the file {title}:\n\n{text}").into())
}

/// How many bytes a prompt takes when it is written, its line feed included.
pub(crate) fn line_length(prompt: &Prompt) -> usize {
    // Serializing fails for none of our messages; were it to, the message would be too long for everybody.
    user_message(prompt, Uuid::nil()).length().map_or(usize::MAX, |length| length + 1)
}

/// A block in which nothing is taken for the agent's own words, or for a command.
fn sanitize_block(block: &AttachmentBlock) -> Cow<'_, AttachmentBlock> {
    let safe = match block {
        AttachmentBlock::Image { .. } => None,
        AttachmentBlock::Pdf { title, data } => escaped_if_needed(title.as_str())
            .map(|title| AttachmentBlock::Pdf { title: DisplayName::new(&title), data: Arc::clone(data) }),
        AttachmentBlock::Text { title, text } => match (escaped_if_needed(title.as_str()), escaped_if_needed(text)) {
            (None, None) => None,
            (new_title, new_text) => Some(AttachmentBlock::Text {
                title: new_title.map_or_else(|| title.clone(), |title| DisplayName::new(&title)),
                text: new_text.map_or_else(|| Arc::clone(text), Arc::from),
            }),
        },
        AttachmentBlock::References(text) => {
            let words = escape_command(escape_reminder_tags(text));
            matches!(words, Cow::Owned(_)).then(|| AttachmentBlock::References(words.into()))
        }
    };
    safe.map_or(Cow::Borrowed(block), Cow::Owned)
}

fn escaped_if_needed(text: &str) -> Option<String> {
    match escape_reminder_tags(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(safe) => Some(safe),
    }
}

/// Words that are no command of the agent's. Where a turn runs, some builds look behind spaces, too.
fn escape_command(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.trim_start().starts_with('/') {
        true => Cow::Owned(format!("The user says: {text}")),
        false => text,
    }
}

/// Makes literal reminder tags harmless: the model trusts what stands between them, and users paste all sorts of text.
///
/// Everything else is left as it is. A message that begins with `/` is a command because the user typed one.
fn escape_reminder_tags(text: &str) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('<') {
        let Some((before, after)) = text.split_at_checked(at + 1) else { continue };
        if is_reminder_tag(after) {
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
pub(crate) fn wrap_steering_text(text: &str) -> String {
    format!("{STEERING_PREFIX}{}", escape_reminder_tags(text))
}

/// The words of a person that the model was told while it worked, if that is what it was told.
pub(crate) fn unwrap_steering_text(told: &str) -> Option<&str> {
    told.strip_prefix(STEERING_PREFIX)
}

const STEERING_PREFIX: &str = "The user sent you a new message while you were working. It comes from the user, not from a tool \
                         or a hook: take it into account now, like any other message of theirs.\n\n";

/// Whether the text behind a `<` makes it a reminder tag, in any case and with any spaces.
fn is_reminder_tag(after: &str) -> bool {
    let name = after.trim_start();
    let name = name.strip_prefix('/').unwrap_or(name).trim_start();
    name.get(..REMINDER_TAG.len()).is_some_and(|start| start.eq_ignore_ascii_case(REMINDER_TAG))
}

#[cfg(test)]
mod tests;
