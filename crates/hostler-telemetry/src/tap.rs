//! The tap: a layer of the log that hands lines to listeners.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::record::{Level, Record};

/// Whose lines are passed on.
const OURS: &str = "hostler";

/// How many lines may wait for one listener.
const QUEUE: usize = 1024;

/// How many lines are handed over at a time.
const BATCH: usize = 256;

/// Where listeners come and go. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LogTap(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    listeners: Mutex<Vec<Ear>>,
    next: AtomicU64,
}

/// A listener as the layer sees it.
#[derive(Debug)]
struct Ear {
    id: u64,
    level: Level,
    lines: mpsc::Sender<Arc<Record>>,
    left_out: Arc<AtomicU64>,
}

impl Shared {
    fn listeners(&self) -> MutexGuard<'_, Vec<Ear>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The least important lines that anybody wants.
    fn most_detailed(&self) -> Option<Level> {
        self.listeners().iter().map(|ear| ear.level).min()
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && metadata.target().starts_with(OURS)
            && self.most_detailed().is_some_and(|wanted| wanted <= Level::of(metadata))
    }

    /// Says it to whoever wants to hear it, and waits for nobody.
    fn tell(&self, record: Record) {
        let record = Arc::new(record);
        for ear in self.listeners().iter().filter(|ear| ear.level <= record.level) {
            if ear.lines.try_send(Arc::clone(&record)).is_err() {
                ear.left_out.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl LogTap {
    /// The layer that is to be put into the log.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        Said(Arc::clone(&self.0)).with_filter(Wanted(Arc::clone(&self.0)))
    }

    /// From now on lines of this importance are heard, until the listener is dropped.
    pub fn listen(&self, level: Level) -> Listener {
        let (sender, lines) = mpsc::channel(QUEUE);
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let left_out = Arc::new(AtomicU64::new(0));
        self.0.listeners().push(Ear { id, level, lines: sender, left_out: Arc::clone(&left_out) });
        // Who says what is decided once and remembered, until it is told that this has changed.
        tracing::callsite::rebuild_interest_cache();
        Listener { id, lines, left_out, tap: Arc::clone(&self.0) }
    }
}

/// Hears lines of the log.
#[derive(Debug)]
pub struct Listener {
    id: u64,
    lines: mpsc::Receiver<Arc<Record>>,
    left_out: Arc<AtomicU64>,
    tap: Arc<Shared>,
}

/// Some lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Records {
    /// In the order in which they were said.
    pub records: Vec<Record>,
    /// How many more were said since the last time and did not fit.
    pub left_out: u64,
}

impl Listener {
    /// The lines that were said since the last time; waits for one if there is none.
    pub async fn next(&mut self) -> Records {
        let mut lines = Vec::new();
        // The sender is in the tap, which is there as long as the listener is.
        self.lines.recv_many(&mut lines, BATCH).await;
        let records = lines.into_iter().map(Arc::unwrap_or_clone).collect();
        Records { records, left_out: self.left_out.swap(0, Ordering::Relaxed) }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.tap.listeners().retain(|ear| ear.id != self.id);
        tracing::callsite::rebuild_interest_cache();
    }
}

struct Said(Arc<Shared>);

impl<S: Subscriber> Layer<S> for Said {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.0.tell(Record::of(event));
    }
}

struct Wanted(Arc<Shared>);

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        self.0.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.0.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.0.most_detailed() {
            None | Some(Level::Fatal) => LevelFilter::OFF,
            Some(Level::Error) => LevelFilter::ERROR,
            Some(Level::Warn) => LevelFilter::WARN,
            Some(Level::Info) => LevelFilter::INFO,
            Some(Level::Debug) => LevelFilter::DEBUG,
            Some(Level::Trace) => LevelFilter::TRACE,
        })
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::record::Value;

    const TARGET: &str = "hostler_test";

    #[tokio::test]
    async fn listeners_hear_what_is_important_enough_for_them_while_they_are_there() {
        let tap = LogTap::default();
        let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(tap.layer()));
        tracing::error!(target: TARGET, "nobody hears this");
        let (mut all, mut some) = (tap.listen(Level::Debug), tap.listen(Level::Warn));
        for (number, level) in [(1, "trace"), (2, "debug"), (3, "warn")] {
            match level {
                "trace" => tracing::trace!(target: TARGET, number, "said"),
                "debug" => tracing::debug!(target: TARGET, number, "said"),
                _ => tracing::warn!(target: TARGET, number, "said"),
            }
        }
        tracing::warn!(target: "hyper", "the bytes of a request");
        let numbers = |heard: Records| {
            assert!(heard.records.iter().all(|record| record.message == "said" && record.target == TARGET));
            heard.records.into_iter().flat_map(|record| record.fields).map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(numbers(all.next().await), [Value::Int(2), Value::Int(3)]);
        assert_eq!(numbers(some.next().await), [Value::Int(3)]);
        drop(some);
        drop(all);
        tracing::error!(target: TARGET, "nobody hears this either");
        let mut later = tap.listen(Level::Trace);
        tracing::trace!(target: TARGET, number = 4, "said");
        assert_eq!(numbers(later.next().await), [Value::Int(4)]);
    }

    #[tokio::test]
    async fn who_does_not_listen_misses_lines_and_learns_how_many() {
        let tap = LogTap::default();
        let _log = tracing::subscriber::set_default(tracing_subscriber::registry().with(tap.layer()));
        let mut listener = tap.listen(Level::Info);
        for number in 0..QUEUE + 5 {
            tracing::info!(target: TARGET, number, "said");
        }
        let mut heard = listener.next().await;
        assert_eq!((heard.records.len(), heard.left_out), (BATCH, 5));
        for _ in 1..QUEUE / BATCH {
            heard = listener.next().await;
        }
        assert_eq!((heard.records.len(), heard.left_out), (BATCH, 0));
        tracing::info!(target: TARGET, "there is room again");
        assert_eq!(listener.next().await.records.len(), 1);
    }

    #[test]
    fn nothing_is_wanted_while_nobody_listens() {
        let tap = LogTap::default();
        let wanted = Wanted(Arc::clone(&tap.0));
        let hint = |wanted: &Wanted| Filter::<tracing_subscriber::Registry>::max_level_hint(wanted);
        assert_eq!(hint(&wanted), Some(LevelFilter::OFF));
        let listener = tap.listen(Level::Debug);
        assert_eq!(hint(&wanted), Some(LevelFilter::DEBUG));
        drop(listener);
        assert_eq!(hint(&wanted), Some(LevelFilter::OFF));
    }
}
