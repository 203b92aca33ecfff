//! `hostler sessions search` and `hostler/search`: the real binary, the real agent, the scripted model; sessions of
//! this host, and external ones.

use crate::common::{BUILDS, TestHome, run_to_end, text};
use hostler_testkit::raw_client::RawClient;
use serde_json::{Value, json};

/// Runs a command that must end with an exit code; returns stdout and stderr.
async fn expect(code: i32, home: &TestHome, build: &str, args: &[&str]) -> (String, String) {
    let mut command = home.hostler_command(args);
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", build);
    let output = run_to_end(command).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    (out, err)
}

/// Runs a prompt on another host with the same agent directory.
async fn run_elsewhere(home: &TestHome, build: &str, prompt: &str) {
    let mut command = home.hostler_command(&["run", prompt]);
    command.env("XDG_STATE_HOME", home.path("elsewhere"));
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", build);
    let output = run_to_end(command).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// Returns the results as JSON, one per line.
async fn found(home: &TestHome, build: &str, args: &[&str]) -> Vec<Value> {
    let (out, _) = expect(0, home, build, &[&["sessions", "search", "--json"], args].concat()).await;
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn assert_nothing_found(home: &TestHome, build: &str, args: &[&str]) {
    let (out, err) = expect(1, home, build, &[&["sessions", "search"], args].concat()).await;
    assert_eq!((out.as_str(), err.trim()), ("", "No matching sessions."), "{args:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn search_command_finds_own_and_external_sessions() {
    for build in BUILDS {
        let home = TestHome::new();
        run_elsewhere(&home, build, "!say the quinces of foo_bar are ripe").await;
        expect(0, &home, build, &["run", "!say the pears are green"]).await;

        let here = found(&home, build, &["pears"]).await;
        let elsewhere = found(&home, build, &["quinces"]).await;
        assert_eq!((here.len(), elsewhere.len()), (1, 1), "{build}");
        assert_ne!(here[0]["session"], elsewhere[0]["session"]);
        assert_eq!(elsewhere[0]["workspace"], json!(home.work().canonicalize().unwrap()));
        assert_eq!(found(&home, build, &["the"]).await.len(), 2);
        assert_eq!(found(&home, build, &["bar", "--limit", "1"]).await[0]["session"], elsewhere[0]["session"]);
        assert_eq!(found(&home, build, &["--workspace", ".", "--since", "1d", "from:agent pea*"]).await.len(), 1);
        let hit = &found(&home, build, &["from:agent ripe"]).await[0]["hits"][0];
        assert_eq!((&hit["kind"], &hit["snippet"]), (&json!("answer"), &json!("the quinces of foo_bar are ripe")));
        assert_eq!(hit["matches"], json!([[27, 31]]));

        assert_nothing_found(&home, build, &["cherries"]).await;
        assert_nothing_found(&home, build, &["--until", "1d", "pears"]).await;
        assert_nothing_found(&home, build, &["--workspace", "/nowhere", "pears"]).await;
        assert_nothing_found(&home, build, &["--tool", "Bash", "pears"]).await;
        let (_, err) = expect(2, &home, build, &["sessions", "search", "--since", "lunch", "pears"]).await;
        assert!(err.contains("use a time such as 7d"), "{err}");

        let (out, _) = expect(0, &home, build, &["sessions", "search", "pears"]).await;
        let id = here[0]["session"].as_str().unwrap().strip_prefix("claude:/").unwrap().to_owned();
        assert!(out.contains("the pears are green") && out.contains(&format!("hostler sessions show {id}")), "{out}");
        // A session of this host, and an external one that was never opened.
        let other = elsewhere[0]["session"].as_str().unwrap().strip_prefix("claude:/").unwrap();
        for (id, query) in [(id.as_str(), "pears"), (other, "quinces")] {
            expect(0, &home, build, &["sessions", "delete", "--yes", id]).await;
            assert_nothing_found(&home, build, &[query]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_finds_turns_by_tool_and_file() {
    for build in BUILDS {
        let home = TestHome::new();
        let file = home.work().join("notes.txt");
        std::fs::write(&file, "nothing of note").unwrap();
        let read = format!("!tool Read {}", json!({ "file_path": file }));
        run_elsewhere(&home, build, &format!("{read}\n!say the quinces are ripe")).await;
        expect(0, &home, build, &["run", &format!("{read}\n!say the pears are ripe")]).await;
        expect(0, &home, build, &["run", "!say the plums are ripe"]).await;
        assert_eq!(found(&home, build, &["ripe"]).await.len(), 3, "{build}");
        assert_eq!(found(&home, build, &["--tool", "Read", "ripe"]).await.len(), 2, "{build}");
        assert_eq!(found(&home, build, &["--file", "notes.txt", "ripe"]).await.len(), 2, "{build}");
        assert_eq!(found(&home, build, &["--tool", "read", "--file", "notes*", "pears"]).await.len(), 1, "{build}");
        assert_nothing_found(&home, build, &["--tool", "Read", "--file", "other.txt", "ripe"]).await;
        assert_nothing_found(&home, build, &["--tool", "Bash", "--file", "notes.txt", "ripe"]).await;
        assert_nothing_found(&home, build, &["--tool", "Read", "plums"]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_all_finds_unlisted_sessions_which_can_be_opened() {
    for build in BUILDS {
        let home = TestHome::new();
        home.write_config("show-external-sessions = \"none\"");
        run_elsewhere(&home, build, "!say the quinces are ripe").await;
        run_elsewhere(&home, build, "!say the medlars are ripe").await;
        assert_nothing_found(&home, build, &["quinces"]).await;
        let (out, _) = expect(0, &home, build, &["sessions", "search", "--all", "quinces"]).await;
        assert!(out.contains("not listed"), "{out}");
        let hidden = found(&home, build, &["--all", "ripe"]).await;
        assert!(hidden.len() == 2 && hidden.iter().all(|item| item["listed"] == false), "{hidden:?}");

        // With the command that the search prints.
        let show = out.lines().find_map(|line| line.trim().strip_prefix("hostler ")).unwrap();
        let (shown, _) = expect(0, &home, build, &show.split(' ').collect::<Vec<_>>()).await;
        assert!(shown.contains("the quinces are ripe"), "{shown}");
        assert_eq!(found(&home, build, &["quinces"]).await[0].get("listed"), None);
        let medlars = found(&home, build, &["--all", "medlars"]).await[0]["session"].as_str().unwrap().to_owned();
        expect(0, &home, build, &["sessions", "delete", "--yes", &medlars]).await;
        assert_nothing_found(&home, build, &["--all", "medlars"]).await;
        expect(1, &home, build, &["sessions", "show", &medlars]).await;
    }
}

/// Runs a turn to its end; returns its session.
async fn run_turn(raw: &mut RawClient, home: &TestHome, text: &str) -> String {
    let (session, chat) = raw.create_session(&home.work()).await;
    raw.send_message(&chat, text).await;
    raw.wait_for_action("chat/turnComplete").await;
    session
}

async fn ask(raw: &mut RawClient, mut params: Value) -> Result<Value, Value> {
    params["channel"] = json!("ahp-root://");
    raw.call("hostler/search", params).await
}

fn sessions(answer: &Value) -> Vec<&str> {
    answer["items"].as_array().unwrap().iter().map(|item| item["session"].as_str().unwrap()).collect()
}

/// A turn's row is written a moment after its end is published.
async fn until_found(raw: &mut RawClient, query: &str, count: usize) -> Value {
    loop {
        let answer = ask(raw, json!({"query": query, "waitForIndex": true})).await.unwrap();
        if sessions(&answer).len() == count {
            return answer;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn search_pages_results_and_omits_deleted_sessions() {
    for build in BUILDS {
        let home = TestHome::new();
        run_elsewhere(&home, build, "!say the quinces are ripe").await;
        let host = home.serve(build).await;
        let mut raw = RawClient::connect_and_initialize(&host.url()).await;
        let pears = run_turn(&mut raw, &home, "!say 😀 the pears are green").await;
        let plums = run_turn(&mut raw, &home, "!say the plums are blue").await;

        let answer = until_found(&mut raw, "from:agent pears", 1).await;
        let item = &answer["items"][0];
        assert_eq!((&item["session"], &item["matchingTurns"]), (&json!(pears), &json!(1)), "{build}");
        assert_eq!(item["workspace"], json!(home.work().canonicalize().unwrap()));
        assert_eq!(answer.get("nextOffset"), None);
        assert!(answer["pendingSessions"].is_u64(), "something else may still be read");
        let hit = &item["hits"][0];
        assert_eq!((&hit["kind"], &hit["snippet"]), (&json!("answer"), &json!("😀 the pears are green")));
        assert_eq!(hit["matches"], json!([[7, 12]]), "in UTF-16");

        let all = until_found(&mut raw, "from:agent the", 3).await;
        let first = ask(&mut raw, json!({"query": "from:agent the", "limit": 2})).await.unwrap();
        assert_eq!((sessions(&first), &first["nextOffset"]), (sessions(&all)[..2].to_vec(), &json!(2)));
        let last = ask(&mut raw, json!({"query": "from:agent the", "limit": 2, "offset": 2})).await.unwrap();
        assert_eq!((sessions(&last), last.get("nextOffset")), (sessions(&all)[2..].to_vec(), None));

        raw.call("disposeSession", json!({"channel": plums})).await.unwrap();
        until_found(&mut raw, "plums", 0).await;
        let quinces = until_found(&mut raw, "quinces", 1).await;
        raw.call("disposeSession", json!({"channel": sessions(&quinces)[0]})).await.unwrap();
        until_found(&mut raw, "quinces", 0).await;
        assert_eq!(sessions(&until_found(&mut raw, "the", 1).await), [pears]);
        host.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_search_params_are_rejected_and_unusual_queries_find_nothing() {
    let home = TestHome::new();
    let host = home.serve(BUILDS[0]).await;
    let mut raw = RawClient::connect_and_initialize(&host.url()).await;
    for (params, sentence) in [
        (json!({}), "invalid parameters: missing field `query`"),
        (json!({"query": " \n"}), "query is empty; enter a search text"),
        (json!({"query": "x".repeat(5_000)}), "query must not be longer than 4096 bytes"),
        (json!({"query": 7}), "invalid parameters: invalid type: integer, expected a string"),
        (json!({"query": "x", "limit": -1}), "invalid parameters: invalid value: integer, expected "),
        (json!({"query": "x", "offset": "far"}), "invalid parameters: invalid type: string, expected "),
    ] {
        let refused = ask(&mut raw, params.clone()).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{params}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains(sentence), "{params}: {refused}");
    }
    for query in ["\"", "*", "-", "tool:", "NEAR(a b)", "x AND", "a\0b", "before:lunch", "検", &"(".repeat(4_096)] {
        let answer = ask(&mut raw, json!({"query": query, "limit": 1_000_000, "offset": u32::MAX})).await.unwrap();
        assert!(sessions(&answer).is_empty(), "{query}: {answer}");
    }
    host.stop().await;
}
