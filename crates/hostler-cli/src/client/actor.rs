//! Task that owns the socket. It knows request ids and keepalive, and nothing of sessions.

use std::collections::HashMap;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::ClientError;
use super::frames::{self, HostEvent, IncomingFrame};

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Reply = oneshot::Sender<Result<Box<RawValue>, ClientError>>;

/// How long the host may be silent.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeepaliveTimeouts {
    /// Silence after which the host is pinged.
    pub(super) ping_after: Duration,
    /// Further silence after which the connection is closed.
    pub(super) close_after: Duration,
}

impl KeepaliveTimeouts {
    pub(super) const DEFAULT: Self = Self { ping_after: Duration::from_secs(5), close_after: Duration::from_secs(20) };
}

const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Commands of the client to its task.
pub(super) enum ClientCommand {
    Request { method: &'static str, params: Box<RawValue>, reply: Reply },
    Notify { text: String },
    Close { done: oneshot::Sender<()> },
}

pub(super) struct ConnectionActor {
    socket: Socket,
    commands: mpsc::Receiver<ClientCommand>,
    events: mpsc::Sender<HostEvent>,
    pending: HashMap<u64, Reply>,
    next_id: u64,
    /// Event that did not fit into the full queue. While it waits, nothing more is read from the socket, so the
    /// backpressure reaches the host.
    blocked_event: Option<HostEvent>,
    last_received: Instant,
    is_ping_pending: bool,
    timeouts: KeepaliveTimeouts,
}

/// Why the loop ended.
enum ConnectionEnd {
    /// The client closed the connection.
    ClosedByClient(Option<oneshot::Sender<()>>),
    Lost(ClientError),
}

impl ConnectionActor {
    pub(super) fn new(
        socket: Socket,
        commands: mpsc::Receiver<ClientCommand>,
        events: mpsc::Sender<HostEvent>,
        timeouts: KeepaliveTimeouts,
    ) -> Self {
        Self {
            socket,
            commands,
            events,
            pending: HashMap::new(),
            next_id: 1,
            blocked_event: None,
            last_received: Instant::now(),
            is_ping_pending: false,
            timeouts,
        }
    }

    pub(super) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
        };
        match end {
            ConnectionEnd::ClosedByClient(done) => {
                let _late = tokio::time::timeout(CLOSE_TIMEOUT, self.close_socket()).await;
                drop(self);
                if let Some(done) = done {
                    let _dropped = done.send(());
                }
            }
            ConnectionEnd::Lost(error) => {
                self.fail_pending(&error);
                // Pending requests fail at once, not after the last event is read.
                self.commands.close();
                while self.commands.try_recv().is_ok() {}
                if let Some(event) = self.blocked_event.take() {
                    let _dropped = self.events.send(event).await;
                }
                let _dropped = self.events.send(HostEvent::Closed(error)).await;
            }
        }
    }

    async fn step(&mut self) -> Result<(), ConnectionEnd> {
        let KeepaliveTimeouts { ping_after, close_after } = self.timeouts;
        let deadline = self.last_received + if self.is_ping_pending { ping_after + close_after } else { ping_after };
        tokio::select! {
            () = wait_for_queue_space(&self.events), if self.blocked_event.is_some() => {
                if let Some(event) = self.blocked_event.take() {
                    self.forward(event);
                }
                self.last_received = Instant::now();
                Ok(())
            }
            command = self.commands.recv() => match command {
                Some(command) => self.handle_command(command).await,
                None => Err(ConnectionEnd::ClosedByClient(None)),
            },
            frame = self.socket.next(), if self.blocked_event.is_none() => self.handle_frame(frame).await,
            () = tokio::time::sleep_until(deadline), if self.blocked_event.is_none() => self.on_silence().await,
        }
    }

    async fn handle_command(&mut self, command: ClientCommand) -> Result<(), ConnectionEnd> {
        match command {
            ClientCommand::Request { reply, .. } if self.blocked_event.is_some() => {
                let _dropped = reply.send(Err(ClientError::FellBehind));
                Ok(())
            }
            ClientCommand::Request { method, params, reply } => self.send_request(method, &params, Some(reply)).await,
            ClientCommand::Notify { text } => self.write(Message::text(text)).await,
            ClientCommand::Close { done } => Err(ConnectionEnd::ClosedByClient(Some(done))),
        }
    }

    async fn handle_frame(&mut self, frame: Option<Result<Message, tungstenite::Error>>) -> Result<(), ConnectionEnd> {
        self.last_received = Instant::now();
        self.is_ping_pending = false;
        match frame {
            Some(Ok(Message::Text(text))) => self.handle_incoming(frames::parse_frame(text.as_str())).await,
            Some(Ok(Message::Close(frame))) => Err(connection_lost(close_reason(frame.map(|frame| frame.reason)))),
            // The library answers pings; binary frames are not part of the protocol.
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(connection_lost(error.to_string())),
            None => Err(connection_lost("the host closed it".to_owned())),
        }
    }

    async fn handle_incoming(&mut self, incoming: IncomingFrame) -> Result<(), ConnectionEnd> {
        match incoming {
            IncomingFrame::Event(event) => self.forward(event),
            IncomingFrame::Answer { id, result } => {
                if let Some(reply) = self.pending.remove(&id) {
                    let _dropped = reply.send(result.map_err(ClientError::from));
                }
            }
            IncomingFrame::Request { id } => self.write(Message::text(frames::method_not_found_response(&id))).await?,
            IncomingFrame::Ignored => {}
            IncomingFrame::Unrecognized => tracing::debug!("ignored an unrecognized frame"),
        }
        Ok(())
    }

    fn forward(&mut self, event: HostEvent) {
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            self.blocked_event = Some(event);
            // A caller that waits for an answer does not read events, so both sides would wait forever.
            self.fail_pending(&ClientError::FellBehind);
        }
    }

    async fn on_silence(&mut self) -> Result<(), ConnectionEnd> {
        if self.is_ping_pending {
            return Err(connection_lost("the host stopped responding".to_owned()));
        }
        self.is_ping_pending = true;
        let params = frames::encode_params("ping", &serde_json::json!({ "channel": ahp_types::ROOT_RESOURCE_URI }));
        match params {
            Ok(params) => self.send_request("ping", &params, None).await,
            Err(error) => Err(ConnectionEnd::Lost(error)),
        }
    }

    async fn send_request(
        &mut self,
        method: &'static str,
        params: &RawValue,
        reply: Option<Reply>,
    ) -> Result<(), ConnectionEnd> {
        let id = self.next_id;
        self.next_id += 1;
        let text = frames::encode_request(id, method, params).map_err(ConnectionEnd::Lost)?;
        if let Some(reply) = reply {
            self.pending.insert(id, reply);
        }
        self.write(Message::text(text)).await
    }

    async fn write(&mut self, message: Message) -> Result<(), ConnectionEnd> {
        match tokio::time::timeout(self.timeouts.close_after, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(connection_lost(error.to_string())),
            Err(_) => Err(connection_lost("the host stopped reading".to_owned())),
        }
    }

    async fn close_socket(&mut self) {
        if self.socket.close(None).await.is_ok() {
            while let Some(Ok(_)) = self.socket.next().await {}
        }
    }

    fn fail_pending(&mut self, error: &ClientError) {
        for (_, reply) in self.pending.drain() {
            let _dropped = reply.send(Err(error.clone()));
        }
    }
}

/// Waits until an event fits into the queue, or until the receiver is dropped.
async fn wait_for_queue_space(events: &mpsc::Sender<HostEvent>) {
    let _dropped = events.reserve().await;
}

fn connection_lost(reason: String) -> ConnectionEnd {
    ConnectionEnd::Lost(ClientError::Closed(reason))
}

fn close_reason(reason: Option<Utf8Bytes>) -> String {
    match reason {
        Some(reason) if !reason.as_str().is_empty() => crate::console::to_one_line(reason.as_str()),
        _ => "the host closed it".to_owned(),
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
