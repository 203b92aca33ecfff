//! `hostler sessions doctor`: prints problems of the agents' transcripts.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::{print_json, table, unexpected_response};
use crate::Io;
use crate::console::{TextStyle, to_one_line};
use crate::environment::HostEnvironment;
use crate::exit::{CommandFailure, Exit};
use crate::host::HostConnection;

/// Delay before a notice explains the wait.
const SLOW_NOTICE_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TranscriptCheckup {
    conversations: u64,
    findings: Vec<TranscriptFinding>,
    omitted_findings: u64,
}

#[derive(Debug, Deserialize)]
struct TranscriptFinding {
    session: Option<String>,
    path: Option<String>,
    problem: String,
}

pub(super) async fn check_transcripts(
    json: bool,
    environment: &HostEnvironment,
    host: &HostConnection,
    io: &mut Io,
) -> Result<(), CommandFailure> {
    let mut asked = std::pin::pin!(host.client.check_transcripts());
    let late = io.signals.run_or_interrupt(tokio::time::timeout(SLOW_NOTICE_DELAY, &mut asked)).await?;
    let answer = match late {
        Ok(answer) => answer?,
        Err(_) => {
            io.console.write_note("Every record is read, which takes a while where there are many.", TextStyle::Dim);
            io.signals.run_or_interrupt(asked).await??
        }
    };
    let checkup: TranscriptCheckup = serde_json::from_str(answer.get()).map_err(|error| unexpected_response(&error))?;
    if json {
        print_json(&answer, io)?;
    } else {
        for finding in &checkup.findings {
            io.console.write_out_line(&format_finding(finding, &environment.home), TextStyle::Plain)?;
        }
    }
    let summary = format_summary(&checkup);
    if checkup.findings.is_empty() {
        if !json {
            io.console.write_note(&summary, TextStyle::Plain);
        }
        return Ok(());
    }
    Err(CommandFailure::new(Exit::Failed, if json { String::new() } else { summary }))
}

/// Formats the subject and the problem of a finding.
fn format_finding(finding: &TranscriptFinding, home: &Path) -> String {
    let path = finding.path.as_ref().map(|path| table::abbreviate_home(Path::new(path), home));
    let subject = match (&finding.session, path) {
        (Some(session), Some(path)) => format!("{} ({path})", to_one_line(session)),
        (Some(session), None) => to_one_line(session),
        (None, path) => path.unwrap_or_default(),
    };
    format!("{subject}: {}", to_one_line(&finding.problem))
}

fn format_summary(checkup: &TranscriptCheckup) -> String {
    let read = match checkup.conversations {
        1 => "1 conversation was read".to_owned(),
        many => format!("{many} conversations were read"),
    };
    let shown = u64::try_from(checkup.findings.len()).unwrap_or(u64::MAX);
    match (shown.saturating_add(checkup.omitted_findings), checkup.omitted_findings) {
        (0, _) => format!("{read}; nothing is wrong."),
        (1, _) => format!("{read}; 1 thing is wrong."),
        (all, 0) => format!("{read}; {all} things are wrong."),
        (all, _) => format!("{read}; {all} things are wrong, of which {shown} are shown."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(session: Option<&str>, path: Option<&str>) -> TranscriptFinding {
        let problem = "it is\ntorn".to_owned();
        TranscriptFinding { session: session.map(str::to_owned), path: path.map(str::to_owned), problem }
    }

    #[test]
    fn finding_line_names_subject_and_problem() {
        let home = Path::new("/home/me");
        let say = |session, path| format_finding(&finding(session, path), home);
        assert_eq!(say(Some("claude:/1"), None), "claude:/1: it is torn");
        assert_eq!(say(None, Some("/home/me/.claude/x")), "~/.claude/x: it is torn");
        assert_eq!(say(Some("claude:/1"), Some("/p/1.jsonl")), "claude:/1 (/p/1.jsonl): it is torn");
    }

    #[test]
    fn summary_line_counts_findings() {
        let of = |conversations, found: usize, more| {
            let findings = (0..found).map(|_| finding(None, Some("/p"))).collect();
            format_summary(&TranscriptCheckup { conversations, findings, omitted_findings: more })
        };
        assert_eq!(of(0, 0, 0), "0 conversations were read; nothing is wrong.");
        assert_eq!(of(1, 1, 0), "1 conversation was read; 1 thing is wrong.");
        assert_eq!(of(9, 2, 0), "9 conversations were read; 2 things are wrong.");
        assert_eq!(of(9, 2, 7), "9 conversations were read; 9 things are wrong, of which 2 are shown.");
    }
}
