//! Benchmarks directories of transcripts in the formats of both builds: listing all, and opening a large one.
//!
//! The page cache is warm, because the files were just written; a cold listing is the first scan of a new store. With
//! `--agent-sdk DIR`, the official SDK reads the same directory in the same run. The benchmarks `list` and `open`
//! measure the same through a host's clients, with cold files too.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and may panic")]

#[path = "support/generated_transcripts.rs"]
mod generated_transcripts;
#[path = "support/sdk.rs"]
mod sdk;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use generated_transcripts::{BUILDS, nothing, written};
use hostler_claude::transcripts::ClaudeTranscriptStore;
use hostler_driver::TranscriptStore as _;
use sdk::{Sdk, Theirs};

const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let after =
        |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    let number = |name: &str, or: usize| after(name).map_or(or, |value| value.parse().unwrap());
    let sdk = Sdk::given();
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(list(number("--sessions", 5000), sdk.as_ref()));
    runtime.block_on(open(number("--mb", 50), sdk.as_ref()));
}

async fn list(sessions: usize, sdk: Option<&Sdk>) {
    let home = tempfile::tempdir().unwrap();
    let files: Vec<_> =
        (0..sessions).map(|at| written(home.path(), BUILDS[at % 2], 40 * 1024, at % 50, &mut nothing)).collect();
    let mut first = Vec::new();
    let mut archive = ClaudeTranscriptStore::for_config_directory(home.path());
    for _ in 0..ROUNDS {
        archive = ClaudeTranscriptStore::for_config_directory(home.path());
        first.push(timed(&archive).await);
    }
    let mut later = Vec::new();
    let mut changed = Vec::new();
    for _ in 0..ROUNDS {
        later.push(timed(&archive).await);
        if let Some((_, path)) = files.last() {
            let text = fs::read_to_string(path).unwrap();
            fs::write(path, text + "{\"type\":\"ai-title\",\"aiTitle\":\"another\"}\n").unwrap();
        }
        changed.push(timed(&archive).await);
    }
    let first = middle(first);
    println!(
        "list of {sessions}: first look {first:?}, later {:?}, one file changed {:?}",
        middle(later),
        middle(changed)
    );
    if let Some(theirs) = sdk.map(|sdk| sdk.list(home.path(), ROUNDS)) {
        compare("listSessions", theirs, first);
    }
}

async fn timed(archive: &ClaudeTranscriptStore) -> Duration {
    let begun = Instant::now();
    archive.scan().await;
    begun.elapsed()
}

async fn open(megabytes: usize, sdk: Option<&Sdk>) {
    for build in BUILDS {
        let home = tempfile::tempdir().unwrap();
        let (id, path) = written(home.path(), build, megabytes * 1024 * 1024, 0, &mut nothing);
        let (mut opened, mut loaded, mut grown) = (Vec::new(), Vec::new(), Vec::new());
        let before = resident();
        let mut held = 0;
        for _ in 0..ROUNDS {
            let archive = ClaudeTranscriptStore::for_config_directory(home.path());
            archive.scan().await;
            let begun = Instant::now();
            let book = archive.open(id).await.unwrap();
            opened.push(begun.elapsed());
            let turns = book.turns().len();
            Arc::clone(&book).load_turns(turns.saturating_sub(50)..turns).await.unwrap();
            loaded.push(begun.elapsed());
            held = held.max(resident().saturating_sub(before));
            fs::File::options()
                .append(true)
                .open(&path)
                .and_then(|mut file| std::io::Write::write_all(&mut file, b"\n"))
                .unwrap();
            let begun = Instant::now();
            archive.open(id).await.unwrap();
            grown.push(begun.elapsed());
        }
        let loaded = middle(loaded);
        println!(
            "{build}, {megabytes} MB: opened in {:?}, its last 50 turns loaded after {loaded:?}, opened again when it has grown in {:?}; {held} kB more memory",
            middle(opened),
            middle(grown)
        );
        if let Some(theirs) = sdk.map(|sdk| sdk.open(home.path(), id, ROUNDS)) {
            compare("getSessionMessages", theirs, loaded);
        }
    }
}

fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

fn compare(what: &str, theirs: Theirs, ours: Duration) {
    let Theirs { ms, count, peak } = theirs;
    let ratio = ms / (ours.as_secs_f64() * 1000.0);
    println!("  {what} of the official SDK: {ms:.1} ms ({count} found, {peak:.0} MiB), {ratio:.1} times ours");
}

/// The memory of this process, in kB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
