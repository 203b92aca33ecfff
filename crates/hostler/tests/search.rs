//! `hostler sessions search` and `hostler/search`: the real binary, the real agent, the scripted model; what was said here,
//! and what was said in conversations that this host has not led.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use common::{BUILDS, Home, finish, text};
use serde_json::{Value, json};

/// Runs a command that must end with an exit code: stdout and stderr.
async fn expect(code: i32, home: &Home, build: &str, args: &[&str]) -> (String, String) {
    let mut command = home.hostler(args);
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", build);
    let output = finish(command).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    (out, err)
}

/// The same agent with the same records, led by a host that this one knows nothing of.
async fn run_elsewhere(home: &Home, build: &str, prompt: &str) {
    let mut command = home.hostler(&["run", prompt]);
    command.env("XDG_STATE_HOME", home.path("elsewhere"));
    command.env("HOSTLER_UPSTREAM", "scripted").env("HOSTLER_CLAUDE", build);
    let output = finish(command).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// What is found, as JSON, a line each.
async fn found(home: &Home, build: &str, args: &[&str]) -> Vec<Value> {
    let (out, _) = expect(0, home, build, &[&["sessions", "search", "--json"], args].concat()).await;
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn nothing(home: &Home, build: &str, args: &[&str]) {
    let (out, err) = expect(1, home, build, &[&["sessions", "search"], args].concat()).await;
    assert_eq!((out.as_str(), err.trim()), ("", "Nothing was found."), "{args:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_here_and_elsewhere_is_found_by_commands() {
    for build in BUILDS {
        let home = Home::new();
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

        nothing(&home, build, &["cherries"]).await;
        nothing(&home, build, &["--until", "1d", "pears"]).await;
        nothing(&home, build, &["--workspace", "/nowhere", "pears"]).await;
        nothing(&home, build, &["--tool", "Bash", "pears"]).await;
        let (_, err) = expect(2, &home, build, &["sessions", "search", "--since", "lunch", "pears"]).await;
        assert!(err.contains("say it as 7d"), "{err}");

        let (out, _) = expect(0, &home, build, &["sessions", "search", "pears"]).await;
        let id = here[0]["session"].as_str().unwrap().strip_prefix("claude:/").unwrap().to_owned();
        assert!(out.contains("the pears are green") && out.contains(&format!("hostler sessions show {id}")), "{out}");
        // The agent's own record is taken away by hand: this is about the host's.
        expect(0, &home, build, &["sessions", "delete", "--yes", &id]).await;
        let name = format!("{id}.jsonl");
        let records = common::files(&home.path("claude")).into_iter().filter(|path| path.ends_with(&name));
        records.for_each(|path| std::fs::remove_file(path).unwrap());
        nothing(&home, build, &["pears"]).await;
    }
}
