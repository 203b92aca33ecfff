//! Reads the names of failed tests from the reports of the test runners, so that the summary at the end can list them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use serde::Deserialize;

use crate::steps::run_command;

/// A machine-readable report that a test runner writes beside its output.
#[derive(Debug)]
pub(crate) enum Report {
    /// The JSON report of Vitest.
    Vitest(PathBuf),
    /// The `JUnit` report of nextest.
    Nextest(PathBuf),
}

impl Report {
    /// Runs a test runner; a failure names the tests that failed, as far as the report lists them.
    pub(crate) fn succeed(&self, command: &mut Command) -> Result<()> {
        let (Self::Vitest(path) | Self::Nextest(path)) = self;
        // A report of an earlier run must not pass as the report of this run.
        let _ = std::fs::remove_file(path);
        let Err(error) = run_command(command) else { return Ok(()) };
        let failed = self.failed(path);
        if failed.is_empty() {
            return Err(error);
        }
        bail!(
            "{error:#}; failed tests:\n{}",
            failed.iter().map(|name| format!("    {name}")).collect::<Vec<_>>().join("\n")
        )
    }

    fn failed(&self, path: &Path) -> Vec<String> {
        let Ok(text) = std::fs::read_to_string(path) else { return Vec::new() };
        match self {
            Self::Vitest(_) => vitest(&text),
            Self::Nextest(_) => nextest(&text),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestReport {
    test_results: Vec<VitestFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestFile {
    name: String,
    #[serde(default)]
    message: String,
    status: String,
    #[serde(default)]
    assertion_results: Vec<VitestTest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VitestTest {
    full_name: String,
    status: String,
    #[serde(default)]
    failure_messages: Vec<String>,
}

fn vitest(report: &str) -> Vec<String> {
    let Ok(report) = serde_json::from_str::<VitestReport>(report) else { return Vec::new() };
    let mut failed = Vec::new();
    for file in report.test_results.iter().filter(|file| file.status == "failed") {
        let name =
            Path::new(&file.name).file_name().map_or(file.name.clone(), |name| name.to_string_lossy().into_owned());
        if !file.message.is_empty() {
            failed.push(format!("{name}: {}", first_line(&file.message)));
        }
        for test in file.assertion_results.iter().filter(|test| test.status == "failed") {
            let why = test.failure_messages.first().map_or("", |message| first_line(message));
            failed.push(format!("{name}: {}: {why}", test.full_name.trim()));
        }
    }
    failed
}

/// Reads the attributes of test cases that contain a failure or an error. nextest writes one element per line.
fn nextest(report: &str) -> Vec<String> {
    let mut failed = Vec::new();
    let mut case = None;
    for line in report.lines().map(str::trim) {
        if line.starts_with("<testcase ") {
            case = attribute(line, "classname")
                .zip(attribute(line, "name"))
                .map(|(class, name)| format!("{class} {name}"));
        } else if line.starts_with("<failure") || line.starts_with("<error") {
            failed.extend(case.take());
        }
    }
    failed
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = element.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vitest_report_names_file_test_and_reason() {
        let report = r#"{"testResults":[
            {"name":"/w/browser/cards.test.ts","status":"failed","message":"","assertionResults":[
                {"fullName":"a card is denied","status":"failed","failureMessages":["Error: no card\n  at x"]},
                {"fullName":"a card is allowed","status":"passed","failureMessages":[]}]},
            {"name":"/w/browser/list.test.ts","status":"failed","message":"hook timed out\nat y","assertionResults":[]},
            {"name":"/w/browser/ok.test.ts","status":"passed","message":"","assertionResults":[]}]}"#;
        assert_eq!(vitest(report), ["cards.test.ts: a card is denied: Error: no card", "list.test.ts: hook timed out"]);
    }

    #[test]
    fn nextest_report_names_binary_and_test() {
        let report = r#"<testsuites>
    <testsuite name="hostler::tools">
        <testcase name="asking::waits" classname="hostler::tools" time="0.1">
        </testcase>
        <testcase name="asking::denies" classname="hostler::tools" time="0.1">
            <failure type="test failure">text</failure>
        </testcase>
    </testsuite>
</testsuites>"#;
        assert_eq!(nextest(report), ["hostler::tools asking::denies"]);
    }

    #[test]
    fn unreadable_report_names_no_tests() {
        assert!(vitest("{").is_empty());
        assert!(nextest("").is_empty());
    }

    #[test]
    fn failed_runner_without_a_report_still_fails() {
        let report = Report::Vitest(std::env::temp_dir().join("there-is-no-such-report.json"));
        assert!(report.succeed(&mut Command::new("false")).is_err());
        assert!(report.succeed(&mut Command::new("true")).is_ok());
    }
}
