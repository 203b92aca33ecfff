//! Writes replace a file in one step, at the requested position, and only over the version that the caller has seen.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::Barrier;
use std::time::{Duration, SystemTime};

use common::{MAX_FILE_BYTES, Place, outcome};
use hostler_files::{EntryKind, FileError, FileWrite, WriteMode, is_temp_name};

fn placed(mode: WriteMode, position: u64) -> FileWrite<'static> {
    FileWrite { data: b"XY", mode, position, ..FileWrite::default() }
}

#[test]
fn write_mode_and_position_select_the_offset() {
    use WriteMode::{Append, Insert, Truncate};
    for (mode, position, expected) in [
        (Truncate, 0, "XY"),
        (Truncate, 2, "inXY"),
        (Truncate, 6, "insideXY"),
        (Truncate, 99, "insideXY"),
        (Append, 0, "insideXY"),
        (Append, 2, "insiXYde"),
        (Append, 6, "XYinside"),
        (Append, u64::MAX, "XYinside"),
        (Insert, 0, "XYinside"),
        (Insert, 2, "inXYside"),
        (Insert, 6, "insideXY"),
        (Insert, u64::MAX, "insideXY"),
    ] {
        let place = Place::new();
        place.write("one/file", placed(mode, position)).unwrap();
        assert_eq!(place.text("one/file"), expected, "{mode:?} {position}");
        place.write("one/new", placed(mode, position)).unwrap();
        assert_eq!(place.text("one/new"), "XY", "{mode:?} {position} of nothing");
    }
}

#[test]
fn positions_count_bytes() {
    let place = Place::new();
    fs_err::write(place.at("one/file"), "aüb").unwrap();
    place.write("one/file", placed(WriteMode::Insert, 3)).unwrap();
    assert_eq!(place.text("one/file"), "aüXYb");
}

#[test]
fn replaced_file_retains_permissions_and_new_file_gets_defaults() {
    let place = Place::new();
    let file = place.at("one/file");
    for mode in [0o600, 0o755, 0o444] {
        fs_err::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        place.put("one/file", "new").unwrap();
        assert_eq!(fs_err::metadata(&file).unwrap().mode() & 0o7777, mode, "{mode:o}");
    }
    // A set-user-ID bit is dropped, so that new contents do not run as another user.
    fs_err::set_permissions(&file, std::fs::Permissions::from_mode(0o4755)).unwrap();
    place.put("one/file", "new").unwrap();
    assert_eq!(fs_err::metadata(&file).unwrap().mode() & 0o7777, 0o755);
    place.put("one/new", "new").unwrap();
    fs_err::write(place.at("one/usual"), "").unwrap();
    let mode = |name: &str| fs_err::metadata(place.at(name)).unwrap().mode();
    assert_eq!(mode("one/new"), mode("one/usual"));
}

#[test]
fn readers_see_old_or_new_contents() {
    let place = Place::new();
    let (old, new) = ("o".repeat(60), "n".repeat(40));
    place.put("one/file", &old).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200 {
                place.put("one/file", if round % 2 == 0 { &new } else { &old }).unwrap();
            }
        });
        while !writer.is_finished() {
            let text = place.text("one/file");
            assert!(text == old || text == new, "{text}");
        }
    });
}

/// Runs `act` in eight threads that start at the same time, and returns their results.
fn together(act: impl Fn(usize) -> Result<(), FileError> + Sync) -> Vec<String> {
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (start, act) = (&start, &act);
                scope.spawn(move || {
                    start.wait();
                    outcome(act(number))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn count(outcomes: &[String], outcome: &str) -> usize {
    outcomes.iter().filter(|known| *known == outcome).count()
}

#[test]
fn concurrent_create_only_writes_have_one_winner() {
    let place = Place::new();
    for round in 0..50 {
        let name = format!("one/new-{round}");
        let outcomes = together(|number| {
            let data = number.to_string();
            place.write(&name, FileWrite { data: data.as_bytes(), create_only: true, ..FileWrite::default() })
        });
        assert_eq!((count(&outcomes, "done"), count(&outcomes, "AlreadyExists")), (1, 7), "{outcomes:?}");
        let winner = outcomes.iter().position(|outcome| outcome == "done").unwrap();
        assert_eq!(place.text(&name), winner.to_string());
    }
}

#[test]
fn concurrent_writes_with_the_same_etag_have_one_winner() {
    let place = Place::new();
    for _ in 0..50 {
        let etag = place.etag("one/file");
        let outcomes = together(|number| {
            let data = number.to_string();
            place.write("one/file", FileWrite { data: data.as_bytes(), if_match: Some(&etag), ..FileWrite::default() })
        });
        assert_eq!((count(&outcomes, "done"), count(&outcomes, "Conflict")), (1, 7), "{outcomes:?}");
        let winner = outcomes.iter().position(|outcome| outcome == "done").unwrap();
        assert_eq!(place.text("one/file"), winner.to_string());
    }
}

#[test]
fn concurrent_appends_lose_nothing() {
    let place = Place::new();
    fs_err::write(place.at("one/file"), "").unwrap();
    let outcomes = together(|number| {
        let data = number.to_string();
        place.write("one/file", FileWrite { data: data.as_bytes(), mode: WriteMode::Append, ..FileWrite::default() })
    });
    assert_eq!(count(&outcomes, "done"), 8);
    let mut letters: Vec<_> = place.text("one/file").chars().collect();
    letters.sort_unstable();
    assert_eq!(letters.into_iter().collect::<String>(), "01234567");
}

#[test]
fn rapid_rewrites_get_distinct_etags() {
    let place = Place::new();
    let mut tags = std::collections::HashSet::new();
    for round in 0..500 {
        place.put("one/file", if round % 2 == 0 { "even" } else { "odd!" }).unwrap();
        assert!(tags.insert(place.etag("one/file")), "round {round}");
    }
}

#[test]
fn write_with_a_stale_etag_changes_nothing() {
    let place = Place::new();
    let write = |if_match| FileWrite { data: b"new", if_match: Some(if_match), ..FileWrite::default() };
    let etag = place.etag("one/file");
    fs_err::write(place.at("one/file"), "changed by another process").unwrap();
    for tag in [etag.as_str(), "", "nonsense"] {
        assert_eq!(outcome(place.write("one/file", write(tag))), "Conflict");
    }
    assert_eq!(outcome(place.write("one/missing", write(&etag))), "Conflict");
    assert_eq!(place.text("one/file"), "changed by another process");
    place.write("one/file", write(&place.etag("one/file"))).unwrap();
    assert_eq!(place.text("one/file"), "new");
}

#[test]
fn failed_write_states_the_cause_and_changes_nothing() {
    let place = Place::new();
    common::pipe(&place.at("one/pipe"));
    let _listener = std::os::unix::net::UnixListener::bind(place.at("one/socket")).unwrap();
    place.link("nowhere", "one/dangling");
    place.link("circle", "one/circle");
    let long = "x".repeat(65);
    let before = place.contents();
    for (name, text, expected) in [
        ("one/missing/file", "new", "NotFound"),
        ("one/file/below", "new", "NotFound"),
        ("one/sub", "new", "AlreadyExists"),
        ("one", "new", "AlreadyExists"),
        ("one/new/", "new", "Name"),
        ("one/new/.", "new", "Name"),
        ("one/sub/..", "new", "Name"),
        ("one/pipe", "new", "Special"),
        ("one/socket", "new", "Special"),
        ("one/circle", "new", "LinkLoop"),
        ("one/zero\0byte", "new", "NotFound"),
        ("one/file", &long, "TooLarge(64)"),
        ("shelf/file", "new", "Outside"),
        ("hall/file", "new", "Outside"),
        ("secret/file", "new", "Outside"),
        ("secret/missing", "new", "Outside"),
    ] {
        assert_eq!(outcome(place.put(name, text)), expected, "{name:?}");
    }
    assert_eq!(outcome(place.put(format!("one/{}", "x".repeat(256)), "new")), "Io InvalidFilename");
    let grows = FileWrite { data: &[b'x'; 60], mode: WriteMode::Append, ..FileWrite::default() };
    assert_eq!(outcome(place.write("one/file", grows)), "TooLarge(64)", "all of it together");
    for name in ["one/file", "one/dangling", "one/sub", "one/pipe"] {
        let create = FileWrite { data: b"new", create_only: true, ..FileWrite::default() };
        assert_eq!(outcome(place.write(name, create)), "AlreadyExists", "{name}");
    }
    assert_eq!(place.contents(), before, "nothing has changed, and no temporary file remains");
}

#[test]
fn write_follows_a_link_within_the_roots() {
    let place = Place::new();
    place.link("sub/file", "one/link");
    place.link(place.at("two/new"), "one/dangling");
    place.put("one/link", "through").unwrap();
    place.put("one/dangling", "made").unwrap();
    assert_eq!((place.text("one/sub/file"), place.text("two/new")), ("through".to_owned(), "made".to_owned()));
    assert!(fs_err::symlink_metadata(place.at("one/link")).unwrap().is_symlink());
}

#[test]
fn single_file_grant_does_not_cover_siblings() {
    let place = Place::new();
    let root = hostler_files::Root::file_or_directory(place.at("secret/file"), hostler_files::FileAccess::Write);
    let place = Place { roots: [root].into_iter().collect(), ..place };
    place.put("secret/file", "granted").unwrap();
    assert_eq!(place.read("secret/file").unwrap(), "granted");
    for name in ["secret/other", "secret/deep/file", "secret", "one/file"] {
        assert_eq!(outcome(place.put(name, "new")), "Outside", "{name}");
    }
    assert_eq!(outcome(place.remove("secret/file", false)), "Outside", "its directory is not granted");
}

#[test]
fn resolve_returns_metadata_of_files_directories_and_links() {
    let place = Place::new();
    place.link("sub/file", "one/link");
    place.link(place.at("secret/file"), "one/out");
    let real = fs_err::canonicalize(place.dir.path()).unwrap();
    let facts = place.roots.resolve(&place.at("one/link"), true).unwrap();
    assert_eq!((facts.path, facts.kind, facts.size), (real.join("one/sub/file"), EntryKind::File, 6));
    let now = SystemTime::now() + Duration::from_secs(60);
    assert!(facts.modified.unwrap() < now && facts.created.is_none_or(|created| created < now));
    assert_eq!(place.etag("one/link"), place.etag("one/sub/file"));
    let link = place.roots.resolve(&place.at("one/link"), false).unwrap();
    assert_eq!((link.path, link.kind), (real.join("one/link"), EntryKind::Link));
    // A link that points outside has metadata of its own; its target has none.
    assert_eq!(place.roots.resolve(&place.at("one/out"), false).unwrap().kind, EntryKind::Link);
    assert_eq!(outcome(place.roots.resolve(&place.at("one/out"), true)), "Outside");
    for follow in [true, false] {
        for (name, kind) in
            [("one", EntryKind::Directory), ("one/sub/", EntryKind::Directory), ("hall/file", EntryKind::File)]
        {
            assert_eq!(place.roots.resolve(&place.at(name), follow).unwrap().kind, kind, "{name}");
        }
        assert_eq!(outcome(place.roots.resolve(&place.at("one/missing"), follow)), "NotFound");
        assert_eq!(outcome(place.roots.resolve(&place.at("secret/file"), follow)), "Outside");
        assert_eq!(outcome(place.roots.resolve(&place.at("secret/missing"), follow)), "Outside");
    }
    common::pipe(&place.at("one/pipe"));
    assert_eq!(outcome(place.roots.resolve(&place.at("one/pipe"), true)), "Special");
}

#[test]
fn browse_access_does_not_read_contents() {
    let place = Place::new();
    assert_eq!(place.roots.list(&place.at("hall"), 9).unwrap().len(), 2);
    assert_eq!(outcome(place.read("hall/file")), "Outside");
    assert_eq!(place.read("shelf/file").unwrap(), "inside");
    assert!(is_temp_name(std::ffi::OsStr::new(".hostler-new-1-2")) && !is_temp_name(std::ffi::OsStr::new("file")));
    assert_eq!(MAX_FILE_BYTES, 64);
}
