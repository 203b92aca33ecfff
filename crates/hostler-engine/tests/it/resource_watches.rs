//! Watches live as long as their subscribers.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Options, Rig, SESSION};
use hostler_engine::{EngineError, Subscriber, WatchResource};
use hostler_testkit::clock::ManualClock;

const UNSUBSCRIBED_LIFETIME: Duration = Duration::from_secs(30);

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
    let subscribed = watch(&rig).await;
    rig.engine.subscribe(&subscribed, &subscriber, 1).await.unwrap();
    clock.wait_for_sleeper(UNSUBSCRIBED_LIFETIME).await;
    clock.advance(UNSUBSCRIBED_LIFETIME);
    assert_eq!(watch(&rig).await, subscribed, "the watch still exists, and gets a second subscriber");
    rig.engine.unsubscribe(&subscribed, subscriber.id());
    rig.engine.subscribe(&subscribed, &subscriber, 2).await.expect("the watch waits for the second subscriber");
    rig.engine.unsubscribe(&subscribed, subscriber.id());
    let gone = rig.engine.subscribe(&subscribed, &subscriber, 3).await;
    assert!(matches!(gone, Err(EngineError::ChannelNotFound(_))), "{gone:?}");

    let unsubscribed = watch(&rig).await;
    assert_ne!(unsubscribed, subscribed);
    clock.wait_for_sleeper(UNSUBSCRIBED_LIFETIME).await;
    clock.advance(UNSUBSCRIBED_LIFETIME);
    // The time to subscribe has passed: the watch is gone as soon as the timer has run.
    while watch(&rig).await == unsubscribed {
        clock.advance(UNSUBSCRIBED_LIFETIME);
        tokio::task::yield_now().await;
    }
    assert!(rig.engine.subscribe(&unsubscribed, &subscriber, 4).await.is_err());
    rig.engine.shutdown().await;
}
