//! `hostler sessions doctor` on transcripts of the real agent that were damaged afterwards.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::common::{BUILDS, TestHome, list_files, run_to_end, text};

async fn run(home: &TestHome, build: &str, args: &[&str]) -> Output {
    let mut command = home.hostler_command(args);
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", build);
    run_to_end(command).await
}

/// Returns the only transcript.
fn record(home: &TestHome) -> PathBuf {
    let is_record = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
    let mut records: Vec<_> = list_files(&home.path("claude").join("projects")).into_iter().filter(is_record).collect();
    assert_eq!(records.len(), 1, "{records:?}");
    records.remove(0)
}

/// Writes a transcript of another conversation beside one.
fn write_transcript_beside(record: &Path, id: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = record.with_file_name(format!("{id}.jsonl"));
    std::fs::write(&path, contents).unwrap();
    path
}

const TORN: &str = "0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a3701";
const NOISE: &str = "0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a3702";
const LOCKED: &str = "0b9e3c5e-8f2b-4a36-9f61-0e8f2b4a3703";

async fn assert_damage_is_reported(build: &str) {
    let home = TestHome::new();
    let first = run(&home, build, &["run", "hello there"]).await;
    assert!(first.status.success(), "{}", text(&first.stderr));
    let healthy = run(&home, build, &["sessions", "doctor"]).await;
    let stderr = text(&healthy.stderr);
    assert_eq!((healthy.status.code(), text(&healthy.stdout).as_str()), (Some(0), ""), "{stderr}");
    assert!(stderr.contains("Checked 1 conversation: no problems."), "{stderr}");

    let path = record(&home);
    let whole = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = whole.lines().collect();
    lines.insert(1, "{ noise");
    let mut torn = lines.join("\n");
    torn.truncate(torn.len() - 7);
    write_transcript_beside(&path, TORN, &torn);
    write_transcript_beside(&path, NOISE, [0xff; 300]);
    // Root can read every file, so a directory with this name is used instead.
    let locked = path.with_file_name(format!("{LOCKED}.jsonl"));
    std::fs::create_dir(&locked).unwrap();

    let found = run(&home, build, &["sessions", "doctor"]).await;
    let (out, stderr) = (text(&found.stdout), text(&found.stderr));
    assert_eq!(found.status.code(), Some(1), "{out}{stderr}");
    assert!(out.contains(&format!("claude:/{TORN}: line 2 is not a record")), "{out}");
    assert!(
        out.contains(&format!("claude:/{TORN}: ")) && out.contains("bytes at the end are an incomplete record"),
        "{out}"
    );
    for unreadable in [NOISE, LOCKED] {
        assert!(out.lines().any(|line| line.contains(unreadable) && line.contains("it cannot be read: ")), "{out}");
    }
    let healthy = path.file_stem().unwrap().to_str().unwrap();
    assert!(!out.contains(healthy), "its neighbour is healthy: {out}");
    assert!(stderr.contains("Checked 2 conversations: 4 problems."), "{out}{stderr}");
    assert!(!out.contains("hello there"), "no message is printed");

    // A session of this host whose transcript is missing.
    std::fs::remove_dir(&locked).unwrap();
    for id in [TORN, NOISE] {
        std::fs::remove_file(path.with_file_name(format!("{id}.jsonl"))).unwrap();
    }
    std::fs::remove_file(&path).unwrap();
    let json = run(&home, build, &["sessions", "doctor", "--json"]).await;
    assert_eq!(json.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["findings"][0]["kind"], "missing", "{answer}");
    assert_eq!(answer["findings"][0]["session"], format!("claude:/{healthy}"), "{answer}");
    assert_eq!((&answer["conversations"], &answer["omittedFindings"]), (&Value::from(0), &Value::from(0)), "{answer}");

    // A deleted session whose transcript exists again.
    let deleted = run(&home, build, &["sessions", "delete", "--yes", healthy]).await;
    assert!(deleted.status.success(), "{}", text(&deleted.stderr));
    std::fs::write(&path, whole).unwrap();
    let json = run(&home, build, &["sessions", "doctor", "--json"]).await;
    let answer: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["findings"][0]["kind"], "deleted", "{answer}");
    assert_eq!(answer["findings"].as_array().unwrap().len(), 1, "{answer}");
}

#[tokio::test]
async fn doctor_reports_damaged_transcripts_native() {
    assert_damage_is_reported(BUILDS[0]).await;
}

#[tokio::test]
async fn doctor_reports_damaged_transcripts_js() {
    assert_damage_is_reported(BUILDS[1]).await;
}
