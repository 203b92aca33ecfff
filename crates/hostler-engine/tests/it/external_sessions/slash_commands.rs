//! Slash commands: agents store them under ids of their own, so the next ones count as those that this host has sent.

use super::helpers::{append_turn, command, run_own_turn};
use super::{EXTERNAL_SESSION, expected, start_with_external_session, turns};

#[tokio::test]
async fn command_of_another_process_after_our_turn_is_external() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    let agent = run_own_turn(&mut rig, &transcript_store, &mut listener, None, 4).await;
    append_turn(&transcript_store, command(5, "/compact", "done"));
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    agent.wait_closed().await;
    assert_eq!(turns(&listener), [expected(1..=4), vec!["/compact: done".into()]].concat());
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn own_command_with_another_id_is_not_appended() {
    let (mut rig, transcript_store) = start_with_external_session(2, 3).await;
    let mut listener = rig.listen(EXTERNAL_SESSION).await;
    rig.send_message(EXTERNAL_SESSION, "t4", "/compact").await;
    let mut agent = rig.starts.next_start().await.succeed();
    agent.next_prompt().await;
    agent.emit_answer(1, "a", "b").await;
    listener.until("chat/turnComplete").await;
    append_turn(&transcript_store, command(4, "/compact", ""));
    rig.engine.scan_external_sessions().await;
    // The same text, written once more by another process.
    append_turn(&transcript_store, command(5, "/compact", "c"));
    rig.engine.scan_external_sessions().await;
    listener.until("chat/turnComplete").await;
    assert_eq!(turns(&listener), [expected(1..=3), vec!["/compact: ab".into(), "/compact: c".into()]].concat());
    rig.engine.shutdown().await;
}
