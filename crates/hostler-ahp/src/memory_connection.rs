//! A connection without a socket, for clients in the same process and for tests.

use bytes::Bytes;
use futures::SinkExt as _;
use hostler_engine::Engine;
use tokio::sync::mpsc;
use tokio_stream_shim::ReceiverStream;
use tokio_util::sync::{CancellationToken, PollSendError, PollSender};
use tokio_util::task::TaskTracker;

use crate::browser_sessions::BrowserSessions;
use crate::connected_clients::ConnectedClients;
use crate::connection::{self, AhpConnectionLimits, ConnectionContext};
use crate::ws::{self, FrameEncoding};

/// The client's end: JSON texts in both directions.
#[derive(Debug)]
pub struct MemoryConnection {
    /// To the host.
    pub sender: mpsc::Sender<String>,
    /// From the host.
    pub receiver: mpsc::Receiver<Bytes>,
}

/// Connects to an engine without a socket. The connection ends when the client's end is dropped.
pub fn connect_in_memory(engine: &Engine, limits: AhpConnectionLimits) -> MemoryConnection {
    let (sender, inbound) = mpsc::channel(64);
    let (outbound, receiver) = mpsc::channel(64);
    let context = ConnectionContext {
        engine: engine.clone(),
        limits,
        clients: ConnectedClients::default(),
        logs: None,
        browser_sessions: BrowserSessions::default(),
        browser_client: None,
        encoding: FrameEncoding::Plain,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    // There is no socket and no framing: only the text is passed on.
    let outbound = PollSender::new(outbound)
        .with(|frame| std::future::ready(Ok::<_, PollSendError<Bytes>>(ws::message_text(frame))));
    tokio::spawn(connection::serve(context, ReceiverStream(inbound), outbound));
    MemoryConnection { sender, receiver }
}

mod tokio_stream_shim {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures::Stream;
    use tokio::sync::mpsc;

    /// Adapts a receiver to a stream.
    pub(super) struct ReceiverStream(pub(super) mpsc::Receiver<String>);

    impl Stream for ReceiverStream {
        type Item = String;

        fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<String>> {
            self.0.poll_recv(context)
        }
    }
}
