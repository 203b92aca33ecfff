//! The tap: a `tracing` layer that delivers records to listeners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::log_record::{LogLevel, LogRecord};

/// Only events whose target has this prefix are passed on.
const TARGET_PREFIX: &str = "hostler";

/// Maximum number of queued records per listener.
const MAX_QUEUED_RECORDS: usize = 1024;

/// Maximum number of records per batch.
const MAX_BATCH_RECORDS: usize = 256;

/// Registers listeners. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LogTap(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    listeners: Mutex<Vec<ListenerHandle>>,
    next_id: AtomicU64,
}

/// A listener as the layer sees it.
#[derive(Debug)]
struct ListenerHandle {
    id: u64,
    level: LogLevel,
    records: mpsc::Sender<Arc<LogRecord>>,
    dropped: Arc<AtomicU64>,
}

impl Shared {
    fn lock_listeners(&self) -> MutexGuard<'_, Vec<ListenerHandle>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most detailed level that any listener wants.
    fn most_detailed(&self) -> Option<LogLevel> {
        self.lock_listeners().iter().map(|ear| ear.level).min()
    }

    fn is_wanted(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with(TARGET_PREFIX)
            && self.most_detailed().is_some_and(|wanted| wanted <= LogLevel::of(metadata))
    }

    /// Delivers a record to the listeners of its level, without waiting.
    fn deliver(&self, record: LogRecord) {
        let record = Arc::new(record);
        for ear in self.lock_listeners().iter().filter(|ear| ear.level <= record.level) {
            if ear.records.try_send(Arc::clone(&record)).is_err() {
                ear.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl LogTap {
    /// The layer to add to the subscriber.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        CaptureLayer(Arc::clone(&self.0)).with_filter(ListenerFilter(Arc::clone(&self.0)))
    }

    /// Starts to deliver records of this level and above, until the listener is dropped.
    pub fn listen(&self, level: LogLevel) -> LogListener {
        let (sender, lines) = mpsc::channel(MAX_QUEUED_RECORDS);
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let dropped = Arc::new(AtomicU64::new(0));
        self.0.lock_listeners().push(ListenerHandle { id, level, records: sender, dropped: Arc::clone(&dropped) });
        // `tracing` caches which callsites are enabled; the cache has to be rebuilt when the listeners change.
        tracing::callsite::rebuild_interest_cache();
        LogListener { id, records: lines, dropped, tap: Arc::clone(&self.0) }
    }
}

/// Receives log records.
#[derive(Debug)]
pub struct LogListener {
    id: u64,
    records: mpsc::Receiver<Arc<LogRecord>>,
    dropped: Arc<AtomicU64>,
    tap: Arc<Shared>,
}

/// Several records.
#[derive(Debug, Clone, PartialEq)]
pub struct LogBatch {
    /// In the order of their events.
    pub records: Vec<LogRecord>,
    /// Number of records since the last batch that did not fit into the queue.
    pub dropped: u64,
}

impl LogListener {
    /// The records since the last batch; waits for one if there is none.
    pub async fn next_batch(&mut self) -> LogBatch {
        let mut lines = Vec::new();
        // The tap holds the sender and lives as long as the listener.
        self.records.recv_many(&mut lines, MAX_BATCH_RECORDS).await;
        let records = lines.into_iter().map(Arc::unwrap_or_clone).collect();
        LogBatch { records, dropped: self.dropped.swap(0, Ordering::Relaxed) }
    }
}

impl Drop for LogListener {
    fn drop(&mut self) {
        self.tap.lock_listeners().retain(|ear| ear.id != self.id);
        tracing::callsite::rebuild_interest_cache();
    }
}

struct CaptureLayer(Arc<Shared>);

impl<S: Subscriber> Layer<S> for CaptureLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.0.deliver(LogRecord::of(event));
    }
}

struct ListenerFilter(Arc<Shared>);

impl<S> Filter<S> for ListenerFilter {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        self.0.is_wanted(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.0.most_detailed() {
            None | Some(LogLevel::Fatal) => LevelFilter::OFF,
            Some(LogLevel::Error) => LevelFilter::ERROR,
            Some(LogLevel::Warn) => LevelFilter::WARN,
            Some(LogLevel::Info) => LevelFilter::INFO,
            Some(LogLevel::Debug) => LevelFilter::DEBUG,
            Some(LogLevel::Trace) => LevelFilter::TRACE,
        })
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::log_record::FieldValue;

    const TARGET: &str = "hostler_test";

    #[tokio::test]
    async fn listeners_receive_records_of_their_level_until_dropped() {
        let tap = LogTap::default();
        let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(tap.layer()));
        tracing::error!(target: TARGET, "not received");
        let (mut all, mut some) = (tap.listen(LogLevel::Debug), tap.listen(LogLevel::Warn));
        for (number, level) in [(1, "trace"), (2, "debug"), (3, "warn")] {
            match level {
                "trace" => tracing::trace!(target: TARGET, number, "logged"),
                "debug" => tracing::debug!(target: TARGET, number, "logged"),
                _ => tracing::warn!(target: TARGET, number, "logged"),
            }
        }
        tracing::warn!(target: "hyper", "the bytes of a request");
        let numbers = |batch: LogBatch| {
            assert!(batch.records.iter().all(|record| record.message == "logged" && record.target == TARGET));
            batch.records.into_iter().flat_map(|record| record.fields).map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(numbers(all.next_batch().await), [FieldValue::Int(2), FieldValue::Int(3)]);
        assert_eq!(numbers(some.next_batch().await), [FieldValue::Int(3)]);
        drop(some);
        drop(all);
        tracing::error!(target: TARGET, "not received either");
        let mut later = tap.listen(LogLevel::Trace);
        tracing::trace!(target: TARGET, number = 4, "logged");
        assert_eq!(numbers(later.next_batch().await), [FieldValue::Int(4)]);
    }

    #[tokio::test]
    async fn a_slow_listener_drops_records_and_reports_the_count() {
        let tap = LogTap::default();
        let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(tap.layer()));
        let mut listener = tap.listen(LogLevel::Info);
        for number in 0..MAX_QUEUED_RECORDS + 5 {
            tracing::info!(target: TARGET, number, "logged");
        }
        let mut batch = listener.next_batch().await;
        assert_eq!((batch.records.len(), batch.dropped), (MAX_BATCH_RECORDS, 5));
        for _ in 1..MAX_QUEUED_RECORDS / MAX_BATCH_RECORDS {
            batch = listener.next_batch().await;
        }
        assert_eq!((batch.records.len(), batch.dropped), (MAX_BATCH_RECORDS, 0));
        tracing::info!(target: TARGET, "there is room again");
        assert_eq!(listener.next_batch().await.records.len(), 1);
    }

    #[test]
    fn the_layer_is_disabled_without_listeners() {
        let tap = LogTap::default();
        let wanted = ListenerFilter(Arc::clone(&tap.0));
        let hint = |wanted: &ListenerFilter| Filter::<tracing_subscriber::Registry>::max_level_hint(wanted);
        assert_eq!(hint(&wanted), Some(LevelFilter::OFF));
        let listener = tap.listen(LogLevel::Debug);
        assert_eq!(hint(&wanted), Some(LevelFilter::DEBUG));
        drop(listener);
        assert_eq!(hint(&wanted), Some(LevelFilter::OFF));
    }
}
