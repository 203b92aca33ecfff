//! Reads within roots, by every method of locating a file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, RenameFlags};

use super::*;
use crate::{EntryKind, FileKind};

const INSIDE: &[u8] = b"inside";
const OUTSIDE: &[u8] = b"outside";

/// Two roots and their surroundings:
/// `one/` (file, sub/file, empty), `two/file`, `alias` -> one, `secret/file`.
struct Place {
    dir: tempfile::TempDir,
    roots: Roots,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for directory in ["one/sub", "two", "secret/deep"] {
            fs_err::create_dir_all(at(directory)).unwrap();
        }
        for file in ["one/file", "one/sub/file", "two/file"] {
            fs_err::write(at(file), INSIDE).unwrap();
        }
        fs_err::write(at("one/empty"), b"").unwrap();
        fs_err::write(at("secret/file"), OUTSIDE).unwrap();
        fs_err::write(at("one-more"), OUTSIDE).unwrap();
        symlink(at("one"), at("alias")).unwrap();
        let roots = Roots::new([at("one"), at("two")]);
        Self { dir, roots }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.at(name)).unwrap();
    }
}

/// The result of a read as a short text.
fn outcome(answer: Result<Vec<u8>, FileError>) -> String {
    match answer {
        Ok(contents) => String::from_utf8_lossy(&contents).into_owned(),
        Err(FileError::Io(error)) => format!("Io {:?}", error.kind()),
        Err(error) => format!("{error:?}"),
    }
}

/// Reads a path by every method.
#[track_caller]
fn check(place: &Place, path: impl AsRef<Path>, expected: &str) {
    let path = place.dir.path().join(path);
    for way in LOCATE_METHODS {
        let answer = place.roots.open_with(&[*way], &path, FileAccess::Read).and_then(|opened| opened.read(64));
        assert_eq!(outcome(answer), expected, "{} by {way:?}", path.display());
    }
    assert_eq!(outcome(place.roots.read(&path, 64)), expected, "{}", path.display());
}

#[test]
fn reads_files_within_the_roots() {
    let place = Place::new();
    place.link("sub/file", "one/relative");
    place.link(place.at("one/sub"), "one/absolute");
    place.link(place.at("two/file"), "one/across");
    place.link("../../two", "one/sub/two");
    place.link("relative", "one/twice");
    fs_err::hard_link(place.at("one/file"), place.at("one/hard")).unwrap();
    fs_err::write(place.at("one/two words\n\u{1b}[31m"), INSIDE).unwrap();
    fs_err::write(place.dir.path().join(OsStr::from_bytes(b"one/\xff\xfe")), INSIDE).unwrap();
    for path in [
        "one/file",
        "one//sub/./file",
        "one/sub/../file",
        "secret/../one/file",
        "one/../two/file",
        "one/relative",
        "one/absolute/file",
        "one/across",
        "one/sub/two/file",
        "one/twice",
        "one/hard",
        "one/two words\n\u{1b}[31m",
        "alias/file",
        "alias/across",
    ] {
        check(&place, path, "inside");
    }
    check(&place, "one/empty", "");
    check(&place, OsStr::from_bytes(b"one/\xff\xfe"), "inside");
}

#[test]
fn paths_outside_the_roots_are_refused() {
    let place = Place::new();
    place.link(place.at("secret/file"), "one/out");
    place.link("../secret/file", "one/relative-out");
    place.link(place.at("secret"), "one/directory-out");
    place.link("out", "one/twice-out");
    place.link("/proc/self/environ", "one/environment");
    place.link("/proc/self/cwd", "one/cwd");
    place.link("/dev/zero", "one/zero");
    place.link("/dev/tty", "one/tty");
    place.link(place.at("one/file"), "secret/back");
    for path in [
        "secret/file",
        "one-more",
        "one/../secret/file",
        "one/../../../../../../../../etc/passwd",
        "one/out",
        "one/relative-out",
        "one/directory-out/file",
        "one/directory-out/deep/../file",
        "one/twice-out",
        "one/zero",
        "/etc/passwd",
        "/",
        // The error does not reveal whether a path outside exists.
        "secret/missing",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "one\0/file",
    ] {
        check(&place, path, "Outside");
    }
    check(&place, "one/environment", "Outside");
    // A link outside the roots that points into a root: the final target counts.
    check(&place, "secret/back", "inside");
    for link in ["one/cwd/Cargo.toml", "one/tty"] {
        assert!(place.roots.read(&place.at(link), 1 << 20).is_err(), "{link}");
    }
    for relative in ["", ".", "Cargo.toml", "./src/lib.rs", "~/x"] {
        assert_eq!(outcome(place.roots.read(Path::new(relative), 64)), "Outside", "{relative}");
    }
}

#[test]
fn read_errors_state_the_cause() {
    let place = Place::new();
    place.link("nowhere", "one/dangling");
    place.link("circle", "one/circle");
    rustix::fs::mknodat(CWD, place.at("one/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(place.at("one/socket")).unwrap();
    fs_err::write(place.at("one/large"), [b'x'; 65]).unwrap();
    for (path, expected) in [
        ("one/missing", "NotFound"),
        ("one/FILE", "NotFound"),
        ("one/dangling", "NotFound"),
        ("one/file/", "NotFound"),
        ("one/file/x", "NotFound"),
        ("one/sub/zero\0byte", "NotFound"),
        ("one/circle", "LinkLoop"),
        ("one/pipe", "Special"),
        ("one/socket", "Special"),
        ("one", "WrongKind"),
        ("one/sub/", "WrongKind"),
        ("one/large", "TooLarge(64)"),
    ] {
        check(&place, path, expected);
    }
    check(&place, format!("one/{}", "x".repeat(256)), "Io InvalidFilename");
    check(&place, format!("one/{}file", "./".repeat(3000)), "Io InvalidFilename");
    fs_err::write(place.at("one/unreadable"), INSIDE).unwrap();
    fs_err::set_permissions(place.at("one/unreadable"), std::fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser can read it.
    let answer = outcome(place.roots.read(&place.at("one/unreadable"), 64));
    let superuser = rustix::fs::access(place.at("one/unreadable"), rustix::fs::Access::READ_OK).is_ok();
    assert_eq!(answer, if superuser { "inside" } else { "Io PermissionDenied" });
}

#[test]
fn find_returns_the_real_path_kind_and_size() {
    let place = Place::new();
    let real = fs_err::canonicalize(place.dir.path()).unwrap();
    let file = ResolvedFile { path: real.join("one/sub/file"), kind: FileKind::File, size: 6 };
    assert_eq!(place.roots.find(&place.at("alias/sub/../sub/file")).unwrap(), file);
    let directory = place.roots.find(&place.at("alias/sub/")).unwrap();
    assert_eq!((directory.path, directory.kind), (real.join("one/sub"), FileKind::Directory));
}

#[test]
fn root_link_grants_the_target_it_had_when_granted() {
    let place = Place::new();
    let roots = Roots::new([place.at("alias")]);
    assert_eq!(outcome(roots.read(&place.at("alias/file"), 64)), "inside");
    assert_eq!(outcome(roots.read(&place.at("one/file"), 64)), "inside");
    fs_err::remove_file(place.at("alias")).unwrap();
    place.link(place.at("secret"), "alias");
    assert_eq!(outcome(roots.read(&place.at("alias/file"), 64)), "Outside");
    assert_eq!(outcome(roots.read(&place.at("one/file"), 64)), "inside");
    assert_eq!(roots.directories().collect::<Vec<_>>(), [place.at("alias")]);
}

#[test]
fn moved_root_grants_nothing_until_it_is_restored() {
    let place = Place::new();
    fs_err::rename(place.at("one"), place.at("gone")).unwrap();
    check(&place, "one/file", "NotFound");
    check(&place, "gone/file", "Outside");
    place.link(place.at("secret"), "one");
    check(&place, "one/file", "Outside");
    fs_err::remove_file(place.at("one")).unwrap();
    fs_err::rename(place.at("gone"), place.at("one")).unwrap();
    check(&place, "one/file", "inside");
}

#[test]
fn directory_root_that_is_not_a_directory_grants_nothing() {
    let place = Place::new();
    for root in [place.at("one/file"), place.at("missing"), PathBuf::from("src"), PathBuf::new()] {
        let roots = Roots::new([root]);
        assert_ne!(outcome(roots.read(&place.at("one/file"), 64)), "inside");
        assert_eq!(outcome(roots.read(&fs_err::canonicalize("src/lib.rs").unwrap(), 1 << 20)), "Outside");
    }
    assert_eq!(outcome(Roots::default().read(&place.at("one/file"), 64)), "Outside");
}

#[cfg(target_os = "linux")]
#[test]
fn root_of_the_file_system_does_not_grant_procfs_or_devices() {
    let place = Place { roots: Roots::new([PathBuf::from("/")]), ..Place::new() };
    check(&place, "secret/file", "outside");
    for path in ["/proc/self/environ", "/proc/self/cmdline", "/proc", "/dev/zero"] {
        check(&place, path, "Special");
    }
}

#[test]
fn opened_file_is_read_after_its_path_changes() {
    let place = Place::new();
    for way in LOCATE_METHODS {
        let path = place.at("one/moving");
        fs_err::write(&path, INSIDE).unwrap();
        let opened = place.roots.open_with(&[*way], &path, FileAccess::Read).unwrap();
        fs_err::write(place.at("one/other"), OUTSIDE).unwrap();
        let (moved, other) = (place.at("one/moved"), place.at("one/other"));
        fs_err::rename(&path, &moved).unwrap();
        fs_err::rename(other, &path).unwrap();
        // The move changes the file's own ctime. The contents are never those of another file.
        assert!(["inside", "Changed"].contains(&outcome(opened.read(64)).as_str()));
        fs_err::remove_file(moved).unwrap();
        fs_err::remove_file(path).unwrap();
    }
}

type Change = fn(&Path);

#[test]
fn read_fails_if_the_file_was_written_since_it_was_opened() {
    let place = Place::new();
    let path = place.at("one/file");
    let changes: [(&str, Change); 4] = [
        ("grown", |path| fs_err::write(path, b"inside and more").unwrap()),
        ("shrunk", |path| fs_err::write(path, b"in").unwrap()),
        ("removed", |path| fs_err::remove_file(path).unwrap()),
        ("dated back", |path| {
            fs_err::write(path, b"INSIDE").unwrap();
            let past = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
            std::fs::File::options().write(true).open(path).unwrap().set_times(past).unwrap();
        }),
    ];
    for (what, change) in changes {
        for way in LOCATE_METHODS {
            fs_err::write(&path, INSIDE).unwrap();
            let opened = place.roots.open_with(&[*way], &path, FileAccess::Read).unwrap();
            change(&path);
            assert_eq!(outcome(opened.read(64)), "Changed", "{what} by {way:?}");
        }
    }
    fs_err::write(&path, INSIDE).unwrap();
    let opened = place.roots.open(&path).unwrap();
    fs_err::write(&path, [b'x'; 65]).unwrap();
    assert_eq!(outcome(opened.read(64)), "TooLarge(64)", "not more is read than is wanted");
}

#[test]
fn list_sorts_by_name_and_does_not_follow_links() {
    let place = Place::new();
    place.link(place.at("secret"), "one/link");
    rustix::fs::mknodat(CWD, place.at("one/pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let odd = OsStr::from_bytes(b"\xff");
    fs_err::write(place.at("one").join(odd), b"").unwrap();
    let expected = [
        ("empty", EntryKind::File),
        ("file", EntryKind::File),
        ("link", EntryKind::Link),
        ("pipe", EntryKind::Special),
        ("sub", EntryKind::Directory),
    ];
    let expected = expected.map(|(name, kind)| DirectoryEntry { name: name.into(), kind });
    for way in LOCATE_METHODS {
        let entries = place.roots.open_with(&[*way], &place.at("one"), FileAccess::Read).unwrap().list(6).unwrap();
        assert_eq!(
            entries.split_last().unwrap(),
            (&DirectoryEntry { name: odd.into(), kind: EntryKind::File }, &expected[..])
        );
    }
    assert!(matches!(place.roots.list(&place.at("one"), 5), Err(FileError::TooMany(5))));
    assert!(matches!(place.roots.list(&place.at("one/file"), 5), Err(FileError::WrongKind)));
    assert!(matches!(place.roots.list(&place.at("one/link"), 5), Err(FileError::Outside)));
    assert!(place.roots.list(&place.at("two"), 1).is_ok());
}

/// How often entries are swapped during the reads: at least the lower bound, then until both states were read.
const SWAPS: std::ops::Range<usize> = 10_000..1_000_000;

/// Swaps entries continuously during reads. Every result is allowed except contents from outside.
fn race(place: &Place, path: &str, mut swap: impl FnMut(usize) + Send) {
    let path = place.at(path);
    for way in LOCATE_METHODS {
        let (over, both) = (AtomicBool::new(false), AtomicBool::new(false));
        let (mut inside, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..SWAPS.end {
                    swap(round);
                    if round >= SWAPS.start && both.load(Ordering::Acquire) {
                        break;
                    }
                }
                over.store(true, Ordering::Release);
            });
            while !over.load(Ordering::Acquire) {
                match place.roots.open_with(&[*way], &path, FileAccess::Read).and_then(|opened| opened.read(64)) {
                    Ok(contents) => {
                        assert_eq!(contents, INSIDE, "by {way:?}");
                        inside += 1;
                    }
                    Err(_) => refused += 1,
                }
                both.store(inside > 0 && refused > 0, Ordering::Release);
            }
        });
        assert!(inside > 0 && refused > 0, "both were met: {inside}, {refused} by {way:?}");
    }
}

#[test]
fn swapped_link_never_exposes_outside_contents() {
    let place = Place::new();
    let targets = [place.at("one/sub/file"), place.at("secret/file")];
    let (link, fresh) = (place.at("one/link"), place.at("one/fresh"));
    symlink(&targets[0], &link).unwrap();
    race(&place, "one/link", |n| {
        symlink(&targets[n % 2], &fresh).unwrap();
        fs_err::rename(&fresh, &link).unwrap();
    });
}

#[cfg(target_os = "linux")]
#[test]
fn directory_swapped_for_a_link_never_exposes_outside_contents() {
    let place = Place::new();
    place.link(place.at("secret"), "one/other");
    let (sub, other) = (place.at("one/sub"), place.at("one/other"));
    race(&place, "one/sub/file", |_| {
        rustix::fs::renameat_with(CWD, &sub, CWD, &other, RenameFlags::EXCHANGE).unwrap();
    });
}
