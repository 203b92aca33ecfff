//! Attachments that refer to something instead of containing it.

use std::os::unix::fs::symlink;

use ahp_types::state::MessageAttachment;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_attachments::AttachmentBlock;
use hostler_driver::Prompt;
use hostler_engine::{ClientFileError, ClientFileReader, DirectoryListing, default_chat_uri};
use serde_json::{Value, json};

use crate::attachments::helpers::{png, resource, starts, with};
use crate::common::{Listener, Rig, SESSION};

async fn rig() -> (Rig, Listener) {
    let (rig, listener) = Rig::with_session().await;
    std::fs::write(rig.work.join("shot.png"), png()).unwrap();
    std::fs::write(rig.work.join("main.rs"), "one\ntwo\nthree\n").unwrap();
    std::fs::create_dir(rig.work.join("src")).unwrap();
    std::fs::write(rig.state.join("outside.txt"), "SECRET").unwrap();
    symlink(rig.state.join("outside.txt"), rig.work.join("link.txt")).unwrap();
    (rig, listener)
}

impl Rig {
    fn file(&self, name: &str) -> Value {
        resource(name, url::Url::from_file_path(self.work.join(name)).unwrap().as_str())
    }

    async fn sent(&mut self, attached: &[Value]) -> Prompt {
        self.attach(starts("t1", with("look", attached))).await;
        self.starts.next_start().await.succeed().next_full_prompt().await
    }
}

fn text(block: &AttachmentBlock) -> &str {
    match block {
        AttachmentBlock::Text { text, .. } | AttachmentBlock::References(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn image_in_the_working_directory_is_sent_and_other_files_are_named() {
    let (mut rig, mut listener) = rig().await;
    let mut selection = rig.file("main.rs");
    let (start, end) = (json!({ "line": 1, "character": 0 }), json!({ "line": 1, "character": 3 }));
    selection["selection"] = json!({ "range": { "start": start, "end": end } });
    let prompt = rig.sent(&[rig.file("shot.png"), rig.file("src"), selection]).await;
    let blocks = prompt.blocks();
    assert!(matches!(&blocks[0], AttachmentBlock::Image { data, .. } if **data == *png()));
    let named: String = blocks[1..].iter().map(text).collect();
    let path = |name: &str| rig.work.canonicalize().unwrap().join(name).display().to_string();
    assert!(named.contains(&path("src")) && named.contains(&path("main.rs")), "{named}");
    listener.until("chat/turnStarted").await;
    let shown = serde_json::to_value(listener.attached()).unwrap();
    assert_eq!(shown[0]["uri"], rig.file("shot.png")["uri"], "the URI of the client does not change");
    assert_eq!(shown[0]["_meta"]["hostler"]["decision"], "send");
    assert_eq!(shown[2]["_meta"]["hostler"]["decision"], "send");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn inaccessible_and_invalid_references_are_refused_with_reasons() {
    let (rig, mut listener) = rig().await;
    let outside = url::Url::from_file_path(rig.state.join("outside.txt")).unwrap();
    for (attached, code, expected) in [
        (resource("o", outside.as_str()), "attachment_path_unsafe", "add its directory to the session"),
        (rig.file("link.txt"), "attachment_path_unsafe", "add its directory to the session"),
        (rig.file("gone.txt"), "attachment_artifact_missing", "no such file"),
        (resource("odd", "not a uri"), "attachment_type_unsupported", "not a URI"),
        (resource("odd", "file://elsewhere/x"), "attachment_type_unsupported", "not a path on this host"),
        (resource("mine", "vscode-agent-client://me/x"), "attachment_transport_failed", "is disconnected"),
        (json!({ "type": "hologram", "label": "h" }), "attachment_type_unsupported", "does not support this type"),
    ] {
        rig.attach(starts("t1", with("look", &[attached]))).await;
        let reason = listener.refusal().await;
        assert!(reason.contains(code) && reason.contains(expected), "{expected}: {reason}");
        assert!(!reason.contains("SECRET") && !reason.contains(rig.state.to_str().unwrap()), "{reason}");
    }
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn text_for_the_model_is_sent_unchanged_and_a_bare_name_as_a_name() {
    let (mut rig, mut listener) = rig().await;
    let simple = json!({ "type": "simple", "label": "Terminal", "modelRepresentation": "$ ls\na b" });
    let prompt = rig.sent(&[simple, json!({ "type": "simple", "label": "Branch" })]).await;
    assert_eq!(text(&prompt.blocks()[0]), "$ ls\na b");
    assert!(text(&prompt.blocks()[1]).contains("\"Branch\""));
    listener.until("chat/turnStarted").await;
    assert!(
        matches!(&listener.attached()[0], MessageAttachment::Simple(simple) if simple.model_representation.is_some())
    );
    rig.engine.shutdown().await;
}

const OTHER: &str = "claude:/11111111-8f2b-4a36-9f61-0e8f2b4a369f";

#[tokio::test]
async fn chat_transcript_is_attached_up_to_a_completed_turn() {
    let (mut rig, mut listener) = rig().await;
    rig.create(OTHER);
    let mut other = rig.listen(OTHER).await;
    rig.send_message(OTHER, "o1", "what is six times seven").await;
    let agent = rig.starts.next_start().await.succeed();
    agent.emit_answer(1, "forty-", "two").await;
    other.until("chat/turnComplete").await;
    rig.send_message(OTHER, "o2", "and now").await;
    other.until("chat/turnStarted").await;

    let chat = |end: Option<&str>| json!({ "type": "chat", "label": "Maths", "resource": default_chat_uri(OTHER), "endTurn": end });
    for (attached, expected) in [
        (chat(Some("o2")), "no such completed turn"),
        (chat(Some("nope")), "no such completed turn"),
        (json!({ "type": "chat", "label": "Maths", "resource": "ahp-chat://default/nope" }), "the chat does not exist"),
    ] {
        rig.attach(starts("t1", with("", &[attached]))).await;
        let reason = listener.refusal().await;
        assert!(reason.contains(expected) && reason.contains("attachment_artifact_missing"), "{reason}");
    }
    let mut open_end = chat(None);
    open_end.as_object_mut().unwrap().remove("endTurn");
    let prompt = rig.sent(&[open_end]).await;
    let block = text(&prompt.blocks()[0]);
    assert!(block.contains("six times seven") && block.contains("forty-two") && !block.contains("and now"), "{block}");
    listener.until("chat/turnStarted").await;
    assert!(matches!(&listener.attached()[0], MessageAttachment::Chat(chat) if chat.end_turn.as_deref() == Some("o1")));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn annotations_are_attached_as_a_document_and_unknown_ones_refused() {
    let (mut rig, mut listener) = rig().await;
    let channel = hostler_engine::annotations_uri(SESSION);
    let annotation = json!({ "id": "a", "origin": { "session": SESSION }, "resource": "file:///w/main.rs", "resolved": false,
                             "entries": [{ "id": "1", "text": "Why twice?" }] });
    let set = json!({ "type": "annotations/set", "annotation": annotation });
    rig.engine.dispatch(crate::common::dispatch_json(&channel, 0, set, None)).await;
    let attached = |resource: &str, ids: &[&str]| json!({ "type": "annotations", "label": "Notes", "resource": resource, "annotationIds": ids });
    for (attached, expected) in [
        (attached(&channel, &["a", "x"]), "no annotation"),
        (attached(&channel, &[]), "no annotations to attach"),
        (attached(&hostler_engine::annotations_uri(OTHER), &["a"]), "the annotations belong to another session"),
    ] {
        rig.attach(starts("t1", with("", &[attached]))).await;
        let reason = listener.refusal().await;
        assert!(reason.contains(expected) && reason.contains("attachment_artifact_missing"), "{reason}");
    }
    let prompt = rig.sent(&[attached(&channel, &["a"])]).await;
    assert_eq!(text(&prompt.blocks()[0]), "file:///w/main.rs:\n- Why twice?\n");
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn chat_without_completed_turns_can_be_attached() {
    let (mut rig, _listener) = rig().await;
    let own = json!({ "type": "chat", "label": "This", "resource": default_chat_uri(SESSION) });
    assert_eq!(text(&rig.sent(&[own]).await.blocks()[0]), "");
    rig.engine.shutdown().await;
}

/// A client with one file that is larger than the requested size.
struct TooMuch;

impl ClientFileReader for TooMuch {
    fn read<'a>(&'a self, _: &'a str, most: usize) -> BoxFuture<'a, Result<Vec<u8>, ClientFileError>> {
        async move { Ok(vec![b'x'; most + 1]) }.boxed()
    }

    fn list<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, Result<Option<DirectoryListing>, ClientFileError>> {
        async { Ok(None) }.boxed()
    }
}

#[tokio::test]
async fn fetched_contents_over_the_requested_size_are_refused() {
    let (rig, mut listener) = rig().await;
    rig.attach_from(starts("t1", with("look", &[resource("big", "client:/big")])), &TooMuch).await;
    assert!(listener.refusal().await.contains("attachment_too_large"));
    rig.engine.shutdown().await;
}
