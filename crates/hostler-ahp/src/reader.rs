//! What a client says on a ready connection, in the order in which it arrives.

use std::sync::Arc;

use ahp_types::commands::{FetchTurnsParams, ListSessionsParams, SubscribeResult};
use futures::{Stream, StreamExt as _};
use hostler_engine::{Engine, Extent, Subscriber};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::connection::{Context, Waiting};
use crate::decode;
use crate::encode::{self, Frame};
use crate::files::ClientFiles;
use crate::lane::Lane;
use crate::logs::{self, Logs};
use crate::methods::{self, Command};
use crate::protocol::{self, ChannelKind};
use crate::resources::{self, Turns};
use crate::reverse::Reverse;
use crate::rpc::{self, Incoming, RequestId, RpcError};

/// How many subscriptions of one client may wait for chats that are not there yet.
const MAX_EARLY: usize = 16;

/// How many plans one client may ask for at a time.
const MAX_PLANS: usize = 4;

/// How many questions that the host has to look something up for one client may ask at a time.
const MAX_QUESTIONS: usize = 32;

/// How many requests of one client may be unanswered at a time. A client with more is not read until it takes some answers. It is
/// larger than the number of those that may wait for the client itself, so that its answers to them are always read.
pub(crate) const MAX_UNANSWERED: usize = 256;

/// How many pages of turns may wait for one client at a time: each can be large, and the next one begins where it ends.
const MAX_PAGES: usize = 1;

/// A request that is not answered yet, and its place among those.
struct Unanswered {
    id: RequestId,
    place: OwnedSemaphorePermit,
}

/// Reads one client.
pub(crate) struct Reader {
    context: Context,
    subscriber: Subscriber,
    client_id: String,
    waiting: Waiting,
    replies: mpsc::Sender<Frame>,
    /// For answers that may be large.
    large: mpsc::Sender<Frame>,
    reverse: Reverse,
    lane: Lane,
    /// For subscriptions that wait for a chat to begin.
    early: Arc<Semaphore>,
    /// For plans, which carry what they are about.
    plans: Arc<Semaphore>,
    /// For what the host has to look up.
    questions: Arc<Semaphore>,
    /// For requests that are not answered yet.
    unanswered: Arc<Semaphore>,
    /// For pages of turns that wait to be written.
    pages: Arc<Semaphore>,
    /// For what is done with files.
    turns: Turns,
    /// What the client hears of the log, if there is one.
    logs: Option<Logs>,
}

impl Reader {
    pub(crate) fn new(
        context: Context,
        subscriber: Subscriber,
        client_id: String,
        waiting: Waiting,
        replies: mpsc::Sender<Frame>,
        large: mpsc::Sender<Frame>,
        reverse: Reverse,
    ) -> Self {
        let lane = Lane::new(context.engine.clone(), context.tasks.clone(), ClientFiles(reverse.clone()));
        let room = |most| Arc::new(Semaphore::new(most));
        let (early, plans, questions) = (room(MAX_EARLY), room(MAX_PLANS), room(MAX_QUESTIONS));
        let (pages, unanswered) = (room(MAX_PAGES), room(MAX_UNANSWERED));
        let turns = Turns::default();
        Self {
            context,
            subscriber,
            client_id,
            waiting,
            replies,
            large,
            reverse,
            lane,
            early,
            plans,
            questions,
            unanswered,
            pages,
            turns,
            logs: None,
        }
    }

    /// Its client hears the log, or may hear it later.
    pub(crate) fn hearing(mut self, logs: Option<Logs>) -> Self {
        self.logs = logs;
        self
    }

    pub(crate) async fn run(self, mut inbound: impl Stream<Item = String> + Send + Unpin) {
        while let Some(text) = inbound.next().await {
            let size = text.len();
            let message = rpc::parse(&text);
            // It can be large, and what follows can take long.
            drop(text);
            let going_on = match message {
                Ok(Incoming::Request { id, method, params }) => self.request(id, &method, params).await,
                Ok(Incoming::Notification { method, params }) => {
                    self.notification(&method, params, size).await;
                    true
                }
                Ok(Incoming::Answer { id, result }) => {
                    self.reverse.answered(&id, result);
                    true
                }
                Err((id, error)) => self.reply(encode::answer(&id, Err(error))).await,
            };
            if !going_on {
                return;
            }
        }
    }

    /// `false` if the writer is gone.
    async fn reply(&self, frame: Frame) -> bool {
        self.replies.send(frame).await.is_ok()
    }

    /// Answers when the work is done, which is finished even if the client leaves.
    fn later(&self, request: Unanswered, work: impl Future<Output = Result<Value, RpcError>> + Send + 'static) -> bool {
        let Unanswered { id, place } = request;
        let replies = self.replies.clone();
        self.context.tasks.spawn(async move {
            let result = work.await;
            // The client may have left.
            let _ = replies.send(encode::answer(&id, result)).await;
            drop(place);
        });
        true
    }

    /// The same, for what the host has to look up: not too much of it at a time.
    async fn look_up(
        &self,
        request: Unanswered,
        work: impl Future<Output = Result<Value, RpcError>> + Send + 'static,
    ) -> bool {
        let Ok(place) = Arc::clone(&self.questions).try_acquire_owned() else {
            return self.reply(encode::answer(&request.id, Err(too_many_questions()))).await;
        };
        self.later(request, async move {
            let result = work.await;
            drop(place);
            result
        })
    }

    /// A page of the list. Right after the start the list is still being made: then other requests do not wait for it.
    async fn list(&self, request: Unanswered, params: ListSessionsParams) -> bool {
        let Unanswered { id, place } = request;
        let engine = self.context.engine.clone();
        let page = move |engine: &Engine| match methods::list_sessions(engine, &params) {
            Ok(page) => encode::sessions(&id, &page),
            Err(error) => encode::answer(&id, Err(error)),
        };
        if engine.are_sessions_found() {
            return self.reply(page(&engine)).await;
        }
        let replies = self.replies.clone();
        self.context.tasks.spawn(async move {
            engine.sessions_are_found().await;
            // The client may have left.
            let _ = replies.send(page(&engine)).await;
            drop(place);
        });
        true
    }

    async fn request(&self, id: RequestId, method: &str, params: Value) -> bool {
        let Ok(place) = Arc::clone(&self.unanswered).acquire_owned().await else { return false };
        let request = Unanswered { id, place };
        let engine = self.context.engine.clone();
        match methods::command(&engine, &self.client_id, &self.subscriber, method, params) {
            Command::Answer(result) => self.reply(encode::answer(&request.id, result)).await,
            Command::List(params) => self.list(request, params).await,
            Command::Subscribe(channel, extent) => self.subscribe(request, &channel, extent).await,
            Command::FetchTurns(params) => self.fetch_turns(request.id, params).await,
            Command::Resource(resource) => self.resource(request.id, resource).await,
            Command::Search(wish) => self.later(request, async move { crate::search::search(&engine, wish).await }),
            Command::SessionsDoctor => {
                self.look_up(request, async move { crate::checkup::check_up(&engine).await }).await
            }
            Command::Trust(errand) => self.look_up(request, errand.carry_out(engine)).await,
            Command::Tag(params) => self.later(request, async move {
                engine.tag_session(&params.channel, params.tag.as_deref()).await?;
                Ok(Value::Null)
            }),
            Command::Audit(params) => self.later(request, async move { methods::audit(&engine, params).await }),
            Command::SignIn(params) => {
                // Tasks overtake each other: what the client has asked for last is settled here. A turn that is taken and
                // not used counts for nothing.
                let turn = engine.sign_in_turn();
                self.look_up(request, async move { methods::sign_in(&engine, turn, params).await }).await
            }
            Command::Browsers(errand) => {
                let own = self.context.guest.as_ref().map(|guest| guest.id().to_owned());
                self.look_up(request, errand.carry_out(self.context.passes.clone(), own)).await
            }
            Command::ResolveConfig(params) => {
                self.look_up(request, async move { methods::resolve_config(&engine, params).await }).await
            }
            Command::Completions(params) => {
                self.look_up(request, async move { methods::completions(&engine, params).await }).await
            }
            Command::ConfigValues(params) => {
                self.look_up(request, async move { methods::config_values(&engine, params).await }).await
            }
            Command::StopWork(work) => self.later(request, async move {
                let stopped = engine.stop_background_work(&work.channel, &work.id).await;
                stopped.map(|()| Value::Null).map_err(RpcError::from)
            }),
            Command::WorkOutput(work) => {
                let output = async move {
                    let end = engine.background_output(&work.channel, &work.id).await?;
                    Ok(json!({ "output": end.output, "truncated": end.truncated }))
                };
                self.look_up(request, output).await
            }
            Command::Dispose(session) => self.later(request, async move {
                let disposed = engine.dispose_session(&session).await;
                disposed.map(|()| Value::Null).map_err(RpcError::from)
            }),
            Command::CreateTerminal(params) => {
                let client = self.client_id.clone();
                self.look_up(request, async move { methods::create_terminal(&engine, &client, params).await }).await
            }
            Command::DisposeTerminal(terminal) => self.later(request, async move {
                let disposed = engine.dispose_terminal(&terminal).await;
                disposed.map(|()| Value::Null).map_err(RpcError::from)
            }),
            Command::DropImages(params) => {
                self.later(request, async move { methods::drop_images(&engine, params).await })
            }
            Command::Plan(params) => match Arc::clone(&self.plans).try_acquire_owned() {
                Ok(place) => {
                    let files = ClientFiles(self.reverse.clone());
                    self.later(request, async move {
                        let planned = methods::plan_attachments(&engine, params, &files).await;
                        drop(place);
                        planned
                    })
                }
                Err(_) => self.reply(encode::answer(&request.id, Err(methods::too_many_plans()))).await,
            },
        }
    }

    /// Does something with files, or has it done by the client that has them.
    async fn resource(&self, id: RequestId, request: resources::Request) -> bool {
        let taken = request.owner().and_then(|owner| match owner {
            None => Ok((self.turns.take(&request)?, None)),
            Some(owner) => {
                let reverse = self.context.clients.reach(&owner, &self.client_id)?;
                Ok((self.turns.take_relayed(&request)?, Some(reverse)))
            }
        });
        let (turn, relay) = match taken {
            Ok(taken) => taken,
            Err(error) => return self.reply(encode::answer(&id, Err(error))).await,
        };
        let (engine, client, large) = (self.context.engine.clone(), self.client_id.clone(), self.large.clone());
        self.context.tasks.spawn(async move {
            // The client may have left.
            let answer = async |result| drop(large.send(encode::answer(&id, result)).await);
            let act = async {
                match relay {
                    None => request.carry_out(&engine, &client).await,
                    Some(reverse) => request.relay(&reverse).await,
                }
            };
            turn.run(act, answer).await;
        });
        true
    }

    /// Loads older turns; the answer follows them through the same queue.
    async fn fetch_turns(&self, id: RequestId, params: FetchTurnsParams) -> bool {
        let Ok(place) = Arc::clone(&self.questions).try_acquire_owned() else {
            return self.reply(encode::answer(&id, Err(too_many_questions()))).await;
        };
        let (engine, subscriber) = (self.context.engine.clone(), self.subscriber.clone());
        let (waiting, replies, pages) = (self.waiting.clone(), self.replies.clone(), Arc::clone(&self.pages));
        self.context.tasks.spawn(async move {
            let token = waiting.add(id, pages.acquire_owned().await.ok());
            let result = engine.fetch_turns(&params.channel, params.cursor.as_deref(), &subscriber, token).await;
            drop(place);
            if let Err(error) = result
                && let Some(id) = waiting.take(token)
            {
                // The client may have left.
                let _ = replies.send(encode::answer(&id, Err(error.into()))).await;
            }
        });
        true
    }

    async fn subscribe(&self, request: Unanswered, channel: &str, extent: Extent) -> bool {
        let Unanswered { id, place } = request;
        if let Some(logs) = self.logs.as_ref().filter(|_| logs::is_channel(channel)) {
            let going_on = self.reply(encode::success(&id, &SubscribeResult { snapshot: None })).await;
            logs.hear(channel);
            return going_on;
        }
        let token = self.waiting.add(id, Some(place));
        // What is not there yet is waited for; what the client says next is not.
        if self.context.engine.may_begin(channel)
            && let Ok(place) = Arc::clone(&self.early).try_acquire_owned()
        {
            let (engine, subscriber, channel) =
                (self.context.engine.clone(), self.subscriber.clone(), channel.to_owned());
            let (waiting, replies) = (self.waiting.clone(), self.replies.clone());
            self.context.tasks.spawn(async move {
                let result = engine.subscribe_soon(&channel, extent, &subscriber, token).await;
                drop(place);
                if let Err(error) = result
                    && let Some(id) = waiting.take(token)
                {
                    // The client may have left.
                    let _ = replies.send(encode::answer(&id, Err(error.into()))).await;
                }
            });
            return true;
        }
        let result = self.context.engine.subscribe_to(channel, extent, &self.subscriber, token).await;
        match result {
            // The answer is the snapshot, which is in the queue already.
            Ok(()) => true,
            Err(error) => match self.waiting.take(token) {
                Some(id) => self.reply(encode::answer(&id, Err(error.into()))).await,
                None => true,
            },
        }
    }

    async fn notification(&self, method: &str, params: Value, size: usize) {
        match method {
            "unsubscribe" => {
                if let Some(channel) = params.get("channel").and_then(Value::as_str) {
                    if let Some(logs) = &self.logs {
                        logs.forget(channel);
                    }
                    let (engine, id) = (&self.context.engine, self.subscriber.id());
                    engine.client_unsubscribed(&self.client_id, channel, id).await;
                }
            }
            "dispatchAction" => self.dispatch(params, size).await,
            _ => tracing::debug!(method, "an unknown notification was ignored"),
        }
    }

    async fn dispatch(&self, params: Value, size: usize) {
        let Some((mut dispatch, name)) = decode::dispatch(params, &self.client_id) else {
            tracing::warn!("a dispatch without channel, number or action was dropped");
            return;
        };
        dispatch.from = Some(self.subscriber.clone());
        let Some(kind) = ChannelKind::of(&dispatch.channel) else { return };
        let refused = protocol::check(kind, &name, &dispatch).err();
        self.lane.take(dispatch, refused, size).await;
    }
}

impl Drop for Reader {
    /// Whoever waits for a place goes on, to find that nobody is there any more.
    fn drop(&mut self) {
        self.pages.close();
    }
}

fn too_many_questions() -> RpcError {
    RpcError::new(-32603, "too many questions at a time; wait for some answers first")
}
