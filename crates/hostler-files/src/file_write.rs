//! Writes of single files: positions, preconditions, and replacement in one step.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Gid, Mode, Stat, Uid};

use crate::file_metadata::etag;
use crate::path_target::{FinalLink, PathTarget};
use crate::temp_entry::TempEntry;
use crate::{FileAccess, FileError, FileKind, FileOperations, OpenedFile, Roots, tree};

/// Permissions of a new file, before the umask.
const DEFAULT_FILE_MODE: Mode =
    PRIVATE_FILE_MODE.union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);

/// Permissions of a file that only its owner can access, until its final permissions are set.
pub(crate) const PRIVATE_FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A write request.
#[derive(Clone, Copy, Default)]
pub struct FileWrite<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Where the bytes go.
    pub mode: WriteMode,
    /// Offset in bytes, from the point that the mode defines.
    pub position: u64,
    /// Fail if the file exists.
    pub create_only: bool,
    /// Write only over the version with this tag.
    pub if_match: Option<&'a str>,
}

/// Where bytes go in an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// At the position; everything after the position is dropped.
    #[default]
    Truncate,
    /// The position counts from the end; nothing is dropped.
    Append,
    /// At the position; nothing is dropped.
    Insert,
}

impl FileWrite<'_> {
    /// The complete new contents. A position beyond either end means that end.
    fn apply(&self, old: &[u8]) -> Vec<u8> {
        let position = usize::try_from(self.position).unwrap_or(usize::MAX).min(old.len());
        let at = if self.mode == WriteMode::Append { old.len() - position } else { position };
        let (before, after) = old.split_at(at);
        let after = if self.mode == WriteMode::Truncate { &[] } else { after };
        [before, self.data, after].concat()
    }

    /// Whether the new contents depend on the old ones.
    fn needs_old_contents(&self) -> bool {
        self.mode != WriteMode::Truncate || self.position > 0
    }
}

impl FileOperations {
    /// Writes a file of at most `most` bytes in one step: a reader sees the old contents or the new ones.
    ///
    /// # Errors
    /// If the path may not be written, is not a file, is not the expected version, or would become too large. The file
    /// is unchanged then.
    pub fn write(&self, roots: &Roots, path: &Path, write: FileWrite<'_>, most: u64) -> Result<(), FileError> {
        let last = if write.create_only { FinalLink::NoFollow } else { FinalLink::Follow };
        let place = roots.locate_target(path, FileAccess::Write, last)?;
        let _alone = self.locks.lock(&[&place])?;
        let Some(stat) = place.stat()? else {
            // A missing file does not match any tag.
            return if write.if_match.is_some() {
                Err(FileError::Conflict)
            } else {
                write_replacement(&place, write, None, most)
            };
        };
        if write.create_only {
            return Err(FileError::AlreadyExists);
        }
        let old = place.open(roots)?;
        if old.resolved().kind != FileKind::File {
            return Err(FileError::AlreadyExists);
        }
        if write.if_match.is_some_and(|tag| tag != etag(&stat) || tag != etag(old.stat())) {
            return Err(FileError::Conflict);
        }
        write_replacement(&place, write, Some(old), most)
    }
}

fn write_replacement(
    place: &PathTarget,
    write: FileWrite<'_>,
    old: Option<OpenedFile>,
    most: u64,
) -> Result<(), FileError> {
    let stat = old.as_ref().map(|old| *old.stat());
    let old = match old {
        Some(old) if write.needs_old_contents() => old.read(most)?,
        _ => Vec::new(),
    };
    let contents = write.apply(&old);
    if contents.len() as u64 > most {
        return Err(FileError::TooLarge(most));
    }
    // A replacement is private from its creation, because the old file may be a secret.
    let mode = if stat.is_some() { PRIVATE_FILE_MODE } else { DEFAULT_FILE_MODE };
    let (fresh, mut file) = TempEntry::create_file(place.directory.handle.as_fd(), mode)?;
    file.write_all(&contents)?;
    apply_attributes_and_sync(&file, stat.as_ref())?;
    if write.create_only { fresh.persist_new(place) } else { fresh.persist_replacing(place) }
}

/// Gives a new file the owner and permissions of the one that it replaces, and syncs it to disk.
pub(crate) fn apply_attributes_and_sync(file: &File, old: Option<&Stat>) -> Result<(), FileError> {
    if let Some(old) = old {
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        // Only the superuser can change the owner. For other users the file already has the right one.
        let _ = rustix::fs::fchown(file, Some(owner), Some(group));
        rustix::fs::fchmod(file, tree::permission_bits(old.st_mode))?;
    }
    // The kernel's timestamps are coarse: two versions written in quick succession would have the same tag.
    file.set_modified(SystemTime::now())?;
    Ok(file.sync_data()?)
}
