//! Merges flags, environment variables and configuration file into [`Settings`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret as _, SecretString};

use super::attachments::parse_bytes;
use super::config_sections::{UpstreamKeySource, UpstreamSection};
use super::parse_values::{
    ConfigValueError, parse_background_on_stop, parse_base_url, parse_claude, parse_count, parse_credential_store,
    parse_durability, parse_external_session_filter, parse_file_grants, parse_listen, parse_positive_count,
    parse_seconds, parse_seconds_or_zero, parse_text, parse_unattended, parse_url,
};
use super::upstreams::{self, DefaultUpstreamChoice};
use super::{
    ConfigFile, DEFAULT_LISTEN, DEFAULT_PROXY_LISTEN, FORMER_NAMES, FormerNameUse, SETTINGS, SettingDefinition,
    SettingKey, SettingKind, SettingValue, Settings, SettingsError, TakesEffect, TokenChoice, find_setting,
};
use crate::environment::HostEnvironment;
use crate::ports::{
    AgentPoolOptions, GatewayOptions, TerminalOptions, TlsFiles, UnattendedSetting, UpstreamKind, UpstreamSpec,
    VaultSettings,
};
use crate::state::{editor_data_dirs, is_valid_token};

/// Merges the three sources of settings. Pure: the environment is a value.
pub(crate) fn resolve_settings(
    flags: Vec<(SettingKey, SettingValue)>,
    environment: &HostEnvironment,
    file: ConfigFile,
) -> Result<Settings, SettingsError> {
    let ConfigFile { values, agent_env, upstreams, limits, prices, mut former_names, warnings: file_warnings } = file;
    let variables = variable_layer(environment, &mut former_names)?;
    let mut warnings: Vec<String> = former_names.iter().map(ToString::to_string).chain(file_warnings).collect();
    let layers = SettingLayers { flags: flag_layer(flags), variables, file: values };
    let listen = layers.text(SettingKey::Listen, parse_listen)?.unwrap_or(DEFAULT_LISTEN);
    let token = layers.token(environment)?;
    if matches!(token, TokenChoice::Disabled) && !listen.ip().is_loopback() {
        return Err(SettingsError::NoTokenOffLoopback(listen));
    }
    let named = [SettingKey::PublicUrl, SettingKey::AllowedHosts].into_iter().find_map(|key| match layers.get(key) {
        Some((SettingValue::List(names), _)) if names.is_empty() => None,
        named => named.map(|(_, origin)| origin.clone()),
    });
    if let (TokenChoice::Disabled, Some(origin)) = (&token, named) {
        return Err(SettingsError::NoTokenWithHostName(origin));
    }
    let credential_variables = credential_variables(&upstreams);
    let upstreams = layers.upstreams(upstreams, environment, &mut warnings)?;
    let allowed_betas = layers.get(SettingKey::AllowedBetas).map(|_| layers.list(SettingKey::AllowedBetas));
    let state_dir = layers.path(SettingKey::StateDir, environment);
    let state_dir_given = state_dir.is_some();
    let state_dir = state_dir.unwrap_or_else(|| environment.xdg_state.join("hostler"));
    let deny_after = layers.text(SettingKey::UnattendedAfter, parse_seconds)?;
    let unattended = match layers.text(SettingKey::Unattended, parse_unattended)?.unwrap_or_default() {
        UnattendedSetting::Deny(_) => UnattendedSetting::Deny(deny_after),
        // A timeout without an action is a mistake.
        other if deny_after.is_some() => {
            warnings.push("`unattended-after` has no effect without `unattended = \"deny\"`.".to_owned());
            other
        }
        other => other,
    };
    let store = layers.text(SettingKey::CredentialStore, parse_credential_store)?.unwrap_or_default();
    Ok(Settings {
        listen,
        token,
        is_state_dir_explicit: state_dir_given,
        credential_vault: VaultSettings { directory: state_dir.join("credentials"), store },
        state_dir,
        gateway: GatewayOptions { upstreams, allowed_betas, limits, prices },
        is_upstream_from_flag: layers.flags.contains_key(&SettingKey::Upstream),
        credential_variables,
        proxy_listen: layers.text(SettingKey::ProxyListen, parse_listen)?.unwrap_or(DEFAULT_PROXY_LISTEN),
        log_requests: layers.flag(SettingKey::LogRequests),
        metrics: layers.flag(SettingKey::Metrics),
        restart_settings: layers.restart_settings(&agent_env),
        claude: layers.text(SettingKey::Claude, |text| Ok(parse_claude(text, environment)))?.unwrap_or_default(),
        handshake_timeout: layers.text(SettingKey::HandshakeTimeout, parse_seconds)?,
        agent_pool: layers.agent_pool(&mut warnings)?,
        durability: layers.text(SettingKey::Durability, parse_durability)?.unwrap_or_default(),
        attachment_limits: layers.attachment_limits()?,
        content_quota_bytes: layers.content_quota_bytes()?,
        agent_env,
        allow_bypass_permissions: layers.flag(SettingKey::AllowBypassPermissions),
        disable_shell_commands: layers.flag(SettingKey::DisableShellCommands),
        terminals: layers.terminals(environment)?,
        install_agents: layers.flag(SettingKey::InstallAgents),
        editor_data_dirs: layers.editor_data_dirs(environment),
        unattended,
        file_grants: layers.text(SettingKey::FileGrants, parse_file_grants)?.unwrap_or_default(),
        session_roots: layers.session_roots(environment)?,
        trusted_folders: layers.absolute_paths(SettingKey::TrustedFolders)?,
        allowed_origins: layers.list(SettingKey::AllowedOrigins),
        allowed_hosts: layers.list(SettingKey::AllowedHosts),
        trusted_proxies: layers.ip_addresses(SettingKey::TrustedProxies)?,
        public_url: layers.text(SettingKey::PublicUrl, parse_base_url)?,
        tls: layers.tls(environment)?,
        exit_on_stdin_eof: layers.flag(SettingKey::ExitOnStdinEof),
        log_filter: layers.text(SettingKey::Log, parse_text)?.unwrap_or_else(|| "warn".to_owned()),
        model: layers.text(SettingKey::Model, parse_text)?,
        permission_mode: layers.text(SettingKey::PermissionMode, parse_text)?,
        cwd: layers.path(SettingKey::Cwd, environment).unwrap_or_else(|| environment.current_dir.clone()),
        json: layers.flag(SettingKey::Json),
        warnings,
        former_names,
        source: None,
        config_stamp: None,
    })
}

type SettingLayer = BTreeMap<SettingKey, (SettingValue, String)>;

pub(super) struct SettingLayers {
    flags: SettingLayer,
    variables: SettingLayer,
    file: SettingLayer,
}

impl SettingLayers {
    /// Returns the editor directories in which the host is announced.
    fn editor_data_dirs(&self, environment: &HostEnvironment) -> Vec<PathBuf> {
        if self.flag(SettingKey::DisableEditorAnnouncement) {
            return Vec::new();
        }
        match self.get(SettingKey::EditorDataDirs) {
            Some(_) => self
                .list(SettingKey::EditorDataDirs)
                .iter()
                .map(|path| environment.resolve_path(Path::new(path)))
                .collect(),
            None => editor_data_dirs(&environment.xdg_config),
        }
    }

    /// Returns the effective value of a setting and where it was given.
    pub(super) fn get(&self, key: SettingKey) -> Option<&(SettingValue, String)> {
        [&self.flags, &self.variables, &self.file].into_iter().find_map(|layer| layer.get(&key))
    }

    pub(super) fn text<T>(
        &self,
        key: SettingKey,
        parse: impl Fn(&str) -> Result<T, ConfigValueError>,
    ) -> Result<Option<T>, SettingsError> {
        let Some((SettingValue::Text(text), origin)) = self.get(key) else {
            return Ok(None);
        };
        let parsed = match text.to_str() {
            Some(text) => parse(text),
            None => Err(ConfigValueError::new("valid UTF-8")),
        };
        parsed
            .map(Some)
            .map_err(|error| SettingsError::Invalid { origin: origin.clone(), expected: error.expected.into_owned() })
    }

    fn path(&self, key: SettingKey, environment: &HostEnvironment) -> Option<PathBuf> {
        match self.get(key) {
            Some((SettingValue::Text(text), _)) => Some(environment.resolve_path(Path::new(text))),
            _ => None,
        }
    }

    fn flag(&self, key: SettingKey) -> bool {
        matches!(self.get(key), Some((SettingValue::Flag(true), _)))
    }

    fn list(&self, key: SettingKey) -> Vec<String> {
        match self.get(key) {
            Some((SettingValue::List(items), _)) => items.clone(),
            _ => Vec::new(),
        }
    }

    /// Parses absolute paths: a relative one would depend on where a command is started.
    fn absolute_paths(&self, key: SettingKey) -> Result<Vec<PathBuf>, SettingsError> {
        let folders: Vec<PathBuf> = self.list(key).into_iter().map(PathBuf::from).collect();
        if folders.iter().all(|folder| folder.is_absolute()) {
            return Ok(folders);
        }
        let origin = self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
        Err(SettingsError::Invalid { origin, expected: "a list of absolute paths such as /ci/work".to_owned() })
    }

    fn ip_addresses(&self, key: SettingKey) -> Result<Vec<IpAddr>, SettingsError> {
        let addresses: Result<Vec<IpAddr>, _> = self.list(key).iter().map(|text| text.parse()).collect();
        addresses.map_err(|_| {
            let origin = self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
            SettingsError::Invalid { origin, expected: "a list of IP addresses such as 10.0.0.7".to_owned() }
        })
    }

    /// Returns the directories that sessions may work in. They are absolute: a path that depends on where the host
    /// was started is no boundary.
    fn session_roots(&self, environment: &HostEnvironment) -> Result<Vec<PathBuf>, SettingsError> {
        let Some((SettingValue::List(roots), origin)) = self.get(SettingKey::SessionRoots) else {
            return Ok(Vec::new());
        };
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

    /// Returns certificate and key; both or neither must be given.
    fn tls(&self, environment: &HostEnvironment) -> Result<Option<TlsFiles>, SettingsError> {
        let missing_other = |key: SettingKey, other: &str| {
            let origin = self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
            SettingsError::Invalid { origin, expected: format!("given together with {other}") }
        };
        match (self.path(SettingKey::TlsCert, environment), self.path(SettingKey::TlsKey, environment)) {
            (Some(cert), Some(key)) => Ok(Some(TlsFiles { cert, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(missing_other(SettingKey::TlsCert, "tls-key")),
            (None, Some(_)) => Err(missing_other(SettingKey::TlsKey, "tls-cert")),
        }
    }

    /// Returns the upstreams, the default first.
    fn upstreams(
        &self,
        sections: Vec<UpstreamSection>,
        environment: &HostEnvironment,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<UpstreamSpec>, SettingsError> {
        let names: Vec<String> = sections.iter().map(|section| section.name.clone()).collect();
        let chosen = self.text(SettingKey::Upstream, parse_text)?;
        let url = self.text(SettingKey::UpstreamUrl, parse_url)?;
        let name = chosen.as_deref().unwrap_or(UpstreamKind::Anthropic.as_str());
        let origin = |key| self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
        let Some((specs, url_ignored)) =
            upstreams::resolve_upstreams(DefaultUpstreamChoice { name, url }, sections, environment)
        else {
            let kinds = UpstreamKind::ALL.map(UpstreamKind::as_str).map(str::to_owned).to_vec();
            let own = names.into_iter().filter(|name| UpstreamKind::from_name(name).is_none()).collect();
            let expected = format!("one of {}", [kinds, own].concat().join(", "));
            return Err(SettingsError::Invalid { origin: origin(SettingKey::Upstream), expected });
        };
        if url_ignored {
            warnings.push(format!("{} has no effect on the scripted model. Ignored.", origin(SettingKey::UpstreamUrl)));
        }
        Ok(specs)
    }

    /// Returns idle window and limits of the agent pool.
    fn agent_pool(&self, warnings: &mut Vec<String>) -> Result<AgentPoolOptions, SettingsError> {
        let origin = |key| self.get(key).map(|(_, origin)| origin.clone()).unwrap_or_default();
        let pool = AgentPoolOptions {
            idle_timeout: self.text(SettingKey::IdleTimeout, parse_seconds)?,
            idle_timeout_max: self.text(SettingKey::IdleTimeoutMax, parse_seconds)?,
            stall_timeout: self.text(SettingKey::StallTimeout, parse_seconds_or_zero)?,
            interrupt_grace: self.text(SettingKey::InterruptGrace, parse_seconds)?,
            background_on_stop: self.text(SettingKey::BackgroundOnStop, parse_background_on_stop)?.unwrap_or_default(),
            external_session_filter: self.text(SettingKey::ShowExternalSessions, parse_external_session_filter)?,
            client_timeout: self.text(SettingKey::ClientTimeout, parse_seconds)?,
            max_agents: self.text(SettingKey::MaxAgents, parse_positive_count)?,
            max_prewarmed: self.text(SettingKey::MaxPrewarmed, parse_count)?,
            prewarm: self.flag(SettingKey::Prewarm),
            max_queued_messages: self.text(SettingKey::MaxQueuedMessages, parse_positive_count)?,
            max_turns_in_memory: self.text(SettingKey::MaxTurnsInMemory, parse_positive_count)?,
        };
        if pool.idle_timeout_max.zip(pool.idle_timeout).is_some_and(|(max, idle)| max < idle) {
            let expected = format!("at least as long as {}", origin(SettingKey::IdleTimeout));
            return Err(SettingsError::Invalid { origin: origin(SettingKey::IdleTimeoutMax), expected });
        }
        if pool.max_prewarmed.zip(pool.max_agents).is_some_and(|(prewarmed, all)| prewarmed > all) {
            let expected = format!("at most {}", origin(SettingKey::MaxAgents));
            return Err(SettingsError::Invalid { origin: origin(SettingKey::MaxPrewarmed), expected });
        }
        if pool.prewarm && pool.max_prewarmed == Some(0) {
            warnings.push("`prewarm` has no effect with `max-prewarmed = 0`.".to_owned());
        }
        Ok(pool)
    }

    /// Returns the terminal options.
    fn terminals(&self, environment: &HostEnvironment) -> Result<TerminalOptions, SettingsError> {
        Ok(TerminalOptions {
            is_disabled: self.flag(SettingKey::DisableTerminals),
            shell: self.path(SettingKey::TerminalShell, environment),
            max_terminals: self.text(SettingKey::MaxTerminals, parse_positive_count)?,
            scrollback_bytes: self.text(SettingKey::TerminalScrollback, parse_bytes)?,
        })
    }

    /// Returns settings that a running host cannot change, by name.
    fn restart_settings(&self, agent_env: &[(String, SecretString)]) -> BTreeMap<&'static str, SettingValue> {
        let named = SETTINGS.iter().filter(|setting| setting.takes_effect == TakesEffect::OnRestart);
        let mut fixed: BTreeMap<&'static str, SettingValue> =
            named.filter_map(|setting| Some((setting.name, self.get(setting.key)?.0.clone()))).collect();
        let pairs = agent_env.iter().map(|(name, value)| format!("{name}={}", value.expose_secret()));
        fixed.insert("agent.env", SettingValue::List(pairs.collect()));
        fixed
    }

    /// Chooses the token. Three settings give it: the source with the highest precedence decides, and it may give
    /// only one.
    fn token(&self, environment: &HostEnvironment) -> Result<TokenChoice, SettingsError> {
        for layer in [&self.flags, &self.variables, &self.file] {
            let given = [SettingKey::Token, SettingKey::TokenFile, SettingKey::NoToken].into_iter().filter_map(|key| {
                let (value, origin) = layer.get(&key)?;
                match (key, value) {
                    (SettingKey::NoToken, SettingValue::Flag(true)) => Some((TokenChoice::Disabled, origin)),
                    (SettingKey::TokenFile, SettingValue::Text(path)) => {
                        Some((TokenChoice::File(environment.resolve_path(Path::new(path))), origin))
                    }
                    (SettingKey::Token, SettingValue::Text(token)) => {
                        Some((TokenChoice::Given(to_secret(token)), origin))
                    }
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
                && !is_valid_token(token)
            {
                let expected = "letters, digits, `_` and `-` only".to_owned();
                return Err(SettingsError::Invalid { origin: origin.clone(), expected });
            }
            return Ok(choice);
        }
        Ok(TokenChoice::StateDirectory)
    }
}

fn flag_layer(flags: Vec<(SettingKey, SettingValue)>) -> SettingLayer {
    let name = |key: SettingKey| match key {
        // The proxy has its own setting for the same flag.
        SettingKey::ProxyListen => "listen",
        // The flag is shorter than the setting, because its command makes the meaning clear.
        SettingKey::PublicUrl => "url",
        _ => SETTINGS.iter().find(|setting| setting.key == key).map_or("", |setting| setting.name),
    };
    flags.into_iter().map(|(key, value)| (key, (value, format!("--{}", name(key))))).collect()
}

/// Reads the variables of all settings, and those of former names.
fn variable_layer(
    environment: &HostEnvironment,
    former_names: &mut Vec<FormerNameUse>,
) -> Result<SettingLayer, SettingsError> {
    let mut layer = SettingLayer::new();
    let current = SETTINGS.iter().map(|setting| setting.name);
    for name in current.chain(FORMER_NAMES.iter().map(|former| former.name)) {
        let variable = super::environment_variable(name);
        let (Some(text), Some((setting, is_former))) = (environment.var(&variable), find_setting(name)) else {
            continue;
        };
        let SettingDefinition { key, kind, .. } = setting;
        if is_former {
            let current = super::environment_variable(setting.name);
            former_names.push(FormerNameUse { origin: variable.clone(), current });
        }
        let value = match kind {
            SettingKind::Text | SettingKind::Path | SettingKind::Seconds | SettingKind::Count | SettingKind::Size => {
                SettingValue::Text(text.to_owned())
            }
            SettingKind::List => SettingValue::List(split_list(text)),
            SettingKind::Flag => match text.to_str() {
                Some("1" | "true" | "yes" | "on") => SettingValue::Flag(true),
                Some("0" | "false" | "no" | "off") => SettingValue::Flag(false),
                _ => {
                    return Err(SettingsError::Invalid { origin: variable, expected: "1 or 0".to_owned() });
                }
            },
        };
        if let Some((_, first)) = layer.insert(key, (value, variable.clone())) {
            return Err(SettingsError::Conflict { first, second: variable });
        }
    }
    Ok(layer)
}

fn split_list(text: &std::ffi::OsStr) -> Vec<String> {
    text.to_string_lossy().split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

/// Returns every variable that contains, or may contain, a credential.
fn credential_variables(sections: &[UpstreamSection]) -> Vec<String> {
    let default = UpstreamKind::ALL.iter().filter_map(|kind| kind.default_key_variable()).map(str::to_owned);
    let named = sections.iter().filter_map(|section| match &section.key_source {
        Some(UpstreamKeySource::Variable { name, .. }) => Some(name.clone()),
        _ => None,
    });
    default.chain([upstreams::KEY_VARIABLE.to_owned()]).chain(named).collect()
}

fn to_secret(text: &OsString) -> SecretString {
    SecretString::from(text.to_string_lossy().into_owned())
}

#[cfg(test)]
#[path = "tests.rs"]
pub(super) mod tests;

#[cfg(test)]
#[path = "upstreams_tests.rs"]
mod upstreams_tests;
