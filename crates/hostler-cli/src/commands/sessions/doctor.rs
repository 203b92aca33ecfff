//! `hostler sessions doctor`: what is wrong with the agents' own records.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::{not_understood, print_json, table};
use crate::Io;
use crate::console::{Style, one_line};
use crate::environment::HostEnvironment;
use crate::exit::{Exit, Failure};
use crate::host::Reached;

/// After so long people are told why nothing happens.
const SILENCE: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
struct Checkup {
    conversations: u64,
    findings: Vec<Finding>,
    more: u64,
}

#[derive(Debug, Deserialize)]
struct Finding {
    session: Option<String>,
    path: Option<String>,
    problem: String,
}

pub(super) async fn doctor(
    json: bool,
    environment: &HostEnvironment,
    host: &Reached,
    io: &mut Io,
) -> Result<(), Failure> {
    let mut asked = std::pin::pin!(host.client.sessions_doctor());
    let late = io.signals.unless(tokio::time::timeout(SILENCE, &mut asked)).await?;
    let answer = match late {
        Ok(answer) => answer?,
        Err(_) => {
            io.console.note("Every record is read, which takes a while where there are many.", Style::Dim);
            io.signals.unless(asked).await??
        }
    };
    let checkup: Checkup = serde_json::from_str(answer.get()).map_err(|error| not_understood(&error))?;
    if json {
        print_json(&answer, io)?;
    } else {
        for finding in &checkup.findings {
            io.console.out_line(&line(finding, &environment.home), Style::Plain)?;
        }
    }
    let summary = summary(&checkup);
    if checkup.findings.is_empty() {
        if !json {
            io.console.note(&summary, Style::Plain);
        }
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, if json { String::new() } else { summary }))
}

/// What it is about, and what is wrong.
fn line(finding: &Finding, home: &Path) -> String {
    let path = finding.path.as_ref().map(|path| table::at_home(Path::new(path), home));
    let subject = match (&finding.session, path) {
        (Some(session), Some(path)) => format!("{} ({path})", one_line(session)),
        (Some(session), None) => one_line(session),
        (None, path) => path.unwrap_or_default(),
    };
    format!("{subject}: {}", one_line(&finding.problem))
}

fn summary(checkup: &Checkup) -> String {
    let read = match checkup.conversations {
        1 => "1 conversation was read".to_owned(),
        many => format!("{many} conversations were read"),
    };
    let shown = u64::try_from(checkup.findings.len()).unwrap_or(u64::MAX);
    match (shown.saturating_add(checkup.more), checkup.more) {
        (0, _) => format!("{read}; nothing is wrong."),
        (1, _) => format!("{read}; 1 thing is wrong."),
        (all, 0) => format!("{read}; {all} things are wrong."),
        (all, _) => format!("{read}; {all} things are wrong, of which {shown} are shown."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(session: Option<&str>, path: Option<&str>) -> Finding {
        let problem = "it is\ntorn".to_owned();
        Finding { session: session.map(str::to_owned), path: path.map(str::to_owned), problem }
    }

    #[test]
    fn a_line_says_what_it_is_about_and_what_is_wrong() {
        let home = Path::new("/home/me");
        let say = |session, path| line(&finding(session, path), home);
        assert_eq!(say(Some("claude:/1"), None), "claude:/1: it is torn");
        assert_eq!(say(None, Some("/home/me/.claude/x")), "~/.claude/x: it is torn");
        assert_eq!(say(Some("claude:/1"), Some("/p/1.jsonl")), "claude:/1 (/p/1.jsonl): it is torn");
    }

    #[test]
    fn the_last_line_counts() {
        let of = |conversations, found: usize, more| {
            let findings = (0..found).map(|_| finding(None, Some("/p"))).collect();
            summary(&Checkup { conversations, findings, more })
        };
        assert_eq!(of(0, 0, 0), "0 conversations were read; nothing is wrong.");
        assert_eq!(of(1, 1, 0), "1 conversation was read; 1 thing is wrong.");
        assert_eq!(of(9, 2, 0), "9 conversations were read; 2 things are wrong.");
        assert_eq!(of(9, 2, 7), "9 conversations were read; 9 things are wrong, of which 2 are shown.");
    }
}
