//! `hostler sessions search`: full-text search over all sessions.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{table, unexpected_response};
use crate::Io;
use crate::args::SearchArgs;
use crate::client::{Client, SearchParams};
use crate::console::{TextStyle, to_one_line};
use crate::environment::HostEnvironment;
use crate::exit::{CommandFailure, Exit};
use crate::host::HostConnection;

/// Results per request.
const SEARCH_PAGE_SIZE: u32 = 100;

/// Delay before a notice explains the wait.
const SLOW_NOTICE_DELAY: Duration = Duration::from_secs(1);

/// Session with matches.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionSearchResult {
    session: String,
    title: String,
    workspace: Option<String>,
    modified_at_ms: i64,
    /// Present if the session is not in the list.
    #[serde(rename = "listed")]
    is_listed: Option<bool>,
    #[serde(rename = "matchingTurns")]
    match_count: usize,
    hits: Vec<SearchSnippet>,
}

#[derive(Debug, Deserialize)]
struct SearchSnippet {
    kind: String,
    snippet: String,
    /// Ranges in UTF-16 code units.
    matches: Vec<[usize; 2]>,
}

pub(super) async fn search_sessions(
    args: &SearchArgs,
    json: bool,
    environment: &HostEnvironment,
    host: &HostConnection,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let query = build_query(args, &environment.current_dir);
    let SearchOutcome { items, pending, problem } = collect_results(&query, args, &host.client, io).await?;
    for item in &items {
        match json {
            true => io.console.write_out(&format!("{}\n", item.get()))?,
            false => print_result(item, environment, io)?,
        }
    }
    if pending > 0 {
        io.console.write_note(
            &format!("{pending} sessions are not indexed yet. Search again later for more results."),
            TextStyle::Yellow,
        );
    }
    if let Some(problem) = problem {
        io.console
            .write_note(&format!("The search index is incomplete: {}.", to_one_line(&problem)), TextStyle::Yellow);
    }
    if items.is_empty() {
        if !json {
            io.console.write_note("No matching sessions.", TextStyle::Red);
        }
        // As with grep, no match is a result, not a failure.
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

/// Results as the host sent them, and what is missing.
struct SearchOutcome {
    items: Vec<Box<RawValue>>,
    /// Sessions that are not indexed yet.
    pending: usize,
    /// Why something cannot be indexed.
    problem: Option<String>,
}

async fn collect_results(
    query: &str,
    args: &SearchArgs,
    client: &Client,
    io: &mut Io,
) -> Result<SearchOutcome, CommandFailure> {
    let mut items: Vec<Box<RawValue>> = Vec::new();
    loop {
        let missing = args.limit.saturating_sub(u32::try_from(items.len()).unwrap_or(u32::MAX));
        let (limit, offset) = (missing.min(SEARCH_PAGE_SIZE), items.len());
        let params = SearchParams { query, limit, offset, wait_for_index: !args.no_wait, include_unlisted: args.all };
        let mut request = std::pin::pin!(client.search(&params));
        let early = io.signals.run_or_interrupt(tokio::time::timeout(SLOW_NOTICE_DELAY, &mut request)).await?;
        let answer = match early {
            Ok(answer) => answer?,
            Err(_) => {
                let notice = "Indexing new messages first. Pass --no-wait to search what is indexed already.";
                io.console.write_note(notice, TextStyle::Dim);
                io.signals.run_or_interrupt(request).await??
            }
        };
        let received = answer.items.len();
        items.extend(answer.items);
        let enough = items.len() >= usize::try_from(args.limit).unwrap_or(usize::MAX);
        if enough || received == 0 || answer.next_offset.is_none() {
            return Ok(SearchOutcome { items, pending: answer.pending_sessions, problem: answer.index_error });
        }
    }
}

/// Combines the query with the options.
fn build_query(args: &SearchArgs, working_directory: &Path) -> String {
    let terms: Vec<&str> = args.query.iter().map(|term| term.expose().as_str()).collect();
    let mut query = terms.join(" ");
    let mut filter = |name: &str, value: &str| query.push_str(&format!(" {name}:\"{}\"", value.replace('"', " ")));
    if let Some(workspace) = &args.workspace {
        let path = working_directory.join(workspace);
        // A path that is not a directory is matched as a part of directory names.
        let directory = path.canonicalize().ok().filter(|path| path.is_dir());
        filter("workspace", &directory.as_deref().unwrap_or(workspace).display().to_string());
    }
    args.since.iter().for_each(|time| filter("after", time));
    args.until.iter().for_each(|time| filter("before", time));
    args.tool.iter().for_each(|tool| filter("tool", tool));
    args.file.iter().for_each(|file| filter("file", file));
    query
}

fn print_result(item: &RawValue, environment: &HostEnvironment, io: &mut Io) -> Result<(), CommandFailure> {
    let item: SessionSearchResult = serde_json::from_str(item.get()).map_err(|error| unexpected_response(&error))?;
    let title = if item.title.is_empty() { "(untitled)".to_owned() } else { to_one_line(&item.title) };
    io.console.write_out_line(&title, TextStyle::Bold)?;
    let id = item.session.rsplit('/').next().unwrap_or(&item.session);
    let age = Timestamp::from_millisecond(item.modified_at_ms).unwrap_or_default();
    let age = table::format_age(&age.to_string(), Timestamp::now());
    let directory = item.workspace.map(|path| table::abbreviate_home(Path::new(&path), &environment.home));
    let hidden = (item.is_listed == Some(false)).then(|| "not listed".to_owned());
    let details = [Some(to_one_line(id)), Some(age), directory, hidden];
    let details = details.into_iter().flatten().collect::<Vec<_>>().join(" · ");
    io.console.write_out_line(&format!("  {details}"), TextStyle::Dim)?;
    for hit in &item.hits {
        io.console.write_out(&format!("  {:<9} ", to_one_line(&hit.kind)))?;
        for (text, is_match) in split_snippet(hit) {
            io.console.write_out_untrusted(
                &text.replace(['\n', '\t'], " "),
                if is_match { TextStyle::Yellow } else { TextStyle::Plain },
            )?;
        }
        io.console.write_out("\n")?;
    }
    if item.match_count > item.hits.len() {
        io.console.write_out_line(&format!("  and {} more", item.match_count - item.hits.len()), TextStyle::Dim)?;
    }
    io.console.write_out_line(&format!("  hostler sessions show {}\n", to_one_line(id)), TextStyle::Dim)?;
    Ok(())
}

/// Splits a snippet into pieces, each marked as match or other text.
fn split_snippet(hit: &SearchSnippet) -> Vec<(String, bool)> {
    let units: Vec<u16> = hit.snippet.encode_utf16().collect();
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut put = |until: usize, is_match: bool| {
        let until = until.clamp(at, units.len());
        let text = String::from_utf16_lossy(units.get(at..until).unwrap_or_default());
        at = until;
        if !text.is_empty() {
            pieces.push((text, is_match));
        }
    };
    for [from, until] in &hit.matches {
        put(*from, false);
        put(*until, true);
    }
    put(units.len(), false);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(snippet: &str, matches: &[[usize; 2]]) -> Vec<String> {
        let hit = SearchSnippet { kind: "answer".to_owned(), snippet: snippet.to_owned(), matches: matches.to_vec() };
        split_snippet(&hit)
            .into_iter()
            .map(|(text, is_match)| if is_match { format!("[{text}]") } else { text })
            .collect()
    }

    #[test]
    fn snippet_is_split_at_matches_and_invalid_ranges_are_tolerated() {
        assert_eq!(split("a 😀 bé c", &[[5, 7]]), ["a 😀 ", "[bé]", " c"]);
        assert_eq!(split("abc", &[]), ["abc"]);
        assert_eq!(split("abc", &[[0, 3]]), ["[abc]"]);
        assert_eq!(split("abc", &[[2, 1], [9, 99]]), ["ab", "c"]);
        assert!(split("", &[[0, 1]]).is_empty());
    }
}
