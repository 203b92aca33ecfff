//! Drafts with attachments.

use ahp_types::StateAction;
use ahp_types::actions::ChatDraftChangedAction;
use ahp_types::state::Message;
use serde_json::json;

use crate::attachments::helpers::{embedded, png, resource, starts, with};
use crate::common::{Options, Rig, SESSION};

fn draft(message: Message) -> StateAction {
    StateAction::ChatDraftChanged(ChatDraftChangedAction { draft: Some(message) })
}

#[tokio::test]
async fn draft_refers_to_its_attachments_and_becomes_a_message() {
    let (mut rig, mut listener) = Rig::with_session().await;
    // An unsupported file, and one that only the client has: both are accepted in a draft, which is not sent yet.
    let odd = embedded("odd.bin", &[0xff, 0x00, 0xfe]);
    let remote = resource("mine.txt", "client:/mine.txt");
    rig.attach(draft(with("still writing", &[embedded("shot.png", &png()), odd, remote.clone()]))).await;
    listener.until("chat/draftChanged").await;
    let shown = listener.chat.as_ref().unwrap().draft.clone().unwrap();
    let attached = serde_json::to_value(&shown.attachments).unwrap();
    assert_eq!(attached[0]["contentType"], "application/octet-stream");
    assert_eq!(attached[2], remote);
    let contents = rig.engine.content(attached[0]["uri"].as_str().unwrap()).await.unwrap();
    assert_eq!(contents.body, png());
    assert!(!listener.actions.contains("\"data\""));

    let first = attached[0].clone();
    rig.attach(starts("t1", with("done", &[first]))).await;
    let mut agent = rig.starts.next_start().await.succeed();
    assert_eq!(agent.next_full_prompt().await.blocks().len(), 1);
    listener.until("chat/turnStarted").await;
    assert_eq!(serde_json::to_value(listener.attached()).unwrap()[0]["contentType"], "image/png");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn oversized_or_unreadable_draft_is_refused() {
    let mut options = Options::default();
    options.attachments.total_bytes = 100;
    let rig = Rig::start_with(options).await;
    rig.create(SESSION);
    let mut listener = rig.listen(SESSION).await;
    rig.attach(draft(with("", &[embedded("a.txt", &[b'x'; 80]), embedded("b.txt", &[b'x'; 80])]))).await;
    let reason = listener.refusal().await;
    assert!(reason.contains("b.txt") && reason.contains("attachment_too_large"), "{reason}");
    let many = vec![resource("a", "ahp-content:/0000"); 21];
    rig.attach(draft(with("", &many))).await;
    assert!(listener.refusal().await.contains("a message can have at most 20 files, and this one has 21"));
    let broken = json!({ "type": "embeddedResource", "label": "c", "data": "%", "contentType": "text/plain" });
    rig.attach(draft(with("", &[broken]))).await;
    assert!(listener.refusal().await.contains("attachment_corrupt"));
    let long = json!({ "type": "simple", "label": "d", "modelRepresentation": "x".repeat(300 * 1024) });
    rig.attach(draft(with("", std::slice::from_ref(&long)))).await;
    assert!(listener.refusal().await.contains("attachment_too_large"));
    rig.attach(starts("t1", with("", &[long]))).await;
    assert!(listener.refusal().await.contains("attach it as a file"));
    rig.engine.shutdown().await;
}
