//! One host runs a conversation with the real agent; another one, with a separate state, lists it as external.

use std::io::Write as _;
use std::path::PathBuf;

use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::common::{HostProcess, TEST_TIMEOUT, TestHome, run_to_end, text};

/// Runs a command of a host with this state directory.
async fn run(home: &TestHome, state: &str, build: &str, args: &[&str]) -> String {
    let mut command = home.hostler_command(args);
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", build).env("XDG_STATE_HOME", home.path(state));
    let output = run_to_end(command).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {out}{err}");
    out
}

async fn listed(home: &TestHome, state: &str, build: &str) -> Vec<Value> {
    serde_json::from_str(&run(home, state, build, &["sessions", "list", "--json"]).await).unwrap()
}

/// Returns the transcript of a session.
fn transcript(home: &TestHome, session: &str) -> PathBuf {
    let name = format!("{}.jsonl", session.strip_prefix("claude:/").unwrap());
    let found = crate::common::list_files(&home.path("claude")).into_iter().find(|path| path.ends_with(&name));
    found.unwrap_or_else(|| panic!("no {name}"))
}

async fn assert_conversation_is_listed_synced_and_deleted(build: &str) {
    let home = TestHome::new();
    run(&home, "state", build, &["run", "hello there"]).await;
    let [ours] = &listed(&home, "state", build).await[..] else { panic!("one session") };
    let session = ours["resource"].as_str().unwrap();
    assert_eq!(ours["_meta"]["hostler"]["external"], Value::Null, "it is not an external session here");

    let [theirs] = &listed(&home, "other", build).await[..] else { panic!("one session") };
    assert_eq!(theirs["resource"], session);
    assert_eq!(theirs["_meta"]["hostler"]["external"], true);
    assert_eq!(theirs["workingDirectories"], ours["workingDirectories"]);

    // A title and a tag from a terminal: both the owning host and the other one see them.
    let mut file = std::fs::File::options().append(true).open(transcript(&home, session)).unwrap();
    writeln!(file, r#"{{"type":"custom-title","customTitle":"named there","sessionId":"x"}}"#).unwrap();
    writeln!(file, r#"{{"type":"tag","tag":"theirs","sessionId":"x"}}"#).unwrap();
    let shown = async |state| {
        let lines = listed(&home, state, build).await;
        (lines[0]["title"].clone(), lines[0]["_meta"]["hostler"]["tag"].clone())
    };
    assert_eq!(shown("other").await, ("named there".into(), "theirs".into()));
    // The list lags behind the transcript when a host starts.
    while shown("state").await != ("named there".into(), "theirs".into()) {}

    // Those that are set here stay here.
    run(&home, "state", build, &["sessions", "rename", session, "named here"]).await;
    run(&home, "state", build, &["sessions", "tag", session, "later"]).await;
    assert_eq!(shown("state").await, ("named here".into(), "later".into()));
    assert_eq!(shown("other").await, ("named there".into(), "theirs".into()));
    assert_ne!(run(&home, "state", build, &["sessions", "list", "--tag", "later"]).await, "");
    assert_eq!(run(&home, "other", build, &["sessions", "list", "--tag", "later"]).await, "");
    run(&home, "state", build, &["sessions", "tag", session, "--remove"]).await;
    assert_eq!(shown("state").await, ("named here".into(), Value::Null));

    let saved = std::fs::read(transcript(&home, session)).unwrap();
    let path = transcript(&home, session);
    run(&home, "other", build, &["sessions", "delete", "--yes", session]).await;
    assert!(!path.exists(), "the agent's record is gone");
    assert!(listed(&home, "other", build).await.is_empty());
    assert_eq!(listed(&home, "state", build).await.len(), 1, "the owning host still lists its stored session");
    std::fs::write(&path, saved).unwrap();
    assert!(listed(&home, "other", build).await.is_empty(), "a deleted session stays hidden");
}

#[tokio::test]
async fn external_session_is_listed_updated_and_deleted_native() {
    assert_conversation_is_listed_synced_and_deleted("native").await;
}

#[tokio::test]
async fn external_session_is_listed_updated_and_deleted_js() {
    assert_conversation_is_listed_synced_and_deleted("js").await;
}

/// More sessions than a client's event queue holds.
#[tokio::test]
async fn thousands_of_external_sessions_do_not_block_clients() {
    const MANY: usize = 3000;
    let home = TestHome::new();
    let folder = home.path("claude").join("projects/-somewhere");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..MANY {
        let id = Uuid::new_v4();
        let record = json!({"type": "user", "uuid": Uuid::new_v4(), "parentUuid": null, "cwd": home.work(), "sessionId": id,
            "timestamp": "2026-01-01T00:00:00Z", "message": {"role": "user", "content": format!("question {number}")}});
        std::fs::write(folder.join(format!("{id}.jsonl")), format!("{record}\n")).unwrap();
    }
    assert_eq!(listed(&home, "state", "native").await.len(), MANY);
    // A host lists them while a client talks to it.
    run(&home, "other", "native", &["run", "hello there"]).await;
    assert_eq!(listed(&home, "other", "native").await.len(), MANY + 1);
}

/// Returns a client of the root channel, after the first scan of the transcripts.
async fn watcher(host: &HostProcess, session: &str) -> RawClient {
    let mut raw = RawClient::connect(&host.url()).await;
    let hello = json!({
        "channel": "ahp-root://", "protocolVersions": ["1.0.0"], "clientId": Uuid::new_v4().to_string(),
        "initialSubscriptions": ["ahp-root://"],
    });
    raw.call("initialize", hello).await.unwrap();
    let list = raw.call("listSessions", json!({ "channel": "ahp-root://" })).await.unwrap();
    assert_eq!(list["items"][0]["resource"], session, "{list}");
    raw
}

/// Waits until the root channel reports this title.
async fn wait_for_title(who: &str, raw: &mut RawClient, title: &str) {
    let published = async {
        loop {
            let message = raw.receive().await.expect("the host does not hang up");
            if message["method"] == "root/sessionSummaryChanged" && message["params"]["changes"]["title"] == title {
                return;
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT / 3, published)
        .await
        .unwrap_or_else(|_| panic!("{who} did not publish {title:?}"));
}

async fn assert_terminal_title_is_published(build: &str) {
    let home = TestHome::new();
    run(&home, "state", build, &["run", "hello there"]).await;
    let session = listed(&home, "state", build).await[0]["resource"].as_str().unwrap().to_owned();
    // The owning host, and one that lists the session as external.
    let owner = home.serve(build).await;
    let mut command = home.serve_command(&["--claude", build, "--upstream", "scripted"], &[]);
    command.env("XDG_STATE_HOME", home.path("other"));
    let other = HostProcess::start(command, &home.path("other").join("hostler")).await;
    let mut watchers =
        [("the owning host", watcher(&owner, &session).await), ("the other host", watcher(&other, &session).await)];
    for title in ["named there", "named once more"] {
        // Same field order as the agent: the type comes first.
        let record = format!(r#"{{"type":"custom-title","customTitle":"{title}","sessionId":"x"}}"#);
        let mut file = std::fs::File::options().append(true).open(transcript(&home, &session)).unwrap();
        writeln!(file, "{record}").unwrap();
        for (who, raw) in &mut watchers {
            wait_for_title(who, raw, title).await;
        }
    }
    drop(watchers);
    owner.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn title_set_in_a_terminal_is_published_by_running_hosts_native() {
    assert_terminal_title_is_published("native").await;
}

#[tokio::test]
async fn title_set_in_a_terminal_is_published_by_running_hosts_js() {
    assert_terminal_title_is_published("js").await;
}

#[tokio::test]
async fn external_session_filter_setting_selects_listed_sessions() {
    let home = TestHome::new();
    run(&home, "state", "native", &["run", "hello"]).await;
    assert_eq!(listed(&home, "other", "native").await.len(), 1);
    home.write_config("show-external-sessions = \"none\"\n");
    assert!(listed(&home, "other", "native").await.is_empty());
    assert_eq!(listed(&home, "state", "native").await.len(), 1, "its own sessions are always listed");
}
