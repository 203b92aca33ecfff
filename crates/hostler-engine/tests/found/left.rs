//! What an earlier life of the host has left undone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostler_driver::ArchiveError;
use hostler_engine::Extent;
use hostler_testkit::clock::ManualClock;

use super::common::Options;
use super::{FOUND, expected, found, found_by, id, turns, viewer};

fn with(clock: &ManualClock) -> Options {
    Options { clock: Arc::new(clock.clone()), ..Options::default() }
}

#[tokio::test]
async fn what_was_taken_in_in_part_is_taken_in_by_the_next_life_although_nobody_opens_it() {
    let clock = ManualClock::new();
    let (rig, archive) = found_by(2, 300, with(&clock)).await;
    archive.allow(1);
    drop(viewer(&rig, Extent::Last(2)).await);
    archive.told().await;
    let rig = rig.restart().await;
    clock.somebody_sleeps(Duration::from_secs(10)).await;
    // As many pieces as there are.
    archive.allow(5);
    clock.advance(Duration::from_secs(10));
    archive.told().await;
    let listener = rig.listen(FOUND).await;
    archive.remove(id());
    assert_eq!(turns(&listener), expected(1..=300));
    rig.engine.shutdown().await;
}

#[tokio::test]
async fn a_record_that_could_not_be_removed_is_removed_by_the_next_life() {
    let (rig, archive) = found(1, 2).await;
    rig.engine.look_at_archives().await;
    archive.change(id(), |known| known.broken = Some(ArchiveError::Failed("the disk is read-only".to_owned())));
    rig.engine.dispose_session(FOUND).await.unwrap();
    assert!(archive.found(id()).is_some());
    archive.change(id(), |known| known.broken = None);
    let rig = rig.restart().await;
    while archive.found(id()).is_some() {
        tokio::task::yield_now().await;
    }
    // Once it is gone, what somebody brings back is that person's.
    archive.put(id(), Path::new("/"), 2);
    let rig = rig.restart().await.restart().await;
    rig.engine.sessions_are_found().await;
    assert!(archive.found(id()).is_some());
    assert_eq!(rig.listed(), [""; 0]);
    rig.engine.shutdown().await;
}
