use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::exit::CommandFailure;

/// More signals than this at once say nothing new.
const SIGNAL_QUEUE_SIZE: usize = 4;

/// A request of the user or the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, as Ctrl-C sends it.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: read the configuration again, or, from a terminal, it is gone.
    Hangup,
}

/// The signals that this process gets, as a stream.
#[derive(Debug)]
pub struct Signals {
    received: mpsc::Receiver<Signal>,
    /// For signals that are taken over later.
    forwarding_sender: Option<mpsc::Sender<Signal>>,
}

impl Signals {
    /// Takes over SIGINT and SIGTERM; from here on they do not end the process by themselves.
    pub fn install() -> io::Result<Self> {
        let (sender, mut signals) = Self::channel();
        forward_signal(SignalKind::interrupt(), Signal::Interrupt, sender.clone())?;
        forward_signal(SignalKind::terminate(), Signal::Terminate, sender.clone())?;
        signals.forwarding_sender = Some(sender);
        Ok(signals)
    }

    /// Takes over SIGHUP too, which ends every command that does not.
    pub(crate) fn listen_for_hangup(&mut self) -> io::Result<()> {
        match self.forwarding_sender.take() {
            Some(sender) => forward_signal(SignalKind::hangup(), Signal::Hangup, sender),
            None => Ok(()),
        }
    }

    /// Signals that somebody else sends.
    pub fn channel() -> (mpsc::Sender<Signal>, Self) {
        let (sender, received) = mpsc::channel(SIGNAL_QUEUE_SIZE);
        (sender, Self { received, forwarding_sender: None })
    }

    /// Does something unless a signal comes first; then what was done so far is dropped.
    pub(crate) async fn run_or_interrupt<T>(&mut self, work: impl Future<Output = T>) -> Result<T, CommandFailure> {
        tokio::select! {
            result = work => Ok(result),
            _ = self.next_stop_signal() => Err(CommandFailure::interrupted()),
        }
    }

    /// The next request to stop.
    pub(crate) async fn next_stop_signal(&mut self) -> Signal {
        loop {
            match self.next_signal().await {
                Signal::Hangup => {}
                signal => return signal,
            }
        }
    }

    /// The next signal.
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
