//! Evicts files from the system's page cache.
#![allow(unreachable_pub, reason = "benchmarks share this")]

use std::path::Path;

use rustix::fs::{Advice, fadvise, sync};

/// Evicts the contents of all files below a directory from the page cache, so that they are read from the disk
/// again. Names and sizes stay cached.
pub fn evict_page_cache(directory: &Path) {
    // Only clean pages can be evicted.
    sync();
    evict_directory(directory);
}

fn evict_directory(directory: &Path) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            evict_directory(&path);
        } else {
            let file = std::fs::File::open(&path).expect("a file");
            fadvise(&file, 0, None, Advice::DontNeed).expect("the system takes advice");
        }
    }
}
