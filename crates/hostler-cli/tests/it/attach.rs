//! `hostler run --attach` against a scripted host.

use crate::support::CommandFixture;
use crate::support::host::{FakeHostLauncher, HostScriptStep, answer_steps, turn_complete};
use hostler_cli::Exit;
use serde_json::{Value, json};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

fn host() -> FakeHostLauncher {
    FakeHostLauncher::new(answer_steps(&["seen"]).into_iter().chain([turn_complete()]))
}

/// Returns a fixture with files in its working directory.
fn stage() -> CommandFixture {
    let stage = CommandFixture::new();
    let at = |name: &str| stage.scratch.path().join("project").join(name);
    std::fs::write(at("shot.png"), PNG).unwrap();
    std::fs::write(at("notes.txt"), "words").unwrap();
    std::fs::write(at("empty"), "").unwrap();
    std::fs::create_dir(at("src dir")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    stage
}

/// Returns the attachments of the sent message.
fn sent(launcher: &FakeHostLauncher) -> Value {
    let dispatched = launcher.recorded.params("dispatchAction");
    assert_eq!(dispatched.len(), 1);
    dispatched[0]["action"]["message"]["attachments"].clone()
}

#[tokio::test]
async fn files_are_sent_in_order_with_their_types_and_a_directory_as_its_path() {
    let (mut stage, launcher) = (stage(), host());
    stage.stdin = b"from a pipe".to_vec();
    let args = ["run", "look", "--attach", "shot.png", "--attach", "-", "--attach", "src dir", "--attach", "empty"];
    assert_eq!(stage.run(&args, &launcher).await, Exit::Done, "{}", stage.err.text());
    assert_eq!((stage.out.text().as_str(), stage.err.text().as_str()), ("seen", ""));
    let uri = url::Url::from_file_path(stage.scratch.path().join("project/src dir")).unwrap();
    let expected = json!([
        { "type": "embeddedResource", "label": "shot.png", "displayKind": "image", "contentType": "image/png",
            "data": "iVBORw0KGgo=" },
        { "type": "embeddedResource", "label": "stdin", "displayKind": "document", "contentType": "text/plain",
            "data": "ZnJvbSBhIHBpcGU=" },
        { "type": "resource", "label": "src dir", "displayKind": "directory", "uri": uri.as_str() },
        { "type": "embeddedResource", "label": "empty", "displayKind": "document", "contentType": "text/plain",
            "data": "" },
    ]);
    assert_eq!(sent(&launcher), expected);
    let asked = &launcher.recorded.params("hostler/planAttachments")[0];
    assert_eq!(asked["attachments"], expected, "the plan is requested for the same attachments");
    assert_eq!(asked["channel"], launcher.recorded.params("dispatchAction")[0]["channel"]);
}

#[tokio::test]
async fn message_without_files_requests_no_plan_and_empty_message_needs_files() {
    let (mut stage_, launcher) = (stage(), host());
    assert_eq!(stage_.run(&["run", "hi"], &launcher).await, Exit::Done);
    assert!(launcher.recorded.params("hostler/planAttachments").is_empty() && sent(&launcher).is_null());
    let (mut stage_, launcher) = (stage(), host());
    assert_eq!(stage_.run(&["run", "", "--attach", "shot.png"], &launcher).await, Exit::Done);
    assert_eq!(sent(&launcher)[0]["label"], "shot.png");
    let mut empty = stage();
    assert_eq!(empty.run(&["run", ""], &host()).await, Exit::Usage);
}

#[tokio::test]
async fn warnings_go_to_stderr_and_the_message_is_sent() {
    let mut stage = stage();
    let warning = json!({ "kind": "shrunk", "message": "it was made smaller\u{1b}[2J" });
    let launcher = host().with_attachment_plan(json!({ "ok": true, "files": [
        { "label": "shot.png", "decision": "send", "warnings": [warning], "contentType": "image/png", "bytes": 8 }] }));
    assert_eq!(stage.run(&["run", "look", "--attach", "shot.png"], &launcher).await, Exit::Done);
    assert_eq!(stage.out.text(), "seen");
    assert_eq!(stage.err.text(), "shot.png: it was made smaller[2J\n");
}

fn rejection() -> Value {
    json!({ "ok": false, "files": [
        { "label": "shot.png", "decision": "reject", "code": "attachment_corrupt", "message": "it is damaged",
            "warnings": [] },
        { "label": "notes.txt", "decision": "reject", "code": "attachment_too_large", "warnings": [], "newer": 1 },
        { "label": "empty", "decision": "wouldSend", "warnings": [] }] })
}

#[tokio::test]
async fn rejection_lists_every_file_and_sends_nothing() {
    let args = ["run", "look", "--attach", "shot.png", "--attach", "notes.txt", "--attach", "empty"];
    let (mut stage_, launcher) = (stage(), host().with_attachment_plan(rejection()));
    assert_eq!(stage_.run(&args, &launcher).await, Exit::Failed);
    assert_eq!(stage_.out.text(), "");
    assert_eq!(
        stage_.err.text(),
        "✗ shot.png: it is damaged\n✗ notes.txt: attachment_too_large\nThe message was not sent.\n"
    );
    assert!(launcher.recorded.params("dispatchAction").is_empty());
    assert_eq!(*launcher.recorded.shut_down.lock().unwrap(), 1, "the started host is stopped");

    let mut json_ = stage();
    let args: Vec<_> = args.into_iter().chain(["--json"]).collect();
    assert_eq!(json_.run(&args, &launcher).await, Exit::Failed);
    let lines: Vec<Value> = json_.out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected: Vec<_> =
        rejection()["files"].as_array().unwrap().iter().map(|file| json!({ "attachment": file })).collect();
    let (error, files) = lines.split_last().unwrap();
    assert_eq!(files, expected, "as the host wrote them");
    let error_expected = json!({ "code": "attachment_corrupt", "message": "The message was not sent." });
    assert_eq!(error, &json!({ "error": error_expected }));
}

#[tokio::test]
async fn rejection_of_the_whole_message_prints_the_reason() {
    let mut stage = stage();
    let launcher = host().with_attachment_plan(json!({ "ok": false, "reason": "too many images", "files": [] }));
    assert_eq!(stage.run(&["run", "look", "--attach", "shot.png"], &launcher).await, Exit::Failed);
    assert_eq!(stage.err.text(), "too many images\nThe message was not sent.\n");
}

#[tokio::test]
async fn json_output_prints_the_plan_before_the_envelopes() {
    let mut stage = stage();
    let file = json!({ "label": "shot.png", "decision": "send", "warnings": [], "bytes": 8 });
    let launcher = host().with_attachment_plan(json!({ "ok": true, "files": [file] }));
    assert_eq!(stage.run(&["run", "--json", "look", "--attach", "shot.png"], &launcher).await, Exit::Done);
    let lines: Vec<Value> = stage.out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0], json!({ "attachment": file }));
    assert!(lines.len() > 2 && lines[1..].iter().all(|line| line["action"].is_object()));
}

#[tokio::test]
async fn unreadable_file_is_a_usage_error_and_starts_no_host() {
    for (args, expected) in [
        (&["missing"][..], "Cannot attach missing: file not found.\n"),
        (
            &["missing", "shot.png", "a\nb"],
            "Cannot attach missing: file not found.\nCannot attach a b: file not found.\n",
        ),
        (&["shot.png/x"], "Cannot attach shot.png/x: Not a directory (os error 20).\n"),
        (&["pipe"], "Cannot attach pipe: not a file or directory. Use - to attach stdin.\n"),
        (&["/dev/null"], "Cannot attach /dev/null: not a file or directory. Use - to attach stdin.\n"),
        (&["-", "-"], "stdin can be attached only once.\n"),
    ] {
        let (mut stage, launcher) = (stage(), host());
        let args: Vec<_> = ["run", "look"].into_iter().chain(args.iter().flat_map(|name| ["--attach", name])).collect();
        assert_eq!(stage.run(&args, &launcher).await, Exit::Usage);
        assert_eq!((stage.out.text().as_str(), stage.err.text().as_str()), ("", expected));
        assert!(launcher.recorded.options.lock().unwrap().is_empty(), "no host was started");
    }
    let mut both = stage();
    assert_eq!(both.run(&["run", "-", "--attach", "-"], &host()).await, Exit::Usage);
    assert_eq!(both.err.text(), "stdin cannot be both the message and an attachment.\n");
}

#[tokio::test]
async fn oversized_attachments_are_rejected_before_reading() {
    const LIMITS: &str = "[attachments]\nfiles = 2\nfile-size = 8\ntotal-size = 12";
    for (files, exit, expected) in [
        (&["shot.png"][..], Exit::Done, ""),
        (&["-"], Exit::Failed, "✗ stdin: larger than 8 bytes, the limit for one file\nThe message was not sent.\n"),
        (
            &["shot.png", "notes.txt"],
            Exit::Failed,
            "✗ notes.txt: the files together are larger than 12 bytes, the limit for one message\nThe message was not sent.\n",
        ),
        (&["empty", "empty", "empty"], Exit::Usage, "Too many attachments: 3. A message can have 2.\n"),
    ] {
        let (mut stage, launcher) = (stage(), host());
        stage.write_config(LIMITS);
        stage.stdin = vec![b'x'; 1 << 20];
        let args: Vec<_> =
            ["run", "look"].into_iter().chain(files.iter().flat_map(|name| ["--attach", name])).collect();
        assert_eq!((stage.run(&args, &launcher).await, stage.err.text().as_str()), (exit, expected));
    }
    let mut json_ = stage();
    json_.write_config(LIMITS);
    json_.stdin = vec![b'x'; 9];
    assert_eq!(json_.run(&["run", "--json", "x", "--attach", "-"], &host()).await, Exit::Failed);
    let lines: Vec<Value> = json_.out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["attachment"]["code"], "attachment_too_large");
    assert_eq!(lines[1]["error"]["code"], "attachment_too_large");
}

#[tokio::test]
async fn message_with_files_is_queued_behind_a_running_turn() {
    let mut stage = stage();
    let session = json!({ "resource": "claude:/1f0c0000-0000-4000-8000-000000000000", "provider": "claude",
        "title": "", "status": 8, "createdAt": "2026-01-01T00:00:00.000Z", "modifiedAt": "2026-01-01T00:00:00.000Z" });
    let launcher = FakeHostLauncher::new([HostScriptStep::Reject("the queue is full")])
        .with_sessions(vec![session], json!([]))
        .with_running_turn();
    let args = ["run", "--session", "1f0c", "look", "--attach", "notes.txt"];
    assert_eq!(stage.run(&args, &launcher).await, Exit::Failed);
    assert_eq!(launcher.recorded.actions(), ["chat/pendingMessageSet"]);
    assert_eq!(sent(&launcher)[0]["data"], "d29yZHM=");
    assert!(stage.err.text().contains("the queue is full"), "{}", stage.err.text());
}
