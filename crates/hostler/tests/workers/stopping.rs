//! A person stops the turn of a real agent while a command and a sub-agent work in the background.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use hostler_testkit::processes;

use super::*;
use crate::common::Home;
use crate::common::bench::{COMMANDS_RUN, eventually};

fn in_background(bench: &Bench, name: &str) -> String {
    format!("!tool Bash {}", bench.gate(name).job())
}

/// A turn that works in front of two commands in the background, one of them a sub-agent's; answers its id.
async fn begin(bench: &Bench, sub_agent: bool) -> String {
    let inner = format!("!tool Bash {}\n!say done", bench.gate("inner").call());
    let inner = if sub_agent { helper(&inner, true) } else { in_background(bench, "inner") };
    let front = format!("!tool Bash {}", bench.gate("front").call());
    let script = [in_background(bench, "job"), inner, front, "!say done".to_owned()].join("\n");
    let turn = bench.peer.say(&bench.uris.chat, &script).await;
    for name in ["job", "inner", "front"] {
        bench.gate(name).reached().await;
    }
    turn
}

fn runs(bench: &Bench, name: &str) -> bool {
    let mark = format!("{name}.running");
    processes::descendants(bench.host.pid).iter().any(|process| process.command.contains(&mark))
}

/// What is listed, in the order of its kinds.
async fn listed(bench: &Bench) -> Vec<Value> {
    let mut work = bench.chat().await["backgroundWork"].as_array().cloned().unwrap_or_default();
    work.sort_by_key(|work| work["kind"].to_string());
    work
}

async fn until_listed(bench: &Bench, kinds: &[&str]) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let work = listed(bench).await;
        if work.iter().map(|work| work["kind"].as_str().unwrap()).eq(kinds.iter().copied()) {
            return work;
        }
        assert!(Instant::now() < deadline, "{}: not {kinds:?}: {work:#?}", bench.build);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The same process answers another message, whatever it has to say about its work before.
async fn goes_on(bench: &Bench, pid: u32) {
    bench.pend("queued", "q", "!say still here").await;
    let deadline = Instant::now() + PATIENCE;
    while !bench.chat().await["turns"].to_string().contains("\"content\":\"still here\"") {
        assert!(Instant::now() < deadline, "{}: no answer", bench.build);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bench.host.agent().pid, pid, "{}", bench.build);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_can_be_told_to_stop_it_all() {
    for build in BUILDS {
        let home = Home::new();
        home.configure("background-on-stop = \"stop\"\n");
        let mut bench = Bench::at(build, home, COMMANDS_RUN).await;
        let turn = begin(&bench, true).await;
        until_listed(&bench, &["shell", "subagent"]).await;
        let pid = bench.host.agent().pid;
        bench.peer.cancel(&bench.uris.chat, &turn).await;
        bench.until("chat/turnCancelled").await.unwrap();
        until_listed(&bench, &[]).await;
        for name in ["job", "inner", "front"] {
            eventually("its shell is gone", || !runs(&bench, name)).await;
        }
        assert_eq!(ended(&bench).await["state"], "cancelled", "{build}");
        goes_on(&bench, pid).await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_ask_and_stop_what_is_chosen() {
    for build in BUILDS {
        let mut bench = Bench::at_ease(build).await;
        bench.configure(json!({ "backgroundOnStop": "ask" })).await;
        // The older build says nothing of the end of a turn before its sub-agents are done, and is ended for that.
        let kept = if build == "native" { "subagent" } else { "shell" };
        let turn = begin(&bench, build == "native").await;
        let work = until_listed(&bench, &["shell", kept]).await;
        let job = &work.iter().find(|work| work["label"] == "job").unwrap()["id"];
        let pid = bench.host.agent().pid;
        bench.peer.cancel(&bench.uris.chat, &turn).await;
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::SessionInputNeededSet(_));
        let envelopes = bench.peer.until(&bench.uris.session.clone(), asks).await;
        let asked = serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone();
        assert_eq!(asked["request"]["questions"][0]["options"].as_array().unwrap().len(), 2, "{build}: {asked:#}");
        assert!(runs(&bench, "job") && runs(&bench, "inner"), "{build}: nobody has answered");
        let value = json!({ "kind": "selected-many", "value": [job] });
        bench
            .dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["request"]["id"],
                "response": "accept", "answers": { "work": { "state": "submitted", "value": value } } }))
            .await;
        bench.until("chat/inputCompleted").await.unwrap();
        until_listed(&bench, &[kept]).await;
        eventually("its shell is gone", || !runs(&bench, "job")).await;
        assert!(runs(&bench, "inner"), "{build}: what was not chosen goes on");
        nobody_is_needed(&bench).await;
        goes_on(&bench, pid).await;
        bench.stop().await;
    }
}
