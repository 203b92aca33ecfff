use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::StateError;

/// A state directory that exists and that only its owner can read.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    path: PathBuf,
}

impl StateDir {
    /// Makes the directory if it is not there, and private if it is not.
    pub(crate) fn open(path: &Path) -> Result<Self, StateError> {
        if !path.is_dir() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(|error| with_directory_context(error, "cannot be made", path))?;
        }
        let metadata = fs::metadata(path)?;
        if metadata.uid() != nix::unistd::geteuid().as_raw() {
            return Err(StateError::ForeignOwner(path.to_owned()));
        }
        if metadata.mode() & 0o077 != 0 {
            // Only a directory that is ours in every sense: nobody wants their home's permissions changed.
            let empty = fs::read_dir(path)?.next().is_none();
            if !empty && !path.join(super::lock::LOCK_FILE).exists() {
                return Err(StateError::NotAStateDirectory(path.to_owned()));
            }
            fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        }
        Ok(Self { path: path.to_owned() })
    }

    /// A directory as it is, only to look.
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

/// An I/O error that names the directory.
fn with_directory_context(error: std::io::Error, what: &str, path: &Path) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("The state directory {} {what}: {error}", path.display()))
}

/// Writes a private file so that a reader sees the old text or the new one, never half of it.
pub(super) fn write_private_file(path: &Path, text: &str) -> Result<(), StateError> {
    use std::io::Write as _;
    let directory = path.parent().unwrap_or(path);
    // Temporary files are made 0600.
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
    fn a_new_directory_is_private() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("a/b");
        StateDir::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_empty_open_directory_is_made_private_and_a_used_one_refused() {
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
