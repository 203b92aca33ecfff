//! Programs that the system's package manager has: asked for where they are missing, as root or with sudo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The names of a browser that can be driven.
const BROWSER_PROGRAMS: [&str; 2] = ["chromium", "google-chrome"];

/// The system's browser, which is installed if there is none.
pub(crate) fn ensure_chromium() -> Result<PathBuf> {
    if let Some(found) = find_browser() {
        return Ok(found);
    }
    install_packages(&["chromium"])?;
    find_browser().context("no chromium was found on PATH, although it was installed just now")
}

fn find_browser() -> Option<PathBuf> {
    BROWSER_PROGRAMS.iter().find_map(|name| find_program(name))
}

/// A program on `PATH`.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    find_program_in(&std::env::var_os("PATH")?, program)
}

fn find_program_in(directories: &std::ffi::OsStr, program: &str) -> Option<PathBuf> {
    std::env::split_paths(directories).map(|place| place.join(program)).find(|place| place.is_file())
}

/// Asks Debian's package manager, where there is one and this user may.
pub(crate) fn install_packages(packages: &[&str]) -> Result<()> {
    let names = packages.join(" ");
    eprintln!("installing {names} with apt-get …");
    let install = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    // A machine that never asked which packages there are knows none; one that asked long ago knows old ones.
    let installed = run_apt(&install, AptOutput::Hidden)
        || (run_apt(&["update"], AptOutput::Errors) && run_apt(&install, AptOutput::Errors));
    if !installed {
        bail!(
            "{names}: missing, and apt-get could not install it. Install it (`sudo apt-get update && sudo apt-get \
             install {names}`, or what your system calls it) and run this again"
        );
    }
    Ok(())
}

/// What a person hears of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AptOutput {
    Hidden,
    Errors,
}

/// Whether apt-get could do it.
fn run_apt(arguments: &[&str], told: AptOutput) -> bool {
    let mut apt = if is_root() {
        Command::new("apt-get")
    } else {
        // Nobody may be there to type a password.
        let mut sudo = Command::new("sudo");
        sudo.args(["--non-interactive", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        sudo
    };
    apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(Stdio::null());
    if told == AptOutput::Hidden {
        apt.stderr(Stdio::null());
    }
    apt.status().is_ok_and(|status| status.success())
}

/// Whether this user may do everything: their processes belong to root.
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
    fn a_program_is_found_in_the_first_directory_that_has_it() {
        let (empty, full) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let program = full.path().join("a-program");
        std::fs::write(&program, "").unwrap();
        std::fs::create_dir(empty.path().join("a-program")).unwrap();
        let path = std::env::join_paths([empty.path(), full.path()]).unwrap();
        assert_eq!(find_program_in(&path, "a-program"), Some(program));
        assert_eq!(find_program_in(&path, "another"), None);
    }
}
