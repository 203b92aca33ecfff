//! The host's own log as channels, one per level: what the host says while somebody hears it.
//!
//! Lines go the way of answers, which waits for a client that reads slowly; meanwhile the tap's queue fills, and what does
//! not fit is counted there. A log never cuts a client off. Nothing on this way says anything itself, or it would never end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ahp_types::notifications::OtlpExportLogsParams;
use hostler_telemetry::{Level, LogTap, Records, export};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::encode::{self, Frame};

/// What clients are told about the channels.
pub(crate) const TEMPLATE: &str = "ahp-otlp://logs/{level}";

const CHANNELS: &str = "ahp-otlp://logs/";

/// Whether a channel is one of the log, whatever its level.
pub(crate) fn is_channel(channel: &str) -> bool {
    channel.starts_with(CHANNELS)
}

/// What one client hears of the log.
#[derive(Clone)]
pub(crate) struct Logs {
    tap: LogTap,
    frames: mpsc::Sender<Frame>,
    heard: Arc<Mutex<HashMap<String, AbortOnDropHandle<()>>>>,
}

impl Logs {
    pub(crate) fn new(tap: LogTap, frames: mpsc::Sender<Frame>) -> Self {
        Self { tap, frames, heard: Arc::default() }
    }

    /// From now on the client hears a channel. One of a level that does not exist says nothing.
    pub(crate) fn hear(&self, channel: &str) {
        let Some(level) = level(channel) else { return };
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.entry(channel.to_owned()).or_insert_with(|| {
            let (mut lines, frames, channel) = (self.tap.listen(level), self.frames.clone(), channel.to_owned());
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    let Records { records, left_out } = lines.next().await;
                    let payload = export(env!("CARGO_PKG_VERSION"), &records, left_out);
                    let params = OtlpExportLogsParams { channel: channel.clone(), payload };
                    // The client may have left.
                    if frames.send(encode::logs(&params)).await.is_err() {
                        return;
                    }
                }
            }))
        });
    }

    /// The client no longer hears a channel.
    pub(crate) fn forget(&self, channel: &str) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).remove(channel);
    }
}

/// In small letters only: a channel is known by its text, and one level must not be several channels.
fn level(channel: &str) -> Option<Level> {
    let name = channel.strip_prefix(CHANNELS)?;
    Level::named(name).filter(|_| !name.contains(|letter: char| letter.is_ascii_uppercase()))
}
