//! Lines from the host, read by a thread so that an interrupt is seen during a turn.

use std::io::BufRead as _;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;

/// Maximum number of waiting lines.
const LINE_QUEUE_SIZE: usize = 64;

/// Input from the host.
pub(crate) struct HostInput {
    lines: Receiver<String>,
}

/// One line from the host.
#[derive(Debug)]
pub(crate) enum HostInputMessage {
    /// A prompt.
    Prompt(UserPrompt),
    /// Request with its subtype and body.
    Request { id: String, subtype: String, body: Value },
    /// Answer to a request of the agent.
    Answer { id: String, body: Value },
    /// Anything else.
    Other,
}

/// Message of the host.
#[derive(Debug)]
pub(crate) struct UserPrompt {
    pub(crate) uuid: Option<String>,
    /// Its text and, for other parts, their types and contents.
    pub(crate) text: String,
    /// Whether a running turn includes it after a call.
    pub(crate) joins_running_turn: bool,
}

/// Result of waiting for input.
pub(crate) enum InputWait {
    Message(HostInputMessage),
    /// Nothing arrived in time.
    TimedOut,
    /// The host has closed the agent's stdin.
    Closed,
}

impl HostInput {
    pub(crate) fn start() -> Self {
        let (sender, lines) = mpsc::sync_channel(LINE_QUEUE_SIZE);
        std::thread::spawn(move || {
            // Signals are handled by the main thread, which decides whether to ignore them.
            let _ = SigSet::from(Signal::SIGTERM).thread_block();
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// Returns the next message; `None` when the host has closed stdin.
    pub(crate) fn next_message(&mut self) -> Result<Option<HostInputMessage>> {
        self.lines.recv().ok().map(|line| parse_message(&line)).transpose()
    }

    /// Returns the next message, if one arrives in time.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<InputWait> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Ok(InputWait::Message(parse_message(&line)?)),
            Err(RecvTimeoutError::Timeout) => Ok(InputWait::TimedOut),
            Err(RecvTimeoutError::Disconnected) => Ok(InputWait::Closed),
        }
    }

    /// Waits for the handshake and returns its id.
    pub(crate) fn wait_for_handshake(&mut self) -> Result<Option<String>> {
        while let Some(order) = self.next_message()? {
            if let HostInputMessage::Request { id, subtype, .. } = order
                && subtype == "initialize"
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Reads and ignores everything until the host closes stdin.
    pub(crate) fn drain(mut self) -> Result<ExitCode> {
        while self.next_message()?.is_some() {}
        Ok(ExitCode::SUCCESS)
    }
}

/// Parses a line. A malformed line ends the process, as in the real agent.
fn parse_message(line: &str) -> Result<HostInputMessage> {
    let message: Value = serde_json::from_str(line).context("the host wrote a line that is not JSON")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(match message["type"].as_str() {
        Some("user") => HostInputMessage::Prompt(UserPrompt {
            uuid: text(&message["uuid"]),
            text: content_text(&message["message"]["content"]),
            joins_running_turn: message["priority"] != "later",
        }),
        Some("control_request") => HostInputMessage::Request {
            id: text(&message["request_id"]).unwrap_or_default(),
            subtype: text(&message["request"]["subtype"]).unwrap_or_default(),
            body: message["request"].clone(),
        },
        Some("control_response") => HostInputMessage::Answer {
            id: text(&message["response"]["request_id"]).unwrap_or_default(),
            body: message["response"].clone(),
        },
        _ => HostInputMessage::Other,
    })
}

/// Returns a message's text, and attachments as `[media type: contents]`.
fn content_text(content: &Value) -> String {
    let block = |block: &Value| match block["text"].as_str() {
        Some(text) => text.to_owned(),
        None => {
            let part = |name: &str| block["source"][name].as_str().unwrap_or_default();
            format!("[{}: {}]", part("media_type"), part("data"))
        }
    };
    match content {
        Value::String(text) => text.clone(),
        _ => content.as_array().into_iter().flatten().map(block).collect::<Vec<_>>().join(" "),
    }
}
