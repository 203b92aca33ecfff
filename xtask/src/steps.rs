//! Runs named steps one after the other, times them, and prints a summary.

use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Outcome of a step.
#[derive(Debug)]
enum Outcome {
    Passed,
    /// With the error, which the summary repeats, because later output may have scrolled it away.
    Failed(String),
    Skipped,
}

/// Whether later steps run after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// Later steps run: one run shows all failures.
    Continue,
    /// Later steps depend on this one.
    Abort,
}

/// Run of steps.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    results: Vec<(String, Outcome, Duration)>,
    is_aborted: bool,
}

impl Steps {
    /// Runs a step, unless an earlier one aborted the run.
    pub(crate) fn run_step(&mut self, name: impl Into<String>, then: OnFailure, work: impl FnOnce() -> Result<()>) {
        let name = name.into();
        if self.is_aborted {
            self.results.push((name, Outcome::Skipped, Duration::ZERO));
            return;
        }
        eprintln!("\n── {name}");
        let started = Instant::now();
        let outcome = match work() {
            Ok(()) => Outcome::Passed,
            Err(error) => {
                eprintln!("{name}: {error:#}");
                self.is_aborted |= then == OnFailure::Abort;
                Outcome::Failed(format!("{error:#}"))
            }
        };
        self.results.push((name, outcome, started.elapsed()));
    }

    /// Prints the summary; returns a failure if any step failed.
    pub(crate) fn finish(self) -> ExitCode {
        eprintln!("\n{}", self.summary());
        if self.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn has_passed(&self) -> bool {
        self.results.iter().all(|(_, outcome, _)| matches!(outcome, Outcome::Passed))
    }

    fn summary(&self) -> String {
        let mut lines: Vec<String> = self
            .results
            .iter()
            .map(|(name, outcome, time)| match outcome {
                Outcome::Passed => format!("  ok       {name:<10} {:>7.1} s", time.as_secs_f64()),
                Outcome::Failed(error) => format!("  FAILED   {name:<10} {:>7.1} s  {error}", time.as_secs_f64()),
                Outcome::Skipped => format!("  skipped  {name}"),
            })
            .collect();
        let total: Duration = self.results.iter().map(|(_, _, time)| *time).sum();
        let result = if self.has_passed() { "all steps passed" } else { "some steps failed" };
        lines.push(format!("{result}, {:.1} s", total.as_secs_f64()));
        lines.join("\n")
    }
}

/// Runs a command to its end; fails unless it succeeds.
pub(crate) fn run_command(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("failed to start {program}"))?;
    if !status.success() {
        bail!("{program} failed: {status}");
    }
    Ok(())
}

/// Execs another program, so that it receives signals and the terminal directly.
#[cfg(unix)]
pub(crate) fn exec_command(mut command: Command) -> Result<ExitCode> {
    use std::os::unix::process::CommandExt as _;
    let program = command.get_program().to_string_lossy().into_owned();
    Err(command.exec()).with_context(|| format!("failed to start {program}"))
}

#[cfg(not(unix))]
pub(crate) fn exec_command(mut command: Command) -> Result<ExitCode> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.status().map(exit_code).with_context(|| format!("failed to start {program}"))
}

/// Returns the exit code of a child.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_step_is_reported_and_the_others_still_run() {
        let mut steps = Steps::default();
        steps.run_step("first", OnFailure::Continue, || bail!("broken"));
        steps.run_step("second", OnFailure::Continue, || Ok(()));
        assert!(!steps.has_passed());
        let summary = steps.summary();
        assert!(summary.contains("FAILED   first"), "{summary}");
        assert!(summary.contains("broken"), "{summary}");
        assert!(summary.contains("ok       second"), "{summary}");
    }

    #[test]
    fn steps_after_an_abort_are_skipped() {
        let mut steps = Steps::default();
        steps.run_step("build", OnFailure::Abort, || bail!("broken"));
        steps.run_step("tests", OnFailure::Continue, || panic!("must not run"));
        assert!(steps.summary().contains("skipped  tests"));
    }

    #[test]
    fn run_without_failures_passes() {
        let mut steps = Steps::default();
        steps.run_step("only", OnFailure::Abort, || Ok(()));
        assert!(steps.has_passed());
    }
}
