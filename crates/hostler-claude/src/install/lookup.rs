//! Finds programs the way a shell does, in a `PATH` that is passed in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The first executable file called `program` in the directories of `path`.
///
/// Relative entries are skipped: what they mean depends on the directory that somebody else happens to stand in.
pub fn find_on_path(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|candidate| is_executable(candidate))
}

/// Whether this is a file that somebody may execute.
#[cfg(unix)]
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Whether this is a file; nothing else can be told here.
#[cfg(not(unix))]
pub fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_executable_file_wins() {
        let root = tempfile::tempdir().unwrap();
        let directory = |name: &str| {
            let path = root.path().join(name);
            fs_err::create_dir(&path).unwrap();
            path
        };
        let (not_executable, a_directory, right, later) =
            (directory("a"), directory("b"), directory("c"), directory("d"));
        fs_err::write(not_executable.join("npm"), "").unwrap();
        fs_err::create_dir(a_directory.join("npm")).unwrap();
        for place in [&right, &later] {
            let file = place.join("npm");
            fs_err::write(&file, "").unwrap();
            fs_err::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path =
            std::env::join_paths([Path::new("relative"), &not_executable, &a_directory, &right, &later]).unwrap();
        assert_eq!(find_on_path("npm", &path), Some(right.join("npm")));
        assert_eq!(find_on_path("node", &path), None);
    }
}
