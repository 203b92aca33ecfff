//! External sessions in the session list: they follow the transcripts, and can be renamed, tagged and deleted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ahp_types::state::SessionSummary;
use hostler_driver::{
    ConversationStart, ConversationTag, DriverEvent, ExternalActivity, ResumeToken, TranscriptStoreError,
};
use hostler_engine::{
    Delivery, EngineError, ExternalSessionFilter, HostNotificationKind, ROOT_CHANNEL_URI, Subscriber,
};
use hostler_testkit::fake_transcript_store::FakeTranscriptStore;
use serde_json::{Value, json};
use uuid::Uuid;

use super::common::{Listener, Options, Rig, SESSION, wish};
use super::{FOUND, found, id};

/// The session list after a scan.
async fn lines(rig: &Rig) -> Vec<SessionSummary> {
    rig.engine.scan_external_sessions().await;
    rig.engine.list_sessions(None, None).unwrap().summaries()
}

async fn titles(rig: &Rig) -> Vec<String> {
    lines(rig).await.into_iter().map(|line| line.title).collect()
}

/// A client that is subscribed to the root channel.
async fn root(rig: &Rig) -> Listener {
    let mut listener = Listener::new(FOUND);
    rig.engine.subscribe(ROOT_CHANNEL_URI, &listener.subscriber, 1).await.unwrap();
    listener.snapshot().await;
    listener
}

fn empty() -> Arc<FakeTranscriptStore> {
    FakeTranscriptStore::new(&std::env::temp_dir())
}

async fn host(archive: &Arc<FakeTranscriptStore>) -> Rig {
    Rig::start_with(Options { archive: Some(Arc::clone(archive)), ..Options::default() }).await
}

#[tokio::test]
async fn external_session_is_listed() {
    let (rig, archive) = found(1, 3).await;
    archive.update_conversation(id(), |known| known.listing.tag = ConversationTag::Tagged("later".to_owned()));
    let [line] = &lines(&rig).await[..] else { panic!("one line") };
    assert_eq!((line.resource.as_str(), line.title.as_str(), line.provider.as_str()), (FOUND, "message 1", "claude"));
    assert_eq!(line.created_at, "2026-01-01T00:00:00.000Z");
    assert_eq!(line.modified_at, "2027-01-15T08:00:00.001Z");
    assert_eq!(line.default_chat.as_deref(), Some(&*hostler_engine::default_chat_uri(FOUND)));
    assert_eq!(line.working_directories.as_ref().unwrap().len(), 1);
    let meta = json!(line.meta);
    assert_eq!(meta, json!({"hostler": {"external": true, "tag": "later"}}));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn added_changed_and_removed_external_sessions_are_published() {
    let archive = empty();
    let rig = host(&archive).await;
    assert_eq!(titles(&rig).await, [""; 0]);
    let mut root = root(&rig).await;
    archive.add_conversation(id(), &std::env::temp_dir(), 1);
    rig.engine.scan_external_sessions().await;
    root.until("added").await;
    assert_eq!(root.added[0].resource, FOUND);
    archive.update_conversation(id(), |known| known.listing.title = "renamed there".to_owned());
    assert_eq!(titles(&rig).await, ["renamed there"]);
    root.until("changed").await;
    archive.remove_conversation(id());
    assert_eq!(titles(&rig).await, [""; 0]);
    root.until("removed").await;
    assert!(!rig.engine.has_session(FOUND));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn scan_without_changes_publishes_nothing() {
    let (rig, archive) = found(1, 1).await;
    rig.engine.scan_external_sessions().await;
    let mut root = root(&rig).await;
    rig.engine.scan_external_sessions().await;
    rig.engine.scan_external_sessions().await;
    archive.remove_conversation(id());
    rig.engine.scan_external_sessions().await;
    assert_eq!(root.next().await, "removed", "the first thing that is said");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn endless_scan_delays_only_external_sessions() {
    let archive = empty();
    archive.add_conversation(id(), &std::env::temp_dir(), 1);
    archive.set_listing_enabled(false);
    let rig = host(&archive).await;
    assert_eq!(rig.listed(), [""; 0], "the host has started all the same");
    rig.create(SESSION);
    assert!(rig.engine.has_session(SESSION));
    archive.set_listing_enabled(true);
    rig.engine.wait_for_initial_scan().await;
    assert_eq!(rig.listed(), [FOUND]);
    archive.set_listing_enabled(false);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn subscribe_right_after_the_start_waits_for_the_first_scan() {
    let archive = empty();
    archive.add_conversation(id(), &std::env::temp_dir(), 1);
    archive.set_listing_enabled(false);
    let rig = host(&archive).await;
    let mut listener = Listener::new(FOUND);
    let opening = rig.engine.subscribe(FOUND, &listener.subscriber, 2);
    let ((), opened) = tokio::join!(async { archive.set_listing_enabled(true) }, opening);
    opened.unwrap();
    listener.snapshot().await;
    assert_eq!(listener.session.as_ref().unwrap().title, "message 1");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn conversation_of_a_stored_session_is_not_listed_separately() {
    let archive = empty();
    let mut rig = host(&archive).await;
    rig.talk().await;
    let ours = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    archive.add_conversation(ours, &std::env::temp_dir(), 1);
    assert_eq!(titles(&rig).await, ["hi"], "once, and by the name that it has here");
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, ["hi"], "after a restart, too");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn deleted_external_session_stays_deleted_without_an_import() {
    let (rig, archive) = found(1, 2).await;
    rig.engine.scan_external_sessions().await;
    let mut root = root(&rig).await;
    rig.engine.dispose_session(FOUND).await.unwrap();
    root.until("removed").await;
    assert_eq!(archive.external_conversation(id()), None, "the agent's record is gone");
    assert!(matches!(rig.engine.dispose_session(FOUND).await, Err(EngineError::SessionNotFound(_))));
    // The file is restored by another program.
    archive.add_conversation(id(), &std::env::temp_dir(), 2);
    assert_eq!(titles(&rig).await, [""; 0]);
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, [""; 0], "after a restart, too");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn deleting_an_imported_session_deletes_its_transcript() {
    let (rig, archive) = found(1, 2).await;
    rig.listen(FOUND).await;
    rig.engine.dispose_session(FOUND).await.unwrap();
    assert_eq!(archive.external_conversation(id()), None);
    archive.add_conversation(id(), &std::env::temp_dir(), 2);
    assert_eq!(titles(&rig).await, [""; 0]);
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, [""; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn undeletable_transcript_is_hidden() {
    let (rig, archive) = found(1, 2).await;
    rig.engine.scan_external_sessions().await;
    archive.update_conversation(id(), |known| {
        known.read_error = Some(TranscriptStoreError::Failed("the disk is read-only".to_owned()))
    });
    rig.engine.dispose_session(FOUND).await.unwrap();
    assert!(archive.external_conversation(id()).is_some());
    assert_eq!(titles(&rig).await, [""; 0]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn disposing_a_provisional_session_deletes_no_transcript() {
    let archive = empty();
    let rig = host(&archive).await;
    rig.create(SESSION);
    let ours = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    archive.add_conversation(ours, &std::env::temp_dir(), 1);
    rig.engine.dispose_session(SESSION).await.unwrap();
    assert!(archive.external_conversation(ours).is_some());
    assert_eq!(titles(&rig).await, ["message 1"], "it is somebody else's, and found");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_uri_with_another_spelling_deletes_no_transcript() {
    let (mut rig, archive) = found(1, 2).await;
    rig.engine.scan_external_sessions().await;
    let loud = format!("claude:/{}", FOUND.strip_prefix("claude:/").unwrap().to_uppercase());
    rig.create(&loud);
    let mut listener = rig.listen(&loud).await;
    rig.say(&loud, "t1", "hello").await;
    let start = rig.starts.next_start().await;
    assert!(matches!(start.spec.conversation, ConversationStart::New(ours) if ours != id()));
    let agent = start.succeed();
    agent.emit(DriverEvent::ResumeToken(ResumeToken("record-of-its-own".to_owned()))).await;
    agent.emit_answer(1, "an ", "answer").await;
    listener.until("chat/turnComplete").await;
    rig.engine.dispose_session(&loud).await.unwrap();
    assert!(archive.external_conversation(id()).is_some());
    assert_eq!(titles(&rig).await, ["message 1"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn conversation_with_a_running_external_turn_is_not_deleted() {
    for opened in [false, true] {
        let (rig, archive) = found(1, 2).await;
        rig.engine.scan_external_sessions().await;
        if opened {
            rig.listen(FOUND).await;
        }
        archive.update_conversation(id(), |known| known.external_activity = Some(ExternalActivity::Busy));
        let refused = rig.engine.dispose_session(FOUND).await.unwrap_err();
        assert!(refused.to_string().contains("another process is running a turn"), "{refused}");
        assert!(archive.external_conversation(id()).is_some());
        archive.update_conversation(id(), |known| known.external_activity = Some(ExternalActivity::Idle));
        rig.engine.dispose_session(FOUND).await.unwrap();
        assert_eq!(archive.external_conversation(id()), None);
        rig.engine.shutdown().await;
    }
}

#[tokio::test]
async fn session_with_a_new_transcript_is_deleted_with_it() {
    let archive = empty();
    let mut rig = host(&archive).await;
    let (mut listener, agent) = rig.ask().await;
    listener.until("session/ready").await;
    let ours = Uuid::try_parse(SESSION.strip_prefix("claude:/").unwrap()).unwrap();
    archive.add_conversation(ours, &std::env::temp_dir(), 1);
    let (_, deleted) = tokio::join!(agent.wait_closed(), rig.engine.dispose_session(SESSION));
    deleted.unwrap();
    assert_eq!(archive.external_conversation(ours), None);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_is_deleted_during_a_failing_import() {
    let (rig, archive) = found(1, 2).await;
    rig.engine.scan_external_sessions().await;
    let mut root = root(&rig).await;
    archive.allow_loads(0);
    let listener = Listener::new(FOUND);
    let (mut opening, mut deleting) =
        (Box::pin(rig.engine.subscribe(FOUND, &listener.subscriber, 2)), Box::pin(rig.engine.dispose_session(FOUND)));
    assert!(futures::poll!(opening.as_mut()).is_pending());
    assert!(futures::poll!(deleting.as_mut()).is_pending());
    archive.update_conversation(id(), |known| {
        known.read_error = Some(TranscriptStoreError::Failed("the disk is torn".to_owned()))
    });
    archive.allow_loads(usize::MAX);
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
async fn titles_are_synced_in_both_directions() {
    let (rig, archive) = found(1, 2).await;
    let mut listener = rig.listen(FOUND).await;
    let titled = |title: &str| json!({"type": "session/titleChanged", "title": title});
    rig.engine.dispatch(wish(FOUND, 1, titled("named here"), None)).await;
    listener.until("changed").await;
    while archive.external_conversation(id()).unwrap().custom_title.as_deref() != Some("named here") {
        tokio::task::yield_now().await;
    }
    assert_eq!(titles(&rig).await, ["named here"]);
    archive.update_conversation(id(), |known| known.listing.custom_title = Some("named there".to_owned()));
    rig.engine.scan_external_sessions().await;
    listener.until("session/titleChanged").await;
    listener.until("changed").await;
    assert_eq!(listener.session.as_ref().unwrap().title, "named there");
    // After a restart an unloaded session follows as well.
    let rig = rig.restart().await;
    assert_eq!(titles(&rig).await, ["named there"]);
    archive.update_conversation(id(), |known| known.listing.custom_title = Some("named again".to_owned()));
    let mut root = root(&rig).await;
    rig.engine.scan_external_sessions().await;
    root.until("changed").await;
    assert_eq!(titles(&rig).await, ["named again"]);
    assert_eq!(
        archive.external_conversation(id()).unwrap().custom_title.as_deref(),
        Some("named again"),
        "nobody wrote it back"
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn rename_succeeds_although_the_transcript_cannot_be_written() {
    let (rig, archive) = found(1, 2).await;
    let mut listener = rig.listen(FOUND).await;
    archive.remove_conversation(id());
    let titled = json!({"type": "session/titleChanged", "title": "mine"});
    rig.engine.dispatch(wish(FOUND, 1, titled, None)).await;
    listener.until("changed").await;
    assert_eq!(titles(&rig).await, ["mine"], "a session that was opened stays, without its record");
    rig.engine.shutdown().await;
}

fn tag_of(line: &SessionSummary) -> Value {
    json!(line.meta)["hostler"]["tag"].clone()
}

#[tokio::test]
async fn external_session_is_tagged_without_an_import() {
    let (rig, archive) = found(1, 2).await;
    rig.engine.wait_for_initial_scan().await;
    let mut root = root(&rig).await;
    rig.engine.tag_session(FOUND, Some(" later ")).await.unwrap();
    assert_eq!(archive.external_conversation(id()).unwrap().tag.text(), Some("later"));
    root.until("changed").await;
    assert_eq!(tag_of(&lines(&rig).await[0]), "later");
    assert_eq!(json!(lines(&rig).await[0].meta)["hostler"]["external"], true);
    rig.engine.tag_session(FOUND, None).await.unwrap();
    assert_eq!(tag_of(&lines(&rig).await[0]), Value::Null);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn tag_of_an_open_session_is_published() {
    let (rig, archive) = found(1, 2).await;
    let mut listener = rig.listen(FOUND).await;
    rig.engine.tag_session(FOUND, Some("later")).await.unwrap();
    listener.until("session/metaChanged").await;
    assert_eq!(json!(listener.session.as_ref().unwrap().meta)["hostler"]["tag"], "later");
    let rig = rig.restart().await;
    assert_eq!(tag_of(&lines(&rig).await[0]), "later");
    archive.remove_conversation(id());
    let refused = rig.engine.tag_session(FOUND, None).await;
    assert!(matches!(refused, Err(EngineError::TranscriptStore(TranscriptStoreError::Missing))), "{refused:?}");
    rig.engine.shutdown().await;
}

/// A long transcript is not read as a whole at once.
#[tokio::test]
async fn unknown_tag_in_the_transcript_does_not_remove_the_tag() {
    let (rig, archive) = found(1, 2).await;
    let mut listener = rig.listen(FOUND).await;
    rig.engine.tag_session(FOUND, Some("later")).await.unwrap();
    listener.until("session/metaChanged").await;
    archive.update_conversation(id(), |known| known.listing.tag = ConversationTag::Unknown);
    assert_eq!(tag_of(&lines(&rig).await[0]), "later");
    let rig = rig.restart().await;
    assert_eq!(tag_of(&lines(&rig).await[0]), "later");
    let mut root = root(&rig).await;
    archive.update_conversation(id(), |known| known.listing.tag = ConversationTag::Untagged);
    rig.engine.scan_external_sessions().await;
    root.until("changed").await;
    assert_eq!(tag_of(&lines(&rig).await[0]), Value::Null);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn invalid_tag_or_session_is_refused() {
    let (rig, archive) = found(1, 2).await;
    for tag in ["", "  ", "two\nlines", "a\u{7}", &"x".repeat(101)] {
        let refused = rig.engine.tag_session(FOUND, Some(tag)).await;
        assert!(matches!(refused, Err(EngineError::InvalidParams(_))), "{tag:?}: {refused:?}");
    }
    assert_eq!(archive.external_conversation(id()).unwrap().tag, ConversationTag::Untagged);
    rig.engine.tag_session(FOUND, Some(&"ü".repeat(100))).await.unwrap();
    let unknown = rig.engine.tag_session(SESSION, Some("later")).await;
    assert!(matches!(unknown, Err(EngineError::SessionNotFound(_))), "{unknown:?}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn external_session_filter_applies() {
    let archive = empty();
    let days = [0u32, 3, 10, 400];
    for day in days {
        let id = Uuid::from_u128(1000 + u128::from(day));
        archive.add_conversation(id, &std::env::temp_dir(), 1);
        let modified = SystemTime::now() - Duration::from_secs(u64::from(day) * 24 * 60 * 60);
        archive.update_conversation(id, |known| {
            known.listing.modified = modified;
            known.listing.title = format!("{day} days");
        });
    }
    let rig = host(&archive).await;
    let all = ["0 days", "3 days", "10 days", "400 days"];
    assert_eq!(titles(&rig).await, all);
    let (subscriber, mut deliveries) = Subscriber::new(1000);
    rig.engine.subscribe(ROOT_CHANNEL_URI, &subscriber, 1).await.unwrap();
    let mut seq = 0;
    let mut choose = |word: Value| {
        seq += 1;
        let action = json!({"type": "root/configChanged", "config": {"showExternalSessions": word}});
        rig.engine.dispatch(wish(ROOT_CHANNEL_URI, seq, action, None))
    };
    choose(json!("last7Days")).await;
    assert_eq!(titles(&rig).await, ["0 days", "3 days"]);
    choose(json!("none")).await;
    assert_eq!(titles(&rig).await, [""; 0]);
    assert!(rig.engine.has_session(&format!("claude:/{}", Uuid::from_u128(1000))), "it can be opened all the same");
    choose(json!("sometimes")).await;
    assert_eq!(titles(&rig).await, [""; 0], "what is no such word changes nothing");
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
    let (_, archive) = found(1, 1).await;
    let show_external = Some(ExternalSessionFilter::None);
    let options = Options { archive: Some(archive), show_external, ..Options::default() };
    let rig = Rig::start_with(options).await;
    let action = json!({"type": "root/configChanged", "config": {"showExternalSessions": "all"}});
    rig.engine.dispatch(wish(ROOT_CHANNEL_URI, 1, action, None)).await;
    assert_eq!(titles(&rig).await, [""; 0]);
    rig.listen(FOUND).await;
    assert_eq!(titles(&rig).await, ["message 1"], "what was opened here is listed");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn five_thousand_conversations_are_listed_and_published() {
    let archive = empty();
    archive.set_listing_enabled(false);
    for number in 0..5000u128 {
        archive.add_conversation(Uuid::from_u128(number + 1), &std::env::temp_dir(), 0);
    }
    let rig = host(&archive).await;
    let (subscriber, mut deliveries) = Subscriber::new(16_384);
    rig.engine.subscribe(ROOT_CHANNEL_URI, &subscriber, 1).await.unwrap();
    archive.set_listing_enabled(true);
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
    let archive = FakeTranscriptStore::new(&config.join("projects"));
    let rig = host(&archive).await;
    rig.engine.wait_for_initial_scan().await;
    let mut root = root(&rig).await;
    archive.add_conversation(id(), dir.path(), 1);
    std::fs::create_dir_all(config.join("projects")).unwrap();
    root.until("added").await;
    // Then a directory in it, and a file in that one.
    let folder = config.join("projects").join("-p");
    std::fs::create_dir(&folder).unwrap();
    rig.engine.scan_external_sessions().await;
    archive.update_conversation(id(), |known| known.listing.title = "changed".to_owned());
    std::fs::write(folder.join("x.jsonl"), "x").unwrap();
    root.until("changed").await;
    rig.engine.shutdown().await;
}
