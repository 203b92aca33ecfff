//! The transcript check reports problems and changes nothing.

use std::path::{Path, PathBuf};

use hostler_driver::{DriverEvent, ResumeToken, TranscriptStoreError};
use hostler_engine::{EngineError, TranscriptIssueKind};
use uuid::Uuid;

use super::{EXTERNAL_SESSION, id, start_with_external_session};
use crate::common::{Rig, SESSION};

/// The reported problems as lines, and how many conversations were read.
async fn wrong(rig: &Rig) -> (usize, Vec<String>) {
    let checkup = rig.engine.check_transcripts().await.unwrap();
    assert_eq!(checkup.omitted_issues, 0);
    let line = |finding: hostler_engine::TranscriptIssue| {
        let path = finding.path.map(|path| path.display().to_string());
        let subject = finding.session.or(path).unwrap();
        format!("{} {subject}: {}", finding.kind.as_str(), finding.problem)
    };
    (checkup.conversations, checkup.issues.into_iter().map(line).collect())
}

#[tokio::test]
async fn healthy_transcripts_yield_no_findings() {
    let (rig, _transcript_store) = start_with_external_session(1, 3).await;
    assert_eq!(wrong(&rig).await, (1, Vec::new()));
    rig.listen(EXTERNAL_SESSION).await;
    assert_eq!(wrong(&rig).await, (1, Vec::new()), "an imported session is read once");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn damage_is_reported_per_transcript_and_others_are_read() {
    let (rig, transcript_store) = start_with_external_session(1, 3).await;
    let torn = Uuid::from_u128(2);
    transcript_store.add_conversation(torn, Path::new("/"), 1);
    transcript_store.update_conversation(torn, |known| {
        known.read_error = Some(TranscriptStoreError::Failed("the disk is torn".to_owned()))
    });
    transcript_store.add_conversation(Uuid::from_u128(3), Path::new("/"), 1);
    transcript_store.update_conversation(id(), |known| {
        known.damage = vec!["line 2 is not a record".to_owned(), "5 bytes more".to_owned()]
    });
    transcript_store
        .add_unreadable_file(&PathBuf::from(format!("/p/{}.jsonl", Uuid::from_u128(4))), "permission denied");
    transcript_store.add_unreadable_file(Path::new("/p/locked"), "permission denied");
    let (conversations, mut lines) = wrong(&rig).await;
    lines.sort();
    assert_eq!(conversations, 3);
    assert_eq!(
        lines,
        [
            &format!("damaged {EXTERNAL_SESSION}: 5 bytes more"),
            &format!("damaged {EXTERNAL_SESSION}: line 2 is not a record"),
            "unreadable /p/locked: it cannot be read: permission denied",
            "unreadable claude:/00000000-0000-0000-0000-000000000002: failed to access the agent's transcript: the disk is torn",
            "unreadable claude:/00000000-0000-0000-0000-000000000004: it cannot be read: permission denied",
        ]
    );
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_with_a_missing_transcript_is_reported_also_after_a_restart() {
    let (rig, transcript_store) = start_with_external_session(1, 3).await;
    rig.listen(EXTERNAL_SESSION).await;
    transcript_store.remove_conversation(id());
    let gone =
        format!("missing {EXTERNAL_SESSION}: the transcript is missing: the session can be read, but not continued");
    assert_eq!(wrong(&rig).await, (0, vec![gone.clone()]));
    let rig = rig.restart().await;
    assert_eq!(wrong(&rig).await, (0, vec![gone]));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn session_without_a_confirmed_transcript_is_not_reported() {
    let (mut rig, transcript_store) = start_with_external_session(1, 1).await;
    let (mut listener, agent) = rig.start_first_turn().await;
    assert_eq!(wrong(&rig).await, (1, Vec::new()), "it works");
    agent.emit_answer(1, "hel", "lo").await;
    listener.until("session/chatUpdated").await;
    assert_eq!(wrong(&rig).await, (1, Vec::new()), "and has written nothing");
    let token = format!("record-{}", Uuid::from_u128(9));
    agent.emit(DriverEvent::ResumeToken(ResumeToken(token))).await;
    let missing = loop {
        let checkup = rig.engine.check_transcripts().await.unwrap();
        if let [finding] = &checkup.issues[..] {
            break finding.clone();
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((missing.kind, missing.session.as_deref()), (TranscriptIssueKind::Missing, Some(SESSION)));
    transcript_store.add_conversation(Uuid::from_u128(9), Path::new("/"), 1);
    assert_eq!(wrong(&rig).await, (2, Vec::new()));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn reappeared_transcript_of_a_deleted_session_is_reported_and_not_read() {
    let (rig, transcript_store) = start_with_external_session(1, 3).await;
    rig.engine.scan_external_sessions().await;
    rig.engine.dispose_session(EXTERNAL_SESSION).await.unwrap();
    assert_eq!(wrong(&rig).await, (0, Vec::new()));
    transcript_store.add_conversation(id(), Path::new("/"), 3);
    let back = format!("deleted {EXTERNAL_SESSION}: the session was deleted, but its transcript still exists");
    assert_eq!(wrong(&rig).await, (0, vec![back]));
    assert!(transcript_store.external_conversation(id()).is_some(), "nothing is changed");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn many_findings_are_truncated_and_counted() {
    let (rig, transcript_store) = start_with_external_session(1, 1).await;
    for number in 0..1500 {
        transcript_store.add_unreadable_file(Path::new(&format!("/p/{number}")), "no");
    }
    let checkup = rig.engine.check_transcripts().await.unwrap();
    assert_eq!((checkup.issues.len(), checkup.omitted_issues, checkup.conversations), (1000, 500, 1));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn check_of_an_unresponsive_transcript_store_ends_with_the_host() {
    let (rig, transcript_store) = start_with_external_session(1, 1).await;
    rig.engine.wait_for_initial_scan().await;
    transcript_store.set_listing_enabled(false);
    let engine = rig.engine.clone();
    let checkup = tokio::spawn(async move { engine.check_transcripts().await });
    rig.engine.shutdown().await;
    assert!(matches!(checkup.await.unwrap(), Err(EngineError::Stopping)));
}
