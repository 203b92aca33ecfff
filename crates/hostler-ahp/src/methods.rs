//! The commands: what each request does.

use std::time::Duration;

use ahp_types::commands::{
    AuthenticateParams, CompletionItemKind, CompletionsParams, CompletionsResult, CreateChatParams,
    CreateSessionParams, CreateTerminalParams, FetchTurnsParams, InitializeParams, ListSessionsParams, ReconnectParams,
    ResolveSessionConfigParams, ResolveSessionConfigResult, SessionConfigCompletionsParams,
    SessionConfigCompletionsResult, SubscribeParams,
};
use ahp_types::errors::json_rpc_error_codes;
use ahp_types::state::MessageAttachment;
use hostler_engine::{
    AuditRow, CreateSession, CreateTerminal, Engine, EngineError, ImageSelection, ProgressRequest, SearchRequest,
    SessionConfigRequest, SessionPage, SnapshotTurns, Subscriber, UpstreamSignInSequence,
};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Value, json};

use crate::client_files::ClientFiles;
use crate::protocol::commands;
use crate::protocol_version::{self, ProtocolVersion};
use crate::rpc::RpcError;
use crate::{browser_sessions, decode, resources, search, trust};

/// A command that the connection carries out, decoded.
pub(crate) enum DecodedCommand {
    /// Answer with this.
    AnswerNow(Result<Value, RpcError>),
    /// Subscribe, and answer with the snapshot.
    Subscribe(String, SnapshotTurns),
    /// Load older turns, and answer behind them.
    FetchTurns(FetchTurnsParams),
    /// Answer with a page of the list, when there is one.
    ListSessions(ListSessionsParams),
    /// Dispose of a session; this may take a moment.
    DisposeSession(String),
    /// Make a terminal; its shell is started.
    CreateTerminal(CreateTerminalParams),
    /// End a terminal and remove it; this may take a moment.
    DisposeTerminal(String),
    /// End a piece of background work; its agent is asked.
    StopBackgroundWork(BackgroundWorkParams),
    /// Show what a piece of background work has written.
    ReadBackgroundOutput(BackgroundWorkParams),
    /// Do something with files.
    Resource(resources::Request),
    /// Read a page of a session's audit log.
    ReadAuditLog(AuditParams),
    /// Look for something in all sessions.
    Search(SearchRequest),
    /// Look what is wrong with what the agents keep.
    SessionsDoctor,
    /// Say or decide whether a folder's configuration applies; the folder is read.
    Trust(trust::TrustRequest),
    /// Put a tag on a session, or take it off.
    TagSession(TagSessionParams),
    /// Take pictures out of a conversation; its agent is closed for that.
    DropImages(DropImagesParams),
    /// Say what would become of attachments, which are looked at for that.
    PlanAttachments(PlanAttachmentsParams),
    /// Take somebody's token; whoever it is for is asked whether it is good.
    Authenticate(AuthenticateRequest),
    /// Let browsers in, say which are, or sign them out.
    BrowserSessions(browser_sessions::commands::BrowserSessionRequest),
    /// Say what can be configured; git is asked.
    ResolveConfig(ResolveSessionConfigParams),
    /// Say what can be offered to somebody who is typing; the disk is looked at.
    Completions(CompletionsParams),
    /// Say which values a property can have; git is asked.
    ConfigCompletions(SessionConfigCompletionsParams),
}

/// `authenticate`, with the token where nobody prints it.
pub(crate) struct AuthenticateRequest {
    resource: String,
    /// Absent to take back what was brought.
    token: Option<SecretString>,
    expires_in: Option<Duration>,
}

impl AuthenticateRequest {
    fn parse(mut params: Value) -> Result<Self, RpcError> {
        // Whoever signs out says nothing about the time, whatever the client fills in.
        if let Value::Object(object) = &mut params
            && object.get("token").and_then(Value::as_str) == Some("")
        {
            object.remove("expiresIn");
        }
        let AuthenticateParams { resource, token, expires_in, .. } = decode::params(params)?;
        let seconds = expires_in.map(|seconds| u64::try_from(seconds).unwrap_or_default());
        if seconds == Some(0) {
            return Err(RpcError::invalid_params("expiresIn must be a positive number of seconds"));
        }
        let token = (!token.is_empty()).then(|| SecretString::from(token));
        Ok(Self { resource, token, expires_in: seconds.map(Duration::from_secs) })
    }
}

/// Takes a token, or takes it back.
pub(crate) async fn authenticate(
    engine: &Engine,
    turn: UpstreamSignInSequence,
    sign_in: AuthenticateRequest,
) -> Result<Value, RpcError> {
    let AuthenticateRequest { resource, token, expires_in: lasts } = sign_in;
    engine.authenticate(turn, &resource, token, lasts).await?;
    Ok(json!({}))
}

/// How many entries of an audit log are sent at once, unless fewer are asked for.
const MAX_AUDIT_PAGE_ENTRIES: usize = 500;

/// `hostler/audit`, which is no method of AHP: what was decided about a session's tool calls, page by page.
#[derive(serde::Deserialize)]
pub(crate) struct AuditParams {
    channel: String,
    /// The last entry that is known.
    #[serde(default)]
    after: i64,
    limit: Option<usize>,
}

/// `hostler/dropImages`, which is no method of AHP: a conversation goes on without pictures.
#[derive(serde::Deserialize)]
pub(crate) struct DropImagesParams {
    channel: String,
    #[serde(rename = "which")]
    selection: ImageSelectionParam,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
enum ImageSelectionParam {
    Last,
    All,
}

/// `hostler/planAttachments`, which is no method of AHP: what would become of attachments if a message brought them to a
/// chat now.
#[derive(serde::Deserialize)]
pub(crate) struct PlanAttachmentsParams {
    channel: String,
    attachments: Vec<MessageAttachment>,
}

/// A page; `next` goes into `after` and is missing at the end.
#[derive(Serialize)]
struct AuditPageResult {
    items: Vec<AuditRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<i64>,
}

/// What an accepted `initialize` establishes.
pub(crate) struct InitializeRequest {
    pub(crate) version: ProtocolVersion,
    pub(crate) client_id: String,
    pub(crate) subscriptions: Vec<String>,
}

/// Reads `initialize`.
pub(crate) fn parse_initialize(params: Value) -> Result<InitializeRequest, RpcError> {
    let params: InitializeParams = decode::params(params)?;
    let version = protocol_version::negotiate(&params.protocol_versions)?;
    if params.client_id.is_empty() || params.client_id.len() > 256 {
        return Err(RpcError::invalid_params("clientId must have 1 to 256 bytes"));
    }
    let subscriptions = params.initial_subscriptions.unwrap_or_default();
    Ok(InitializeRequest { version, client_id: params.client_id, subscriptions })
}

/// What a client says when it comes back.
pub(crate) struct ReconnectRequest {
    pub(crate) client_id: String,
    pub(crate) last_seen_seq: u64,
    pub(crate) subscriptions: Vec<String>,
}

/// Reads `reconnect`.
pub(crate) fn parse_reconnect(params: Value) -> Result<ReconnectRequest, RpcError> {
    let params: ReconnectParams = decode::params(params)?;
    Ok(ReconnectRequest {
        client_id: params.client_id,
        last_seen_seq: u64::try_from(params.last_seen_server_seq).unwrap_or_default(),
        subscriptions: params.subscriptions,
    })
}

/// Reads and, where it is quick, carries out a request on a ready connection.
pub(crate) fn decode_command(
    engine: &Engine,
    client_id: &str,
    subscriber: &Subscriber,
    method: &str,
    params: Value,
) -> DecodedCommand {
    // The table says what is offered; everything that it offers is below.
    if let Err(error) = commands::require_offered(method) {
        return DecodedCommand::AnswerNow(Err(error));
    }
    let result = match method {
        "ping" => Ok(Value::Null),
        "subscribe" => match parse_subscribe(params) {
            Ok((channel, extent)) => return DecodedCommand::Subscribe(channel, extent),
            Err(error) => Err(error),
        },
        "fetchTurns" => match decode::params(params) {
            Ok(params) => return DecodedCommand::FetchTurns(params),
            Err(error) => Err(error),
        },
        "createSession" => create_session(engine, client_id, subscriber, params),
        "disposeSession" => match decode::params::<ChannelParams>(params) {
            Ok(params) => return DecodedCommand::DisposeSession(params.channel),
            Err(error) => Err(error),
        },
        "createTerminal" => match decode::params(params) {
            Ok(params) => return DecodedCommand::CreateTerminal(params),
            Err(error) => Err(error),
        },
        "disposeTerminal" => match decode::params::<ChannelParams>(params) {
            Ok(params) => return DecodedCommand::DisposeTerminal(params.channel),
            Err(error) => Err(error),
        },
        // AHP shows background work and has no word for its end.
        "hostler/stopBackgroundWork" => match decode::params::<BackgroundWorkParams>(params) {
            Ok(params) => return DecodedCommand::StopBackgroundWork(params),
            Err(error) => Err(error),
        },
        "hostler/backgroundOutput" => match decode::params::<BackgroundWorkParams>(params) {
            Ok(params) => return DecodedCommand::ReadBackgroundOutput(params),
            Err(error) => Err(error),
        },
        method if resources::METHODS.contains(&method) => match resources::Request::read(method, params) {
            Ok(request) => return DecodedCommand::Resource(request),
            Err(error) => Err(error),
        },
        "hostler/audit" => match decode::params::<AuditParams>(params) {
            Ok(params) => return DecodedCommand::ReadAuditLog(params),
            Err(error) => Err(error),
        },
        // AHP has no word for finding something.
        "hostler/search" => match search::parse(params) {
            Ok(wish) => return DecodedCommand::Search(wish),
            Err(error) => Err(error),
        },
        // AHP has no word for looking after what agents keep.
        "hostler/sessionsDoctor" => return DecodedCommand::SessionsDoctor,
        // AHP has no word for what folders bring.
        method if trust::TRUST_METHODS.contains(&method) => match trust::TrustRequest::parse(method, params) {
            Ok(request) => return DecodedCommand::Trust(request),
            Err(error) => Err(error),
        },
        "hostler/tagSession" => match decode::params::<TagSessionParams>(params) {
            Ok(params) => return DecodedCommand::TagSession(params),
            Err(error) => Err(error),
        },
        "createChat" => create_chat(engine, params),
        // AHP has no word for forgetting.
        "hostler/dropImages" => match decode::params::<DropImagesParams>(params) {
            Ok(params) => return DecodedCommand::DropImages(params),
            Err(error) => Err(error),
        },
        // AHP has no word for looking before sending.
        "hostler/planAttachments" => match decode::params::<PlanAttachmentsParams>(params) {
            Ok(params) => return DecodedCommand::PlanAttachments(params),
            Err(error) => Err(error),
        },
        "listSessions" => match decode::params(params) {
            Ok(params) => return DecodedCommand::ListSessions(params),
            Err(error) => Err(error),
        },
        "authenticate" => match AuthenticateRequest::parse(params) {
            Ok(sign_in) => return DecodedCommand::Authenticate(sign_in),
            Err(error) => Err(error),
        },
        "resolveSessionConfig" => match decode::params(params) {
            Ok(params) => return DecodedCommand::ResolveConfig(params),
            Err(error) => Err(error),
        },
        "completions" => match decode::params(params) {
            Ok(params) => return DecodedCommand::Completions(params),
            Err(error) => Err(error),
        },
        "sessionConfigCompletions" => match decode::params(params) {
            Ok(params) => return DecodedCommand::ConfigCompletions(params),
            Err(error) => Err(error),
        },
        // AHP has no word for browsers that have no token.
        method if browser_sessions::commands::BROWSER_SESSION_METHODS.contains(&method) => {
            match browser_sessions::commands::BrowserSessionRequest::parse(method, params) {
                Ok(errand) => return DecodedCommand::BrowserSessions(errand),
                Err(error) => Err(error),
            }
        }
        "initialize" | "reconnect" => Err(RpcError::new(-32601, "the connection is initialized already")),
        _ => Err(RpcError::unknown_method(method)),
    };
    DecodedCommand::AnswerNow(result)
}

/// The channel that a client wants to hear, and how much of it its snapshot is to hold.
fn parse_subscribe(params: Value) -> Result<(String, SnapshotTurns), RpcError> {
    let params: SubscribeParams = decode::params(params)?;
    let extent = match params.view.and_then(|view| view.turns) {
        None => SnapshotTurns::All,
        Some(turns) => match usize::try_from(turns) {
            Ok(turns) => SnapshotTurns::Last(turns),
            Err(_) => return Err(RpcError::invalid_params("view.turns cannot be negative")),
        },
    };
    Ok((params.channel, extent))
}

#[derive(serde::Deserialize)]
struct ChannelParams {
    channel: String,
}

/// A session's tag: none takes it off, but has to be said.
#[derive(serde::Deserialize)]
pub(crate) struct TagSessionParams {
    pub(crate) channel: String,
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) tag: Option<String>,
}

/// One piece of a chat's background work.
#[derive(serde::Deserialize)]
pub(crate) struct BackgroundWorkParams {
    pub(crate) channel: String,
    pub(crate) id: String,
}

fn create_session(engine: &Engine, client_id: &str, subscriber: &Subscriber, params: Value) -> Result<Value, RpcError> {
    if params.get("fork").is_some_and(|fork| !fork.is_null()) {
        let sentence = "a session cannot be forked on creation; fork a chat with createChat where it is offered";
        return Err(RpcError::invalid_params(sentence));
    }
    let params: CreateSessionParams = decode::params(params)?;
    if params.active_client.as_ref().is_some_and(|active| active.client_id != client_id) {
        return Err(RpcError::invalid_params("activeClient is not the client that asks"));
    }
    engine.create_session(CreateSession {
        uri: params.channel,
        provider: params.provider,
        working_directories: params.working_directories.unwrap_or_default(),
        config: params.config,
        active_client: params.active_client,
        progress: params.progress_token.map(|token| ProgressRequest { token, subscriber: subscriber.clone() }),
    })?;
    Ok(Value::Null)
}

/// Makes a terminal.
pub(crate) async fn create_terminal(
    engine: &Engine,
    client_id: &str,
    params: CreateTerminalParams,
) -> Result<Value, RpcError> {
    let CreateTerminalParams { channel: uri, claim, name, cwd: directory, cols, rows, .. } = params;
    engine.create_terminal(client_id, CreateTerminal { uri, claim, name, directory, cols, rows }).await?;
    Ok(Value::Null)
}

/// Every session has its default chat from the beginning, so naming that one is a success without an effect.
fn create_chat(engine: &Engine, params: Value) -> Result<Value, RpcError> {
    let params: CreateChatParams = decode::params(params)?;
    if !engine.has_session(&params.channel) {
        return Err(EngineError::SessionNotFound(params.channel).into());
    }
    if params.chat != hostler_engine::default_chat_uri(&params.channel) {
        return Err(RpcError::invalid_params("this host does not offer several chats in a session"));
    }
    if params.initial_message.is_some() || params.source.is_some() {
        return Err(RpcError::invalid_params("the default chat is there already; send it the message as a turn"));
    }
    Ok(Value::Null)
}

/// A page of the list.
pub(crate) fn list_sessions(engine: &Engine, params: &ListSessionsParams) -> Result<SessionPage, RpcError> {
    let too_small = || RpcError::invalid_params("the limit must be at least 1");
    let limit = params.limit.map(|limit| usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(too_small));
    Ok(engine.list_sessions(limit.transpose()?, params.cursor.as_deref())?)
}

/// What can be configured for a session, with defaults filled in.
pub(crate) async fn resolve_config(engine: &Engine, params: ResolveSessionConfigParams) -> Result<Value, RpcError> {
    let ResolveSessionConfigParams { provider, working_directory: directory, config, .. } = params;
    let wish = SessionConfigRequest { provider, directory, values: config.unwrap_or_default() };
    let config = engine.resolve_config(&wish).await?;
    to_result(&ResolveSessionConfigResult { schema: config.schema, values: config.values })
}

/// What can be offered to somebody who is typing.
pub(crate) async fn list_completions(engine: &Engine, params: CompletionsParams) -> Result<Value, RpcError> {
    let items = match params.kind {
        CompletionItemKind::UserMessage => engine.completions(&params.channel, &params.text, params.offset).await?,
        // What a newer client completes there is nothing for yet.
        CompletionItemKind::Unknown(_) => Vec::new(),
    };
    to_result(&CompletionsResult { items })
}

/// The values of a property that fit a search.
pub(crate) async fn list_config_completions(
    engine: &Engine,
    params: SessionConfigCompletionsParams,
) -> Result<Value, RpcError> {
    let SessionConfigCompletionsParams { provider, working_directory: directory, config, property, query, .. } = params;
    let wish = SessionConfigRequest { provider, directory, values: config.unwrap_or_default() };
    let items = engine.config_values(&wish, &property, &query.unwrap_or_default()).await?;
    to_result(&SessionConfigCompletionsResult { items })
}

/// Takes pictures out of a conversation.
pub(crate) async fn drop_images(engine: &Engine, params: DropImagesParams) -> Result<Value, RpcError> {
    let which = match params.selection {
        ImageSelectionParam::Last => ImageSelection::Last,
        ImageSelectionParam::All => ImageSelection::All,
    };
    let dropped = engine.drop_images(&params.channel, which).await?;
    Ok(json!({ "dropped": dropped }))
}

/// Says what would become of attachments.
pub(crate) async fn plan_attachments(
    engine: &Engine,
    params: PlanAttachmentsParams,
    files: &ClientFiles,
) -> Result<Value, RpcError> {
    to_result(&engine.plan_attachments(&params.channel, params.attachments, files).await?)
}

/// A client asks for more plans than it may have at a time.
pub(crate) fn too_many_plans_error() -> RpcError {
    RpcError::new(json_rpc_error_codes::INTERNAL_ERROR, "too many plans are being made for this client; try again")
}

/// Reads a page of a session's audit log.
pub(crate) async fn read_audit_log(engine: &Engine, params: AuditParams) -> Result<Value, RpcError> {
    let limit = params.limit.unwrap_or(MAX_AUDIT_PAGE_ENTRIES).clamp(1, MAX_AUDIT_PAGE_ENTRIES);
    let items = engine.audit(&params.channel, params.after, limit).await?;
    let next = if items.len() < limit { None } else { items.last().map(|row| row.id) };
    to_result(&AuditPageResult { items, next })
}

pub(crate) fn to_result(result: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(result)
        .map_err(|error| RpcError::new(-32603, format!("the answer cannot be encoded: {error}")))
}
