//! The task that owns the socket. It knows ids and silence, and nothing of sessions.

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
use super::wire::{self, Event, Incoming};

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
type Reply = oneshot::Sender<Result<Box<RawValue>, ClientError>>;

/// How long silence is borne.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// After this the host is asked whether it is there.
    pub(super) quiet: Duration,
    /// After this much more it is given up.
    pub(super) dead: Duration,
}

impl Patience {
    pub(super) const USUAL: Self = Self { quiet: Duration::from_secs(5), dead: Duration::from_secs(20) };
}

const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the client asks of its task.
pub(super) enum Command {
    Request { method: &'static str, params: Box<RawValue>, reply: Reply },
    Notify { text: String },
    Close { done: oneshot::Sender<()> },
}

pub(super) struct Actor {
    socket: Socket,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
    pending: HashMap<u64, Reply>,
    next_id: u64,
    /// An event that found the queue full. While it waits nothing more is read: the host feels the pressure.
    held: Option<Event>,
    heard: Instant,
    pinged: bool,
    patience: Patience,
}

/// Why the loop ended.
enum End {
    /// We wanted to.
    Ours(Option<oneshot::Sender<()>>),
    Lost(ClientError),
}

impl Actor {
    pub(super) fn new(
        socket: Socket,
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<Event>,
        patience: Patience,
    ) -> Self {
        Self {
            socket,
            commands,
            events,
            pending: HashMap::new(),
            next_id: 1,
            held: None,
            heard: Instant::now(),
            pinged: false,
            patience,
        }
    }

    pub(super) async fn run(mut self) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
        };
        match end {
            End::Ours(done) => {
                let _late = tokio::time::timeout(CLOSE_TIMEOUT, self.say_goodbye()).await;
                drop(self);
                if let Some(done) = done {
                    let _nobody = done.send(());
                }
            }
            End::Lost(error) => {
                self.fail_pending(&error);
                // Whoever still asks is told at once, not when the last event has been read.
                self.commands.close();
                while self.commands.try_recv().is_ok() {}
                if let Some(event) = self.held.take() {
                    let _nobody = self.events.send(event).await;
                }
                let _nobody = self.events.send(Event::Closed(error)).await;
            }
        }
    }

    async fn step(&mut self) -> Result<(), End> {
        let Patience { quiet, dead } = self.patience;
        let silence = self.heard + if self.pinged { quiet + dead } else { quiet };
        tokio::select! {
            () = room(&self.events), if self.held.is_some() => {
                if let Some(event) = self.held.take() {
                    self.forward(event);
                }
                self.heard = Instant::now();
                Ok(())
            }
            command = self.commands.recv() => match command {
                Some(command) => self.obey(command).await,
                None => Err(End::Ours(None)),
            },
            frame = self.socket.next(), if self.held.is_none() => self.hear(frame).await,
            () = tokio::time::sleep_until(silence), if self.held.is_none() => self.on_silence().await,
        }
    }

    async fn obey(&mut self, command: Command) -> Result<(), End> {
        match command {
            Command::Request { reply, .. } if self.held.is_some() => {
                let _nobody = reply.send(Err(ClientError::Behind));
                Ok(())
            }
            Command::Request { method, params, reply } => self.ask(method, &params, Some(reply)).await,
            Command::Notify { text } => self.write(Message::text(text)).await,
            Command::Close { done } => Err(End::Ours(Some(done))),
        }
    }

    async fn hear(&mut self, frame: Option<Result<Message, tungstenite::Error>>) -> Result<(), End> {
        self.heard = Instant::now();
        self.pinged = false;
        match frame {
            Some(Ok(Message::Text(text))) => self.take(wire::read(text.as_str())).await,
            Some(Ok(Message::Close(frame))) => Err(lost(close_reason(frame.map(|frame| frame.reason)))),
            // Pings are answered by the library, binary frames are no part of the protocol.
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(lost(error.to_string())),
            None => Err(lost("the host closed it".to_owned())),
        }
    }

    async fn take(&mut self, incoming: Incoming) -> Result<(), End> {
        match incoming {
            Incoming::Event(event) => self.forward(event),
            Incoming::Answer { id, result } => {
                if let Some(reply) = self.pending.remove(&id) {
                    let _nobody = reply.send(result.map_err(ClientError::from));
                }
            }
            Incoming::Request { id } => self.write(Message::text(wire::refusal(&id))).await?,
            Incoming::Unasked => {}
            Incoming::Unknown => tracing::debug!("a frame of the host was not understood"),
        }
        Ok(())
    }

    fn forward(&mut self, event: Event) {
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            self.held = Some(event);
            // Whoever waits for an answer does not read events: both would wait for ever.
            self.fail_pending(&ClientError::Behind);
        }
    }

    async fn on_silence(&mut self) -> Result<(), End> {
        if self.pinged {
            return Err(lost("the host does not answer any more".to_owned()));
        }
        self.pinged = true;
        let params = wire::raw("ping", &serde_json::json!({ "channel": ahp_types::ROOT_RESOURCE_URI }));
        match params {
            Ok(params) => self.ask("ping", &params, None).await,
            Err(error) => Err(End::Lost(error)),
        }
    }

    async fn ask(&mut self, method: &'static str, params: &RawValue, reply: Option<Reply>) -> Result<(), End> {
        let id = self.next_id;
        self.next_id += 1;
        let text = wire::request(id, method, params).map_err(End::Lost)?;
        if let Some(reply) = reply {
            self.pending.insert(id, reply);
        }
        self.write(Message::text(text)).await
    }

    async fn write(&mut self, message: Message) -> Result<(), End> {
        match tokio::time::timeout(self.patience.dead, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(lost(error.to_string())),
            Err(_) => Err(lost("the host does not read any more".to_owned())),
        }
    }

    async fn say_goodbye(&mut self) {
        if self.socket.close(None).await.is_ok() {
            while let Some(Ok(_)) = self.socket.next().await {}
        }
    }

    fn fail_pending(&mut self, error: &ClientError) {
        for (_, reply) in self.pending.drain() {
            let _nobody = reply.send(Err(error.clone()));
        }
    }
}

/// Waits until an event fits, or until nobody wants one.
async fn room(events: &mpsc::Sender<Event>) {
    let _nobody = events.reserve().await;
}

fn lost(reason: String) -> End {
    End::Lost(ClientError::Closed(reason))
}

fn close_reason(reason: Option<Utf8Bytes>) -> String {
    match reason {
        Some(reason) if !reason.as_str().is_empty() => crate::console::one_line(reason.as_str()),
        _ => "the host closed it".to_owned(),
    }
}

#[cfg(test)]
#[path = "actor_tests.rs"]
mod tests;
