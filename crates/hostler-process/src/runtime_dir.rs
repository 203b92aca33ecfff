//! The runtime directory that all hosts of one user share.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;

/// The directory used without `XDG_RUNTIME_DIR`. Not `TMPDIR`, which may differ between two hosts.
const TEMPORARY_DIRECTORY: &str = "/tmp";

/// The directory for locks: `hostler` in the user's runtime directory, or `hostler-<uid>` in the temporary directory.
///
/// Created if it is missing. It must belong to the user and gets mode 0700; anything else at its path is an error.
pub fn runtime_dir(xdg_runtime_dir: Option<PathBuf>) -> io::Result<PathBuf> {
    create_private_directory(runtime_dir_path(xdg_runtime_dir.as_deref()))
}

/// The path of [`runtime_dir`], without creating or checking it.
pub fn runtime_dir_path(xdg_runtime_dir: Option<&Path>) -> PathBuf {
    choose_path(xdg_runtime_dir, Path::new(TEMPORARY_DIRECTORY))
}

fn choose_path(xdg_runtime_dir: Option<&Path>, temporary: &Path) -> PathBuf {
    match xdg_runtime_dir {
        // The specification requires relative paths to be ignored; a login session's directory may also be missing.
        Some(dir) if dir.is_absolute() && dir.is_dir() => dir.join("hostler"),
        _ => temporary.join(format!("hostler-{}", Uid::effective())),
    }
}

fn create_private_directory(dir: PathBuf) -> io::Result<PathBuf> {
    match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io::Error::new(
                error.kind(),
                format!("failed to create the runtime directory {}: {error}", dir.display()),
            ));
        }
        _ => {}
    }
    // Symbolic links are not followed: any user can create one in the temporary directory.
    let found = fs_err::symlink_metadata(&dir)?;
    if !found.is_dir() || found.uid() != Uid::effective().as_raw() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the runtime directory {} belongs to another user; remove it or set XDG_RUNTIME_DIR",
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
    fn xdg_runtime_dir_is_preferred() {
        let base = tempfile::tempdir().unwrap();
        let dir = runtime_dir(Some(base.path().to_owned())).unwrap();
        assert_eq!(dir, base.path().join("hostler"));
        assert_eq!(mode(&dir), 0o700);
        assert_eq!(runtime_dir(Some(base.path().to_owned())).unwrap(), dir);
    }

    #[test]
    fn falls_back_to_the_temporary_directory() {
        let tmp = tempfile::tempdir().unwrap();
        let expected = tmp.path().join(format!("hostler-{}", Uid::effective()));
        for given in [None, Some(Path::new("relative")), Some(&tmp.path().join("gone"))] {
            assert_eq!(choose_path(given, tmp.path()), expected);
        }
        assert_eq!(mode(&create_private_directory(expected).unwrap()), 0o700);
    }

    #[test]
    fn permissions_of_an_existing_directory_are_restricted() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("hostler");
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(mode(&create_private_directory(dir).unwrap()), 0o700);
    }

    #[test]
    fn symlink_or_file_in_its_place_is_refused() {
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
