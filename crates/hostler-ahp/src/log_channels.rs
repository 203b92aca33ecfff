//! The host's own log as channels, one per level: what the host says while somebody hears it.
//!
//! Lines go the way of answers, which waits for a client that reads slowly; meanwhile the tap's queue fills, and what does
//! not fit is counted there. A log never cuts a client off. Nothing on this way says anything itself, or it would never end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ahp_types::notifications::OtlpExportLogsParams;
use hostler_telemetry::{LogBatch, LogLevel, LogTap, build_export_request};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::encode::{self, Frame};

/// What clients are told about the channels.
pub(crate) const LOG_CHANNEL_TEMPLATE: &str = "ahp-otlp://logs/{level}";

const LOG_CHANNEL_PREFIX: &str = "ahp-otlp://logs/";

/// Whether a channel is one of the log, whatever its level.
pub(crate) fn is_log_channel(channel: &str) -> bool {
    channel.starts_with(LOG_CHANNEL_PREFIX)
}

/// What one client hears of the log.
#[derive(Clone)]
pub(crate) struct LogSubscriptions {
    tap: LogTap,
    frames: mpsc::Sender<Frame>,
    forwarders: Arc<Mutex<HashMap<String, AbortOnDropHandle<()>>>>,
}

impl LogSubscriptions {
    pub(crate) fn new(tap: LogTap, frames: mpsc::Sender<Frame>) -> Self {
        Self { tap, frames, forwarders: Arc::default() }
    }

    /// From now on the client hears a channel. One of a level that does not exist says nothing.
    pub(crate) fn subscribe(&self, channel: &str) {
        let Some(level) = level_of_channel(channel) else { return };
        let mut heard = self.forwarders.lock().unwrap_or_else(PoisonError::into_inner);
        heard.entry(channel.to_owned()).or_insert_with(|| {
            let (mut lines, frames, channel) = (self.tap.listen(level), self.frames.clone(), channel.to_owned());
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    let LogBatch { records, dropped: left_out } = lines.next_batch().await;
                    let payload = build_export_request(env!("CARGO_PKG_VERSION"), &records, left_out);
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
    pub(crate) fn unsubscribe(&self, channel: &str) {
        self.forwarders.lock().unwrap_or_else(PoisonError::into_inner).remove(channel);
    }
}

/// In small letters only: a channel is known by its text, and one level must not be several channels.
fn level_of_channel(channel: &str) -> Option<LogLevel> {
    let name = channel.strip_prefix(LOG_CHANNEL_PREFIX)?;
    LogLevel::from_name(name).filter(|_| !name.contains(|letter: char| letter.is_ascii_uppercase()))
}
