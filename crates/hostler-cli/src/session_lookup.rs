//! The host's sessions as a client sees them: all of them page by page, and the one that a person means.

use std::path::PathBuf;

use ahp_types::errors::ahp_error_codes;
use ahp_types::state::SessionSummary;
use uuid::Uuid;

use crate::client::{Client, ClientError};
use crate::console::to_one_line;
use crate::exit::{CommandFailure, Exit};
use crate::turn::PROVIDER;

/// How many summaries are asked for at once.
const LIST_PAGE_SIZE: usize = 200;
/// The length of a short id, as long as it says which session is meant.
const MIN_SHORT_ID_CHARS: usize = 8;

/// The first sessions that are wanted, the most recently changed first; no more pages are read than that takes.
pub(crate) async fn list_sessions(
    client: &Client,
    limit: usize,
    wanted: impl Fn(&SessionSummary) -> bool,
) -> Result<Vec<SessionSummary>, ClientError> {
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = client.list_sessions(LIST_PAGE_SIZE, cursor).await?;
        let room = limit - found.len();
        found.extend(page.items.into_iter().filter(&wanted).take(room));
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() >= limit {
            return Ok(found);
        }
    }
}

/// The session that a person means.
pub(crate) async fn find_session(client: &Client, name: &str) -> Result<SessionSummary, CommandFailure> {
    let all = list_sessions(client, usize::MAX, |_| true).await?;
    resolve_session(client, &all, name).await
}

/// The first working directory of a session, if it is a folder of this machine.
pub(crate) fn working_directory(session: &SessionSummary) -> Option<PathBuf> {
    let uri = session.working_directories.as_ref()?.first()?;
    url::Url::parse(uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

/// The session that a person means: one of these, or one that is hidden from the list, if it is named in full.
pub(crate) async fn resolve_session(
    client: &Client,
    all: &[SessionSummary],
    name: &str,
) -> Result<SessionSummary, CommandFailure> {
    match (match_session(all, name), full_session_uri(name)) {
        (Err(unknown), Some(uri)) if unknown.exit == Exit::Failed => {
            open_unlisted_session(client, &uri).await?.ok_or(unknown)
        }
        (picked, _) => picked.cloned(),
    }
}

/// Whoever is opened is in the list afterwards.
async fn open_unlisted_session(client: &Client, uri: &str) -> Result<Option<SessionSummary>, ClientError> {
    match client.subscribe_to_session(uri).await {
        Ok(_) => Ok(list_sessions(client, 1, |session| session.resource == uri).await?.pop()),
        Err(ClientError::ErrorResponse { code: ahp_error_codes::SESSION_NOT_FOUND, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The URI of a session that is named by it, or by all of its id.
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

/// The session among these with this URI, this id, or the only one whose id begins like this.
fn match_session<'a>(all: &'a [SessionSummary], name: &str) -> Result<&'a SessionSummary, CommandFailure> {
    let name = name.trim();
    if name.is_empty() {
        return Err(CommandFailure::new(
            Exit::Usage,
            "The session's name is empty: give its id, the beginning of it, or its URI.",
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
            format!("There is no session {}: `hostler sessions list --all` shows those that are.", to_one_line(name)),
        )),
        several => Err(CommandFailure::new(Exit::Usage, ambiguous_id_message(name, several))),
    }
}

fn ambiguous_id_message(name: &str, several: &[&SessionSummary]) -> String {
    let mut text = format!("{} is the beginning of {} sessions; write more of it:", to_one_line(name), several.len());
    for session in several {
        text.push_str(&format!("\n  {}  {}", to_one_line(&session.resource), to_one_line(&session.title)));
    }
    text
}

/// A session's id: the path of its URI.
pub(crate) fn session_id(uri: &str) -> &str {
    uri.split_once(":/").map_or(uri, |(_, path)| path.trim_start_matches('/'))
}

/// For each session the beginning of its id, long enough to tell it from the others here.
pub(crate) fn short_ids(sessions: &[SessionSummary]) -> Vec<String> {
    let mut sorted: Vec<&str> = sessions.iter().map(|session| session_id(&session.resource)).collect();
    sorted.sort_unstable();
    // Whatever shares most with an id stands beside it.
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
    fn a_session_is_named_by_its_uri_its_id_or_the_beginning_of_its_id() {
        let all = sessions();
        for name in [THIRD, "27aa0000-0000-4000-8000-000000000003", "27AA", "2", " 27 "] {
            assert_eq!(match_session(&all, name).unwrap().resource, THIRD, "{name}");
        }
    }

    #[test]
    fn a_beginning_that_fits_several_names_them_and_is_a_usage_error() {
        let all = sessions();
        let failure = match_session(&all, "1f0c").unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains(FIRST) && failure.message.contains(SECOND), "{}", failure.message);
        assert!(!failure.message.contains(THIRD) && !failure.message.contains('\u{1b}'), "{}", failure.message);
    }

    #[test]
    fn an_unknown_session_is_a_failure_and_an_empty_name_a_usage_error() {
        let all = sessions();
        for name in ["3", "claude:/27aa", "000000000003", "codex:/27aa0000-0000-4000-8000-000000000003"] {
            assert_eq!(match_session(&all, name).unwrap_err().exit, Exit::Failed, "{name}");
        }
        assert_eq!(match_session(&all, " ").unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn a_session_is_named_in_full_by_its_uri_or_its_id() {
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
    fn short_ids_are_as_long_as_it_takes_to_tell_them_apart() {
        let all = sessions();
        let expected = [session_id(FIRST), session_id(SECOND), "27aa0000"];
        assert_eq!(short_ids(&all), expected);
        assert!(short_ids(&[]).is_empty());
    }
}
