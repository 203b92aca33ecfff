//! A session from its part of the journal. Pure.

use std::sync::Arc;

use ahp::reducers::ReduceOutcome;
use ahp_types::StateAction;
use hostler_store::JournalRow;

use crate::record::Record;
use crate::session::Session;

/// Replays a session's journal. `None` if the journal does not hold its beginning.
pub(crate) fn session(uri: &Arc<str>, listed: bool, rows: Vec<JournalRow>) -> Option<Session> {
    let mut session: Option<Session> = None;
    for row in rows {
        match row {
            JournalRow::Record { json, .. } => record(uri, listed, &json, &mut session),
            JournalRow::Action { channel, json, seq, .. } => {
                let Some(session) = session.as_mut() else { continue };
                match serde_json::from_str::<StateAction>(&json) {
                    Ok(action) => {
                        if let ReduceOutcome::Invalid(error) = session.apply(&channel, &action) {
                            tracing::warn!(seq, %error, "an action in the journal could not be applied");
                        }
                    }
                    Err(error) => tracing::warn!(seq, %error, "an action in the journal could not be read"),
                }
            }
        }
    }
    session
}

fn record(uri: &Arc<str>, listed: bool, json: &str, session: &mut Option<Session>) {
    match serde_json::from_str(json) {
        Ok(Record::Opened { session: state, chat, created_at, conversation }) => {
            *session = Some(Session {
                uri: Arc::clone(uri),
                chat_uri: chat.resource.as_str().into(),
                session: Arc::new(*state),
                chat: Arc::new(*chat),
                created_at,
                conversation,
                token: None,
                stored: true,
                listed,
            });
        }
        Ok(Record::Resume { token }) => {
            if let Some(session) = session.as_mut() {
                session.token = Some(token);
            }
        }
        Ok(Record::Delivered { .. } | Record::Unknown) => {}
        Err(error) => tracing::warn!(%error, "a host record could not be read"),
    }
}
