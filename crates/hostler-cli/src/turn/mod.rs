//! One turn, seen from a client: start it, follow it to its end, show it.

mod ask;
mod editor;
mod follow;
mod lines;
mod render;
mod workers;

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

use crate::client::{Client, ClientError, Event};
use crate::exit::{Exit, Failure};
use crate::signals::{Signal, Signals};

pub(crate) use ask::Asker;
pub(crate) use editor::Editor;
pub(crate) use follow::{Follower, Input, Step, TurnEnd};
pub(crate) use lines::Lines;
pub(crate) use render::{Renderer, explain, failure_text};

/// The provider of new sessions; its id is the scheme of their URIs.
pub(crate) const PROVIDER: &str = "claude";
/// The configuration key that sessions keep the permission mode under.
const PERMISSION_MODE: &str = "permissionMode";

/// A session and the chat that its messages go to.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) uri: String,
    pub(crate) chat: String,
    /// A turn was running when we came: our message waits behind it.
    pub(crate) busy: bool,
}

/// Creates a session in a directory and subscribes to it.
pub(crate) async fn create_session(
    client: &Client,
    directory: &Path,
    permission_mode: Option<&str>,
) -> Result<Session, Failure> {
    let directory = url::Url::from_directory_path(directory)
        .map_err(|()| Failure::new(Exit::Usage, format!("{} is not an absolute path.", directory.display())))?;
    let uri = format!("{PROVIDER}:/{}", Uuid::new_v4());
    let config = permission_mode.map(|mode| [(PERMISSION_MODE.to_owned(), mode.into())].into_iter().collect());
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
    let (chat, busy) = client.subscribe_session(&uri).await?;
    Ok(Session { uri, chat, busy })
}

/// Subscribes to a session that is there. A permission mode changes it for this turn and those after.
pub(crate) async fn open_session(
    client: &Client,
    events: &mut mpsc::Receiver<Event>,
    uri: String,
    permission_mode: Option<&str>,
) -> Result<Session, Failure> {
    let (chat, busy) = client.subscribe_session(&uri).await?;
    if let Some(mode) = permission_mode {
        let config = [(PERMISSION_MODE.to_owned(), mode.into())].into_iter().collect();
        let action = SessionConfigChangedAction { config, replace: None };
        client.settle(events, &uri, StateAction::SessionConfigChanged(action)).await?;
    }
    Ok(Session { uri, chat, busy })
}

fn trim_slash(uri: &str) -> String {
    match uri.strip_suffix('/') {
        Some(trimmed) if !trimmed.ends_with('/') => trimmed.to_owned(),
        _ => uri.to_owned(),
    }
}

/// Who is asked what waits for a person.
pub(crate) struct Person<'a> {
    /// What they type.
    pub(crate) lines: Lines<'a>,
    /// Where they change longer texts.
    pub(crate) editor: Option<Editor>,
}

/// Something to show while a turn is followed.
#[derive(Debug)]
pub(crate) enum Shown<'a> {
    /// An envelope of the session, and how the host wrote it.
    Envelope(&'a ActionEnvelope, &'a RawValue),
    /// A question to our person, to be answered on the same line.
    Prompt(&'a str),
}

/// A turn that was asked for.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    client: &'a Client,
    session: &'a Session,
    /// The turn's id, or the message's where it waits for a turn.
    id: String,
    started: Instant,
}

impl<'a> Turn<'a> {
    /// Sends a message.
    pub(crate) async fn start(
        client: &'a Client,
        session: &'a Session,
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
        let action = if session.busy {
            let kind = PendingMessageKind::Queued;
            StateAction::ChatPendingMessageSet(ChatPendingMessageSetAction { kind, id: id.clone(), message })
        } else {
            StateAction::ChatTurnStarted(ChatTurnStartedAction {
                turn_id: id.clone(),
                started_at: crate::time::now(),
                message,
                queued_message_id: None,
                meta: None,
            })
        };
        client.dispatch(&session.chat, action).await?;
        Ok(Self { client, session, id, started: Instant::now() })
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Follows the turn to its end; `show` sees every envelope of the session. If nobody reads what is shown, the turn
    /// is cancelled and the rest stays unseen. What waits for a person is asked of this one; without one it is refused.
    pub(crate) async fn follow(
        &self,
        events: &mut mpsc::Receiver<Event>,
        signals: &mut Signals,
        mut person: Option<Person<'_>>,
        mut show: impl FnMut(Shown<'_>) -> io::Result<()>,
    ) -> Result<TurnEnd, Failure> {
        let asker = person.as_ref().map(|person| Asker::new(&self.id, person.editor.is_some()));
        let mut follower = Follower::new(self.session, &self.id, self.client.id(), asker);
        let mut read = true;
        // While it is open the terminal is the editor's: nothing is shown or read, and Ctrl-C is meant for it.
        let mut editing: Option<BoxFuture<'_, Result<String, String>>> = None;
        loop {
            let listened = follower.listens();
            let step = tokio::select! {
                // A flood of events does not drown Ctrl-C.
                biased;
                signal = signals.next() => match signal {
                    Signal::Interrupt if editing.is_some() => Step::Wait,
                    _ => {
                        editing = None;
                        follower.on(Input::Interrupt)
                    }
                },
                edited = closed(&mut editing), if editing.is_some() => {
                    editing = None;
                    forget_typed(&mut person);
                    follower.on(Input::Edited(edited))
                }
                event = events.recv(), if editing.is_none() => match event {
                    Some(Event::Envelope { envelope, raw }) => {
                        let mine = envelope.channel == self.session.uri || envelope.channel == self.session.chat;
                        // What another turn says while ours waits is none of our business.
                        let mine = mine && (!follower.waits() || envelope.channel == self.session.uri);
                        let shown = if read && mine { show(Shown::Envelope(&envelope, &raw)) } else { Ok(()) };
                        let step = follower.on(Input::Envelope(&envelope));
                        match (shown, step) {
                            (Err(error), Step::Wait) if error.kind() == io::ErrorKind::BrokenPipe => {
                                read = false;
                                follower.on(Input::ReaderGone)
                            }
                            (Err(error), _) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
                            (_, step) => step,
                        }
                    }
                    Some(Event::SessionRemoved(uri)) if uri == self.session.uri => follower.on(Input::SessionRemoved),
                    Some(Event::SessionRemoved(_)) => Step::Wait,
                    Some(Event::Closed(error)) => follower.on(Input::Closed(error.to_string())),
                    None => follower.on(Input::Closed("The connection to the host ended.".to_owned())),
                },
                line = next_line(&mut person), if listened && editing.is_none() => match line {
                    Ok(Some(line)) => follower.on(Input::Line(&line)),
                    Ok(None) | Err(_) => follower.on(Input::NobodyThere),
                },
            };
            match step {
                Step::Wait => {}
                Step::Cancel => self.cancel(&follower).await?,
                Step::Ask(text) => {
                    // What was typed before the question is no answer to it.
                    if !listened {
                        forget_typed(&mut person);
                    }
                    show(Shown::Prompt(&text))?;
                }
                Step::Edit(text) => {
                    editing = person.as_ref().and_then(|person| person.editor.as_ref()).map(|editor| editor.edit(text));
                }
                Step::Answer(actions) => {
                    for action in actions {
                        let chat = follower.chat_of(&action).to_owned();
                        self.client.dispatch(&chat, action).await?;
                    }
                }
                Step::End(end) => {
                    if listened {
                        show(Shown::Prompt("\n"))?;
                    }
                    return Ok(end);
                }
            }
        }
    }

    async fn cancel(&self, follower: &Follower) -> Result<(), ClientError> {
        let action = if follower.waits() {
            let (kind, id) = (PendingMessageKind::Queued, self.id.clone());
            StateAction::ChatPendingMessageRemoved(ChatPendingMessageRemovedAction { kind, id })
        } else {
            let duration = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
            let turn_id = follower.turn().to_owned();
            StateAction::ChatTurnCancelled(ChatTurnCancelledAction { turn_id, duration, meta: None })
        };
        self.client.dispatch(&self.session.chat, action).await.map(|_| ())
    }
}

async fn next_line(person: &mut Option<Person<'_>>) -> io::Result<Option<String>> {
    match person {
        Some(person) => person.lines.next().await,
        None => Ok(None),
    }
}

fn forget_typed(person: &mut Option<Person<'_>>) {
    if let Some(person) = person {
        person.lines.forget();
    }
}

/// What an open editor leaves.
async fn closed(editing: &mut Option<BoxFuture<'_, Result<String, String>>>) -> Result<String, String> {
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
