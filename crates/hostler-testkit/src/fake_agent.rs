//! Where the fake agent is: a program that speaks Claude Code's wire and misbehaves on demand.
//!
//! Its behaviours are described in `src/bin/hostler-fake-agent/main.rs`. Called as `hostler-fake-agent supervise` the
//! same program is a supervisor, so that tests need no other binary.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use hostler_process::SupervisorCommand;

const NAME: &str = "hostler-fake-agent";

/// The fake agent's executable, built if it is missing or older than its sources.
pub fn path() -> Result<PathBuf> {
    let test = std::env::current_exe().context("the running test has no path")?;
    // Tests lie in `deps`, programs beside it.
    let mut directory = test.parent().context("the running test lies nowhere")?;
    if directory.ends_with("deps") {
        directory = directory.parent().context("the running test lies nowhere")?;
    }
    let program = directory.join(NAME);
    let lock = File::create(directory.join(format!(".{NAME}.lock")))?;
    lock.lock()?;
    if !is_fresh(&program)? {
        build(directory)?;
        ensure!(program.is_file(), "cargo did not build {}", program.display());
    }
    Ok(program)
}

/// The fake agent in its role as supervisor.
pub fn supervisor() -> Result<SupervisorCommand> {
    Ok(SupervisorCommand { program: path()?, args: vec![OsString::from("supervise")] })
}

fn is_fresh(program: &Path) -> Result<bool> {
    let Ok(built) = program.metadata() else { return Ok(false) };
    let kit = Path::new(env!("CARGO_MANIFEST_DIR"));
    let written = newest(&kit.join("src/bin").join(NAME))?.max(newest(&kit.join("../hostler-process/src"))?);
    Ok(built.modified()? >= written)
}

fn newest(directory: &Path) -> Result<SystemTime> {
    let mut latest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(directory).with_context(|| format!("{} is missing", directory.display()))? {
        let entry = entry?;
        let changed =
            if entry.file_type()?.is_dir() { newest(&entry.path())? } else { entry.metadata()?.modified()? };
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
        .args(["build", "--package", "hostler-testkit", "--bin", NAME, "--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .context("cargo cannot be started to build the fake agent")?;
    ensure!(output.status.success(), "the fake agent does not build:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
