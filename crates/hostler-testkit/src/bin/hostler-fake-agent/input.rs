//! Lines from the host, read by a thread of their own so that an interrupt is seen in the middle of a turn.

use std::io::BufRead as _;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use serde_json::Value;

/// How many lines may wait.
const QUEUE: usize = 64;

/// What the host wrote.
pub(crate) struct Input {
    lines: Receiver<String>,
}

/// One line of the host.
#[derive(Debug)]
pub(crate) enum Order {
    /// A prompt.
    Prompt(Prompt),
    /// A request, with its subtype and all of it.
    Request { id: String, subtype: String, body: Value },
    /// An answer to a request of ours.
    Answer { id: String, body: Value },
    /// Anything else.
    Other,
}

/// A message of the host.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub(crate) uuid: Option<String>,
    /// Its words and, for what else it holds, the kinds and contents.
    pub(crate) text: String,
    /// Whether a running turn takes it up when a call is over.
    pub(crate) folds: bool,
}

/// What came, or did not.
pub(crate) enum Waited {
    Order(Order),
    /// Nothing in time.
    Nothing,
    /// The host has closed our input.
    Closed,
}

impl Input {
    pub(crate) fn start() -> Self {
        let (sender, lines) = mpsc::sync_channel(QUEUE);
        std::thread::spawn(move || {
            // Signals are the main thread's business; it decides whether to be stubborn.
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

    /// The next order; `None` when the host has closed our input.
    pub(crate) fn next(&mut self) -> Result<Option<Order>> {
        self.lines.recv().ok().map(|line| order(&line)).transpose()
    }

    /// The next order, if one comes soon.
    pub(crate) fn wait(&mut self, time: Duration) -> Result<Waited> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Ok(Waited::Order(order(&line)?)),
            Err(RecvTimeoutError::Timeout) => Ok(Waited::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(Waited::Closed),
        }
    }

    /// Waits for the handshake and gives its id.
    pub(crate) fn handshake(&mut self) -> Result<Option<String>> {
        while let Some(order) = self.next()? {
            if let Order::Request { id, subtype, .. } = order
                && subtype == "initialize"
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Reads and ignores everything until the host closes our input.
    pub(crate) fn until_closed(mut self) -> Result<ExitCode> {
        while self.next()?.is_some() {}
        Ok(ExitCode::SUCCESS)
    }
}

/// Like the real agent, a malformed line ends us.
fn order(line: &str) -> Result<Order> {
    let message: Value = serde_json::from_str(line).context("the host wrote a line that is not JSON")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(match message["type"].as_str() {
        Some("user") => Order::Prompt(Prompt {
            uuid: text(&message["uuid"]),
            text: words(&message["message"]["content"]),
            folds: message["priority"] != "later",
        }),
        Some("control_request") => Order::Request {
            id: text(&message["request_id"]).unwrap_or_default(),
            subtype: text(&message["request"]["subtype"]).unwrap_or_default(),
            body: message["request"].clone(),
        },
        Some("control_response") => Order::Answer {
            id: text(&message["response"]["request_id"]).unwrap_or_default(),
            body: message["response"].clone(),
        },
        _ => Order::Other,
    })
}

/// A message's words, and what is attached as `[media type: contents]`.
fn words(content: &Value) -> String {
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
