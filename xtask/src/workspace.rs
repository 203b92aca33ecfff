//! What cargo says about this workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// The workspace, as `cargo metadata` describes it.
#[derive(Debug, Deserialize)]
pub struct Workspace {
    /// Its own packages.
    pub packages: Vec<Package>,
    /// Where it lies.
    #[serde(rename = "workspace_root")]
    pub root: PathBuf,
    /// Where cargo builds to.
    pub target_directory: PathBuf,
}

/// One package.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The SPDX expression.
    pub license: Option<String>,
    /// One sentence.
    pub description: Option<String>,
    /// Its manifest.
    pub manifest_path: PathBuf,
    /// What it asks for.
    pub dependencies: Vec<Dependency>,
}

/// An edge in the graph of packages.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The package that is needed.
    pub name: String,
    /// `None` for an ordinary dependency, else `dev` or `build`.
    pub kind: Option<String>,
}

impl Package {
    /// The names of the packages that its code (not its tests) needs.
    pub fn dependency_names(&self) -> impl Iterator<Item = &str> {
        self.dependencies
            .iter()
            .filter(|dependency| dependency.kind.is_none())
            .map(|dependency| dependency.name.as_str())
    }

    /// The package's directory.
    pub fn directory(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("."))
    }
}

impl Workspace {
    /// Asks cargo.
    pub fn load() -> Result<Self> {
        let output = cargo(manifest_directory())
            .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
            .output()
            .context("cargo could not be started")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).context("cargo metadata answered in an unknown form")
    }

    /// A cargo command that runs in the workspace.
    pub fn cargo_command(&self) -> Command {
        cargo(&self.root)
    }

    /// The `hostler` binary of a profile (`debug`, `release`).
    pub fn hostler_binary(&self, profile: &str) -> PathBuf {
        self.target_directory.join(profile).join(format!("hostler{}", std::env::consts::EXE_SUFFIX))
    }
}

/// This package's directory, which is inside the workspace.
fn manifest_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn cargo(directory: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(directory);
    command
}
