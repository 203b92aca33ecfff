//! `hostler/checkSessions`, an extension: reports problems in the agents' transcripts.

use hostler_engine::{Engine, TranscriptCheckReport, TranscriptIssue};
use serde::Serialize;
use serde_json::Value;

use crate::methods::to_result;
use crate::rpc::RpcError;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionCheckResult {
    /// Number of conversations that were read.
    conversations: usize,
    findings: Vec<SessionCheckFinding>,
    /// Number of findings beyond the listed ones.
    omitted_findings: usize,
}

#[derive(Serialize)]
struct SessionCheckFinding {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    problem: String,
}

/// Checks all transcripts of the agents.
pub(crate) async fn check_sessions(engine: &Engine) -> Result<Value, RpcError> {
    let TranscriptCheckReport { conversations, issues, omitted_issues: omitted_findings } =
        engine.check_transcripts().await?;
    let finding = |TranscriptIssue { kind, session, path, problem }| SessionCheckFinding {
        kind: kind.as_str(),
        session,
        path: path.map(|path| path.display().to_string()),
        problem,
    };
    let findings = issues.into_iter().map(finding).collect();
    to_result(&SessionCheckResult { conversations, findings, omitted_findings })
}
