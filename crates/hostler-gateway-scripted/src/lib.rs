//! The scripted model: built in, offline, deterministic. The same request always gets the same response.
//!
//! It follows the directives in the last user text (`docs/scripted-model.md`), or echoes that text. It has no state:
//! the position in a script follows from the number of tool results in the request.

#![forbid(unsafe_code)]

mod conversation;
mod message;
mod playback;
mod script;
mod writer;

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use hostler_gateway::upstream_support::{ApiErrorKind, bundled_models, error_body, error_event};
use hostler_gateway::{
    BetaPolicy, EventByteStream, UnknownModelPolicy, Upstream, UpstreamCapabilities, UpstreamError,
    UpstreamErrorResponse, UpstreamModel, UpstreamRequest, UpstreamResponse, UpstreamResponseBody,
};
use hostler_redact::redact_json_error;
use http::{HeaderMap, StatusCode};

use self::conversation::RequestConversation;
use self::message::ScriptedMessageId;
use self::playback::{PlaybackStep, ScriptPlayback};
use self::script::{MessageScript, Script};
use self::writer::{MessageHead, ScriptedEventWriter, ScriptedMessageWriter};

/// The upstream without a network: see `docs/scripted-model.md`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScriptedUpstream;

impl Upstream for ScriptedUpstream {
    fn is_script(&self, text: &str) -> bool {
        // An invalid script is a script as well, so that its author gets the error.
        !matches!(Script::parse(text), Ok(None))
    }

    fn kind(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self) -> UpstreamCapabilities {
        UpstreamCapabilities { betas: BetaPolicy::All, unknown_models: UnknownModelPolicy::Forward }
    }

    /// Agents derive thinking and limits from the model's name, so the list contains real names.
    fn models(&self) -> BoxFuture<'_, Result<Vec<UpstreamModel>, UpstreamError>> {
        std::future::ready(Ok(bundled_models())).boxed()
    }

    fn count_tokens(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        let body = format!("{{\"input_tokens\":{}}}", writer::estimate_tokens(call.body.len()));
        let answer = UpstreamResponse { headers: HeaderMap::new(), body: UpstreamResponseBody::Whole(body.into()) };
        std::future::ready(Ok(answer)).boxed()
    }

    fn messages(&self, call: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamError>> {
        async move {
            let playback = ScriptPlayback::new(build_message_script(&call.body)?);
            let head =
                MessageHead { id: derive_message_id(&call.body), model: call.model, request_bytes: call.body.len() };
            let body = if call.stream {
                UpstreamResponseBody::Events(stream_playback(playback, ScriptedEventWriter::new(head)))
            } else {
                UpstreamResponseBody::Whole(collect_playback(playback, ScriptedMessageWriter::new(head)).await?)
            };
            Ok(UpstreamResponse { headers: HeaderMap::new(), body })
        }
        .boxed()
    }
}

/// The directives for the response to this request.
fn build_message_script(body: &[u8]) -> Result<MessageScript, UpstreamError> {
    let conversation = RequestConversation::parse(body).map_err(|error| {
        error_response(StatusCode::BAD_REQUEST, &format!("Invalid messages: {}.", redact_json_error(&error)))
    })?;
    let request = conversation.last_user_text();
    let script = Script::parse(&request.text)
        .map_err(|error| error_response(StatusCode::BAD_REQUEST, &format!("Invalid script: {error}.")))?;
    Ok(match script {
        Some(script) => script.message_after(request.tool_results).with_images(&conversation.images()),
        None => MessageScript::echo(&request.text),
    })
}

/// The stream of events at their due times. The clock is used here, so that the playback itself has none.
fn stream_playback(playback: ScriptPlayback, writer: ScriptedEventWriter) -> EventByteStream {
    stream::unfold(Some((playback, writer)), |state| async {
        let (mut playback, mut writer) = state?;
        loop {
            let written = match playback.next()? {
                PlaybackStep::Open(opening) => writer.open_block(opening),
                PlaybackStep::Chunk(piece) => writer.write_chunk(&piece),
                PlaybackStep::Close => writer.close_block(),
                PlaybackStep::End(stop_reason) => writer.end_message(stop_reason),
                PlaybackStep::Pause(time) => {
                    tokio::time::sleep(time).await;
                    continue;
                }
                PlaybackStep::Hang => std::future::pending().await,
                PlaybackStep::Disconnect => return Some((Err(disconnect_error()), None)),
                PlaybackStep::Error { status, message } if writer.has_begun() => {
                    return Some((Ok(error_event(ApiErrorKind::from_status(status), &message)), None));
                }
                PlaybackStep::Error { status, message } => {
                    return Some((Err(error_response(status, &message)), None));
                }
            };
            return Some(match written {
                Ok(events) => (Ok(events), Some((playback, writer))),
                Err(error) => (Err(serialization_error(&error)), None),
            });
        }
    })
    .boxed()
}

/// Collects the same playback into one message.
async fn collect_playback(playback: ScriptPlayback, mut writer: ScriptedMessageWriter) -> Result<Bytes, UpstreamError> {
    for step in playback {
        match step {
            PlaybackStep::Open(opening) => writer.open_block(opening),
            PlaybackStep::Chunk(piece) => writer.add_chunk(&piece),
            PlaybackStep::Close => {}
            PlaybackStep::End(stop_reason) => {
                return writer.finish(stop_reason).map_err(|error| serialization_error(&error));
            }
            PlaybackStep::Pause(time) => tokio::time::sleep(time).await,
            PlaybackStep::Hang => std::future::pending().await,
            PlaybackStep::Disconnect => return Err(disconnect_error()),
            PlaybackStep::Error { status, message } => return Err(error_response(status, &message)),
        }
    }
    Err(disconnect_error())
}

fn error_response(status: StatusCode, message: &str) -> UpstreamError {
    let body = error_body(ApiErrorKind::from_status(status), message);
    UpstreamError::from(UpstreamErrorResponse { status, headers: HeaderMap::new(), body })
}

fn disconnect_error() -> UpstreamError {
    UpstreamError::Interrupted { reason: "the script closed the connection".to_owned() }
}

fn serialization_error(error: &serde_json::Error) -> UpstreamError {
    UpstreamError::Internal { reason: format!("failed to serialize an event of the scripted model: {error}") }
}

/// Ids are derived from the request, so that they differ within a conversation and repeat for a repeated request.
fn derive_message_id(body: &[u8]) -> ScriptedMessageId {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    ScriptedMessageId(hasher.finish())
}
