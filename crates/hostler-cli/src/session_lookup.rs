//! Lists the host's sessions page by page, and finds the one that a user names.

use std::path::PathBuf;

use ahp_types::errors::ahp_error_codes;
use ahp_types::state::SessionSummary;
use uuid::Uuid;

use crate::client::{Client, ClientError};
use crate::console::to_one_line;
use crate::exit::{CommandFailure, Exit};
use crate::turn::PROVIDER;

/// Summaries per request.
const LIST_PAGE_SIZE: usize = 200;
/// Minimum length of a short id.
const MIN_SHORT_ID_CHARS: usize = 8;

/// Returns the first matching sessions, the most recently changed first; reads only as many pages as needed.
pub(crate) async fn list_sessions(
    client: &Client,
    limit: usize,
    filter: impl Fn(&SessionSummary) -> bool,
) -> Result<Vec<SessionSummary>, ClientError> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = client.list_sessions(LIST_PAGE_SIZE, cursor).await?;
        let room = limit - found.len();
        found.extend(page.items.into_iter().filter(&filter).take(room));
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() >= limit {
            return Ok(found);
        }
    }
}

/// Finds the session that the user names.
pub(crate) async fn find_session(client: &Client, name: &str) -> Result<SessionSummary, CommandFailure> {
    let all = list_sessions(client, usize::MAX, |_| true).await?;
    resolve_session(client, &all, name).await
}

/// Returns the first working directory of a session, if it is a local folder.
pub(crate) fn working_directory(session: &SessionSummary) -> Option<PathBuf> {
    let uri = session.working_directories.as_ref()?.first()?;
    url::Url::parse(uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

/// Finds the named session: one of these, or one that is not listed, if its full id is given.
pub(crate) async fn resolve_session(
    client: &Client,
    all: &[SessionSummary],
    name: &str,
) -> Result<SessionSummary, CommandFailure> {
    match (match_session(all, name), full_session_uri(name)) {
        (Err(not_found), Some(uri)) if not_found.exit == Exit::Failed => {
            open_unlisted_session(client, &uri).await?.ok_or(not_found)
        }
        (matched, _) => matched.cloned(),
    }
}

/// Opens an unlisted session, which adds it to the list.
async fn open_unlisted_session(client: &Client, uri: &str) -> Result<Option<SessionSummary>, ClientError> {
    match client.subscribe_to_session(uri).await {
        Ok(_) => Ok(list_sessions(client, 1, |session| session.resource == uri).await?.pop()),
        Err(ClientError::ErrorResponse { rpc_code: ahp_error_codes::SESSION_NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the session URI if the name is a URI or a full id.
fn full_session_uri(name: &str) -> Option<String> {
    let name = name.trim();
    match Uuid::try_parse(name) {
        Ok(id) => Some(format!("{PROVIDER}:/{id}")),
        Err(_) => {
            let (scheme, path) = name.split_once(":/")?;
            (!scheme.is_empty() && !path.is_empty()).then(|| name.to_owned())
        }
    }
}

/// Returns the session with this URI or id, or the only one whose id starts with it.
fn match_session<'a>(all: &'a [SessionSummary], name: &str) -> Result<&'a SessionSummary, CommandFailure> {
    let name = name.trim();
    if name.is_empty() {
        return Err(CommandFailure::new(
            Exit::Usage,
            "invalidSessionId",
            "The session id is empty. Pass an id, the beginning of an id, or a URI.",
        ));
    }
    let lower = name.to_ascii_lowercase();
    let matching = |matches: &dyn Fn(&str) -> bool| -> Vec<&'a SessionSummary> {
        all.iter().filter(|session| matches(&session.resource)).collect()
    };
    let exact = matching(&|uri| uri == name || session_id(uri).eq_ignore_ascii_case(name));
    let found = if exact.is_empty() {
        matching(&|uri| session_id(uri).to_ascii_lowercase().starts_with(&lower))
    } else {
        exact
    };
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(CommandFailure::new(
            Exit::Failed,
            "sessionNotFound",
            format!("Session not found: {}. List all sessions with `hostler sessions list --all`.", to_one_line(name)),
        )),
        several => Err(CommandFailure::new(Exit::Usage, "ambiguousSessionId", ambiguous_id_message(name, several))),
    }
}

fn ambiguous_id_message(name: &str, several: &[&SessionSummary]) -> String {
    let mut text = format!("{} matches {} sessions. Pass a longer prefix:", to_one_line(name), several.len());
    for session in several {
        text.push_str(&format!("\n  {}  {}", to_one_line(&session.resource), to_one_line(&session.title)));
    }
    text
}

/// Returns a session's id: the path of its URI.
pub(crate) fn session_id(uri: &str) -> &str {
    uri.split_once(":/").map_or(uri, |(_, path)| path.trim_start_matches('/'))
}

/// Returns a prefix of each session's id, long enough to be unique in this list.
pub(crate) fn short_ids(sessions: &[SessionSummary]) -> Vec<String> {
    let mut sorted: Vec<&str> = sessions.iter().map(|session| session_id(&session.resource)).collect();
    sorted.sort_unstable();
    // In sorted order, the ids that share the longest prefix are adjacent.
    let short = |id: &str| {
        let from = sorted.partition_point(|other| *other < id);
        let until = sorted.partition_point(|other| *other <= id);
        let before = from.checked_sub(1).and_then(|index| sorted.get(index));
        let beside = [before, sorted.get(until)].into_iter().flatten();
        let shared = beside.map(|other| shared_chars(id, other)).max().unwrap_or(0);
        to_one_line(&id.chars().take(MIN_SHORT_ID_CHARS.max(shared + 1)).collect::<String>())
    };
    sessions.iter().map(|session| short(session_id(&session.resource))).collect()
}

fn shared_chars(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "claude:/1f0c0000-0000-4000-8000-000000000001";
    const SECOND: &str = "claude:/1f0c0000-0000-4000-8000-000000000002";
    const THIRD: &str = "claude:/27aa0000-0000-4000-8000-000000000003";

    fn sessions() -> Vec<SessionSummary> {
        let summary = |uri: &&str| {
            let time = "2026-01-01T00:00:00.000Z";
            serde_json::from_value(serde_json::json!({ "resource": uri, "provider": "claude", "title": "a\u{1b}title",
                "status": 1, "createdAt": time, "modifiedAt": time }))
        };
        [FIRST, SECOND, THIRD].iter().map(|uri| summary(uri).unwrap()).collect()
    }

    #[test]
    fn session_is_found_by_uri_id_or_id_prefix() {
        let all = sessions();
        for name in [THIRD, "27aa0000-0000-4000-8000-000000000003", "27AA", "2", " 27 "] {
            assert_eq!(match_session(&all, name).unwrap().resource, THIRD, "{name}");
        }
    }

    #[test]
    fn ambiguous_prefix_is_a_usage_error_with_candidates() {
        let all = sessions();
        let failure = match_session(&all, "1f0c").unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains(FIRST) && failure.message.contains(SECOND), "{}", failure.message);
        assert!(!failure.message.contains(THIRD) && !failure.message.contains('\u{1b}'), "{}", failure.message);
    }

    #[test]
    fn unknown_session_fails_and_empty_name_is_a_usage_error() {
        let all = sessions();
        for name in ["3", "claude:/27aa", "000000000003", "codex:/27aa0000-0000-4000-8000-000000000003"] {
            assert_eq!(match_session(&all, name).unwrap_err().exit, Exit::Failed, "{name}");
        }
        assert_eq!(match_session(&all, " ").unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn full_session_uri_accepts_uri_or_full_id() {
        let whole = session_id(THIRD);
        for name in [THIRD, whole, &whole.to_uppercase(), &format!(" {whole} ")] {
            assert_eq!(full_session_uri(name).as_deref(), Some(THIRD), "{name}");
        }
        assert_eq!(full_session_uri("codex:/1").as_deref(), Some("codex:/1"));
        for name in ["27aa", "", ":/", "claude:/", "a title"] {
            assert_eq!(full_session_uri(name), None, "{name}");
        }
    }

    #[test]
    fn short_ids_are_just_long_enough_to_be_unique() {
        let all = sessions();
        let expected = [session_id(FIRST), session_id(SECOND), "27aa0000"];
        assert_eq!(short_ids(&all), expected);
        assert!(short_ids(&[]).is_empty());
    }
}
