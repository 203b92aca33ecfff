//! Where managed installs lie in the cache directory, and which of them can be trusted.
//!
//! ```text
//! <cache>/agents/claude/native.lock               held while a build is installed
//! <cache>/agents/claude/.staging-native-XXXXXX/   an install that is not finished
//! <cache>/agents/claude/native-2.1.325/           one that is: `install.json` says so
//! ```

use std::io;
use std::path::{Path, PathBuf};

use hostler_driver::InstalledBuild;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::pins::Build;
use super::platform::Platform;

const MARKER_FILE: &str = "install.json";

/// The part of the cache directory that belongs to Claude Code.
#[derive(Debug, Clone)]
pub(super) struct CacheLayout {
    root: PathBuf,
    platform: Platform,
}

/// Written last, into the staging directory; its presence below the final name is what makes an install one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InstallReceipt {
    build: String,
    version: String,
    /// Package and version; names the platform, since cache directories are sometimes shared between machines.
    package: String,
    /// Relative to the marker.
    executable: String,
    /// The executable's size: a disk that filled up or a crash shows here.
    bytes: u64,
}

impl CacheLayout {
    pub(super) fn new(cache: &Path, platform: Platform) -> Self {
        Self { root: cache.join("agents").join("claude"), platform }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn lock_file(&self, build: Build) -> PathBuf {
        self.root.join(format!("{}.lock", build.as_str()))
    }

    /// The finished install of a build, if its marker and its executable agree with the pin.
    pub(super) fn installed(&self, build: Build) -> Option<InstalledBuild> {
        let home = self.install_directory(build);
        let marker: InstallReceipt = serde_json::from_slice(&fs_err::read(home.join(MARKER_FILE)).ok()?).ok()?;
        let path = home.join(&marker.executable);
        let bytes = fs_err::metadata(&path).ok().filter(std::fs::Metadata::is_file)?.len();
        (self.expected_marker(build, bytes)? == marker).then_some(InstalledBuild {
            build: marker.build,
            version: marker.version,
            path,
            newly_installed: false,
        })
    }

    /// Removes what earlier installers of this build left: unfinished directories, and a final one that is not whole.
    /// Only the holder of the build's lock may call this, for then nobody else is at work in them.
    pub(super) fn remove_incomplete(&self, build: Build) -> io::Result<()> {
        let prefix = staging_prefix(build);
        for entry in fs_err::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                fs_err::remove_dir_all(entry.path())?;
            }
        }
        let home = self.install_directory(build);
        if home.symlink_metadata().is_ok() && self.installed(build).is_none() {
            fs_err::remove_dir_all(home)?;
        }
        Ok(())
    }

    /// A new place to install into.
    pub(super) fn create_staging(&self, build: Build) -> io::Result<InstallStaging> {
        let directory = tempfile::Builder::new().prefix(&staging_prefix(build)).tempdir_in(&self.root)?;
        let staging = InstallStaging { directory };
        fs_err::create_dir(staging.tree())?;
        fs_err::create_dir(staging.scratch())?;
        Ok(staging)
    }

    /// Makes a verified staging directory the install of its build, in one step.
    pub(super) fn publish(&self, build: Build, staging: &InstallStaging) -> io::Result<InstalledBuild> {
        let tree = staging.tree();
        let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
        let executable = build.pin().executable(&self.platform).ok_or_else(unsupported)?;
        let file = fs_err::File::open(tree.join(executable))?;
        // A marker must not reach the disk before what it vouches for.
        file.sync_all()?;
        let marker = self.expected_marker(build, file.metadata()?.len()).ok_or_else(unsupported)?;
        let marker_file = fs_err::File::create(tree.join(MARKER_FILE))?;
        serde_json::to_writer_pretty(&marker_file, &marker)?;
        marker_file.sync_all()?;

        let home = self.install_directory(build);
        fs_err::rename(tree, &home)?;
        let path = home.join(marker.executable);
        Ok(InstalledBuild { build: marker.build, version: marker.version, path, newly_installed: true })
    }

    fn install_directory(&self, build: Build) -> PathBuf {
        self.root.join(format!("{}-{}", build.as_str(), build.pin().version))
    }

    /// The marker that an install of today's pin must have.
    fn expected_marker(&self, build: Build, bytes: u64) -> Option<InstallReceipt> {
        let pin = build.pin();
        Some(InstallReceipt {
            build: build.as_str().to_owned(),
            version: pin.version.to_owned(),
            package: pin.spec(&self.platform)?,
            executable: pin.executable(&self.platform)?,
            bytes,
        })
    }
}

/// An unfinished install; removed when dropped, which takes a while.
#[derive(Debug)]
pub(super) struct InstallStaging {
    directory: TempDir,
}

impl InstallStaging {
    /// What npm installs into and what will be published.
    pub(super) fn tree(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    /// Removes it with everything in it.
    pub(super) fn remove(self) -> io::Result<()> {
        self.directory.close()
    }

    /// A home directory for the verification run.
    pub(super) fn scratch(&self) -> PathBuf {
        self.directory.path().join("scratch")
    }
}

fn staging_prefix(build: Build) -> String {
    format!(".staging-{}-", build.as_str())
}

/// The bytes of all files below a directory that others are changing; what vanishes meanwhile is not counted.
pub(super) fn directory_size_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => directory_size_bytes(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
