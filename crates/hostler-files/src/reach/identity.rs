//! Any Unix: what was opened is within the roots if the very same file is found at a path without links.

use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use super::{Handle, READ, Reached};
use crate::FileError;

pub(super) fn reach(path: &Path) -> Result<Reached, FileError> {
    let readable = rustix::fs::open(path, READ, Mode::empty())?;
    let opened = rustix::fs::fstat(&readable)?;
    let path = resolved(path)?;
    let there = rustix::fs::lstat(&path)?;
    if (opened.st_dev, opened.st_ino) != (there.st_dev, there.st_ino) {
        return Err(FileError::Changed);
    }
    Ok(Reached { handle: Handle::Readable(readable), path })
}

fn resolved(path: &Path) -> Result<PathBuf, FileError> {
    fs_err::canonicalize(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => FileError::NotFound,
        _ => FileError::Io(error),
    })
}
