//! `hostler sessions` and `hostler run --session` against a scripted host.

use crate::support::host::{FakeHostLauncher, HostScriptStep, answer_steps, turn_complete};
use crate::support::{CommandFixture, entry_names};
use hostler_cli::Exit;
use serde_json::{Value, json};

const FIRST: &str = "claude:/1f0c0000-0000-4000-8000-000000000001";
const SECOND: &str = "claude:/1f0d0000-0000-4000-8000-000000000002";
const THIRD: &str = "claude:/27aa0000-0000-4000-8000-000000000003";
/// Archived session.
const FOURTH: &str = "claude:/30bb0000-0000-4000-8000-000000000004";

fn session(uri: &str, title: &str, status: u32) -> Value {
    json!({ "resource": uri, "provider": "claude", "title": title, "status": status,
        "createdAt": "2026-01-01T00:00:00.000Z", "modifiedAt": "2026-01-01T00:00:00.000Z",
        "workingDirectories": ["file:///srv/project"] })
}

/// Returns a host with four sessions, on more than one page.
fn host(script: impl IntoIterator<Item = HostScriptStep>) -> FakeHostLauncher {
    let sessions = vec![
        session(FIRST, "first", 33),
        session(SECOND, "second", 1),
        session(FOURTH, "fourth", 97),
        session(THIRD, "third", 40),
    ];
    let turn = json!({ "id": "t1", "state": "complete", "message": { "text": "hi", "origin": { "kind": "user" } },
        "responseParts": [{ "kind": "reasoning", "id": "r", "content": "hmm" },
            { "kind": "markdown", "id": "m", "content": "Hello\u{7}" }] });
    FakeHostLauncher::new(script).with_sessions(sessions, json!([turn]))
}

/// Runs a command on such a host; returns exit, stdout, stderr.
async fn run(args: &[&str], launcher: &FakeHostLauncher) -> (Exit, String, String) {
    let mut stage = CommandFixture::new();
    let exit = stage.run(args, launcher).await;
    assert_eq!(entry_names(&stage.state_dir()), ["host.lock", "token"], "the endpoint file is removed");
    (exit, stage.out.text(), stage.err.text())
}

#[tokio::test]
async fn list_reads_all_pages_and_omits_archived_sessions() {
    let launcher = host([]);
    let (exit, out, err) = run(&["sessions", "list"], &launcher).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    for (line, cells) in lines.iter().skip(1).zip([
        ["1f0c0000", "idle", "/srv/project", "first"],
        ["1f0d0000", "● idle", "/srv/project", "second"],
        ["27aa0000", "working", "/srv/project", "third"],
    ]) {
        assert!(cells.iter().all(|cell| line.contains(cell)), "{line}");
    }
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1);
}

#[tokio::test]
async fn list_all_includes_archived_sessions_and_respects_the_limit() {
    let launcher = host([]);
    let (_, out, _) = run(&["sessions", "list", "--all", "--json"], &launcher).await;
    let listed: Vec<Value> = serde_json::from_str(&out).unwrap();
    let uris: Vec<_> = listed.iter().map(|session| session["resource"].as_str().unwrap()).collect();
    assert_eq!(uris, [FIRST, SECOND, FOURTH, THIRD]);
    let all_pages = launcher.recorded.params("listSessions").len();

    let launcher = host([]);
    let (_, out, _) = run(&["sessions", "list", "--limit", "1", "--json"], &launcher).await;
    let listed: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((all_pages, launcher.recorded.params("listSessions").len()), (2, 1), "no unneeded page is read");
}

#[tokio::test]
async fn empty_list_prints_nothing_on_stdout() {
    let (exit, out, err) = run(&["sessions", "list"], &FakeHostLauncher::new([])).await;
    assert_eq!((exit, out.as_str()), (Exit::Done, ""));
    assert!(err.contains("No active sessions"), "{err}");
}

#[tokio::test]
async fn show_prints_the_turns_of_the_named_session() {
    let launcher = host([]);
    let (exit, out, _) = run(&["sessions", "show", "27"], &launcher).await;
    assert_eq!(exit, Exit::Done);
    assert!(out.starts_with(&format!("third\n{THIRD} · working · /srv/project\n\nTurn 1\n> hi\nHello")), "{out}");
    assert!(!out.contains("hmm"), "{out}");
    let subscribed: Vec<_> =
        launcher.recorded.params("subscribe").iter().map(|params| params["channel"].clone()).collect();
    assert_eq!(subscribed, [json!(THIRD), json!(format!("ahp-chat://fake/{THIRD}"))]);

    let (_, out, _) = run(&["sessions", "show", "27", "--reasoning"], &host([])).await;
    assert!(out.contains("\n~ hmm\nHello"), "{out}");
    let (_, out, _) = run(&["sessions", "show", "27", "--json"], &host([])).await;
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["resource"], THIRD);
    assert_eq!(shown["chat"]["turns"][0]["message"]["text"], "hi");
}

#[tokio::test]
async fn show_loads_a_long_chat_page_by_page() {
    let turn = |n: usize| {
        json!({ "id": format!("t{n}"), "state": "complete", "responseParts": [],
            "message": { "text": format!("message {n}"), "origin": { "kind": "user" } } })
    };
    let turns: Vec<Value> = (1..=120).map(turn).collect();
    let launcher = FakeHostLauncher::new([]).with_sessions(vec![session(THIRD, "third", 40)], json!(turns));
    let (exit, out, _) = run(&["sessions", "show", "27", "--json"], &launcher).await;
    assert_eq!(exit, Exit::Done);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["chat"]["turns"], json!(turns));
    assert!(shown["chat"].get("turnsNextCursor").is_none(), "all pages are loaded");
    assert_eq!(launcher.recorded.params("subscribe").last().unwrap()["view"], json!({ "turns": 50 }));
    let cursors: Vec<_> =
        launcher.recorded.params("fetchTurns").iter().map(|params| params["cursor"].clone()).collect();
    assert_eq!(cursors, ["70", "40", "10"]);
    let (_, out, _) = run(&["sessions", "show", "27"], &launcher).await;
    let messages: Vec<_> = out.lines().filter(|line| line.starts_with("> message")).collect();
    assert_eq!((messages.len(), messages[0], messages[119]), (120, "> message 1", "> message 120"));
}

#[tokio::test]
async fn audit_export_reads_all_pages_and_prints_one_entry_per_line() {
    let launcher = host([]);
    let (exit, out, err) = run(&["sessions", "export", "27", "--audit"], &launcher).await;
    assert_eq!((exit, err.as_str()), (Exit::Done, ""));
    let entries: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = entries.iter().map(|entry| entry["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(entries[2]["input"], "\u{9b}3", "programs receive it unchanged");
    let asked: Vec<_> = launcher.recorded.params("hostler/listAudit");
    assert_eq!(asked, [json!({ "channel": THIRD, "after": 0 }), json!({ "channel": THIRD, "after": 2 })]);

    let mut stage = CommandFixture::new().on_terminal();
    assert_eq!(stage.run(&["sessions", "export", "27", "--audit"], &host([])).await, Exit::Done);
    assert!(!stage.out.text().contains('\u{9b}'), "{}", stage.out.text());
}

#[tokio::test]
async fn export_without_a_selection_is_a_usage_error_and_starts_no_host() {
    let launcher = host([]);
    let mut stage = CommandFixture::new();
    assert_eq!(stage.run(&["sessions", "export", "27"], &launcher).await, Exit::Usage);
    assert!(stage.err.text().contains("--audit"), "{}", stage.err.text());
    assert!(launcher.recorded.options.lock().unwrap().is_empty());
}

#[tokio::test]
async fn control_sequences_of_agents_are_removed_on_a_terminal() {
    let mut stage = CommandFixture::new().on_terminal().with_var("NO_COLOR", "1");
    assert_eq!(stage.run(&["sessions", "show", "27"], &host([])).await, Exit::Done);
    assert!(stage.out.text().ends_with("Hello\n"), "{}", stage.out.text());
}

#[tokio::test]
async fn ambiguous_session_is_a_usage_error_and_unknown_session_fails() {
    for args in [
        &["sessions", "show"][..],
        &["sessions", "archive"],
        &["sessions", "export", "--audit"],
        &["sessions", "delete", "--yes"],
        &["run", "hi", "--session"],
    ] {
        let launcher = host([]);
        let (exit, out, err) = run(&[args, &["1f0"]].concat(), &launcher).await;
        assert_eq!((exit, out.as_str()), (Exit::Usage, ""), "{args:?}: {err}");
        assert!(err.contains(FIRST) && err.contains(SECOND) && !err.contains(THIRD), "{err}");
        let (exit, _, err) = run(&[args, &["beef"]].concat(), &launcher).await;
        assert_eq!(exit, Exit::Failed, "{args:?}: {err}");
        assert!(err.contains("Session not found: beef"), "{err}");
        assert!(launcher.recorded.actions().is_empty() && launcher.recorded.params("disposeSession").is_empty());
    }
}

#[tokio::test]
async fn full_session_id_is_requested_even_if_not_listed() {
    let hidden = "claude:/27ff0000-0000-4000-8000-000000000005";
    let launcher = host([]);
    for name in [hidden, "27ff0000-0000-4000-8000-000000000005", "27ff"] {
        let (exit, _, err) = run(&["sessions", "show", name], &launcher).await;
        // This host opens every session and does not add it to the list.
        assert_eq!(exit, Exit::Failed, "{name}: {err}");
        assert!(err.contains(&format!("Session not found: {name}")), "{err}");
    }
    let asked = launcher.recorded.params("subscribe");
    assert_eq!(asked.iter().map(|params| params["channel"].as_str().unwrap()).collect::<Vec<_>>(), [hidden, hidden]);
}

#[tokio::test]
async fn search_reports_missing_parts_and_keeps_its_exit_code() {
    let problem = "the disk is full\u{1b}";
    let found = json!({ "session": THIRD, "title": "third", "modifiedAtMs": 0, "matchingTurns": 1, "listed": false,
        "hits": [{ "kind": "answer", "snippet": "pears", "matches": [[0, 5]] }] });
    for (items, args, exit) in [
        (json!([found]), &["pears"][..], Exit::Done),
        (json!([found]), &["--json", "--all", "pears"], Exit::Done),
        (json!([]), &["pears"], Exit::Failed),
    ] {
        let launcher =
            host([]).with_search_result(json!({ "items": items, "pendingSessions": 2, "indexError": problem }));
        let (ended, out, err) = run(&[&["sessions", "search"], args].concat(), &launcher).await;
        assert_eq!(ended, exit, "{err}");
        assert!(
            err.contains("The search index is incomplete: the disk is full.") && err.contains("2 sessions"),
            "{err}"
        );
        assert!(!err.contains('\u{1b}') && !out.contains("disk"), "{err}{out}");
        let all = args.contains(&"--all");
        assert_eq!(launcher.recorded.params("hostler/search")[0]["includeUnlisted"], all);
        assert_eq!(out.contains("not listed"), exit == Exit::Done && !all, "{out}");
    }
}

#[tokio::test]
async fn rename_and_archive_wait_for_the_hosts_confirmation() {
    for (args, action) in [
        (&["sessions", "rename", "27", "Better"][..], json!({ "type": "session/titleChanged", "title": "Better" })),
        (&["sessions", "archive", "27"], json!({ "type": "session/isArchivedChanged", "isArchived": true })),
        (&["sessions", "archive", "27", "--undo"], json!({ "type": "session/isArchivedChanged", "isArchived": false })),
    ] {
        let launcher = host([]);
        let (exit, out, err) = run(args, &launcher).await;
        assert_eq!((exit, out.as_str()), (Exit::Done, ""), "{err}");
        assert!(err.contains(THIRD), "{err}");
        let dispatched = launcher.recorded.params("dispatchAction");
        assert_eq!((&dispatched[0]["channel"], &dispatched[0]["action"]), (&json!(THIRD), &action));

        let (exit, _, err) = run(args, &host([HostScriptStep::Reject("the disk is full")])).await;
        assert_eq!(exit, Exit::Failed);
        assert!(err.contains("the disk is full"), "{err}");
    }
}

#[tokio::test]
async fn empty_title_starts_no_host() {
    let mut stage = CommandFixture::new();
    let launcher = host([]);
    assert_eq!(stage.run(&["sessions", "rename", "27", " "], &launcher).await, Exit::Usage);
    assert!(launcher.recorded.options.lock().unwrap().is_empty());
}

#[tokio::test]
async fn delete_resolves_all_sessions_first_and_deletes_each_once() {
    let launcher = host([]);
    let (exit, ..) = run(&["sessions", "delete", "--yes", "27", "nothing"], &launcher).await;
    assert_eq!(exit, Exit::Failed);
    assert!(launcher.recorded.params("disposeSession").is_empty(), "an unknown session prevents every deletion");

    let (exit, ..) = run(&["sessions", "delete", "--yes", "27", "30", THIRD], &launcher).await;
    assert_eq!(exit, Exit::Done);
    let disposed = launcher.recorded.params("disposeSession");
    assert_eq!(disposed, [json!({ "channel": THIRD }), json!({ "channel": FOURTH })]);
}

#[tokio::test]
async fn delete_asks_for_confirmation_on_a_terminal() {
    for (typed, exit, disposed) in
        [("y\n", Exit::Done, 1), ("YES", Exit::Done, 1), ("\n", Exit::Failed, 0), ("", Exit::Failed, 0)]
    {
        let launcher = host([]);
        let mut stage = CommandFixture::new().on_terminal();
        stage.stdin = typed.into();
        assert_eq!(stage.run(&["sessions", "delete", "27"], &launcher).await, exit, "{typed:?}");
        assert_eq!(launcher.recorded.params("disposeSession").len(), disposed, "{typed:?}");
        assert!(stage.err.text().contains("third"), "{}", stage.err.text());
    }
}

#[tokio::test]
async fn delete_without_a_terminal_needs_yes_flag_and_starts_no_host() {
    let mut stage = CommandFixture::new();
    stage.stdin = "y\n".into();
    let launcher = host([]);
    assert_eq!(stage.run(&["sessions", "delete", "27"], &launcher).await, Exit::Usage);
    assert!(stage.err.text().contains("--yes"), "{}", stage.err.text());
    assert!(launcher.recorded.options.lock().unwrap().is_empty());
}

#[tokio::test]
async fn run_continues_the_given_session() {
    let launcher = host(answer_steps(&["more"]).into_iter().chain([turn_complete()]));
    let (exit, out, err) = run(&["run", "--session", "27", "go on"], &launcher).await;
    assert_eq!((exit, out.as_str(), err.as_str()), (Exit::Done, "more", ""));
    assert!(launcher.recorded.params("createSession").is_empty());
    assert_eq!(launcher.recorded.actions(), ["chat/turnStarted"]);
    assert_eq!(launcher.recorded.params("dispatchAction")[0]["channel"], format!("ahp-chat://fake/{THIRD}"));
}

#[tokio::test]
async fn only_the_flag_changes_an_existing_sessions_permission_mode() {
    let script = || answer_steps(&["ok"]).into_iter().chain([turn_complete()]);
    let launcher = host(script());
    let (exit, ..) = run(&["run", "--session", "27", "--permission-mode", "plan", "go on"], &launcher).await;
    assert_eq!(exit, Exit::Done);
    assert_eq!(launcher.recorded.actions(), ["session/configChanged", "chat/turnStarted"]);
    assert_eq!(launcher.recorded.params("dispatchAction")[0]["action"]["config"], json!({ "permissionMode": "plan" }));

    let launcher = host(script());
    let mut stage = CommandFixture::new().with_var("HOSTLER_PERMISSION_MODE", "plan");
    assert_eq!(stage.run(&["run", "--session", "27", "go on"], &launcher).await, Exit::Done);
    assert_eq!(launcher.recorded.actions(), ["chat/turnStarted"]);
}

#[tokio::test]
async fn cwd_is_rejected_for_an_existing_session() {
    let mut stage = CommandFixture::new();
    let launcher = host([]);
    assert_eq!(stage.run(&["run", "--session", "27", "--cwd", ".", "hi"], &launcher).await, Exit::Usage);
    assert!(stage.err.text().contains("--cwd"), "{}", stage.err.text());
    assert!(launcher.recorded.options.lock().unwrap().is_empty());
}

#[tokio::test]
async fn remove_images_reports_the_number_of_removed_images() {
    for (args, images, notice) in [
        (&["sessions", "remove-images", "1f0c"][..], "last", "Removed 1 image from "),
        (&["sessions", "remove-images", "--all", "1f0c"], "all", "Removed 2 images from "),
    ] {
        let launcher = host([]);
        let (exit, out, err) = run(args, &launcher).await;
        assert_eq!((exit, out.as_str()), (Exit::Done, ""), "{err}");
        assert!(err.starts_with(notice) && err.contains(FIRST), "{err}");
        let asked = launcher.recorded.params("hostler/removeImages");
        assert_eq!(asked, [json!({ "channel": format!("ahp-chat://fake/{FIRST}"), "images": images })]);
    }
}
