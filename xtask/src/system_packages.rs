//! Installs programs with the system's package manager where they are missing, as root or with sudo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Names of a browser that can be automated.
const BROWSER_PROGRAMS: [&str; 2] = ["chromium", "google-chrome"];

/// Returns the system's browser; installs it if there is none.
pub(crate) fn ensure_chromium() -> Result<PathBuf> {
    if let Some(found) = find_browser() {
        return Ok(found);
    }
    install_packages(&["chromium"])?;
    find_browser().context("chromium was installed, but is not on PATH")
}

fn find_browser() -> Option<PathBuf> {
    BROWSER_PROGRAMS.iter().find_map(|name| find_program(name))
}

/// Finds a program on `PATH`.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    find_program_in(&std::env::var_os("PATH")?, program)
}

fn find_program_in(directories: &std::ffi::OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(directories).map(|place| place.join(program)).find(|place| place.is_file())
}

/// Installs Debian packages, if apt-get exists and this user may run it.
pub(crate) fn install_packages(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    eprintln!("installing {names} with apt-get …");
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    // The package lists may be missing or outdated, so a failed install is retried after an update.
    let installed = run_apt(&install, AptOutput::Hidden)
        || (run_apt(&["update"], AptOutput::Errors) && run_apt(&install, AptOutput::Errors));
    if !installed {
        bail!(
            "apt-get failed to install {names}. Install it yourself (`sudo apt-get update && sudo apt-get install \
             {names}`, or with the package manager of your system) and run this command again"
        );
    }
    Ok(())
}

/// Whether the output of a command is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AptOutput {
    Hidden,
    Errors,
}

/// Runs apt-get; returns whether it succeeded.
fn run_apt(arguments: &[&str], output: AptOutput) -> bool {
    let mut apt = if is_root() {
        Command::new("apt-get")
    } else {
        // Non-interactive: there may be no person to type a password.
        let mut sudo = Command::new("sudo");
        sudo.args(["--non-interactive", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    };
    apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    if output == AptOutput::Hidden {
        apt.stderr(Stdio::null());
    }
    apt.status().is_ok_and(|status| status.success())
}

/// Returns whether this user is root.
#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(Path::new("/proc/self")).is_ok_and(|process| process.uid() == 0)
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_in_the_first_matching_directory() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let program = full.path().join("a-program");
        std::fs::write(&program, "").unwrap();
        std::fs::create_dir(empty.path().join("a-program")).unwrap();
        let path = std::env::join_paths([empty.path(), full.path()]).unwrap();
        assert_eq!(find_program_in(&path, "a-program"), Some(program));
        assert_eq!(find_program_in(&path, "another"), None);
    }
}
