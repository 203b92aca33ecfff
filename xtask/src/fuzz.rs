//! `cargo xtask fuzz`: a bounded run over every target in `fuzz/`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::pinned_packages;
use crate::steps::{OnFailure, Steps, run_command};
use crate::workspace::Workspace;

/// Maximum input size unless a seed is larger; small inputs run faster.
const MAX_INPUT_BYTES: u64 = 1024;

/// How long to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Number of seconds for each target.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Runs only this target.
    #[arg(long)]
    target: Option<String>,
}

/// Runs the targets one after the other; findings are written to `fuzz/artifacts`.
pub fn run(options: &Options) -> Result<ExitCode> {
    let workspace = Workspace::load()?;
    let directory = workspace.root.join("fuzz");
    let targets = select_targets(list_targets(&directory)?, options.target.as_deref())?;
    let cargo_fuzz = pinned_packages::ensure_package("cargo-fuzz")?.join("bin/cargo-fuzz");
    let mut steps = Steps::default();
    let mut build = cargo_fuzz_command(&cargo_fuzz, &workspace, "build");
    // One target may need only a few of the crates.
    build.arg("--fuzz-dir").arg(&directory).args(&options.target);
    steps.run_step("build", OnFailure::Abort, || {
        run_command(&mut build).context("failed to build the targets; libFuzzer also needs a C++ compiler")
    });
    for target in targets {
        let corpus = workspace.target_directory.join("fuzz-corpus").join(&target);
        std::fs::create_dir_all(&corpus).with_context(|| format!("failed to create {}", corpus.display()))?;
        let mut run = cargo_fuzz_command(&cargo_fuzz, &workspace, "run");
        run.arg("--fuzz-dir").arg(&directory).arg(&target);
        // New inputs go to the first directory; the seeds in the second one are not changed.
        let seeds = directory.join("seeds").join(&target);
        let max_bytes = largest_seed_bytes(&seeds)?;
        run.arg(corpus).arg(seeds).arg("--");
        run.arg(format!("-max_total_time={}", options.seconds)).arg(format!("-max_len={max_bytes}"));
        run.args(["-print_final_stats=1", "-verbosity=0"]);
        steps.run_step(target, OnFailure::Continue, || run_command(&mut run));
    }
    Ok(steps.finish())
}

/// Uses the stable toolchain without a sanitizer, which finds little in code without `unsafe`.
fn cargo_fuzz_command(cargo_fuzz: &Path, workspace: &Workspace, verb: &str) -> Command {
    let mut command = Command::new(cargo_fuzz);
    command.args([verb, "--sanitizer", "none"]).current_dir(&workspace.root);
    command.env("CARGO_TARGET_DIR", workspace.target_directory.join("fuzz"));
    command
}

fn list_targets(directory: &Path) -> Result<Vec<String>> {
    let entries =
        std::fs::read_dir(directory.join("fuzz_targets")).context("failed to read the directory of fuzz targets")?;
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let mut names: Vec<String> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Returns the required input size: libFuzzer truncates longer seeds, and a truncated seed loses its effect.
fn largest_seed_bytes(seeds: &Path) -> Result<u64> {
    let entries =
        std::fs::read_dir(seeds).with_context(|| format!("failed to read the seeds in {}", seeds.display()))?;
    let sizes = entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len()));
    Ok(sizes.fold(MAX_INPUT_BYTES, u64::max))
}

fn select_targets(targets: Vec<String>, only: Option<&str>) -> Result<Vec<String>> {
    match only {
        None => Ok(targets),
        Some(only) if targets.iter().any(|target| target == only) => Ok(vec![only.to_owned()]),
        Some(only) => bail!("unknown target: {only}. Known targets: {}", targets.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_limit_covers_the_largest_seed() {
        let seeds = tempfile::tempdir().unwrap();
        assert_eq!(largest_seed_bytes(seeds.path()).unwrap(), MAX_INPUT_BYTES);
        std::fs::write(seeds.path().join("long"), vec![b' '; 5_000]).unwrap();
        assert_eq!(largest_seed_bytes(seeds.path()).unwrap(), 5_000);
        assert!(largest_seed_bytes(&seeds.path().join("none")).is_err());
    }

    #[test]
    fn every_target_has_seeds_and_an_unknown_target_is_an_error() {
        let directory = Workspace::load().unwrap().root.join("fuzz");
        let names = list_targets(&directory).unwrap();
        assert!(!names.is_empty());
        for name in &names {
            assert!(std::fs::read_dir(directory.join("seeds").join(name)).unwrap().count() > 0, "{name}");
        }
        let error = select_targets(names, Some("nonsense")).unwrap_err().to_string();
        assert!(error.contains("unknown target: nonsense. Known targets: "), "{error}");
    }
}
