//! The audit log: who decided what about which tool call. Entries are written once, never changed, and removed with
//! their session.

use hostler_redact::redact_json_error;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// One decision about one tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Time of the decision, in milliseconds since the epoch.
    pub at_ms: i64,
    /// Who decided: a client's id, `rule`, `mode`, `unattended`, or `host`.
    #[serde(alias = "who")]
    pub decided_by: String,
    /// The call's id.
    #[serde(alias = "call")]
    pub tool_call_id: String,
    /// The tool's name at the agent.
    pub tool: String,
    /// The call's input: truncated, with likely secrets removed.
    pub input: String,
    /// The sub-agent that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_agent: Option<String>,
    /// `allow`, `ask`, `deny`, `withdrawn`.
    pub decision: String,
    /// The rule, or the reason as text.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "why")]
    pub reason: Option<String>,
}

/// An entry with its position in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Its position: the next page starts after it.
    pub id: i64,
    /// The decision.
    #[serde(flatten)]
    pub entry: AuditEntry,
}

pub(crate) fn write(tx: &Connection, session: &str, entry: &AuditEntry) -> Result<(), StoreError> {
    let body = serde_json::to_string(entry)
        .map_err(|error| StoreError::Database(format!("failed to encode an audit entry: {error}")))?;
    tx.prepare_cached("INSERT INTO audit (session, at_ms, body) VALUES (?1, ?2, ?3)")?.execute(params![
        session,
        entry.at_ms,
        body
    ])?;
    Ok(())
}

pub(crate) fn read(db: &Connection, session: &str, after: i64, limit: usize) -> Result<Vec<AuditRow>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement =
        db.prepare_cached("SELECT id, body FROM audit WHERE session = ?1 AND id > ?2 ORDER BY id LIMIT ?3")?;
    let rows =
        statement.query_map(params![session, after, limit], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    rows.map(|row| {
        let (id, body) = row?;
        let entry = serde_json::from_str(&body).map_err(|error| {
            StoreError::Database(format!("failed to read an audit entry: {}", redact_json_error(&error)))
        })?;
        Ok(AuditRow { id, entry })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_with_former_names_are_read_and_written_with_current_ones() {
        let former = r#"{"atMs":1,"who":"mode","call":"t1","tool":"Bash","input":"ls","decision":"allow","why":"It only reads."}"#;
        let entry: AuditEntry = serde_json::from_str(former).unwrap();
        assert_eq!((&*entry.decided_by, &*entry.tool_call_id), ("mode", "t1"));
        assert_eq!(entry.reason.as_deref(), Some("It only reads."));
        let current = r#"{"atMs":1,"decidedBy":"mode","toolCallId":"t1","tool":"Bash","input":"ls","decision":"allow","reason":"It only reads."}"#;
        assert_eq!(serde_json::to_string(&entry).unwrap(), current);
        assert_eq!(serde_json::from_str::<AuditEntry>(current).unwrap(), entry);
    }
}
