//! Somebody else's files, opened with care: whatever has a transcript's name, nobody waits for it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens a file to read. A pipe or a device in its place is refused, not waited for.
pub(super) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(not_a_file());
    }
    Ok((file, facts))
}

/// What is said of something that only has a transcript's name.
pub(super) fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "is not a file")
}
