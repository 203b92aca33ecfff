//! Tests of settings: precedence, parsing and errors.

use std::time::Duration;

use hostler_redact::SafeUrl;
use secrecy::ExposeSecret as _;

use super::super::FormerSettingName;
use super::*;
use crate::ports::{BackgroundOnStopSetting, ClaudeChoice, DurabilitySetting, UnattendedSetting, UpstreamSettings};

pub(in crate::settings) const CONFIG: &str = "/etc/hostler/config.toml";

pub(in crate::settings) fn check(
    flags: &[(SettingKey, &str)],
    vars: &[(&str, &str)],
    file: &str,
) -> Result<Settings, SettingsError> {
    let vars = [("HOME", "/home/ada")].iter().chain(vars).map(|(name, value)| (name.into(), value.into()));
    let environment = HostEnvironment::from_vars(vars, "/here".into(), "/scratch".into());
    let flags = flags.iter().map(|(key, value)| {
        let value = match *value {
            "on" => SettingValue::Flag(true),
            text => SettingValue::Text(text.into()),
        };
        (*key, value)
    });
    let file = ConfigFile::parse(file, Path::new(CONFIG))?;
    resolve_settings(flags.collect(), &environment, file)
}

#[test]
fn precedence_is_flag_variable_file_default() {
    let flag: &[_] = &[(SettingKey::Listen, "127.0.0.1:1")];
    let variable: &[_] = &[("HOSTLER_LISTEN", "127.0.0.1:2")];
    let file = "listen = '127.0.0.1:3'";
    for (flags, vars, file, port) in [
        (flag, variable, file, 1),
        (&[], variable, file, 2),
        (&[], &[], file, 3),
        (&[], &[], "", 8137),
        (&[], &[("HOSTLER_LISTEN", "")], file, 3),
    ] {
        assert_eq!(check(flags, vars, file).unwrap().listen.port(), port);
    }
}

#[test]
fn every_setting_has_a_variable_and_a_file_key() {
    for SettingDefinition { key, name, kind, .. } in SETTINGS {
        let (variable, written) = match kind {
            SettingKind::Flag => ("1", "true"),
            SettingKind::List => ("a,b", "['a', 'b']"),
            SettingKind::Text | SettingKind::Path => ("a", "'a'"),
            SettingKind::Seconds => ("2.5", "2.5"),
            SettingKind::Count => ("3", "3"),
            SettingKind::Size => ("3", "'3 MiB'"),
        };
        let variables = [(super::super::environment_variable(name).into(), variable.into())];
        let environment = HostEnvironment::from_vars(variables, "/here".into(), "/scratch".into());
        assert!(variable_layer(&environment, &mut Vec::new()).unwrap().contains_key(&key), "{name}");
        let file = ConfigFile::parse(&format!("{name} = {written}"), Path::new(CONFIG)).unwrap();
        assert!(file.values.contains_key(&key) && file.warnings.is_empty(), "{name}");
    }
}

#[test]
fn wrong_type_is_rejected_with_its_line() {
    for SettingDefinition { name, kind, .. } in SETTINGS {
        let wrong = match kind {
            SettingKind::Seconds | SettingKind::Count => "'5'",
            SettingKind::Size => "true",
            _ => "5",
        };
        let error = check(&[], &[], &format!("\n{name} = {wrong}")).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{CONFIG} line 2: `{name}` must be ")), "{error}");
    }
    let error = check(&[], &[("HOSTLER_JSON", "maybe")], "").unwrap_err().to_string();
    assert_eq!(error, "HOSTLER_JSON must be 1 or 0.");
}

#[test]
fn values_are_parsed_by_type() {
    let file = "
        claude = 'js'
        upstream = 'openai'
        upstream-url = 'http://127.0.0.1:9/v1'
        allowed-origins = ['https://a.example', 'https://b.example']
        state-dir = 'state'
        handshake-timeout = 90
        allow-bypass-permissions = true
        unattended = 'deny'
        unattended-after = 30
        durability = 'full'
        json = true
        [agent.env]
        EDITOR = 'true'
    ";
    let settings = check(&[], &[("HOSTLER_ALLOWED_HOSTS", "a.example, b.example")], file).unwrap();
    assert_eq!(settings.claude, ClaudeChoice::Js);
    let openai = UpstreamSettings::OpenAi { url: SafeUrl::parse("http://127.0.0.1:9/v1"), max_tokens_field: None };
    assert_eq!(settings.gateway.upstreams[0].settings, openai);
    assert_eq!(settings.allowed_origins, ["https://a.example", "https://b.example"]);
    assert_eq!(settings.allowed_hosts, ["a.example", "b.example"]);
    assert_eq!(settings.state_dir, Path::new("/etc/hostler/state"));
    assert_eq!(settings.handshake_timeout, Some(Duration::from_secs(90)));
    assert_eq!(settings.durability, DurabilitySetting::Full);
    assert!(settings.allow_bypass_permissions);
    assert_eq!(settings.unattended, UnattendedSetting::Deny(Some(Duration::from_secs(30))));
    assert!(settings.json && settings.is_state_dir_explicit && !settings.is_upstream_from_flag);
    let [(name, value)] = &settings.agent_env[..] else { panic!("{:?}", settings.agent_env) };
    assert_eq!((name.as_str(), value.expose_secret()), ("EDITOR", "true"));
}

#[test]
fn configuration_docs_list_every_setting_and_their_example_is_valid() {
    let page = include_str!("../../../../docs/configuration.md");
    let mut listed: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    listed.retain(|name| *name != "[agent.env]");
    for FormerSettingName { name, .. } in FORMER_NAMES {
        assert!(page.contains(&format!("`{name}`")), "the page does not mention the former name `{name}`");
    }
    let mut known = SETTINGS.map(|setting| setting.name);
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let settings = check(&[], &[], example).unwrap();
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    assert_eq!(
        (settings.agent_pool.idle_timeout, settings.agent_pool.max_agents),
        (Some(Duration::from_secs(600)), Some(8))
    );
}

/// Returns a value of a kind, as a variable and as written in the file.
fn sample_value(kind: SettingKind) -> (&'static str, &'static str) {
    match kind {
        SettingKind::Flag => ("1", "true"),
        SettingKind::List => ("/a,/b", "['/a', '/b']"),
        SettingKind::Text | SettingKind::Path => ("a", "'a'"),
        SettingKind::Seconds | SettingKind::Count => ("30", "30"),
        SettingKind::Size => ("3", "'3 MiB'"),
    }
}

#[test]
fn former_names_work_with_one_warning() {
    for FormerSettingName { key, name: former } in FORMER_NAMES {
        let SettingDefinition { name, kind, .. } = SETTINGS.into_iter().find(|setting| setting.key == key).unwrap();
        assert!(!SETTINGS.iter().any(|setting| setting.name == former), "{former} is also a current name");
        let (value, written) = sample_value(kind);

        let file = ConfigFile::parse(&format!("{former} = {written}"), Path::new(CONFIG)).unwrap();
        let expected = ConfigFile::parse(&format!("{name} = {written}"), Path::new(CONFIG)).unwrap();
        assert!(file.values[&key].0 == expected.values[&key].0, "{former}");
        let settings = check(&[], &[], &format!("{former} = {written}")).unwrap();
        let warning = format!("{CONFIG} line 1: `{former}` is now called `{name}`.");
        assert!(settings.warnings.starts_with(std::slice::from_ref(&warning)), "{:?}", settings.warnings);
        assert_eq!(settings.warnings.iter().filter(|text| text.contains("is now called")).count(), 1);

        let (old, new) = (super::super::environment_variable(former), super::super::environment_variable(name));
        let settings = check(&[], &[(&old, value)], "").unwrap();
        let warning = format!("{old} is now called {new}.");
        assert!(settings.warnings.starts_with(std::slice::from_ref(&warning)), "{:?}", settings.warnings);
        let sentences: Vec<String> = settings.former_names.iter().map(ToString::to_string).collect();
        assert_eq!(sentences, [warning]);
        let mut variables = Vec::new();
        let environment =
            |name: &str| HostEnvironment::from_vars([(name.into(), value.into())], "/here".into(), "/scratch".into());
        let layer = variable_layer(&environment(&old), &mut variables).unwrap();
        let current = variable_layer(&environment(&new), &mut variables).unwrap();
        assert!(layer[&key].0 == current[&key].0, "{former}");
    }
    let pool = check(&[], &[("HOSTLER_MAX_WARM", "3")], "idle = 60\nwarm = true").unwrap().agent_pool;
    assert_eq!((pool.idle_timeout, pool.prewarm, pool.max_prewarmed), (Some(Duration::from_secs(60)), true, Some(3)));
}

#[test]
fn former_and_current_name_together_are_an_error_that_names_both() {
    for FormerSettingName { key, name: former } in FORMER_NAMES {
        let SettingDefinition { name, kind, .. } = SETTINGS.into_iter().find(|setting| setting.key == key).unwrap();
        let (value, written) = sample_value(kind);
        let (old, new) = (super::super::environment_variable(former), super::super::environment_variable(name));
        let error = check(&[], &[(&old, value), (&new, value)], "").unwrap_err();
        assert_eq!(error.code(), "conflictingSettings");
        assert_eq!(error.to_string(), format!("{new} and {old} cannot be used together. Remove one of them."));
        let error = check(&[], &[], &format!("{name} = {written}\n{former} = {written}")).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}`")) && error.contains(&format!("`{former}`")), "{error}");
    }
    // The sources have a precedence; a former name in one of them does not conflict with another source.
    let settings = check(&[], &[("HOSTLER_IDLE_TIMEOUT", "5")], "idle = 60").unwrap();
    assert_eq!(settings.agent_pool.idle_timeout, Some(Duration::from_secs(5)));
}

#[test]
fn agent_idle_windows_and_limits_are_parsed_and_checked() {
    let file = "
        idle-timeout = 60
        idle-timeout-max = 600
        stall-timeout = 30
        interrupt-grace = 0.5
        background-on-stop = 'ask'
        show-external-sessions = 'last7Days'
        client-timeout = 10
        max-agents = 4
        max-queued-messages = 7
        prewarm = true
    ";
    let pool = check(&[], &[("HOSTLER_MAX_PREWARMED", "1")], file).unwrap().agent_pool;
    let seconds = |seconds| Some(Duration::from_secs_f64(seconds));
    assert_eq!(
        (pool.idle_timeout, pool.idle_timeout_max, pool.stall_timeout),
        (seconds(60.0), seconds(600.0), seconds(30.0))
    );
    assert_eq!((pool.interrupt_grace, pool.client_timeout), (seconds(0.5), seconds(10.0)));
    assert_eq!((pool.max_agents, pool.max_prewarmed, pool.prewarm), (Some(4), Some(1), true));
    assert_eq!((pool.max_queued_messages, pool.background_on_stop), (Some(7), BackgroundOnStopSetting::Ask));
    assert_eq!(pool.external_session_filter, Some("last7Days"));
    assert_eq!(check(&[], &[], "").unwrap().agent_pool, crate::ports::AgentPoolOptions::default());

    let refused = |vars: &[(&str, &str)], file: &str| check(&[], vars, file).unwrap_err().to_string();
    let policy = refused(&[("HOSTLER_BACKGROUND_ON_STOP", "kill")], "");
    assert_eq!(policy, "HOSTLER_BACKGROUND_ON_STOP must be keep, stop or ask.");
    assert_eq!(refused(&[("HOSTLER_MAX_AGENTS", "0")], ""), "HOSTLER_MAX_AGENTS must be a whole number above 0.");
    assert_eq!(refused(&[("HOSTLER_MAX_PREWARMED", "two")], ""), "HOSTLER_MAX_PREWARMED must be a whole number.");
    assert_eq!(
        refused(&[("HOSTLER_IDLE_TIMEOUT", "0")], ""),
        "HOSTLER_IDLE_TIMEOUT must be a number of seconds above 0."
    );
    assert_eq!(
        refused(&[("HOSTLER_IDLE_TIMEOUT", "700")], "idle-timeout-max = 600"),
        format!("{CONFIG} line 1: `idle-timeout-max` must be at least as long as HOSTLER_IDLE_TIMEOUT.")
    );
    assert_eq!(
        refused(&[], "max-agents = 2\nmax-prewarmed = 3"),
        format!("{CONFIG} line 2: `max-prewarmed` must be at most {CONFIG} line 1: `max-agents`.")
    );
    assert_eq!(
        check(&[], &[], "stall-timeout = 0").unwrap().agent_pool.stall_timeout,
        Some(Duration::ZERO),
        "no limit"
    );
    let stall = refused(&[("HOSTLER_STALL_TIMEOUT", "-1")], "");
    assert_eq!(stall, "HOSTLER_STALL_TIMEOUT must be a number of seconds, or 0 for no limit.");
    let warnings = check(&[], &[], "prewarm = true\nmax-prewarmed = 0").unwrap().warnings;
    assert_eq!(warnings, ["`prewarm` has no effect with `max-prewarmed = 0`."]);
}

#[test]
fn flag_paths_are_relative_to_the_working_directory() {
    let settings = check(&[(SettingKey::StateDir, "s"), (SettingKey::Claude, "bin/claude")], &[], "").unwrap();
    assert_eq!(settings.state_dir, Path::new("/here/s"));
    assert_eq!(settings.claude, ClaudeChoice::Path("/here/bin/claude".into()));
    assert_eq!(check(&[], &[], "").unwrap().state_dir, Path::new("/home/ada/.local/state/hostler"));
}

#[test]
fn unknown_key_warns_with_key_and_line() {
    let settings = check(&[], &[], "# hello\nlistn = 'x'\n\n[agent]\nenvy = 1\n[other]\na = 1").unwrap();
    let mut warnings = settings.warnings;
    warnings.sort();
    assert_eq!(
        warnings,
        [
            "/etc/hostler/config.toml line 2: `listn` is not a setting. Ignored.",
            "/etc/hostler/config.toml line 5: `agent.envy` is not a setting. Ignored.",
            "/etc/hostler/config.toml line 6: `other` is not a setting. Ignored.",
        ]
    );
}

#[test]
fn invalid_toml_is_reported_by_line_without_quoting_it() {
    let error = check(&[], &[], "listen = '127.0.0.1:0'\ntoken = 'planted-secret").unwrap_err().to_string();
    assert!(error.starts_with("/etc/hostler/config.toml line 2: "), "{error}");
    assert!(!error.contains("planted"), "{error}");
}

#[test]
fn no_token_is_rejected_for_non_loopback_addresses() {
    let off = |listen| check(&[(SettingKey::NoToken, "on"), (SettingKey::Listen, listen)], &[], "");
    assert!(off("0.0.0.0:0").unwrap_err().to_string().contains("loopback only"));
    assert!(off("192.0.2.1:80").unwrap_err().to_string().contains("loopback only"));
    assert!(matches!(off("127.0.0.9:0").unwrap().token, TokenChoice::Disabled));
    assert!(matches!(off("[::1]:0").unwrap().token, TokenChoice::Disabled));
    assert!(matches!(off("localhost:0").unwrap().token, TokenChoice::Disabled));
    // A source with higher precedence that gives a token decides.
    let given = check(&[(SettingKey::Token, "t"), (SettingKey::Listen, "0.0.0.0:0")], &[("HOSTLER_NO_TOKEN", "1")], "")
        .unwrap();
    assert!(matches!(given.token, TokenChoice::Given(_)));
}

#[test]
fn no_token_is_rejected_with_non_loopback_host_names() {
    for (flags, vars, file, origin) in [
        (&[(SettingKey::NoToken, "on")][..], &[][..], "public-url = 'https://box.example'", "`public-url`"),
        (&[(SettingKey::NoToken, "on")], &[("HOSTLER_ALLOWED_HOSTS", "box.example")], "", "HOSTLER_ALLOWED_HOSTS"),
        (&[], &[], "no-token = true\nallowed-hosts = ['box.example']", "`allowed-hosts`"),
        (&[], &[("HOSTLER_NO_TOKEN", "1"), ("HOSTLER_PUBLIC_URL", "http://box.example")], "", "HOSTLER_PUBLIC_URL"),
    ] {
        let error = check(flags, vars, file).unwrap_err().to_string();
        assert!(error.contains("without a token accepts loopback names only") && error.contains(origin), "{error}");
    }
    assert!(check(&[(SettingKey::NoToken, "on")], &[], "allowed-hosts = []").is_ok());
    assert!(
        check(&[(SettingKey::Token, "t")], &[("HOSTLER_NO_TOKEN", "1")], "public-url = 'https://box.example'").is_ok()
    );
}

#[test]
fn session_roots_must_be_absolute_paths() {
    let roots = |file: &str| check(&[], &[("HOME", "/home/me")], file).map(|settings| settings.session_roots);
    assert_eq!(roots("").unwrap(), Vec::<PathBuf>::new());
    let given = roots("session-roots = ['/srv/src', '~/src', '~']").unwrap();
    assert_eq!(given, ["/srv/src", "/home/me/src", "/home/me"].map(PathBuf::from));
    for file in [
        "session-roots = []",
        "session-roots = ['src']",
        "session-roots = ['/srv', '~other/src']",
        "session-roots = ['']",
    ] {
        let error = roots(file).unwrap_err().to_string();
        assert!(error.contains("`session-roots` must be a list of absolute paths"), "{file}: {error}");
    }
}

#[test]
fn two_token_settings_in_one_source_conflict() {
    let error = check(&[(SettingKey::Token, "t"), (SettingKey::NoToken, "on")], &[], "").unwrap_err().to_string();
    assert_eq!(error, "--token and --no-token cannot be used together. Remove one of them.");
}

#[test]
fn invalid_value_error_names_origin_and_expected_value() {
    for (flags, vars, file, expected) in [
        (
            &[(SettingKey::Listen, "8137")][..],
            &[][..],
            "",
            "--listen must be an address and a port such as 127.0.0.1:8137.",
        ),
        (
            &[],
            &[("HOSTLER_UPSTREAM", "acme")],
            "",
            "HOSTLER_UPSTREAM must be one of anthropic, copilot, openai, scripted.",
        ),
        (
            &[],
            &[],
            "upstream-url = 'ftp://x'",
            "/etc/hostler/config.toml line 1: `upstream-url` must be an http or https URL.",
        ),
        (
            &[],
            &[("HOSTLER_HANDSHAKE_TIMEOUT", "soon")],
            "",
            "HOSTLER_HANDSHAKE_TIMEOUT must be a number of seconds above 0.",
        ),
        (
            &[],
            &[],
            "handshake-timeout = -1",
            "/etc/hostler/config.toml line 1: `handshake-timeout` must be a number of seconds above 0.",
        ),
        (&[(SettingKey::Token, "p$l")], &[], "", "--token must be letters, digits, `_` and `-` only."),
    ] {
        assert_eq!(check(flags, vars, file).unwrap_err().to_string(), expected);
    }
}

#[test]
fn public_url_must_not_have_a_path() {
    for (given, expected) in [
        ("https://box.example/", "https://box.example"),
        ("http://[::1]:80", "http://[::1]"),
        ("http://a:1", "http://a:1"),
    ] {
        assert_eq!(check(&[(SettingKey::PublicUrl, given)], &[], "").unwrap().public_url.as_deref(), Some(expected));
    }
    for given in ["box.example", "ftp://a", "https://a/b", "https://a?b", "https://a#b", "https://me@a", "https://"] {
        let error = check(&[(SettingKey::PublicUrl, given)], &[], "").unwrap_err().to_string();
        assert!(error.starts_with("--url must be an http or https URL without a path"), "{given}: {error}");
    }
}

#[test]
fn certificate_needs_its_key_and_proxies_must_be_addresses() {
    let tls = check(&[], &[], "tls-cert = 'a.pem'\ntls-key = '/b.pem'").unwrap().tls.unwrap();
    assert_eq!((tls.cert, tls.key), ("/etc/hostler/a.pem".into(), "/b.pem".into()));
    let error = check(&[(SettingKey::TlsCert, "a.pem")], &[], "").unwrap_err().to_string();
    assert_eq!(error, "--tls-cert must be given together with tls-key.");
    let error = check(&[], &[("HOSTLER_TLS_KEY", "a.pem")], "").unwrap_err().to_string();
    assert_eq!(error, "HOSTLER_TLS_KEY must be given together with tls-cert.");
    let proxies = check(&[], &[], "trusted-proxies = ['10.0.0.7', '::1']").unwrap().trusted_proxies;
    assert_eq!(proxies.len(), 2);
    assert!(
        check(&[], &[("HOSTLER_TRUSTED_PROXIES", "proxy.example")], "")
            .unwrap_err()
            .to_string()
            .contains("IP addresses")
    );
}
