//! Installs pinned packages for tests and benchmarks: official clients, peers, tools. `pins.json` is the only place
//! with their exact versions.
//!
//! ```text
//! <cache>/tools/.staging-sdk-node-XXXXXXXX/   unfinished install
//! <cache>/tools/sdk-node-1.8.0/               finished install: contains `installed.json`
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const PINS: &str = include_str!("../pins.json");
const MARKER_FILE: &str = "installed.json";

/// Official SDKs that the tests use as clients of the gateway.
pub(crate) const SDKS: [&str; 2] = ["sdk-node", "sdk-python"];

/// Package in one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PackagePin {
    from: Registry,
    package: String,
    version: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Registry {
    Npm,
    Pypi,
    Crates,
}

/// Written last; its presence below the final name marks a complete install.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InstallMarker {
    #[serde(flatten)]
    pin: PackagePin,
    /// Version of the runtime, if compiled parts depend on it.
    runtime: Option<String>,
}

/// Installs missing packages; silent about existing ones.
pub(crate) fn ensure_packages(names: &[&str]) -> Result<()> {
    names.iter().try_for_each(|name| ensure_package(name).map(drop))
}

/// Returns the directory of a package; installs it if needed.
pub(crate) fn ensure_package(name: &str) -> Result<PathBuf> {
    ensure_package_with(name, |_| Ok(()))
}

/// Does the same for a package that needs a further step: `finish` gets its staging directory.
pub(crate) fn ensure_package_with(name: &str, finish: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    ensure_package_in(&cache_home()?.join("hostler").join("tools"), name, finish)
}

fn ensure_package_in(tools: &Path, name: &str, finish: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let marker = expected_marker(name)?;
    let home = tools.join(format!("{name}-{}", marker.pin.version));
    if is_installed(&home, &marker) {
        return Ok(home);
    }
    eprintln!("installing {} {} …", marker.pin.package, marker.pin.version);
    std::fs::create_dir_all(tools).with_context(|| format!("failed to create {}", tools.display()))?;
    let staging = StagingDirectory(tools.join(format!(".staging-{name}-{}", Uuid::new_v4().simple())));
    std::fs::create_dir(&staging.0).with_context(|| format!("failed to create {}", staging.0.display()))?;
    fetch_package(&marker.pin, &staging.0)?;
    finish(&staging.0)?;
    std::fs::write(staging.0.join(MARKER_FILE), serde_json::to_vec_pretty(&marker)?)?;

    // An install with another marker is removed; another process may have installed the package meanwhile.
    if home.exists() && !is_installed(&home, &marker) {
        std::fs::remove_dir_all(&home).with_context(|| format!("failed to remove {}", home.display()))?;
    }
    match std::fs::rename(&staging.0, &home) {
        Err(error) if !is_installed(&home, &marker) => {
            Err(error).with_context(|| format!("failed to move the install to {}", home.display()))
        }
        _ => Ok(home),
    }
}

fn is_installed(home: &Path, expected: &InstallMarker) -> bool {
    let found =
        std::fs::read(home.join(MARKER_FILE)).ok().and_then(|json| serde_json::from_slice::<InstallMarker>(&json).ok());
    found.as_ref() == Some(expected)
}

fn expected_marker(name: &str) -> Result<InstallMarker> {
    let mut pins: BTreeMap<String, PackagePin> = serde_json::from_str(PINS).context("failed to parse pins.json")?;
    let pin = pins.remove(name).with_context(|| format!("pins.json has no {name}"))?;
    let runtime = (pin.from == Registry::Pypi).then(python_version).transpose()?;
    Ok(InstallMarker { pin, runtime })
}

/// Returns the minor version, such as `3.11`: compiled modules fit one minor version.
fn python_version() -> Result<String> {
    let script = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-c", script]).output().context("failed to start python3")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn fetch_package(pin: &PackagePin, into: &Path) -> Result<()> {
    let mut command = match pin.from {
        Registry::Npm => {
            let mut npm = Command::new("npm");
            npm.arg("install").arg("--prefix").arg(into).args(NPM_FLAGS);
            npm.arg(format!("{}@{}", pin.package, pin.version));
            npm
        }
        Registry::Pypi => {
            let mut pip = Command::new("python3");
            pip.args(["-m", "pip", "install"]).args(PIP_FLAGS).arg("--target").arg(into);
            pip.arg(format!("{}=={}", pin.package, pin.version));
            pip
        }
        Registry::Crates => {
            let mut cargo = Command::new("cargo");
            cargo.args(["install", "--quiet", "--locked", "--version", &pin.version]);
            cargo.arg("--root").arg(into).arg(&pin.package);
            cargo
        }
    };
    let program = command.get_program().to_string_lossy().into_owned();
    // Runs outside of any project, so that no project configuration affects the install.
    command.current_dir(into).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().with_context(|| format!("failed to start {program}"))?;
    if !status.success() {
        bail!(
            "failed to install {} {}: {program} ended with {status} (see above). Check the network connection and \
             that {program} works, then run this command again",
            pin.package,
            pin.version
        );
    }
    Ok(())
}

/// Flags of every npm call: fetched packages run no scripts.
pub(crate) const NPM_FLAGS: [&str; 9] = [
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--no-package-lock",
    "--no-progress",
    "--no-update-notifier",
    "--global=false",
    "--loglevel=error",
    "--fetch-retries=2",
];

const PIP_FLAGS: [&str; 4] = ["--quiet", "--disable-pip-version-check", "--no-input", "--root-user-action=ignore"];

/// Returns the user's cache directory.
pub(crate) fn cache_home() -> Result<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.context("neither XDG_CACHE_HOME nor HOME is set")
}

/// Removed when dropped, unless it was moved away.
struct StagingDirectory(PathBuf);

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        let _moved_away = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pin_is_exact() {
        let pins: BTreeMap<String, PackagePin> = serde_json::from_str(PINS).unwrap();
        for (name, pin) in pins {
            let numbers: Vec<_> = pin.version.split('.').collect();
            assert!(numbers.len() == 3 && numbers.iter().all(|part| part.parse::<u32>().is_ok()), "{name}");
        }
        SDKS.iter().for_each(|name| assert!(expected_marker(name).is_ok(), "{name}"));
    }

    #[test]
    fn finished_install_is_reused() {
        let tools = tempfile::tempdir().unwrap();
        let marker = expected_marker("sdk-node").unwrap();
        let home = tools.path().join(format!("sdk-node-{}", marker.pin.version));
        std::fs::create_dir(&home).unwrap();
        assert!(!is_installed(&home, &marker), "a directory alone is not an install");
        std::fs::write(home.join(MARKER_FILE), serde_json::to_vec(&marker).unwrap()).unwrap();
        assert_eq!(ensure_package_in(tools.path(), "sdk-node", |_| panic!("the install is complete")).unwrap(), home);
    }

    #[test]
    fn install_for_another_python_is_not_reused() {
        let tools = tempfile::tempdir().unwrap();
        let marker = expected_marker("sdk-python").unwrap();
        let other = InstallMarker { pin: marker.pin.clone(), runtime: Some("2.7".to_owned()) };
        std::fs::write(tools.path().join(MARKER_FILE), serde_json::to_vec(&other).unwrap()).unwrap();
        assert!(!is_installed(tools.path(), &marker));
    }
}
