//! Replays real transcripts of both builds.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hostler_claude::transcripts::ClaudeTranscriptStore;
use hostler_driver::{DriverEvent, LoadedTurn, SubAgentEvent, Transcript, TranscriptStore as _, TurnOrigin};

const BUILDS: [&str; 2] = ["native", "js"];

fn data(build: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts").join(build)
}

/// Every conversation of a build, opened, by the name of its project.
async fn books(build: &str) -> Vec<(String, Arc<dyn Transcript>)> {
    let archive = ClaudeTranscriptStore::for_config_directory(&data(build));
    let found = archive.scan().await;
    assert_eq!(found.unreadable, []);
    let mut books = Vec::new();
    for one in found.conversations {
        let project =
            Path::new(&one.resume_token.0).parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        books.push((project, archive.open(one.id).await.unwrap()));
    }
    books.sort_by(|a, b| a.0.cmp(&b.0));
    books
}

/// The displayed part of an event, on one line.
fn shown(event: &DriverEvent) -> Option<String> {
    Some(match event {
        DriverEvent::PartStarted { kind, .. } => format!("{kind:?}:"),
        DriverEvent::PartDelta { text, .. } => format!("    {}", text.replace('\n', "⏎")),
        DriverEvent::ToolReady { id: _, input, display } => format!("call {} {}", display.name, input.get()),
        DriverEvent::ToolFinished { outcome, output, edit, .. } => {
            let output: String = output.replace('\n', "⏎").chars().take(90).collect();
            let edit = edit.as_ref().map(|edit| format!(" ({:?})", edit.path)).unwrap_or_default();
            format!("{outcome:?}{edit}: {output}")
        }
        DriverEvent::Notice(notice) => format!("notice: {notice}"),
        DriverEvent::CompactionFinished { .. } => "the conversation was compacted".to_owned(),
        DriverEvent::TurnEnded(outcome) => format!("= {outcome:?}"),
        DriverEvent::SubAgent { event, .. } => match event {
            SubAgentEvent::Started(start) => {
                format!("sub-agent: {}", start.prompt.expose().lines().next().unwrap_or_default())
            }
            SubAgentEvent::Activity(event) => format!("  | {}", shown(event)?),
            SubAgentEvent::Finished(outcome) => format!("  | = {outcome:?}"),
        },
        _ => return None,
    })
}

fn page(turns: &[LoadedTurn]) -> String {
    let mut page = String::new();
    for turn in turns {
        match &turn.origin {
            TurnOrigin::User { text, attachment_count: attached } => {
                writeln!(page, "> {} [{attached}]", text.replace('\n', "⏎")).unwrap()
            }
            TurnOrigin::Agent(why) => writeln!(page, "* {why}").unwrap(),
        }
        for line in turn.events.iter().filter_map(shown) {
            writeln!(page, "  {line}").unwrap();
        }
    }
    page
}

#[tokio::test]
async fn transcripts_replay_as_recorded() {
    for build in BUILDS {
        let mut replayed = String::new();
        for (name, book) in books(build).await {
            assert_eq!(Arc::clone(&book).describe_damage().await, [""; 0], "{build} {name}");
            let turns = Arc::clone(&book).load_turns(0..book.turns().len()).await.unwrap();
            writeln!(replayed, "# {name}\n{}", page(&turns)).unwrap();
        }
        insta::assert_snapshot!(format!("replayed_{build}"), replayed);
    }
}

/// Paging must not change the result: it neither loses a sub-agent nor replays it twice.
#[tokio::test]
async fn loading_single_turns_equals_loading_all() {
    for build in BUILDS {
        for (name, book) in books(build).await {
            let count = book.turns().len();
            let all = page(&Arc::clone(&book).load_turns(0..count).await.unwrap());
            let mut pages = vec![String::new(); count];
            for at in (0..count).rev() {
                pages[at] = page(&Arc::clone(&book).load_turns(at..at + 1).await.unwrap());
            }
            assert_eq!(pages.concat(), all, "{build} {name}");
        }
    }
}

/// A caller that loads page by page needs the size of a page in advance.
#[tokio::test]
async fn index_entries_have_the_size_to_read() {
    for build in BUILDS {
        for (name, book) in books(build).await {
            let file = std::fs::read_dir(data(build).join("projects").join(&name)).unwrap();
            let whole: u64 = file
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.path().is_file())
                .map(|entry| entry.metadata().unwrap().len())
                .sum();
            let own = data(build).join("projects").join(&name).join("00000000-0000-4000-8000-000000000003/subagents");
            let agents: u64 = std::fs::read_dir(own)
                .into_iter()
                .flatten()
                .map(|entry| entry.unwrap().metadata().unwrap().len())
                .sum();
            let total: u64 = book.turns().iter().map(|mark| mark.size_bytes).sum();
            assert!(agents < total && total < whole + agents, "{build} {name}: {agents}, {total}, {whole}");
            assert!(book.turns().iter().all(|mark| mark.size_bytes > 0), "{build} {name}");
        }
    }
}

/// A turn is complete exactly when its last record is in the file, wherever the file is truncated.
#[tokio::test]
async fn turn_is_complete_with_its_last_record() {
    for build in BUILDS {
        for name in ["talk", "asks", "agents", "troubles", "steers"] {
            let project = data(build).join("projects").join(name);
            let file = std::fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().path());
            let file = file.into_iter().find(|path| path.extension().is_some()).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            let home = tempfile::tempdir().unwrap();
            let copy = home.path().join("projects/-p").join(file.file_name().unwrap());
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            let mut seen = String::new();
            for (at, line) in text.lines().enumerate() {
                let record: serde_json::Value = serde_json::from_str(line).unwrap();
                let begun: String = text.lines().take(at + 1).map(|line| format!("{line}\n")).collect();
                std::fs::write(&copy, begun).unwrap();
                let archive = ClaudeTranscriptStore::for_config_directory(home.path());
                let Some(one) = archive.scan().await.conversations.pop() else { continue };
                let book = archive.open(one.id).await.unwrap();
                let Some(last) = book.turns().last() else { continue };
                assert!(book.turns().iter().rev().skip(1).all(|mark| mark.is_complete), "{build} {name}");
                if !["user", "assistant"].contains(&record["type"].as_str().unwrap_or_default()) {
                    continue;
                }
                let stop = record["message"]["stop_reason"].as_str().unwrap_or("-");
                writeln!(
                    seen,
                    "{} {stop} {}",
                    record["type"].as_str().unwrap(),
                    if last.is_complete { "over" } else { "open" }
                )
                .unwrap();
            }
            insta::assert_snapshot!(format!("completeness_{build}_{name}"), seen);
        }
    }
}
