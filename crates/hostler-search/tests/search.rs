//! Queries against a sample index, and their results.

#![allow(clippy::unwrap_used, clippy::string_slice, reason = "tests may panic")]

use hostler_search::{
    SearchHits, SearchIndex, SearchPage, SearchQuery, SessionDocument, TextKind, TextsByKind, TurnDocument,
    TurnLocation,
};
use jiff::Zoned;
use proptest::prelude::*;
use tempfile::TempDir;

const DAY: i64 = 86_400_000;
const PAGE: SearchPage = SearchPage { limit: 50, offset: 0, by_turn: false };

fn now() -> Zoned {
    "2026-11-16T00:00:00[UTC]".parse().unwrap()
}

fn now_ms() -> i64 {
    now().timestamp().as_millisecond()
}

struct Bed {
    index: SearchIndex,
    _dir: TempDir,
}

impl Bed {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { index: SearchIndex::open(dir.path()).unwrap(), _dir: dir }
    }

    /// A session with one turn, some days ago.
    fn session(&self, name: &str, workspace: &str, days: i64, texts: &[(TextKind, &str)]) {
        let at_ms = now_ms() - days * DAY;
        let session = format!("claude:/{name}");
        let line = SessionDocument {
            session: session.clone(),
            title: format!("The title of {name}"),
            workspace: Some(workspace.to_owned()),
            modified_ms: at_ms,
        };
        self.index.upsert_session(&line).unwrap();
        self.index.put_turns(&session, &[turn(0, at_ms, texts)]).unwrap();
    }

    fn look(&self, query: &str, page: SearchPage) -> SearchHits {
        self.index.search(&SearchQuery::parse(query, &now()), page, now_ms()).unwrap()
    }

    /// The sessions in the results, the best first.
    fn found(&self, query: &str) -> Vec<String> {
        let hits = self.look(query, PAGE);
        hits.sessions.into_iter().map(|session| session.session.replace("claude:/", "")).collect()
    }

    #[track_caller]
    fn check(&self, query: &str, expected: &[&str]) {
        let mut found = self.found(query);
        found.sort();
        assert_eq!(found, expected, "{query}");
    }
}

fn turn(position: usize, at_ms: i64, texts: &[(TextKind, &str)]) -> TurnDocument {
    let mut all = TextsByKind::default();
    texts.iter().for_each(|(kind, text)| all.add(*kind, text));
    let place = TurnLocation { chat: "c".to_owned(), position };
    TurnDocument { location: place, turn_id: format!("t{position}"), at_ms, texts: all }
}

fn garden() -> Bed {
    let bed = Bed::new();
    bed.session(
        "a",
        "/home/me/garden",
        1,
        &[
            (TextKind::User, "Please repair the login of foo_bar in src/main.rs"),
            (TextKind::Answer, "Done: the naïve café check is gone."),
            (TextKind::ToolName, "Edit"),
            (TextKind::Files, "/home/me/garden/src/main.rs"),
        ],
    );
    bed.session(
        "b",
        "/home/me/garden/shed",
        10,
        &[
            (TextKind::User, "What does getUserName do?"),
            (TextKind::Answer, "It reads the login from the configuration."),
            (TextKind::ToolName, "Bash"),
            (TextKind::ToolInput, "grep -rn getUserName"),
            (TextKind::ToolOutput, "src/user.rs:12: fn getUserName"),
        ],
    );
    bed.session(
        "c",
        "/home/me/gardening",
        100,
        &[
            (TextKind::User, "全文検索を実装してください"),
            (TextKind::Answer, "用Rust写的搜索引擎 เสร็จแล้ว 검색 기능"),
            (TextKind::Reasoning, "The person wants a search engine"),
        ],
    );
    bed
}

#[test]
fn all_terms_must_match_one_turn_ignoring_case_and_accents() {
    let bed = garden();
    bed.check("login", &["a", "b"]);
    bed.check("LOGIN repair", &["a"]);
    bed.check("login engine", &[]);
    bed.check("naive CAFÉ", &["a"]);
    bed.check("nowhere", &[]);
}

#[test]
fn phrases_prefixes_and_exclusions_are_applied() {
    let bed = garden();
    bed.check("\"the login\"", &["a", "b"]);
    bed.check("\"login the\"", &[]);
    bed.check("conf*", &["b"]);
    bed.check("\"the conf\"*", &["b"]);
    bed.check("conf", &[]);
    bed.check("login -repair", &["b"]);
    bed.check("login -\"from the\"", &["a"]);
    bed.check("-login", &["c"]);
}

#[test]
fn code_is_found_by_names_parts_of_names_and_paths() {
    let bed = garden();
    bed.check("foo_bar", &["a"]);
    bed.check("bar", &["a"]);
    bed.check("getusername", &["b"]);
    bed.check("getUser*", &["b"]);
    bed.check("src/main.rs", &["a"]);
    bed.check("main.rs", &["a"]);
    bed.check("user.rs:12:", &["b"]);
}

#[test]
fn scripts_without_spaces_are_found_by_any_part_of_a_sentence() {
    let bed = garden();
    for part in ["検索", "全文検索", "索", "実装して", "搜索引擎", "Rust写", "เสร็จ", "검색"]
    {
        bed.check(part, &["c"]);
    }
    bed.check("索検", &[]);
    bed.check("검*", &["c"]);
    let hits = bed.look("検索", PAGE);
    let hit = &hits.sessions[0].hits[0];
    assert_eq!((hit.kind, hit.snippet.as_str()), (TextKind::User, "全文検索を実装してください"));
    assert_eq!(&hit.snippet[hit.matches[0].clone()], "検索");
}

#[test]
fn filters_restrict_the_results() {
    let bed = garden();
    bed.check("workspace:/home/me/garden login", &["a", "b"]);
    bed.check("workspace:/home/me/garden/ workspace:shed", &["b"]);
    bed.check("workspace:/home/me/gard", &[]);
    bed.check("workspace:Gardening", &["c"]);
    bed.check("tool:bash", &["b"]);
    bed.check("login -tool:bash", &["a"]);
    bed.check("file:src/main.rs", &["a"]);
    bed.check("file:mai*", &["a"]);
    bed.check("tool:edit file:main.rs", &["a"]);
    bed.check("tool:bash file:main.rs", &[]);
    bed.check("file:main.rs -tool:bash workspace:garden login", &["a"]);
    bed.check("file:login", &[]);
    bed.check("session:b", &["b"]);
    bed.check("session:claude:/c search", &["c"]);
    bed.check("from:person login", &["a"]);
    bed.check("from:agent login", &["b"]);
}

#[test]
fn text_after_a_long_input_is_found_by_terms_and_filters() {
    let bed = Bed::new();
    let written = "fn main() {} ".repeat(10_000);
    bed.session(
        "a",
        "/w",
        0,
        &[
            (TextKind::ToolName, "Write"),
            (TextKind::ToolInput, &written),
            (TextKind::ToolName, "Grep"),
            (TextKind::Files, "/w/src/late.rs"),
            (TextKind::Answer, "It is done, and the quinces are ripe."),
        ],
    );
    bed.check("quinces", &["a"]);
    bed.check("tool:grep file:late.rs", &["a"]);
    bed.check("quinces -tool:grep", &[]);
}

#[test]
fn a_search_can_be_restricted_to_sessions() {
    let bed = garden();
    let look = |query: &str, sessions: &[&str]| {
        let query = SearchQuery::parse(query, &now()).only_sessions(sessions);
        let hits = bed.index.search(&query, SearchPage { limit: 1, ..PAGE }, now_ms()).unwrap();
        (hits.sessions.into_iter().map(|session| session.session).collect::<Vec<_>>(), hits.has_more)
    };
    assert_eq!(look("login", &["claude:/b", "claude:/x"]), (vec!["claude:/b".to_owned()], false));
    assert_eq!(look("login", &[]), (Vec::new(), false));
    assert_eq!(look("after:7d", &["claude:/a"]).0.len(), 1);
    assert_eq!(look(" ", &["claude:/a"]), (Vec::new(), false), "nothing is looked for");
}

#[test]
fn times_restrict_the_results() {
    let bed = garden();
    bed.check("after:7d", &["a"]);
    bed.check("before:7d", &["b", "c"]);
    bed.check("login after:2026-11-01 before:2026-11-10", &["b"]);
    bed.check("after:2w before:2d", &["b"]);
}

#[test]
fn a_title_is_found_and_has_no_turn() {
    let bed = garden();
    let hits = bed.look("title", PAGE);
    assert_eq!(hits.sessions.len(), 3);
    let hit = &hits.sessions[0].hits[0];
    assert_eq!((hit.turn.as_ref(), hit.kind), (None, TextKind::Title));
}

#[test]
fn results_are_sessions_with_best_hits_or_single_turns() {
    let bed = garden();
    let turns: Vec<_> = (1..10).map(|at| turn(at, now_ms(), &[(TextKind::Answer, "login once more")])).collect();
    bed.index.put_turns("claude:/a", &turns).unwrap();
    let hits = bed.look("login", PAGE);
    assert_eq!(hits.sessions.len(), 2);
    let first = &hits.sessions[0];
    assert_eq!((first.session.as_str(), first.hits.len(), first.matching_turns), ("claude:/a", 3, 10));
    let flat = bed.look("login", SearchPage { by_turn: true, ..PAGE });
    assert_eq!(flat.sessions.len(), 11);
    assert!(flat.sessions.iter().all(|session| session.hits.len() == 1));
}

#[test]
fn pages_together_are_all_results() {
    let bed = Bed::new();
    (0..7).for_each(|n| bed.session(&n.to_string(), "/w", n, &[(TextKind::User, "apples")]));
    let whole = bed.found("apples");
    assert_eq!(whole, ["0", "1", "2", "3", "4", "5", "6"], "the newest first, where all else is equal");
    let mut pages = Vec::new();
    loop {
        let page = bed.look("apples", SearchPage { limit: 3, offset: pages.len(), by_turn: false });
        pages.extend(page.sessions.iter().map(|session| session.session.replace("claude:/", "")));
        if !page.has_more {
            break;
        }
    }
    assert_eq!(pages, whole);
}

#[test]
fn a_persons_message_ranks_above_tool_output() {
    let bed = Bed::new();
    bed.session("printed", "/w", 0, &[(TextKind::ToolOutput, "apples and pears")]);
    bed.session("asked", "/w", 5, &[(TextKind::User, "apples and pears")]);
    assert_eq!(bed.found("apples"), ["asked", "printed"]);
}

#[test]
fn a_snippet_highlights_terms_and_not_filters() {
    let bed = garden();
    let hits = bed.look("tool:edit login", PAGE);
    let hit = &hits.sessions[0].hits[0];
    let matched: Vec<_> = hit.matches.iter().map(|at| &hit.snippet[at.clone()]).collect();
    assert_eq!((hit.kind, matched), (TextKind::User, vec!["login"]));
    let hits = bed.look("workspace:gardening", PAGE);
    let hit = &hits.sessions[0].hits[0];
    assert_eq!((hit.snippet.as_str(), hit.matches.len()), ("全文検索を実装してください", 0));
}

proptest! {
    #[test]
    fn every_text_is_a_valid_query(text in any::<String>()) {
        let bed = BED.with(|bed| bed.look(&text, PAGE));
        prop_assert!(bed.sessions.len() <= 3);
    }

    #[test]
    fn every_mixture_of_query_syntax_is_a_valid_query(
        text in "([-\"*:(){}^+~ ]|AND|OR|NOT|NEAR|tool|file|from|session|workspace|before|after|7d|a|検|\\x00|\\x01|\\x02){0,40}",
    ) {
        BED.with(|bed| bed.look(&text, PAGE));
    }

    #[test]
    fn indexed_text_is_found_by_its_terms(text in "[a-zA-Z0-9_./-]{1,12}( [a-z検索é]{1,8}){0,4}") {
        let bed = Bed::new();
        bed.session("x", "/w", 0, &[(TextKind::User, &text)]);
        let wanted = format!("\"{text}\"");
        prop_assume!(text.chars().any(char::is_alphanumeric));
        prop_assert_eq!(bed.found(&wanted), ["x"]);
        let hits = bed.look(&wanted, PAGE);
        for hit in &hits.sessions[0].hits {
            for at in &hit.matches {
                prop_assert!(hit.snippet.get(at.clone()).is_some_and(|word| !word.is_empty()));
            }
        }
    }
}

thread_local! {
    static BED: Bed = garden();
}
