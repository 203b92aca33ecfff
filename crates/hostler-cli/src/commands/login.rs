//! `agents login` and `agents logout`: saves and removes an upstream's credential for the hosts of this user.

use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::oneshot;

use crate::Io;
use crate::console::{Console, TextStyle, to_one_line};
use crate::exit::{CommandFailure, Exit};
use crate::ports::{CredentialSpec, DeviceCodePrompt, SavedCredentialLocation, UpstreamKind, UpstreamSpec, Wiring};
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
    let keeping = wiring.credential_vault.store(settings.credential_vault.clone(), name.to_owned(), secret);
    let kept = io
        .signals
        .run_or_interrupt(keeping)
        .await?
        .map_err(|error| CommandFailure::new(Exit::Failed, to_sentence(&error.0)))?;
    if let Some(why) = &kept.fallback_reason {
        io.console.write_note(&format!("{} A file is used instead.", to_sentence(why)), TextStyle::Yellow);
    }
    let place = match &kept.location {
        SavedCredentialLocation::Keyring => "the system keyring".to_owned(),
        SavedCredentialLocation::File(path) => format!("{}, which only you can read", path.display()),
    };
    io.console.write_note(
        &format!("The {what} of {name} is in {place}. Hosts that run use it from now on."),
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
    let forgetting = wiring.credential_vault.delete(settings.credential_vault.clone(), name.to_owned());
    let places = io
        .signals
        .run_or_interrupt(forgetting)
        .await?
        .map_err(|error| CommandFailure::new(Exit::Failed, to_sentence(&error.0)))?;
    if places.is_empty() {
        io.console.write_note(&format!("There is no {what} of {name} to remove."), TextStyle::Plain);
    }
    for place in places {
        let from = match place {
            SavedCredentialLocation::Keyring => "the system keyring".to_owned(),
            SavedCredentialLocation::File(path) => path.display().to_string(),
        };
        io.console.write_note(&format!("The {what} of {name} was removed from {from}."), TextStyle::Plain);
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
            Err(CommandFailure::new(Exit::Usage, format!("{name} needs no key.")))
        }
        Some(spec) => Ok(spec),
        None => {
            let kinds = UpstreamKind::ALL.into_iter().filter(|kind| *kind != UpstreamKind::Scripted);
            let mut names: Vec<String> = kinds.map(|kind| kind.as_str().to_owned()).collect();
            names.extend(settings.gateway.upstreams.iter().map(|spec| spec.name.clone()));
            names.sort();
            names.dedup();
            let text = format!("There is no upstream `{}`: choose one of {}.", to_one_line(name), names.join(", "));
            Err(CommandFailure::new(Exit::Usage, text))
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
    let text = format!("The settings take the credential of {} from elsewhere, which wins: {from}.", spec.name);
    console.write_note(&text, TextStyle::Yellow);
}

/// Prints the device code for the web page and waits until the user has signed in.
async fn sign_in_with_device_code(
    spec: UpstreamSpec,
    wiring: &Wiring,
    io: &mut Io,
) -> Result<SecretString, CommandFailure> {
    let (show, shown) = oneshot::channel::<DeviceCodePrompt>();
    let showing = Box::new(move |code| {
        // The receiver is gone when the command has ended.
        let _over = show.send(code);
    });
    let mut signing = wiring.device_login.login(spec, showing);
    let failed = |error: crate::ports::VaultError| CommandFailure::new(Exit::Failed, to_sentence(&error.0));
    let code = tokio::select! {
        // The code is printed before the result.
        biased;
        Ok(code) = shown => code,
        done = &mut signing => return done.map_err(failed),
        _ = io.signals.next_stop_signal() => return Err(CommandFailure::interrupted()),
    };
    let DeviceCodePrompt { user_code: code, verification_url: url, expires_in_minutes: minutes } = code;
    io.console.write_note(&format!("Open {} and type this code:", to_one_line(&url)), TextStyle::Plain);
    io.console.write_note(&format!("  {}", to_one_line(&code)), TextStyle::Bold);
    io.console.write_note(&format!("It is good for {minutes} minutes. Ctrl-C gives up."), TextStyle::Dim);
    let spinner = Spinner::start("Waiting for you to type the code", &io.console);
    let done = io.signals.run_or_interrupt(signing).await;
    drop(spinner);
    done?.map_err(failed)
}

/// Reads a line without echo from a terminal, or all input from a program.
async fn read_key(name: &str, wiring: &Wiring, io: &mut Io) -> Result<SecretString, CommandFailure> {
    let key = if wiring.environment.stdin_is_terminal {
        // Echo is off before the question is printed: keys that are pressed at once must be neither shown nor
        // discarded.
        let hidden = NoEchoGuard::activate()?;
        io.console.write_prompt(&format!("The key of {name} (not shown as you type): "));
        let line = io.signals.run_or_interrupt(read_line(&mut io.stdin)).await;
        drop(hidden);
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
    let usage = |text: &str| CommandFailure::new(Exit::Usage, text);
    if bytes.len() as u64 > MAX_KEY_BYTES {
        return Err(usage("That is too long for a key."));
    }
    let text = SecretString::from(String::from_utf8(bytes).map_err(|_| usage("That is no key: it is not text."))?);
    let key = text.expose_secret().trim();
    if key.is_empty() {
        return Err(usage("There is no key: type it, or write it to stdin."));
    }
    if key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(usage("That is no key: it holds white space."));
    }
    Ok(SecretString::from(key))
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
