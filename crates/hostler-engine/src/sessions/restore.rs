//! Restores a session from the store's snapshot, turns and journal. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use ahp_types::StateAction;
use ahp_types::state::{AnnotationsState, ChatState};
use hostler_redact::redact_json_error;
use hostler_rules::RuleSet;
use hostler_store::{JournalRow, StoredSessionState, StoredTurn};

use crate::sessions::paging;
use crate::sessions::record::{ExternalTurn, SessionRecord, SessionSnapshot};
use crate::sessions::session::Session;
use crate::sessions::state::ApplyOutcome;
use crate::sessions::sub_agent_chat::SubAgentChat;
use crate::sessions::turn_storage::TurnStorage;

/// Restores a session from its snapshot and turns, or from its first record, and applies the journal after that. `None`
/// if the store has neither.
pub(crate) fn restore_session(uri: &Arc<str>, listed: bool, stored: StoredSessionState) -> Option<Session> {
    let mut session = stored.snapshot.and_then(|body| restore_snapshot(uri, listed, &body, stored.turns));
    for row in stored.journal {
        match row {
            JournalRow::Record { json, .. } => apply_record(uri, listed, &json, &mut session),
            JournalRow::Action { channel, json, seq, .. } => {
                let Some(session) = session.as_mut() else { continue };
                match serde_json::from_str::<StateAction>(&json) {
                    Ok(action) => {
                        if let ApplyOutcome::Refused(error) = session.apply(&channel, &action) {
                            tracing::warn!(seq, %error, "failed to apply an action from the journal");
                        }
                    }
                    Err(error) => {
                        tracing::warn!(
                            seq,
                            error = redact_json_error(&error),
                            "failed to read an action from the journal"
                        );
                    }
                }
            }
        }
    }
    session
}

fn restore_snapshot(uri: &Arc<str>, listed: bool, body: &str, turns: Vec<StoredTurn>) -> Option<Session> {
    let SessionSnapshot {
        session,
        mut chat,
        created_at,
        conversation,
        resume_token: token,
        session_rules: allowed,
        delivered_turn: delivered,
        delivered_prompt_id: delivered_as,
        prompt_turns,
        sub_agent_chats: workers,
        consumed_messages: consumed,
        annotations,
        commands,
        unimported_turns,
        import_cursor,
        missing_transcript_count: missed,
        synced_through,
        last_external_turn: others,
        metadata_sync: notes,
        evicted_turns: mut pasts,
    } = serde_json::from_str(body)
        .inspect_err(|error| {
            tracing::error!(session = &**uri, error = redact_json_error(error), "failed to read a session snapshot");
        })
        .ok()?;
    let mut workers = workers;
    for turn in turns {
        let chat = match workers.iter_mut().find(|worker| worker.resource == turn.chat) {
            Some(worker) => worker,
            None => &mut chat,
        };
        chat.turns.push(paging::parse_stored_turn(&turn));
    }
    let mut past = |chat: &ChatState| pasts.remove(&chat.resource).unwrap_or_default();
    let mut session = Session {
        uri: Arc::clone(uri),
        chat_uri: chat.resource.as_str().into(),
        session: Arc::new(session),
        turn_storage: TurnStorage::restored(past(&chat), &chat),
        chat: Arc::new(chat),
        annotations: annotations_or_empty(annotations),
        commands,
        sub_agent_chats: workers
            .into_iter()
            .map(|chat| {
                let past = past(&chat);
                SubAgentChat::restored(chat, past)
            })
            .collect(),
        created_at,
        conversation,
        resume_token: token,
        rules: RuleSet::default(),
        delivered_turn: delivered,
        delivered_prompt_id: delivered_as,
        prompt_turns,
        injected_message: None,
        consumed_messages: consumed,
        unimported_turns,
        import_cursor,
        missing_transcript_count: missed,
        synced_through,
        last_external_turn: others,
        metadata_sync: notes,
        is_stored: true,
        is_listed: listed,
    };
    session.add_session_rules(&allowed);
    Some(session)
}

fn annotations_or_empty(annotations: Option<AnnotationsState>) -> Arc<AnnotationsState> {
    Arc::new(annotations.unwrap_or(AnnotationsState { annotations: Vec::new() }))
}

fn apply_record(uri: &Arc<str>, listed: bool, json: &str, session: &mut Option<Session>) {
    match serde_json::from_str(json) {
        Ok(SessionRecord::Opened {
            session: state,
            chat,
            created_at,
            conversation,
            annotations,
            synced_through,
            metadata_sync: notes,
        }) => {
            *session = Some(Session {
                uri: Arc::clone(uri),
                chat_uri: chat.resource.as_str().into(),
                session: Arc::new(*state),
                chat: Arc::new(*chat),
                annotations: annotations_or_empty(annotations),
                commands: Vec::new(),
                sub_agent_chats: Vec::new(),
                created_at,
                conversation,
                resume_token: None,
                rules: RuleSet::default(),
                delivered_turn: None,
                delivered_prompt_id: None,
                prompt_turns: VecDeque::new(),
                injected_message: None,
                consumed_messages: VecDeque::new(),
                turn_storage: TurnStorage::default(),
                unimported_turns: 0,
                import_cursor: None,
                missing_transcript_count: 0,
                synced_through,
                last_external_turn: None,
                metadata_sync: notes,
                is_stored: true,
                is_listed: listed,
            });
        }
        Ok(SessionRecord::Resume { token }) => {
            if let Some(session) = session.as_mut() {
                session.resume_token = Some(token);
            }
        }
        Ok(SessionRecord::MetadataSynced { metadata_sync: notes }) => {
            if let Some(session) = session.as_mut() {
                session.metadata_sync = notes;
            }
        }
        Ok(SessionRecord::Allowed { rules }) => {
            if let Some(session) = session.as_mut() {
                session.add_session_rules(&rules);
            }
        }
        Ok(SessionRecord::Delivered { turn, prompt_id: prompt }) => {
            if let Some(session) = session.as_mut() {
                session.set_delivered(turn, prompt);
            }
        }
        Ok(SessionRecord::TranscriptSynced { turn, length }) => {
            if let Some(session) = session.as_mut() {
                session.synced_through = Some(turn);
                session.last_external_turn = length.map(|length| ExternalTurn { turn, length });
            }
        }
        Ok(SessionRecord::SteeringInjected { message }) => {
            if let Some(session) = session.as_mut() {
                session.injected_message = Some(message);
            }
        }
        Ok(SessionRecord::Unknown) => {}
        Err(error) => tracing::warn!(error = redact_json_error(&error), "failed to read a host record"),
    }
}
