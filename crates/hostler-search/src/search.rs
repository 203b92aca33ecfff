//! Runs a search: finds matching turns, ranks them, and loads snippets.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};

use crate::SearchError;
use crate::document::TextKind;
use crate::index::{first_id_at, time_of_id};
use crate::query::SearchQuery;
use crate::segmentation;

/// Maximum number of matching turns that are ranked. Of a very frequent term, the newest count.
const MAX_RANKED_TURNS: usize = 2_000;

/// Maximum number of hits shown per session.
const HITS_PER_SESSION: usize = 3;

/// Number of tokens in a snippet around a match.
const SNIPPET_WORDS: usize = 24;

/// Number of characters shown of a turn that matches by filters alone.
const EXCERPT_CHARS: usize = 160;

/// Time after which the bonus for recency is halved.
const RECENCY_HALF_LIFE_MS: f64 = 30.0 * 24.0 * 3_600_000.0;

/// Which results to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchPage {
    /// Maximum number of results.
    pub limit: usize,
    /// Number of results to skip.
    pub offset: usize,
    /// Whether each result is a turn, rather than a session with its best turns.
    pub by_turn: bool,
}

/// The results of a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchHits {
    /// Sessions, the best first.
    pub sessions: Vec<SessionHits>,
    /// Whether there are more after these.
    pub has_more: bool,
}

/// A session with matches.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionHits {
    /// Its URI.
    pub session: String,
    /// Its title.
    pub title: String,
    /// Its working directory.
    pub workspace: Option<String>,
    /// When it was last changed.
    pub modified_ms: i64,
    /// The best hits.
    pub hits: Vec<SearchHit>,
    /// Number of matching turns, among the ranked ones.
    pub matching_turns: usize,
}

/// One match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// The chat and the turn; `None` for the session's title.
    pub turn: Option<(String, String)>,
    /// Time of the turn.
    pub at_ms: i64,
    /// The kind of the text.
    pub kind: TextKind,
    /// An excerpt of the text.
    pub snippet: String,
    /// Positions of the matches in the snippet, in bytes.
    pub matches: Vec<Range<usize>>,
}

/// A turn that matches.
struct Candidate {
    id: i64,
    session: i64,
    score: f64,
}

pub(crate) fn run_search(
    db: &Connection,
    query: &SearchQuery,
    page: SearchPage,
    now_ms: i64,
) -> Result<SearchHits, SearchError> {
    if query.is_empty() || page.limit == 0 {
        return Ok(SearchHits::default());
    }
    // One transaction, so that a ranked turn still exists when its snippet is loaded.
    let tx = db.unchecked_transaction()?;
    let mut ranked = find_candidates(&tx, query, now_ms)?;
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.id.cmp(&a.id)));
    let groups =
        if page.by_turn { ranked.into_iter().map(|one| vec![one]).collect() } else { group_by_session(ranked) };
    let more = groups.len() > page.offset.saturating_add(page.limit);
    let shown = query.highlight_expression();
    let sessions = groups
        .iter()
        .skip(page.offset)
        .take(page.limit)
        .map(|group| load_session_hits(&tx, group, shown.as_deref()))
        .collect::<Result<_, _>>()?;
    Ok(SearchHits { sessions, has_more: more })
}

/// Groups turns by session, in the order of their best turns.
fn group_by_session(ranked: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut places = HashMap::new();
    let mut groups: Vec<Vec<Candidate>> = Vec::new();
    for candidate in ranked {
        let place = *places.entry(candidate.session).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(place) {
            group.push(candidate);
        }
    }
    groups
}

/// The newest matching turns, with their scores.
fn find_candidates(db: &Connection, query: &SearchQuery, now_ms: i64) -> Result<Vec<Candidate>, SearchError> {
    let mut values: Vec<Value> = Vec::new();
    let mut conditions: Vec<String> = Vec::new();
    let with = |values: &mut Vec<Value>, value: Value| {
        values.push(value);
        values.len()
    };
    let wanted = query.match_expression();
    let (tables, id, score) = match &wanted {
        Some(wanted) => {
            let at = with(&mut values, Value::Text(wanted.clone()));
            conditions.push(format!("texts MATCH ?{at}"));
            ("texts CROSS JOIN turns t ON t.id = texts.rowid", "texts.rowid", bm25_expression())
        }
        None => {
            // A title alone does not satisfy filters for time and place.
            conditions.push("t.position >= 0".to_owned());
            if let Some(unwanted) = query.exclude_expression() {
                let at = with(&mut values, Value::Text(unwanted));
                conditions.push(format!("t.id NOT IN (SELECT rowid FROM texts WHERE texts MATCH ?{at})"));
            }
            ("turns t", "t.id", "-1.0".to_owned())
        }
    };
    if let Some(after) = query.after {
        let at = with(&mut values, Value::Integer(first_id_at(after)));
        conditions.push(format!("{id} >= ?{at}"));
    }
    if let Some(before) = query.before {
        let at = with(&mut values, Value::Integer(first_id_at(before)));
        conditions.push(format!("{id} < ?{at}"));
    }
    for workspace in &query.workspaces {
        let at = with(&mut values, Value::Text(workspace.trim_end_matches('/').to_owned()));
        conditions.push(match workspace.starts_with('/') {
            true => format!("(s.workspace = ?{at} OR substr(s.workspace, 1, length(?{at}) + 1) = ?{at} || '/')"),
            false => format!("instr(lower(s.workspace), lower(?{at})) > 0"),
        });
    }
    if let Some(among) = &query.only_sessions {
        let at = with(&mut values, Value::Text(among.clone()));
        conditions.push(format!("s.uri IN (SELECT value FROM json_each(?{at}))"));
    }
    for session in &query.sessions {
        let at = with(&mut values, Value::Text(session.clone()));
        conditions.push(format!("(s.uri = ?{at} OR instr(s.uri, ':/' || ?{at}) > 0)"));
    }
    let sql = format!(
        "SELECT {id}, t.session, {score} FROM {tables} CROSS JOIN sessions s ON s.id = t.session
         WHERE {} ORDER BY {id} DESC LIMIT {MAX_RANKED_TURNS}",
        conditions.join(" AND ")
    );
    let mut statement = db.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        let (id, session, rank): (i64, i64, f64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Candidate { id, session, score: compute_score(rank, now_ms - time_of_id(id)) })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn bm25_expression() -> String {
    let weights: Vec<_> = TextKind::ALL.iter().map(|kind| kind.weight().to_string()).collect();
    format!("bm25(texts, {})", weights.join(", "))
}

/// SQLite's rank is better the smaller it is. Recency up to doubles the score.
#[expect(clippy::cast_precision_loss, reason = "an age in days needs no more precision")]
fn compute_score(rank: f64, age_ms: i64) -> f64 {
    -rank * (1.0 + (-(age_ms.max(0) as f64) / RECENCY_HALF_LIFE_MS).exp2())
}

fn load_session_hits(db: &Connection, group: &[Candidate], shown: Option<&str>) -> Result<SessionHits, SearchError> {
    let session = group.first().map_or(0, |first| first.session);
    let mut found = db
        .prepare_cached("SELECT uri, title, workspace, modified_ms FROM sessions WHERE id = ?1")?
        .query_row([session], |row| {
            Ok(SessionHits {
                session: row.get(0)?,
                title: row.get(1)?,
                workspace: row.get(2)?,
                modified_ms: row.get(3)?,
                hits: Vec::new(),
                matching_turns: group.len(),
            })
        })?;
    for candidate in group.iter().take(HITS_PER_SESSION) {
        found.hits.push(load_hit(db, candidate.id, shown)?);
    }
    Ok(found)
}

fn load_hit(db: &Connection, id: i64, shown: Option<&str>) -> Result<SearchHit, SearchError> {
    let (chat, position, turn): (String, i64, String) = db
        .prepare_cached("SELECT chat, position, turn FROM turns WHERE id = ?1")?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let piece = match shown {
        Some(shown) => load_snippet(db, id, shown)?,
        None => None,
    };
    let (kind, snippet, matches) = match piece {
        Some(piece) => piece,
        None => load_excerpt(db, id)?,
    };
    Ok(SearchHit { turn: (position >= 0).then_some((chat, turn)), at_ms: time_of_id(id), kind, snippet, matches })
}

type Snippet = (TextKind, String, Vec<Range<usize>>);

/// The first kind of text in a turn that has a match, and its snippet.
fn load_snippet(db: &Connection, id: i64, shown: &str) -> Result<Option<Snippet>, SearchError> {
    let found: Option<Option<String>> =
        db.prepare_cached(snippet_sql())?.query_row(params![shown, id], |row| row.get(0)).optional()?;
    let found = found.flatten().unwrap_or_default();
    let mut signs = found.chars();
    let column = signs.next().and_then(|column| column.to_digit(10)).and_then(|column| usize::try_from(column).ok());
    let Some(kind) = column.and_then(|column| TextKind::ALL.get(column)) else { return Ok(None) };
    let (text, matches) = extract_matches(signs.as_str());
    Ok((!matches.is_empty()).then_some((*kind, text, matches)))
}

/// One statement, because each statement looks up the turn again. Computing a snippet reads the whole text, so later
/// kinds are skipped once an earlier one matches. The column's number precedes the text.
fn snippet_sql() -> &'static str {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let pieces: Vec<String> = (0..TextKind::ALL.len())
            .map(|column| {
                let snippet = format!("snippet(texts, {column}, char(1), char(2), '…', {SNIPPET_WORDS})");
                format!("CASE WHEN instr({snippet}, char(1)) THEN '{column}' || {snippet} END")
            })
            .collect();
        format!("SELECT coalesce({}) FROM texts WHERE texts MATCH ?1 AND rowid = ?2", pieces.join(", "))
    });
    &SQL
}

/// The start of a turn, for queries without terms.
fn load_excerpt(db: &Connection, id: i64) -> Result<Snippet, SearchError> {
    for kind in TextKind::ALL {
        let sql = format!("SELECT substr({}, 1, {EXCERPT_CHARS}) FROM texts WHERE rowid = ?1", kind.as_str());
        let text: Option<Option<String>> = db.prepare_cached(&sql)?.query_row([id], |row| row.get(0)).optional()?;
        if let Some(text) = text.flatten().filter(|text| !text.is_empty()) {
            return Ok((kind, segmentation::join_segments(&text), Vec::new()));
        }
    }
    Ok((TextKind::User, String::new(), Vec::new()))
}

/// Removes the match markers from a text and returns their positions. Adjacent matches are merged.
fn extract_matches(text: &str) -> (String, Vec<Range<usize>>) {
    let (mut out, mut matches, mut opened) = (String::with_capacity(text.len()), Vec::<Range<usize>>::new(), None);
    for sign in segmentation::join_segments(text).chars() {
        match sign {
            segmentation::MATCH_START => opened = Some(out.len()),
            segmentation::MATCH_END => {
                let Some(from) = opened.take() else { continue };
                match matches.last_mut().filter(|last| last.end == from) {
                    Some(last) => last.end = out.len(),
                    None => matches.push(from..out.len()),
                }
            }
            sign => out.push(sign),
        }
    }
    (out, matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_become_positions_and_adjacent_matches_are_merged() {
        let text = format!("a {}bé{} c {}検{}\u{2060}{}索{}", '\u{1}', '\u{2}', '\u{1}', '\u{2}', '\u{1}', '\u{2}');
        let (text, matches) = extract_matches(&text);
        assert_eq!((text.as_str(), matches), ("a bé c 検索", vec![2..5, 8..14]));
    }

    #[test]
    fn recency_up_to_doubles_the_score() {
        assert!(compute_score(-1.0, 0) > compute_score(-1.0, 86_400_000));
        assert!(compute_score(-2.0, i64::MAX / 2) >= compute_score(-1.0, 0));
        assert!(compute_score(-1.0, -5) <= 2.0, "a clock that goes wrong");
    }
}
