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

/// The permissions of a new file.
const DEFAULT_FILE_MODE: Mode =
    PRIVATE_FILE_MODE.union(Mode::RGRP).union(Mode::WGRP).union(Mode::ROTH).union(Mode::WOTH);

/// The permissions of a file that is for its owner alone, for now.
pub(crate) const PRIVATE_FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What is to be written.
#[derive(Clone, Copy, Default)]
pub struct FileWrite<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// Where they go.
    pub mode: WriteMode,
    /// So many bytes from where the mode counts.
    pub position: u64,
    /// Only if there is nothing yet.
    pub create_only: bool,
    /// Only over the version with this tag.
    pub if_match: Option<&'a str>,
}

/// Where bytes go in a file that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// They follow what stands before the position; the rest is dropped.
    #[default]
    Truncate,
    /// They go in so many bytes before the end.
    Append,
    /// They go in at the position.
    Insert,
}

impl FileWrite<'_> {
    /// The whole new contents. Positions beyond either end mean that end.
    fn apply(&self, old: &[u8]) -> Vec<u8> {
        let position = usize::try_from(self.position).unwrap_or(usize::MAX).min(old.len());
        let at = if self.mode == WriteMode::Append { old.len() - position } else { position };
        let (before, after) = old.split_at(at);
        let after = if self.mode == WriteMode::Truncate { &[] } else { after };
        [before, self.data, after].concat()
    }

    /// Whether what there is matters.
    fn needs_old_contents(&self) -> bool {
        self.mode != WriteMode::Truncate || self.position > 0
    }
}

impl FileOperations {
    /// Writes a file that will have at most `most` bytes, in one step: whoever reads it sees the old contents or the new.
    ///
    /// # Errors
    /// If it may not be written, is no file, is not the version that is expected, or becomes too large. Then it is as it was.
    pub fn write(&self, roots: &Roots, path: &Path, write: FileWrite<'_>, most: u64) -> Result<(), FileError> {
        let last = if write.create_only { FinalLink::Keep } else { FinalLink::Follow };
        let place = roots.locate_target(path, FileAccess::Write, last)?;
        let _alone = self.locks.lock(&[&place])?;
        let Some(stat) = place.stat()? else {
            // Nothing is no version of it.
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
    // What replaces a secret is one from the beginning.
    let mode = if stat.is_some() { PRIVATE_FILE_MODE } else { DEFAULT_FILE_MODE };
    let (fresh, mut file) = TempEntry::create_file(place.directory.handle.as_fd(), mode)?;
    file.write_all(&contents)?;
    apply_attributes_and_sync(&file, stat.as_ref())?;
    if write.create_only { fresh.persist_new(place) } else { fresh.persist_replacing(place) }
}

/// Makes a file what it is to be: of the same owner and permissions as the one that it replaces, and on the disk.
pub(crate) fn apply_attributes_and_sync(file: &File, old: Option<&Stat>) -> Result<(), FileError> {
    if let Some(old) = old {
        let (owner, group) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
        // Only the superuser can give files away; everybody else's are their own anyway.
        let _ = rustix::fs::fchown(file, Some(owner), Some(group));
        rustix::fs::fchmod(file, tree::permission_bits(old.st_mode))?;
    }
    // The system's own stamps are coarse: two versions within a moment would have the same tag.
    file.set_modified(SystemTime::now())?;
    Ok(file.sync_data()?)
}
