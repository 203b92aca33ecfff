//! Programs that the tests need.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::system_packages;

/// Program and its purpose.
const REQUIRED_PROGRAMS: [(&str, &str); 8] = [
    ("cargo", "builds everything"),
    ("git", "creates repositories for sessions"),
    ("node", "runs npm, the tests of the web page and the JavaScript build of Claude Code (version 20.19 or later)"),
    ("npm", "installs Claude Code and the packages of the web page"),
    ("python3", "runs fake agents and third-party clients"),
    ("bash", "is a shell with command detection in terminals"),
    ("zsh", "is a shell with command detection in terminals"),
    ("fish", "is a shell with command detection in terminals"),
];

/// Programs that are available under the same name as system packages only.
const APT_PROGRAMS: [&str; 2] = ["zsh", "fish"];

/// Installs test-only programs, and fails with the list of missing ones.
pub(crate) fn ensure_programs() -> Result<()> {
    let absent: Vec<_> =
        APT_PROGRAMS.into_iter().filter(|program| system_packages::find_program(program).is_none()).collect();
    if !absent.is_empty() {
        system_packages::install_packages(&absent)?;
    }
    system_packages::ensure_chromium()?;
    check_programs()
}

/// Fails with the list of missing programs.
fn check_programs() -> Result<()> {
    let missing: Vec<_> = REQUIRED_PROGRAMS.iter().filter(|(program, _)| !can_run(program, &["--version"])).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list: String = missing.iter().map(|(program, purpose)| format!("\n  {program}: {purpose}")).collect();
    bail!("required programs are not on PATH; install them and run this command again:{list}")
}

/// Returns whether cargo-nextest is installed; without it, `cargo test` does the same more slowly.
pub(crate) fn has_nextest() -> bool {
    can_run("cargo", &["nextest", "--version"])
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
