//! The session's title: created from its first message, or set by a person or in the transcript.

use ahp_types::StateAction;
use ahp_types::actions::{PartialChatSummary, SessionChatUpdatedAction, SessionTitleChangedAction};
use ahp_types::state::{Message, MessageKind};
use hostler_store::StoreError;

use super::context::SessionContext;
use super::session_change::SessionChange;
use crate::sessions::action_mapper::ActionBuffer;
use crate::sessions::rejection::ActionRejection;
use crate::sessions::session::{Dispatch, Session, title_from_message};

/// Maximum length of a title.
pub(super) const MAX_TITLE_BYTES: usize = 1_000;

/// Checks a title that a person has set.
fn check_title(title: &str) -> Result<(), ActionRejection> {
    match title.trim().is_empty() || title.len() > MAX_TITLE_BYTES {
        true => Err(ActionRejection::InvalidTitle { max: MAX_TITLE_BYTES }),
        false => Ok(()),
    }
}

/// The title that a message gives to a session without one. `is_rename` if the message sets the title itself.
pub(super) fn first_title(session: &Session, message: &Message, is_rename: bool) -> Option<StateAction> {
    let is_untitled = session.session.title.is_empty() && !is_rename;
    (is_untitled && message.origin.kind == MessageKind::User).then(|| title_changed(title_from_message(message)))
}

fn title_changed(title: String) -> StateAction {
    StateAction::SessionTitleChanged(SessionTitleChangedAction { title })
}

/// The title of the default chat, as the session lists it.
fn chat_title_changed(session: &Session, title: String) -> StateAction {
    let changes = PartialChatSummary { title: Some(title), ..PartialChatSummary::default() };
    StateAction::SessionChatUpdated(SessionChatUpdatedAction { chat: session.chat_uri.to_string(), changes })
}

impl SessionContext {
    /// Sets the title: the default chat has the session's title.
    pub(super) async fn set_title(&mut self, title: String) -> Result<(), StoreError> {
        let change = SessionChange::default()
            .chat_action(title_changed(title.clone()))
            .session_action(chat_title_changed(&self.session, title.clone()))
            .session_action(title_changed(title));
        self.commit(change).await
    }

    /// Handles a new title: of the session, or (VS Code sends it on the chat's channel) of the chat in the session.
    pub(super) async fn change_title(&mut self, dispatch: &Dispatch, title: String) -> Result<(), ActionRejection> {
        check_title(&title)?;
        self.accept_plain_action(dispatch).await?;
        if self.is_default_chat(dispatch) {
            let action = chat_title_changed(&self.session, title);
            self.publish_session_action(action).await;
        }
        Ok(())
    }

    /// Carries out `/rename` in the running turn.
    pub(super) async fn rename_session(&mut self, title: String) {
        let notice = match title.is_empty() {
            true => "Not renamed: the title is missing. Use /rename TITLE.".to_owned(),
            false => match self.set_title(title.clone()).await {
                Ok(()) => format!("Renamed to {title:?}."),
                Err(error) => format!("Not renamed: {error}"),
            },
        };
        let mut output = ActionBuffer::default();
        if let Some(transcript) = self.turn.mapper.as_mut() {
            transcript.add_notice(notice, &mut output);
        }
        self.publish_output(&mut output).await;
        self.update_summaries().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::session::new_message;

    #[test]
    fn the_first_message_of_a_user_names_an_untitled_session() {
        let now = "2026-01-01T00:00:00Z".to_owned();
        let mut session = Session::provisional("ahp-session:/test/1".into(), "test".to_owned(), Vec::new(), None, now);
        let message = new_message("Fix the parser\nplease".to_owned(), MessageKind::User);
        let named = title_changed("Fix the parser".to_owned());
        assert_eq!(first_title(&session, &message, false), Some(named.clone()));
        assert_eq!(first_title(&session, &message, true), None, "/rename sets the title itself");
        let notification = new_message("A command has ended".to_owned(), MessageKind::SystemNotification);
        assert_eq!(first_title(&session, &notification, false), None);
        session.apply(&session.uri.clone(), &named);
        assert_eq!(first_title(&session, &message, false), None, "the session has a title");
    }

    #[test]
    fn a_title_is_not_blank_and_not_too_long() {
        assert!(check_title("Parser").is_ok());
        assert!(check_title(" ").is_err());
        assert!(check_title(&"a".repeat(MAX_TITLE_BYTES + 1)).is_err());
    }
}
