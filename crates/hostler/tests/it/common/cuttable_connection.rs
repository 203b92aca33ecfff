//! Network connection that fails on demand.

use tokio::io::{AsyncWriteExt as _, copy, copy_bidirectional, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::HostProcess;

/// Connection to the host that can be cut, like a client's machine that loses its network.
pub struct CuttableConnection {
    pub url: String,
    cut: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl CuttableConnection {
    pub async fn to(host: &HostProcess) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (cut, is_cut) = oneshot::channel();
        let task = tokio::spawn(forward_connections(listener, host.port, is_cut));
        Self { url: format!("ws://127.0.0.1:{port}/?tkn={}", host.token()), cut, task }
    }

    /// Cuts the connection; returns when the host has noticed.
    pub async fn cut(self) {
        self.cut.send(()).unwrap();
        self.task.await.unwrap();
    }
}

async fn forward_connections(listener: TcpListener, port: u16, is_cut: oneshot::Receiver<()>) {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut host = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    tokio::select! {
        ended = copy_bidirectional(&mut client, &mut host) => panic!("neither side may close the connection: {ended:?}"),
        _ = is_cut => {}
    }
    drop(client);
    host.shutdown().await.unwrap();
    // The host closes its end when it considers the client gone; a reset means the same.
    let _ = copy(&mut host, &mut sink()).await;
}
