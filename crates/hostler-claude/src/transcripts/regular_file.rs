//! Somebody else's files, opened with care: whatever has a transcript's name, nobody waits for it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens a file to read. A pipe or a device in its place is refused, not waited for.
pub(super) fn open_regular_file(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(not_a_file_error());
    }
    Ok((file, facts))
}

/// What stands before a place in a file, at most so many bytes: whoever finds the same there again believes the rest.
pub(super) fn read_bytes_before(file: &File, end: u64, most: u64) -> io::Result<Vec<u8>> {
    let from = end.saturating_sub(most);
    let mut bytes = vec![0; usize::try_from(end - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// What is said of something that only has a transcript's name.
pub(super) fn not_a_file_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "is not a file")
}
