//! What `doctor` says about each upstream: what it is, where, and where its credential is, never what it is.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use hostler_redact::place;

use crate::ports::{CredentialSpec, Finding, KeptPlace, UpstreamKind, UpstreamSettings, UpstreamSpec, Wiring};
use crate::settings::Settings;

/// One finding per upstream, the default first.
pub(super) async fn upstreams(wiring: &Wiring, settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, spec) in settings.gateway.upstreams.iter().enumerate() {
        findings.push(upstream(spec, at == 0, wiring, settings).await);
    }
    findings
}

async fn upstream(spec: &UpstreamSpec, is_default: bool, wiring: &Wiring, settings: &Settings) -> Finding {
    // Where there is only one, nobody asks which is the default.
    let who = describe(spec, is_default && settings.gateway.upstreams.len() > 1);
    let what = if spec.kind() == UpstreamKind::Copilot { "GitHub token" } else { "key" };
    let fix = || {
        let scripted = "or try `--upstream scripted`";
        let login = format!("Run `hostler agents login {}`", spec.name);
        match spec.kind().usual_key_variable().filter(|_| is_default) {
            Some(usual) => format!("{login}, set HOSTLER_UPSTREAM_KEY or {usual}, {scripted}."),
            None => format!("{login}, or say in the configuration file where it is (key-env, key-file)."),
        }
    };
    match &spec.credential {
        CredentialSpec::None => Finding::ok(format!("{who} needs no key.")),
        CredentialSpec::Variable { name, .. } => Finding::ok(format!("{who} has a {what}, in the variable {name}.")),
        CredentialSpec::File(path) => file(&who, what, path),
        CredentialSpec::Missing(sentence) => {
            Finding::warning(format!("{who} has no {what}: {sentence}."), "Set the variable for Hostler.")
        }
        CredentialSpec::Stored { keyring, missing } => {
            let found = wiring.vault.find(settings.vault.clone(), spec.name.clone(), *keyring).await;
            match (found, missing) {
                (Ok(Some(KeptPlace::Keyring)), _) => Finding::ok(format!("{who} has a {what}, in the system keyring.")),
                (Ok(Some(KeptPlace::File(path))), _) => file(&who, what, &path),
                (Ok(None), None) => Finding::ok(format!("{who} is called without a {what}.")),
                (Ok(None), Some(_)) => Finding::warning(format!("{who} has no {what}."), fix()),
                (Err(error), _) => {
                    Finding::warning(format!("{who} has no {what}: {}.", error.0.trim_end_matches('.')), fix())
                }
            }
        }
    }
}

/// Whether a file can be read, and by whom else.
fn file(who: &str, what: &str, path: &Path) -> Finding {
    let shown = path.display();
    let about = match std::fs::File::open(path).and_then(|file| file.metadata()) {
        Ok(about) => about,
        Err(error) => {
            let text = format!("{who} has no {what}: {shown} cannot be read ({error}).");
            return Finding::warning(text, "Put the key there, or correct key-file.");
        }
    };
    if !about.is_file() || about.len() == 0 {
        return Finding::warning(format!("{who} has no {what}: {shown} is empty."), "Put the key there.");
    }
    if about.mode() & 0o077 != 0 {
        let text = format!("{who} has a {what}, in {shown}, which others can read.");
        return Finding::warning(text, format!("Run `chmod 600 {shown}`."));
    }
    Finding::ok(format!("{who} has a {what}, in {shown}."))
}

/// Only the host of an address is shown: the rest may hold a password.
fn describe(spec: &UpstreamSpec, say_default: bool) -> String {
    let kind = spec.kind().as_str();
    let url = match &spec.settings {
        UpstreamSettings::Anthropic { url, .. } | UpstreamSettings::OpenAi { url, .. } => url.as_ref(),
        UpstreamSettings::Copilot { api_url, github_api_url, .. } => api_url.as_ref().or(github_api_url.as_ref()),
        UpstreamSettings::Scripted => None,
    };
    let mut about = Vec::new();
    if spec.name != kind {
        about.push(kind.to_owned());
    }
    about.extend(url.map(|url| format!("at {}", place(url.expose()))));
    if say_default {
        about.push("the default".to_owned());
    }
    if about.is_empty() { spec.name.clone() } else { format!("{} ({})", spec.name, about.join(", ")) }
}
