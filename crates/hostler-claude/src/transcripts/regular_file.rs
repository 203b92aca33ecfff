//! Opens transcripts safely: pipes and devices with a transcript's name are rejected without blocking.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens a regular file for reading. A pipe or a device in its place is rejected without waiting.
pub(super) fn open_regular_file(path: &Path) -> io::Result<(File, Metadata)> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(not_a_file_error());
    }
    Ok((file, facts))
}

/// At most `most` bytes before an offset of a file; comparing them later shows whether the file was only extended.
pub(super) fn read_bytes_before(file: &File, end: u64, most: u64) -> io::Result<Vec<u8>> {
    let from = end.saturating_sub(most);
    let mut bytes = vec![0; usize::try_from(end - from).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// The error for a path that is no regular file.
pub(super) fn not_a_file_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}
