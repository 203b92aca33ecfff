//! A session from what the store holds of it. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::state::{AnnotationsState, ChatState};
use hostler_redact::json_fault;
use hostler_rules::RuleSet;
use hostler_store::{JournalRow, StoredState, StoredTurn};

use crate::paging;
use crate::past::Kept;
use crate::record::{Others, Record, SessionSnapshot};
use crate::session::Session;
use crate::state::Outcome;
use crate::worker::Worker;

/// Brings a session back: from its snapshot and its turns, or from its beginning, and then the journal after that.
/// `None` if the store does not hold its beginning.
pub(crate) fn session(uri: &Arc<str>, listed: bool, stored: StoredState) -> Option<Session> {
    let mut session = stored.snapshot.and_then(|body| snapshot(uri, listed, &body, stored.turns));
    for row in stored.rows {
        match row {
            JournalRow::Record { json, .. } => record(uri, listed, &json, &mut session),
            JournalRow::Action { channel, json, seq, .. } => {
                let Some(session) = session.as_mut() else { continue };
                match serde_json::from_str::<StateAction>(&json) {
                    Ok(action) => {
                        if let Outcome::Refused(error) = session.apply(&channel, &action) {
                            tracing::warn!(seq, %error, "an action in the journal could not be applied");
                        }
                    }
                    Err(error) => {
                        tracing::warn!(seq, error = json_fault(&error), "an action in the journal could not be read");
                    }
                }
            }
        }
    }
    session
}

fn snapshot(uri: &Arc<str>, listed: bool, body: &str, turns: Vec<StoredTurn>) -> Option<Session> {
    let SessionSnapshot {
        session,
        mut chat,
        created_at,
        conversation,
        token,
        allowed,
        delivered,
        delivered_as,
        workers,
        consumed,
        annotations,
        commands,
        untold,
        told_from,
        missed,
        heard,
        others,
        notes,
        sent,
        mut pasts,
    } = serde_json::from_str(body)
        .inspect_err(|error| {
            tracing::error!(session = &**uri, error = json_fault(error), "a session's snapshot could not be read");
        })
        .ok()?;
    let mut workers = workers;
    for turn in turns {
        let chat = match workers.iter_mut().find(|worker| worker.resource == turn.chat) {
            Some(worker) => worker,
            None => &mut chat,
        };
        chat.turns.push(paging::read(&turn));
    }
    let mut past = |chat: &ChatState| pasts.remove(&chat.resource).unwrap_or_default();
    let mut session = Session {
        uri: Arc::clone(uri),
        chat_uri: chat.resource.as_str().into(),
        session: Arc::new(session),
        kept: Kept::restored(past(&chat), &chat),
        chat: Arc::new(chat),
        annotations: restored(annotations),
        commands,
        workers: workers
            .into_iter()
            .map(|chat| {
                let past = past(&chat);
                Worker::restored(chat, past)
            })
            .collect(),
        created_at,
        conversation,
        token,
        rules: RuleSet::default(),
        delivered,
        delivered_as,
        injected: None,
        consumed,
        untold,
        told_from,
        missed,
        heard,
        others,
        notes,
        sent,
        stored: true,
        listed,
    };
    session.allow(&allowed);
    Some(session)
}

fn restored(annotations: Option<AnnotationsState>) -> Arc<AnnotationsState> {
    Arc::new(annotations.unwrap_or(AnnotationsState { annotations: Vec::new() }))
}

fn record(uri: &Arc<str>, listed: bool, json: &str, session: &mut Option<Session>) {
    match serde_json::from_str(json) {
        Ok(Record::Opened { session: state, chat, created_at, conversation, annotations, heard, notes }) => {
            *session = Some(Session {
                uri: Arc::clone(uri),
                chat_uri: chat.resource.as_str().into(),
                session: Arc::new(*state),
                chat: Arc::new(*chat),
                annotations: restored(annotations),
                commands: Vec::new(),
                workers: Vec::new(),
                created_at,
                conversation,
                token: None,
                rules: RuleSet::default(),
                delivered: None,
                delivered_as: None,
                injected: None,
                consumed: VecDeque::new(),
                kept: Kept::default(),
                untold: 0,
                told_from: None,
                missed: 0,
                heard,
                others: None,
                notes,
                sent: VecDeque::new(),
                stored: true,
                listed,
            });
        }
        Ok(Record::Resume { token }) => {
            if let Some(session) = session.as_mut() {
                session.token = Some(token);
            }
        }
        Ok(Record::Noted { notes }) => {
            if let Some(session) = session.as_mut() {
                session.notes = notes;
            }
        }
        Ok(Record::Sent { sent }) => {
            if let Some(session) = session.as_mut() {
                session.remember_sent(sent);
            }
        }
        Ok(Record::Allowed { rules }) => {
            if let Some(session) = session.as_mut() {
                session.allow(&rules);
            }
        }
        Ok(Record::Delivered { turn, prompt }) => {
            if let Some(session) = session.as_mut() {
                (session.delivered, session.delivered_as) = (Some(turn), prompt);
            }
        }
        Ok(Record::Heard { turn, length }) => {
            if let Some(session) = session.as_mut() {
                session.heard = Some(turn);
                session.others = length.map(|length| Others { turn, length });
            }
        }
        Ok(Record::Injected { message }) => {
            if let Some(session) = session.as_mut() {
                session.injected = Some(message);
            }
        }
        Ok(Record::Unknown) => {}
        Err(error) => tracing::warn!(error = json_fault(&error), "a host record could not be read"),
    }
}
