//! `hostler/sessionsDoctor`, which is no method of AHP: what is wrong with what the agents keep.

use hostler_engine::{Checkup, Engine, Finding};
use serde::Serialize;
use serde_json::Value;

use crate::methods::value;
use crate::rpc::RpcError;

#[derive(Serialize)]
struct Answer {
    /// How many conversations were read.
    conversations: usize,
    findings: Vec<Item>,
    /// How many further findings there are.
    more: usize,
}

#[derive(Serialize)]
struct Item {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    problem: String,
}

/// Reads everything that the agents keep.
pub(crate) async fn check_up(engine: &Engine) -> Result<Value, RpcError> {
    let Checkup { conversations, findings, more } = engine.check_up().await?;
    let item = |Finding { kind, session, path, problem }| Item {
        kind: kind.as_str(),
        session,
        path: path.map(|path| path.display().to_string()),
        problem,
    };
    value(&Answer { conversations, findings: findings.into_iter().map(item).collect(), more })
}
