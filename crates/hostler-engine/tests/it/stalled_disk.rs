//! Sessions beside a stalled disk: what needs no disk is answered meanwhile.

use crate::common::{self, Listener, Rig, SESSION};
use futures::FutureExt as _;
use hostler_engine::{Dispatch, SnapshotTurns, default_chat_uri};
use hostler_testkit::fake_driver::FakeAgent;
use hostler_testkit::stalled_disk::{StalledDisk, run_with_stallable_disk};

/// A session with three completed turns, of which one is in memory, and a running one.
async fn long_session() -> (Rig, Listener, FakeAgent) {
    let (rig, mut listener, mut agent) = Rig::with_running_turn().await;
    for turn in ["t2", "t3", "t4"] {
        agent.emit_answer(1, "answer ", turn).await;
        listener.until("chat/turnComplete").await;
        rig.send_message(SESSION, turn, "more").await;
        agent.next_prompt().await;
    }
    (rig, listener, agent)
}

#[test]
fn subscription_that_reads_stored_turns_does_not_delay_a_cancel() {
    for (extent, count) in [(SnapshotTurns::All, 4), (SnapshotTurns::Last(1), 1), (SnapshotTurns::Last(3), 3)] {
        run_with_stallable_disk(async move {
            let (rig, mut listener, agent) = long_session().await;
            let chat = default_chat_uri(SESSION);
            let mut late = Listener::new(SESSION);
            let subscriber = late.subscriber.clone();
            let stall = StalledDisk::start().await;
            let mut subscribing = Box::pin(rig.engine.subscribe_with_turns(&chat, extent, &subscriber, 3));
            assert!((&mut subscribing).now_or_never().is_none(), "the request is in the session's mailbox");
            rig.cancel(SESSION, "t4").await;
            listener.until("chat/turnCancelled").await;
            agent.wait_interrupted().await;
            assert!((&mut subscribing).now_or_never().is_none(), "{extent:?} waits for the disk");
            drop(stall);
            subscribing.await.unwrap();
            late.snapshot().await;
            let (all, snapshot) = (listener.chat.as_ref().unwrap(), late.chat.as_ref().unwrap());
            assert_eq!(snapshot.turns, all.turns[4 - count..], "{extent:?}");
            assert_eq!(snapshot.turns_next_cursor.is_some(), count < 4, "{extent:?}");
            rig.engine.shutdown().await;
        });
    }
}

#[test]
fn repeated_dispatches_after_a_restart_do_not_delay_other_clients() {
    run_with_stallable_disk(async {
        let mut rig = Rig::start().await;
        drop(rig.engine.connect_client("me", "").await);
        rig.run_first_turn().await;
        let mut rig = rig.restart().await;
        let mut listener = rig.listen(SESSION).await;
        let started = |client: &str, turn: &str| Dispatch {
            client_id: client.into(),
            ..common::turn_started(SESSION, turn, "hi")
        };
        rig.engine.dispatch(started("you", "t2")).await;
        let mut agent = rig.starts.next_start().await.succeed();
        agent.next_prompt().await;
        let stall = StalledDisk::start().await;
        // Whether this client sent it before the restart is in the journal.
        let mut unknown = Box::pin(rig.engine.dispatch(Dispatch { client_seq: 7, ..started("me", "t3") }));
        assert!((&mut unknown).now_or_never().is_none());
        let cancelled = ahp_types::actions::ChatTurnCancelledAction { turn_id: "t2".into(), duration: 1, meta: None };
        let cancel = common::dispatch(SESSION, ahp_types::StateAction::ChatTurnCancelled(cancelled));
        rig.engine.dispatch(Dispatch { client_id: "you".into(), ..cancel }).await;
        listener.until("chat/turnCancelled").await;
        assert!((&mut unknown).now_or_never().is_none(), "it waits for the disk");
        drop(stall);
        unknown.await;
        listener.until("chat/turnStarted").await;
        rig.engine.shutdown().await;
    });
}

#[test]
fn lookups_for_a_dispatch_do_not_delay_a_cancel() {
    run_with_stallable_disk(async {
        let (rig, mut listener, agent) = long_session().await;
        agent.emit_answer(1, "answer ", "t4").await;
        listener.until("chat/turnComplete").await;
        let mut rig = rig.restart().await;
        let mut listener = rig.listen(SESSION).await;
        rig.send_message(SESSION, "t5", "more").await;
        let mut agent = rig.starts.next_start().await.succeed();
        agent.next_prompt().await;
        let stall = StalledDisk::start().await;
        // Whether a stored turn has this id is in the store.
        let mut started = Box::pin(rig.engine.dispatch(common::turn_started(SESSION, "t1", "again")));
        assert!((&mut started).now_or_never().is_none());
        let directory = format!("file://{}", rig.work.display());
        let add = serde_json::json!({"type": "session/workingDirectorySet", "directory": directory});
        let mut added = Box::pin(rig.engine.dispatch(common::dispatch_json(SESSION, 0, add, None)));
        assert!((&mut added).now_or_never().is_none());
        rig.cancel(SESSION, "t5").await;
        listener.until("chat/turnCancelled").await;
        agent.wait_interrupted().await;
        assert!((&mut started).now_or_never().is_none() && (&mut added).now_or_never().is_none(), "they wait");
        drop(stall);
        started.await;
        added.await;
        listener.until("chat/turnStarted rejected").await;
        rig.engine.shutdown().await;
    });
}
