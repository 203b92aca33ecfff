//! The servers that are compared. Both share messages between connections and write all queued messages before they
//! flush, like the host.

use std::io::{BufRead as _, Write as _};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use crate::raw_clients::read_head;
use crate::ws::{self, CloseReason, FrameEncoding, SocketLimits};

/// The answer to every request.
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"channel":"ahp-session:/0123456789abcdef"}}"#;
/// Its length as a frame.
pub(crate) const ANSWER_FRAME_BYTES: usize = 2 + ANSWER.len();

/// A server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Hostler,
    HostlerDeflated,
    Tungstenite,
}

impl ServerKind {
    const ALL: [Self; 3] = [Self::Hostler, Self::HostlerDeflated, Self::Tungstenite];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hostler => "hostler",
            Self::HostlerDeflated => "hostler-deflated",
            Self::Tungstenite => "tungstenite",
        }
    }
}

impl FromStr for ServerKind {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(())
    }
}

/// One message to all connections, several times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FanOut {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) gap_ms: u64,
}

/// Serves until the standard input ends, which carries the orders.
pub(crate) fn serve(kind: ServerKind) {
    match kind {
        ServerKind::Hostler => run(HostlerServer(FrameEncoding::Plain)),
        ServerKind::HostlerDeflated => run(HostlerServer(FrameEncoding::Deflated)),
        ServerKind::Tungstenite => run(TungsteniteServer),
    }
}

/// What differs between the servers.
trait Server: Copy + Send + Sync + 'static {
    /// A message that connections can share.
    type Message: Clone + Send + 'static;

    fn encode(self, text: &str) -> Self::Message;
    /// Bytes of a message on the wire.
    fn wire_bytes(self, message: &Self::Message) -> usize;
    fn connect(self, stream: TcpStream, queue: Queue<Self::Message>) -> impl Future<Output = ()> + Send;
}

/// The messages to one connection.
struct Queue<M> {
    sender: UnboundedSender<M>,
    receiver: UnboundedReceiver<M>,
}

type Connections<M> = Arc<Mutex<Vec<UnboundedSender<M>>>>;

fn run<S: Server>(server: S) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let connections = Connections::<S::Message>::default();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    runtime.spawn(accept(server, listener, Arc::clone(&connections)));
    for order in std::io::stdin().lock().lines() {
        let order = order.expect("an order");
        let numbers: Vec<usize> = order.split(' ').map(|number| number.parse().expect("a number")).collect();
        let [messages, bytes, gap_ms] = *numbers.as_slice() else { return };
        let order = FanOut { messages, bytes, gap_ms: gap_ms as u64 };
        let text = message_text(bytes);
        println!("{}", messages * server.wire_bytes(&server.encode(&text)));
        let _ = std::io::stdout().flush();
        let connections = connections.lock().unwrap_or_else(PoisonError::into_inner).clone();
        runtime.block_on(async move { tokio::spawn(send_all(server, order, text, connections)).await }).expect("sent");
    }
}

async fn accept<S: Server>(server: S, listener: TcpListener, connections: Connections<S::Message>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let connections = Arc::clone(&connections);
        tokio::spawn(async move {
            stream.set_nodelay(true).expect("a TCP socket");
            read_head(&mut stream).await;
            let (sender, receiver) = mpsc::unbounded_channel();
            connections.lock().unwrap_or_else(PoisonError::into_inner).push(sender.clone());
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").await.expect("written");
            server.connect(stream, Queue { sender, receiver }).await;
        });
    }
}

async fn send_all<S: Server>(server: S, order: FanOut, text: String, connections: Vec<UnboundedSender<S::Message>>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(order.gap_ms.max(1)));
    for number in 0..order.messages {
        if order.gap_ms > 0 {
            ticks.tick().await;
        } else if number % 16 == 0 {
            tokio::task::yield_now().await;
        }
        let message = server.encode(&text);
        for connection in &connections {
            // A client that has left is not an error.
            let _ = connection.send(message.clone());
        }
    }
}

/// An action envelope of about this length, with text that compresses like prose.
fn message_text(bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "session", "the", "agent", "reads", "file", "and", "writes", "a", "test", "for", "each", "turn", "that",
        "returns", "error", "value",
    ];
    let mut text = String::from(
        r#"{"jsonrpc":"2.0","method":"action","params":{"channel":"ahp-session:/0123456789abcdef","serverSeq":123456,"action":{"type":"session/delta","content":""#,
    );
    let mut state = 1_u32;
    while text.len() + 4 < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(WORDS[(state >> 28) as usize]);
        text.push(' ');
    }
    text.push_str(r#""}}}"#);
    text
}

/// Answers every request, and writes all queued messages before it flushes.
async fn exchange<M, O>(requests: impl Stream, mut outbound: O, queue: Queue<M>, answer: impl Fn() -> M)
where
    O: Sink<M> + Unpin,
{
    let Queue { sender, mut receiver } = queue;
    let read = requests.for_each(|_| std::future::ready(drop(sender.send(answer()))));
    let write = async {
        while let Some(message) = receiver.recv().await {
            let mut next = Some(message);
            while let Some(message) = next {
                if outbound.feed(message).await.is_err() {
                    return;
                }
                next = receiver.try_recv().ok();
            }
            if outbound.flush().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

#[derive(Clone, Copy)]
struct HostlerServer(FrameEncoding);

impl Server for HostlerServer {
    type Message = Bytes;

    fn encode(self, text: &str) -> Bytes {
        self.0.frame(text.as_bytes())
    }

    fn wire_bytes(self, message: &Bytes) -> usize {
        message.len()
    }

    async fn connect(self, stream: TcpStream, queue: Queue<Bytes>) {
        let encoding = self.0;
        let limits = SocketLimits { write_stall_timeout: Duration::from_secs(600), ..SocketLimits::default() };
        ws::run_socket(stream, Bytes::new(), encoding, &limits, |inbound, outbound| async move {
            exchange(inbound, outbound, queue, || encoding.frame(ANSWER.as_bytes())).await;
            CloseReason::Finished
        })
        .await;
    }
}

#[derive(Clone, Copy)]
struct TungsteniteServer;

impl Server for TungsteniteServer {
    type Message = Message;

    fn encode(self, text: &str) -> Message {
        Message::text(text)
    }

    fn wire_bytes(self, message: &Message) -> usize {
        let header = match message.len() {
            ..126 => 2,
            ..65_536 => 4,
            _ => 10,
        };
        header + message.len()
    }

    async fn connect(self, stream: TcpStream, queue: Queue<Message>) {
        let config = WebSocketConfig::default().read_buffer_size(4 * 1024).max_frame_size(None);
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let (outbound, inbound) = socket.split();
        exchange(inbound, outbound, queue, || Message::text(ANSWER)).await;
    }
}
