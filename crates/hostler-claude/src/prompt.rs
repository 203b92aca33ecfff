//! Converts prompts and steers to wire messages.
//!
//! Prompts are written so that the agent never folds them into a running turn. The agent treats a message as one of
//! its commands if its last block is a text that starts with `/`. So a command with attachments is not a command, on
//! all builds: the model receives it as text. No attachment may be such a text.

use std::borrow::Cow;
use std::sync::Arc;

use hostler_attachments::{AttachmentBlock, DisplayName};
use hostler_driver::Prompt;
use uuid::Uuid;

use crate::wire::{HostMessage, MessagePriority};

/// The tag with which Claude Code marks its own text.
const REMINDER_TAG: &str = "system-reminder";

/// A prompt as a wire message; text is copied only if it has to be escaped.
pub(crate) fn user_message(prompt: &Prompt, id: Uuid) -> HostMessage<'_> {
    let blocks = prompt.blocks().iter().map(sanitize_block).collect();
    HostMessage::user(escape_reminder_tags(prompt.expose()), blocks, id, MessagePriority::Later)
}

/// A steer as a message that the agent folds into its turn. The agent retains only text and images of such a message,
/// so attached text files are sent as text.
pub(crate) fn queued_message(prompt: &Prompt, id: Uuid) -> HostMessage<'_> {
    let to_block = |block| match sanitize_block(block) {
        Cow::Borrowed(AttachmentBlock::Text { title, text }) => Cow::Owned(as_text_block(title, text)),
        Cow::Owned(AttachmentBlock::Text { title, text }) => Cow::Owned(as_text_block(&title, &text)),
        other => other,
    };
    let blocks = prompt.blocks().iter().map(to_block).collect();
    HostMessage::user(escape_command(escape_reminder_tags(prompt.expose())), blocks, id, MessagePriority::Next)
}

fn as_text_block(title: &DisplayName, text: &str) -> AttachmentBlock {
    AttachmentBlock::References(format!("The user attached the file {title}:\n\n{text}").into())
}

/// The length of a prompt on the wire in bytes, with its line feed.
pub(crate) fn line_length(prompt: &Prompt) -> usize {
    // Serializing does not fail for any of our messages; if it did, the message would count as too long.
    user_message(prompt, Uuid::nil()).length().map_or(usize::MAX, |length| length + 1)
}

/// A block without reminder tags and without a command.
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
            let escaped = escape_command(escape_reminder_tags(text));
            matches!(escaped, Cow::Owned(_)).then(|| AttachmentBlock::References(escaped.into()))
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

/// Text that is not a command of the agent. During a turn some builds ignore leading spaces.
fn escape_command(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.trim_start().starts_with('/') {
        true => Cow::Owned(format!("The user says: {text}")),
        false => text,
    }
}

/// Escapes literal reminder tags: the model trusts the text between them, and users paste text from any source.
///
/// Everything else is unchanged. A message that starts with `/` is a command because the user typed one.
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

/// The text that the model receives for a steer. It arrives as the reminder of a hook, so it has to state that it is
/// the user's.
pub(crate) fn wrap_steering_text(text: &str) -> String {
    format!("{STEERING_PREFIX}{}", escape_reminder_tags(text))
}

/// The user's steering text, if the text is one of ours.
pub(crate) fn unwrap_steering_text(context: &str) -> Option<&str> {
    context.strip_prefix(STEERING_PREFIX)
}

const STEERING_PREFIX: &str = "The user sent you a new message while you were working. It comes from the user, not from a tool \
                         or a hook: take it into account now, like any other message of theirs.\n\n";

/// Whether the text after a `<` makes it a reminder tag, in any case and with any spaces.
fn is_reminder_tag(after: &str) -> bool {
    let name = after.trim_start();
    let name = name.strip_prefix('/').unwrap_or(name).trim_start();
    name.get(..REMINDER_TAG.len()).is_some_and(|start| start.eq_ignore_ascii_case(REMINDER_TAG))
}

#[cfg(test)]
mod tests;
