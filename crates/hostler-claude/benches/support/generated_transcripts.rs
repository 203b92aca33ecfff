//! Generates transcripts in the formats of both builds.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub, reason = "benchmarks may panic, and share this")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// Both builds of the agent.
pub const BUILDS: [&str; 2] = ["native", "js"];

/// Generates text with this many words.
pub type Say<'a> = &'a mut dyn FnMut(usize) -> String;

/// Empty text, for benchmarks that do not read it.
pub fn nothing(_words: usize) -> String {
    String::new()
}

/// Writes a conversation of at least this size into one of the projects.
pub fn written(home: &Path, build: &str, size: usize, project: usize, say: Say<'_>) -> (Uuid, PathBuf) {
    let id = Uuid::new_v4();
    let directory = home.join(format!("projects/-home-dana-{project}"));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{id}.jsonl"));
    fs::write(&path, transcript(build, size, project, say)).unwrap();
    (id, path)
}

/// A conversation of this size in a build's format. The native build writes much bookkeeping; the other one's bytes
/// are mostly tool results.
fn transcript(build: &str, size: usize, project: usize, say: Say<'_>) -> String {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    let mut name = |text: &mut String, kind: &str, rest: &str| {
        let id = Uuid::new_v4();
        writeln!(text, r#"{{"parentUuid":{parent},"isSidechain":false,"type":"{kind}",{rest},"uuid":"{id}","timestamp":"2026-01-01T00:00:00.000Z","userType":"external","entrypoint":"cli","cwd":"/home/dana/{project}","sessionId":"s","version":"2","gitBranch":"main"}}"#).unwrap();
        parent = format!("\"{id}\"");
    };
    let snapshot = r#"\nYou are an agent \"working\" with the user."#.repeat(600);
    let output = r#"src/main.rs:12:    let x = \"value\";\n"#.repeat(500);
    let mut turn = 0;
    while text.len() < size {
        turn += 1;
        let (question, answer) = (say(12), say(100));
        name(
            &mut text,
            "user",
            &format!(
                r#""message":{{"role":"user","content":[{{"type":"text","text":"question {turn} {question}"}}]}}"#
            ),
        );
        for call in 0..4 {
            if build == "native" {
                name(
                    &mut text,
                    "attachment",
                    &format!(r#""attachment":{{"type":"prompt_snapshot","systemPrompt":["{snapshot}"]}}"#),
                );
                writeln!(text, r#"{{"type":"api-request-blob","blob":"{snapshot}"}}"#).unwrap();
            }
            name(
                &mut text,
                "assistant",
                &format!(
                    r#""message":{{"id":"m{turn}-{call}","role":"assistant","model":"m","content":[{{"type":"tool_use","id":"t{turn}-{call}","name":"Bash","input":{{"command":"grep -rn value"}}}}],"stop_reason":"tool_use","usage":{{"input_tokens":10,"output_tokens":5}}}}"#
                ),
            );
            let output = if build == "native" { "short" } else { &output };
            name(
                &mut text,
                "user",
                &format!(
                    r#""message":{{"role":"user","content":[{{"tool_use_id":"t{turn}-{call}","type":"tool_result","content":"{output}","is_error":false}}]}},"toolUseResult":{{"stdout":"{output}","stderr":"","interrupted":false}}"#
                ),
            );
        }
        name(
            &mut text,
            "assistant",
            &format!(
                r#""message":{{"id":"m{turn}","role":"assistant","model":"m","content":[{{"type":"text","text":"answer {turn} {answer}"}}],"stop_reason":"end_turn"}}"#
            ),
        );
    }
    text
}
