//! Writes lines to the host.

use std::io::{self, Write as _};

use anyhow::Result;
use serde_json::{Value, json};

/// Prints a message.
pub(crate) fn print_message(message: &Value) -> Result<()> {
    print_line(&message.to_string())
}

/// Prints a line unchanged.
pub(crate) fn print_line(line: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{line}\n").as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Answers a request of the host.
pub(crate) fn print_response(request_id: &str, body: &Value) -> Result<()> {
    let response = json!({"subtype": "success", "request_id": request_id, "response": body});
    print_message(&json!({"type": "control_response", "response": response}))
}

/// Rejects a request of the host.
pub(crate) fn print_error_response(request_id: &str, error: &str) -> Result<()> {
    let response = json!({"subtype": "error", "request_id": request_id, "error": error});
    print_message(&json!({"type": "control_response", "response": response}))
}

/// Prints an event of the model's stream.
pub(crate) fn print_stream_event(session: &str, event: &Value) -> Result<()> {
    print_message(&json!({"type": "stream_event", "event": event, "session_id": session, "parent_tool_use_id": null}))
}
