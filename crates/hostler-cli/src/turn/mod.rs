//! One turn, seen from a client: start it, follow it to its end, show it.

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

use crate::client::{Client, ClientError, HostEvent};
use crate::exit::{CommandFailure, Exit};
use crate::signals::{Signal, Signals};

pub(crate) use editor::TextEditor;
pub(crate) use follower::{FollowerInput, FollowerStep, TurnEnd, TurnFollower};
pub(crate) use prompts::PromptQueue;
pub(crate) use renderer::{TurnRenderer, tool_error_text, turn_end_result};
pub(crate) use stdin_lines::StdinLines;

/// The provider of new sessions; its id is the scheme of their URIs.
pub(crate) const PROVIDER: &str = "claude";
/// The configuration key that sessions keep the permission mode under.
const PERMISSION_MODE_KEY: &str = "permissionMode";

/// A session and the chat that its messages go to.
#[derive(Debug, Clone)]
pub(crate) struct OpenedSession {
    pub(crate) uri: String,
    pub(crate) chat: String,
    /// A turn was running when we came: our message waits behind it.
    pub(crate) has_running_turn: bool,
}

/// Creates a session in a directory and subscribes to it.
pub(crate) async fn create_session(
    client: &Client,
    directory: &Path,
    permission_mode: Option<&str>,
) -> Result<OpenedSession, CommandFailure> {
    let directory = url::Url::from_directory_path(directory)
        .map_err(|()| CommandFailure::new(Exit::Usage, format!("{} is not an absolute path.", directory.display())))?;
    let uri = format!("{PROVIDER}:/{}", Uuid::new_v4());
    let config = permission_mode.map(|mode| [(PERMISSION_MODE_KEY.to_owned(), mode.into())].into_iter().collect());
    client
        .create_session(&CreateSessionParams {
            channel: uri.clone(),
            meta: None,
            provider: Some(PROVIDER.to_owned()),
            // Without the slash that tells a directory from a file: it is a plain path to the host.
            working_directories: Some(vec![trim_slash(directory.as_str())]),
            config,
            active_client: None,
            progress_token: None,
        })
        .await?;
    let (chat, busy) = client.subscribe_session_and_chat(&uri).await?;
    Ok(OpenedSession { uri, chat, has_running_turn: busy })
}

/// Subscribes to a session that is there. A permission mode changes it for this turn and those after.
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

/// Who is asked what waits for a person.
pub(crate) struct InteractiveUser<'a> {
    /// What they type.
    pub(crate) lines: StdinLines<'a>,
    /// Where they change longer texts.
    pub(crate) editor: Option<TextEditor>,
}

/// Something to show while a turn is followed.
#[derive(Debug)]
pub(crate) enum TurnOutput<'a> {
    /// An envelope of the session, and how the host wrote it.
    Envelope(&'a ActionEnvelope, &'a RawValue),
    /// A question to our person, to be answered on the same line.
    Prompt(&'a str),
}

/// A turn that was asked for.
#[derive(Debug)]
pub(crate) struct RunningTurn<'a> {
    client: &'a Client,
    session: &'a OpenedSession,
    /// The turn's id, or the message's where it waits for a turn.
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

    /// Follows the turn to its end; `show` sees every envelope of the session. If nobody reads what is shown, the turn
    /// is cancelled and the rest stays unseen. What waits for a person is asked of this one; without one it is refused.
    pub(crate) async fn follow(
        &self,
        events: &mut mpsc::Receiver<HostEvent>,
        signals: &mut Signals,
        mut person: Option<InteractiveUser<'_>>,
        mut show: impl FnMut(TurnOutput<'_>) -> io::Result<()>,
    ) -> Result<TurnEnd, CommandFailure> {
        let asker = person.as_ref().map(|person| PromptQueue::new(&self.id, person.editor.is_some()));
        let mut follower = TurnFollower::new(self.session, &self.id, self.client.client_id(), asker);
        let mut read = true;
        // While it is open the terminal is the editor's: nothing is shown or read, and Ctrl-C is meant for it.
        let mut editing: Option<BoxFuture<'_, Result<String, String>>> = None;
        loop {
            let listened = follower.is_awaiting_line();
            let step = tokio::select! {
                // A flood of events does not drown Ctrl-C.
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
                    discard_typed_input(&mut person);
                    follower.handle(FollowerInput::Edited(edited))
                }
                event = events.recv(), if editing.is_none() => match event {
                    Some(HostEvent::Envelope { envelope, raw }) => {
                        let mine = envelope.channel == self.session.uri || envelope.channel == self.session.chat;
                        // What another turn says while ours waits is none of our business.
                        let mine = mine && (!follower.is_queued() || envelope.channel == self.session.uri);
                        let shown = if read && mine { show(TurnOutput::Envelope(&envelope, &raw)) } else { Ok(()) };
                        let step = follower.handle(FollowerInput::Envelope(&envelope));
                        match (shown, step) {
                            (Err(error), FollowerStep::Wait) if error.kind() == io::ErrorKind::BrokenPipe => {
                                read = false;
                                follower.handle(FollowerInput::StdoutClosed)
                            }
                            (Err(error), _) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
                            (_, step) => step,
                        }
                    }
                    Some(HostEvent::SessionRemoved(uri)) if uri == self.session.uri => follower.handle(FollowerInput::SessionRemoved),
                    Some(HostEvent::SessionRemoved(_)) => FollowerStep::Wait,
                    Some(HostEvent::Closed(error)) => follower.handle(FollowerInput::Closed(error.to_string())),
                    None => follower.handle(FollowerInput::Closed("The connection to the host ended.".to_owned())),
                },
                line = next_line(&mut person), if listened && editing.is_none() => match line {
                    Ok(Some(line)) => follower.handle(FollowerInput::Line(&line)),
                    Ok(None) | Err(_) => follower.handle(FollowerInput::StdinClosed),
                },
            };
            match step {
                FollowerStep::Wait => {}
                FollowerStep::Cancel => self.cancel(&follower).await?,
                FollowerStep::Ask(text) => {
                    // What was typed before the question is no answer to it.
                    if !listened {
                        discard_typed_input(&mut person);
                    }
                    show(TurnOutput::Prompt(&text))?;
                }
                FollowerStep::Edit(text) => {
                    editing = person.as_ref().and_then(|person| person.editor.as_ref()).map(|editor| editor.edit(text));
                }
                FollowerStep::Answer(actions) => {
                    for action in actions {
                        let chat = follower.chat_for_answer(&action).to_owned();
                        self.client.dispatch(&chat, action).await?;
                    }
                }
                FollowerStep::End(end) => {
                    if listened {
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

async fn next_line(person: &mut Option<InteractiveUser<'_>>) -> io::Result<Option<String>> {
    match person {
        Some(person) => person.lines.next_line().await,
        None => Ok(None),
    }
}

fn discard_typed_input(person: &mut Option<InteractiveUser<'_>>) {
    if let Some(person) = person {
        person.lines.discard();
    }
}

/// What an open editor leaves.
async fn wait_for_editor(editing: &mut Option<BoxFuture<'_, Result<String, String>>>) -> Result<String, String> {
    match editing {
        Some(editing) => editing.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_is_named_like_a_path() {
        assert_eq!(super::trim_slash("file:///home/ada/"), "file:///home/ada");
        assert_eq!(super::trim_slash("file:///"), "file:///");
    }
}
