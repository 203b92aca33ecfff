//! Reads a client's messages after the handshake and carries them out, in the order of arrival per session.
//!
//! The reader waits for no session and no disk, so one busy session does not delay the others. It waits only at the
//! per-client limits, which it owns. What a method does is in `methods`.

use std::sync::Arc;

use ahp_types::commands::{FetchTurnsParams, ListSessionsParams, SubscribeResult};
use futures::{Stream, StreamExt as _};
use hostler_engine::{CreateSession, Engine, ROOT_CHANNEL_URI, SnapshotTurns, Subscriber};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::client_files::ClientFiles;
use crate::connection::{ConnectionContext, PendingAnswers};
use crate::decode;
use crate::dispatch_queue::DispatchQueue;
use crate::encode::{self, Frame};
use crate::host_requests::HostRequests;
use crate::log_channels::{self, LogSubscriptions};
use crate::methods::{self, DecodedCommand};
use crate::ordered_tasks::{MessageOrder, OrderedTasks};
use crate::protocol::{self, ChannelKind};
use crate::resources::{self, FileOpLimiter};
use crate::rpc::{self, IncomingMessage, JsonRpcId, RpcError};

/// Maximum number of one client's subscriptions that wait for chats that do not exist yet.
const MAX_EARLY_SUBSCRIPTIONS: usize = 16;

/// Maximum number of attachment plans that one client requests at a time.
const MAX_CONCURRENT_PLANS: usize = 4;

/// Maximum number of one client's concurrent requests that need a lookup.
const MAX_CONCURRENT_LOOKUPS: usize = 32;

/// Maximum number of one client's unanswered requests. A client with more is not read until it has read some answers.
/// It is larger than the number of pending host requests, so the client's answers to those are always read.
pub(crate) const MAX_UNANSWERED_REQUESTS: usize = 256;

/// Maximum number of pages of turns that are read and queued for one client, over all chats: each can be large. Those of
/// one chat follow each other.
const MAX_PENDING_TURN_PAGES: usize = 4;

/// Maximum number of chat snapshots that are read and queued for one client: each can be large.
const MAX_PENDING_SNAPSHOTS: usize = 8;

/// A request that is not answered yet, and its permit.
struct UnansweredRequest {
    id: JsonRpcId,
    permit: OwnedSemaphorePermit,
}

/// Reads one client's messages.
pub(crate) struct ConnectionReader {
    context: ConnectionContext,
    subscriber: Subscriber,
    client_id: String,
    pending_answers: PendingAnswers,
    replies: mpsc::Sender<Frame>,
    /// Queue for answers that may be large.
    large_replies: mpsc::Sender<Frame>,
    host_requests: HostRequests,
    /// The order of messages that wait.
    order: MessageOrder,
    dispatch_queue: DispatchQueue,
    /// Requests for older turns, in order per chat.
    turn_page_order: OrderedTasks,
    /// Limits subscriptions that wait for a chat.
    early_subscriptions: Arc<Semaphore>,
    /// Limits attachment plans, which carry the attachments.
    plans: Arc<Semaphore>,
    /// Limits requests that need a lookup.
    lookups: Arc<Semaphore>,
    /// Limits unanswered requests.
    unanswered: Arc<Semaphore>,
    /// Limits pages of turns that wait to be written.
    turn_pages: Arc<Semaphore>,
    /// Limits chat snapshots that wait to be written.
    snapshots: Arc<Semaphore>,
    /// Limits file operations.
    file_ops: FileOpLimiter,
    /// The client's log subscriptions, if the host offers its log.
    logs: Option<LogSubscriptions>,
}

impl ConnectionReader {
    pub(crate) fn new(
        context: ConnectionContext,
        subscriber: Subscriber,
        client_id: String,
        pending_answers: PendingAnswers,
        replies: mpsc::Sender<Frame>,
        large_replies: mpsc::Sender<Frame>,
        host_requests: HostRequests,
    ) -> Self {
        let order = MessageOrder::new(&context.tasks);
        let dispatch_queue =
            DispatchQueue::new(context.engine.clone(), order.clone(), ClientFiles(host_requests.clone()));
        let turn_page_order = OrderedTasks::new(context.tasks.clone());
        let room = |most| Arc::new(Semaphore::new(most));
        let (early_subscriptions, plans, lookups) =
            (room(MAX_EARLY_SUBSCRIPTIONS), room(MAX_CONCURRENT_PLANS), room(MAX_CONCURRENT_LOOKUPS));
        let (turn_pages, unanswered) = (room(MAX_PENDING_TURN_PAGES), room(MAX_UNANSWERED_REQUESTS));
        let snapshots = room(MAX_PENDING_SNAPSHOTS);
        let file_ops = FileOpLimiter::default();
        Self {
            context,
            subscriber,
            client_id,
            pending_answers,
            replies,
            large_replies,
            host_requests,
            order,
            dispatch_queue,
            turn_page_order,
            early_subscriptions,
            plans,
            lookups,
            unanswered,
            turn_pages,
            snapshots,
            file_ops,
            logs: None,
        }
    }

    /// Lets the client subscribe to the log.
    pub(crate) fn with_logs(mut self, logs: Option<LogSubscriptions>) -> Self {
        self.logs = logs;
        self
    }

    pub(crate) async fn run(self, mut inbound: impl Stream<Item = String> + Send + Unpin) {
        while let Some(text) = inbound.next().await {
            let size = text.len();
            let message = rpc::parse_message(&text);
            // The text can be large, and the following work can take long.
            drop(text);
            let is_open = match message {
                Ok(IncomingMessage::Request { id, method, params }) => self.handle_request(id, &method, params).await,
                Ok(IncomingMessage::Notification { method, params }) => {
                    self.handle_notification(&method, params, size).await;
                    true
                }
                Ok(IncomingMessage::Response { id, result }) => {
                    self.host_requests.complete(&id, result);
                    true
                }
                Err((id, error)) => self.reply(encode::answer(&id, Err(error))).await,
            };
            if !is_open {
                return;
            }
        }
    }

    /// `false` if the writer has ended.
    async fn reply(&self, frame: Frame) -> bool {
        self.replies.send(frame).await.is_ok()
    }

    /// Answers when the work is done, which starts after the creation of the channel's session. The work finishes even if
    /// the client disconnects.
    fn answer_in_session(
        &self,
        request: UnansweredRequest,
        channel: &str,
        work: impl Future<Output = Result<Value, RpcError>> + Send + 'static,
    ) -> bool {
        let created = self.order.creation(channel);
        self.answer_later(request, async move {
            created.await;
            work.await
        })
    }

    /// Answers when the work is done. The work finishes even if the client disconnects.
    fn answer_later(
        &self,
        request: UnansweredRequest,
        work: impl Future<Output = Result<Value, RpcError>> + Send + 'static,
    ) -> bool {
        let UnansweredRequest { id, permit } = request;
        let replies = self.replies.clone();
        self.context.tasks.spawn(async move {
            let result = work.await;
            // The client may have disconnected.
            let _ = replies.send(encode::answer(&id, result)).await;
            drop(permit);
        });
        true
    }

    /// Like `answer_later`, for lookups: limits how many run at a time.
    async fn answer_lookup(
        &self,
        request: UnansweredRequest,
        work: impl Future<Output = Result<Value, RpcError>> + Send + 'static,
    ) -> bool {
        let Ok(permit) = Arc::clone(&self.lookups).try_acquire_owned() else {
            return self.reply(encode::answer(&request.id, Err(too_many_lookups()))).await;
        };
        self.answer_later(request, async move {
            let result = work.await;
            drop(permit);
            result
        })
    }

    /// Answers with a page of the session list. Right after start the list is still being built; other requests do not
    /// wait for it.
    async fn list_sessions(&self, request: UnansweredRequest, params: ListSessionsParams) -> bool {
        let UnansweredRequest { id, permit } = request;
        let engine = self.context.engine.clone();
        let page = move |engine: &Engine| match methods::list_sessions(engine, &params) {
            Ok(page) => encode::sessions(&id, &page),
            Err(error) => encode::answer(&id, Err(error)),
        };
        if engine.is_initial_scan_complete() {
            return self.reply(page(&engine)).await;
        }
        let replies = self.replies.clone();
        self.context.tasks.spawn(async move {
            engine.wait_for_initial_scan().await;
            // The client may have disconnected.
            let _ = replies.send(page(&engine)).await;
            drop(permit);
        });
        true
    }

    async fn handle_request(&self, id: JsonRpcId, method: &str, params: Value) -> bool {
        let Ok(permit) = Arc::clone(&self.unanswered).acquire_owned().await else { return false };
        let request = UnansweredRequest { id, permit };
        let engine = self.context.engine.clone();
        match methods::decode_command(&self.client_id, &self.subscriber, method, params) {
            DecodedCommand::AnswerNow(result) => self.reply(encode::answer(&request.id, result)).await,
            DecodedCommand::ListSessions(params) => self.list_sessions(request, params).await,
            DecodedCommand::CreateSession(params) => self.create_session(request, *params),
            DecodedCommand::CreateChat(params) => {
                let channel = params.channel.clone();
                self.answer_in_session(request, &channel, async move { methods::create_chat(&engine, &params) })
            }
            DecodedCommand::Subscribe(channel, extent) => self.subscribe(request, channel, extent).await,
            DecodedCommand::FetchTurns(params) => self.fetch_turns(request.id, params).await,
            DecodedCommand::Resource(resource) => self.handle_resource_request(request.id, resource).await,
            DecodedCommand::Search(search) => {
                self.answer_later(request, async move { crate::search::search(&engine, search).await })
            }
            DecodedCommand::CheckSessions => {
                self.answer_lookup(request, async move { crate::session_check::check_sessions(&engine).await }).await
            }
            DecodedCommand::Trust(trust) => self.answer_lookup(request, trust.execute(engine)).await,
            DecodedCommand::TagSession(params) => {
                let channel = params.channel.clone();
                self.answer_in_session(request, &channel, async move {
                    engine.tag_session(&params.channel, params.tag.as_deref()).await?;
                    Ok(Value::Null)
                })
            }
            DecodedCommand::ReadAuditLog(params) => {
                let channel = params.channel.clone();
                self.answer_in_session(request, &channel, async move { methods::read_audit_log(&engine, params).await })
            }
            DecodedCommand::Authenticate(params) => {
                // Tasks can overtake each other, so the order of sign-ins is fixed here. A sequence number that is not
                // used has no effect.
                let turn = engine.next_sign_in_sequence();
                self.answer_lookup(request, async move { methods::authenticate(&engine, turn, params).await }).await
            }
            DecodedCommand::BrowserSessions(command) => {
                let own = self.context.browser_client.as_ref().map(|client| client.session_id().to_owned());
                self.answer_lookup(request, command.execute(self.context.browser_sessions.clone(), own)).await
            }
            DecodedCommand::ResolveConfig(params) => {
                self.answer_lookup(request, async move { methods::resolve_config(&engine, params).await }).await
            }
            DecodedCommand::Completions(params) => {
                let created = self.order.creation(&params.channel);
                let completions = async move {
                    created.await;
                    methods::list_completions(&engine, params).await
                };
                self.answer_lookup(request, completions).await
            }
            DecodedCommand::ConfigCompletions(params) => {
                self.answer_lookup(request, async move { methods::list_config_completions(&engine, params).await })
                    .await
            }
            DecodedCommand::StopBackgroundWork(work) => {
                let channel = work.channel.clone();
                self.answer_in_session(request, &channel, async move {
                    let stopped = engine.stop_background_work(&work.channel, &work.id).await;
                    stopped.map(|()| Value::Null).map_err(RpcError::from)
                })
            }
            DecodedCommand::ReadBackgroundOutput(work) => {
                let output = async move {
                    let end = engine.background_output(&work.channel, &work.id).await?;
                    Ok(json!({ "output": end.output, "truncated": end.truncated }))
                };
                self.answer_lookup(request, output).await
            }
            DecodedCommand::DisposeSession(session) => {
                let channel = session.clone();
                self.answer_in_session(request, &channel, async move {
                    let disposed = engine.dispose_session(&session).await;
                    disposed.map(|()| Value::Null).map_err(RpcError::from)
                })
            }
            DecodedCommand::CreateTerminal(params) => {
                let client = self.client_id.clone();
                self.answer_lookup(request, async move { methods::create_terminal(&engine, &client, params).await })
                    .await
            }
            DecodedCommand::DisposeTerminal(terminal) => self.answer_later(request, async move {
                let disposed = engine.dispose_terminal(&terminal).await;
                disposed.map(|()| Value::Null).map_err(RpcError::from)
            }),
            DecodedCommand::RemoveImages(params) => {
                let channel = params.channel.clone();
                self.answer_in_session(request, &channel, async move { methods::remove_images(&engine, params).await })
            }
            DecodedCommand::PlanAttachments(params) => match Arc::clone(&self.plans).try_acquire_owned() {
                Ok(permit) => {
                    let (files, channel) = (ClientFiles(self.host_requests.clone()), params.channel.clone());
                    self.answer_in_session(request, &channel, async move {
                        let planned = methods::plan_attachments(&engine, params, &files).await;
                        drop(permit);
                        planned
                    })
                }
                Err(_) => self.reply(encode::answer(&request.id, Err(methods::too_many_plans_error()))).await,
            },
        }
    }

    /// Carries out a file operation, or relays it to the client that owns the files.
    async fn handle_resource_request(&self, id: JsonRpcId, request: resources::Request) -> bool {
        let taken = request.owning_client().and_then(|owner| match owner {
            None => Ok((self.file_ops.acquire(&request)?, None)),
            Some(owner) => {
                let host_requests = self.context.clients.host_requests_to(&owner, &self.client_id)?;
                Ok((self.file_ops.acquire_relayed(&request)?, Some(host_requests)))
            }
        });
        let (turn, relay) = match taken {
            Ok(taken) => taken,
            Err(error) => return self.reply(encode::answer(&id, Err(error))).await,
        };
        let (engine, client, large) = (self.context.engine.clone(), self.client_id.clone(), self.large_replies.clone());
        self.context.tasks.spawn(async move {
            // The client may have disconnected.
            let answer = async |result| drop(large.send(encode::answer(&id, result)).await);
            let act = async {
                match relay {
                    None => request.execute(&engine, &client).await,
                    Some(host_requests) => request.relay(&host_requests).await,
                }
            };
            turn.run(act, answer).await;
        });
        true
    }

    /// Creates a session. Later messages of the session wait for it.
    fn create_session(&self, request: UnansweredRequest, params: CreateSession) -> bool {
        let UnansweredRequest { id, permit } = request;
        let (engine, replies, channel) = (self.context.engine.clone(), self.replies.clone(), params.uri.clone());
        // The host's configuration contains defaults of new sessions.
        let configuration = self.order.earlier_dispatches(ROOT_CHANNEL_URI);
        self.order.enqueue_creation(&channel, async move {
            configuration.await;
            let result = methods::create_session(&engine, params).await;
            // The client may have disconnected.
            let _ = replies.send(encode::answer(&id, result)).await;
            drop(permit);
        });
        true
    }

    /// Loads older turns; the answer follows them through the same queue.
    async fn fetch_turns(&self, id: JsonRpcId, params: FetchTurnsParams) -> bool {
        let Ok(permit) = Arc::clone(&self.lookups).try_acquire_owned() else {
            return self.reply(encode::answer(&id, Err(too_many_lookups()))).await;
        };
        let (engine, subscriber) = (self.context.engine.clone(), self.subscriber.clone());
        let (waiting, replies, pages) =
            (self.pending_answers.clone(), self.replies.clone(), Arc::clone(&self.turn_pages));
        let (subscribed, chat) = (self.order.earlier_subscriptions(&params.channel), params.channel.clone());
        self.turn_page_order.enqueue(&chat, async move {
            subscribed.await;
            let token = waiting.add(id, pages.acquire_owned().await.ok());
            let result = engine.fetch_turns(&params.channel, params.cursor.as_deref(), &subscriber, token).await;
            drop(permit);
            if let Err(error) = result
                && let Some(id) = waiting.take(token)
            {
                // The client may have disconnected.
                let _ = replies.send(encode::answer(&id, Err(error.into()))).await;
            }
        });
        true
    }

    /// Subscribes; the answer is the snapshot, through the delivery queue.
    async fn subscribe(&self, request: UnansweredRequest, channel: String, extent: SnapshotTurns) -> bool {
        let UnansweredRequest { id, permit } = request;
        if let Some(logs) = self.logs.as_ref().filter(|_| log_channels::is_log_channel(&channel)) {
            let is_open = self.reply(encode::success(&id, &SubscribeResult { snapshot: None })).await;
            logs.subscribe(&channel);
            return is_open;
        }
        let token = self.pending_answers.add(id, Some(permit));
        let (engine, subscriber) = (self.context.engine.clone(), self.subscriber.clone());
        let (waiting, replies) = (self.pending_answers.clone(), self.replies.clone());
        let (early, snapshots) = (Arc::clone(&self.early_subscriptions), Arc::clone(&self.snapshots));
        let key = channel.clone();
        self.order.enqueue_subscription(&key, async move {
            // The chat may not exist yet.
            let is_early = engine.is_channel_expected(&channel);
            let early = if is_early { early.try_acquire_owned().ok() } else { None };
            let result = match early {
                Some(_permit) => engine.subscribe_or_wait(&channel, extent, &subscriber, token).await,
                None => {
                    if ChannelKind::of(&channel) == Some(ChannelKind::Chat)
                        && let Ok(permit) = snapshots.acquire_owned().await
                    {
                        waiting.hold(token, permit);
                    }
                    engine.subscribe_with_turns(&channel, extent, &subscriber, token).await
                }
            };
            if let Err(error) = result
                && let Some(id) = waiting.take(token)
            {
                // The client may have disconnected.
                let _ = replies.send(encode::answer(&id, Err(error.into()))).await;
            }
        });
        true
    }

    async fn handle_notification(&self, method: &str, params: Value, size: usize) {
        match method {
            "unsubscribe" => {
                if let Some(channel) = params.get("channel").and_then(Value::as_str) {
                    self.unsubscribe(channel).await;
                }
            }
            "dispatchAction" => self.dispatch(params, size).await,
            _ => tracing::debug!(method, "ignored an unknown notification"),
        }
    }

    async fn unsubscribe(&self, channel: &str) {
        if let Some(logs) = &self.logs {
            logs.unsubscribe(channel);
        }
        let Ok(permit) = Arc::clone(&self.unanswered).acquire_owned().await else { return };
        let (engine, client, id) = (self.context.engine.clone(), self.client_id.clone(), self.subscriber.id());
        let (subscribed, dispatched) = (channel.to_owned(), self.order.earlier_dispatches(channel));
        self.order.enqueue_subscription(channel, async move {
            // One of them may have made the client active in the session.
            dispatched.await;
            engine.unsubscribe_client(&client, &subscribed, id).await;
            drop(permit);
        });
    }

    async fn dispatch(&self, params: Value, size: usize) {
        let Some((mut dispatch, name)) = decode::dispatch(params, &self.client_id) else {
            tracing::warn!("dropped a dispatch without channel, clientSeq or action");
            return;
        };
        dispatch.subscriber = Some(self.subscriber.clone());
        let Some(kind) = ChannelKind::of(&dispatch.channel) else { return };
        let refused = protocol::check_dispatch(kind, &name, &dispatch).err();
        self.dispatch_queue.enqueue(dispatch, refused, size).await;
    }
}

impl Drop for ConnectionReader {
    /// Closes the semaphores: tasks that wait for a permit resume and find the client disconnected.
    fn drop(&mut self) {
        self.turn_pages.close();
        self.snapshots.close();
    }
}

fn too_many_lookups() -> RpcError {
    RpcError::new(-32603, "too many concurrent requests; wait for some answers first")
}
