//! `doctor` checks of each upstream: kind, address, and the location of its credential, never the credential
//! itself.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use hostler_redact::host_and_port;

use crate::ports::{
    CredentialSpec, DoctorFinding, SavedCredentialLocation, UpstreamKind, UpstreamSettings, UpstreamSpec, Wiring,
};
use crate::settings::Settings;

/// One finding per upstream, the default first.
pub(super) async fn check_upstreams(wiring: &Wiring, settings: &Settings) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for (at, spec) in settings.gateway.upstreams.iter().enumerate() {
        findings.push(check_upstream(spec, at == 0, wiring, settings).await);
    }
    findings
}

async fn check_upstream(spec: &UpstreamSpec, is_default: bool, wiring: &Wiring, settings: &Settings) -> DoctorFinding {
    // The default is marked only if there are several upstreams.
    let who = describe_upstream(spec, is_default && settings.gateway.upstreams.len() > 1);
    let what = if spec.kind() == UpstreamKind::Copilot { "GitHub token" } else { "key" };
    let fix = || {
        let scripted = "or use `--upstream scripted`";
        let login = format!("Run `hostler agents login {}`", spec.name);
        match spec.kind().default_key_variable().filter(|_| is_default) {
            Some(usual) => format!("{login}, set HOSTLER_UPSTREAM_KEY or {usual}, {scripted}."),
            None => format!("{login}, or set key-env or key-file in the configuration file."),
        }
    };
    match &spec.credential {
        CredentialSpec::None => DoctorFinding::ok(format!("{who} needs no key.")),
        CredentialSpec::Variable { name, .. } => {
            DoctorFinding::ok(format!("{who} has a {what} in the variable {name}."))
        }
        CredentialSpec::File(path) => check_credential_file(&who, what, path),
        CredentialSpec::Missing(sentence) => {
            DoctorFinding::warning(format!("{who} has no {what}: {sentence}."), "Set the variable.")
        }
        CredentialSpec::Stored { keyring, missing_message: missing } => {
            let found =
                wiring.credential_vault.find(settings.credential_vault.clone(), spec.name.clone(), *keyring).await;
            match (found, missing) {
                (Ok(Some(SavedCredentialLocation::Keyring)), _) => {
                    DoctorFinding::ok(format!("{who} has a {what} in the system keyring."))
                }
                (Ok(Some(SavedCredentialLocation::File(path))), _) => check_credential_file(&who, what, &path),
                (Ok(None), None) => DoctorFinding::ok(format!("{who} is used without a {what}.")),
                (Ok(None), Some(_)) => DoctorFinding::warning(format!("{who} has no {what}."), fix()),
                (Err(error), _) => DoctorFinding::warning(
                    format!("{who} has no {what}: {}.", error.to_string().trim_end_matches('.')),
                    fix(),
                ),
            }
        }
    }
}

/// Checks whether a file can be read, and whether other users can read it.
fn check_credential_file(who: &str, what: &str, path: &Path) -> DoctorFinding {
    let shown = path.display();
    let about = match std::fs::File::open(path).and_then(|file| file.metadata()) {
        Ok(about) => about,
        Err(error) => {
            let text = format!("{who} has no {what}: failed to read {shown}: {error}.");
            return DoctorFinding::warning(text, "Write the key to the file, or correct key-file.");
        }
    };
    if !about.is_file() || about.len() == 0 {
        return DoctorFinding::warning(format!("{who} has no {what}: {shown} is empty."), "Write the key to the file.");
    }
    if about.mode() & 0o077 != 0 {
        let text = format!("{who} has a {what} in {shown}, which other users can read.");
        return DoctorFinding::warning(text, format!("Run `chmod 600 {shown}`."));
    }
    DoctorFinding::ok(format!("{who} has a {what} in {shown}."))
}

/// Describes an upstream. Only the host of its address is shown: the rest may contain a password.
fn describe_upstream(spec: &UpstreamSpec, mark_default: bool) -> String {
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
    about.extend(url.map(|url| format!("at {}", host_and_port(url.expose()))));
    if mark_default {
        about.push("default".to_owned());
    }
    if about.is_empty() { spec.name.clone() } else { format!("{} ({})", spec.name, about.join(", ")) }
}
