//! Parses setting values. An error states what the text must be.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use hostler_redact::SafeUrl;

use super::{ClaudeChoice, EXPECTED_COUNT, EXPECTED_SECONDS, EXPECTED_SIZE};
use crate::environment::HostEnvironment;
use crate::ports::{
    BackgroundOnStopSetting, CredentialStoreSetting, DurabilitySetting, FileGrantSetting, UnattendedSetting,
};

/// Invalid value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value must be {expected}")]
pub(super) struct ConfigValueError {
    /// What the value must be.
    pub(super) expected: Cow<'static, str>,
}

impl ConfigValueError {
    pub(super) fn new(expected: impl Into<Cow<'static, str>>) -> Self {
        Self { expected: expected.into() }
    }
}

pub(super) fn parse_text(text: &str) -> Result<String, ConfigValueError> {
    if text.is_empty() { Err(ConfigValueError::new("not empty")) } else { Ok(text.to_owned()) }
}

pub(super) fn parse_listen(text: &str) -> Result<SocketAddr, ConfigValueError> {
    let invalid = || ConfigValueError::new("an address and a port such as 127.0.0.1:8137");
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|_| invalid()),
        None => text.parse().map_err(|_| invalid()),
    }
}

pub(super) fn parse_durability(text: &str) -> Result<DurabilitySetting, ConfigValueError> {
    match text {
        "normal" => Ok(DurabilitySetting::Normal),
        "full" => Ok(DurabilitySetting::Full),
        _ => Err(ConfigValueError::new("normal or full")),
    }
}

pub(super) fn parse_background_on_stop(text: &str) -> Result<BackgroundOnStopSetting, ConfigValueError> {
    match text {
        "keep" => Ok(BackgroundOnStopSetting::Keep),
        "stop" => Ok(BackgroundOnStopSetting::Stop),
        "ask" => Ok(BackgroundOnStopSetting::Ask),
        _ => Err(ConfigValueError::new("keep, stop or ask")),
    }
}

/// Values of `show-external-sessions`.
const EXTERNAL_SESSION_FILTERS: [&str; 6] = ["none", "recent", "last24Hours", "last7Days", "last30Days", "all"];

pub(super) fn parse_external_session_filter(text: &str) -> Result<&'static str, ConfigValueError> {
    EXTERNAL_SESSION_FILTERS
        .into_iter()
        .find(|filter| *filter == text)
        .ok_or_else(|| ConfigValueError::new(format!("one of {}", EXTERNAL_SESSION_FILTERS.join(", "))))
}

pub(super) fn parse_unattended(text: &str) -> Result<UnattendedSetting, ConfigValueError> {
    match text {
        "wait" => Ok(UnattendedSetting::Wait),
        "deny" => Ok(UnattendedSetting::Deny(None)),
        "allow" => Ok(UnattendedSetting::Allow),
        _ => Err(ConfigValueError::new("wait, deny or allow")),
    }
}

pub(super) fn parse_file_grants(text: &str) -> Result<FileGrantSetting, ConfigValueError> {
    match text {
        "never" => Ok(FileGrantSetting::Never),
        "ask" => Ok(FileGrantSetting::Ask),
        "always" => Ok(FileGrantSetting::Always),
        _ => Err(ConfigValueError::new("never, ask or always")),
    }
}

pub(super) fn parse_url(text: &str) -> Result<SafeUrl, ConfigValueError> {
    SafeUrl::parse(text).ok_or_else(|| ConfigValueError::new("an http or https URL"))
}

/// Parses a base URL: scheme, host and port, no path.
pub(super) fn parse_base_url(text: &str) -> Result<String, ConfigValueError> {
    let invalid = || ConfigValueError::new("an http or https URL without a path such as https://box.example");
    let url = url::Url::parse(text).map_err(|_| invalid())?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !bare || url.password().is_some() || !url.has_host() || !matches!(url.scheme(), "http" | "https") {
        return Err(invalid());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, ConfigValueError> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|seconds| !seconds.is_zero()).ok_or_else(|| ConfigValueError::new(EXPECTED_SECONDS))
}

/// Parses a duration; zero means unlimited.
pub(super) fn parse_seconds_or_zero(text: &str) -> Result<Duration, ConfigValueError> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| ConfigValueError::new("a number of seconds, or 0 for no limit"))
}

pub(super) fn parse_count(text: &str) -> Result<usize, ConfigValueError> {
    text.parse().map_err(|_| ConfigValueError::new(EXPECTED_COUNT))
}

pub(super) fn parse_positive_count(text: &str) -> Result<usize, ConfigValueError> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| ConfigValueError::new("a whole number above 0"))
}

/// Parses a number of bytes, with or without a unit.
pub(super) fn parse_size(text: &str) -> Result<u64, ConfigValueError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let size = text.split_at_checked(digits).and_then(|(number, unit)| {
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "KB" | "kB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        number.parse::<u64>().ok()?.checked_mul(factor)
    });
    size.filter(|size| *size > 0).ok_or_else(|| ConfigValueError::new(EXPECTED_SIZE))
}

pub(super) fn parse_claude(text: &str, environment: &HostEnvironment) -> ClaudeChoice {
    match text {
        "" | "auto" => ClaudeChoice::Auto,
        "native" => ClaudeChoice::Native,
        "js" => ClaudeChoice::Js,
        path => ClaudeChoice::Path(environment.resolve_path(Path::new(path))),
    }
}

pub(super) fn parse_credential_store(text: &str) -> Result<CredentialStoreSetting, ConfigValueError> {
    match text {
        "auto" => Ok(CredentialStoreSetting::Auto),
        "keyring" => Ok(CredentialStoreSetting::Keyring),
        "file" => Ok(CredentialStoreSetting::File),
        _ => Err(ConfigValueError::new("auto, keyring or file")),
    }
}
