//! How large the things are that clients may say. Attachments have bounds of their own, where they are planned.

use ahp_types::StateAction;
use ahp_types::common::JsonObject;
use serde::Serialize;

use super::check::message;

/// The longest id of a turn, a message, a call, a request.
pub(super) const MAX_ID: usize = 256;
/// The longest text of a message or an answer.
pub(super) const MAX_TEXT: usize = 1024 * 1024;
/// The most that clients may keep beside a message.
pub(super) const MAX_META: usize = 64 * 1024;
/// The largest action, attachments aside.
pub(super) const MAX_ACTION: usize = 2 * 1024 * 1024;
/// How many messages an order may name.
pub(super) const MAX_ORDER: usize = 1_000;

/// Checks the sizes of an action. The error is the reason of the rejection.
pub(super) fn check(action: &StateAction) -> Result<(), String> {
    match action {
        StateAction::ChatTurnStarted(action) => {
            id("turn", &action.turn_id)?;
            action.queued_message_id.as_deref().map_or(Ok(()), |queued| id("queued message", queued))?;
            meta(action.meta.as_ref())?;
        }
        StateAction::ChatTurnCancelled(action) => id("turn", &action.turn_id)?,
        StateAction::ChatTurnResume(action) => id("turn", &action.turn_id)?,
        StateAction::ChatPendingMessageSet(action) => id("message", &action.id)?,
        StateAction::ChatPendingMessageRemoved(action) => id("message", &action.id)?,
        StateAction::ChatQueuedMessagesReordered(action) => {
            if action.order.len() > MAX_ORDER {
                return Err(format!("an order names at most {MAX_ORDER} messages"));
            }
            action.order.iter().try_for_each(|message| id("message", message))?;
        }
        StateAction::ChatToolCallConfirmed(action) => {
            id("turn", &action.turn_id)?;
            id("tool call", &action.tool_call_id)?;
            action.selected_option_id.as_deref().map_or(Ok(()), |option| id("option", option))?;
        }
        StateAction::ChatInputAnswerChanged(action) => {
            id("request", &action.request_id)?;
            id("question", &action.question_id)?;
        }
        StateAction::ChatInputCompleted(action) => id("request", &action.request_id)?,
        _ => {}
    }
    match message(action) {
        Some(message) => {
            if message.text.len() > MAX_TEXT {
                return Err(format!("a message has at most {MAX_TEXT} bytes; attach larger things as files"));
            }
            message.model.as_ref().map_or(Ok(()), |model| id("model", &model.id))?;
            meta(message.meta.as_ref())
        }
        None if size(action) > MAX_ACTION => Err(format!("an action has at most {MAX_ACTION} bytes")),
        None => Ok(()),
    }
}

fn id(of: &str, id: &str) -> Result<(), String> {
    match id.len() {
        1..=MAX_ID => Ok(()),
        _ => Err(format!("the id of a {of} has 1 to {MAX_ID} bytes")),
    }
}

fn meta(meta: Option<&JsonObject>) -> Result<(), String> {
    match meta.map_or(0, size) {
        0..=MAX_META => Ok(()),
        _ => Err(format!("what is kept beside a message (`_meta`) has at most {MAX_META} bytes")),
    }
}

/// The length of a value's JSON.
fn size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What cannot be written has no end that we know of.
    serde_json::to_writer(&mut count, value).map_or(usize::MAX, |()| count.0)
}
