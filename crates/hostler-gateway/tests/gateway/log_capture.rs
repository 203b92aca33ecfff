//! Captures the log of one test, at every level.
//!
//! There is one subscriber for the whole program and one log per thread: a subscriber per test would miss events whose
//! call site was first reached by the thread of another test without one.

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};

use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::prelude::*;

thread_local! {
    static CURRENT: RefCell<Option<Log>> = const { RefCell::new(None) };
}

/// Everything that this thread logs between [`Log::begin`] and the drop of the guard.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn begin() -> (Self, LogGuard) {
        static SUBSCRIBED: Once = Once::new();
        SUBSCRIBED.call_once(|| {
            let wanted = dynamic_filter_fn(|_, _| CURRENT.with_borrow(Option::is_some));
            let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(CurrentLog).with_filter(wanted);
            tracing_subscriber::registry().with(layer).init();
        });
        let log = Self::default();
        CURRENT.set(Some(log.clone()));
        (log, LogGuard)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) struct LogGuard;

impl Drop for LogGuard {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

struct CurrentLog;

impl<'a> MakeWriter<'a> for CurrentLog {
    type Writer = Log;

    fn make_writer(&'a self) -> Log {
        CURRENT.with_borrow(Clone::clone).unwrap_or_default()
    }
}
