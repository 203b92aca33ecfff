//! Tests of upstream, limit and price settings.

use std::path::PathBuf;

use hostler_redact::SafeUrl;
use secrecy::ExposeSecret as _;

use super::tests::{CONFIG, check};
use super::*;
use crate::ports::{
    CopilotModeSetting, CredentialSpec, CredentialStoreSetting, DollarAmount, LimitSettings, PriceSettings,
    UpstreamSettings,
};

fn names(settings: &Settings) -> Vec<&str> {
    settings.gateway.upstreams.iter().map(|spec| spec.name.as_str()).collect()
}

/// Describes where each upstream's credential comes from.
fn credentials(settings: &Settings) -> Vec<String> {
    let sources = settings.gateway.upstreams.iter().map(|spec| {
        let from = match &spec.credential {
            CredentialSpec::None => "none".to_owned(),
            CredentialSpec::Variable { name, key } => format!("{name}={}", key.expose_secret()),
            CredentialSpec::File(path) => path.display().to_string(),
            CredentialSpec::Stored { keyring, missing_message: missing } => {
                format!(
                    "stored{}{}",
                    if *keyring { " keyring" } else { "" },
                    if missing.is_some() { " needed" } else { "" }
                )
            }
            CredentialSpec::Missing(_) => "missing".to_owned(),
        };
        format!("{}: {from}", spec.name)
    });
    sources.collect()
}

const TWO: &str = "
[upstreams.work]
kind = 'anthropic'
[upstreams.local]
kind = 'openai'
url = 'http://127.0.0.1:9/v1'
";

#[test]
fn default_upstream_comes_first_and_others_follow() {
    for (flags, vars, file, expected) in [
        (&[][..], &[][..], "", &["anthropic"][..]),
        (&[], &[], TWO, &["anthropic", "local", "work"]),
        (&[], &[], &format!("upstream = 'work'\n{TWO}"), &["work", "local"]),
        (&[], &[("HOSTLER_UPSTREAM", "local")], &format!("upstream = 'work'\n{TWO}"), &["local", "work"]),
        (&[(SettingKey::Upstream, "scripted")], &[("HOSTLER_UPSTREAM", "local")], TWO, &["scripted", "local", "work"]),
        (&[(SettingKey::Upstream, "openai")], &[], "[upstreams.openai]\nurl = 'http://127.0.0.1:9'", &["openai"]),
    ] {
        assert_eq!(names(&check(flags, vars, file).unwrap()), expected, "{file}");
    }
}

#[test]
fn every_upstream_field_is_parsed() {
    let file = "
        upstream = 'work'
        [upstreams.work]
        kind = 'anthropic'
        url = 'https://api.example'
        bearer = true
        [upstreams.copilot]
        github-url = 'https://github.example'
        github-api-url = 'https://api.github.example'
        api-url = 'https://copilot.example'
        integration-id = 'hostler'
        client-id = 'Iv1.abc'
        mode = 'token'
        [upstreams.local]
        kind = 'openai'
        url = 'http://127.0.0.1:9/v1'
        max-tokens-field = 'max_completion_tokens'
        [upstreams.toy]
        kind = 'scripted'
    ";
    let settings = check(&[], &[], file).unwrap();
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    let of = |name: &str| {
        settings.gateway.upstreams.iter().find(|spec| spec.name == name).map(|spec| spec.settings.clone()).unwrap()
    };
    assert_eq!(of("work"), UpstreamSettings::Anthropic { url: SafeUrl::parse("https://api.example"), bearer: true });
    assert_eq!(
        of("copilot"),
        UpstreamSettings::Copilot {
            github_url: SafeUrl::parse("https://github.example"),
            github_api_url: SafeUrl::parse("https://api.github.example"),
            api_url: SafeUrl::parse("https://copilot.example"),
            integration_id: Some("hostler".into()),
            client_id: Some("Iv1.abc".into()),
            mode: CopilotModeSetting::Token,
        }
    );
    assert_eq!(
        of("local"),
        UpstreamSettings::OpenAi {
            url: SafeUrl::parse("http://127.0.0.1:9/v1"),
            max_tokens_field: Some("max_completion_tokens".into()),
        }
    );
    assert_eq!(of("toy"), UpstreamSettings::Scripted);
}

#[test]
fn url_flag_applies_to_the_default_upstream() {
    let file = format!("upstream = 'work'\n{TWO}");
    let settings = check(&[(SettingKey::UpstreamUrl, "http://127.0.0.1:1")], &[], &file).unwrap();
    let expected = UpstreamSettings::Anthropic { url: SafeUrl::parse("http://127.0.0.1:1"), bearer: false };
    assert_eq!(settings.gateway.upstreams[0].settings, expected);
    let scripted =
        check(&[(SettingKey::UpstreamUrl, "http://127.0.0.1:1"), (SettingKey::Upstream, "scripted")], &[], "").unwrap();
    assert_eq!(scripted.warnings, ["--upstream-url has no effect on the scripted model. Ignored."]);
}

#[test]
fn credential_sources_follow_precedence() {
    let ours = ("HOSTLER_UPSTREAM_KEY", "ours");
    let usual = ("ANTHROPIC_API_KEY", "usual");
    let work = |key: &str| format!("upstream = 'work'\n[upstreams.work]\nkind = 'anthropic'\n{key}\n");
    for (vars, file, expected) in [
        // Hostler's variable overrides the usual variable, which belongs to one kind.
        (&[ours, usual][..], String::new(), &["anthropic: HOSTLER_UPSTREAM_KEY=ours"][..]),
        (&[usual], String::new(), &["anthropic: ANTHROPIC_API_KEY=usual"]),
        (&[("OPENAI_API_KEY", "other")], String::new(), &["anthropic: stored needed"]),
        (&[("OPENAI_API_KEY", "other")], "upstream = 'openai'".into(), &["openai: OPENAI_API_KEY=other"]),
        (&[("GITHUB_TOKEN", "gh")], "upstream = 'copilot'".into(), &["copilot: GITHUB_TOKEN=gh"]),
        (&[ours], "upstream = 'scripted'".into(), &["scripted: none"]),
        // The table overrides the usual variable; Hostler's variable overrides the table.
        (&[usual, ("WORK", "w")], work("key-env = 'WORK'"), &["work: WORK=w"]),
        (&[usual], work("key-env = 'WORK'"), &["work: missing"]),
        (&[usual], work("key-file = 'work.key'"), &["work: /etc/hostler/work.key"]),
        (&[usual], work("key-keyring = true"), &["work: stored keyring needed"]),
        (&[usual], work("key-keyring = false"), &["work: ANTHROPIC_API_KEY=usual"]),
        (&[ours], work("key-file = '/k'"), &["work: HOSTLER_UPSTREAM_KEY=ours"]),
        // The usual key is not sent to an address that a table names, unless the table names the variable.
        (&[usual], work("url = 'https://other.example'"), &["work: stored"]),
        (&[usual], work("url = 'https://api.anthropic.com'"), &["work: stored needed"]),
        (
            &[usual],
            work("url = 'https://x.example'\nkey-env = 'ANTHROPIC_API_KEY'"),
            &["work: ANTHROPIC_API_KEY=usual"],
        ),
        // Hostler's variable applies to the default upstream only.
        (&[ours], TWO.into(), &["anthropic: HOSTLER_UPSTREAM_KEY=ours", "local: stored", "work: stored needed"]),
        (
            &[usual, ("HOSTLER_UPSTREAM_URL", "http://127.0.0.1:1")],
            String::new(),
            &["anthropic: ANTHROPIC_API_KEY=usual"],
        ),
        (&[("HOSTLER_UPSTREAM_URL", "http://127.0.0.1:1")], String::new(), &["anthropic: stored"]),
    ] {
        assert_eq!(credentials(&check(&[], vars, &file).unwrap()), expected, "{vars:?} {file}");
    }
}

#[test]
fn missing_credential_message_explains_the_fix() {
    let missing = |file: &str| {
        let settings = check(&[], &[], file).unwrap();
        match settings.gateway.upstreams[0].credential.clone() {
            CredentialSpec::Stored { missing_message: Some(sentence), .. } | CredentialSpec::Missing(sentence) => {
                sentence
            }
            other => format!("{other:?}"),
        }
    };
    assert_eq!(
        missing(""),
        "no key for the upstream anthropic. Run `hostler agents login anthropic`, or start Hostler with \
         HOSTLER_UPSTREAM_KEY or ANTHROPIC_API_KEY"
    );
    assert!(missing("upstream = 'copilot'").starts_with("no GitHub token for the upstream copilot. Run"));
    assert_eq!(
        missing("upstream = 'w'\n[upstreams.w]\nkind = 'openai'\nkey-env = 'W'"),
        format!("the variable W is not set, which {CONFIG} line 4: `upstreams.w.key-env` names for the key of w")
    );
}

#[test]
fn all_credential_variables_are_collected() {
    let file = "[upstreams.work]\nkind = 'anthropic'\nkey-env = 'WORK_KEY'\n";
    let settings = check(&[], &[], file).unwrap();
    let expected = ["ANTHROPIC_API_KEY", "GITHUB_TOKEN", "OPENAI_API_KEY", "HOSTLER_UPSTREAM_KEY", "WORK_KEY"];
    assert_eq!(settings.credential_variables, expected);
}

#[test]
fn file_grant_setting_accepts_three_values() {
    use crate::ports::FileGrantSetting::{Always, Ask, Never};
    for (file, expected) in [
        ("", Never),
        ("[files]", Never),
        ("[files]\ngrant = 'never'", Never),
        ("[files]\ngrant = 'ask'", Ask),
        ("[files]\ngrant = 'always'", Always),
    ] {
        let settings = check(&[], &[], file).unwrap();
        assert_eq!((settings.file_grants, settings.warnings.len()), (expected, 0), "{file}");
    }
    let settings = check(&[], &[("HOSTLER_FILES_GRANT", "ask")], "[files]\ngrant = 'always'").unwrap();
    assert_eq!(settings.file_grants, Ask);
}

#[test]
fn limits_prices_and_betas_are_parsed_exactly() {
    let file = "
        allowed-betas = ['interleaved-thinking']
        credential-store = 'file'
        [limits]
        concurrent = 4
        requests-per-minute = 60
        session-requests = 100
        session-tokens = 1_000_000
        session-dollars = 2.5
        day-requests = 1000
        day-tokens = 5000000
        day-dollars = 20
        [prices.'claude-sonnet-4-5']
        input = 3
        output = 15.0
        cache-read = 0.3
        [prices.'local-*']
        input = 0
        output = 0
    ";
    let settings = check(&[], &[], file).unwrap();
    assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    let dollars = |text: &str| DollarAmount::parse(text).unwrap();
    let expected = LimitSettings {
        concurrent: Some(4),
        requests_per_minute: Some(60),
        session_requests: Some(100),
        session_tokens: Some(1_000_000),
        session_dollars: Some(dollars("2.5")),
        day_requests: Some(1000),
        day_tokens: Some(5_000_000),
        day_dollars: Some(dollars("20")),
    };
    assert_eq!(settings.gateway.limits, expected);
    let price = |model: &str, input: &str, output: &str, cache_read: Option<&str>| PriceSettings {
        model: model.to_owned(),
        input: dollars(input),
        output: dollars(output),
        cache_read: cache_read.map(dollars),
        cache_write: None,
    };
    let expected = [price("claude-sonnet-4-5", "3", "15", Some("0.3")), price("local-*", "0", "0", None)];
    assert_eq!(settings.gateway.prices, expected);
    assert_eq!(settings.gateway.allowed_betas.as_deref(), Some(&["interleaved-thinking".to_owned()][..]));
    assert_eq!(settings.credential_vault.store, CredentialStoreSetting::File);
    assert_eq!(settings.credential_vault.directory, PathBuf::from("/home/ada/.local/state/hostler/credentials"));
}

#[test]
fn invalid_value_is_rejected_with_file_line_and_key() {
    for (file, expected) in [
        ("upstreams = 1", "line 1: `upstreams` must be a table."),
        ("[upstreams]\nwork = 1", "line 2: `upstreams.work` must be a table."),
        (
            "[upstreams.Work]\nkind = 'openai'",
            "line 1: `upstreams.Work` must be named with lowercase letters, digits and dashes.",
        ),
        (
            "[upstreams.work]\nurl = 'http://x'",
            "line 1: `upstreams.work` must be a table with a `kind`: one of anthropic, copilot, openai, scripted.",
        ),
        (
            "[upstreams.work]\nkind = 'acme'",
            "line 2: `upstreams.work.kind` must be one of anthropic, copilot, openai, scripted.",
        ),
        ("[upstreams.anthropic]\n\nurl = 'ftp://x'", "line 3: `upstreams.anthropic.url` must be an http or https URL."),
        ("[upstreams.anthropic]\nbearer = 'yes'", "line 2: `upstreams.anthropic.bearer` must be true or false."),
        (
            "[upstreams.anthropic]\nkey-env = 'A=B'",
            "line 2: `upstreams.anthropic.key-env` must be the name of an environment variable.",
        ),
        ("[upstreams.anthropic]\nkey-file = ''", "line 2: `upstreams.anthropic.key-file` must be a string."),
        ("[upstreams.copilot]\nmode = 'magic'", "line 2: `upstreams.copilot.mode` must be exchange or token."),
        (
            "[upstreams.openai]\nmax-tokens-field = 'n'",
            "line 2: `upstreams.openai.max-tokens-field` must be max_tokens or max_completion_tokens.",
        ),
        (
            "[upstreams.anthropic]\nkey = 'sk-planted'",
            "line 2: `upstreams.anthropic.key` is not allowed: keys do not belong in the configuration file. Use key-env \
             (an environment variable), key-file (a private file) or key-keyring = true (the system keyring).",
        ),
        ("[files]\ngrant = 'sometimes'", "line 2: `files.grant` must be never, ask or always."),
        ("[files]\ngrant = true", "line 2: `files.grant` must be a string."),
        ("[limits]\nconcurrent = 0", "line 2: `limits.concurrent` must be a whole number above 0."),
        ("[limits]\nday-tokens = 1.5", "line 2: `limits.day-tokens` must be a whole number above 0."),
        ("[limits]\nday-dollars = 0", "line 2: `limits.day-dollars` must be an amount in dollars above 0 such as 2.5."),
        ("[prices.m]\ninput = 'x'", "line 2: `prices.m.input` must be an amount in dollars such as 2.5."),
        (
            "[prices.m]\ninput = 1",
            "line 1: `prices.m` must be a table with `input` and `output`, in dollars per million tokens.",
        ),
        (
            "[prices.'a*b']\ninput = 1\noutput = 1",
            "line 1: `prices.a*b` must be named by a model id, or by the beginning of one followed by `*`.",
        ),
        ("credential-store = 'cloud'", "line 1: `credential-store` must be auto, keyring or file."),
    ] {
        let error = check(&[], &[], file).unwrap_err().to_string();
        assert_eq!(error, format!("{CONFIG} {expected}"));
    }
    let two = "[upstreams.anthropic]\nkey-env = 'A'\nkey-file = 'b'";
    assert_eq!(
        check(&[], &[], two).unwrap_err().to_string(),
        format!(
            "{CONFIG} line 2: `upstreams.anthropic.key-env` and {CONFIG} line 3: `upstreams.anthropic.key-file` cannot be used \
             together. Remove one of them."
        )
    );
    let unknown = check(&[(SettingKey::Upstream, "acme")], &[], TWO).unwrap_err().to_string();
    assert_eq!(unknown, "--upstream must be one of anthropic, copilot, openai, scripted, local, work.");
}

#[test]
fn unknown_settings_warn_and_are_ignored() {
    let file = "[upstreams.toy]\nkind = 'scripted'\nurl = 'http://x'\nkey-env = 'A'\n[limits]\nyearly = 1\n[prices.m]\ninput = 1\noutput = 1\ntax = 2";
    let mut warnings = check(&[], &[], file).unwrap().warnings;
    warnings.sort();
    assert_eq!(
        warnings,
        [
            format!("{CONFIG} line 10: `prices.m.tax` is not a setting. Ignored."),
            format!(
                "{CONFIG} line 3: `upstreams.toy.url` is not a setting of upstreams of the kind scripted. Ignored."
            ),
            format!(
                "{CONFIG} line 4: `upstreams.toy.key-env` is not a setting of upstreams of the kind scripted. Ignored."
            ),
            format!("{CONFIG} line 6: `limits.yearly` is not a setting. Ignored."),
        ]
    );
}

#[test]
fn proxy_listen_setting_is_separate_and_errors_name_the_flag() {
    let settings = check(&[], &[], "listen = '0.0.0.0:80'").unwrap();
    assert_eq!(settings.proxy_listen.to_string(), "127.0.0.1:0", "the host and the proxy have separate addresses");
    assert_eq!(check(&[], &[], "proxy-listen = '127.0.0.1:4000'").unwrap().proxy_listen.port(), 4000);
    let error = check(&[(SettingKey::ProxyListen, "4000")], &[], "").unwrap_err().to_string();
    assert_eq!(error, "--listen must be an address and a port such as 127.0.0.1:8137.");
}
