//! Locates and builds the fake agent: a program that speaks Claude Code's wire protocol and misbehaves on demand.
//!
//! `src/bin/hostler-fake-agent/main.rs` describes its behaviors. Called as `hostler-fake-agent supervise` the same
//! program is a supervisor, so that tests need no other binary.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use hostler_process::SupervisorCommand;

const PROGRAM_NAME: &str = "hostler-fake-agent";

/// Returns the fake agent's executable; builds it if it is missing or older than its sources.
pub fn ensure_built() -> Result<PathBuf> {
    let test = std::env::current_exe().context("the running test has no path")?;
    // Tests are in `deps`, programs in its parent.
    let mut directory = test.parent().context("the running test has no directory")?;
    if directory.ends_with("deps") {
        directory = directory.parent().context("the running test has no directory")?;
    }
    let program = directory.join(PROGRAM_NAME);
    let lock = File::create(directory.join(format!(".{PROGRAM_NAME}.lock")))?;
    lock.lock()?;
    if !is_up_to_date(&program)? {
        build(directory)?;
        ensure!(program.is_file(), "cargo did not build {}", program.display());
    }
    Ok(program)
}

/// Returns the fake agent in its role as supervisor.
pub fn supervisor_command() -> Result<SupervisorCommand> {
    Ok(SupervisorCommand { program: ensure_built()?, args: vec![OsString::from("supervise")] })
}

fn is_up_to_date(program: &Path) -> Result<bool> {
    let Ok(built) = program.metadata() else { return Ok(false) };
    let kit = Path::new(env!("CARGO_MANIFEST_DIR"));
    let written = newest_modification(&kit.join("src/bin").join(PROGRAM_NAME))?
        .max(newest_modification(&kit.join("../hostler-process/src"))?);
    Ok(built.modified()? >= written)
}

fn newest_modification(directory: &Path) -> Result<SystemTime> {
    let mut latest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(directory).with_context(|| format!("{} is missing", directory.display()))? {
        let entry = entry?;
        let changed = if entry.file_type()?.is_dir() {
            newest_modification(&entry.path())?
        } else {
            entry.metadata()?.modified()?
        };
        latest = latest.max(changed);
    }
    Ok(latest)
}

fn build(directory: &Path) -> Result<()> {
    let profile = match directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--package", "hostler-testkit", "--bin", PROGRAM_NAME, "--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cargo cannot be started to build the fake agent")?;
    ensure!(output.status.success(), "the fake agent does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
