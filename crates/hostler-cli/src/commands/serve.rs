//! `hostler serve`: runs a host until a signal or the end of stdin, and reloads its configuration on SIGHUP.

use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::Io;
use crate::console::{Console, TextStyle};
use crate::exit::{CommandFailure, Exit};
use crate::host::{InProcessHost, choose_token, host_options};
use crate::ports::{HostOptions, PageEndpoint, Wiring};
use crate::reload::{self, ConfigReloader};
use crate::settings::Settings;
use crate::signals::{Signal, Signals};
use crate::state::{HostLock, StateDir};

/// Printed when the host is reachable without TLS.
const NO_TLS_WARNING: &str = "The connection is not encrypted: others on the network can read the token and all messages. Use TLS \
    (--tls-cert, --tls-key), or listen on loopback behind a proxy or an SSH tunnel.";

/// Runs a host until a stop signal.
pub(crate) async fn run_serve_command(
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    let directory = StateDir::open(&settings.state_dir)?;
    let lock = HostLock::acquire(&directory).await?;
    let token = choose_token(settings, &directory, &lock)?;
    let options = HostOptions { tls: settings.tls.clone(), ..host_options(wiring, settings, settings.listen, token) };
    if !settings.listen.ip().is_loopback() && settings.tls.is_none() {
        io.console.write_note(NO_TLS_WARNING, TextStyle::Yellow);
    }
    let mut stop = StopTriggers::new(&mut io.signals, settings.exit_on_stdin_eof.then_some(&mut io.stdin), wiring)?;
    let (on_notice, mut notices) = reload::notice_channel();
    let mut host = tokio::select! {
        started = InProcessHost::start(wiring, &directory, lock, options, settings, on_notice) => started?,
        () = stop.wait_for_stop(None) => return Ok(Exit::Done),
    };
    host.announce_to_editors(settings);
    // A parent that has closed our stdout may still use the host.
    let _unread = io.console.write_out(&format!("READY:{}\n", host.port()));
    print_connection_help(&host, &mut io.console);
    if io.console.err_is_terminal() && !host.has_page() {
        io.console.write_note(NO_PAGE_NOTICE, TextStyle::Plain);
    } else if io.console.err_is_terminal()
        && let Some(link) = host.create_page_link().await
    {
        let once = if link.code.is_some() { " (works once; create more with `hostler link`)" } else { "" };
        io.console.write_note(&format!("Open the web page: {}{once}", link.url_for("")), TextStyle::Plain);
    }
    {
        let mut stopping = std::pin::pin!(stop.wait_for_stop(host.reloader()));
        loop {
            tokio::select! {
                () = &mut stopping => break,
                Some(notice) = notices.recv() => io.console.write_note(&notice.text, notice.style()),
            }
        }
    }
    host.stop(&mut io.signals).await?;
    Ok(Exit::Done)
}

/// Printed instead of a link.
pub(super) const NO_PAGE_NOTICE: &str =
    "This binary was built without the web page. Run `cargo xtask web`, then build again.";

/// Prints how to connect. The URL contains the token, so it is printed on a terminal only, not to a log.
pub(super) fn print_connection_help(host: &InProcessHost, console: &mut Console) {
    let endpoint = host.endpoint();
    let addr = endpoint.addr();
    let text = match (host.token(), &endpoint.token_file) {
        (Some(token), _) if console.err_is_terminal() => {
            format!("Listening on ws://{addr}/?tkn={}", token.expose_secret())
        }
        (Some(_), Some(file)) => format!("Listening on ws://{addr}/ with the token in {}", file.display()),
        _ => format!("Listening on ws://{addr}/ without a token"),
    };
    console.write_note(&text, TextStyle::Plain);
    if let Some(PageEndpoint { addr, tls: true, .. }) = host.host.page() {
        let port = addr.port();
        console.write_note(&format!("Browsers and other machines connect with TLS on port {port}"), TextStyle::Plain);
    }
}

/// Triggers to stop, and the trigger to reload the configuration.
pub(super) struct StopTriggers<'a, R> {
    signals: &'a mut Signals,
    stdin: Option<R>,
    /// Whether a hangup means that the terminal is gone.
    has_terminal: bool,
}

impl<'a, R: AsyncRead + Unpin> StopTriggers<'a, R> {
    pub(super) fn new(signals: &'a mut Signals, stdin: Option<R>, wiring: &Wiring) -> std::io::Result<Self> {
        signals.listen_for_hangup()?;
        Ok(Self { signals, stdin, has_terminal: wiring.environment.stdin_is_terminal })
    }

    pub(super) async fn wait_for_stop(&mut self, reloader: Option<&ConfigReloader>) {
        let mut ended = std::pin::pin!(wait_for_eof(self.stdin.as_mut()));
        loop {
            tokio::select! {
                signal = self.signals.next_signal() => match (signal, reloader) {
                    (Signal::Hangup, Some(reloader)) if !self.has_terminal => reloader.reload_now(),
                    // Before the host is ready, or without a configuration to reload, SIGHUP is ignored: its sender
                    // does not intend to stop the host.
                    (Signal::Hangup, None) if !self.has_terminal => {}
                    _ => return,
                },
                () = &mut ended => return,
            }
        }
    }
}

/// Reads to the end and discards the input.
async fn wait_for_eof(reader: Option<&mut (impl AsyncRead + Unpin)>) {
    let Some(reader) = reader else {
        return std::future::pending().await;
    };
    let mut buffer = [0_u8; 256];
    while reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}
