//! A chat with thousands of turns: its end, its pages, and all of it at once. With `--mb`, a large conversation that was found.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to people")]

#[path = "open/found.rs"]
mod found;
#[path = "support/pages.rs"]
mod pages;
#[path = "support/past.rs"]
mod past;
#[path = "../../hostler-claude/benches/support/sdk.rs"]
mod sdk;
#[path = "support/mod.rs"]
mod support;
#[path = "../../hostler-claude/benches/support/written.rs"]
mod written;

use std::path::Path;
use std::time::Instant;

use hostler_testkit::bench::{Row, Table, median};
use hostler_testkit::raw::Raw;
use past::{Past, option, peak};
use rusqlite::{Connection, OpenFlags, params};
use serde_json::json;
use support::{Home, ms, resident};

const SESSION: &str = "claude:/00000000-0000-4000-8000-000000000001";
const VIEW: usize = 50;
const AGAIN: usize = 30;
const ANSWER: usize = 2_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let table = match option("--mb", 0) {
        0 => stored(option("--turns", 20_000)).await,
        megabytes => found::table(megabytes).await,
    };
    println!("{table}");
}

async fn stored(turns: usize) -> Table {
    let home = Home::new();
    let state = home.path("state").join("hostler");
    let mut past = Past::begin(&state, &home.path("work")).await;
    past.session(SESSION, turns, ANSWER).await;
    past.end().await;

    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = Raw::initialized(&host.url).await;
    let idle = resident(host.pid);
    let chat = hostler_engine::default_chat_uri(SESSION);
    let view = json!({"channel": chat, "view": {"turns": VIEW}});
    let mut bytes = 0;
    let begun = Instant::now();
    raw.hear("subscribe", view.clone(), |text| bytes = text.len()).await;
    let (first, window) = (ms(begun, Instant::now()), bytes);
    let grown = resident(host.pid) - idle;
    let mut again = Vec::new();
    for _ in 0..AGAIN {
        let begun = Instant::now();
        raw.hear("subscribe", view.clone(), |_| ()).await;
        again.push(ms(begun, Instant::now()));
    }

    let (mut pages, mut more) = (Vec::new(), true);
    let begun = Instant::now();
    while std::mem::take(&mut more) {
        let begun = Instant::now();
        raw.hear("fetchTurns", json!({"channel": chat}), |text| more |= text.contains(r#""turnsNextCursor":"#)).await;
        pages.push(ms(begun, Instant::now()));
    }
    let fetched = ms(begun, Instant::now());
    let paged = resident(host.pid) - idle;

    let begun = Instant::now();
    raw.hear("subscribe", json!({"channel": chat}), |text| bytes = text.len()).await;
    let whole = ms(begun, Instant::now());
    let (after, highest) = (resident(host.pid) - idle, peak(host.pid) - idle);
    let mut pings = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        raw.hear("ping", json!({}), |_| ()).await;
        pings.push(ms(begun, Instant::now()));
    }

    let sqlite = |count| Some(("SQLite alone".to_owned(), alone(&state, &chat, turns, count)));
    let row = |what: String, unit, hostler, beside, target| Row { what, unit, hostler, beside, target };
    let mb = |bytes: usize| bytes as f64 / 1e6;
    let rows = vec![
        row(
            format!("the last {VIEW} of {turns} turns, first time ({:.2} MB)", mb(window)),
            "ms",
            first,
            sqlite(VIEW),
            Some(100.0),
        ),
        row("the same again, p50".into(), "ms", median(&again), sqlite(VIEW), None),
        row("memory after it".into(), "MiB", grown, None, Some(30.0)),
        row(format!("all older turns in {} pages", pages.len()), "ms", fetched, sqlite(turns), None),
        row("one page, p50".into(), "ms", median(&pages), Some(("ping".to_owned(), median(&pings))), None),
        row("memory after them".into(), "MiB", paged, None, None),
        row(format!("all turns at once ({:.1} MB)", mb(bytes)), "ms", whole, sqlite(turns), None),
        row("memory after that".into(), "MiB", after, None, None),
        row(
            "highest memory of all".into(),
            "MiB",
            highest,
            Some(("the message".to_owned(), mb(bytes) / 1.048_576)),
            None,
        ),
    ];
    Table { rows }
}

/// The same turns, read and put together without anybody else.
fn alone(state: &Path, chat: &str, turns: usize, count: usize) -> f64 {
    let begun = Instant::now();
    let db = Connection::open_with_flags(state.join("hostler.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("a file");
    let mut statement =
        db.prepare("SELECT body FROM turns WHERE chat = ?1 AND position >= ?2 ORDER BY position").expect("a query");
    let mut rows = statement.query(params![chat, i64::try_from(turns - count).expect("a number")]).expect("rows");
    let (mut text, mut found) = (String::new(), 0);
    while let Some(row) = rows.next().expect("a row") {
        text.push_str(row.get_ref(0).expect("a column").as_str().expect("text"));
        text.push(',');
        found += 1;
    }
    let taken = ms(begun, Instant::now());
    assert_eq!(found, count);
    taken
}
