//! Messages that are rejected because of their attachments.

use ahp_types::state::{ModelSelection, PendingMessageKind};
use serde_json::json;

use crate::attachments::helpers::{embedded, pending, png, resource, starts, with};
use crate::common::{Options, Rig, SESSION};

#[tokio::test]
async fn invalid_files_reject_the_whole_message_and_are_named() {
    let mut attached = vec![
        embedded("a.png", &png()),
        embedded("dir/b.bin", &[0xff, 0xfe, 0x00, 0x80, 0xc0]),
        embedded("c.txt", b"fine"),
        json!({ "type": "embeddedResource", "label": "d.png", "data": "%%%", "contentType": "image/png" }),
        json!({ "type": "annotations", "label": "e", "resource": "ahp-session:/x/annotations" }),
    ];
    let (mut rig, mut listener) = Rig::begun_with(&attached).await;
    let reason = listener.refusal().await;
    for expected in [
        "b.bin",
        "d.png",
        "attachment_corrupt",
        "e: the annotations belong to another session",
        "attachment_artifact_missing",
    ] {
        assert!(reason.contains(expected), "{expected} in {reason}");
    }
    assert!(!reason.contains("dir/") && !reason.contains("a.png") && !reason.contains("c.txt"), "{reason}");
    assert_eq!(rig.starts.open_count(), 0);
    assert!(!rig.listed().contains(&SESSION.to_owned()));
    assert!(listener.chat.as_ref().unwrap().active_turn.is_none());

    // The corrected message is accepted.
    attached.retain(|attachment| ["a.png", "c.txt"].contains(&attachment["label"].as_str().unwrap()));
    rig.attach(starts("t1", with("look", &attached))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_full_prompt().await.blocks().len(), 2);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_with_unprepared_attachments_is_rejected() {
    let (rig, mut listener) = Rig::with_session().await;
    let action = starts("t1", with("look", &[embedded("a.png", &png())]));
    rig.engine.dispatch(crate::common::dispatch(SESSION, action)).await;
    assert!(listener.refusal().await.contains("were not prepared"));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn too_many_files_or_bytes_are_refused_before_planning() {
    let mut options = Options::default();
    (options.attachments.files, options.attachments.total_bytes) = (2, 200);
    let rig = Rig::start_with(options).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    let one = embedded("a.txt", &[b'x'; 120]);
    rig.attach(starts("t1", with("", &[one.clone(), one.clone(), one.clone()]))).await;
    let reason = listener.refusal().await;
    assert!(reason.contains("2 files") && reason.contains("attachment_too_large"), "{reason}");
    rig.attach(starts("t1", with("", &[one.clone(), one]))).await;
    let reason = listener.refusal().await;
    assert!(reason.contains("200 bytes") && reason.contains("attachment_too_large"), "{reason}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn message_over_the_agent_limit_is_refused() {
    let (mut rig, mut listener) = Rig::with_session().await;
    // As the fake agent counts: the text and the image.
    let size = "look".len() + png().len();
    rig.starts.set_max_prompt_bytes(size - 1);
    rig.attach(starts("t1", with("look", &[embedded("a.png", &png())]))).await;
    let reason = listener.refusal().await;
    let sentence = format!("would have {size} bytes, and the agent accepts at most {}", size - 1);
    assert!(reason.contains(&sentence) && reason.contains("attachment_payload_too_large"), "{reason}");
    rig.starts.set_max_prompt_bytes(size);
    rig.attach(starts("t1", with("look", &[embedded("a.png", &png())]))).await;
    rig.starts.next_start().await.succeed().next_prompt().await;
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn missing_blob_is_refused_with_a_reason() {
    let gone = resource("old.png", "ahp-content:/0000");
    let (rig, mut listener) = Rig::begun_with(std::slice::from_ref(&gone)).await;
    let reason = listener.refusal().await;
    assert!(reason.contains("old.png") && reason.contains("attachment_artifact_missing"), "{reason}");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn turn_with_a_lost_blob_fails_with_its_name_and_the_session_continues() {
    let (rig, mut listener, _agent) = Rig::with_running_turn().await;
    rig.attach(pending(PendingMessageKind::Queued, "q", with("look", &[embedded("a.png", &png())]))).await;
    listener.until("chat/pendingMessageSet").await;
    rig.engine.shutdown().await;
    let store = rusqlite::Connection::open(rig.state.join("hostler.db")).unwrap();
    assert_eq!(store.execute("DELETE FROM blobs", []).unwrap(), 1);
    let mut rig = rig.crash().await;
    let mut listener = rig.listen(SESSION).await;
    rig.send_message(SESSION, "t2", "go on").await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_prompt().await, "go on");
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/error attachment_artifact_missing").await;
    assert_eq!(listener.attached().len(), 1, "the message stays");
    rig.send_message(SESSION, "t3", "still there?").await;
    assert_eq!(agent.next_prompt().await, "still there?");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn images_for_a_model_without_vision_reject_the_message() {
    let (mut rig, mut listener) = Rig::with_session().await;
    let attached = [embedded("a.png", &png()), embedded("c.txt", b"fine")];
    let mut message = with("look", &attached);
    message.model = Some(ModelSelection { id: "blind".to_owned(), config: None });
    rig.attach(starts("t1", message)).await;
    let reason = listener.refusal().await;
    assert!(reason.contains("a.png: Blind does not support images"), "{reason}");
    assert!(reason.contains("attachment_model_unsupported") && !reason.contains("c.txt"), "{reason}");
    assert_eq!(rig.starts.open_count(), 0);

    rig.attach(starts("t1", with("look", &attached))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_full_prompt().await.blocks().len(), 2, "another model takes them");
    rig.engine.shutdown().await;
}
