//! Programs that the tests need.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::steps::run_command;
use crate::system_packages;

/// Program and its purpose.
const REQUIRED_PROGRAMS: [(&str, &str); 14] = [
    ("cargo", "builds everything"),
    ("git", "creates repositories for sessions"),
    ("node", "runs npm, the tests of the web page and the JavaScript build of Claude Code (version 20.19 or later)"),
    ("npm", "installs Claude Code and the packages of the web page"),
    ("python3", "runs fake agents and third-party clients"),
    ("bash", "is a shell with command detection in terminals"),
    ("zsh", "is a shell with command detection in terminals"),
    ("fish", "is a shell with command detection in terminals"),
    ("rg", "runs the allowed lines of the shell corpus"),
    ("fd", "runs the allowed lines of the shell corpus"),
    ("tree", "runs the allowed lines of the shell corpus"),
    ("jq", "runs the allowed lines of the shell corpus"),
    ("file", "runs the allowed lines of the shell corpus"),
    ("strings", "runs the allowed lines of the shell corpus"),
];

/// Programs that system packages contain, and these packages.
const PACKAGED_PROGRAMS: [(&str, &str); 8] = [
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("rg", "ripgrep"),
    ("fd", "fd-find"),
    ("tree", "tree"),
    ("jq", "jq"),
    ("file", "file"),
    ("strings", "binutils"),
];

/// The version that is installed where cargo-nextest is missing.
const NEXTEST_VERSION: &str = "0.9.143";

/// Other names of a program: Debian renames it.
const OTHER_NAMES: [(&str, &str); 1] = [("fd", "fdfind")];

/// Returns all names of a program.
fn names_of(program: &str) -> impl Iterator<Item = &str> {
    let others = OTHER_NAMES.iter().filter(move |(name, _)| *name == program).map(|(_, other)| *other);
    std::iter::once(program).chain(others)
}

/// Installs test-only programs, and fails with the list of missing ones.
pub(crate) fn ensure_programs() -> Result<()> {
    let is_absent = |program: &str| names_of(program).all(|name| system_packages::find_program(name).is_none());
    let absent: Vec<_> =
        PACKAGED_PROGRAMS.iter().filter(|(program, _)| is_absent(program)).map(|(_, package)| *package).collect();
    if !absent.is_empty() {
        system_packages::install_packages(&absent)?;
    }
    system_packages::ensure_chromium()?;
    check_programs()?;
    ensure_nextest()
}

/// Fails with the list of missing programs.
fn check_programs() -> Result<()> {
    let is_missing = |program: &str| !names_of(program).any(|name| can_run(name, &["--version"]));
    let missing: Vec<_> = REQUIRED_PROGRAMS.iter().filter(|(program, _)| is_missing(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list: String = missing.iter().map(|(program, purpose)| format!("\n  {program}: {purpose}")).collect();
    bail!("required programs are not on PATH; install them and run this command again:{list}")
}

/// Installs cargo-nextest: it runs each test in a process of its own, which the tests rely on.
fn ensure_nextest() -> Result<()> {
    if can_run("cargo", &["nextest", "--version"]) {
        return Ok(());
    }
    eprintln!("installing cargo-nextest {NEXTEST_VERSION} with cargo …");
    let package = format!("cargo-nextest@{NEXTEST_VERSION}");
    run_command(Command::new("cargo").args(["install", "--locked", &package]))
}

fn can_run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renamed_program_is_found_under_either_name() {
        assert_eq!(names_of("fd").collect::<Vec<_>>(), ["fd", "fdfind"]);
        assert_eq!(names_of("rg").collect::<Vec<_>>(), ["rg"]);
    }

    #[test]
    fn packaged_programs_are_required() {
        for (program, _) in PACKAGED_PROGRAMS {
            assert!(REQUIRED_PROGRAMS.iter().any(|(required, _)| *required == program), "{program}");
        }
    }
}
