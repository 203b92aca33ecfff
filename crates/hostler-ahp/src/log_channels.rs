//! The host's own log as channels, one per level.
//!
//! Log records share the queue of answers, which waits for a client that reads slowly; meanwhile the tap's queue fills
//! and counts the records that it drops. The log never causes a disconnect. Code on this path logs nothing, because its
//! own records would cause further ones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ahp_types::notifications::OtlpExportLogsParams;
use hostler_telemetry::{LogBatch, LogLevel, LogTap, build_export_request};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::encode::{self, Frame};

/// URI template of the log channels, sent to clients.
pub(crate) const LOG_CHANNEL_TEMPLATE: &str = "ahp-otlp://logs/{level}";

const LOG_CHANNEL_PREFIX: &str = "ahp-otlp://logs/";

/// Whether a channel is a log channel, of any level.
pub(crate) fn is_log_channel(channel: &str) -> bool {
    channel.starts_with(LOG_CHANNEL_PREFIX)
}

/// One client's log subscriptions.
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

    /// Subscribes the client to a channel. A channel with an unknown level stays silent.
    pub(crate) fn subscribe(&self, channel: &str) {
        let Some(level) = level_of_channel(channel) else { return };
        let mut forwarders = self.forwarders.lock().unwrap_or_else(PoisonError::into_inner);
        forwarders.entry(channel.to_owned()).or_insert_with(|| {
            let (mut lines, frames, channel) = (self.tap.listen(level), self.frames.clone(), channel.to_owned());
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    let LogBatch { records, dropped } = lines.next_batch().await;
                    let payload = build_export_request(env!("CARGO_PKG_VERSION"), &records, dropped);
                    let params = OtlpExportLogsParams { channel: channel.clone(), payload };
                    // The client may have disconnected.
                    if frames.send(encode::logs(&params)).await.is_err() {
                        return;
                    }
                }
            }))
        });
    }

    /// Unsubscribes the client from a channel.
    pub(crate) fn unsubscribe(&self, channel: &str) {
        self.forwarders.lock().unwrap_or_else(PoisonError::into_inner).remove(channel);
    }
}

/// Lowercase only: a channel is identified by its text, and one level must not have several channels.
fn level_of_channel(channel: &str) -> Option<LogLevel> {
    let name = channel.strip_prefix(LOG_CHANNEL_PREFIX)?;
    LogLevel::from_name(name).filter(|_| !name.contains(|letter: char| letter.is_ascii_uppercase()))
}
