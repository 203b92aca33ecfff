use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use super::attachments::parse_bytes;
use super::sections::{KeySetting, UpstreamSection};
use super::upstreams::{self, Chosen};
use super::values::{
    parse_above_zero, parse_background, parse_base, parse_claude, parse_count, parse_durability, parse_grants,
    parse_listen, parse_seconds, parse_shown, parse_store, parse_text, parse_unattended, parse_url, parse_window,
};
use super::{
    ConfigFile, Counts, DEFAULT_LISTEN, DEFAULT_PROXY_LISTEN, Key, Kind, Setting, Settings, SettingsError, TABLE,
    TokenChoice, Value,
};
use crate::environment::HostEnvironment;
use crate::ports::{
    FleetOptions, GatewayOptions, TerminalOptions, TlsFiles, Unattended, UpstreamKind, UpstreamSpec, VaultSettings,
};
use crate::state::{editors, is_token};

/// Joins the three places where settings are given. Pure: the environment is a value.
pub(crate) fn resolve(
    flags: Vec<(Key, Value)>,
    environment: &HostEnvironment,
    file: ConfigFile,
) -> Result<Settings, SettingsError> {
    let ConfigFile { values, agent_env, upstreams, limits, prices, mut warnings } = file;
    let layers = Layers { flags: from_flags(flags), variables: from_variables(environment)?, file: values };
    let listen = layers.text(Key::Listen, parse_listen)?.unwrap_or(DEFAULT_LISTEN);
    let token = layers.token(environment)?;
    if matches!(token, TokenChoice::Off) && !listen.ip().is_loopback() {
        return Err(SettingsError::NoTokenOffLoopback(listen));
    }
    let named = [Key::PublicUrl, Key::AllowedHosts].into_iter().find_map(|key| match layers.get(key) {
        Some((Value::List(names), _)) if names.is_empty() => None,
        named => named.map(|(_, origin)| origin.clone()),
    });
    if let (TokenChoice::Off, Some(origin)) = (&token, named) {
        return Err(SettingsError::NoTokenWithName(origin));
    }
    let credential_variables = credential_variables(&upstreams);
    let upstreams = layers.upstreams(upstreams, environment, &mut warnings)?;
    let allowed_betas = layers.get(Key::AllowedBetas).map(|_| layers.list(Key::AllowedBetas));
    let state_dir = layers.path(Key::StateDir, environment);
    let state_dir_given = state_dir.is_some();
    let state_dir = state_dir.unwrap_or_else(|| environment.xdg_state.join("hostler"));
    let patience = layers.text(Key::UnattendedAfter, parse_seconds)?;
    let unattended = match layers.text(Key::Unattended, parse_unattended)?.unwrap_or_default() {
        Unattended::Deny(_) => Unattended::Deny(patience),
        // A time after which nothing happens is a mistake.
        other if patience.is_some() => {
            warnings.push("`unattended-after` has no effect without `unattended = \"deny\"`.".to_owned());
            other
        }
        other => other,
    };
    let store = layers.text(Key::CredentialStore, parse_store)?.unwrap_or_default();
    Ok(Settings {
        listen,
        token,
        state_dir_given,
        vault: VaultSettings { directory: state_dir.join("credentials"), store },
        state_dir,
        gateway: GatewayOptions { upstreams, allowed_betas, limits, prices },
        upstream_from_flag: layers.flags.contains_key(&Key::Upstream),
        credential_variables,
        proxy_listen: layers.text(Key::ProxyListen, parse_listen)?.unwrap_or(DEFAULT_PROXY_LISTEN),
        log_requests: layers.switch(Key::LogRequests),
        metrics: layers.switch(Key::Metrics),
        restart: layers.restart(&agent_env),
        claude: layers.text(Key::Claude, |text| Ok(parse_claude(text, environment)))?.unwrap_or_default(),
        handshake_timeout: layers.text(Key::HandshakeTimeout, parse_seconds)?,
        fleet: layers.fleet(&mut warnings)?,
        durability: layers.text(Key::Durability, parse_durability)?.unwrap_or_default(),
        attachments: layers.attachments()?,
        quota: layers.quota()?,
        agent_env,
        allow_bypass: layers.switch(Key::AllowBypass),
        no_commands: layers.switch(Key::NoCommands),
        terminals: layers.terminals(environment)?,
        install_agents: layers.switch(Key::InstallAgents),
        announce_to: layers.announce_to(environment),
        unattended,
        grants: layers.text(Key::GrantFiles, parse_grants)?.unwrap_or_default(),
        session_roots: layers.session_roots(environment)?,
        trusted_folders: layers.folders(Key::TrustedFolders)?,
        allowed_origins: layers.list(Key::AllowedOrigins),
        allowed_hosts: layers.list(Key::AllowedHosts),
        trusted_proxies: layers.addresses(Key::TrustedProxies)?,
        public_url: layers.text(Key::PublicUrl, parse_base)?,
        tls: layers.tls(environment)?,
        exit_on_stdin_eof: layers.switch(Key::ExitOnStdinEof),
        log: layers.text(Key::Log, parse_text)?.unwrap_or_else(|| "warn".to_owned()),
        model: layers.text(Key::Model, parse_text)?,
        permission_mode: layers.text(Key::PermissionMode, parse_text)?,
        cwd: layers.path(Key::Cwd, environment).unwrap_or_else(|| environment.current_dir.clone()),
        json: layers.switch(Key::Json),
        warnings,
        source: None,
        stamp: None,
    })
}

type Layer = BTreeMap<Key, (Value, String)>;

pub(super) struct Layers {
    flags: Layer,
    variables: Layer,
    file: Layer,
}

impl Layers {
    /// The editors' directories in which the host is announced.
    fn announce_to(&self, environment: &HostEnvironment) -> Vec<PathBuf> {
        if self.switch(Key::NoAnnounce) {
            return Vec::new();
        }
        match self.get(Key::AnnounceTo) {
            Some(_) => self.list(Key::AnnounceTo).iter().map(|path| environment.absolute(Path::new(path))).collect(),
            None => editors(&environment.xdg_config),
        }
    }

    /// The winning value of a setting and where it was given.
    pub(super) fn get(&self, key: Key) -> Option<&(Value, String)> {
        [&self.flags, &self.variables, &self.file].into_iter().find_map(|layer| layer.get(&key))
    }

    pub(super) fn text<T>(
        &self,
        key: Key,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SettingsError> {
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

    /// Absolute paths: a relative one would name another folder wherever a command is started.
    fn folders(&self, key: Key) -> Result<Vec<PathBuf>, SettingsError> {
        let folders: Vec<PathBuf> = self.list(key).into_iter().map(PathBuf::from).collect();
        if folders.iter().all(|folder| folder.is_absolute()) {
            return Ok(folders);
        }
        let origin = self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
        Err(SettingsError::Invalid { origin, expected: "a list of absolute paths such as /ci/work".to_owned() })
    }

    fn addresses(&self, key: Key) -> Result<Vec<IpAddr>, SettingsError> {
        let addresses: Result<Vec<IpAddr>, _> = self.list(key).iter().map(|text| text.parse()).collect();
        addresses.map_err(|_| {
            let origin = self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
            SettingsError::Invalid { origin, expected: "a list of IP addresses such as 10.0.0.7".to_owned() }
        })
    }

    /// Where sessions may work. A path that depends on where the host was started is no boundary.
    fn session_roots(&self, environment: &HostEnvironment) -> Result<Vec<PathBuf>, SettingsError> {
        let Some((Value::List(roots), origin)) = self.get(Key::SessionRoots) else { return Ok(Vec::new()) };
        let absolute = |root: &String| match root.strip_prefix("~/") {
            Some(below) => Some(environment.home.join(below)),
            None if root == "~" => Some(environment.home.clone()),
            None => Some(PathBuf::from(root)).filter(|path| path.is_absolute()),
        };
        let roots: Option<Vec<PathBuf>> = roots.iter().map(absolute).collect();
        roots.filter(|roots| !roots.is_empty()).ok_or_else(|| {
            let expected = "a list of absolute paths such as /home/me/src or ~/src, with at least one".to_owned();
            SettingsError::Invalid { origin: origin.clone(), expected }
        })
    }

    /// Certificate and key, which are worth nothing without each other.
    fn tls(&self, environment: &HostEnvironment) -> Result<Option<TlsFiles>, SettingsError> {
        let alone = |key: Key, other: &str| {
            let origin = self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
            SettingsError::Invalid { origin, expected: format!("given together with {other}") }
        };
        match (self.path(Key::TlsCert, environment), self.path(Key::TlsSecret, environment)) {
            (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(alone(Key::TlsCert, "tls-key")),
            (None, Some(_)) => Err(alone(Key::TlsSecret, "tls-cert")),
        }
    }

    /// The upstreams, the default first.
    fn upstreams(
        &self,
        sections: Vec<UpstreamSection>,
        environment: &HostEnvironment,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<UpstreamSpec>, SettingsError> {
        let names: Vec<String> = sections.iter().map(|section| section.name.clone()).collect();
        let chosen = self.text(Key::Upstream, parse_text)?;
        let url = self.text(Key::UpstreamUrl, parse_url)?;
        let name = chosen.as_deref().unwrap_or(UpstreamKind::Anthropic.as_str());
        let origin = |key| self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
        let Some((specs, url_ignored)) = upstreams::upstreams(Chosen { name, url }, sections, environment) else {
            let kinds = UpstreamKind::ALL.map(UpstreamKind::as_str).map(str::to_owned).to_vec();
            let own = names.into_iter().filter(|name| UpstreamKind::named(name).is_none()).collect();
            let expected = format!("one of {}", [kinds, own].concat().join(", "));
            return Err(SettingsError::Invalid { origin: origin(Key::Upstream), expected });
        };
        if url_ignored {
            warnings.push(format!("{} means nothing to the scripted model; ignored.", origin(Key::UpstreamUrl)));
        }
        Ok(specs)
    }

    /// How long and how many agents are kept.
    fn fleet(&self, warnings: &mut Vec<String>) -> Result<FleetOptions, SettingsError> {
        let origin = |key| self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
        let fleet = FleetOptions {
            idle: self.text(Key::Idle, parse_seconds)?,
            idle_max: self.text(Key::IdleMax, parse_seconds)?,
            stall: self.text(Key::Stall, parse_window)?,
            interrupt_grace: self.text(Key::InterruptGrace, parse_seconds)?,
            background_on_stop: self.text(Key::BackgroundOnStop, parse_background)?.unwrap_or_default(),
            show_external: self.text(Key::ShowExternalSessions, parse_shown)?,
            absence: self.text(Key::Absence, parse_seconds)?,
            max_agents: self.text(Key::MaxAgents, parse_above_zero)?,
            max_warm: self.text(Key::MaxWarm, parse_count)?,
            warm: self.switch(Key::Warm),
            max_queue: self.text(Key::MaxQueue, parse_above_zero)?,
            turns_in_memory: self.text(Key::TurnsInMemory, parse_above_zero)?,
        };
        if fleet.idle_max.zip(fleet.idle).is_some_and(|(most, idle)| most < idle) {
            let expected = format!("at least as long as {}", origin(Key::Idle));
            return Err(SettingsError::Invalid { origin: origin(Key::IdleMax), expected });
        }
        if fleet.max_warm.zip(fleet.max_agents).is_some_and(|(warm, all)| warm > all) {
            let expected = format!("not more than {}", origin(Key::MaxAgents));
            return Err(SettingsError::Invalid { origin: origin(Key::MaxWarm), expected });
        }
        if fleet.warm && fleet.max_warm == Some(0) {
            warnings.push("`warm` has no effect with `max-warm = 0`.".to_owned());
        }
        Ok(fleet)
    }

    /// What terminals are made of.
    fn terminals(&self, environment: &HostEnvironment) -> Result<TerminalOptions, SettingsError> {
        Ok(TerminalOptions {
            off: self.switch(Key::NoTerminals),
            shell: self.path(Key::TerminalShell, environment),
            max: self.text(Key::MaxTerminals, parse_above_zero)?,
            scrollback: self.text(Key::TerminalScrollback, parse_bytes)?,
        })
    }

    /// What a running host cannot change, by name.
    fn restart(&self, agent_env: &[(String, SecretString)]) -> BTreeMap<&'static str, Value> {
        let named = TABLE.iter().filter(|setting| setting.counts == Counts::NextStart);
        let mut fixed: BTreeMap<&'static str, Value> =
            named.filter_map(|setting| Some((setting.name, self.get(setting.key)?.0.clone()))).collect();
        let pairs = agent_env.iter().map(|(name, value)| format!("{name}={}", value.expose_secret()));
        fixed.insert("agent.env", Value::List(pairs.collect()));
        fixed
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
                return Err(SettingsError::Conflict { first: origin.clone(), second: second.clone() });
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
    let name = |key: Key| match key {
        // The proxy has its own setting for what is the same flag.
        Key::ProxyListen => "listen",
        // In a call it is plain whose URL is meant.
        Key::PublicUrl => "url",
        _ => TABLE.iter().find(|setting| setting.key == key).map_or("", |setting| setting.name),
    };
    flags.into_iter().map(|(key, value)| (key, (value, format!("--{}", name(key))))).collect()
}

fn from_variables(environment: &HostEnvironment) -> Result<Layer, SettingsError> {
    let mut layer = Layer::new();
    for Setting { key, name, kind, .. } in TABLE {
        let variable = super::variable(name);
        let Some(text) = environment.var(&variable) else {
            continue;
        };
        let value = match kind {
            Kind::Text | Kind::Path | Kind::Seconds | Kind::Count | Kind::Size => Value::Text(text.to_owned()),
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

/// Every variable that holds a credential, or may hold one.
fn credential_variables(sections: &[UpstreamSection]) -> Vec<String> {
    let usual = UpstreamKind::ALL.iter().filter_map(|kind| kind.usual_key_variable()).map(str::to_owned);
    let named = sections.iter().filter_map(|section| match &section.key {
        Some(KeySetting::Variable { name, .. }) => Some(name.clone()),
        _ => None,
    });
    usual.chain([upstreams::KEY_VARIABLE.to_owned()]).chain(named).collect()
}

fn secret(text: &OsString) -> SecretString {
    SecretString::from(text.to_string_lossy().into_owned())
}

#[cfg(test)]
#[path = "tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "upstreams_tests.rs"]
mod upstreams_tests;
