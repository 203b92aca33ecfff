//! The files of directories that no root holds, known by device and inode: a hard link to one of them lies somewhere else.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{FileType, Stat};

/// Which files they are. Looked up at the first file that has several names, and true of that moment: roots are made anew
/// for each operation.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrivateFiles(OnceLock<HashSet<(u64, u64)>>);

impl PrivateFiles {
    /// Whether a file is another name of one that lies in these directories.
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

/// Files below a path that have several names; links are not followed. What cannot be read here has no reader elsewhere.
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
