//! Files of excluded directories, by device and inode: a hard link to one of them may be elsewhere.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{FileType, Stat};

/// The device and inode numbers. They are collected when the first file with several links is checked. Roots are built
/// anew for each operation, so the set does not become stale.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrivateFiles(OnceLock<HashSet<(u64, u64)>>);

impl PrivateFiles {
    /// Whether a file is a hard link to one in these directories.
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the fields' types differ between systems")]
    pub(crate) fn contains(&self, directories: &[impl AsRef<Path>], stat: &Stat) -> bool {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if !is_file || stat.st_nlink < 2 || directories.is_empty() {
            return false;
        }
        let files = self.0.get_or_init(|| {
            let mut files = HashSet::new();
            directories.iter().for_each(|directory| collect_hard_linked(directory.as_ref(), &mut files));
            files
        });
        files.contains(&(stat.st_dev as u64, stat.st_ino as u64))
    }
}

/// Collects files with several links below a path; symbolic links are not followed. A directory that cannot be read is
/// skipped: this user cannot read its files by another name either.
fn collect_hard_linked(path: &Path, files: &mut HashSet<(u64, u64)>) {
    let Ok(facts) = fs_err::symlink_metadata(path) else { return };
    if facts.is_file() && facts.nlink() > 1 {
        files.insert((facts.dev(), facts.ino()));
    }
    if !facts.is_dir() {
        return;
    }
    let Ok(entries) = fs_err::read_dir(path) else { return };
    entries.flatten().for_each(|entry| collect_hard_linked(&entry.path(), files));
}
