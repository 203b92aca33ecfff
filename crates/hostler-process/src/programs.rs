//! Finds programs the way a shell does, in a `PATH` that is passed in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The first file called `program` in the directories of `path` that this user may execute.
///
/// Relative entries are skipped: what they mean depends on the directory that somebody else happens to stand in.
pub fn find_program(program: impl AsRef<Path>, path: impl AsRef<OsStr>) -> Option<PathBuf> {
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(&program))
        .find(|candidate| is_executable(candidate))
}

/// Whether this is a file that this user may execute.
pub fn is_executable(path: &Path) -> bool {
    // The system is asked, since a mode says neither whose it is nor what the disk allows.
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_file_that_can_be_executed_wins() {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| {
            let path = root.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let (not_executable, a_directory, right, later) =
            (directory("a"), directory("b"), directory("c"), directory("d"));
        std::fs::write(not_executable.join("npm"), "").unwrap();
        std::fs::create_dir(a_directory.join("npm")).unwrap();
        for place in [&right, &later] {
            let file = place.join("npm");
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path =
            std::env::join_paths([Path::new("relative"), &not_executable, &a_directory, &right, &later]).unwrap();
        assert_eq!(find_program("npm", &path), Some(right.join("npm")));
        assert_eq!(find_program("node", &path), None);
    }
}
