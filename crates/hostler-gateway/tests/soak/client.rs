//! A client that misbehaves according to its plan.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::request_plan::{ClientBehavior, RequestPlan};

/// What is wrong with a response, or why there is none.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SoakError {
    #[error("failed to connect: {0}")]
    Connect(io::Error),
    #[error("failed to send: {0}")]
    Send(io::Error),
    #[error("failed to read: {0}")]
    Read(io::Error),
    #[error("the response ended early: {0}")]
    Truncated(String),
    #[error("no status in {0:?}")]
    NoStatus(String),
    #[error("the upstream sends nothing more, but the response ended")]
    NotStalled,
    #[error("(status, complete, error) is {found:?}, not {expected:?}: {text}")]
    Unexpected { found: (u16, bool, bool), expected: (u16, bool, bool), text: String },
}

pub(crate) struct Client {
    address: SocketAddr,
    bearer: Arc<str>,
    /// Reused for the next request if both sides leave it open.
    connection: Option<TcpStream>,
    answer: Vec<u8>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr, bearer: Arc<str>) -> Self {
        Self { address, bearer, connection: None, answer: Vec::new() }
    }

    /// Makes the request; the error describes what is wrong with its response.
    pub(crate) async fn play(&mut self, plan: &RequestPlan) -> Result<(), SoakError> {
        let request = self.request(plan);
        let mut connection = self.connect().await?;
        let sent = match plan.client_behavior {
            ClientBehavior::CloseMidRequest => request.split_at(request.len() - 20).0,
            _ => &request,
        };
        connection.write_all(sent.as_bytes()).await.map_err(SoakError::Send)?;
        let enough = match plan.client_behavior {
            ClientBehavior::CloseMidRequest | ClientBehavior::CloseAfterRequest => return Ok(()),
            ClientBehavior::CloseMidResponse(bytes) => bytes,
            _ => usize::MAX,
        };
        self.answer.clear();
        let head = loop {
            if let Some(head) = Head::read(&self.answer)? {
                break head;
            }
            self.read(&mut connection).await?;
        };
        while !head.is_over(&self.answer) {
            if self.answer.len() >= enough {
                return Ok(());
            }
            self.read(&mut connection).await?;
        }
        plan.check(head.status, &self.answer)?;
        if plan.client_behavior != ClientBehavior::CloseAfterResponse {
            self.connection = Some(connection);
        }
        Ok(())
    }

    async fn read(&mut self, connection: &mut TcpStream) -> Result<(), SoakError> {
        match connection.read_buf(&mut self.answer).await {
            Ok(1..) => Ok(()),
            Ok(0) => Err(SoakError::Truncated(String::from_utf8_lossy(&self.answer).into_owned())),
            Err(error) => Err(SoakError::Read(error)),
        }
    }

    async fn connect(&mut self) -> Result<TcpStream, SoakError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => TcpStream::connect(self.address).await.map_err(SoakError::Connect),
        }
    }

    fn request(&self, plan: &RequestPlan) -> String {
        let body = match plan.client_behavior {
            ClientBehavior::InvalidRequest => "{\"model\":\"m\",\"messages\":".to_owned(),
            _ => plan.body(),
        };
        let bearer = match plan.client_behavior {
            ClientBehavior::WrongBearer => "0123.unknown",
            _ => &self.bearer,
        };
        format!(
            "POST /v1/messages HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {bearer}\r\n\
             anthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
    }
}

/// Head of a response.
struct Head {
    status: u16,
    length: usize,
    /// Absent for a chunked body.
    body: Option<usize>,
}

impl Head {
    /// Returns `None` while the head is incomplete.
    fn read(answer: &[u8]) -> Result<Option<Self>, SoakError> {
        let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let status = status.ok_or(SoakError::NoStatus(text))?;
        Ok(Some(Self { status, length: end + 4, body }))
    }

    fn is_over(&self, answer: &[u8]) -> bool {
        match self.body {
            Some(body) => answer.len() >= self.length + body,
            None => answer.len() > self.length && answer.ends_with(b"0\r\n\r\n"),
        }
    }
}
