//! Generates the transcripts that `hostler-claude` is tested with: small conversations of the real builds,
//! scrubbed.

use std::collections::BTreeMap;
use std::path::Path;

use hostler_driver::{Answer, CloseMode, ConversationStart, DriverEvent, GateDecision};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::claude_driver::attachment_blocks::png;
use crate::claude_driver::driver_fixture::{DriverFixture, wait_for};
use crate::common::BUILDS;

/// Home directory in scrubbed transcripts.
const SCRUBBED_HOME: &str = "/home/dana";

async fn open(build: &'static str, number: u8, gate: GateDecision) -> DriverFixture {
    let id = format!("00000000-0000-4000-8000-0000000000{number:02}").parse().unwrap();
    DriverFixture::open_with(build, gate, |spec| spec.conversation = ConversationStart::New(id)).await
}

fn bash(command: &str) -> String {
    format!("!tool Bash {}", json!({ "command": command, "description": "runs" }))
}

fn agent(prompt: &str, background: bool) -> String {
    let input = json!({ "description": "a helper", "prompt": prompt, "subagent_type": "general-purpose",
        "run_in_background": background });
    format!("!tool Agent {input}")
}

async fn run_turn(bed: &mut DriverFixture, prompt: &str) {
    bed.send(prompt).await;
    bed.wait_for_turn_end().await;
}

/// Writes the transcript to the test data.
async fn save_transcript(bed: DriverFixture, name: &str) {
    bed.opened.connection.close(CloseMode::Graceful).await;
    let root = bed.environment.home.root().to_string_lossy().into_owned();
    let projects = bed.environment.home.path("claude/projects");
    let project = std::fs::read_dir(projects).unwrap().next().unwrap().unwrap().path();
    let to = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../hostler-claude/tests/data/transcripts")
        .join(bed.build)
        .join("projects")
        .join(name);
    let _ = std::fs::remove_dir_all(&to);
    let file = format!("{}.jsonl", bed.conversation);
    copy(&project.join(&file), &to.join(&file), &root);
    let sub_agents = Path::new(&bed.conversation.to_string()).join("subagents");
    for entry in std::fs::read_dir(project.join(&sub_agents)).into_iter().flatten().flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "jsonl") {
            copy(&entry.path(), &to.join(&sub_agents).join(entry.file_name()), &root);
        }
    }
}

fn copy(from: &Path, to: &Path, root: &str) {
    let text = std::fs::read_to_string(from).unwrap();
    let slug = root.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let lines = text.lines().filter_map(scrub);
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let text =
        text.replace(&format!("{root}/work"), SCRUBBED_HOME).replace(root, SCRUBBED_HOME).replace(&slug, "-home-dana");
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::write(to, text).unwrap();
}

/// Omits large records that are not part of the conversation: requests, and the contents that the agent attached by
/// itself. Everything else stays as written, in order.
fn scrub(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).unwrap();
    let kind = record["type"].as_str().unwrap_or_default();
    if kind.starts_with("api-request") {
        return None;
    }
    let attached = record["attachment"]["type"].as_str().unwrap_or_default();
    if kind != "attachment" || attached == "queued_command" {
        return Some(line.to_owned());
    }
    let parts: BTreeMap<String, &RawValue> = serde_json::from_str(line).unwrap();
    let mut line = line.replacen(parts["attachment"].get(), &json!({ "type": attached }).to_string(), 1);
    if let Some(rendered) = parts.get("rendered") {
        line = line.replacen(rendered.get(), "[]", 1);
    }
    Some(line)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes test data; see the README beside it"]
async fn record_transcripts_of_real_builds() {
    for build in BUILDS {
        talk(build).await;
        asks(build).await;
        agents(build).await;
        troubles(build).await;
        steers(build).await;
    }
}

async fn talk(build: &'static str) {
    let mut bed = open(build, 1, GateDecision::Allow).await;
    let file = bed.file("a.txt");
    run_turn(&mut bed, "hello there").await;
    run_turn(&mut bed, "!think The user wants to see both.\n!say Here it is,\\nin two lines.").await;
    run_turn(&mut bed, &format!("!say I look.\n{}\n{}\n!say both", bash("echo one"), bash("echo two >&2; exit 3")))
        .await;
    let write = json!({ "file_path": file, "content": "one\ntwo\n" });
    let edit = json!({ "file_path": file, "old_string": "two", "new_string": "three" });
    run_turn(&mut bed, &format!("!tool Write {write}\n!say written\n!tool Edit {edit}\n!say edited")).await;
    bed.send_with("!say a picture", vec![png(4, 4)]).await;
    bed.wait_for_turn_end().await;
    run_turn(&mut bed, "/context").await;
    run_turn(&mut bed, "/compact briefly").await;
    run_turn(&mut bed, "!say still here").await;
    save_transcript(bed, "talk").await;
}

async fn asks(build: &'static str) {
    let mut bed = open(build, 2, GateDecision::Ask).await;
    bed.send(&format!("{}\n!say then not", bash("rm -r build"))).await;
    answer(&mut bed, Answer::Deny { message: "not that one".to_owned() }).await;
    let question = json!({ "questions": [{ "question": "Which colour?", "header": "Colour", "multiSelect": false,
        "options": [{ "label": "Blue", "description": "cold" }, { "label": "Red", "description": "warm" }] }] });
    bed.send(&format!("!tool AskUserQuestion {question}\n!say thanks")).await;
    answer(&mut bed, Answer::Skip).await;
    let plan = json!({ "plan": "# Plan\n1. look\n2. leap" });
    bed.send(&format!("!tool ExitPlanMode {plan}\n!say planned")).await;
    answer(&mut bed, Answer::Deny { message: "look twice".to_owned() }).await;
    save_transcript(bed, "asks").await;
}

/// Answers the turn's request, and waits for its end.
async fn answer(bed: &mut DriverFixture, answer: Answer) {
    let asked = |event: &DriverEvent| {
        matches!(
            event,
            DriverEvent::PermissionRequested(_) | DriverEvent::QuestionsAsked(_) | DriverEvent::PlanProposed(_)
        )
    };
    let over = |event: &DriverEvent| asked(event) || matches!(event, DriverEvent::TurnEnded(_));
    let events = bed.wait_for("request or end", over).await;
    let request = match events.last() {
        Some(DriverEvent::PermissionRequested(asked)) => asked.request_id.clone(),
        Some(DriverEvent::QuestionsAsked(asked)) => asked.request_id.clone(),
        Some(DriverEvent::PlanProposed(asked)) => asked.request_id.clone(),
        // Not every build asks whether an unrequested plan may be proposed.
        _ => return,
    };
    bed.opened.connection.answer(&request, answer).await.unwrap();
    bed.wait_for_turn_end().await;
}

async fn agents(build: &'static str) {
    let mut bed = open(build, 3, GateDecision::Allow).await;
    let task = format!("look around\n{}\n!say I found it", bash("echo here"));
    run_turn(&mut bed, &format!("{}\n!say it is there", agent(&task, false))).await;
    let waits = format!("wait for it\n{}\n!say I waited", bash(&wait_for("go", 0)));
    bed.send(&format!("{}\n!say it goes on", agent(&waits, true))).await;
    bed.wait_for("text", |event| matches!(event, DriverEvent::PartDelta { .. })).await;
    // One build ends no turn while background work runs, the other one starts another turn about its end.
    std::fs::write(bed.file("go"), "").unwrap();
    bed.wait_for("its end", |event| matches!(event, DriverEvent::BackgroundTaskEnded { .. })).await;
    bed.wait_for_turn_end().await;
    bed.send("!say all-done").await;
    bed.wait_for("answer", |event| matches!(event, DriverEvent::PartDelta { text, .. } if text.contains("all-done")))
        .await;
    bed.wait_for_turn_end().await;
    save_transcript(bed, "agents").await;
}

async fn troubles(build: &'static str) {
    let mut bed = open(build, 4, GateDecision::Allow).await;
    bed.send("!say I was about to\n!hang").await;
    bed.wait_for("text", |event| matches!(event, DriverEvent::PartDelta { .. })).await;
    bed.opened.connection.interrupt().await.unwrap();
    bed.wait_for_turn_end().await;
    bed.send(&format!("!say I wait\n{}", bash(&wait_for("never", 0)))).await;
    bed.wait_for_gate().await;
    bed.opened.connection.interrupt().await.unwrap();
    bed.wait_for_turn_end().await;
    bed.environment.model.reject_requests_containing("stumble", 529, "Too many horses.");
    bed.send("stumble and rise").await;
    bed.wait_for("second try", |event| matches!(event, DriverEvent::Retrying { .. })).await;
    bed.environment.model.reject_requests_containing("no request contains this", 529, "");
    bed.wait_for_turn_end().await;
    run_turn(&mut bed, "!say on we go").await;
    run_turn(&mut bed, "!error 403 Not you.").await;
    run_turn(&mut bed, "!say better").await;
    save_transcript(bed, "troubles").await;
}

async fn steers(build: &'static str) {
    let mut bed = open(build, 5, GateDecision::Allow).await;
    bed.send(&format!("{}\n!say after the words", bash(&wait_for("one", 0)))).await;
    bed.wait_for_gate().await;
    bed.steer("one", "in blue, please");
    std::fs::write(bed.file("one"), "").unwrap();
    bed.wait_for_turn_end().await;
    bed.send(&format!("{}\n!say after the picture", bash(&wait_for("two", 0)))).await;
    bed.wait_for_gate().await;
    bed.steer_with("two", "like this", vec![png(4, 4)]);
    std::fs::write(bed.file("two"), "").unwrap();
    bed.wait_for_turn_end().await;
    save_transcript(bed, "steers").await;
}
