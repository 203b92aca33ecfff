//! Known ways to escape from a root, each tried with every operation: nothing outside is revealed, read or changed, and
//! no temporary entry remains.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use common::{OUTSIDE, Place, pipe};
use hostler_files::{FileAccess, FileError, FileWrite, TreeLimits, WriteMode, file_uri_to_path};

/// An escape attempt: its name, its preparation, and the path that is used then.
type Trick = (&'static str, fn(&Place), &'static str);

const TRICKS: &[Trick] = &[
    ("the path itself", |_| {}, "secret/file"),
    ("a directory outside", |_| {}, "secret"),
    ("something new outside", |_| {}, "secret/new"),
    ("beside the roots", |_| {}, "new"),
    ("above the roots", |_| {}, ""),
    ("a name that begins like a root", |place| fs_err::write(place.at("one-more"), OUTSIDE).unwrap(), "one-more"),
    ("dots", |_| {}, "one/../secret/file"),
    ("many dots", |_| {}, "one/../../../../../../../../../../etc/passwd"),
    ("dots in the middle", |_| {}, "one/sub/../../secret/file"),
    ("dots over something missing", |_| {}, "one/missing/../../secret/file"),
    ("dots over a file", |_| {}, "one/file/../../secret/file"),
    ("slashes and dots", |_| {}, "one//.//..//secret///file"),
    ("a link to a file", |place| place.link(place.at("secret/file"), "one/x"), "one/x"),
    ("a relative link to a file", |place| place.link("../secret/file", "one/x"), "one/x"),
    ("a link to a directory", |place| place.link(place.at("secret"), "one/x"), "one/x/file"),
    ("something new over a link", |place| place.link(place.at("secret"), "one/x"), "one/x/new"),
    ("a directory over a link", |place| place.link(place.at("secret"), "one/x"), "one/x/deep/../file"),
    ("a link to what is not there yet", |place| place.link(place.at("secret/new"), "one/x"), "one/x"),
    (
        "a link to a link",
        |place| {
            place.link(place.at("secret/file"), "one/y");
            place.link("y", "one/x");
        },
        "one/x",
    ),
    (
        "a link over another root",
        |place| {
            place.link(place.at("secret"), "two/y");
            place.link("../two/y", "one/x");
        },
        "one/x/file",
    ),
    ("a link upwards", |place| place.link("..", "one/x"), "one/x/secret/file"),
    ("a link to the top", |place| place.link("/", "one/x"), "one/x/etc/passwd"),
    (
        "a link back and out again",
        |place| {
            place.link(place.at("one"), "secret/back");
            place.link(place.at("secret"), "one/x");
        },
        "one/x/back/../secret/file",
    ),
    ("the host's environment", |place| place.link("/proc/self/environ", "one/x"), "one/x"),
    ("the host's directory", |place| place.link("/proc/self/cwd", "one/x"), "one/x/Cargo.toml"),
    ("the top, by the host", |place| place.link("/proc/self/root", "one/x"), "one/x/etc/passwd"),
    ("the host's descriptors", |place| place.link("/proc/self/fd/0", "one/x"), "one/x"),
    ("a directory by the host's thread", |_| {}, "/proc/thread-self/root/etc/passwd"),
    ("the host's memory", |_| {}, "/proc/self/mem"),
    ("a device", |_| {}, "/dev/zero"),
    ("a device by a link", |place| place.link("/dev/zero", "one/x"), "one/x"),
    ("a full device by a link", |place| place.link("/dev/full", "one/x"), "one/x"),
    ("a terminal by a link", |place| place.link("/dev/tty", "one/x"), "one/x"),
    ("the standard input", |place| place.link("/dev/stdin", "one/x"), "one/x"),
    ("the system's settings", |place| place.link("/sys/kernel", "one/x"), "one/x/mm"),
    ("a pipe", |place| pipe(&place.at("one/x")), "one/x"),
    (
        "a pipe by a link",
        |place| {
            pipe(&place.at("one/y"));
            place.link("y", "one/x");
        },
        "one/x",
    ),
    ("a socket", |place| drop(std::os::unix::net::UnixListener::bind(place.at("one/x")).unwrap()), "one/x"),
    ("a circle", |place| place.link("x", "one/x"), "one/x"),
    (
        "a circle of two",
        |place| {
            place.link("y", "one/x");
            place.link("x", "one/y");
        },
        "one/x/file",
    ),
    ("a zero byte", |_| {}, "one/file\0/../../secret/file"),
    ("a zero byte at the end", |_| {}, "one/missing\0"),
    ("another case", |_| {}, "ONE/file"),
    ("a dot behind a root's name", |_| {}, "one./file"),
    ("a space behind a root's name", |_| {}, "one /file"),
    ("a home directory", |_| {}, "~/file"),
    ("a name that is too long", |_| {}, LONG),
    ("a root that is gone", |place| fs_err::rename(place.at("one"), place.at("gone")).unwrap(), "gone/file"),
    (
        "a root that became a link",
        |place| {
            fs_err::rename(place.at("one"), place.at("gone")).unwrap();
            place.link(place.at("secret"), "one");
        },
        "one/file",
    ),
    (
        "a directory above a root that became a link",
        |place| {
            fs_err::create_dir_all(place.at("other/one")).unwrap();
            fs_err::rename(place.at("one"), place.at("gone")).unwrap();
            place.link("other/one", "one");
        },
        "one/new",
    ),
];

const LONG: &str = concat!(
    "one/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
    "0123456789012345678901234567890123456789012345678901234567890123456789/file"
);

#[test]
fn no_escape_attempt_leaves_the_roots() {
    for (trick, prepare, path) in TRICKS {
        let place = Place::new();
        prepare(&place);
        let path = place.at(path);
        let before = place.contents();
        for (what, answer) in everything(&place, &path) {
            assert!(answer.is_err(), "{trick}: {what}");
        }
        assert_eq!(place.contents(), before, "{trick}");
    }
    assert!(TRICKS.len() >= 40);
}

/// Runs every operation that reads or changes what a path resolves to.
fn everything(place: &Place, path: &Path) -> Vec<(&'static str, Result<(), FileError>)> {
    let (roots, files, limits) = (&place.roots, &place.files, TreeLimits::default());
    let new = FileWrite { data: b"new", ..FileWrite::default() };
    let mut answers = vec![
        ("read", roots.read(path, 1 << 20).map(drop)),
        ("write", files.write(roots, path, new, 1 << 20)),
        ("append", files.write(roots, path, FileWrite { mode: WriteMode::Append, ..new }, 1 << 20)),
        ("copy from", files.copy(roots, path, &place.at("two/copy"), false, &limits)),
        ("copy into", files.copy(roots, &place.at("two"), &path.join("below"), false, &limits)),
        ("move into", files.rename(roots, &place.at("two/file"), &path.join("below"), false, &limits)),
        ("make below", files.make_directory(roots, &path.join("below"))),
        ("list", roots.list(path, 1 << 20).map(drop)),
        ("resolve", roots.resolve(path, true).map(drop)),
        ("remove below", files.remove(roots, &path.join("file"), true)),
    ];
    // A link within the roots may itself be overwritten, moved and removed.
    if !std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink()) {
        answers.extend([
            ("create", files.write(roots, path, FileWrite { create_only: true, ..new }, 1 << 20)),
            ("make", files.make_directory(roots, path)),
            ("move from", files.rename(roots, path, &place.at("two/moved"), false, &limits)),
            ("remove", files.remove(roots, path, true)),
        ]);
    }
    answers
}

#[test]
fn no_uri_escape_attempt_leaves_the_roots() {
    let place = Place::new();
    let base = place.dir.path().to_str().unwrap();
    for uri in [
        format!("file://{base}/one/../secret/file"),
        format!("file://{base}/one/%2e%2e/secret/file"),
        format!("file://{base}/one/%2E./secret/file"),
        format!("file://{base}/one/..%2fsecret%2ffile"),
        format!("file://{base}/one%2f..%2fsecret/file"),
        format!("file://{base}/one/..%5csecret%5cfile"),
        format!("file://{base}/one/%252e%252e/secret/file"),
        format!("file://{base}/one/%c0%ae%c0%ae/secret/file"),
        format!("file://{base}/one/%c0%af../secret/file"),
        format!("file://{base}/one/file%00/../../secret/file"),
        format!("file://{base}/secret/file%00{base}/one/file"),
        format!("file://{base}/one/;/../../secret/file"),
        format!("file://other{base}/secret/file"),
        format!("file://localhost{base}/secret/file"),
        format!("FILE:{base}/secret/file"),
        format!("file:///{base}/secret/file"),
        format!("file://{base}/secret/file?{base}/one/file"),
        format!("file://{base}/secret/file#{base}/one/file"),
        format!("file://{base}/one/file?/../../secret/file"),
        "file:///proc/self/environ".to_owned(),
    ] {
        match file_uri_to_path(&uri) {
            Ok(path) => assert!(place.roots.read(&path, 1 << 20).is_err(), "{uri}"),
            Err(error) => assert!(matches!(error, FileError::InvalidName(_)), "{uri}"),
        }
    }
    let inside = file_uri_to_path(&format!("file://LOCALHOST{base}/%6f%6E%65/./file")).unwrap();
    assert_eq!(place.roots.read(&inside, 64).unwrap(), common::INSIDE);
}

#[test]
fn non_utf8_and_unusual_names_are_used_unchanged() {
    let place = Place::new();
    for name in [&b"one/\xff\xfe"[..], b"one/new\nline", b"one/-rf", b"one/\xc0\xae", b"one/...", b"one/ ", b"one/\\"] {
        let name = OsStr::from_bytes(name);
        place.put(name, "new").unwrap();
        assert_eq!(place.read(name).unwrap(), "new");
        place.remove(name, false).unwrap();
        assert!(!place.at(name).exists());
    }
}

#[test]
fn names_that_resemble_traversal_are_ordinary_names() {
    let place = Place::new();
    let before = place.outside();
    for name in ["one/..\\..\\secret\\file", "one/%2e%2e/secret/file", "one/\u{ff0e}\u{ff0e}/secret/file"] {
        assert!(matches!(place.read(name), Err(FileError::NotFound)), "{name}");
        place.mkdir(name).unwrap();
        place.put(format!("{name}/file"), "new").unwrap();
        assert_eq!(place.text(&format!("{name}/file")), "new");
    }
    assert_eq!(place.outside(), before);
}

#[test]
fn hard_link_within_a_root_belongs_to_that_root() {
    let place = Place::new();
    fs_err::hard_link(place.at("secret/file"), place.at("one/hard")).unwrap();
    assert_eq!(place.read("one/hard").unwrap(), "outside");
    place.put("one/hard", "new").unwrap();
    assert_eq!((place.text("one/hard").as_str(), place.text("secret/file").as_str()), ("new", "outside"));
}

#[test]
fn hard_link_to_an_excluded_file_is_refused() {
    let place = Place::new();
    place.mkdir("one/state/deep").unwrap();
    place.put("one/state/deep/key", "secret").unwrap();
    place.put("one/settings", "secret").unwrap();
    let except = |place: &Place| {
        let out = ["one/state", "one/settings"].map(|name| fs_err::canonicalize(place.at(name)).unwrap());
        out.into_iter().fold(place.roots.clone(), hostler_files::Roots::excluding)
    };
    let place = Place { roots: except(&place), ..place };
    place.mkdir("one/tree").unwrap();
    fs_err::hard_link(place.at("one/state/deep/key"), place.at("one/tree/key")).unwrap();
    fs_err::hard_link(place.at("one/settings"), place.at("two/settings")).unwrap();
    fs_err::hard_link(place.at("secret/file"), place.at("two/hard")).unwrap();
    place.link("../one/tree/key", "two/link");
    for path in ["two/link", "one/tree/key", "two/settings"] {
        for (what, answer) in everything(&place, &place.at(path)) {
            // Its name may be moved or removed: that reveals nothing of the file.
            let by_name = ["move from", "remove"].contains(&what);
            assert!(by_name || answer.is_err(), "{path}: {what}");
        }
    }
    let place = Place { roots: except(&place), ..place };
    fs_err::hard_link(place.at("one/state/deep/key"), place.at("one/tree/key")).unwrap();
    assert!(matches!(place.read("one/tree/key"), Err(FileError::Private)));
    assert!(matches!(place.copy("one/tree", "two/tree", false), Err(FileError::Private)), "nor within a tree");
    let append = FileWrite { data: b"x", mode: WriteMode::Append, ..FileWrite::default() };
    assert!(matches!(place.write("one/tree/key", append), Err(FileError::Private)), "nor as a part of new contents");
    assert_eq!(place.text("one/state/deep/key"), "secret");
    assert_eq!(place.read("two/hard").unwrap(), "outside", "other files may have several names");
}

/// A file that the host creates after its start is private, too.
#[test]
fn excluded_files_are_collected_for_each_operation() {
    let place = Place::new();
    place.mkdir("one/state").unwrap();
    let state = fs_err::canonicalize(place.at("one/state")).unwrap();
    let roots = || place.roots.clone().excluding(state.clone());
    fs_err::write(place.at("one/state/first"), "secret").unwrap();
    fs_err::hard_link(place.at("one/state/first"), place.at("one/x")).unwrap();
    assert!(matches!(roots().read(&place.at("one/x"), 64), Err(FileError::Private)));
    fs_err::write(place.at("one/state/second"), "secret").unwrap();
    fs_err::hard_link(place.at("one/state/second"), place.at("one/y")).unwrap();
    assert!(matches!(roots().read(&place.at("one/y"), 64), Err(FileError::Private)));
}

#[test]
fn excluded_directory_is_in_no_root() {
    let place = Place::new();
    place.mkdir("one/house/state").unwrap();
    place.put("one/house/state/key", "secret").unwrap();
    place.put("one/house/other", "inside").unwrap();
    place.link("house/state", "one/link");
    let roots = place.roots.clone().excluding(fs_err::canonicalize(place.at("one/house/state")).unwrap());
    let place = Place { roots, ..place };
    let before = place.contents();
    for path in ["one/house/state", "one/house/state/key", "one/house/state/new", "one/link/key"] {
        for (what, answer) in everything(&place, &place.at(path)) {
            assert!(answer.is_err(), "{path}: {what}");
        }
        assert!(!place.roots.is_allowed(&place.at(path), FileAccess::Browse), "{path}");
    }
    // An operation on its parent is refused, too.
    for (from, to) in [("one/house", "two/house"), ("two/file", "one/house"), ("two/file", "one/house/state")] {
        assert!(matches!(place.copy(from, to, false), Err(FileError::Outside)), "{from} {to}");
        assert!(matches!(place.rename(from, to, false), Err(FileError::Outside)), "{from} {to}");
    }
    assert!(matches!(place.remove("one/house", true), Err(FileError::Outside)));
    assert_eq!(place.contents(), before);
    assert_eq!(place.read("one/house/other").unwrap(), "inside");
}

#[test]
fn is_allowed_covers_paths_that_do_not_exist_yet() {
    let place = Place::new();
    place.link(place.at("secret"), "one/out");
    for (path, access, expected) in [
        ("one", FileAccess::Write, true),
        ("one/new/deep", FileAccess::Write, true),
        ("shelf/new", FileAccess::Read, true),
        ("shelf/new", FileAccess::Write, false),
        ("hall", FileAccess::Browse, true),
        ("hall/file", FileAccess::Read, false),
        ("one/out/new", FileAccess::Browse, false),
        ("secret", FileAccess::Browse, false),
        ("new", FileAccess::Browse, false),
    ] {
        assert_eq!(place.roots.is_allowed(&place.at(path), access), expected, "{path} {access:?}");
    }
}

#[test]
fn oversized_files_are_not_read() {
    let place = Place::new();
    let huge = std::fs::File::create(place.at("one/huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    assert!(matches!(place.read("one/huge"), Err(FileError::TooLarge(64))));
    assert!(matches!(
        place.write("one/huge", FileWrite { position: 9, ..FileWrite::default() }),
        Err(FileError::TooLarge(64))
    ));
    let limits = TreeLimits { bytes: 1 << 10, ..TreeLimits::default() };
    for (from, to) in [("one/huge", "two/huge"), ("one", "two/one")] {
        let answer = place.files.copy(&place.roots, &place.at(from), &place.at(to), false, &limits);
        assert!(matches!(answer, Err(FileError::TooLarge(1024))), "{from}");
    }
    assert_eq!(place.roots.list(&place.at("two"), 9).unwrap().len(), 1, "nothing was left behind");
}
