//! Search over thousands of transcripts: indexing time, index size, and query latency, beside programs that read
//! everything each time.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[path = "../../hostler-claude/benches/support/generated_transcripts.rs"]
mod generated_transcripts;
#[path = "support/stored_history.rs"]
mod stored_history;
#[path = "support/mod.rs"]
mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use generated_transcripts::{BUILDS, written};
use hostler_testkit::benchmark_table::{BenchmarkRow, BenchmarkTable, median};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use stored_history::{number_option, peak_memory_mib};
use support::{BenchmarkHome, elapsed_ms, resident_memory_mib};

const ROUNDS: usize = 30;

/// Programs that read everything run fewer rounds.
const SCAN_ROUNDS: usize = 3;
const PROJECT_COUNT: usize = 50;
const VOCABULARY_SIZE: usize = 20_000;

/// A conversation has three or four turns, each with more metadata and tool output than text.
const CONVERSATION_BYTES: usize = 600 * 1024;

/// Phrase that occurs in one conversation only, at the end of a sentence.
const RARE_PHRASE: &str = "zyzzyva heliotrope lantern";

/// Query, and the equivalent for programs that read everything.
struct SearchCase {
    label: &'static str,
    query: String,
    scan_word: String,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let sessions = number_option("--sessions", 1_000);
    let home = BenchmarkHome::new();
    let empty = home.serve(&["--upstream", "scripted"]);
    drop(RawClient::connect_and_initialize(&empty.url).await);
    let idle = resident_memory_mib(empty.pid);
    drop(empty);

    let transcripts = home.path("claude");
    let mut generator = WordGenerator(1);
    for number in 0..sessions {
        let mut sentence = |count| generator.sentence(count, number == sessions / 2);
        written(&transcripts, BUILDS[number % 2], CONVERSATION_BYTES, number % PROJECT_COUNT, &mut sentence);
    }
    let transcripts = transcripts.join("projects");

    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = RawClient::connect_and_initialize(&host.url).await;
    assert_eq!(find(&mut raw, "zyzzyva", true).await, 1);
    let read = elapsed_ms(host.started, Instant::now());
    let memory = (resident_memory_mib(host.pid) - idle, peak_memory_mib(host.pid));
    drop((raw, host));

    let host = home.serve(&["--upstream", "scripted"]);
    let mut raw = RawClient::connect_and_initialize(&host.url).await;
    let begun = Instant::now();
    assert_eq!(find(&mut raw, "zyzzyva", false).await, 1);
    let first = elapsed_ms(begun, Instant::now());
    let begun = Instant::now();
    assert_eq!(find(&mut raw, "zyzzyva", true).await, 1);
    let again = elapsed_ms(begun, Instant::now());

    let grep = |word: &str| reading("grep", &["-rlF"], word, &transcripts).expect("grep is installed");
    let grep_rare = grep("zyzzyva");
    let row = |what: String, unit, hostler, beside, target| BenchmarkRow {
        metric: what,
        unit,
        hostler,
        baseline: beside,
        target,
    };
    let beside = |name: &str, value| Some((name.to_owned(), value));
    let (index, all) = (size(&home.path("state").join("hostler"), "search.db"), size(&transcripts, ""));
    let mut table = vec![
        row(
            format!("{sessions} sessions, from the start of the host to all of them read"),
            "ms",
            read,
            beside("grep -rl", grep_rare),
            None,
        ),
        row("the index, beside the transcripts".into(), "MiB", index, beside("transcripts", all), None),
        row("memory beyond an empty host when all is read".into(), "MiB", memory.0, None, None),
        row("highest memory of all meanwhile".into(), "MiB", memory.1, beside("empty host", idle), None),
        row("a rare word, first search after a start".into(), "ms", first, beside("grep -rl", grep_rare), None),
        row("the same, waiting for what is new".into(), "ms", again, beside("grep -rl", grep_rare), None),
    ];
    for SearchCase { label, query, scan_word: word } in searches() {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            raw.call_streaming("hostler/search", json!({"query": query}), |_| ()).await;
            times.push(elapsed_ms(begun, Instant::now()));
        }
        assert!(find(&mut raw, &query, false).await > 0, "{query}");
        table.push(row(format!("{label}, p50"), "ms", median(&times), beside("grep -rl", grep(&word)), None));
        if let Some(time) = reading("rg", &["-lF", "--no-ignore", "--hidden"], &word, &transcripts) {
            table.push(row(format!("{label}, p50"), "ms", median(&times), beside("rg -l", time), None));
        }
    }
    println!("{}", BenchmarkTable { rows: table });
}

fn searches() -> Vec<SearchCase> {
    let frequent = word(0);
    let filtered = format!("tool:Bash workspace:/home/dana/7 {frequent}");
    let search = |what, query: &str, beside: &str| SearchCase {
        label: what,
        query: query.to_owned(),
        scan_word: beside.to_owned(),
    };
    vec![
        search("a word that is nearly everywhere", &frequent, &frequent),
        search("a rare word", "zyzzyva", "zyzzyva"),
        search("a phrase", "\"heliotrope lantern\"", "heliotrope lantern"),
        search("the beginning of a rare word", "zyzz*", "zyzz"),
        search("the beginning of many words", "b*", "b"),
        search("a word, of one tool and one workspace", &filtered, &frequent),
    ]
}

/// Returns the number of sessions found.
async fn find(raw: &mut RawClient, query: &str, wait: bool) -> usize {
    let answer: Value =
        raw.call("hostler/search", json!({"query": query, "waitForIndex": wait})).await.expect("an answer");
    answer["items"].as_array().expect("items").len()
}

/// Measures reading everything; `None` if the program is not installed.
fn reading(program: &str, options: &[&str], word: &str, directory: &Path) -> Option<f64> {
    let mut times = Vec::new();
    for _ in 0..SCAN_ROUNDS {
        let begun = Instant::now();
        let mut command = Command::new(program);
        command.args(options).arg("-e").arg(word).arg(directory).stdin(Stdio::null()).stdout(Stdio::null());
        command.status().ok()?;
        times.push(elapsed_ms(begun, Instant::now()));
    }
    Some(median(&times))
}

/// Returns the size of all files below a directory whose names start with a prefix, in MiB.
fn size(directory: &Path, begins: &str) -> f64 {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => size(&entry.path(), begins),
        Ok(facts) if entry.file_name().to_string_lossy().starts_with(begins) => facts.len() as f64 / 1_048_576.0,
        _ => 0.0,
    });
    sizes.sum()
}

/// Generates the same words in every run; few are frequent and many are rare, as in natural language.
struct WordGenerator(u64);

impl WordGenerator {
    fn sentence(&mut self, count: usize, rare: bool) -> String {
        let mut words: Vec<String> = (0..count).map(|_| word(self.next())).collect();
        if rare {
            words.push(RARE_PHRASE.to_owned());
        }
        words.join(" ")
    }

    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (self.0 >> 40) as f64 / (1_u64 << 24) as f64;
        (VOCABULARY_SIZE as f64).powf(part) as usize - 1
    }
}

fn word(number: usize) -> String {
    let syllables = ["ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te"];
    let (mut rest, mut word) = (number + syllables.len(), String::new());
    while rest > 0 {
        word.push_str(syllables[rest % syllables.len()]);
        rest /= syllables.len();
    }
    word
}
