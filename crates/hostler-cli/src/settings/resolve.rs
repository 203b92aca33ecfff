use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use super::{
    ClaudeChoice, ConfigFile, DEFAULT_LISTEN, Key, Kind, SECONDS, Settings, SettingsError, TABLE, TokenChoice, Value,
};
use crate::environment::HostEnvironment;
use crate::ports::{Durability, UpstreamChoice};
use crate::state::is_token;

/// Joins the three places where settings are given. Pure: the environment is a value.
pub(crate) fn resolve(
    flags: Vec<(Key, Value)>,
    environment: &HostEnvironment,
    file: ConfigFile,
) -> Result<Settings, SettingsError> {
    let layers = Layers { flags: from_flags(flags), variables: from_variables(environment)?, file: file.values };
    let listen = layers.text(Key::Listen, parse_listen)?.unwrap_or(DEFAULT_LISTEN);
    let token = layers.token(environment)?;
    if matches!(token, TokenChoice::Off) && !listen.ip().is_loopback() {
        return Err(SettingsError::NoTokenOffLoopback(listen));
    }
    let upstream = layers.text(Key::Upstream, parse_upstream)?.unwrap_or_default();
    let state_dir = layers.path(Key::StateDir, environment);
    Ok(Settings {
        listen,
        token,
        state_dir_given: state_dir.is_some(),
        state_dir: state_dir.unwrap_or_else(|| environment.xdg_state.join("hostler")),
        upstream,
        upstream_from_flag: layers.flags.contains_key(&Key::Upstream),
        upstream_url: layers.text(Key::UpstreamUrl, parse_url)?,
        upstream_key: upstream_key(upstream, environment),
        claude: layers.text(Key::Claude, |text| Ok(parse_claude(text, environment)))?.unwrap_or_default(),
        handshake_timeout: layers.text(Key::HandshakeTimeout, parse_seconds)?,
        durability: layers.text(Key::Durability, parse_durability)?.unwrap_or_default(),
        agent_env: file.agent_env,
        allowed_origins: layers.list(Key::AllowedOrigins),
        allowed_hosts: layers.list(Key::AllowedHosts),
        exit_on_stdin_eof: layers.switch(Key::ExitOnStdinEof),
        log: layers.text(Key::Log, parse_text)?.unwrap_or_else(|| "warn".to_owned()),
        model: layers.text(Key::Model, parse_text)?,
        permission_mode: layers.text(Key::PermissionMode, parse_text)?,
        cwd: layers.path(Key::Cwd, environment).unwrap_or_else(|| environment.current_dir.clone()),
        json: layers.switch(Key::Json),
        warnings: file.warnings,
    })
}

type Layer = BTreeMap<Key, (Value, String)>;

struct Layers {
    flags: Layer,
    variables: Layer,
    file: Layer,
}

impl Layers {
    /// The winning value of a setting and where it was given.
    fn get(&self, key: Key) -> Option<&(Value, String)> {
        [&self.flags, &self.variables, &self.file].into_iter().find_map(|layer| layer.get(&key))
    }

    fn text<T>(&self, key: Key, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, SettingsError> {
        let Some((Value::Text(text), origin)) = self.get(key) else {
            return Ok(None);
        };
        let parsed = match text.to_str() {
            Some(text) => parse(text),
            None => Err("valid UTF-8".to_owned()),
        };
        parsed.map(Some).map_err(|expected| SettingsError::Invalid { origin: origin.clone(), expected })
    }

    fn path(&self, key: Key, environment: &HostEnvironment) -> Option<PathBuf> {
        match self.get(key) {
            Some((Value::Text(text), _)) => Some(environment.absolute(Path::new(text))),
            _ => None,
        }
    }

    fn switch(&self, key: Key) -> bool {
        matches!(self.get(key), Some((Value::Switch(true), _)))
    }

    fn list(&self, key: Key) -> Vec<String> {
        match self.get(key) {
            Some((Value::List(items), _)) => items.clone(),
            _ => Vec::new(),
        }
    }

    /// Three settings for one question: the highest place that answers it decides, and it answers once.
    fn token(&self, environment: &HostEnvironment) -> Result<TokenChoice, SettingsError> {
        for layer in [&self.flags, &self.variables, &self.file] {
            let given = [Key::Token, Key::TokenFile, Key::NoToken].into_iter().filter_map(|key| {
                let (value, origin) = layer.get(&key)?;
                match (key, value) {
                    (Key::NoToken, Value::Switch(true)) => Some((TokenChoice::Off, origin)),
                    (Key::TokenFile, Value::Text(path)) => {
                        Some((TokenChoice::File(environment.absolute(Path::new(path))), origin))
                    }
                    (Key::Token, Value::Text(token)) => Some((TokenChoice::Given(secret(token)), origin)),
                    _ => None,
                }
            });
            let mut given = given.collect::<Vec<_>>().into_iter();
            let Some((choice, origin)) = given.next() else {
                continue;
            };
            if let Some((_, second)) = given.next() {
                return Err(SettingsError::TokenConflict { first: origin.clone(), second: second.clone() });
            }
            if let TokenChoice::Given(token) = &choice
                && !is_token(token)
            {
                let expected = "letters, digits, `_` and `-` only".to_owned();
                return Err(SettingsError::Invalid { origin: origin.clone(), expected });
            }
            return Ok(choice);
        }
        Ok(TokenChoice::Kept)
    }
}

fn from_flags(flags: Vec<(Key, Value)>) -> Layer {
    let name = |key: Key| TABLE.iter().find(|(known, ..)| *known == key).map_or("", |(_, name, _)| name);
    flags.into_iter().map(|(key, value)| (key, (value, format!("--{}", name(key))))).collect()
}

fn from_variables(environment: &HostEnvironment) -> Result<Layer, SettingsError> {
    let mut layer = Layer::new();
    for (key, name, kind) in TABLE {
        let variable = super::variable(name);
        let Some(text) = environment.var(&variable) else {
            continue;
        };
        let value = match kind {
            Kind::Text | Kind::Path | Kind::Seconds => Value::Text(text.to_owned()),
            Kind::List => Value::List(split_list(text)),
            Kind::Switch => match text.to_str() {
                Some("1" | "true" | "yes" | "on") => Value::Switch(true),
                Some("0" | "false" | "no" | "off") => Value::Switch(false),
                _ => {
                    return Err(SettingsError::Invalid { origin: variable, expected: "1 or 0".to_owned() });
                }
            },
        };
        layer.insert(key, (value, variable));
    }
    Ok(layer)
}

fn split_list(text: &std::ffi::OsStr) -> Vec<String> {
    text.to_string_lossy().split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

fn secret(text: &OsString) -> SecretString {
    SecretString::from(text.to_string_lossy().into_owned())
}

/// The upstream's credential: ours first, then the variable that other tools use.
fn upstream_key(upstream: UpstreamChoice, environment: &HostEnvironment) -> Option<SecretString> {
    let usual = upstream.usual_key_variable()?;
    let key = environment.var("HOSTLER_UPSTREAM_KEY").or_else(|| environment.var(usual))?;
    Some(SecretString::from(key.to_string_lossy().into_owned()))
}

fn parse_text(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("not empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let expected = || "an address and a port such as 127.0.0.1:8137".to_owned();
    match text.strip_prefix("localhost:") {
        Some(port) => port.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|_| expected()),
        None => text.parse().map_err(|_| expected()),
    }
}

fn parse_upstream(text: &str) -> Result<UpstreamChoice, String> {
    UpstreamChoice::ALL.into_iter().find(|choice| choice.as_str() == text).ok_or_else(|| {
        let names = UpstreamChoice::ALL.map(UpstreamChoice::as_str).join(", ");
        format!("one of {names}")
    })
}

fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "normal" => Ok(Durability::Normal),
        "full" => Ok(Durability::Full),
        _ => Err("normal or full".to_owned()),
    }
}

fn parse_url(text: &str) -> Result<String, String> {
    match url::Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(text.to_owned()),
        _ => Err("an http or https URL".to_owned()),
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|seconds| !seconds.is_zero()).ok_or_else(|| SECONDS.to_owned())
}

fn parse_claude(text: &str, environment: &HostEnvironment) -> ClaudeChoice {
    match text {
        "" | "auto" => ClaudeChoice::Auto,
        "native" => ClaudeChoice::Native,
        "js" => ClaudeChoice::Js,
        path => ClaudeChoice::Path(environment.absolute(Path::new(path))),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
