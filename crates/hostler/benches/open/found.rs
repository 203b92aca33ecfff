//! A large conversation that somebody else has led, opened through the host, beside the official SDK on the same file.
//!
//! The host has read what it searches before it is asked. Cold is a file whose contents the system was then told to forget
//! (`posix_fadvise`), warm is one that was just read. The SDK tells all messages at once; the host tells the last turns, and the
//! others by pages.

use std::time::Instant;

use hostler_testkit::bench::{Row, Table, median};
use hostler_testkit::raw::Raw;
use serde_json::json;
use uuid::Uuid;

use crate::pages::forget;
use crate::past::peak;
use crate::sdk::{Sdk, Theirs};
use crate::support::{Home, ms, resident};
use crate::written::{BUILDS, nothing, written};

const ROUNDS: usize = 5;
const VIEW: usize = 50;

/// What a host made of it.
struct Opened {
    /// Until the snapshot with the last turns was there.
    first: f64,
    /// Its size.
    bytes: usize,
    /// What the host's memory has grown by then, in MiB.
    memory: f64,
    /// Until all the older turns were there, in so many pages.
    all: f64,
    pages: usize,
    /// The most that its memory has grown.
    highest: f64,
}

pub(crate) async fn table(megabytes: usize) -> Table {
    let mut rows = Vec::new();
    for build in BUILDS {
        rows.extend(of_build(build, megabytes).await);
    }
    Table { rows }
}

async fn of_build(build: &str, megabytes: usize) -> Vec<Row> {
    let home = Home::new();
    let records = home.path("claude");
    let (id, _) = written(&records, build, megabytes * 1024 * 1024, 0, &mut nothing);
    let sdk = Sdk::given();
    let theirs = |rounds| sdk.as_ref().map(|sdk| sdk.open(&records, id, rounds));
    forget(&records);
    let cold_theirs = theirs(1);
    let warm_theirs = theirs(ROUNDS);

    let cold = opened(&home, id, true).await;
    let mut warm = Vec::new();
    for _ in 0..ROUNDS {
        warm.push(opened(&home, id, false).await);
    }
    let middle = |of: fn(&Opened) -> f64| median(&warm.iter().map(of).collect::<Vec<_>>());

    let call = |theirs: Option<Theirs>| theirs.map(|theirs| ("getSessionMessages".to_owned(), theirs.ms));
    let space = |theirs: Option<Theirs>| theirs.map(|theirs| ("getSessionMessages".to_owned(), theirs.peak));
    let row = |what: String, unit, hostler, beside, target| Row { what, unit, hostler, beside, target };
    let size = cold.bytes as f64 / 1e6;
    let first = format!("{build}, {megabytes} MB: its last {VIEW} turns ({size:.2} MB), cold file");
    vec![
        row(first, "ms", cold.first, call(cold_theirs), None),
        row("the same, warm file, p50".into(), "ms", middle(|one| one.first), call(warm_theirs), Some(100.0)),
        row("memory after it, p50".into(), "MiB", middle(|one| one.memory), space(cold_theirs), Some(30.0)),
        row(
            format!("and all older turns in {} pages, p50", cold.pages),
            "ms",
            middle(|one| one.all),
            call(warm_theirs),
            None,
        ),
        row("highest memory of it, p50".into(), "MiB", middle(|one| one.highest), space(warm_theirs), None),
    ]
}

/// A host that has only found it opens it.
async fn opened(home: &Home, id: Uuid, cold: bool) -> Opened {
    let _there_may_be_none = std::fs::remove_dir_all(home.path("state"));
    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = Raw::initialized(&host.url).await;
    raw.call("hostler/search", json!({"query": "question", "wait": true})).await.expect("an answer");
    if cold {
        forget(&home.path("claude"));
    }
    let session = format!("claude:/{id}");
    let chat = hostler_engine::default_chat_uri(&session);
    let idle = resident(host.pid);
    // From here on its highest memory is that of what follows.
    std::fs::write(format!("/proc/{}/clear_refs", host.pid), "5").expect("the host is ours");
    let mut bytes = 0;
    let begun = Instant::now();
    raw.hear("subscribe", json!({"channel": session}), |_| ()).await;
    raw.hear("subscribe", json!({"channel": chat, "view": {"turns": VIEW}}), |text| bytes = text.len()).await;
    let first = ms(begun, Instant::now());
    let memory = resident(host.pid) - idle;
    let (mut pages, mut more) = (0, true);
    while std::mem::take(&mut more) {
        raw.hear("fetchTurns", json!({"channel": chat}), |text| more |= text.contains(r#""turnsNextCursor":"#)).await;
        pages += 1;
    }
    let highest = peak(host.pid) - idle;
    Opened { first, bytes, memory, all: ms(begun, Instant::now()), pages, highest }
}
