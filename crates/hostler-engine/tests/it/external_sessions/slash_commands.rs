//! Slash commands: agents store them under ids of their own, so they are recognized by their text.

use hostler_testkit::fake_transcript_store::FakeTurn;
use uuid::Uuid;

use super::helpers::{append_turn, command, run_own_turn};
use super::{EXTERNAL_SESSION, expected, start_with_external_session, turns};

#[tokio::test]
async fn command_of_another_process_after_our_turn_is_external() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    let command = command(5, "/compact", "done");
    append_turn(&transcript_store, command);
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    agent.wait_closed().await;
    assert_eq!(turns(&listener), [expected(1..=4), vec!["/compact: done".into()]].concat());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_command_is_recognized_after_a_restart_and_much_later() {
    let (mut rig, transcript_store) = start_with_external_session(1, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    rig.send_message(EXTERNAL_SESSION, "t4", "/compact  now").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let mut rig = rig.restart().await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    for n in 5..=6 {
        rig.send_message(EXTERNAL_SESSION, &format!("t{n}"), &format!("message {n}")).await;
        if n == 5 {
            agent = rig.starts.next_start().await.succeed();
        }
        agent.next_prompt().await;
        agent.emit_answer(n, "answer ", &n.to_string()).await;
        listener.until("chat/turnComplete").await;
    }
    // It is written only now; and once more by another process.
    for (n, answer) in [(7, "ab"), (8, "theirs")] {
        let command = command(n, "/compact now", answer);
        append_turn(&transcript_store, command);
    }
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener)[6..], ["/compact now: theirs"]);
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn command_with_another_id_is_recognized_by_its_text() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    rig.send_message(EXTERNAL_SESSION, "t4", "/compact").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    let command = FakeTurn::new(4, "/compact", "").with_message_id(Some(Uuid::new_v4()));
    append_turn(&transcript_store, command);
    // The same text, written once more by another process.
    append_turn(&transcript_store, FakeTurn::new(5, "/compact", "c"));
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), [expected(1..=3), vec!["/compact: ab".into(), "/compact: c".into()]].concat());
    rig.engine.shutdown().await;
}
