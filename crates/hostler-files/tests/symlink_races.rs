//! Links that are swapped during reads and changes: nothing outside is ever revealed, changed or moved. This is the
//! class of CVE-2026-25724 (a link that is swapped in after the check) and CVE-2026-39861 (a link in the path of a file
//! that is written).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use common::Place;
use hostler_files::{FileError, FileWrite, WriteMode};
use rustix::fs::{CWD, RenameFlags};

/// How often entries are swapped: at least the lower bound, then until both outcomes occurred.
const SWAPS: std::ops::Range<usize> = 3_000..300_000;

/// Swaps entries continuously while `act` runs.
fn race(swap: impl Fn() + Sync, mut act: impl FnMut(usize) -> Vec<Result<(), FileError>>) {
    let (over, both) = (AtomicBool::new(false), AtomicBool::new(false));
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..SWAPS.end {
                swap();
                if round >= SWAPS.start && both.load(Ordering::Acquire) {
                    break;
                }
            }
            over.store(true, Ordering::Release);
        });
        for round in 0.. {
            for answer in act(round) {
                *(if answer.is_ok() { &mut done } else { &mut refused }) += 1;
            }
            both.store(done > 0 && refused > 0, Ordering::Release);
            if over.load(Ordering::Acquire) {
                break;
            }
        }
    });
    assert!(done > 0 && refused > 0, "both were met: {done}, {refused}");
}

fn exchange(one: &Path, other: &Path) {
    rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
}

/// CVE-2026-25724: the file that is checked is the file that is read.
#[test]
fn file_swapped_for_a_link_is_never_read() {
    let place = Place::new();
    place.link(place.at("secret"), "one/other");
    race(
        || exchange(&place.at("one/sub"), &place.at("one/other")),
        |_| {
            let read = |name: &str| place.read(name).map(|contents| assert_eq!(contents, "inside", "{name}"));
            let listed = place.roots.list(&place.at("one/sub"), 9).map(|entries| {
                assert!(entries.iter().all(|entry| entry.name != "deep"), "{entries:?}");
            });
            vec![read("one/sub/file"), read("one/sub/../sub/file"), listed]
        },
    );
}

/// CVE-2026-39861: a parent is swapped several levels above the written file.
#[test]
fn parent_swapped_for_a_link_is_never_written_through() {
    let place = Place::new();
    place.mkdir("one/up/middle/deep").unwrap();
    fs_err::create_dir_all(place.at("secret/middle/deep")).unwrap();
    place.link(place.at("secret"), "one/other");
    let before = place.outside();
    race(
        || exchange(&place.at("one/up"), &place.at("one/other")),
        |round| {
            vec![
                place.put("one/up/middle/deep/file", "new"),
                place.write(
                    format!("one/up/middle/new-{round}"),
                    FileWrite { create_only: true, ..FileWrite::default() },
                ),
                place.mkdir(format!("one/up/middle/deep/made-{round}")),
                place.copy("two/file", "one/up/middle/deep/copy", false),
                place.rename("one/up/middle/deep/copy", "one/up/middle/deep/moved", false),
                place.remove("one/up/middle/deep/moved", false),
            ]
        },
    );
    assert_eq!(place.outside(), before);
}

#[test]
fn directory_swapped_for_a_link_is_never_written_through() {
    let place = Place::new();
    place.link(place.at("secret"), "one/other");
    let before = place.outside();
    race(
        || exchange(&place.at("one/sub"), &place.at("one/other")),
        |round| {
            vec![
                place.put("one/sub/file", "new"),
                place.write(format!("one/sub/new-{round}"), FileWrite { create_only: true, ..FileWrite::default() }),
                place.mkdir(format!("one/sub/made-{round}/deep")),
                place.copy("two/file", "one/sub/copy", false),
                place.rename("one/sub/copy", "one/sub/moved", false),
                place.remove("one/sub/moved", false),
                place.remove("one/sub/deep", true),
            ]
        },
    );
    assert_eq!(place.outside(), before);
}

#[test]
fn file_swapped_for_a_link_is_never_written_through() {
    let place = Place::new();
    place.link(place.at("secret/file"), "one/other");
    let before = place.outside();
    race(
        || {
            let (file, other) = (place.at("one/file"), place.at("one/other"));
            // The exchange may fail while a write replaces one of the files.
            let _ = rustix::fs::renameat_with(CWD, file, CWD, other, RenameFlags::EXCHANGE);
        },
        |_| {
            vec![
                place.put("one/file", "new"),
                place.write("one/file", FileWrite { data: b"x", mode: WriteMode::Append, ..FileWrite::default() }),
                place.write("one/other", FileWrite { if_match: Some("none"), ..FileWrite::default() }),
            ]
        },
    );
    assert_eq!(place.outside(), before);
}

#[test]
fn tree_with_swapped_directories_never_copies_outside_files() {
    let place = Place::new();
    place.mkdir("one/tree/sub").unwrap();
    place.link(place.at("secret"), "one/tree/other");
    let before = place.outside();
    race(
        || exchange(&place.at("one/tree/sub"), &place.at("one/tree/other")),
        |_| {
            let answers = vec![place.copy("one/tree", "two/tree", false), place.copy("one/tree/sub", "two/tree", true)];
            if answers[0].is_ok() {
                assert!(!place.contents_of("two").values().any(|entry| entry == "outside"));
            }
            answers
        },
    );
    // This removes the link or the directory, whichever has the name at that moment, and never the link's target.
    place.remove("one/tree", true).unwrap();
    assert_eq!(place.outside(), before);
}
