//! The layout of managed installs in the cache directory, and the check that an install is complete.
//!
//! ```text
//! <cache>/agents/claude/native.lock               held while a build is installed
//! <cache>/agents/claude/.staging-native-XXXXXX/   an install that is not finished
//! <cache>/agents/claude/native-2.1.325/           a complete install: it contains `install.json`
//! ```

use std::io;
use std::path::{Path, PathBuf};

use hostler_driver::InstalledBuild;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::pins::Build;
use super::platform::Platform;

const MARKER_FILE: &str = "install.json";

/// Claude Code's part of the cache directory.
#[derive(Debug, Clone)]
pub(super) struct CacheLayout {
    root: PathBuf,
    platform: Platform,
}

/// Written last, into the staging directory; under the final name it marks a complete install.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InstallReceipt {
    build: String,
    version: String,
    /// Package and version; it names the platform, because cache directories are sometimes shared between machines.
    package: String,
    /// Relative to the receipt.
    executable: String,
    /// The executable's size, which reveals a full disk or a crash.
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

    /// The finished install of a build, if its receipt and its executable match the pin.
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

    /// Removes what earlier installers of this build left: staging directories, and an incomplete final directory.
    /// Requires the build's lock, so that no other process works in them.
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

    /// A new staging directory.
    pub(super) fn create_staging(&self, build: Build) -> io::Result<InstallStaging> {
        let directory = tempfile::Builder::new().prefix(&staging_prefix(build)).tempdir_in(&self.root)?;
        let staging = InstallStaging { directory };
        fs_err::create_dir(staging.tree())?;
        fs_err::create_dir(staging.scratch())?;
        Ok(staging)
    }

    /// Moves a verified staging directory to its final name in one step.
    pub(super) fn publish(&self, build: Build, staging: &InstallStaging) -> io::Result<InstalledBuild> {
        let tree = staging.tree();
        let unsupported = || io::Error::from(io::ErrorKind::Unsupported);
        let executable = build.pin().executable(&self.platform).ok_or_else(unsupported)?;
        let file = fs_err::File::open(tree.join(executable))?;
        // The receipt must not reach the disk before the files that it vouches for.
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

    /// The receipt that an install of the current pin must have.
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

/// An unfinished install; dropping it removes it, which takes a while.
#[derive(Debug)]
pub(super) struct InstallStaging {
    directory: TempDir,
}

impl InstallStaging {
    /// The directory that npm installs into and that is published.
    pub(super) fn tree(&self) -> PathBuf {
        self.directory.path().join("tree")
    }

    /// Removes it with its contents.
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

/// Total size of the files below a directory that is being written; files that vanish meanwhile are not counted.
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
