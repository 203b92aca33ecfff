//! Opening the fake agent: success, failure and cancellation.

use std::time::Duration;

use crate::fixture::{BEARER, Bed, alive, say, text};
use hostler_claude::Executable;
use hostler_driver::{
    CloseMode, ConversationStart, Driver, DriverEvent, FolderConfiguration, OpenErrorKind, ResumeToken,
};
use hostler_process::ConversationLock;
use uuid::Uuid;

#[tokio::test]
async fn conversation_is_resumed_by_its_reported_token() {
    let bed = Bed::new();
    let id = Uuid::new_v4();
    let mut opened = bed.driver().open(bed.spec(ConversationStart::New(id))).await.unwrap();
    let events = say(&mut opened, "hi").await;
    let tokens = events
        .iter()
        .filter_map(|event| if let DriverEvent::ResumeToken(token) = event { Some(token.clone()) } else { None });
    let token = tokens.collect::<Vec<_>>().pop().unwrap();
    assert!(token.0.ends_with(&format!("{id}.jsonl")), "{token:?}");
    opened.connection.close(CloseMode::Graceful).await;

    let spec = bed.spec(ConversationStart::Resume { id, token: token.clone() });
    let mut opened = bed.driver().open(spec).await.unwrap();
    assert_eq!(text(&say(&mut opened, "back").await), "echo: back");
    assert!(bed.log()[1]["argv"].to_string().contains(&format!("--resume={}", token.0)));
    opened.connection.close(CloseMode::Graceful).await;
}

#[tokio::test]
async fn new_conversation_with_a_transcript_is_resumed() {
    let bed = Bed::new();
    let id = Uuid::new_v4();
    for _ in 0..2 {
        let mut opened = bed.driver().open(bed.spec(ConversationStart::New(id))).await.unwrap();
        say(&mut opened, "hi").await;
        opened.connection.close(CloseMode::Now).await;
    }
    assert!(bed.log()[1]["argv"].to_string().contains("--resume="));
}

#[tokio::test]
async fn conversation_killed_before_its_first_stored_message_starts_again() {
    let bed = Bed::new();
    let id = Uuid::new_v4();
    let mut opened = bed.driver().open(bed.spec(ConversationStart::New(id))).await.unwrap();
    let events = say(&mut opened, "hi").await;
    let token = events.iter().find_map(|event| match event {
        DriverEvent::ResumeToken(token) => Some(token.0.clone()),
        _ => None,
    });
    opened.connection.close(CloseMode::Now).await;
    // What the real agent has written by then.
    std::fs::write(token.unwrap(), "{\"type\":\"queue-operation\",\"operation\":\"enqueue\"}\n").unwrap();
    let mut opened = bed.driver().open(bed.spec(ConversationStart::New(id))).await.unwrap();
    assert_eq!(text(&say(&mut opened, "again").await), "echo: again");
    assert!(bed.log()[1]["argv"].to_string().contains("--session-id="));
    opened.connection.close(CloseMode::Now).await;
}

#[tokio::test]
async fn one_process_per_conversation() {
    let bed = Bed::new();
    let id = Uuid::new_v4();
    let opened = bed.driver().open(bed.spec(ConversationStart::New(id))).await.unwrap();
    let error = bed.driver().open(bed.spec(ConversationStart::New(id))).await.unwrap_err();
    assert_eq!(error.kind, OpenErrorKind::ConversationBusy);
    assert!(error.message.contains("the test"), "{error}");
    opened.connection.close(CloseMode::Now).await;
    let again = bed.driver().open(bed.spec(ConversationStart::New(id))).await.unwrap();
    again.connection.close(CloseMode::Now).await;
}

#[tokio::test]
async fn failed_start_has_a_reason_and_leaves_nothing() {
    for (behaviour, kind, sentence, stderr) in [
        (
            "exit-early:3:no licence",
            OpenErrorKind::ExitedEarly,
            "exited before it was ready (exit code 3)",
            "no licence",
        ),
        ("root-refusal", OpenErrorKind::ExitedEarly, "IS_SANDBOX=1", "root/sudo"),
        ("wrong-version", OpenErrorKind::WrongVersion, "is Claude Code 1.0.3, but 2.1.112 or newer is required", ""),
        ("refuse-handshake", OpenErrorKind::HandshakeRefused, "the fake agent rejects the handshake", ""),
        (
            "exit-early:1:Error: Session ID x is already in use.",
            OpenErrorKind::ConversationBusy,
            "already in use",
            "in use",
        ),
    ] {
        let error = Bed::behaving(behaviour).open_fails().await;
        assert_eq!(error.kind, kind, "{error:?}");
        assert!(error.message.contains(sentence), "{error}");
        assert!(error.stderr.as_str().contains(stderr), "{error:?}");
    }
}

#[tokio::test]
async fn hanging_handshake_times_out() {
    let mut bed = Bed::behaving("hang-handshake");
    bed.config.handshake_timeout = Duration::from_millis(100);
    let error = bed.open_fails().await;
    assert_eq!(error.kind, OpenErrorKind::HandshakeTimeout);
}

#[tokio::test]
async fn dropped_open_leaves_nothing() {
    let bed = Bed::behaving("hang-handshake");
    let id = Uuid::new_v4();
    let mut open = bed.driver().open(bed.spec(ConversationStart::New(id)));
    while bed.log().is_empty() {
        assert!(futures::poll!(&mut open).is_pending());
        tokio::task::yield_now().await;
    }
    drop(open);
    let pid = bed.logged_pids()[0];
    while alive(pid) || ConversationLock::acquire(&bed.path("run"), &id.to_string(), "the check").is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn missing_conversation_is_not_replaced_by_an_empty_one() {
    let bed = Bed::new();
    let id = Uuid::new_v4();
    let token = ResumeToken(id.to_string());
    let error = bed.driver().open(bed.spec(ConversationStart::Resume { id, token })).await.unwrap_err();
    assert_eq!(error.kind, OpenErrorKind::ConversationMissing);
    assert!(error.message.contains("its transcript is missing"), "{error}");
    bed.nothing_is_left(id);
}

#[tokio::test]
async fn missing_executable_or_directory_is_reported() {
    let mut bed = Bed::new();
    std::fs::remove_dir(bed.path("project")).unwrap();
    assert_eq!(bed.open_fails().await.kind, OpenErrorKind::NoWorkingDirectory);
    std::fs::create_dir(bed.path("project")).unwrap();
    for path in ["no-such-claude", "cli.js"] {
        bed.config.executable = Executable::from_path(bed.path(path));
        let error = bed.open_fails().await;
        assert_eq!(error.kind, OpenErrorKind::ExecutableMissing, "{error}");
        assert!(error.message.contains("hostler agents install claude"), "{error}");
    }
    std::fs::write(bed.path("plain"), "not a program").unwrap();
    bed.config.executable = Executable::from_path(bed.path("plain"));
    assert_eq!(bed.open_fails().await.kind, OpenErrorKind::ExecutableMissing);
}

#[tokio::test]
async fn version_outside_the_handshake_is_queried_once() {
    let bed = Bed::behaving("no-version");
    let driver = bed.driver();
    for _ in 0..2 {
        let opened = driver.open(bed.spec(ConversationStart::New(Uuid::new_v4()))).await.unwrap();
        assert_eq!(opened.info.version.as_deref(), Some("2.1.325"));
        opened.connection.close(CloseMode::Now).await;
    }
    let asked = bed.log().iter().filter(|record| record["argv"][1] == "--version").count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn agent_gets_no_upstream_credential_and_no_bearer_in_arguments() {
    let bed = Bed::new();
    let opened = bed.open().await;
    opened.connection.close(CloseMode::Now).await;
    let record = &bed.log()[0];
    let (arguments, environment) = (record["argv"].to_string(), record["env"].to_string());
    assert!(!environment.contains("planted-upstream-key") && !environment.contains("planted-anthropic-key"));
    assert_eq!(record["env"]["ANTHROPIC_AUTH_TOKEN"], BEARER);
    assert!(!arguments.contains("planted"), "{arguments}");
    assert!(!format!("{:?} {opened:?}", bed.driver()).contains("planted"));
}

#[tokio::test]
async fn staged_configuration_is_removed_with_the_agent() {
    let bed = Bed::new();
    let settings = bed.path("project/.claude/settings.json");
    std::fs::create_dir(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, r#"{"env": {"FOLDER": "1", "LD_PRELOAD": "x"}}"#).unwrap();
    let fingerprint = bed.driver().workspace_configuration(&bed.path("project")).fingerprint;
    for (fingerprint, applies) in [(fingerprint, true), ("another".to_owned(), false)] {
        let id = Uuid::new_v4();
        let mut spec = bed.spec(ConversationStart::New(id));
        spec.folder_configuration = FolderConfiguration::Applied { fingerprint };
        let opened = bed.driver().open(spec).await.unwrap();
        assert_eq!(opened.info.applied_configuration, applies);
        assert_eq!(bed.stages().len(), 1);
        // Another host that starts now does not remove it.
        drop(bed.driver());
        assert_eq!(bed.stages().len(), 1);
        opened.connection.close(CloseMode::Now).await;
        bed.nothing_is_left(id);
        let environment = bed.log().pop().unwrap()["env"].clone();
        assert_eq!(environment["FOLDER"] == "1", applies, "{environment}");
        assert!(environment["LD_PRELOAD"].is_null(), "{environment}");
    }
}

#[tokio::test]
async fn build_without_config_root_support_is_started_without_it() {
    let bed = Bed::behaving("exit-early:1:error: unknown option '--project-config-root=/x'");
    bed.open_fails().await;
    let starts: Vec<_> = bed.log().iter().map(|record| record["argv"].to_string()).collect();
    let [first, second] = starts.as_slice() else { panic!("{starts:?}") };
    assert!(first.contains("--project-config-root=") && first.contains("=user,project,local"), "{first}");
    assert!(!second.contains("--project-config-root=") && second.contains("--setting-sources=user\""), "{second}");
}
