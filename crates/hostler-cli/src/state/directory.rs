//! Creates and checks the state directory and its private files.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::StateError;

/// State directory that exists and that only its owner can read.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Creates the directory if it does not exist, and makes an empty one private.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        if !path.is_dir() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|error| with_directory_context(&error, path))?;
        }
        let metadata = fs::metadata(path)?;
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(StateError::ForeignOwner(path.to_owned()));
        }
        if metadata.mode() & 0o077 != 0 {
            // Permissions change only for an empty directory, so that a mistyped path does not change those of a
            // home directory.
            let empty = fs::read_dir(path)?.next().is_none();
            if !empty && !path.join(super::lock::LOCK_FILE).exists() {
                return Err(StateError::NotAStateDirectory(path.to_owned()));
            }
            fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Names a directory without checks, for reading.
    pub(crate) fn without_checks(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Adds the directory to an I/O error.
fn with_directory_context(error: &std::io::Error, path: &Path) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("Failed to create the state directory {}: {error}.", path.display()))
}

/// Writes a private file atomically: a reader sees the old text or the new one.
pub(super) fn write_private_file(path: &Path, text: &str) -> Result<(), StateError> {
    use std::io::Write as _;
    let directory = path.parent().unwrap_or(path);
    // Temporary files have mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_directory_is_private() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        StateDir::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn empty_directory_is_made_private_and_a_used_one_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        fs::set_permissions(scratch.path(), open.clone()).unwrap();
        StateDir::open(scratch.path()).unwrap();
        assert_eq!(fs::metadata(scratch.path()).unwrap().mode() & 0o777, 0o700);

        fs::set_permissions(scratch.path(), open).unwrap();
        fs::write(scratch.path().join("thesis.tex"), "").unwrap();
        assert!(matches!(StateDir::open(scratch.path()), Err(StateError::NotAStateDirectory(_))));
        assert_eq!(fs::metadata(scratch.path()).unwrap().mode() & 0o777, 0o755);
    }
}
