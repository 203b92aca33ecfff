//! The scripted model: built in, offline, deterministic. The same request always gets the same answer.
//!
//! It does what the directives in the last user text say (`docs/scripted-model.md`), or echoes that text. It keeps no
//! state: how far a script has come is counted from the tool results in the request.

mod conversation;
mod message;
mod performance;
mod script;
mod writer;

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use hostler_redact::json_fault;
use http::{HeaderMap, StatusCode};

use self::conversation::Conversation;
use self::message::MessageId;
use self::performance::{Performance, Step};
use self::script::{Act, Script};
use self::writer::{EventWriter, Head, WholeWriter};
use super::{
    AnswerBody, Betas, EventBytes, Manners, Refusal, UnknownModels, Upstream, UpstreamAnswer, UpstreamCall,
    UpstreamError, UpstreamModel,
};
use crate::catalogue;
use crate::error::{self, ErrorKind};

/// The upstream that needs no network: see `docs/scripted-model.md`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptedUpstream;

impl Upstream for ScriptedUpstream {
    fn is_script(&self, text: &str) -> bool {
        // One that cannot be played is one all the same: its author is told why.
        !matches!(Script::parse(text), Ok(None))
    }

    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn manners(&self) -> Manners {
        Manners { betas: Betas::All, unknown_models: UnknownModels::Take }
    }

    /// Agents derive thinking and limits from the name, so it offers real ones.
    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        std::future::ready(Ok(catalogue::bundled())).boxed()
    }

    fn count_tokens(&self, call: UpstreamCall) -> BoxFuture<'_, Result<UpstreamAnswer, UpstreamError>> {
        let body = format!("{{\"input_tokens\":{}}}", writer::tokens(call.body.len()));
        let answer = UpstreamAnswer { headers: HeaderMap::new(), body: AnswerBody::Whole(body.into()) };
        std::future::ready(Ok(answer)).boxed()
    }

    fn messages(&self, call: UpstreamCall) -> BoxFuture<'_, Result<UpstreamAnswer, UpstreamError>> {
        async move {
            let performance = Performance::new(act(&call.body)?);
            let head = Head { id: message_id(&call.body), model: call.model, request_bytes: call.body.len() };
            let body = if call.stream {
                AnswerBody::Events(play(performance, EventWriter::new(head)))
            } else {
                AnswerBody::Whole(play_to_the_end(performance, WholeWriter::new(head)).await?)
            };
            Ok(UpstreamAnswer { headers: HeaderMap::new(), body })
        }
        .boxed()
    }
}

/// What the model does in answer to this request.
fn act(body: &[u8]) -> Result<Act, UpstreamError> {
    let conversation = Conversation::read(body).map_err(|error| {
        refused(StatusCode::BAD_REQUEST, &format!("The messages cannot be read: {}.", json_fault(&error)))
    })?;
    let request = conversation.last_request();
    let script = Script::parse(&request.text)
        .map_err(|error| refused(StatusCode::BAD_REQUEST, &format!("The script cannot be played: {error}.")))?;
    Ok(match script {
        Some(script) => script.act_after(request.results).looking_at(&conversation.pictures()),
        None => Act::echo(&request.text),
    })
}

/// The stream: events as they are due. Time passes here, so that the performance itself has no clock.
fn play(performance: Performance, writer: EventWriter) -> EventBytes {
    stream::unfold(Some((performance, writer)), |state| async {
        let (mut performance, mut writer) = state?;
        loop {
            let written = match performance.next()? {
                Step::Open(opening) => writer.open(opening),
                Step::Piece(piece) => writer.piece(&piece),
                Step::Close => writer.close(),
                Step::End(stop_reason) => writer.end(stop_reason),
                Step::Pause(time) => {
                    tokio::time::sleep(time).await;
                    continue;
                }
                Step::Hang => std::future::pending().await,
                Step::Cut => return Some((Err(cut()), None)),
                Step::Error { status, message } if writer.has_begun() => {
                    return Some((Ok(error::event(ErrorKind::of_status(status), &message)), None));
                }
                Step::Error { status, message } => {
                    return Some((Err(refused(status, &message)), None));
                }
            };
            return Some(match written {
                Ok(events) => (Ok(events), Some((performance, writer))),
                Err(error) => (Err(unwritable(&error)), None),
            });
        }
    })
    .boxed()
}

/// The same performance as one whole message.
async fn play_to_the_end(performance: Performance, mut writer: WholeWriter) -> Result<Bytes, UpstreamError> {
    for step in performance {
        match step {
            Step::Open(opening) => writer.open(opening),
            Step::Piece(piece) => writer.piece(&piece),
            Step::Close => {}
            Step::End(stop_reason) => {
                return writer.end(stop_reason).map_err(|error| unwritable(&error));
            }
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Hang => std::future::pending().await,
            Step::Cut => return Err(cut()),
            Step::Error { status, message } => return Err(refused(status, &message)),
        }
    }
    Err(cut())
}

fn refused(status: StatusCode, message: &str) -> UpstreamError {
    let body = error::envelope(ErrorKind::of_status(status), message);
    UpstreamError::from(Refusal { status, headers: HeaderMap::new(), body })
}

fn cut() -> UpstreamError {
    UpstreamError::BrokenOff { reason: "the script cut the connection".to_owned() }
}

fn unwritable(error: &serde_json::Error) -> UpstreamError {
    UpstreamError::Internal { reason: format!("an event of the scripted model could not be written: {error}") }
}

/// Ids are made from the request, so that they differ along a conversation and repeat with a repeated request.
fn message_id(body: &[u8]) -> MessageId {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    MessageId(hasher.finish())
}
