use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::Failure;

/// More signals than this at once say nothing new.
const QUEUE: usize = 4;

/// A request of the user or the system to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The signals that this process gets, as a stream.
#[derive(Debug)]
pub struct Signals {
    received: mpsc::Receiver<Signal>,
}

impl Signals {
    /// Takes over SIGINT and SIGTERM; from here on they do not end the process by themselves.
    pub fn install() -> io::Result<Self> {
        let (sender, signals) = Self::channel();
        for (kind, what) in [(SignalKind::interrupt(), Signal::Interrupt), (SignalKind::terminate(), Signal::Terminate)]
        {
            let mut stream = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && !sender.is_closed() {
                    let _full_is_enough = sender.try_send(what);
                }
            });
        }
        Ok(signals)
    }

    /// Signals that somebody else sends.
    pub fn channel() -> (mpsc::Sender<Signal>, Self) {
        let (sender, received) = mpsc::channel(QUEUE);
        (sender, Self { received })
    }

    /// Does something unless a signal comes first; then what was done so far is dropped.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            result = work => Ok(result),
            _ = self.next() => Err(Failure::interrupted()),
        }
    }

    /// The next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        match self.received.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}
