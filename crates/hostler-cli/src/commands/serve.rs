use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::Io;
use crate::console::{Console, Style};
use crate::exit::{Exit, Failure};
use crate::host::{OwnHost, choose_token, options};
use crate::ports::{HostOptions, PageAt, Wiring};
use crate::reload::{self, Reloader};
use crate::settings::Settings;
use crate::signals::{Signal, Signals};
use crate::state::{HostLock, StateDir};

/// For whoever lets others read along.
const WITHOUT_TLS: &str = "Without TLS everybody on the way can read the token and what is said: give the host a certificate \
    (--tls-cert, --tls-key), or let it listen on loopback, behind a proxy or an SSH tunnel.";

/// Runs a host until it is told to stop.
pub(crate) async fn serve(wiring: &Wiring, settings: &Settings, io: &mut Io) -> Result<Exit, Failure> {
    let directory = StateDir::open(&settings.state_dir)?;
    let lock = HostLock::take(&directory).await?;
    let token = choose_token(settings, &directory, &lock)?;
    let options = HostOptions { tls: settings.tls.clone(), ..options(wiring, settings, settings.listen, token) };
    if !settings.listen.ip().is_loopback() && settings.tls.is_none() {
        io.console.note(WITHOUT_TLS, Style::Yellow);
    }
    let mut stop = Stop::new(&mut io.signals, settings.exit_on_stdin_eof.then_some(&mut io.stdin), wiring)?;
    let (tell, mut notes) = reload::notes();
    let mut own = tokio::select! {
        started = OwnHost::start(wiring, &directory, lock, options, settings, tell) => started?,
        () = stop.requested(None) => return Ok(Exit::Done),
    };
    own.announce(settings);
    // A parent that has closed our stdout may still want the host.
    let _unread = io.console.out(&format!("READY:{}\n", own.port()));
    introduce(&own, &mut io.console);
    if io.console.err_is_terminal() && !own.has_page() {
        io.console.note(NO_PAGE, Style::Plain);
    } else if io.console.err_is_terminal()
        && let Some(link) = own.link().await
    {
        let once = if link.code.is_some() { " (once; for more: hostler link)" } else { "" };
        io.console.note(&format!("Its page opens at {}{once}", link.to("")), Style::Plain);
    }
    {
        let mut stopping = std::pin::pin!(stop.requested(own.reloader()));
        loop {
            tokio::select! {
                () = &mut stopping => break,
                Some(note) = notes.recv() => io.console.note(&note.text, note.style()),
            }
        }
    }
    own.stop(&mut io.signals).await?;
    Ok(Exit::Done)
}

/// What is said in place of a link.
pub(super) const NO_PAGE: &str =
    "This binary was built without the web page: run `cargo xtask web`, then build it again.";

/// Tells people how to connect. The URL opens the host, so it is shown to a person only, not to a log.
pub(super) fn introduce(own: &OwnHost, console: &mut Console) {
    let endpoint = own.endpoint();
    let addr = endpoint.addr();
    let text = match (own.token(), &endpoint.token_file) {
        (Some(token), _) if console.err_is_terminal() => {
            format!("Hostler listens at ws://{addr}/?tkn={}", token.expose_secret())
        }
        (Some(_), Some(file)) => format!("Hostler listens at ws://{addr}/ with the token in {}", file.display()),
        _ => format!("Hostler listens at ws://{addr}/ without a token"),
    };
    console.note(&text, Style::Plain);
    if let Some(PageAt { addr, tls: true, .. }) = own.host.page() {
        let port = addr.port();
        console.note(&format!("Browsers and other machines speak TLS to it, on port {port}"), Style::Plain);
    }
}

/// The reasons to stop, and the one to read the configuration again.
pub(super) struct Stop<'a, R> {
    signals: &'a mut Signals,
    stdin: Option<R>,
    /// Whether a hangup means that the terminal is gone.
    terminal: bool,
}

impl<'a, R: AsyncRead + Unpin> Stop<'a, R> {
    pub(super) fn new(signals: &'a mut Signals, stdin: Option<R>, wiring: &Wiring) -> std::io::Result<Self> {
        signals.hear_hangups()?;
        Ok(Self { signals, stdin, terminal: wiring.environment.stdin_is_terminal })
    }

    pub(super) async fn requested(&mut self, reloader: Option<&Reloader>) {
        let mut ended = std::pin::pin!(end_of(self.stdin.as_mut()));
        loop {
            tokio::select! {
                signal = self.signals.next_of_any_kind() => match (signal, reloader) {
                    (Signal::Hangup, Some(reloader)) if !self.terminal => reloader.now(),
                    // Not ready yet, or nothing to read again: who sends it does not want the end.
                    (Signal::Hangup, None) if !self.terminal => {}
                    _ => return,
                },
                () = &mut ended => return,
            }
        }
    }
}

/// Reads to the end; what is written there is of no interest.
async fn end_of(reader: Option<&mut (impl AsyncRead + Unpin)>) {
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    let mut buffer = [0_u8; 256];
    while reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
