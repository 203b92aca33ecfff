//! The list of conversations that others have led, beside the official SDK on the same directory; and how soon a name is
//! heard that somebody gives to one of them elsewhere.
//!
//! The host's times begin with its process, which knows nothing yet; the SDK's are those of its call alone. Cold are files whose
//! contents the system was told to forget (`posix_fadvise`), warm are those that were just read.

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use hostler_testkit::bench::{Row, Table, median, percentile};
use hostler_testkit::raw::Raw;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::pages::forget;
use crate::past::peak;
use crate::sdk::{Sdk, Theirs};
use crate::support::{Home, Host, ms, resident};
use crate::written::{BUILDS, nothing, written};

const ROUNDS: usize = 5;
const LATER: usize = 30;
const NAMES: usize = 20;
const PROJECTS: usize = 50;

/// `idle` is the memory of an empty host.
pub(crate) async fn table(sessions: usize, idle: f64) -> Table {
    let home = Home::new();
    let records = home.path("claude");
    let files: Vec<_> = (0..sessions)
        .map(|number| written(&records, BUILDS[number % 2], 40 * 1024, number % PROJECTS, &mut nothing))
        .collect();
    let sdk = Sdk::given();
    let theirs = |rounds| sdk.as_ref().map(|sdk| sdk.list(&records, rounds));
    forget(&records);
    let cold_theirs = theirs(1);
    let warm_theirs = theirs(ROUNDS);

    forget(&records);
    let (host, _, cold) = listed(&home, sessions).await;
    drop(host);
    let mut warm = Vec::new();
    for _ in 1..ROUNDS {
        let (host, _, taken) = listed(&home, sessions).await;
        drop(host);
        warm.push(taken);
    }
    let (host, mut raw, taken) = listed(&home, sessions).await;
    warm.push(taken);
    let memory = resident(host.pid) - idle;
    // The host also reads what it searches, which is another benchmark's question.
    raw.call("hostler/search", json!({"query": "question", "wait": true})).await.expect("an answer");
    let mut later = Vec::new();
    for _ in 0..LATER {
        let begun = Instant::now();
        raw.hear("listSessions", json!({}), |_| ()).await;
        later.push(ms(begun, Instant::now()));
    }
    let (id, path) = files.last().expect("a session");
    let names = named(&mut raw, *id, path).await;

    let call = |theirs: Option<Theirs>| theirs.map(|theirs| ("listSessions".to_owned(), theirs.ms));
    let space = |theirs: Option<Theirs>| theirs.map(|theirs| ("listSessions".to_owned(), theirs.peak));
    let row = |what: &str, unit, hostler, beside, target| Row { what: what.to_owned(), unit, hostler, beside, target };
    let start = format!("{sessions} found sessions, from the start of the host to all of them, cold files");
    Table {
        rows: vec![
            row(&start, "ms", cold, call(cold_theirs), None),
            row("the same, warm files, p50", "ms", median(&warm), call(warm_theirs), Some(300.0)),
            row("all of them, later calls, p50", "ms", median(&later), call(warm_theirs), Some(10.0)),
            row("memory beyond an empty host after the first call", "MiB", memory, space(cold_theirs), Some(60.0)),
            row("highest memory of all, all words read", "MiB", peak(host.pid), space(warm_theirs), None),
            row("a name given elsewhere, until a client hears it, p50", "ms", median(&names), None, Some(1000.0)),
            row("the same, the slowest", "ms", percentile(&names, 100), None, Some(1000.0)),
        ],
    }
}

/// A host that knows nothing yet, somebody who has heard the whole list, and how long that took.
async fn listed(home: &Home, sessions: usize) -> (Host, Raw, f64) {
    let _there_may_be_none = std::fs::remove_dir_all(home.path("state"));
    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = Raw::initialized(&host.url).await;
    let mut list = String::new();
    raw.hear("listSessions", json!({}), |text| list = text.to_owned()).await;
    let taken = ms(host.started, Instant::now());
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list["result"]["items"].as_array().map(Vec::len), Some(sessions));
    (host, raw, taken)
}

/// How long it takes each time until somebody hears a name that is given in a terminal.
async fn named(raw: &mut Raw, id: Uuid, path: &Path) -> Vec<f64> {
    raw.call("subscribe", json!({"channel": "ahp-root://"})).await.expect("a snapshot");
    let mut times = Vec::new();
    for number in 0..NAMES {
        let title = format!("name {number}");
        // As the agent writes it: what it is comes first.
        let record = format!("{{\"type\":\"custom-title\",\"customTitle\":\"{title}\",\"sessionId\":\"{id}\"}}\n");
        let mut file = std::fs::File::options().append(true).open(path).expect("a transcript");
        let begun = Instant::now();
        file.write_all(record.as_bytes()).expect("room on the disk");
        loop {
            let heard = raw.receive().await.expect("the host is alive");
            if heard["method"] == "root/sessionSummaryChanged" && heard["params"]["changes"]["title"] == title.as_str()
            {
                break;
            }
        }
        times.push(ms(begun, Instant::now()));
    }
    times
}
