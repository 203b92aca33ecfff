//! Signals of the process as a stream.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::CommandFailure;

/// Signals that may wait; further ones add nothing.
const SIGNAL_QUEUE_SIZE: usize = 4;

/// Request of the user or the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, sent by Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: reload the configuration, or, from a terminal, the terminal is gone.
    Hangup,
}

/// Signals of this process, as a stream.
#[derive(Debug)]
pub struct Signals {
    received: mpsc::Receiver<Signal>,
    /// For signals that are handled later.
    forwarding_sender: Option<mpsc::Sender<Signal>>,
}

impl Signals {
    /// Handles SIGINT and SIGTERM; from here on they do not end the process by themselves.
    pub fn install() -> io::Result<Self> {
        let (sender, mut signals) = Self::channel();
        forward_signal(SignalKind::interrupt(), Signal::Interrupt, sender.clone())?;
        forward_signal(SignalKind::terminate(), Signal::Terminate, sender.clone())?;
        signals.forwarding_sender = Some(sender);
        Ok(signals)
    }

    /// Handles SIGHUP too; it ends every command that does not handle it.
    pub(crate) fn listen_for_hangup(&mut self) -> io::Result<()> {
        match self.forwarding_sender.take() {
            Some(sender) => forward_signal(SignalKind::hangup(), Signal::Hangup, sender),
            None => Ok(()),
        }
    }

    /// Creates signals with a sender, for tests.
    pub fn channel() -> (mpsc::Sender<Signal>, Self) {
        let (sender, received) = mpsc::channel(SIGNAL_QUEUE_SIZE);
        (sender, Self { received, forwarding_sender: None })
    }

    /// Runs a future until a signal arrives first; the future is then dropped.
    pub(crate) async fn run_or_interrupt<T>(&mut self, work: impl Future<Output = T>) -> Result<T, CommandFailure> {
        tokio::select! {
            result = work => Ok(result),
            _ = self.next_stop_signal() => Err(CommandFailure::interrupted()),
        }
    }

    /// Waits for the next request to stop.
    pub(crate) async fn next_stop_signal(&mut self) -> Signal {
        loop {
            match self.next_signal().await {
                Signal::Hangup => {}
                signal => return signal,
            }
        }
    }

    /// Waits for the next signal.
    pub(crate) async fn next_signal(&mut self) -> Signal {
        match self.received.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

fn forward_signal(kind: SignalKind, what: Signal, sender: mpsc::Sender<Signal>) -> io::Result<()> {
    let mut stream = signal(kind)?;
    tokio::spawn(async move {
        while stream.recv().await.is_some() && !sender.is_closed() {
            let _full_is_enough = sender.try_send(what);
        }
    });
    Ok(())
}
