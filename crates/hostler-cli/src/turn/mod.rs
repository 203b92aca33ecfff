//! Runs one turn as a client: starts it, follows it to its end and renders it.

mod editor;
mod follower;
mod prompts;
mod renderer;
mod stdin_lines;
mod sub_agents;

use std::io;
use std::path::Path;
use std::time::Instant;

use ahp_types::actions::{
    ActionEnvelope, ChatPendingMessageRemovedAction, ChatPendingMessageSetAction, ChatTurnCancelledAction,
    ChatTurnStartedAction, SessionConfigChangedAction, StateAction,
};
use ahp_types::commands::CreateSessionParams;
use ahp_types::state::{Message, MessageAttachment, MessageKind, MessageOrigin, ModelSelection, PendingMessageKind};
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::client::{Client, ClientError, HostEvent, rejection_code};
use crate::exit::{CommandFailure, Exit};
use crate::signals::{Signal, Signals};

pub(crate) use editor::{EditorError, TextEditor};
pub(crate) use follower::{FollowerInput, FollowerStep, TurnEnd, TurnFollower};
pub(crate) use prompts::PromptQueue;
pub(crate) use renderer::{TurnRenderer, tool_error_text, turn_end_result};
pub(crate) use stdin_lines::StdinLines;

/// Provider of new sessions; its id is the scheme of their URIs.
pub(crate) const PROVIDER: &str = "claude";
/// Configuration key of a session's permission mode.
const PERMISSION_MODE_KEY: &str = "permissionMode";

/// Session and the chat that receives its messages.
#[derive(Debug, Clone)]
pub(crate) struct OpenedSession {
    pub(crate) uri: String,
    pub(crate) chat: String,
    /// Whether a turn was running at the start: our message is queued behind it.
    pub(crate) has_running_turn: bool,
}

/// Creates a session in a directory and subscribes to it.
pub(crate) async fn create_session(
    client: &Client,
    directory: &Path,
    permission_mode: Option<&str>,
) -> Result<OpenedSession, CommandFailure> {
    let directory = url::Url::from_directory_path(directory).map_err(|()| {
        let text = format!("{} is not an absolute path.", directory.display());
        CommandFailure::new(Exit::Usage, "invalidPath", text)
    })?;
    let uri = format!("{PROVIDER}:/{}", Uuid::new_v4());
    let config = permission_mode.map(|mode| [(PERMISSION_MODE_KEY.to_owned(), mode.into())].into_iter().collect());
    client
        .create_session(&CreateSessionParams {
            channel: uri.clone(),
            meta: None,
            provider: Some(PROVIDER.to_owned()),
            // Without the trailing slash of a directory URL: the host expects a plain path.
            working_directories: Some(vec![trim_slash(directory.as_str())]),
            config,
            active_client: None,
            progress_token: None,
        })
        .await?;
    let (chat, busy) = client.subscribe_session_and_chat(&uri).await?;
    Ok(OpenedSession { uri, chat, has_running_turn: busy })
}

/// Subscribes to an existing session. A permission mode applies to this turn and later ones.
pub(crate) async fn open_session(
    client: &Client,
    events: &mut mpsc::Receiver<HostEvent>,
    uri: String,
    permission_mode: Option<&str>,
) -> Result<OpenedSession, CommandFailure> {
    let (chat, busy) = client.subscribe_session_and_chat(&uri).await?;
    if let Some(mode) = permission_mode {
        let config = [(PERMISSION_MODE_KEY.to_owned(), mode.into())].into_iter().collect();
        let action = SessionConfigChangedAction { config, replace: None };
        client.dispatch_and_confirm(events, &uri, StateAction::SessionConfigChanged(action)).await?;
    }
    Ok(OpenedSession { uri, chat, has_running_turn: busy })
}

fn trim_slash(uri: &str) -> String {
    match uri.strip_suffix('/') {
        Some(trimmed) if !trimmed.ends_with('/') => trimmed.to_owned(),
        _ => uri.to_owned(),
    }
}

/// User who answers prompts on the terminal.
pub(crate) struct InteractiveUser<'a> {
    /// Typed lines.
    pub(crate) lines: StdinLines<'a>,
    /// Editor for longer texts.
    pub(crate) editor: Option<TextEditor>,
}

/// Output while a turn is followed.
#[derive(Debug)]
pub(crate) enum TurnOutput<'a> {
    /// Envelope of the session, parsed and as sent.
    Envelope(&'a ActionEnvelope, &'a RawValue),
    /// Question for the user, answered on the same line.
    Prompt(&'a str),
}

/// Requested turn.
#[derive(Debug)]
pub(crate) struct RunningTurn<'a> {
    client: &'a Client,
    session: &'a OpenedSession,
    /// Id of the turn, or of the message while it is queued.
    id: String,
    started_at: Instant,
}

impl<'a> RunningTurn<'a> {
    /// Sends a message.
    pub(crate) async fn start(
        client: &'a Client,
        session: &'a OpenedSession,
        text: &str,
        attachments: Vec<MessageAttachment>,
        model: Option<&str>,
    ) -> Result<Self, ClientError> {
        let id = Uuid::new_v4().to_string();
        let message = Message {
            text: text.to_owned(),
            origin: MessageOrigin { kind: MessageKind::User },
            attachments: (!attachments.is_empty()).then_some(attachments),
            model: model.map(|id| ModelSelection { id: id.to_owned(), config: None }),
            agent: None,
            meta: None,
        };
        let action = if session.has_running_turn {
            let kind = PendingMessageKind::Queued;
            StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction { kind, id: id.clone(), message })
        } else {
            StateAction::ChatTurnStarted(ChatTurnStartedAction {
                turn_id: id.clone(),
                started_at: crate::time::now_rfc3339(),
                message,
                queued_message_id: None,
                meta: None,
            })
        };
        client.dispatch(&session.chat, action).await?;
        Ok(Self { client, session, id, started_at: Instant::now() })
    }

    pub(crate) fn started_at(&self) -> Instant {
        self.started_at
    }

    /// Follows the turn to its end; `show` receives every envelope of the session. If stdout is closed, the turn is
    /// cancelled and further output is dropped. Pending requests are put to the user; without one they are denied.
    pub(crate) async fn follow(
        &self,
        events: &mut mpsc::Receiver<HostEvent>,
        signals: &mut Signals,
        mut user: Option<InteractiveUser<'_>>,
        mut show: impl FnMut(TurnOutput<'_>) -> io::Result<()>,
    ) -> Result<TurnEnd, CommandFailure> {
        let prompts = user.as_ref().map(|user| PromptQueue::new(&self.id, user.editor.is_some()));
        let mut follower = TurnFollower::new(self.session, &self.id, self.client.client_id(), prompts);
        let mut is_stdout_open = true;
        // While the editor is open, the terminal belongs to it: nothing is printed or read, and Ctrl-C goes to the
        // editor.
        let mut editing: Option<BoxFuture<'_, Result<String, EditorError>>> = None;
        loop {
            let was_awaiting_line = follower.is_awaiting_line();
            let step = tokio::select! {
                // Biased, so that many events do not delay Ctrl-C.
                biased;
                signal = signals.next_stop_signal() => match signal {
                    Signal::Interrupt if editing.is_some() => FollowerStep::Wait,
                    _ => {
                        editing = None;
                        follower.handle(FollowerInput::Interrupt)
                    }
                },
                edited = wait_for_editor(&mut editing), if editing.is_some() => {
                    editing = None;
                    discard_typed_input(&mut user);
                    follower.handle(FollowerInput::Edited(edited))
                }
                event = events.recv(), if editing.is_none() => match event {
                    Some(HostEvent::Envelope { envelope, raw }) => {
                        let is_own = envelope.channel == self.session.uri || envelope.channel == self.session.chat;
                        // Envelopes of another turn are not shown while ours is queued.
                        let is_visible = is_own && (!follower.is_queued() || envelope.channel == self.session.uri);
                        let shown = if is_stdout_open && is_visible { show(TurnOutput::Envelope(&envelope, &raw)) } else { Ok(()) };
                        let step = match follower.handle(FollowerInput::Envelope(&envelope)) {
                            FollowerStep::End(TurnEnd::Rejected { reason, .. }) => {
                                FollowerStep::End(TurnEnd::Rejected { code: rejection_code(&raw), reason })
                            }
                            step => step,
                        };
                        match (shown, step) {
                            (Err(error), FollowerStep::Wait) if error.kind() == io::ErrorKind::BrokenPipe => {
                                is_stdout_open = false;
                                follower.handle(FollowerInput::StdoutClosed)
                            }
                            (Err(error), _) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
                            (_, step) => step,
                        }
                    }
                    Some(HostEvent::SessionRemoved(uri)) if uri == self.session.uri => follower.handle(FollowerInput::SessionRemoved),
                    Some(HostEvent::SessionRemoved(_)) => FollowerStep::Wait,
                    Some(HostEvent::Closed(error)) => follower.handle(FollowerInput::Closed(error.to_string())),
                    None => follower.handle(FollowerInput::Closed("The connection to the host was closed.".to_owned())),
                },
                line = next_line(&mut user), if was_awaiting_line && editing.is_none() => match line {
                    Ok(Some(line)) => follower.handle(FollowerInput::Line(&line)),
                    Ok(None) | Err(_) => follower.handle(FollowerInput::StdinClosed),
                },
            };
            match step {
                FollowerStep::Wait => {}
                FollowerStep::Cancel => self.cancel(&follower).await?,
                FollowerStep::Ask(text) => {
                    // Input from before the question is not an answer to it.
                    if !was_awaiting_line {
                        discard_typed_input(&mut user);
                    }
                    show(TurnOutput::Prompt(&text))?;
                }
                FollowerStep::Edit(text) => {
                    editing = user.as_ref().and_then(|user| user.editor.as_ref()).map(|editor| editor.edit(text));
                }
                FollowerStep::Answer(actions) => {
                    for action in actions {
                        let chat = follower.chat_for_answer(&action).to_owned();
                        self.client.dispatch(&chat, action).await?;
                    }
                }
                FollowerStep::End(end) => {
                    if was_awaiting_line {
                        show(TurnOutput::Prompt("\n"))?;
                    }
                    return Ok(end);
                }
            }
        }
    }

    async fn cancel(&self, follower: &TurnFollower) -> Result<(), ClientError> {
        let action = if follower.is_queued() {
            let (kind, id) = (PendingMessageKind::Queued, self.id.clone());
            StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction { kind, id })
        } else {
            let duration = i64::try_from(self.started_at.elapsed().as_millis()).unwrap_or(i64::MAX);
            let turn_id = follower.turn().to_owned();
            StateAction::ChatTurnCancelled(ChatTurnCancelledAction { turn_id, duration, meta: None })
        };
        self.client.dispatch(&self.session.chat, action).await.map(|_| ())
    }
}

async fn next_line(user: &mut Option<InteractiveUser<'_>>) -> io::Result<Option<String>> {
    match user {
        Some(user) => user.lines.next_line().await,
        None => Ok(None),
    }
}

fn discard_typed_input(user: &mut Option<InteractiveUser<'_>>) {
    if let Some(user) = user {
        user.lines.discard();
    }
}

/// Waits for the result of an open editor.
async fn wait_for_editor(
    editing: &mut Option<BoxFuture<'_, Result<String, EditorError>>>,
) -> Result<String, EditorError> {
    match editing {
        Some(editing) => editing.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn working_directory_is_sent_without_trailing_slash() {
        assert_eq!(super::trim_slash("file:///home/ada/"), "file:///home/ada");
        assert_eq!(super::trim_slash("file:///"), "file:///");
    }
}
