//! `agents login` and `agents logout`: saves and removes an upstream's credential for the hosts of this user.

use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::oneshot;

use crate::Io;
use crate::console::{Console, TextStyle, to_one_line};
use crate::exit::{CommandFailure, Exit};
use crate::ports::{
    CredentialSpec, DeviceCodePrompt, SavedCredentialLocation, UpstreamKind, UpstreamSpec, VaultError, Wiring,
};
use crate::progress::Spinner;
use crate::settings::{Settings, unconfigured_upstream};
use crate::terminal_mode::NoEchoGuard;

/// Maximum length of a key.
const MAX_KEY_BYTES: u64 = 16 << 10;

/// Reads a credential for an upstream and saves it.
pub(super) async fn log_in(
    name: &str,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let spec = find_upstream(name, wiring, settings)?;
    let what = credential_noun(&spec);
    let secret = match spec.kind() {
        UpstreamKind::Copilot => sign_in_with_device_code(spec.clone(), wiring, io).await?,
        _ => read_key(name, wiring, io).await?,
    };
    let saving = wiring.credential_vault.store(settings.credential_vault.clone(), name.to_owned(), secret);
    let saved = io.signals.run_or_interrupt(saving).await?.map_err(|error| vault_failure(&error))?;
    if let Some(reason) = &saved.fallback_reason {
        io.console.write_note(&format!("{} Using a file instead.", to_sentence(reason)), TextStyle::Yellow);
    }
    let location = match &saved.location {
        SavedCredentialLocation::Keyring => "the system keyring".to_owned(),
        SavedCredentialLocation::File(path) => path.display().to_string(),
    };
    io.console.write_note(
        &format!("Saved the {what} of {name} in {location}. Running hosts use it from now on."),
        TextStyle::Plain,
    );
    note_credential_override(&spec, &mut io.console);
    Ok(Exit::Done)
}

/// Removes an upstream's credential from the place where `login` saved it.
pub(super) async fn log_out(
    name: &str,
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let spec = find_upstream(name, wiring, settings)?;
    let what = credential_noun(&spec);
    let removing = wiring.credential_vault.delete(settings.credential_vault.clone(), name.to_owned());
    let locations = io.signals.run_or_interrupt(removing).await?.map_err(|error| vault_failure(&error))?;
    if locations.is_empty() {
        io.console.write_note(&format!("There is no saved {what} for {name}."), TextStyle::Plain);
    }
    for location in locations {
        let from = match location {
            SavedCredentialLocation::Keyring => "the system keyring".to_owned(),
            SavedCredentialLocation::File(path) => path.display().to_string(),
        };
        io.console.write_note(&format!("Removed the {what} of {name} from {from}."), TextStyle::Plain);
    }
    note_credential_override(&spec, &mut io.console);
    Ok(Exit::Done)
}

/// Finds the upstream by name: a configured one, or one by its kind.
fn find_upstream(name: &str, wiring: &Wiring, settings: &Settings) -> Result<UpstreamSpec, CommandFailure> {
    let configured = settings.gateway.upstreams.iter().find(|spec| spec.name == name).cloned();
    let spec = configured
        .or_else(|| UpstreamKind::from_name(name).map(|kind| unconfigured_upstream(kind, &wiring.environment)));
    match spec {
        Some(spec) if spec.kind() == UpstreamKind::Scripted => {
            Err(CommandFailure::new(Exit::Usage, "keyNotNeeded", format!("{name} does not need a key.")))
        }
        Some(spec) => Ok(spec),
        None => {
            let kinds = UpstreamKind::ALL.into_iter().filter(|kind| *kind != UpstreamKind::Scripted);
            let mut names: Vec<String> = kinds.map(|kind| kind.as_str().to_owned()).collect();
            names.extend(settings.gateway.upstreams.iter().map(|spec| spec.name.clone()));
            names.sort();
            names.dedup();
            let text = format!("Unknown upstream: {}. Choose one of: {}.", to_one_line(name), names.join(", "));
            Err(CommandFailure::new(Exit::Usage, "unknownUpstream", text))
        }
    }
}

fn credential_noun(spec: &UpstreamSpec) -> &'static str {
    if spec.kind() == UpstreamKind::Copilot { "GitHub token" } else { "key" }
}

/// Warns that another credential overrides the one that is being saved.
fn note_credential_override(spec: &UpstreamSpec, console: &mut Console) {
    let from = match &spec.credential {
        CredentialSpec::Variable { name, .. } => format!("the variable {name}"),
        CredentialSpec::File(path) => format!("the file {}", path.display()),
        CredentialSpec::Missing(sentence) => sentence.clone(),
        CredentialSpec::Stored { .. } | CredentialSpec::None => return,
    };
    let text = format!("The saved credential of {} is not used. The settings override it: {from}.", spec.name);
    console.write_note(&text, TextStyle::Yellow);
}

/// Prints the device code for the web page and waits until the user has signed in.
async fn sign_in_with_device_code(
    spec: UpstreamSpec,
    wiring: &Wiring,
    io: &mut Io,
) -> Result<SecretString, CommandFailure> {
    let (sender, code_shown) = oneshot::channel::<DeviceCodePrompt>();
    let show = Box::new(move |code| {
        // The receiver is gone when the command has ended.
        let _ended = sender.send(code);
    });
    let mut signing = wiring.device_login.login(spec, show);
    let failed = |error: VaultError| vault_failure(&error);
    let code = tokio::select! {
        // The code is printed before the result.
        biased;
        Ok(code) = code_shown => code,
        done = &mut signing => return done.map_err(failed),
        _ = io.signals.next_stop_signal() => return Err(CommandFailure::interrupted()),
    };
    let DeviceCodePrompt { user_code: code, verification_url: url, expires_in_minutes: minutes } = code;
    io.console.write_note(&format!("Open {} and enter this code:", to_one_line(&url)), TextStyle::Plain);
    io.console.write_note(&format!("  {}", to_one_line(&code)), TextStyle::Bold);
    io.console.write_note(&format!("The code expires in {minutes} minutes. Press Ctrl-C to cancel."), TextStyle::Dim);
    let spinner = Spinner::start("Waiting for the sign-in", &io.console);
    let done = io.signals.run_or_interrupt(signing).await;
    drop(spinner);
    done?.map_err(failed)
}

/// Reads a line without echo from a terminal, or all input from a program.
async fn read_key(name: &str, wiring: &Wiring, io: &mut Io) -> Result<SecretString, CommandFailure> {
    let key = if wiring.environment.stdin_is_terminal {
        // Echo is off before the question is printed: keys that are pressed at once must be neither shown nor
        // discarded.
        let no_echo = NoEchoGuard::activate()?;
        io.console.write_prompt(&format!("Key for {name} (hidden): "));
        let line = io.signals.run_or_interrupt(read_line(&mut io.stdin)).await;
        drop(no_echo);
        io.console.write_note("", TextStyle::Plain);
        line??
    } else {
        let mut bytes = Vec::new();
        let mut limited = (&mut io.stdin).take(MAX_KEY_BYTES + 1);
        io.signals.run_or_interrupt(limited.read_to_end(&mut bytes)).await??;
        bytes
    };
    check_key(key)
}

async fn read_line(stdin: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, CommandFailure> {
    let mut line = Vec::new();
    let mut byte = [0_u8; 1];
    // Byte by byte: input after the line is not consumed.
    while line.len() as u64 <= MAX_KEY_BYTES && stdin.read(&mut byte).await? > 0 && byte != *b"\n" {
        line.extend_from_slice(&byte);
    }
    Ok(line)
}

fn check_key(bytes: Vec<u8>) -> Result<SecretString, CommandFailure> {
    let invalid = |text: &str| CommandFailure::new(Exit::Usage, "invalidKey", text);
    if bytes.len() as u64 > MAX_KEY_BYTES {
        return Err(invalid("The key is too long."));
    }
    let text = SecretString::from(String::from_utf8(bytes).map_err(|_| invalid("The key is not valid UTF-8."))?);
    let key = text.expose_secret().trim();
    if key.is_empty() {
        return Err(invalid("The key is empty. Type it, or pass it on stdin."));
    }
    if key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(invalid("The key contains white space."));
    }
    Ok(SecretString::from(key))
}

fn vault_failure(error: &VaultError) -> CommandFailure {
    CommandFailure::new(Exit::Failed, error.code(), to_sentence(&error.to_string()))
}

/// Turns a reason into a sentence.
fn to_sentence(reason: &str) -> String {
    let mut letters = to_one_line(reason).trim_end_matches('.').to_owned().chars().collect::<Vec<_>>().into_iter();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", letters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_keys_are_rejected() {
        let key = |bytes: &[u8]| check_key(bytes.to_vec()).map(|key| key.expose_secret().to_owned());
        assert_eq!(key(b"  sk-1\r\n").unwrap(), "sk-1");
        for bad in [&b""[..], b" \n", b"two words", b"a\nb", &[0xff], &vec![b'x'; 20_000]] {
            let failure = key(bad).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(!failure.message.contains("words"), "{}", failure.message);
        }
    }

    #[test]
    fn reasons_become_sentences() {
        assert_eq!(to_sentence("the keyring is locked"), "The keyring is locked.");
        assert_eq!(to_sentence("It is."), "It is.");
    }
}
