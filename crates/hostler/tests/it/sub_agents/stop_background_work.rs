//! A person stops the turn of a real agent while a command and a sub-agent run in the background.

use ahp_types::StateAction;
use ahp_types::actions::ActionEnvelope;
use hostler_testkit::processes;

use super::*;
use crate::common::TestHome;
use crate::common::session_fixture::{ALLOW_COMMANDS_RULES, wait_until};

fn in_background(bench: &SessionFixture, name: &str) -> String {
    format!("!tool Bash {}", bench.blocking_command(name).background_bash_input())
}

/// Starts a turn with foreground work and two background commands, one of them a sub-agent's; returns its id.
async fn begin(bench: &SessionFixture, sub_agent: bool) -> String {
    let inner = format!("!tool Bash {}\n!say done", bench.blocking_command("inner").bash_input());
    let inner = if sub_agent { helper(&inner, true) } else { in_background(bench, "inner") };
    let front = format!("!tool Bash {}", bench.blocking_command("front").bash_input());
    let script = [in_background(bench, "job"), inner, front, "!say done".to_owned()].join("\n");
    let turn = bench.client.send_message(&bench.uris.chat, &script).await;
    for name in ["job", "inner", "front"] {
        bench.blocking_command(name).wait_until_running().await;
    }
    turn
}

fn runs(bench: &SessionFixture, name: &str) -> bool {
    let mark = format!("{name}.running");
    processes::descendants(bench.host.pid).iter().any(|process| process.command.contains(&mark))
}

/// Returns the listed background work, ordered by kind.
async fn listed(bench: &SessionFixture) -> Vec<Value> {
    let mut work = bench.chat_state().await["backgroundWork"].as_array().cloned().unwrap_or_default();
    work.sort_by_key(|work| work["kind"].to_string());
    work
}

async fn until_listed(bench: &SessionFixture, kinds: &[&str]) -> Vec<Value> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let work = listed(bench).await;
        if work.iter().map(|work| work["kind"].as_str().unwrap()).eq(kinds.iter().copied()) {
            return work;
        }
        assert!(Instant::now() < deadline, "{}: not {kinds:?}: {work:#?}", bench.build);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asserts that the same process answers another message, after any response about its background work.
async fn assert_same_process_answers(bench: &SessionFixture, pid: u32) {
    bench.set_pending_message("queued", "q", "!say still here").await;
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !bench.chat_state().await["turns"].to_string().contains("\"content\":\"still here\"") {
        assert!(Instant::now() < deadline, "{}: no answer", bench.build);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bench.host.only_agent().pid, pid, "{}", bench.build);
}

#[tokio::test(flavor = "multi_thread")]
async fn background_on_stop_setting_stops_all_background_work() {
    for build in BUILDS {
        let home = TestHome::new();
        home.write_config("background-on-stop = \"stop\"\n");
        let mut bench = SessionFixture::in_home(build, home, ALLOW_COMMANDS_RULES).await;
        let turn = begin(&bench, true).await;
        until_listed(&bench, &["shell", "subagent"]).await;
        let pid = bench.host.only_agent().pid;
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        bench.wait_for_action("chat/turnCancelled").await.unwrap();
        until_listed(&bench, &[]).await;
        for name in ["job", "inner", "front"] {
            wait_until("its shell is gone", || !runs(&bench, name)).await;
        }
        assert_eq!(ended(&bench).await["state"], "cancelled", "{build}");
        assert_same_process_answers(&bench, pid).await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn session_asks_which_background_work_to_stop() {
    for build in BUILDS {
        let mut bench = SessionFixture::allowing_commands(build).await;
        bench.configure(json!({ "backgroundOnStop": "ask" })).await;
        // The older build reports no end of a turn before its sub-agents end, and is killed for that.
        let remaining = if build == "native" { "subagent" } else { "shell" };
        let turn = begin(&bench, build == "native").await;
        let work = until_listed(&bench, &["shell", remaining]).await;
        let job = &work.iter().find(|work| work["label"] == "job").unwrap()["id"];
        let pid = bench.host.only_agent().pid;
        bench.client.cancel_turn(&bench.uris.chat, &turn).await;
        let asks = |envelope: &ActionEnvelope| matches!(&envelope.action, StateAction::SessionInputNeededSet(_));
        let envelopes = bench.client.wait_for(&bench.uris.session.clone(), asks).await;
        let asked = serde_json::to_value(&envelopes.last().unwrap().action).unwrap()["request"].clone();
        assert_eq!(asked["request"]["questions"][0]["options"].as_array().unwrap().len(), 2, "{build}: {asked:#}");
        assert!(runs(&bench, "job") && runs(&bench, "inner"), "{build}: the question is unanswered");
        let value = json!({ "kind": "selected-many", "value": [job] });
        bench
            .dispatch(json!({ "type": "chat/inputCompleted", "requestId": asked["request"]["id"],
                "response": "accept", "answers": { "work": { "state": "submitted", "value": value } } }))
            .await;
        bench.wait_for_action("chat/inputCompleted").await.unwrap();
        until_listed(&bench, &[remaining]).await;
        wait_until("its shell is gone", || !runs(&bench, "job")).await;
        assert!(runs(&bench, "inner"), "{build}: work that was not chosen continues");
        assert_no_pending_requests(&bench).await;
        assert_same_process_answers(&bench, pid).await;
        bench.stop().await;
    }
}
