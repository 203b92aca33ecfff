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
) -> Result<Exit, CommandFailure> {
    let mut request = std::pin::pin!(host.client.check_transcripts());
    let early = io.signals.run_or_interrupt(tokio::time::timeout(SLOW_NOTICE_DELAY, &mut request)).await?;
    let answer = match early {
        Ok(answer) => answer?,
        Err(_) => {
            io.console.write_note("Reading all transcripts. This can take a while.", TextStyle::Dim);
            io.signals.run_or_interrupt(request).await??
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
    let has_findings = !checkup.findings.is_empty();
    if !json {
        let style = if has_findings { TextStyle::Red } else { TextStyle::Plain };
        io.console.write_note(&format_summary(&checkup), style);
    }
    // Findings are the command's result, not its failure.
    Ok(if has_findings { Exit::Failed } else { Exit::Done })
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
    let checked = match checkup.conversations {
        1 => "Checked 1 conversation".to_owned(),
        many => format!("Checked {many} conversations"),
    };
    let shown = u64::try_from(checkup.findings.len()).unwrap_or(u64::MAX);
    match (shown.saturating_add(checkup.omitted_findings), checkup.omitted_findings) {
        (0, _) => format!("{checked}: no problems."),
        (1, _) => format!("{checked}: 1 problem."),
        (all, 0) => format!("{checked}: {all} problems."),
        (all, _) => format!("{checked}: {all} problems, {shown} of them shown."),
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
        let line = |session, path| format_finding(&finding(session, path), home);
        assert_eq!(line(Some("claude:/1"), None), "claude:/1: it is torn");
        assert_eq!(line(None, Some("/home/me/.claude/x")), "~/.claude/x: it is torn");
        assert_eq!(line(Some("claude:/1"), Some("/p/1.jsonl")), "claude:/1 (/p/1.jsonl): it is torn");
    }

    #[test]
    fn summary_line_counts_findings() {
        let of = |conversations, found: usize, more| {
            let findings = (0..found).map(|_| finding(None, Some("/p"))).collect();
            format_summary(&TranscriptCheckup { conversations, findings, omitted_findings: more })
        };
        assert_eq!(of(0, 0, 0), "Checked 0 conversations: no problems.");
        assert_eq!(of(1, 1, 0), "Checked 1 conversation: 1 problem.");
        assert_eq!(of(9, 2, 0), "Checked 9 conversations: 2 problems.");
        assert_eq!(of(9, 2, 7), "Checked 9 conversations: 9 problems, 2 of them shown.");
    }
}
