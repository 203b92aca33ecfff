//! `hostler/sessionsDoctor`, an extension: reports problems in the agents' transcripts.

use hostler_engine::{Engine, TranscriptCheckReport, TranscriptIssue};
use serde::Serialize;
use serde_json::Value;

use crate::methods::to_result;
use crate::rpc::RpcError;

#[derive(Serialize)]
struct DoctorResult {
    /// Number of conversations that were read.
    conversations: usize,
    findings: Vec<DoctorFindingItem>,
    /// Number of findings beyond the listed ones.
    more: usize,
}

#[derive(Serialize)]
struct DoctorFindingItem {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    problem: String,
}

/// Checks all transcripts of the agents.
pub(crate) async fn run_doctor(engine: &Engine) -> Result<Value, RpcError> {
    let TranscriptCheckReport { conversations, issues: findings, omitted_issues: more } =
        engine.check_transcripts().await?;
    let item = |TranscriptIssue { kind, session, path, problem }| DoctorFindingItem {
        kind: kind.as_str(),
        session,
        path: path.map(|path| path.display().to_string()),
        problem,
    };
    to_result(&DoctorResult { conversations, findings: findings.into_iter().map(item).collect(), more })
}
