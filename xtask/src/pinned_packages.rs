//! Packages from outside that tests and benchmarks use: official clients, peers, tools. `pins.json` names their exact
//! versions and is the only place that does.
//!
//! ```text
//! <cache>/tools/.staging-sdk-node-XXXXXXXX/   an install that is not finished
//! <cache>/tools/sdk-node-1.8.0/               one that is: `installed.json` says so
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const PINS: &str = include_str!("../pins.json");
const MARKER_FILE: &str = "installed.json";

/// The official SDKs that the tests use as the gateway's clients.
pub(crate) const SDKS: [&str; 2] = ["sdk-node", "sdk-python"];

/// One package in one version.
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

/// Written last; its presence below the final name is what makes an install one.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InstallMarker {
    #[serde(flatten)]
    pin: PackagePin,
    /// What runs it, where compiled parts depend on that.
    runtime: Option<String>,
}

/// Installs what is missing of these; says nothing about what is there already.
pub(crate) fn ensure_packages(names: &[&str]) -> Result<()> {
    names.iter().try_for_each(|name| ensure_package(name).map(drop))
}

/// The directory of an installed package, which is fetched if it is not there yet.
pub(crate) fn ensure_package(name: &str) -> Result<PathBuf> {
    ensure_package_with(name, |_| Ok(()))
}

/// The same for one that is not ready for use as it is fetched: `finish` gets the directory that it lies in for now.
pub(crate) fn ensure_package_with(name: &str, finish: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    ensure_package_in(&cache_home()?.join("hostler").join("tools"), name, finish)
}

fn ensure_package_in(tools: &Path, name: &str, finish: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let marker = expected_marker(name)?;
    let home = tools.join(format!("{name}-{}", marker.pin.version));
    if is_installed(&home, &marker) {
        return Ok(home);
    }
    eprintln!("fetching {} {} …", marker.pin.package, marker.pin.version);
    std::fs::create_dir_all(tools).with_context(|| format!("{} could not be created", tools.display()))?;
    let staging = StagingDirectory(tools.join(format!(".staging-{name}-{}", Uuid::new_v4().simple())));
    std::fs::create_dir(&staging.0).with_context(|| format!("{} could not be created", staging.0.display()))?;
    fetch_package(&marker.pin, &staging.0)?;
    finish(&staging.0)?;
    std::fs::write(staging.0.join(MARKER_FILE), serde_json::to_vec_pretty(&marker)?)?;

    // One with another marker is of no use, and somebody else may have been faster.
    if home.exists() && !is_installed(&home, &marker) {
        std::fs::remove_dir_all(&home).with_context(|| format!("{} could not be removed", home.display()))?;
    }
    match std::fs::rename(&staging.0, &home) {
        Err(error) if !is_installed(&home, &marker) => {
            Err(error).with_context(|| format!("{} could not be put into place", home.display()))
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
    let mut pins: BTreeMap<String, PackagePin> =
        serde_json::from_str(PINS).context("pins.json is not what it should be")?;
    let pin = pins.remove(name).with_context(|| format!("pins.json has no {name}"))?;
    let runtime = (pin.from == Registry::Pypi).then(python_version).transpose()?;
    Ok(InstallMarker { pin, runtime })
}

/// `3.11`: compiled modules fit one minor version.
fn python_version() -> Result<String> {
    let script = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new("python3").args(["-c", script]).output().context("python3 could not be started")?;
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
    // Where nothing of a project can meddle with what is fetched.
    command.current_dir(into).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.status().with_context(|| format!("{program} could not be started"))?;
    if !status.success() {
        bail!(
            "{} {} could not be installed: {program} ended with {status} (see above). It is fetched once and then \
             kept; check the network, and that {program} works",
            pin.package,
            pin.version
        );
    }
    Ok(())
}

/// How npm is called wherever it is called: what it fetches runs nothing by itself.
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

/// Where this user's programs keep what can be fetched again.
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
    fn a_finished_install_is_taken_as_it_is() {
        let tools = tempfile::tempdir().unwrap();
        let marker = expected_marker("sdk-node").unwrap();
        let home = tools.path().join(format!("sdk-node-{}", marker.pin.version));
        std::fs::create_dir(&home).unwrap();
        assert!(!is_installed(&home, &marker), "a directory alone is not an install");
        std::fs::write(home.join(MARKER_FILE), serde_json::to_vec(&marker).unwrap()).unwrap();
        assert_eq!(ensure_package_in(tools.path(), "sdk-node", |_| panic!("it is finished")).unwrap(), home);
    }

    #[test]
    fn an_install_for_another_python_is_not_taken() {
        let tools = tempfile::tempdir().unwrap();
        let marker = expected_marker("sdk-python").unwrap();
        let other = InstallMarker { pin: marker.pin.clone(), runtime: Some("2.7".to_owned()) };
        std::fs::write(tools.path().join(MARKER_FILE), serde_json::to_vec(&other).unwrap()).unwrap();
        assert!(!is_installed(tools.path(), &marker));
    }
}
