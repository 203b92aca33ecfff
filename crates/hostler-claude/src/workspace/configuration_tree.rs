//! Reads the configuration files of a folder: bounded, and without following links.
//!
//! Every name is opened relative to its open directory, so the checked file is the one that is read, even if paths
//! are moved meanwhile.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Maximum number of files.
const MAX_FILES: usize = 2_000;

/// Maximum total size.
const MAX_TOTAL_BYTES: u64 = 8 * 1024 * 1024;

/// Maximum nesting of directories.
const MAX_DEPTH: usize = 12;

const OPEN_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// One file of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigurationEntry {
    /// Its path, relative to the working directory.
    pub(super) path: String,
    pub(super) content: EntryContent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryContent {
    File {
        bytes: Vec<u8>,
        executable: bool,
    },
    /// A symbolic link, by the text of its target.
    Link(Vec<u8>),
}

/// The files that were read, in a stable order.
#[derive(Debug, Default)]
pub(super) struct ConfigurationTree {
    pub(super) entries: Vec<ConfigurationEntry>,
    bytes: u64,
    /// The first problem that occurred.
    pub(super) problem: Option<String>,
}

/// Opens a directory by its path.
pub(super) fn open_directory(path: &Path) -> Option<OwnedFd> {
    rustix::fs::open(path, OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty()).ok()
}

/// Opens a subdirectory, unless it is a link.
pub(super) fn open_subdirectory(directory: impl AsFd, name: &str) -> Option<OwnedFd> {
    rustix::fs::openat(directory, name, OPEN_FLAGS | OFlags::DIRECTORY, Mode::empty()).ok()
}

impl ConfigurationTree {
    /// Reads the file or directory `name` in `directory`. `path` is its display path.
    pub(super) fn read(&mut self, directory: impl AsFd, name: &str, path: String) {
        self.read_at(directory, name, path, 0);
    }

    fn read_at(&mut self, directory: impl AsFd, name: &str, path: String, depth: usize) {
        if self.problem.is_some() {
            return;
        }
        let opened = match rustix::fs::openat(&directory, name, OPEN_FLAGS, Mode::empty()) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return,
            Err(Errno::LOOP | Errno::MLINK) => match rustix::fs::readlinkat(&directory, name, Vec::new()) {
                Ok(target) => return self.add(path, EntryContent::Link(target.into_bytes())),
                Err(error) => return self.set_problem(&path, &error.to_string()),
            },
            Err(error) => return self.set_problem(&path, &error.to_string()),
        };
        match rustix::fs::fstat(&opened).map(|stat| (FileType::from_raw_mode(stat.st_mode), stat.st_mode & 0o100 != 0))
        {
            Ok((FileType::RegularFile, executable)) => self.read_file(opened, path, executable),
            Ok((FileType::Directory, _)) if depth < MAX_DEPTH => self.read_directory(&opened, &path, depth),
            Ok((FileType::Directory, _)) => self.set_problem(&path, "its directories are nested too deeply"),
            Ok(_) => self.set_problem(&path, "it is neither a file nor a directory"),
            Err(error) => self.set_problem(&path, &error.to_string()),
        }
    }

    fn read_directory(&mut self, directory: &OwnedFd, path: &str, depth: usize) {
        let names = match Dir::read_from(directory) {
            Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name().to_bytes().to_vec())),
            Err(error) => return self.set_problem(path, &error.to_string()),
        };
        // Two more than files: "." and "..".
        let mut names = match names.take(MAX_FILES + 3).collect::<Result<Vec<_>, _>>() {
            Ok(names) if names.len() <= MAX_FILES + 2 => names,
            Ok(_) => return self.set_problem(path, "it has too many files"),
            Err(error) => return self.set_problem(path, &error.to_string()),
        };
        names.retain(|name| name != b"." && name != b"..");
        names.sort();
        for name in names {
            match std::str::from_utf8(&name) {
                Ok(name) => self.read_at(directory, name, format!("{path}/{name}"), depth + 1),
                Err(_) => return self.set_problem(path, "a file name is not valid UTF-8"),
            }
        }
    }

    fn read_file(&mut self, file: OwnedFd, path: String, executable: bool) {
        let mut bytes = Vec::new();
        // One more than allowed, so that an excess is noticed.
        let left = MAX_TOTAL_BYTES.saturating_sub(self.bytes) + 1;
        match File::from(file).take(left).read_to_end(&mut bytes) {
            Ok(_) => self.add(path, EntryContent::File { bytes, executable }),
            Err(error) => self.set_problem(&path, &error.to_string()),
        }
    }

    fn add(&mut self, path: String, content: EntryContent) {
        let (EntryContent::File { bytes, .. } | EntryContent::Link(bytes)) = &content;
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if self.bytes > MAX_TOTAL_BYTES {
            return self.set_problem(&path, "the configuration is larger than 8 MiB");
        }
        if self.entries.len() == MAX_FILES {
            return self.set_problem(&path, "the configuration has more than 2,000 files");
        }
        self.entries.push(ConfigurationEntry { path, content });
    }

    pub(super) fn set_problem(&mut self, path: &str, reason: &str) {
        self.problem.get_or_insert_with(|| format!("{path} cannot be read: {reason}."));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests may panic")]

    use super::*;

    fn read(directory: &Path) -> ConfigurationTree {
        let mut tree = ConfigurationTree::default();
        tree.read(open_directory(directory).unwrap(), "x", "x".to_owned());
        tree
    }

    #[test]
    fn links_are_listed_and_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        std::fs::create_dir(dir.path().join("x")).unwrap();
        std::os::unix::fs::symlink("../secret", dir.path().join("x/link")).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("x/root")).unwrap();
        let tree = read(dir.path());
        let links: Vec<_> = tree.entries.into_iter().map(|entry| (entry.path, entry.content)).collect();
        let link = |path: &str, target: &[u8]| (path.to_owned(), EntryContent::Link(target.to_vec()));
        assert_eq!(links, [link("x/link", b"../secret"), link("x/root", b"/")]);
    }

    #[test]
    fn excessive_or_irregular_files_are_a_problem() {
        type Make = fn(&Path);
        let make: [(&str, Make); 5] = [
            ("8 MiB", |x| std::fs::write(x, vec![b'x'; 8 * 1024 * 1024 + 1]).unwrap()),
            ("nested", |x| std::fs::create_dir_all(x.join("d/".repeat(20))).unwrap()),
            ("too many files", |x| {
                std::fs::create_dir(x).unwrap();
                (0..2_001).for_each(|n| std::fs::write(x.join(n.to_string()), "").unwrap());
            }),
            ("neither", |x| nix::unistd::mkfifo(x, nix::sys::stat::Mode::S_IRUSR).unwrap()),
            ("UTF-8", |x| {
                use std::os::unix::ffi::OsStrExt as _;
                std::fs::create_dir(x).unwrap();
                std::fs::write(x.join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
            }),
        ];
        for (expected, make) in make {
            let dir = tempfile::tempdir().unwrap();
            make(&dir.path().join("x"));
            let problem = read(dir.path()).problem.unwrap();
            assert!(problem.contains(expected), "{expected}: {problem}");
        }
    }

    #[test]
    fn missing_configuration_is_no_problem() {
        let dir = tempfile::tempdir().unwrap();
        let tree = read(dir.path());
        assert_eq!((tree.entries, tree.problem), (Vec::new(), None));
    }
}
