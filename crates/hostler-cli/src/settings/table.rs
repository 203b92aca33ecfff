//! All settings: their names, what their values look like, and when a change of them counts.

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
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
    Idle,
    IdleMax,
    Stall,
    InterruptGrace,
    BackgroundOnStop,
    ShowExternalSessions,
    Absence,
    MaxAgents,
    MaxWarm,
    Warm,
    MaxQueue,
    TurnsInMemory,
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
    TlsSecret,
    Log,
    Model,
    PermissionMode,
    AllowBypass,
    NoCommands,
    NoTerminals,
    TerminalShell,
    MaxTerminals,
    TerminalScrollback,
    InstallAgents,
    NoAnnounce,
    AnnounceTo,
    Unattended,
    UnattendedAfter,
    AttachedFiles,
    AttachedFileSize,
    AttachedTotalSize,
    AttachedPixels,
    AttachedEdge,
    AttachedImageSize,
    AttachedPdfPages,
    AttachedImages,
    AttachedRequestSize,
    AttachedQuota,
    GrantFiles,
    SessionRoots,
    TrustedFolders,
    Cwd,
    Json,
}

/// What a setting's value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    /// Relative to the working directory; in the file, relative to the file.
    Path,
    Switch,
    List,
    /// A number above 0, fractions allowed.
    Seconds,
    /// A whole number.
    Count,
    /// A number of bytes, or a text with a unit.
    Size,
}

/// What a [`Kind::Seconds`] must be.
pub(crate) const SECONDS: &str = "a number of seconds above 0";

/// What a [`Kind::Count`] must be.
pub(crate) const COUNT: &str = "a whole number";

/// What a [`Kind::Size`] must be.
pub(crate) const SIZE: &str = "a size above 0 such as 1048576, \"500 KB\" or \"10 MiB\"";

/// When a value counts that is changed in the file while a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    AtOnce,
    /// Whoever changes it is told so.
    NextStart,
    /// It is a matter of each call of a command, and of no host.
    PerCall,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) key: Key,
    /// What stands before a dot is the table that the configuration file has it in.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) counts: Counts,
}

/// All settings.
pub(crate) const TABLE: [Setting; 63] = [
    next_start(Key::Listen, "listen", Kind::Text),
    next_start(Key::Token, "token", Kind::Text),
    next_start(Key::TokenFile, "token-file", Kind::Path),
    next_start(Key::NoToken, "no-token", Kind::Switch),
    next_start(Key::StateDir, "state-dir", Kind::Path),
    at_once(Key::Upstream, "upstream", Kind::Text),
    at_once(Key::UpstreamUrl, "upstream-url", Kind::Text),
    at_once(Key::AllowedBetas, "allowed-betas", Kind::List),
    next_start(Key::CredentialStore, "credential-store", Kind::Text),
    next_start(Key::Claude, "claude", Kind::Text),
    next_start(Key::HandshakeTimeout, "handshake-timeout", Kind::Seconds),
    next_start(Key::Idle, "idle", Kind::Seconds),
    next_start(Key::IdleMax, "idle-max", Kind::Seconds),
    next_start(Key::Stall, "stall", Kind::Seconds),
    next_start(Key::InterruptGrace, "interrupt-grace", Kind::Seconds),
    next_start(Key::BackgroundOnStop, "background-on-stop", Kind::Text),
    next_start(Key::ShowExternalSessions, "show-external-sessions", Kind::Text),
    next_start(Key::Absence, "absence", Kind::Seconds),
    next_start(Key::MaxAgents, "max-agents", Kind::Count),
    next_start(Key::MaxWarm, "max-warm", Kind::Count),
    next_start(Key::Warm, "warm", Kind::Switch),
    next_start(Key::MaxQueue, "max-queue", Kind::Count),
    next_start(Key::TurnsInMemory, "turns-in-memory", Kind::Count),
    next_start(Key::Durability, "durability", Kind::Text),
    per_call(Key::ExitOnStdinEof, "exit-on-stdin-eof", Kind::Switch),
    next_start(Key::ProxyListen, "proxy-listen", Kind::Text),
    next_start(Key::LogRequests, "log-requests", Kind::Switch),
    next_start(Key::Metrics, "metrics", Kind::Switch),
    next_start(Key::AllowedOrigins, "allowed-origins", Kind::List),
    next_start(Key::AllowedHosts, "allowed-hosts", Kind::List),
    next_start(Key::TrustedProxies, "trusted-proxies", Kind::List),
    next_start(Key::PublicUrl, "public-url", Kind::Text),
    next_start(Key::TlsCert, "tls-cert", Kind::Path),
    next_start(Key::TlsSecret, "tls-key", Kind::Path),
    next_start(Key::Log, "log", Kind::Text),
    per_call(Key::Model, "model", Kind::Text),
    next_start(Key::PermissionMode, "permission-mode", Kind::Text),
    next_start(Key::AllowBypass, "allow-bypass", Kind::Switch),
    next_start(Key::NoCommands, "no-commands", Kind::Switch),
    next_start(Key::NoTerminals, "no-terminals", Kind::Switch),
    next_start(Key::TerminalShell, "terminal-shell", Kind::Path),
    next_start(Key::MaxTerminals, "max-terminals", Kind::Count),
    next_start(Key::TerminalScrollback, "terminal-scrollback", Kind::Size),
    next_start(Key::InstallAgents, "install-agents", Kind::Switch),
    next_start(Key::NoAnnounce, "no-announce", Kind::Switch),
    next_start(Key::AnnounceTo, "announce-to", Kind::List),
    next_start(Key::Unattended, "unattended", Kind::Text),
    next_start(Key::UnattendedAfter, "unattended-after", Kind::Seconds),
    next_start(Key::AttachedFiles, "attachments.files", Kind::Count),
    next_start(Key::AttachedFileSize, "attachments.file-size", Kind::Size),
    next_start(Key::AttachedTotalSize, "attachments.total-size", Kind::Size),
    next_start(Key::AttachedPixels, "attachments.pixels", Kind::Count),
    next_start(Key::AttachedEdge, "attachments.edge", Kind::Count),
    next_start(Key::AttachedImageSize, "attachments.image-size", Kind::Size),
    next_start(Key::AttachedPdfPages, "attachments.pdf-pages", Kind::Count),
    next_start(Key::AttachedImages, "attachments.images", Kind::Count),
    next_start(Key::AttachedRequestSize, "attachments.request-size", Kind::Size),
    next_start(Key::AttachedQuota, "attachments.quota", Kind::Size),
    next_start(Key::GrantFiles, "files.grant", Kind::Text),
    next_start(Key::SessionRoots, "session-roots", Kind::List),
    next_start(Key::TrustedFolders, "trusted-folders", Kind::List),
    per_call(Key::Cwd, "cwd", Kind::Path),
    per_call(Key::Json, "json", Kind::Switch),
];

const fn at_once(key: Key, name: &'static str, kind: Kind) -> Setting {
    Setting { key, name, kind, counts: Counts::AtOnce }
}

const fn next_start(key: Key, name: &'static str, kind: Kind) -> Setting {
    Setting { key, name, kind, counts: Counts::NextStart }
}

const fn per_call(key: Key, name: &'static str, kind: Kind) -> Setting {
    Setting { key, name, kind, counts: Counts::PerCall }
}
