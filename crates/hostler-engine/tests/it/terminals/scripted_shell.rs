//! Shells that the test scripts.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hostler_engine::{CommandExit, ShellLauncher, ShellSpec, ShellStartError, TerminalShell, TerminalSize};
use hostler_terminal::ShellNonce;
use tokio::sync::{Mutex, Semaphore, mpsc, watch};

/// Starts scripted shells, and passes each to the test.
pub(crate) struct ScriptedShells {
    pub(crate) shells: Arc<dyn ShellLauncher>,
    started: mpsc::UnboundedReceiver<ScriptedShell>,
}

/// The test's end of a shell.
pub(crate) struct ScriptedShell {
    pub(crate) nonce: ShellNonce,
    /// The start of the shell waits for a permit.
    pub(crate) starts: Arc<Semaphore>,
    output: mpsc::UnboundedSender<Vec<u8>>,
    ending: watch::Receiver<bool>,
    ended: watch::Sender<bool>,
}

impl ScriptedShells {
    /// Shells that start at once.
    pub(crate) fn new() -> Self {
        Self::with_permits(1)
    }

    /// Shells that start when the test allows it.
    pub(crate) fn with_delayed_start() -> Self {
        Self::with_permits(0)
    }

    fn with_permits(permits: usize) -> Self {
        let (started_sender, started) = mpsc::unbounded_channel();
        Self { shells: Arc::new(ScriptedLauncher { started: started_sender, permits }), started }
    }

    pub(crate) async fn next(&mut self) -> ScriptedShell {
        self.started.recv().await.unwrap()
    }
}

impl ScriptedShell {
    pub(crate) fn print(&self, bytes: &[u8]) {
        self.output.send(bytes.to_vec()).unwrap();
    }

    /// Waits until the host terminates the shell.
    pub(crate) async fn wait_until_terminated(&mut self) {
        self.ending.wait_for(|ending| *ending).await.unwrap();
    }

    /// Lets the shell end once the host terminates it.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }
}

struct ScriptedLauncher {
    started: mpsc::UnboundedSender<ScriptedShell>,
    permits: usize,
}

impl ShellLauncher for ScriptedLauncher {
    fn default_title(&self) -> String {
        "scripted shell".into()
    }

    fn open(&self, spec: ShellSpec) -> BoxFuture<'static, Result<Arc<dyn TerminalShell>, ShellStartError>> {
        let (output, written) = mpsc::unbounded_channel();
        let (terminated, ending) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let starts = Arc::new(Semaphore::new(self.permits));
        let shell = ScriptedShell { nonce: spec.nonce, starts: Arc::clone(&starts), output, ending, ended: end };
        self.started.send(shell).unwrap();
        async move {
            starts.acquire().await.unwrap().forget();
            Ok(Arc::new(ScriptedTerminal { output: Mutex::new(written), terminated, ended }) as Arc<dyn TerminalShell>)
        }
        .boxed()
    }
}

/// The host's end of a shell.
struct ScriptedTerminal {
    output: Mutex<mpsc::UnboundedReceiver<Vec<u8>>>,
    terminated: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl TerminalShell for ScriptedTerminal {
    fn read<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, usize> {
        async {
            match self.output.lock().await.recv().await {
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
        self.terminated.send_replace(true);
        let mut ended = self.ended.clone();
        async move {
            if ended.wait_for(|ended| *ended).await.is_err() {
                std::future::pending().await
            }
        }
        .boxed()
    }
}
