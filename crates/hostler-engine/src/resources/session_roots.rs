//! Where sessions may work: below the configured roots, and never in the host's own directories, which no client can
//! access.
//!
//! Paths are resolved at each use, so a link that replaces a directory later has no effect.

use std::path::{Path, PathBuf};

use url::Url;

use crate::{EngineError, InvalidParams};

/// Maximum number of working directories of a session.
pub(crate) const MAX_SESSION_DIRECTORIES: usize = 16;

/// Where sessions may work.
#[derive(Debug, Clone, Default)]
pub struct SessionRoots {
    /// Sessions work in these directories or below; anywhere if the list is empty.
    pub allowed_roots: Vec<PathBuf>,
    /// The host's own directories and files: no session works there, and no client reads or changes them, wherever they
    /// are. The state directory is always one of them.
    pub private_paths: Vec<PathBuf>,
}

/// Why no session may work in a directory.
enum DirectoryRestriction {
    /// It belongs to the host.
    Private,
    /// It is outside of the configured roots.
    OutsideRoots,
}

impl SessionRoots {
    /// The host's own directories and files, with links resolved.
    pub(crate) fn resolved_private_paths(&self) -> Vec<PathBuf> {
        self.private_paths.iter().map(|path| resolve_links(path)).collect()
    }

    /// Whether a session may work in a directory that is given without links; `private` comes from
    /// [`Self::resolved_private_paths`].
    pub(crate) fn is_allowed(&self, real: &Path, private: &[PathBuf]) -> bool {
        self.find_restriction(real, private).is_none()
    }

    /// Checks a session's directory.
    ///
    /// # Errors
    /// If no session may work there.
    pub(crate) fn check(&self, directory: &Path) -> Result<(), EngineError> {
        match self.find_restriction(&resolve_links(directory), &self.resolved_private_paths()) {
            Some(DirectoryRestriction::Private) => Err(InvalidParams::PrivateDirectory(directory.to_owned()).into()),
            Some(DirectoryRestriction::OutsideRoots) => {
                Err(InvalidParams::OutsideSessionRoots(directory.to_owned()).into())
            }
            None => Ok(()),
        }
    }

    /// The normalized URI of a directory that a session may work in. Reads the disk.
    pub(crate) fn resolve_directory(&self, uri: &str) -> Result<String, EngineError> {
        let path = Url::parse(uri).ok().filter(|url| url.scheme() == "file").and_then(|url| url.to_file_path().ok());
        let path = path.ok_or_else(|| InvalidParams::FileUri(uri.to_owned()))?;
        let uri = directory_uri(&path)?;
        self.check(&path)?;
        Ok(uri)
    }

    /// The file URIs of a session's working directories: the primary one, then the additional ones. Reads the disk.
    pub(crate) fn resolve_directories(&self, wanted: &[String], default: &Path) -> Result<Vec<String>, EngineError> {
        if wanted.len() > MAX_SESSION_DIRECTORIES {
            return Err(InvalidParams::TooManyDirectories.into());
        }
        let mut directories: Vec<String> = Vec::new();
        for uri in wanted {
            let uri = self.resolve_directory(uri)?;
            if !directories.contains(&uri) {
                directories.push(uri);
            }
        }
        if directories.is_empty() {
            directories.push(directory_uri(default)?);
            self.check(default)?;
        }
        Ok(directories)
    }

    fn find_restriction(&self, real: &Path, private: &[PathBuf]) -> Option<DirectoryRestriction> {
        if private.iter().any(|private| real.starts_with(private)) {
            return Some(DirectoryRestriction::Private);
        }
        let within = || self.allowed_roots.iter().any(|root| real.starts_with(resolve_links(root)));
        if self.allowed_roots.is_empty() || within() {
            return None;
        }
        Some(DirectoryRestriction::OutsideRoots)
    }
}

fn directory_uri(path: &Path) -> Result<String, EngineError> {
    if !path.is_dir() {
        return Err(InvalidParams::DirectoryNotFound(path.to_owned()).into());
    }
    Url::from_file_path(path).map(String::from).map_err(|()| InvalidParams::RelativePath(path.to_owned()).into())
}

/// Resolves the links of a path. A missing rest is appended to the resolved existing part.
fn resolve_links(path: &Path) -> PathBuf {
    let (mut there, mut missing) = (path, Vec::new());
    loop {
        if let Ok(real) = fs_err::canonicalize(there) {
            return missing.iter().rev().fold(real, |real, name| real.join(name));
        }
        let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else { return path.to_owned() };
        missing.push(name);
        there = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_and_host_directories_are_refused() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        for name in ["work/deep", "works", "state/inner"] {
            fs_err::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("works"), at("work/out")).unwrap();
        std::os::unix::fs::symlink(at("state"), at("work/state")).unwrap();
        std::os::unix::fs::symlink(at("work"), at("in")).unwrap();
        let roots = SessionRoots {
            allowed_roots: vec![at("in")],
            private_paths: vec![at("state"), at("work/deep/config/later")],
        };
        for name in ["work", "work/deep", "in", "in/deep"] {
            assert!(roots.check(&at(name)).is_ok(), "{name}");
        }
        for name in ["works", "work/out", "work/../works", "", "state", "work/state", "work/state/inner"] {
            let error = roots.check(&at(name)).unwrap_err().to_string();
            assert!(error.contains("`session-roots`"), "{name}: {error}");
        }
        fs_err::create_dir_all(at("work/deep/config/later")).unwrap();
        assert!(roots.check(&at("in/deep/config/later")).is_err(), "one that was made later");
        let anywhere = SessionRoots { allowed_roots: Vec::new(), ..roots };
        assert!(anywhere.check(Path::new("/")).is_ok() && anywhere.check(&at("works")).is_ok());
        assert!(anywhere.check(&at("work/state")).is_err());
    }
}
