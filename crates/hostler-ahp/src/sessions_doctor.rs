//! `hostler/sessionsDoctor`, which is no method of AHP: what is wrong with what the agents keep.

use hostler_engine::{Engine, TranscriptCheckReport, TranscriptIssue};
use serde::Serialize;
use serde_json::Value;

use crate::methods::to_result;
use crate::rpc::RpcError;

#[derive(Serialize)]
struct DoctorResult {
    /// How many conversations were read.
    conversations: usize,
    findings: Vec<DoctorFindingItem>,
    /// How many further findings there are.
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

/// Reads everything that the agents keep.
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
