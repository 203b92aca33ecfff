//! The programs that the tests need on a machine.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// Program, and what it is for.
const NEEDED: [(&str, &str); 8] = [
    ("cargo", "builds everything"),
    ("git", "sessions run in git repositories"),
    ("node", "runs npm and the JavaScript build of Claude Code (Node.js 18 or newer)"),
    ("npm", "fetches Claude Code"),
    ("python3", "plays agents and clients that are not ours"),
    ("bash", "is a shell whose commands terminals tell of"),
    ("zsh", "is a shell whose commands terminals tell of (a package of that name)"),
    ("fish", "is a shell whose commands terminals tell of (a package of that name)"),
];

/// Fails with the list of what is missing.
pub(crate) fn check() -> Result<()> {
    let missing: Vec<_> = NEEDED.iter().filter(|(program, _)| !runs(program, &["--version"])).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list: String = missing.iter().map(|(program, purpose)| format!("\n  {program}: {purpose}")).collect();
    bail!("these programs are needed on PATH and were not found:{list}")
}

/// Whether cargo-nextest is installed; without it `cargo test` does the same more slowly.
pub(crate) fn has_nextest() -> bool {
    runs("cargo", &["nextest", "--version"])
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
