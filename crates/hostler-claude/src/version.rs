//! Versions of Claude Code executables: parsing, comparison and detection.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use hostler_process::{Environment, SpawnSpec, SupervisorCommand, TerminationMode};
use serde::Deserialize;

use crate::Executable;
use crate::install::Build;

/// A version of Claude Code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaudeVersion {
    /// `2` of `2.1.325`.
    pub major: u32,
    /// `1` of `2.1.325`.
    pub minor: u32,
    /// `325` of `2.1.325`.
    pub patch: u32,
}

impl ClaudeVersion {
    /// The older of the two tested builds. Earlier versions are not supported.
    pub fn oldest_tested() -> Self {
        let pinned = Build::ALL.iter().filter_map(|build| Self::parse(build.pin().version));
        pinned.min().unwrap_or(Self { major: 0, minor: 0, patch: 0 })
    }

    /// Parses `2.1.325`, also with a suffix: `2.1.325 (Claude Code)`, `2.1.325-beta`.
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.trim().split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut fields = number.split('.').map(str::parse);
        match (fields.next()?, fields.next()?, fields.next()?) {
            (Ok(major), Ok(minor), Ok(patch)) => Some(Self { major, minor, patch }),
            _ => None,
        }
    }
}

impl fmt::Display for ClaudeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Caches the versions of executables as long as their files do not change.
#[derive(Debug, Default)]
pub(crate) struct VersionCache {
    versions: Mutex<HashMap<FileIdentity, ClaudeVersion>>,
}

/// An executable's path, modification time and size.
type FileIdentity = (PathBuf, Option<SystemTime>, u64);

impl VersionCache {
    /// The version of an executable whose handshake does not report it: from the package of its script, otherwise by
    /// running it.
    pub(crate) async fn version_of(
        &self,
        executable: &Executable,
        environment: &Environment,
        supervisor: &SupervisorCommand,
    ) -> Option<ClaudeVersion> {
        let path = executable.path();
        let file = tokio::fs::metadata(path).await.ok()?;
        let key = (path.to_owned(), file.modified().ok(), file.len());
        let known = self.versions.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if known.is_some() {
            return known;
        }
        let version = match version_from_package(executable).await {
            Some(version) => Some(version),
            None => version_from_output(executable, environment, supervisor).await,
        }?;
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).insert(key, version);
        Some(version)
    }
}

/// The version in the package of a script.
async fn version_from_package(executable: &Executable) -> Option<ClaudeVersion> {
    #[derive(Deserialize)]
    struct Package {
        #[serde(rename = "claudeCodeVersion")]
        version: String,
    }
    let Executable::Js { cli, .. } = executable else {
        return None;
    };
    let text = tokio::fs::read(cli.parent()?.join("package.json")).await.ok()?;
    ClaudeVersion::parse(&serde_json::from_slice::<Package>(&text).ok()?.version)
}

/// The version that `--version` prints.
async fn version_from_output(
    executable: &Executable,
    environment: &Environment,
    supervisor: &SupervisorCommand,
) -> Option<ClaudeVersion> {
    let (program, mut args) = executable.command();
    args.push("--version".into());
    let spec = SpawnSpec {
        program,
        args,
        env: environment.clone(),
        cwd: Path::new("/").to_owned(),
        supervisor: supervisor.clone(),
        lock: None,
        redact: Vec::new(),
    };
    let mut process = hostler_process::spawn(spec).await.ok()?;
    process.stdin.close();
    let line = process.stdout.next_line().await.ok().flatten();
    process.handle.close(TerminationMode::Graceful).await;
    ClaudeVersion::parse(std::str::from_utf8(&line?).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_and_compared_numerically() {
        let version = |text| ClaudeVersion::parse(text).map(|v| v.to_string());
        assert_eq!(version("2.1.325"), Some("2.1.325".to_owned()));
        assert_eq!(version(" 2.1.325 (Claude Code)\n"), Some("2.1.325".to_owned()));
        assert_eq!(version("2.1.325-beta.1"), Some("2.1.325".to_owned()));
        for text in ["", "claude", "2", "2.1", "v2.1.3", "2..1", "99999999999.1.1"] {
            assert_eq!(version(text), None, "{text}");
        }
        assert!(ClaudeVersion::parse("1.0.0") < Some(ClaudeVersion::oldest_tested()), "the pins are versions");
        assert!(ClaudeVersion::parse("2.1.99") < Some(ClaudeVersion::oldest_tested()));
        assert!(ClaudeVersion::parse("2.10.0") > Some(ClaudeVersion::oldest_tested()));
    }
}
