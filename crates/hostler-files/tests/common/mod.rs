//! A temporary directory with roots of each access level, and a directory outside of them.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hostler_files::{FileAccess, FileError, FileOperations, FileWrite, Root, Roots, TreeLimits};

pub const INSIDE: &[u8] = b"inside";
pub const OUTSIDE: &[u8] = b"outside";

/// Size limit of a file in these tests.
pub const MAX_FILE_BYTES: u64 = 64;

/// `one/` (file, sub/file) and `two/` (file) are writable, `shelf/` (file) is readable, `hall/` (file, room/) can be
/// browsed, and `secret/` (file, deep/) is not granted.
pub struct Place {
    pub dir: tempfile::TempDir,
    pub roots: Roots,
    pub files: FileOperations,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for directory in ["one/sub", "two", "shelf", "hall/room", "secret/deep"] {
            fs_err::create_dir_all(at(directory)).unwrap();
        }
        for file in ["one/file", "one/sub/file", "two/file", "shelf/file", "hall/file"] {
            fs_err::write(at(file), INSIDE).unwrap();
        }
        for file in ["secret/file", "secret/deep/file"] {
            fs_err::write(at(file), OUTSIDE).unwrap();
        }
        let granted = [
            ("one", FileAccess::Write),
            ("two", FileAccess::Write),
            ("shelf", FileAccess::Read),
            ("hall", FileAccess::Browse),
        ];
        let roots = granted.into_iter().map(|(name, access)| Root::directory(at(name), access)).collect();
        Self { dir, roots, files: FileOperations::default() }
    }

    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.at(name)).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(fs_err::read(self.at(name)).unwrap()).unwrap()
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Result<String, FileError> {
        self.roots.read(&self.at(name), MAX_FILE_BYTES).map(|contents| String::from_utf8_lossy(&contents).into_owned())
    }

    pub fn write(&self, name: impl AsRef<Path>, write: FileWrite<'_>) -> Result<(), FileError> {
        self.files.write(&self.roots, &self.at(name), write, MAX_FILE_BYTES)
    }

    pub fn put(&self, name: impl AsRef<Path>, text: &str) -> Result<(), FileError> {
        self.write(name, FileWrite { data: text.as_bytes(), ..FileWrite::default() })
    }

    pub fn mkdir(&self, name: impl AsRef<Path>) -> Result<(), FileError> {
        self.files.make_directory(&self.roots, &self.at(name))
    }

    pub fn copy(&self, from: &str, to: &str, no_overwrite: bool) -> Result<(), FileError> {
        self.files.copy(&self.roots, &self.at(from), &self.at(to), no_overwrite, &TreeLimits::default())
    }

    pub fn rename(&self, from: &str, to: &str, no_overwrite: bool) -> Result<(), FileError> {
        self.files.rename(&self.roots, &self.at(from), &self.at(to), no_overwrite, &TreeLimits::default())
    }

    pub fn remove(&self, name: impl AsRef<Path>, recursive: bool) -> Result<(), FileError> {
        self.files.remove(&self.roots, &self.at(name), recursive)
    }

    pub fn etag(&self, name: &str) -> String {
        self.roots.resolve(&self.at(name), true).unwrap().etag
    }

    /// A snapshot of all entries, with the contents of files and the targets of links.
    pub fn contents(&self) -> BTreeMap<PathBuf, String> {
        self.contents_of("")
    }

    /// A snapshot of one directory.
    pub fn contents_of(&self, name: &str) -> BTreeMap<PathBuf, String> {
        let mut contents = BTreeMap::new();
        walk(&self.at(name), &mut contents);
        contents
    }

    /// A snapshot of the directory outside the roots, which must not change.
    pub fn outside(&self) -> BTreeMap<PathBuf, String> {
        self.contents_of("secret")
    }
}

fn walk(directory: &Path, contents: &mut BTreeMap<PathBuf, String>) {
    for entry in fs_err::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let description = if kind.is_dir() {
            walk(&path, contents);
            "directory".to_owned()
        } else if kind.is_file() {
            String::from_utf8_lossy(&fs_err::read(&path).unwrap()).into_owned()
        } else if kind.is_symlink() {
            format!("-> {}", fs_err::read_link(&path).unwrap().display())
        } else {
            "special".to_owned()
        };
        contents.insert(path, description);
    }
}

/// The result as a short text: `done` or the name of the error.
pub fn outcome<T: std::fmt::Debug>(answer: Result<T, FileError>) -> String {
    match answer {
        Ok(_) => "done".to_owned(),
        Err(FileError::Io(error)) => format!("Io {:?}", error.kind()),
        Err(FileError::InvalidName(_)) => "Name".to_owned(),
        Err(error) => format!("{error:?}"),
    }
}

pub fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}
