//! Directories and trees are created, copied, moved and removed completely or not at all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use common::{Place, outcome, pipe};
use hostler_files::TreeLimits;

#[test]
fn make_directory_creates_missing_parents() {
    let place = Place::new();
    place.mkdir("one/a/b/c").unwrap();
    place.mkdir("one/a/b/c").unwrap();
    place.mkdir("one/a/b/d/").unwrap();
    place.mkdir("one").unwrap();
    place.link(place.at("two"), "one/link");
    place.mkdir("one/link/made").unwrap();
    for name in ["one/a/b/c", "one/a/b/d", "two/made"] {
        assert!(place.at(name).is_dir(), "{name}");
    }
    place.link("nowhere", "one/dangling");
    for (name, expected) in [
        ("one/file", "AlreadyExists"),
        ("one/file/below", "AlreadyExists"),
        ("one/dangling", "AlreadyExists"),
        ("one/dangling/below", "AlreadyExists"),
        ("one/new/../other", "NotFound"),
        ("shelf/new", "Outside"),
        ("hall/new", "Outside"),
        ("secret/new", "Outside"),
        ("secret", "Outside"),
        ("fresh", "Outside"),
        ("/", "Outside"),
    ] {
        assert_eq!(outcome(place.mkdir(name)), expected, "{name}");
    }
    assert!(!place.at("one/nowhere").exists() && !place.at("secret/new").exists());
}

#[test]
fn concurrent_make_directory_calls_all_succeed() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| place.mkdir("one/a/b/c/d").unwrap());
        }
    });
    assert!(place.at("one/a/b/c/d").is_dir());
}

/// A tree with files, directories, permissions and links.
fn tree(place: &Place) {
    place.mkdir("one/tree/deep/deeper").unwrap();
    fs_err::write(place.at("one/tree/deep/script"), "run").unwrap();
    fs_err::set_permissions(place.at("one/tree/deep/script"), std::fs::Permissions::from_mode(0o751)).unwrap();
    fs_err::set_permissions(place.at("one/tree/deep/deeper"), std::fs::Permissions::from_mode(0o700)).unwrap();
    place.link("deep/script", "one/tree/link");
    place.link(place.at("secret"), "one/tree/out");
}

fn copied(place: &Place, name: &str) {
    assert_eq!(place.text(&format!("{name}/deep/script")), "run");
    let mode = |below: &str| fs_err::metadata(place.at(name).join(below)).unwrap().mode() & 0o7777;
    assert_eq!((mode("deep/script"), mode("deep/deeper")), (0o751, 0o700));
    assert_eq!(fs_err::read_link(place.at(name).join("link")).unwrap().to_str(), Some("deep/script"));
    assert_eq!(fs_err::read_link(place.at(name).join("out")).unwrap(), place.at("secret"), "a link stays a link");
}

#[test]
fn copy_replaces_existing_files_and_trees() {
    let place = Place::new();
    tree(&place);
    place.copy("one/tree", "two/new", false).unwrap();
    copied(&place, "two/new");
    place.copy("one/tree", "two/file", false).unwrap();
    copied(&place, "two/file");
    place.mkdir("two/full/of").unwrap();
    fs_err::write(place.at("two/full/of/things"), "").unwrap();
    place.copy("one/tree", "two/full", false).unwrap();
    copied(&place, "two/full");
    assert!(!place.at("two/full/of").exists(), "replaced, not merged");
    place.copy("shelf/file", "two/full", false).unwrap();
    assert_eq!(place.text("two/full"), "inside", "a file in a tree's place");
    place.copy("one/file", "one/file", false).unwrap();
    assert_eq!(place.text("one/file"), "inside");
    copied(&place, "one/tree");
    // Copying a link copies its target; a link as the target of a copy is itself replaced.
    place.link("../two/file/deep/script", "one/link");
    place.copy("one/link", "one/copy", false).unwrap();
    assert_eq!(place.text("one/copy"), "run");
    place.copy("one/file", "one/link", false).unwrap();
    assert_eq!((place.text("one/link"), place.text("two/file/deep/script")), ("inside".into(), "run".into()));
}

#[test]
fn rename_replaces_existing_files_links_and_trees() {
    let place = Place::new();
    tree(&place);
    place.rename("one/tree", "two/new", false).unwrap();
    copied(&place, "two/new");
    assert!(!place.at("one/tree").exists());
    place.mkdir("two/full/of/things").unwrap();
    place.rename("two/new", "two/full", false).unwrap();
    copied(&place, "two/full");
    assert!(!place.at("two/new").exists() && !place.at("two/full/of").exists());
    place.rename("one/file", "two/full", false).unwrap();
    assert_eq!(place.text("two/full"), "inside");
    place.link(place.at("secret/file"), "one/out");
    place.rename("one/out", "two/out", false).unwrap();
    assert!(fs_err::symlink_metadata(place.at("two/out")).unwrap().is_symlink());
    assert_eq!(outcome(place.read("two/out")), "Outside");
    fs_err::hard_link(place.at("two/file"), place.at("two/other")).unwrap();
    place.rename("two/file", "two/other", false).unwrap();
    assert!(!place.at("two/file").exists() && place.at("two/other").exists());
    place.rename("two/other", "two/other", false).unwrap();
    assert!(place.at("two/other").exists());
}

#[test]
fn existing_target_remains_with_no_replace() {
    let place = Place::new();
    tree(&place);
    let before = place.contents();
    for (from, to) in
        [("one/file", "two/file"), ("one/tree", "two/file"), ("one/file", "one/sub"), ("one/tree", "one/sub")]
    {
        assert_eq!(outcome(place.copy(from, to, true)), "AlreadyExists", "{from} {to}");
        assert_eq!(outcome(place.rename(from, to, true)), "AlreadyExists", "{from} {to}");
    }
    assert_eq!(outcome(place.copy("one/file", "one/file", true)), "AlreadyExists");
    assert_eq!(outcome(place.rename("one/file", "one/file", true)), "AlreadyExists");
    assert_eq!(place.contents(), before);
    place.copy("one/tree", "two/tree", true).unwrap();
    copied(&place, "two/tree");
    place.rename("two/tree", "two/moved", true).unwrap();
    copied(&place, "two/moved");
}

#[test]
fn failed_copy_or_move_states_the_cause_and_leaves_no_entries() {
    let place = Place::new();
    pipe(&place.at("one/pipe"));
    place.mkdir("one/mixed/below").unwrap();
    fs_err::write(place.at("one/mixed/a"), "a").unwrap();
    pipe(&place.at("one/mixed/below/pipe"));
    let before = place.contents();
    for (from, to, copying, moving) in [
        ("one/missing", "two/new", "NotFound", "NotFound"),
        ("one/file", "two/missing/new", "NotFound", "NotFound"),
        ("one/sub", "one/sub/below", "Nested", "Nested"),
        ("one/sub/file", "one/sub", "Nested", "Nested"),
        ("one/pipe", "two/new", "Special", "Special"),
        ("one/file", "one/pipe", "Special", "Special"),
        ("one/file", "two/", "Name", "Name"),
        ("one/file", "two", "Outside", "Outside"),
        ("one", "two/new", "done", "Outside"),
        ("secret/file", "two/new", "Outside", "Outside"),
        ("one/file", "secret/new", "Outside", "Outside"),
        ("one/file", "shelf/new", "Outside", "Outside"),
        ("shelf/file", "two/new", "done", "Outside"),
        ("hall/file", "two/new", "Outside", "Outside"),
    ] {
        if copying != "done" {
            assert_eq!(outcome(place.copy(from, to, false)), copying, "copy {from} {to}");
        }
        assert_eq!(outcome(place.rename(from, to, false)), moving, "move {from} {to}");
    }
    assert_eq!(outcome(place.copy("one/mixed", "two/new", false)), "Special");
    let limits = TreeLimits { entries: 2, ..TreeLimits::default() };
    let copy = |limits| place.files.copy(&place.roots, &place.at("one"), &place.at("two/new"), false, &limits);
    assert_eq!(outcome(copy(limits)), "TooMany(2)");
    assert_eq!(outcome(copy(TreeLimits { bytes: 6, ..TreeLimits::default() })), "TooLarge(6)");
    assert_eq!(outcome(copy(TreeLimits { depth: 1, ..TreeLimits::default() })), "TooDeep(1)");
    assert_eq!(place.contents(), before);
}

#[test]
fn remove_deletes_files_links_and_directories() {
    let place = Place::new();
    tree(&place);
    place.link(place.at("secret"), "one/out");
    place.link("nowhere", "one/dangling");
    place.mkdir("one/empty").unwrap();
    pipe(&place.at("one/pipe"));
    pipe(&place.at("one/tree/pipe"));
    for (name, recursive, expected) in [
        ("one/missing", false, "NotFound"),
        ("one/tree", false, "NotEmpty"),
        ("one/empty/", false, "done"),
        ("one/file", false, "done"),
        ("one/out", true, "done"),
        ("one/dangling", false, "done"),
        ("one/pipe", true, "Special"),
        ("one", true, "Outside"),
        ("one/sub/..", true, "Name"),
        ("secret/file", true, "Outside"),
        ("shelf/file", true, "Outside"),
        ("one/tree", true, "done"),
    ] {
        assert_eq!(outcome(place.remove(name, recursive)), expected, "{name}");
    }
    assert_eq!(place.text("secret/deep/file"), "outside", "links are removed, not followed");
    assert!(!place.at("one/tree").exists() && !place.at("one/file").exists());
}
