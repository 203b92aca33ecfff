//! The directory that all hosts of one user meet in.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// Where every host of a user looks when there is no `XDG_RUNTIME_DIR`. Not `TMPDIR`: two hosts may disagree about that.
const TEMPORARY_DIRECTORY: &str = "/tmp";

/// The directory for locks: `hostler` in the user's runtime directory, or `hostler-<uid>` in the temporary directory.
///
/// It is created if need be, and is then the user's own and closed to everybody else; anything else is an error.
pub fn runtime_dir(xdg_runtime_dir: Option<PathBuf>) -> io::Result<PathBuf> {
    create_private_directory(runtime_dir_path(xdg_runtime_dir.as_deref()))
}

/// Where [`runtime_dir`] is, for whoever only wants to look.
pub fn runtime_dir_path(xdg_runtime_dir: Option<&Path>) -> PathBuf {
    choose_path(xdg_runtime_dir, Path::new(TEMPORARY_DIRECTORY))
}

fn choose_path(xdg_runtime_dir: Option<&Path>, temporary: &Path) -> PathBuf {
    match xdg_runtime_dir {
        // The specification says to ignore relative paths; a session's directory may also be gone.
        Some(dir) if dir.is_absolute() && dir.is_dir() => dir.join("hostler"),
        _ => temporary.join(format!("hostler-{}", Uid::effective())),
    }
}

fn create_private_directory(dir: PathBuf) -> io::Result<PathBuf> {
    match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io::Error::new(
                error.kind(),
                format!("the runtime directory {} cannot be created: {error}", dir.display()),
            ));
        }
        _ => {}
    }
    // Not through a symbolic link: the temporary directory is everybody's.
    let found = fs_err::symlink_metadata(&dir)?;
    if !found.is_dir() || found.uid() != Uid::effective().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the runtime directory {} belongs to somebody else; remove it or set XDG_RUNTIME_DIR",
                dir.display()
            ),
        ));
    }
    if found.mode() & 0o077 != 0 {
        fs_err::set_permissions(&dir, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_users_runtime_directory_is_preferred() {
        let base = tempfile::tempdir().unwrap();
        let dir = runtime_dir(Some(base.path().to_owned())).unwrap();
        assert_eq!(dir, base.path().join("hostler"));
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(runtime_dir(Some(base.path().to_owned())).unwrap(), dir);
    }

    #[test]
    fn without_a_usable_one_the_temporary_directory_serves() {
        let tmp = tempfile::tempdir().unwrap();
        let expected = tmp.path().join(format!("hostler-{}", Uid::effective()));
        for given in [None, Some(Path::new("relative")), Some(&tmp.path().join("gone"))] {
            assert_eq!(choose_path(given, tmp.path()), expected);
        }
        assert_eq!(mode(&create_private_directory(expected).unwrap()), 0o700);
    }

    #[test]
    fn a_directory_that_is_open_to_others_is_closed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("hostler");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(mode(&create_private_directory(dir).unwrap()), 0o700);
    }

    #[test]
    fn a_link_or_a_file_in_its_place_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let link = base.path().join("link");
        std::os::unix::fs::symlink(base.path(), &link).unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, "").unwrap();
        for bad in [link, file] {
            assert_eq!(create_private_directory(bad).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
    }
}
