//! Lines to the host.

use std::io::{self, Write as _};

use anyhow::Result;
use serde_json::{Value, json};

/// Prints a message.
pub(crate) fn print(message: &Value) -> Result<()> {
    print_text(&message.to_string())
}

/// Prints a line as it is.
pub(crate) fn print_text(line: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{line}\n").as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Answers a request of the host.
pub(crate) fn answer(request_id: &str, body: &Value) -> Result<()> {
    let response = json!({"subtype": "success", "request_id": request_id, "response": body});
    print(&json!({"type": "control_response", "response": response}))
}

/// Refuses a request of the host.
pub(crate) fn refuse(request_id: &str, error: &str) -> Result<()> {
    let response = json!({"subtype": "error", "request_id": request_id, "error": error});
    print(&json!({"type": "control_response", "response": response}))
}

/// A line of the model's stream.
pub(crate) fn stream(session: &str, event: &Value) -> Result<()> {
    print(&json!({"type": "stream_event", "event": event, "session_id": session, "parent_tool_use_id": null}))
}
