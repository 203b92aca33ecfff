//! Opens an agent: checks, lock, process, handshake, version. A failure leaves no process, file or lock behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hostler_driver::{
    AgentConnection, CloseMode, ConnectionError, ConnectionInfo, ConversationStart, DriverEvent, FolderConfiguration,
    OpenError, OpenSpec, OpenedConnection, SlashCommand, TurnOutcome,
};
use hostler_process::{ConversationLock, Environment, LockError, SpawnSpec};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::Executable;
use crate::connection::ClaudeConnection;
use crate::driver::ClaudeConfig;
use crate::launch_options::{self, SessionArgument};
use crate::open_errors::{self, AgentExit};
use crate::transcript_locator::{TranscriptLocator, TranscriptPresence};
use crate::transcripts::HostAgents;
use crate::version::{ClaudeVersion, VersionCache};
use crate::wire::HostControlRequest;
use crate::wire_stats::WireCounters;
use crate::workspace::{CONFIG_ROOT_FLAG, ConfigIsolation, ConfigurationSnapshot, StagedConfiguration};

/// How long a supervisor may take to end a tree: one second until SIGKILL, and some time after it.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of slash commands.
const MAX_COMMANDS: usize = 1_000;

/// Maximum length of a command's description, in characters.
const MAX_DESCRIPTION_CHARS: usize = 300;

/// The answer to the handshake. Only newer builds report their version in it.
#[derive(Debug, Default, Deserialize)]
struct HandshakeResponse {
    #[serde(default)]
    claude_code_version: Option<String>,
}

/// State that all agents of one driver share.
#[derive(Debug, Clone)]
pub(crate) struct OpenContext {
    pub(crate) config: Arc<ClaudeConfig>,
    pub(crate) versions: Arc<VersionCache>,
    pub(crate) counters: Arc<WireCounters>,
    pub(crate) host_agents: Arc<HostAgents>,
    /// Whether the executable does not support [`ConfigIsolation::ConfigRoot`].
    pub(crate) lacks_config_root: Arc<AtomicBool>,
}

/// Opens a connection. Dropping the future ends everything that it started, because the connection ends with its
/// owner.
pub(crate) async fn open_connection(shared: OpenContext, spec: OpenSpec) -> Result<OpenedConnection, OpenError> {
    let is_script = matches!(shared.config.executable, Executable::Js { .. });
    if !is_script && !shared.lacks_config_root.load(Ordering::Relaxed) {
        match open_isolated(shared.clone(), &spec, ConfigIsolation::ConfigRoot).await {
            Err(error) if error.stderr.as_str().contains(CONFIG_ROOT_FLAG) => {
                tracing::info!("Claude Code does not support {CONFIG_ROOT_FLAG}: starting it without this option");
                shared.lacks_config_root.store(true, Ordering::Relaxed);
            }
            outcome => return outcome,
        }
    }
    open_isolated(shared, &spec, ConfigIsolation::UserOnly).await
}

async fn open_isolated(
    shared: OpenContext,
    spec: &OpenSpec,
    recipe: ConfigIsolation,
) -> Result<OpenedConnection, OpenError> {
    let OpenContext { config, versions, counters, host_agents: own, .. } = shared;
    // Resolved like the agent resolves it, so that both use the same name for the conversation's folder.
    let working_directory = match tokio::fs::canonicalize(&spec.working_directory).await {
        Ok(path) if path.is_dir() => path,
        _ => return Err(open_errors::no_working_directory(&spec.working_directory)),
    };
    if let Executable::Js { cli, .. } = &config.executable
        && !tokio::fs::try_exists(cli).await.unwrap_or(false)
    {
        return Err(open_errors::script_missing(cli));
    }
    let lock = lock_conversation(&config, &spec.conversation.id().to_string()).await?;
    let (stage, lock) = stage_configuration(Arc::clone(&config), spec, recipe, working_directory.clone(), lock).await?;
    let environment = launch_options::environment(
        &config.host_environment,
        &config.upstream_credentials,
        &stage.environment,
        &config.agent_env,
        &spec.endpoint,
        &spec.model,
    );
    let transcripts = TranscriptLocator::new(&environment, &working_directory);
    let applied_configuration = stage.is_applied;
    let process_spec = build_spawn_spec(&config, spec, &stage, &transcripts, &environment, lock).await?;
    let process = hostler_process::spawn(process_spec)
        .await
        .map_err(|cause| open_errors::spawn_failed(&cause, &config.executable, &working_directory))?;
    let pid = process.handle.pid();
    own.add(pid);
    let (connection, mut events) = ClaudeConnection::start(process, transcripts, spec, counters, stage);

    let answer = handshake(&config, &connection, &mut events).await?;
    let version = match parse_version(answer.as_deref()) {
        Some(version) => Some(version),
        None => versions.version_of(&config.executable, &environment, &config.supervisor).await,
    };
    if version.is_none_or(|version| version < config.min_version) {
        let remains = close_and_collect_exit(&connection, &mut events, CloseMode::Now).await;
        return Err(open_errors::wrong_version(&config.executable, version, config.min_version, remains));
    }
    let commands = parse_commands(answer.as_deref());
    let facts =
        ConnectionInfo { pid, version: version.map(|version| version.to_string()), commands, applied_configuration };
    Ok(OpenedConnection { connection: Box::new(connection), events, info: facts })
}

/// Locks the conversation. An agent that is being ended, of this host or of a killed one, releases the lock soon; a
/// live one does not.
pub(crate) async fn lock_conversation(
    config: &ClaudeConfig,
    conversation: &str,
) -> Result<ConversationLock, OpenError> {
    let deadline = Instant::now() + LOCK_RELEASE_TIMEOUT;
    loop {
        match ConversationLock::acquire(&config.runtime_dir, conversation, &config.lock_holder) {
            Err(LockError::Held { .. }) if Instant::now() < deadline => tokio::time::sleep(LOCK_POLL_INTERVAL).await,
            locked => return locked.map_err(|cause| open_errors::lock_failed(&cause)),
        }
    }
}

/// Stages the agent's configuration: a copy of the folder's current configuration if it is the trusted one, and
/// otherwise none of it. Only the copy is compared and used. The lock is moved along: staging continues after this
/// future is dropped, and no other start of the conversation may begin before it is done.
async fn stage_configuration(
    config: Arc<ClaudeConfig>,
    spec: &OpenSpec,
    recipe: ConfigIsolation,
    working_directory: PathBuf,
    lock: ConversationLock,
) -> Result<(StagedConfiguration, ConversationLock), OpenError> {
    let conversation = spec.conversation.id().to_string();
    let folder = spec.folder_configuration.clone();
    let prepare = move || {
        let own = config.config_directory();
        let applied = match folder {
            FolderConfiguration::Ignored => None,
            FolderConfiguration::Applied { fingerprint } => {
                let read = ConfigurationSnapshot::read(&working_directory, own.as_deref());
                (read.configuration.problem.is_none() && read.configuration.fingerprint == fingerprint).then_some(read)
            }
        };
        let own = own.as_deref();
        let stage =
            StagedConfiguration::prepare(&config.runtime_dir, &conversation, recipe, &working_directory, own, applied)?;
        Ok((stage, lock))
    };
    let prepared = tokio::task::spawn_blocking(prepare).await.map_err(std::io::Error::other).flatten();
    prepared.map_err(|cause| open_errors::other(format!("Failed to prepare Claude Code's configuration: {cause}.")))
}

async fn build_spawn_spec(
    config: &ClaudeConfig,
    spec: &OpenSpec,
    stage: &StagedConfiguration,
    transcripts: &TranscriptLocator,
    environment: &Environment,
    lock: ConversationLock,
) -> Result<SpawnSpec, OpenError> {
    let identity = match &spec.conversation {
        ConversationStart::Resume { token, .. } => SessionArgument::Resume(token.0.clone()),
        // An earlier start may have created the transcript; the agent then rejects the id as used.
        ConversationStart::New(id) => match transcripts.find(&id.to_string()).await {
            TranscriptPresence::Resumable(path) => SessionArgument::Resume(path.to_string_lossy().into_owned()),
            TranscriptPresence::Empty(path) => {
                // The lock makes it ours, and it contains no message; but while it exists, the agent rejects the id.
                if let Err(error) = tokio::fs::remove_file(&path).await {
                    tracing::warn!(%error, "failed to remove a transcript without messages");
                }
                SessionArgument::New(*id)
            }
            TranscriptPresence::Missing => SessionArgument::New(*id),
        },
    };
    let (program, mut args) = config.executable.command();
    let ours = launch_options::arguments(&identity, spec, stage)
        .map_err(|cause| open_errors::other(format!("Failed to write Claude Code's settings: {cause}.")))?;
    args.extend(ours);
    Ok(SpawnSpec {
        program,
        args,
        env: environment.clone(),
        cwd: transcripts.working_directory().to_owned(),
        supervisor: config.supervisor.clone(),
        lock: Some(lock.into()),
        redact: vec![spec.endpoint.bearer.clone()],
    })
}

/// Sends `initialize` and waits for its answer, the agent's exit, or the timeout.
async fn handshake(
    config: &ClaudeConfig,
    connection: &ClaudeConnection,
    events: &mut mpsc::Receiver<DriverEvent>,
) -> Result<Option<Box<RawValue>>, OpenError> {
    let limit = config.handshake_timeout;
    match tokio::time::timeout(limit, connection.request(HostControlRequest::initialize())).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(ConnectionError::Exited(_))) => {
            Err(open_errors::exited_early(close_and_collect_exit(connection, events, CloseMode::Graceful).await))
        }
        Ok(Err(refused @ (ConnectionError::Refused(_) | ConnectionError::RequestNotOpen))) => {
            let reason = match refused {
                ConnectionError::Refused(reason) => reason,
                other => other.to_string(),
            };
            Err(open_errors::handshake_refused(
                &reason,
                close_and_collect_exit(connection, events, CloseMode::Now).await,
            ))
        }
        Err(_) => {
            Err(open_errors::handshake_timeout(limit, close_and_collect_exit(connection, events, CloseMode::Now).await))
        }
    }
}

/// Ends an agent and collects the reason.
async fn close_and_collect_exit(
    connection: &ClaudeConnection,
    events: &mut mpsc::Receiver<DriverEvent>,
    mode: CloseMode,
) -> AgentExit {
    connection.close(mode).await;
    let mut remains = AgentExit::default();
    while let Some(event) = events.recv().await {
        match event {
            DriverEvent::TurnEnded(TurnOutcome::Failed(failure)) => remains.result_error = Some(failure.message),
            DriverEvent::ProcessExited { status, stderr } => (remains.status, remains.stderr) = (status, stderr),
            _ => {}
        }
    }
    remains
}

/// The slash commands in the handshake's answer. Unreadable ones are skipped.
fn parse_commands(answer: Option<&RawValue>) -> Vec<SlashCommand> {
    #[derive(Deserialize)]
    struct InitializeResponse {
        commands: Vec<serde_json::Value>,
    }
    let response = answer.and_then(|answer| serde_json::from_str::<InitializeResponse>(answer.get()).ok());
    let commands = response.into_iter().flat_map(|response| response.commands).take(MAX_COMMANDS);
    let commands = commands.filter_map(|command| serde_json::from_value::<SlashCommand>(command).ok());
    commands
        .filter(|command| !command.name.is_empty())
        .map(|command| {
            // Some descriptions are very long.
            let description = command.description.chars().take(MAX_DESCRIPTION_CHARS).collect();
            SlashCommand { description, ..command }
        })
        .collect()
}

fn parse_version(answer: Option<&RawValue>) -> Option<ClaudeVersion> {
    let answer: HandshakeResponse = serde_json::from_str(answer?.get()).ok()?;
    ClaudeVersion::parse(&answer.claude_code_version?)
}
