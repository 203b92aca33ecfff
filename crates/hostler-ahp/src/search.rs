//! `hostler/search`, an extension: full-text search over all sessions. Converts between wire and engine; the engine
//! searches.

use std::ops::Range;

use hostler_engine::{Engine, SearchHit, SearchRequest, SearchResults, SessionHits};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decode;
use crate::methods::to_result;
use crate::rpc::RpcError;

/// Default and maximum number of results.
const DEFAULT_SEARCH_LIMIT: usize = 20;
const MAX_SEARCH_LIMIT: usize = 100;

/// Maximum length of a query, in bytes.
const MAX_QUERY_BYTES: usize = 4 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SearchParams {
    query: String,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    #[serde(default)]
    by_turn: bool,
    #[serde(default)]
    wait_for_index: bool,
    #[serde(default)]
    include_unlisted: bool,
}

/// Sessions, the best match first; `nextOffset` is absent at the end.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchResult {
    items: Vec<SearchResultItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// Number of sessions that are not indexed yet.
    pending_sessions: usize,
    /// Why something cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    index_error: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchResultItem {
    session: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<String>,
    modified_at_ms: i64,
    /// Whether the session list contains it; sent only if it does not.
    #[serde(skip_serializing_if = "is_true")]
    listed: bool,
    /// Number of matching turns in the session.
    matching_turns: usize,
    hits: Vec<SearchResultHit>,
}

/// A match; without a turn it is in the session's title.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchResultHit {
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    at_ms: i64,
    kind: &'static str,
    snippet: String,
    /// Start and end of each match, in UTF-16 code units.
    matches: Vec<[usize; 2]>,
}

/// Parses a search request.
pub(crate) fn parse(params: Value) -> Result<SearchRequest, RpcError> {
    let SearchParams { query, limit, offset, by_turn, wait_for_index, include_unlisted } = decode::params(params)?;
    if query.trim().is_empty() {
        return Err(RpcError::invalid_params("query is empty; enter a search text"));
    }
    if query.len() > MAX_QUERY_BYTES {
        return Err(RpcError::invalid_params("query must not be longer than 4096 bytes"));
    }
    Ok(SearchRequest {
        query,
        limit: limit.unwrap_or(DEFAULT_SEARCH_LIMIT).clamp(1, MAX_SEARCH_LIMIT),
        offset,
        flat: by_turn,
        wait_for_index,
        include_unlisted,
    })
}

/// Runs the search.
pub(crate) async fn search(engine: &Engine, request: SearchRequest) -> Result<Value, RpcError> {
    let offset = request.offset;
    let SearchResults { sessions, has_more, unlisted, pending_sessions, index_error } = engine.search(request).await?;
    let next_offset = has_more.then_some(offset.saturating_add(sessions.len()));
    let item = |found: SessionHits| {
        let listed = !unlisted.contains(&found.session);
        to_item(found, listed)
    };
    let items = sessions.into_iter().map(item).collect();
    to_result(&SearchResult { items, next_offset, pending_sessions, index_error })
}

fn is_true(value: &bool) -> bool {
    *value
}

fn to_item(found: SessionHits, listed: bool) -> SearchResultItem {
    let SessionHits { session, title, workspace, modified_ms, hits, matching_turns } = found;
    SearchResultItem {
        session,
        title,
        workspace,
        modified_at_ms: modified_ms,
        listed,
        matching_turns,
        hits: hits.into_iter().map(to_hit).collect(),
    }
}

fn to_hit(hit: SearchHit) -> SearchResultHit {
    let SearchHit { turn, at_ms, kind, snippet, matches } = hit;
    let matches = matches.into_iter().map(|at| to_utf16_range(&snippet, at)).collect();
    let (chat, turn) = turn.unzip();
    SearchResultHit { chat, turn, at_ms, kind: kind.as_str(), snippet, matches }
}

fn to_utf16_range(text: &str, at: Range<usize>) -> [usize; 2] {
    let units = |end: usize| text.get(..end).unwrap_or_default().encode_utf16().count();
    [units(at.start), units(at.end)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn match_positions_are_utf16_code_units() {
        assert_eq!(to_utf16_range("a 😀 bé", 7..10), [5, 7]);
        assert_eq!(to_utf16_range("検索", 0..6), [0, 2]);
    }

    #[test]
    fn invalid_queries_are_refused_with_a_message() {
        for query in [json!({"query": ""}), json!({"query": " \n"}), json!({}), json!({"query": "x".repeat(5_000)})] {
            assert!(parse(query).is_err());
        }
        let request = parse(json!({"query": "x", "limit": 5_000, "offset": 3, "channel": "ahp-root://"})).ok().unwrap();
        assert_eq!(
            (request.limit, request.offset, request.flat, request.wait_for_index, request.include_unlisted),
            (MAX_SEARCH_LIMIT, 3, false, false, false)
        );
        assert_eq!(parse(json!({"query": "x", "limit": 0})).ok().unwrap().limit, 1);
    }
}
