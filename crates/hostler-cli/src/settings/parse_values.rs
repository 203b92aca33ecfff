//! Parses setting values. An error states what the text must be.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use hostler_redact::SafeUrl;

use super::{ClaudeChoice, EXPECTED_COUNT, EXPECTED_SECONDS, EXPECTED_SIZE};
use crate::environment::HostEnvironment;
use crate::ports::{
    BackgroundOnStopSetting, CredentialStoreSetting, DurabilitySetting, FileGrantSetting, UnattendedSetting,
};

pub(super) fn parse_text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("not empty".to_owned()) } else { Ok(text.to_owned()) }
}

pub(super) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let expected = || "an address and a port such as 127.0.0.1:8137".to_owned();
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|_| expected()),
        None => text.parse().map_err(|_| expected()),
    }
}

pub(super) fn parse_durability(text: &str) -> Result<DurabilitySetting, String> {
    match text {
        "normal" => Ok(DurabilitySetting::Normal),
        "full" => Ok(DurabilitySetting::Full),
        _ => Err("normal or full".to_owned()),
    }
}

pub(super) fn parse_background_on_stop(text: &str) -> Result<BackgroundOnStopSetting, String> {
    match text {
        "keep" => Ok(BackgroundOnStopSetting::Keep),
        "stop" => Ok(BackgroundOnStopSetting::Stop),
        "ask" => Ok(BackgroundOnStopSetting::Ask),
        _ => Err("keep, stop or ask".to_owned()),
    }
}

/// Values of `show-external-sessions`.
const EXTERNAL_SESSION_FILTERS: [&str; 6] = ["none", "recent", "last24Hours", "last7Days", "last30Days", "all"];

pub(super) fn parse_external_session_filter(text: &str) -> Result<&'static str, String> {
    EXTERNAL_SESSION_FILTERS
        .into_iter()
        .find(|word| *word == text)
        .ok_or_else(|| format!("one of {}", EXTERNAL_SESSION_FILTERS.join(", ")))
}

pub(super) fn parse_unattended(text: &str) -> Result<UnattendedSetting, String> {
    match text {
        "wait" => Ok(UnattendedSetting::Wait),
        "deny" => Ok(UnattendedSetting::Deny(None)),
        "allow" => Ok(UnattendedSetting::Allow),
        _ => Err("wait, deny or allow".to_owned()),
    }
}

pub(super) fn parse_file_grants(text: &str) -> Result<FileGrantSetting, String> {
    match text {
        "never" => Ok(FileGrantSetting::Never),
        "ask" => Ok(FileGrantSetting::Ask),
        "always" => Ok(FileGrantSetting::Always),
        _ => Err("never, ask or always".to_owned()),
    }
}

pub(super) fn parse_url(text: &str) -> Result<SafeUrl, String> {
    SafeUrl::parse(text).ok_or_else(|| "an http or https URL".to_owned())
}

/// Parses a base URL: scheme, host and port, no path.
pub(super) fn parse_base_url(text: &str) -> Result<String, String> {
    let expected = || "an http or https URL without a path such as https://box.example".to_owned();
    let url = url::Url::parse(text).map_err(|_| expected())?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !bare || url.password().is_some() || !url.has_host() || !matches!(url.scheme(), "http" | "https") {
        return Err(expected());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|seconds| !seconds.is_zero()).ok_or_else(|| EXPECTED_SECONDS.to_owned())
}

/// Parses a duration; zero means unlimited.
pub(super) fn parse_seconds_or_zero(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "a number of seconds, or 0 for ever".to_owned())
}

pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| EXPECTED_COUNT.to_owned())
}

pub(super) fn parse_positive_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "a whole number above 0".to_owned())
}

/// Parses a number of bytes, with or without a unit.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
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
    size.filter(|size| *size > 0).ok_or_else(|| EXPECTED_SIZE.to_owned())
}

pub(super) fn parse_claude(text: &str, environment: &HostEnvironment) -> ClaudeChoice {
    match text {
        "" | "auto" => ClaudeChoice::Auto,
        "native" => ClaudeChoice::Native,
        "js" => ClaudeChoice::Js,
        path => ClaudeChoice::Path(environment.resolve_path(Path::new(path))),
    }
}

pub(super) fn parse_credential_store(text: &str) -> Result<CredentialStoreSetting, String> {
    match text {
        "auto" => Ok(CredentialStoreSetting::Auto),
        "keyring" => Ok(CredentialStoreSetting::Keyring),
        "file" => Ok(CredentialStoreSetting::File),
        _ => Err("auto, keyring or file".to_owned()),
    }
}
