//! Finds programs like a shell, in a `PATH` that is passed in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The first file named `program` in the directories of `path` that this user may execute.
///
/// Relative entries are skipped, because their meaning depends on the current directory.
pub fn find_program(program: impl AsRef<Path>, path: impl AsRef<OsStr>) -> Option<PathBuf> {
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(&program))
        .find(|candidate| is_executable(candidate))
}

/// Whether this is a file that this user may execute.
pub fn is_executable(path: &Path) -> bool {
    // Asks the system, because a file mode shows neither its owner nor the mount options.
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn first_executable_file_wins() {
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
