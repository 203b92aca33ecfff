//! Shells that the test scripts.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::{CommandExit, ShellLauncher, ShellSpec, ShellStartError, TerminalShell, TerminalSize};
use hostler_terminal::ShellNonce;
use tokio::sync::{Mutex, Semaphore, mpsc, watch};

/// Starts scripted shells, and passes each to the test.
pub(crate) struct Puppets {
    pub(crate) shells: Arc<dyn ShellLauncher>,
    begun: mpsc::UnboundedReceiver<Puppet>,
}

/// The test's end of a shell.
pub(crate) struct Puppet {
    pub(crate) nonce: ShellNonce,
    /// The start of the shell waits for a permit.
    pub(crate) starts: Arc<Semaphore>,
    says: mpsc::UnboundedSender<Vec<u8>>,
    ending: watch::Receiver<bool>,
    ended: watch::Sender<bool>,
}

impl Puppets {
    /// Shells that start at once.
    pub(crate) fn new() -> Self {
        Self::starting(1)
    }

    /// Shells that start when the test allows it.
    pub(crate) fn that_wait() -> Self {
        Self::starting(0)
    }

    fn starting(permits: usize) -> Self {
        let (tell, begun) = mpsc::unbounded_channel();
        Self { shells: Arc::new(Stage { tell, permits }), begun }
    }

    pub(crate) async fn next(&mut self) -> Puppet {
        self.begun.recv().await.unwrap()
    }
}

impl Puppet {
    pub(crate) fn say(&self, bytes: &[u8]) {
        self.says.send(bytes.to_vec()).unwrap();
    }

    /// Waits until the host terminates the shell.
    pub(crate) async fn ending(&mut self) {
        self.ending.wait_for(|ending| *ending).await.unwrap();
    }

    /// Lets the shell end once the host terminates it.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }
}

struct Stage {
    tell: mpsc::UnboundedSender<Puppet>,
    permits: usize,
}

impl ShellLauncher for Stage {
    fn default_title(&self) -> String {
        "puppet".into()
    }

    fn open(&self, spec: ShellSpec) -> BoxFuture<'static, Result<Arc<dyn TerminalShell>, ShellStartError>> {
        let (says, heard) = mpsc::unbounded_channel();
        let (asked, ending) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let starts = Arc::new(Semaphore::new(self.permits));
        let puppet = Puppet { nonce: spec.nonce, starts: Arc::clone(&starts), says, ending, ended: end };
        self.tell.send(puppet).unwrap();
        async move {
            starts.acquire().await.unwrap().forget();
            Ok(Arc::new(Strings { heard: Mutex::new(heard), asked, ended }) as Arc<dyn TerminalShell>)
        }
        .boxed()
    }
}

/// The host's end of a shell.
struct Strings {
    heard: Mutex<mpsc::UnboundedReceiver<Vec<u8>>>,
    asked: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl TerminalShell for Strings {
    fn read<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, usize> {
        async {
            match self.heard.lock().await.recv().await {
                Some(bytes) => {
                    buffer[..bytes.len()].copy_from_slice(&bytes);
                    bytes.len()
                }
                None => 0,
            }
        }
        .boxed()
    }

    fn write<'a>(&'a self, bytes: &'a [u8]) -> BoxFuture<'a, usize> {
        std::future::ready(bytes.len()).boxed()
    }

    fn resize(&self, _: TerminalSize) {}

    fn wait(&self) -> BoxFuture<'_, CommandExit> {
        std::future::pending().boxed()
    }

    fn terminate(&self) -> BoxFuture<'_, ()> {
        self.asked.send_replace(true);
        let mut ended = self.ended.clone();
        async move {
            if ended.wait_for(|ended| *ended).await.is_err() {
                std::future::pending().await
            }
        }
        .boxed()
    }
}
