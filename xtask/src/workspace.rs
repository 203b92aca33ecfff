//! Facts about this workspace from `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// Workspace, as `cargo metadata` describes it.
#[derive(Debug, Deserialize)]
pub struct Workspace {
    /// Its own packages.
    pub packages: Vec<Package>,
    /// Root directory.
    #[serde(rename = "workspace_root")]
    pub root: PathBuf,
    /// Build directory.
    pub target_directory: PathBuf,
}

/// Package.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// SPDX expression.
    pub license: Option<String>,
    /// Description in one sentence.
    pub description: Option<String>,
    /// Path of its manifest.
    pub manifest_path: PathBuf,
    /// Its dependencies.
    pub dependencies: Vec<Dependency>,
}

/// Dependency between packages.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// Name of the required package.
    pub name: String,
    /// `None` for an ordinary dependency, else `dev` or `build`.
    pub kind: Option<String>,
}

impl Package {
    /// Returns the names of the packages that its code (not its tests) needs.
    pub fn dependency_names(&self) -> impl Iterator<Item = &str> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.kind.is_none())
            .map(|dependency| dependency.name.as_str())
    }

    /// Returns the package's directory.
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }
}

impl Workspace {
    /// Runs `cargo metadata`.
    pub fn load() -> Result<Self> {
        let output = cargo(manifest_directory())
            .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
            .output()
            .context("failed to start cargo")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("failed to parse the output of cargo metadata")
    }

    /// Returns a cargo command that runs in the workspace.
    pub fn cargo_command(&self) -> Command {
        cargo(&self.root)
    }

    /// Returns the `hostler` binary of a profile (`debug`, `release`).
    pub fn hostler_binary(&self, profile: &str) -> PathBuf {
        self.target_directory.join(profile).join(format!("hostler{}", std::env::consts::EXE_SUFFIX))
    }
}

/// Returns this package's directory, which is inside the workspace.
fn manifest_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cargo(directory: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(directory);
    command
}
