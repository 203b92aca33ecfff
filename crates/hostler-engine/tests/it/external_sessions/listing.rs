//! External sessions in the session list: they follow the transcripts, and can be renamed, tagged and deleted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ahp_types::state::SessionSummary;
use hostler_driver::{ConversationStart, DriverEvent, ExternalActivity, ResumeToken, TranscriptStoreError};
use hostler_engine::{
    Delivery, EngineError, ExternalSessionFilter, HostNotificationKind, ROOT_CHANNEL_URI, Subscriber,
};
use hostler_testkit::fake_transcript_store::FakeTranscriptStore;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{EXTERNAL_SESSION, id, start_with_external_session};
use crate::common::{Listener, Options, Rig, SESSION, dispatch_json};

/// The session list after a scan.
async fn summaries(rig: &Rig) -> Vec<SessionSummary> {
    rig.engine.scan_external_sessions().await;
    rig.engine.list_sessions(None, None).unwrap().summaries()
}

async fn titles(rig: &Rig) -> Vec<String> {
    summaries(rig).await.into_iter().map(|line| line.title).collect()
}

/// A client that is subscribed to the root channel.
async fn root(rig: &Rig) -> Listener {
    let mut listener = Listener::new(EXTERNAL_SESSION);
    rig.engine.subscribe(ROOT_CHANNEL_URI, &listener.subscriber, 1).await.unwrap();
    listener.snapshot().await;
    listener
}

fn empty() -> Arc<FakeTranscriptStore> {
    FakeTranscriptStore::new(&std::env::temp_dir())
}

async fn host(transcript_store: &Arc<FakeTranscriptStore>) -> Rig {
    Rig::start_with(Options { transcript_store: Some(Arc::clone(transcript_store)), ..Options::default() }).await
}

#[tokio::test]
async fn external_session_is_listed() {
    let (rig, transcript_store) = start_with_external_session(1, 3).await;
    transcript_store.update_conversation(id(), |known| known.listing.tag = Some("later".to_owned()));
    let [line] = &summaries(&rig).await[..] else { panic!("one line") };
    assert_eq!(
        (line.resource.as_str(), line.title.as_str(), line.provider.as_str()),
        (EXTERNAL_SESSION, "message 1", "claude")
    );
    assert_eq!(line.created_at, "2026-01-01T00:00:00.000Z");
    assert_eq!(line.modified_at, "2027-01-15T08:00:00.001Z");
    assert_eq!(line.default_chat.as_deref(), Some(&*hostler_engine::default_chat_uri(EXTERNAL_SESSION)));
    assert_eq!(line.working_directories.as_ref().unwrap().len(), 1);
    let meta = json!(line.meta);
    assert_eq!(meta, json!({"hostler": {"external": true, "tag": "later"}}));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn added_changed_and_removed_external_sessions_are_published() {
    let transcript_store = empty();
    let rig = host(&transcript_store).await;
    assert_eq!(titles(&rig).await, [""; 0]);
    let mut root = root(&rig).await;
    transcript_store.add_conversation(id(), &std::env::temp_dir(), 1);
    rig.engine.scan_external_sessions().await;
    root.until("added").await;
    assert_eq!(root.added[0].resource, EXTERNAL_SESSION);
    transcript_store.update_conversation(id(), |known| known.listing.title = "renamed there".to_owned());
    assert_eq!(titles(&rig).await, ["renamed there"]);
    root.until("changed").await;
    transcript_store.remove_conversation(id());
    assert_eq!(titles(&rig).await, [""; 0]);
    root.until("removed").await;
    assert!(!rig.engine.has_session(EXTERNAL_SESSION));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn scan_without_changes_publishes_nothing() {
    let (rig, transcript_store) = start_with_external_session(1, 1).await;
    rig.engine.scan_external_sessions().await;
    let mut root = root(&rig).await;
    rig.engine.scan_external_sessions().await;
    rig.engine.scan_external_sessions().await;
    transcript_store.remove_conversation(id());
    rig.engine.scan_external_sessions().await;
    assert_eq!(root.next().await, "removed", "the first notification");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn endless_scan_delays_only_external_sessions() {
    let transcript_store = empty();
    transcript_store.add_conversation(id(), &std::env::temp_dir(), 1);
    transcript_store.set_listing_enabled(false);
    let rig = host(&transcript_store).await;
    assert_eq!(rig.listed(), [""; 0], "the host has started nevertheless");
    rig.create(SESSION);
    assert!(rig.engine.has_session(SESSION));
    transcript_store.set_listing_enabled(true);
    rig.engine.wait_for_initial_scan().await;
    assert_eq!(rig.listed(), [EXTERNAL_SESSION]);
    transcript_store.set_listing_enabled(false);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn subscribe_right_after_the_start_waits_for_the_first_scan() {
    let transcript_store = empty();
    transcript_store.add_conversation(id(), &std::env::temp_dir(), 1);
    transcript_store.set_listing_enabled(false);
    let rig = host(&transcript_store).await;
    let mut listener = Listener::new(EXTERNAL_SESSION);
    let opening = rig.engine.subscribe(EXTERNAL_SESSION, &listener.subscriber, 2);
    let ((), opened) = tokio::join!(async { transcript_store.set_listing_enabled(true) }, opening);
    opened.unwrap();
    listener.snapshot().await;
    assert_eq!(listener.session.as_ref().unwrap().title, "message 1");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn conversation_of_a_stored_session_is_not_listed_separately() {
    let transcript_store = empty();
    let mut rig = host(&transcript_store).await;
    rig.run_first_turn().await;
    let ours = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    transcript_store.add_conversation(ours, &std::env::temp_dir(), 1);
    assert_eq!(titles(&rig).await, ["hi"], "once, with its title in this host");
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, ["hi"], "after a restart, too");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn deleted_external_session_stays_deleted_without_an_import() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    rig.engine.scan_external_sessions().await;
    let mut root = root(&rig).await;
    rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
    root.until("removed").await;
    assert_eq!(transcript_store.external_conversation(id()), None, "the transcript is deleted");
    assert!(matches!(rig.engine.dispose_session(EXTERNAL_SESSION).await, Err(EngineError::SessionNotFound(_))));
    // The file is restored by another program.
    transcript_store.add_conversation(id(), &std::env::temp_dir(), 2);
    assert_eq!(titles(&rig).await, [""; 0]);
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, [""; 0], "after a restart, too");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn deleting_an_imported_session_deletes_its_transcript() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    rig.listen(EXTERNAL_SESSION).await;
    rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
    assert_eq!(transcript_store.external_conversation(id()), None);
    transcript_store.add_conversation(id(), &std::env::temp_dir(), 2);
    assert_eq!(titles(&rig).await, [""; 0]);
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, [""; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn undeletable_transcript_is_hidden() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    rig.engine.scan_external_sessions().await;
    transcript_store.update_conversation(id(), |known| {
        known.read_error = Some(TranscriptStoreError::Failed("the disk is read-only".to_owned()))
    });
    rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
    assert!(transcript_store.external_conversation(id()).is_some());
    assert_eq!(titles(&rig).await, [""; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn disposing_a_provisional_session_deletes_no_transcript() {
    let transcript_store = empty();
    let rig = host(&transcript_store).await;
    rig.create(SESSION);
    let ours = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    transcript_store.add_conversation(ours, &std::env::temp_dir(), 1);
    rig.engine.dispose_session(SESSION).await.unwrap();
    assert!(transcript_store.external_conversation(ours).is_some());
    assert_eq!(titles(&rig).await, ["message 1"], "it is an external session, and listed");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_uri_with_another_spelling_deletes_no_transcript() {
    let (mut rig, transcript_store) = start_with_external_session(1, 2).await;
    rig.engine.scan_external_sessions().await;
    let uppercase = format!("claude:/{}", EXTERNAL_SESSION.strip_prefix("claude:/").unwrap().to_uppercase());
    rig.create(&uppercase);
    let mut listener = rig.listen(&uppercase).await;
    rig.send_message(&uppercase, "t1", "hello").await;
    let start = rig.starts.next_start().await;
    assert!(matches!(start.spec.conversation, ConversationStart::New(ours) if ours != id()));
    let agent = start.succeed();
    agent.emit(DriverEvent::ResumeToken(ResumeToken("record-of-its-own".to_owned()))).await;
    agent.emit_answer(1, "an ", "answer").await;
    listener.until("chat/turnComplete").await;
    rig.engine.dispose_session(&uppercase).await.unwrap();
    assert!(transcript_store.external_conversation(id()).is_some());
    assert_eq!(titles(&rig).await, ["message 1"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn conversation_with_a_running_external_turn_is_not_deleted() {
    for opened in [false, true] {
        let (rig, transcript_store) = start_with_external_session(1, 2).await;
        rig.engine.scan_external_sessions().await;
        if opened {
            rig.listen(EXTERNAL_SESSION).await;
        }
        transcript_store.update_conversation(id(), |known| known.external_activity = Some(ExternalActivity::Busy));
        let refused = rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap_err();
        assert!(refused.to_string().contains("another process is running a turn"), "{refused}");
        assert!(transcript_store.external_conversation(id()).is_some());
        transcript_store.update_conversation(id(), |known| known.external_activity = Some(ExternalActivity::Idle));
        rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
        assert_eq!(transcript_store.external_conversation(id()), None);
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn transcript_without_a_resume_token_is_deleted_with_its_session() {
    let transcript_store = empty();
    let mut rig = host(&transcript_store).await;
    let (mut listener, agent) = rig.start_first_turn().await;
    listener.until("session/ready").await;
    let ours = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    transcript_store.add_conversation(ours, &std::env::temp_dir(), 1);
    let (_, deleted) = tokio::join!(agent.wait_closed(), rig.engine.dispose_session(SESSION));
    deleted.unwrap();
    assert_eq!(transcript_store.external_conversation(ours), None);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_is_deleted_during_a_failing_import() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    rig.engine.scan_external_sessions().await;
    let mut root = root(&rig).await;
    transcript_store.allow_loads(0);
    let listener = Listener::new(EXTERNAL_SESSION);
    let (mut opening, mut deleting) = (
        Box::pin(rig.engine.subscribe(EXTERNAL_SESSION, &listener.subscriber, 2)),
        Box::pin(rig.engine.dispose_session(EXTERNAL_SESSION)),
    );
    assert!(futures::poll!(opening.as_mut()).is_pending());
    assert!(futures::poll!(deleting.as_mut()).is_pending());
    transcript_store.update_conversation(id(), |known| {
        known.read_error = Some(TranscriptStoreError::Failed("the disk is torn".to_owned()))
    });
    transcript_store.allow_loads(usize::MAX);
    let refused = opening.await.unwrap_err();
    assert!(refused.to_string().contains("the disk is torn"), "{refused}");
    deleting.await.unwrap();
    root.until("removed").await;
    assert_eq!(titles(&rig).await, [""; 0]);
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, [""; 0], "after a restart, too");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn title_and_tag_follow_changes_of_the_transcript_and_persist_otherwise() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let write = |title: &str, tag: &str| {
        transcript_store.update_conversation(id(), |known| {
            (known.listing.custom_title, known.listing.tag) = (Some(title.to_owned()), Some(tag.to_owned()));
        });
    };
    let shown = |listener: &Listener| {
        let session = listener.session.as_ref().unwrap();
        (session.title.clone(), json!(session.meta)["hostler"]["tag"].clone())
    };
    write("there", "theirs");
    rig.engine.scan_external_sessions().await;
    listener.until("session/metaChanged").await;
    assert_eq!(shown(&listener), ("there".to_owned(), json!("theirs")));
    // A person's title and tag; then something else changes in the transcript, or it cannot be read as a whole.
    let titled = json!({"type": "session/titleChanged", "title": "mine"});
    rig.engine.dispatch(dispatch_json(EXTERNAL_SESSION, 1, titled, None)).await;
    rig.engine.tag_session(EXTERNAL_SESSION, Some(" ours ")).await.unwrap();
    listener.until("session/metaChanged").await;
    transcript_store.update_conversation(id(), |_| ());
    rig.engine.scan_external_sessions().await;
    transcript_store.update_conversation(id(), |known| {
        (known.listing.custom_title, known.listing.tag) = (None, None);
    });
    rig.engine.scan_external_sessions().await;
    let rig = rig.restart().await;
    assert_eq!(shown(&rig.listen(EXTERNAL_SESSION).await), ("mine".to_owned(), json!("ours")));
    // After a restart an unloaded session follows as well.
    let rig = rig.restart().await;
    let mut root = root(&rig).await;
    write("again", "");
    rig.engine.scan_external_sessions().await;
    while (titles(&rig).await[0].as_str(), tag_of(&summaries(&rig).await[0])) != ("again", Value::Null) {
        root.until("changed").await;
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn rename_succeeds_although_the_transcript_is_missing() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    transcript_store.remove_conversation(id());
    let titled = json!({"type": "session/titleChanged", "title": "mine"});
    rig.engine.dispatch(dispatch_json(EXTERNAL_SESSION, 1, titled, None)).await;
    listener.until("changed").await;
    assert_eq!(titles(&rig).await, ["mine"], "an imported session stays without its transcript");
    rig.engine.shutdown().await;
}

fn tag_of(line: &SessionSummary) -> Value {
    json!(line.meta)["hostler"]["tag"].clone()
}

#[tokio::test]
async fn external_session_is_tagged_and_untagged() {
    let (rig, transcript_store) = start_with_external_session(1, 2).await;
    rig.engine.wait_for_initial_scan().await;
    let mut root = root(&rig).await;
    rig.engine.tag_session(EXTERNAL_SESSION, Some(" later ")).await.unwrap();
    root.until("changed").await;
    let rig = rig.restart().await;
    assert_eq!(json!(summaries(&rig).await[0].meta)["hostler"], json!({"external": true, "tag": "later"}));
    assert_eq!(transcript_store.external_conversation(id()).unwrap().tag, None, "nothing is written there");
    rig.engine.tag_session(EXTERNAL_SESSION, None).await.unwrap();
    let rig = rig.restart().await;
    assert_eq!(tag_of(&summaries(&rig).await[0]), Value::Null);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_tag_or_session_is_refused() {
    let (rig, _) = start_with_external_session(1, 2).await;
    for tag in ["", "  ", "two\nlines", "a\u{7}", &"x".repeat(101)] {
        let refused = rig.engine.tag_session(EXTERNAL_SESSION, Some(tag)).await;
        assert!(matches!(refused, Err(EngineError::InvalidParams(_))), "{tag:?}: {refused:?}");
    }
    rig.engine.tag_session(EXTERNAL_SESSION, Some(&"ü".repeat(100))).await.unwrap();
    let unknown = rig.engine.tag_session(SESSION, Some("later")).await;
    assert!(matches!(unknown, Err(EngineError::SessionNotFound(_))), "{unknown:?}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_session_filter_applies() {
    let transcript_store = empty();
    let days = [0u32, 3, 10, 400];
    for day in days {
        let id = Uuid::from_u128(1000 + u128::from(day));
        transcript_store.add_conversation(id, &std::env::temp_dir(), 1);
        let modified = SystemTime::now() - Duration::from_secs(u64::from(day) * 24 * 60 * 60);
        transcript_store.update_conversation(id, |known| {
            known.listing.modified = modified;
            known.listing.title = format!("{day} days");
        });
    }
    let rig = host(&transcript_store).await;
    let all = ["0 days", "3 days", "10 days", "400 days"];
    assert_eq!(titles(&rig).await, all);
    let (subscriber, mut deliveries) = Subscriber::new(1000);
    rig.engine.subscribe(ROOT_CHANNEL_URI, &subscriber, 1).await.unwrap();
    let mut seq = 0;
    let mut choose = |value: Value| {
        seq += 1;
        let action = json!({"type": "root/configChanged", "config": {"showExternalSessions": value}});
        rig.engine.dispatch(dispatch_json(ROOT_CHANNEL_URI, seq, action, None))
    };
    choose(json!("last7Days")).await;
    assert_eq!(titles(&rig).await, ["0 days", "3 days"]);
    choose(json!("none")).await;
    assert_eq!(titles(&rig).await, [""; 0]);
    assert!(rig.engine.has_session(&format!("claude:/{}", Uuid::from_u128(1000))), "it can be opened nevertheless");
    choose(json!("sometimes")).await;
    assert_eq!(titles(&rig).await, [""; 0], "an unknown value changes nothing");
    choose(json!("recent")).await;
    assert_eq!(titles(&rig).await, ["0 days", "3 days"]);
    choose(json!("all")).await;
    assert_eq!(titles(&rig).await, all);
    let (mut added, mut removed) = (0, 0);
    while added < 4 {
        match deliveries.recv().await.unwrap() {
            Delivery::Notification(notice) if matches!(notice.kind, HostNotificationKind::SessionAdded(_)) => {
                added += 1
            }
            Delivery::Notification(notice) if matches!(notice.kind, HostNotificationKind::SessionRemoved(_)) => {
                removed += 1
            }
            _ => {}
        }
    }
    assert_eq!(removed, 4);
    choose(json!("last24Hours")).await;
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, ["0 days"], "the choice is remembered");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn host_setting_overrides_the_client_filter() {
    let (_, transcript_store) = start_with_external_session(1, 1).await;
    let show_external = Some(ExternalSessionFilter::None);
    let options = Options { transcript_store: Some(transcript_store), show_external, ..Options::default() };
    let rig = Rig::start_with(options).await;
    let action = json!({"type": "root/configChanged", "config": {"showExternalSessions": "all"}});
    rig.engine.dispatch(dispatch_json(ROOT_CHANNEL_URI, 1, action, None)).await;
    assert_eq!(titles(&rig).await, [""; 0]);
    rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(titles(&rig).await, ["message 1"], "an imported session is listed");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn five_thousand_conversations_are_listed_and_published() {
    let transcript_store = empty();
    transcript_store.set_listing_enabled(false);
    for number in 0..5000u128 {
        transcript_store.add_conversation(Uuid::from_u128(number + 1), &std::env::temp_dir(), 0);
    }
    let rig = host(&transcript_store).await;
    let (subscriber, mut deliveries) = Subscriber::new(16_384);
    rig.engine.subscribe(ROOT_CHANNEL_URI, &subscriber, 1).await.unwrap();
    transcript_store.set_listing_enabled(true);
    rig.engine.wait_for_initial_scan().await;
    assert_eq!(rig.listed().len(), 5000);
    let mut added = 0;
    while added < 5000 {
        if let Delivery::Notification(notice) = deliveries.recv().await.unwrap() {
            assert!(matches!(notice.kind, HostNotificationKind::SessionAdded(_)));
            added += 1;
        }
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn directory_created_later_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("not").join("yet");
    let transcript_store = FakeTranscriptStore::new(&config.join("projects"));
    let rig = host(&transcript_store).await;
    rig.engine.wait_for_initial_scan().await;
    let mut root = root(&rig).await;
    transcript_store.add_conversation(id(), dir.path(), 1);
    std::fs::create_dir_all(config.join("projects")).unwrap();
    root.until("added").await;
    // Then a directory in it, and a file in that one.
    let folder = config.join("projects").join("-p");
    std::fs::create_dir(&folder).unwrap();
    rig.engine.scan_external_sessions().await;
    transcript_store.update_conversation(id(), |known| known.listing.title = "changed".to_owned());
    std::fs::write(folder.join("x.jsonl"), "x").unwrap();
    root.until("changed").await;
    rig.engine.shutdown().await;
}
