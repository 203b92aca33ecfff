//! Watches live as long as their subscribers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Options, Rig, SESSION};
use hostler_engine::{EngineError, Subscriber, WatchResource};
use hostler_testkit::clock::ManualClock;

const UNHEARD: Duration = Duration::from_secs(30);

async fn watch(rig: &Rig) -> String {
    let uri = url::Url::from_file_path(&rig.work).unwrap().to_string();
    rig.engine.resources().watch(WatchResource { uri, ..WatchResource::default() }).await.unwrap()
}

#[tokio::test]
async fn watch_without_a_subscriber_ends_and_a_subscribed_one_stays() {
    let clock = ManualClock::new();
    let rig = Rig::start_with(Options { clock: Arc::new(clock.clone()), ..Options::default() }).await;
    rig.create(SESSION);
    let (subscriber, _deliveries) = Subscriber::new(16);
    let heard = watch(&rig).await;
    rig.engine.subscribe(&heard, &subscriber, 1).await.unwrap();
    clock.wait_for_sleeper(UNHEARD).await;
    clock.advance(UNHEARD);
    assert_eq!(watch(&rig).await, heard, "it is still there, and another one is going to hear it");
    rig.engine.unsubscribe(&heard, subscriber.id());
    rig.engine.subscribe(&heard, &subscriber, 2).await.expect("it waits for the other one");
    rig.engine.unsubscribe(&heard, subscriber.id());
    let gone = rig.engine.subscribe(&heard, &subscriber, 3).await;
    assert!(matches!(gone, Err(EngineError::ChannelNotFound(_))), "{gone:?}");

    let unheard = watch(&rig).await;
    assert_ne!(unheard, heard);
    clock.wait_for_sleeper(UNHEARD).await;
    clock.advance(UNHEARD);
    // The time to subscribe has passed: the watch is gone as soon as the timer has run.
    while watch(&rig).await == unheard {
        clock.advance(UNHEARD);
        tokio::task::yield_now().await;
    }
    assert!(rig.engine.subscribe(&unheard, &subscriber, 4).await.is_err());
    rig.engine.shutdown().await;
}
