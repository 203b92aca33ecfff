//! An open, checked file or directory: its metadata, contents and entries.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};

use rustix::fs::{AtFlags, Dir, FileType, Stat};

use crate::locate::{FileHandle, LocatedFile};
use crate::{DirectoryEntry, EntryKind, FileError, FileKind, FileMetadata, ResolvedFile};

/// An open file or directory within the roots. It remains the entry that was checked, whatever happens to its path.
#[derive(Debug)]
pub struct OpenedFile {
    handle: FileHandle,
    resolved: ResolvedFile,
    stat: Stat,
    version: FileVersion,
}

/// Values that change when a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileVersion {
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
    fn from_stat(facts: &Stat) -> Self {
        Self {
            size: u64::try_from(facts.st_size).unwrap_or_default(),
            modified: (facts.st_mtime as i64, facts.st_mtime_nsec as i64),
            changed: (facts.st_ctime as i64, facts.st_ctime_nsec as i64),
        }
    }
}

impl OpenedFile {
    /// Reads the metadata of an entry that is within the roots.
    pub(crate) fn new(reached: LocatedFile) -> Result<Self, FileError> {
        let facts = rustix::fs::fstat(reached.handle.descriptor())?;
        if facts.st_nlink == 0 {
            // The entry was removed after it was opened.
            return Err(FileError::NotFound);
        }
        let kind = match FileType::from_raw_mode(facts.st_mode) {
            _ if reached.handle.is_procfs()? => return Err(FileError::Special),
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            _ => return Err(FileError::Special),
        };
        let stamp = FileVersion::from_stat(&facts);
        let found = ResolvedFile { path: reached.path, kind, size: stamp.size };
        Ok(Self { handle: reached.handle, resolved: found, stat: facts, version: stamp })
    }

    /// All metadata.
    pub fn metadata(&self) -> FileMetadata {
        FileMetadata::from_stat(
            self.resolved.path.clone(),
            &self.stat,
            FileMetadata::creation_time(self.handle.descriptor()),
        )
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    pub(crate) fn into_handle(self) -> FileHandle {
        self.handle
    }

    /// Its kind, size and real path.
    pub fn resolved(&self) -> &ResolvedFile {
        &self.resolved
    }

    /// Reads a regular file of at most `most` bytes.
    ///
    /// # Errors
    /// If it is not a file, is larger, or was written since it was opened.
    pub fn read(self, most: u64) -> Result<Vec<u8>, FileError> {
        if self.resolved.kind != FileKind::File {
            return Err(FileError::WrongKind);
        }
        if self.version.size > most {
            return Err(FileError::TooLarge(most));
        }
        let file = File::from(self.handle.into_readable()?);
        let mut contents = Vec::with_capacity(usize::try_from(self.version.size).unwrap_or_default());
        // The size may have changed since it was read.
        (&file).take(most.saturating_add(1)).read_to_end(&mut contents)?;
        let length = contents.len() as u64;
        if length > most {
            return Err(FileError::TooLarge(most));
        }
        if length != self.version.size || FileVersion::from_stat(&rustix::fs::fstat(&file)?) != self.version {
            return Err(FileError::Changed);
        }
        Ok(contents)
    }

    /// Reads the last `most` bytes of a regular file, which may grow meanwhile. The flag is set if there are bytes
    /// before them.
    ///
    /// # Errors
    /// If it is not a file, or cannot be read.
    pub fn read_tail(self, most: u64) -> Result<(Vec<u8>, bool), FileError> {
        if self.resolved.kind != FileKind::File {
            return Err(FileError::WrongKind);
        }
        let mut file = File::from(self.handle.into_readable()?);
        let skipped = file.metadata()?.len().saturating_sub(most);
        file.seek(SeekFrom::Start(skipped))?;
        let mut contents = Vec::new();
        file.take(most).read_to_end(&mut contents)?;
        Ok((contents, skipped > 0))
    }

    /// Lists a directory of at most `most` entries, sorted by name.
    ///
    /// # Errors
    /// If it is not a directory, or has more entries.
    pub fn list(self, most: usize) -> Result<Vec<DirectoryEntry>, FileError> {
        if self.resolved.kind != FileKind::Directory {
            return Err(FileError::WrongKind);
        }
        self.handle.list(most)
    }
}

impl FileHandle {
    /// Lists a directory of at most `most` entries, sorted by name.
    pub(crate) fn list(self, most: usize) -> Result<Vec<DirectoryEntry>, FileError> {
        use std::os::unix::ffi::OsStrExt as _;
        let mut directory = Dir::new(self.into_readable()?)?;
        let mut entries = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name();
            if [&b"."[..], b".."].contains(&name.to_bytes()) {
                continue;
            }
            let kind = match entry.file_type() {
                // Not every file system reports the type in a directory entry.
                FileType::Unknown => match rustix::fs::statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(facts) => FileType::from_raw_mode(facts.st_mode),
                    Err(rustix::io::Errno::NOENT) => continue,
                    Err(error) => return Err(error.into()),
                },
                kind => kind,
            };
            if entries.len() == most {
                return Err(FileError::TooMany(most));
            }
            let name = std::ffi::OsStr::from_bytes(name.to_bytes()).to_owned();
            entries.push(DirectoryEntry { name, kind: EntryKind::from(kind) });
        }
        entries.sort();
        Ok(entries)
    }
}
