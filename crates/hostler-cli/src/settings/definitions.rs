//! Table of all settings: names, types of values, and when a change takes effect.

/// Setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SettingKey {
    Listen,
    Token,
    TokenFile,
    NoToken,
    StateDir,
    Upstream,
    UpstreamUrl,
    AllowedBetas,
    CredentialStore,
    Claude,
    HandshakeTimeout,
    IdleTimeout,
    IdleTimeoutMax,
    StallTimeout,
    InterruptGrace,
    BackgroundOnStop,
    ShowExternalSessions,
    ClientTimeout,
    MaxAgents,
    MaxPrewarmed,
    Prewarm,
    MaxQueuedMessages,
    MaxTurnsInMemory,
    Durability,
    ExitOnStdinEof,
    ProxyListen,
    LogRequests,
    Metrics,
    AllowedOrigins,
    AllowedHosts,
    TrustedProxies,
    PublicUrl,
    TlsCert,
    TlsKey,
    Log,
    Model,
    PermissionMode,
    AllowBypassPermissions,
    DisableShellCommands,
    DisableTerminals,
    TerminalShell,
    MaxTerminals,
    TerminalScrollback,
    InstallAgents,
    DisableEditorAnnouncement,
    EditorDataDirs,
    Unattended,
    UnattendedAfter,
    AttachmentFiles,
    AttachmentFileSize,
    AttachmentTotalSize,
    AttachmentImagePixels,
    AttachmentImageEdge,
    AttachmentImageSize,
    AttachmentPdfPages,
    AttachmentImages,
    AttachmentRequestSize,
    AttachmentQuota,
    FileGrants,
    SessionRoots,
    TrustedFolders,
    Cwd,
    Json,
}

/// Type of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingKind {
    Text,
    /// Path relative to the working directory; in the file, relative to the file.
    Path,
    Flag,
    List,
    /// A number above 0, fractions allowed.
    Seconds,
    /// A whole number.
    Count,
    /// A number of bytes, or a text with a unit.
    Size,
}

/// Expected value of [`SettingKind::Seconds`].
pub(crate) const EXPECTED_SECONDS: &str = "a number of seconds above 0";

/// Expected value of [`SettingKind::Count`].
pub(crate) const EXPECTED_COUNT: &str = "a whole number";

/// Expected value of [`SettingKind::Size`].
pub(crate) const EXPECTED_SIZE: &str = "a size above 0 such as 1048576, \"500 KB\" or \"10 MiB\"";

/// When a change in the file takes effect while a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakesEffect {
    Immediately,
    /// After a restart, which a notice states.
    OnRestart,
    /// Applies to each call of a command, not to a host.
    PerCommand,
}

/// Row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettingDefinition {
    pub(crate) key: SettingKey,
    /// The part before a dot is the table of the configuration file.
    pub(crate) name: &'static str,
    pub(crate) kind: SettingKind,
    pub(crate) takes_effect: TakesEffect,
}

/// All settings.
pub(crate) const SETTINGS: [SettingDefinition; 63] = [
    on_restart(SettingKey::Listen, "listen", SettingKind::Text),
    on_restart(SettingKey::Token, "token", SettingKind::Text),
    on_restart(SettingKey::TokenFile, "token-file", SettingKind::Path),
    on_restart(SettingKey::NoToken, "no-token", SettingKind::Flag),
    on_restart(SettingKey::StateDir, "state-dir", SettingKind::Path),
    immediate(SettingKey::Upstream, "upstream", SettingKind::Text),
    immediate(SettingKey::UpstreamUrl, "upstream-url", SettingKind::Text),
    immediate(SettingKey::AllowedBetas, "allowed-betas", SettingKind::List),
    on_restart(SettingKey::CredentialStore, "credential-store", SettingKind::Text),
    on_restart(SettingKey::Claude, "claude", SettingKind::Text),
    on_restart(SettingKey::HandshakeTimeout, "handshake-timeout", SettingKind::Seconds),
    on_restart(SettingKey::IdleTimeout, "idle-timeout", SettingKind::Seconds),
    on_restart(SettingKey::IdleTimeoutMax, "idle-timeout-max", SettingKind::Seconds),
    on_restart(SettingKey::StallTimeout, "stall-timeout", SettingKind::Seconds),
    on_restart(SettingKey::InterruptGrace, "interrupt-grace", SettingKind::Seconds),
    on_restart(SettingKey::BackgroundOnStop, "background-on-stop", SettingKind::Text),
    on_restart(SettingKey::ShowExternalSessions, "show-external-sessions", SettingKind::Text),
    on_restart(SettingKey::ClientTimeout, "client-timeout", SettingKind::Seconds),
    on_restart(SettingKey::MaxAgents, "max-agents", SettingKind::Count),
    on_restart(SettingKey::MaxPrewarmed, "max-prewarmed", SettingKind::Count),
    on_restart(SettingKey::Prewarm, "prewarm", SettingKind::Flag),
    on_restart(SettingKey::MaxQueuedMessages, "max-queued-messages", SettingKind::Count),
    on_restart(SettingKey::MaxTurnsInMemory, "turns-in-memory", SettingKind::Count),
    on_restart(SettingKey::Durability, "durability", SettingKind::Text),
    per_command(SettingKey::ExitOnStdinEof, "exit-on-stdin-eof", SettingKind::Flag),
    on_restart(SettingKey::ProxyListen, "proxy-listen", SettingKind::Text),
    on_restart(SettingKey::LogRequests, "log-requests", SettingKind::Flag),
    on_restart(SettingKey::Metrics, "metrics", SettingKind::Flag),
    on_restart(SettingKey::AllowedOrigins, "allowed-origins", SettingKind::List),
    on_restart(SettingKey::AllowedHosts, "allowed-hosts", SettingKind::List),
    on_restart(SettingKey::TrustedProxies, "trusted-proxies", SettingKind::List),
    on_restart(SettingKey::PublicUrl, "public-url", SettingKind::Text),
    on_restart(SettingKey::TlsCert, "tls-cert", SettingKind::Path),
    on_restart(SettingKey::TlsKey, "tls-key", SettingKind::Path),
    on_restart(SettingKey::Log, "log", SettingKind::Text),
    per_command(SettingKey::Model, "model", SettingKind::Text),
    on_restart(SettingKey::PermissionMode, "permission-mode", SettingKind::Text),
    on_restart(SettingKey::AllowBypassPermissions, "allow-bypass-permissions", SettingKind::Flag),
    on_restart(SettingKey::DisableShellCommands, "no-shell-commands", SettingKind::Flag),
    on_restart(SettingKey::DisableTerminals, "no-terminals", SettingKind::Flag),
    on_restart(SettingKey::TerminalShell, "terminal-shell", SettingKind::Path),
    on_restart(SettingKey::MaxTerminals, "max-terminals", SettingKind::Count),
    on_restart(SettingKey::TerminalScrollback, "terminal-scrollback", SettingKind::Size),
    on_restart(SettingKey::InstallAgents, "install-agents", SettingKind::Flag),
    on_restart(SettingKey::DisableEditorAnnouncement, "no-editor-announcement", SettingKind::Flag),
    on_restart(SettingKey::EditorDataDirs, "editor-data-dirs", SettingKind::List),
    on_restart(SettingKey::Unattended, "unattended", SettingKind::Text),
    on_restart(SettingKey::UnattendedAfter, "unattended-after", SettingKind::Seconds),
    on_restart(SettingKey::AttachmentFiles, "attachments.files", SettingKind::Count),
    on_restart(SettingKey::AttachmentFileSize, "attachments.file-size", SettingKind::Size),
    on_restart(SettingKey::AttachmentTotalSize, "attachments.total-size", SettingKind::Size),
    on_restart(SettingKey::AttachmentImagePixels, "attachments.image-pixels", SettingKind::Count),
    on_restart(SettingKey::AttachmentImageEdge, "attachments.image-edge", SettingKind::Count),
    on_restart(SettingKey::AttachmentImageSize, "attachments.image-size", SettingKind::Size),
    on_restart(SettingKey::AttachmentPdfPages, "attachments.pdf-pages", SettingKind::Count),
    on_restart(SettingKey::AttachmentImages, "attachments.images", SettingKind::Count),
    on_restart(SettingKey::AttachmentRequestSize, "attachments.request-size", SettingKind::Size),
    on_restart(SettingKey::AttachmentQuota, "attachments.quota", SettingKind::Size),
    on_restart(SettingKey::FileGrants, "files.grant", SettingKind::Text),
    on_restart(SettingKey::SessionRoots, "session-roots", SettingKind::List),
    on_restart(SettingKey::TrustedFolders, "trusted-folders", SettingKind::List),
    per_command(SettingKey::Cwd, "cwd", SettingKind::Path),
    per_command(SettingKey::Json, "json", SettingKind::Flag),
];

/// Former name of a setting. It still works, with a warning, in the configuration file and as a variable; none of
/// these settings has a flag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormerSettingName {
    pub(crate) key: SettingKey,
    pub(crate) name: &'static str,
}

/// All former names.
pub(crate) const FORMER_NAMES: [FormerSettingName; 13] = [
    former(SettingKey::ClientTimeout, "absence"),
    former(SettingKey::IdleTimeout, "idle"),
    former(SettingKey::IdleTimeoutMax, "idle-max"),
    former(SettingKey::StallTimeout, "stall"),
    former(SettingKey::Prewarm, "warm"),
    former(SettingKey::MaxPrewarmed, "max-warm"),
    former(SettingKey::MaxQueuedMessages, "max-queue"),
    former(SettingKey::AllowBypassPermissions, "allow-bypass"),
    former(SettingKey::DisableShellCommands, "no-commands"),
    former(SettingKey::DisableEditorAnnouncement, "no-announce"),
    former(SettingKey::EditorDataDirs, "announce-to"),
    former(SettingKey::AttachmentImagePixels, "attachments.pixels"),
    former(SettingKey::AttachmentImageEdge, "attachments.edge"),
];

/// Finds a setting by its name, or by a former one; returns whether the name is a former one.
pub(crate) fn find_setting(name: &str) -> Option<(SettingDefinition, bool)> {
    if let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) {
        return Some((*setting, false));
    }
    let former = FORMER_NAMES.iter().find(|former| former.name == name)?;
    SETTINGS.iter().find(|setting| setting.key == former.key).map(|setting| (*setting, true))
}

const fn former(key: SettingKey, name: &'static str) -> FormerSettingName {
    FormerSettingName { key, name }
}

const fn immediate(key: SettingKey, name: &'static str, kind: SettingKind) -> SettingDefinition {
    SettingDefinition { key, name, kind, takes_effect: TakesEffect::Immediately }
}

const fn on_restart(key: SettingKey, name: &'static str, kind: SettingKind) -> SettingDefinition {
    SettingDefinition { key, name, kind, takes_effect: TakesEffect::OnRestart }
}

const fn per_command(key: SettingKey, name: &'static str, kind: SettingKind) -> SettingDefinition {
    SettingDefinition { key, name, kind, takes_effect: TakesEffect::PerCommand }
}
