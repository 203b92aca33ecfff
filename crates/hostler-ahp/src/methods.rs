//! The commands: decodes each request of a ready connection to a [`DecodedCommand`], which `connection_reader` carries out
//! with the functions of this module.

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
use crate::protocol::{commands, deprecated};
use crate::protocol_version::{self, ProtocolVersion};
use crate::rpc::RpcError;
use crate::{browser_sessions, decode, resources, search, trust};

/// A decoded command, to be carried out by the connection.
pub(crate) enum DecodedCommand {
    /// Answer with this result.
    AnswerNow(Result<Value, RpcError>),
    /// Create a session, which checks its directories on the disk.
    CreateSession(Box<CreateSession>),
    /// Create a chat of a session.
    CreateChat(CreateChatParams),
    /// Subscribe and answer with the snapshot.
    Subscribe(String, SnapshotTurns),
    /// Load older turns and answer after them.
    FetchTurns(FetchTurnsParams),
    /// Answer with a page of the session list as soon as the list is built.
    ListSessions(ListSessionsParams),
    /// Dispose a session, which can take a moment.
    DisposeSession(String),
    /// Create a terminal and start its shell.
    CreateTerminal(CreateTerminalParams),
    /// End a terminal and remove it, which can take a moment.
    DisposeTerminal(String),
    /// Stop background work, through its agent.
    StopBackgroundWork(BackgroundWorkParams),
    /// Read the output of background work.
    ReadBackgroundOutput(BackgroundWorkParams),
    /// Carry out a file operation.
    Resource(resources::Request),
    /// Read a page of a session's audit log.
    ReadAuditLog(AuditParams),
    /// Search all sessions.
    Search(SearchRequest),
    /// Check the agents' transcripts for problems.
    CheckSessions,
    /// List, check or change workspace trust; reads the folder.
    Trust(trust::TrustRequest),
    /// Set or remove a session's tag.
    TagSession(TagSessionParams),
    /// Remove images from a conversation; closes its agent.
    RemoveImages(RemoveImagesParams),
    /// Plan attachments, which reads them.
    PlanAttachments(PlanAttachmentsParams),
    /// Store or remove a sign-in; the provider verifies the token.
    Authenticate(AuthenticateRequest),
    /// Create sign-in links, list browser sessions, or sign them out.
    BrowserSessions(browser_sessions::commands::BrowserSessionRequest),
    /// Resolve a session's configuration; runs git.
    ResolveConfig(ResolveSessionConfigParams),
    /// Complete input; reads the disk.
    Completions(CompletionsParams),
    /// Complete a configuration value; runs git.
    ConfigCompletions(SessionConfigCompletionsParams),
}

/// `authenticate`, with the token redacted in debug output.
pub(crate) struct AuthenticateRequest {
    resource: String,
    /// Absent to remove the token.
    token: Option<SecretString>,
    expires_in: Option<Duration>,
}

impl AuthenticateRequest {
    fn parse(mut params: Value) -> Result<Self, RpcError> {
        // Signing out ignores the expiry, whatever the client fills in.
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

/// Stores a token, or removes it.
pub(crate) async fn authenticate(
    engine: &Engine,
    turn: UpstreamSignInSequence,
    sign_in: AuthenticateRequest,
) -> Result<Value, RpcError> {
    let AuthenticateRequest { resource, token, expires_in: lasts } = sign_in;
    engine.authenticate(turn, &resource, token, lasts).await?;
    Ok(json!({}))
}

/// Maximum number of audit entries per page; clients can request fewer.
const MAX_AUDIT_PAGE_ENTRIES: usize = 500;

/// `hostler/listAudit`, an extension: the decisions on a session's tool calls, page by page.
#[derive(serde::Deserialize)]
pub(crate) struct AuditParams {
    pub(crate) channel: String,
    /// The last entry that the client has.
    #[serde(default)]
    after: i64,
    limit: Option<usize>,
}

/// `hostler/removeImages`, an extension: removes images from a conversation.
#[derive(serde::Deserialize)]
pub(crate) struct RemoveImagesParams {
    pub(crate) channel: String,
    images: ImageSelectionParam,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
enum ImageSelectionParam {
    Last,
    All,
}

/// `hostler/planAttachments`, an extension: what would happen to attachments if a message carried them to a chat now.
#[derive(serde::Deserialize)]
pub(crate) struct PlanAttachmentsParams {
    pub(crate) channel: String,
    attachments: Vec<MessageAttachment>,
}

/// A page; the client passes `next` as `after`, and it is absent at the end.
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

/// Parses `initialize`.
pub(crate) fn parse_initialize(params: Value) -> Result<InitializeRequest, RpcError> {
    let params: InitializeParams = decode::params(params)?;
    let version = protocol_version::negotiate(&params.protocol_versions)?;
    if params.client_id.is_empty() || params.client_id.len() > 256 {
        return Err(RpcError::invalid_params("clientId must have 1 to 256 bytes"));
    }
    let subscriptions = params.initial_subscriptions.unwrap_or_default();
    Ok(InitializeRequest { version, client_id: params.client_id, subscriptions })
}

/// Parameters of `reconnect`.
pub(crate) struct ReconnectRequest {
    pub(crate) client_id: String,
    pub(crate) last_seen_seq: u64,
    pub(crate) subscriptions: Vec<String>,
}

/// Parses `reconnect`.
pub(crate) fn parse_reconnect(params: Value) -> Result<ReconnectRequest, RpcError> {
    let params: ReconnectParams = decode::params(params)?;
    Ok(ReconnectRequest {
        client_id: params.client_id,
        last_seen_seq: u64::try_from(params.last_seen_server_seq).unwrap_or_default(),
        subscriptions: params.subscriptions,
    })
}

/// Decodes a request on a ready connection.
pub(crate) fn decode_command(
    client_id: &str,
    subscriber: &Subscriber,
    method: &str,
    mut params: Value,
) -> DecodedCommand {
    let method = deprecated::current_method(method);
    deprecated::rename_params(method, &mut params);
    // The table lists the offered commands; every one of them has an arm below.
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
        "createSession" => match parse_create_session(client_id, subscriber, params) {
            Ok(request) => return DecodedCommand::CreateSession(Box::new(request)),
            Err(error) => Err(error),
        },
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
        // Extension: AHP shows background work but cannot stop it.
        "hostler/stopBackgroundWork" => match decode::params::<BackgroundWorkParams>(params) {
            Ok(params) => return DecodedCommand::StopBackgroundWork(params),
            Err(error) => Err(error),
        },
        "hostler/readBackgroundOutput" => match decode::params::<BackgroundWorkParams>(params) {
            Ok(params) => return DecodedCommand::ReadBackgroundOutput(params),
            Err(error) => Err(error),
        },
        method if resources::METHODS.contains(&method) => match resources::Request::read(method, params) {
            Ok(request) => return DecodedCommand::Resource(request),
            Err(error) => Err(error),
        },
        "hostler/listAudit" => match decode::params::<AuditParams>(params) {
            Ok(params) => return DecodedCommand::ReadAuditLog(params),
            Err(error) => Err(error),
        },
        // Extension: AHP has no search.
        "hostler/search" => match search::parse(params) {
            Ok(request) => return DecodedCommand::Search(request),
            Err(error) => Err(error),
        },
        // Extension: AHP has no check of transcripts.
        "hostler/checkSessions" => return DecodedCommand::CheckSessions,
        // Extension: AHP has no workspace trust.
        method if trust::TRUST_METHODS.contains(&method) => match trust::TrustRequest::parse(method, params) {
            Ok(request) => return DecodedCommand::Trust(request),
            Err(error) => Err(error),
        },
        "hostler/tagSession" => match decode::params::<TagSessionParams>(params) {
            Ok(params) => return DecodedCommand::TagSession(params),
            Err(error) => Err(error),
        },
        "createChat" => match decode::params(params) {
            Ok(params) => return DecodedCommand::CreateChat(params),
            Err(error) => Err(error),
        },
        // Extension: AHP cannot remove images from a conversation.
        "hostler/removeImages" => match decode::params::<RemoveImagesParams>(params) {
            Ok(params) => return DecodedCommand::RemoveImages(params),
            Err(error) => Err(error),
        },
        // Extension: AHP cannot plan attachments.
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
        // Extension: AHP has no browser sessions.
        method if browser_sessions::commands::BROWSER_SESSION_METHODS.contains(&method) => {
            match browser_sessions::commands::BrowserSessionRequest::parse(method, params) {
                Ok(request) => return DecodedCommand::BrowserSessions(request),
                Err(error) => Err(error),
            }
        }
        "initialize" | "reconnect" => Err(RpcError::new(-32601, "the connection is initialized already")),
        _ => Err(RpcError::unknown_method(method)),
    };
    DecodedCommand::AnswerNow(result)
}

/// The channel to subscribe to, and the extent of its snapshot.
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

/// A session's tag: null removes it, and the member is required.
#[derive(serde::Deserialize)]
pub(crate) struct TagSessionParams {
    pub(crate) channel: String,
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) tag: Option<String>,
}

/// One item of a chat's background work.
#[derive(serde::Deserialize)]
pub(crate) struct BackgroundWorkParams {
    pub(crate) channel: String,
    pub(crate) id: String,
}

fn parse_create_session(client_id: &str, subscriber: &Subscriber, params: Value) -> Result<CreateSession, RpcError> {
    if params.get("fork").is_some_and(|fork| !fork.is_null()) {
        let sentence = "a session cannot be forked on creation; fork a chat with createChat where it is offered";
        return Err(RpcError::invalid_params(sentence));
    }
    let params: CreateSessionParams = decode::params(params)?;
    if params.active_client.as_ref().is_some_and(|active| active.client_id != client_id) {
        return Err(RpcError::invalid_params("activeClient must be the requesting client"));
    }
    Ok(CreateSession {
        uri: params.channel,
        provider: params.provider,
        working_directories: params.working_directories.unwrap_or_default(),
        config: params.config,
        active_client: params.active_client,
        progress: params.progress_token.map(|token| ProgressRequest { token, subscriber: subscriber.clone() }),
    })
}

/// Creates a session on a blocking thread.
pub(crate) async fn create_session(engine: &Engine, request: CreateSession) -> Result<Value, RpcError> {
    let engine = engine.clone();
    let created = tokio::task::spawn_blocking(move || engine.create_session(request)).await;
    created.unwrap_or(Err(EngineError::Stopping))?;
    Ok(Value::Null)
}

/// Creates a terminal.
pub(crate) async fn create_terminal(
    engine: &Engine,
    client_id: &str,
    params: CreateTerminalParams,
) -> Result<Value, RpcError> {
    let CreateTerminalParams { channel: uri, claim, name, cwd: directory, cols, rows, .. } = params;
    engine.create_terminal(client_id, CreateTerminal { uri, claim, name, directory, cols, rows }).await?;
    Ok(Value::Null)
}

/// Every session has its default chat from the start, so creating that one succeeds without an effect.
pub(crate) fn create_chat(engine: &Engine, params: &CreateChatParams) -> Result<Value, RpcError> {
    if !engine.has_session(&params.channel) {
        return Err(EngineError::SessionNotFound(params.channel.clone()).into());
    }
    if params.chat != hostler_engine::default_chat_uri(&params.channel) {
        return Err(RpcError::invalid_params("this host does not offer several chats in a session"));
    }
    if params.initial_message.is_some() || params.source.is_some() {
        return Err(RpcError::invalid_params("the default chat exists already; send the message as a turn"));
    }
    Ok(Value::Null)
}

/// A page of the session list.
pub(crate) fn list_sessions(engine: &Engine, params: &ListSessionsParams) -> Result<SessionPage, RpcError> {
    let too_small = || RpcError::invalid_params("limit must be at least 1");
    let limit = params.limit.map(|limit| usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(too_small));
    Ok(engine.list_sessions(limit.transpose()?, params.cursor.as_deref())?)
}

/// A session's configuration, with defaults.
pub(crate) async fn resolve_config(engine: &Engine, params: ResolveSessionConfigParams) -> Result<Value, RpcError> {
    let ResolveSessionConfigParams { provider, working_directory: directory, config, .. } = params;
    let request = SessionConfigRequest { provider, directory, values: config.unwrap_or_default() };
    let config = engine.resolve_config(&request).await?;
    to_result(&ResolveSessionConfigResult { schema: config.schema, values: config.values })
}

/// Completions for the text at a position.
pub(crate) async fn list_completions(engine: &Engine, params: CompletionsParams) -> Result<Value, RpcError> {
    let items = match params.kind {
        CompletionItemKind::UserMessage => engine.completions(&params.channel, &params.text, params.offset).await?,
        // A newer client may ask for kinds that this host does not complete.
        CompletionItemKind::Unknown(_) => Vec::new(),
    };
    to_result(&CompletionsResult { items })
}

/// Values of a property that match a query.
pub(crate) async fn list_config_completions(
    engine: &Engine,
    params: SessionConfigCompletionsParams,
) -> Result<Value, RpcError> {
    let SessionConfigCompletionsParams { provider, working_directory: directory, config, property, query, .. } = params;
    let request = SessionConfigRequest { provider, directory, values: config.unwrap_or_default() };
    let items = engine.config_values(&request, &property, &query.unwrap_or_default()).await?;
    to_result(&SessionConfigCompletionsResult { items })
}

/// Removes images from a conversation.
pub(crate) async fn remove_images(engine: &Engine, params: RemoveImagesParams) -> Result<Value, RpcError> {
    let images = match params.images {
        ImageSelectionParam::Last => ImageSelection::Last,
        ImageSelectionParam::All => ImageSelection::All,
    };
    let removed = engine.remove_images(&params.channel, images).await?;
    Ok(json!({ "removed": removed }))
}

/// Plans attachments.
pub(crate) async fn plan_attachments(
    engine: &Engine,
    params: PlanAttachmentsParams,
    files: &ClientFiles,
) -> Result<Value, RpcError> {
    to_result(&engine.plan_attachments(&params.channel, params.attachments, files).await?)
}

/// Error for a client that requests too many plans at a time.
pub(crate) fn too_many_plans_error() -> RpcError {
    RpcError::new(
        json_rpc_error_codes::INTERNAL_ERROR,
        "too many attachment plans are in progress for this client; try again",
    )
}

/// Reads a page of a session's audit log.
pub(crate) async fn read_audit_log(engine: &Engine, params: AuditParams) -> Result<Value, RpcError> {
    let limit = params.limit.unwrap_or(MAX_AUDIT_PAGE_ENTRIES).clamp(1, MAX_AUDIT_PAGE_ENTRIES);
    let items = engine.audit(&params.channel, params.after, limit).await?;
    let next = if items.len() < limit { None } else { items.last().map(|row| row.id) };
    to_result(&AuditPageResult { items, next })
}

pub(crate) fn to_result(result: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(result).map_err(|error| RpcError::new(-32603, format!("failed to encode the answer: {error}")))
}
