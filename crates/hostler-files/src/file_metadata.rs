//! Metadata of a file, a directory or a link, without its contents.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Stat};

use crate::EntryKind;

/// Metadata of a file, a directory or a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMetadata {
    /// Its path with all links resolved, except the entry itself.
    pub path: PathBuf,
    /// Its kind.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// Time of the last write.
    pub modified: Option<SystemTime>,
    /// Creation time, where the file system records it.
    pub created: Option<SystemTime>,
    /// Tag of this version; another version has another tag.
    pub etag: String,
}

impl FileMetadata {
    #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
    pub(crate) fn from_stat(path: PathBuf, stat: &Stat, created: Option<SystemTime>) -> Self {
        Self {
            path,
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: to_system_time(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            created,
            etag: etag(stat),
        }
    }

    /// The creation time of an open file.
    pub(crate) fn creation_time(descriptor: impl AsFd) -> Option<SystemTime> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{AtFlags, StatxFlags};
            let facts = rustix::fs::statx(descriptor, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
            let known = facts.stx_mask & StatxFlags::BTIME.bits() != 0;
            known.then(|| to_system_time(facts.stx_btime.tv_sec, i64::from(facts.stx_btime.tv_nsec))).flatten()
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = descriptor;
            None
        }
    }
}

/// Tag of a version: another file, size or modification time gives another tag.
pub(crate) fn etag(stat: &Stat) -> String {
    format!(
        "{:x}-{:x}-{:x}-{:x}.{:x}-{:x}.{:x}",
        stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec,
    )
}

fn to_system_time(seconds: i64, nanoseconds: i64) -> Option<SystemTime> {
    let nanoseconds = Duration::from_nanos(u64::try_from(nanoseconds).ok()?);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second =
        if seconds < 0 { SystemTime::UNIX_EPOCH.checked_sub(whole) } else { SystemTime::UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(nanoseconds)
}
