//! `hostler proxy`: runs the gateway without a host and prints how to connect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use secrecy::ExposeSecret as _;
use tokio::sync::mpsc;

use super::serve::StopTriggers;
use crate::Io;
use crate::console::{Console, TextStyle, to_one_line};
use crate::exit::{CommandFailure, Exit};
use crate::host::SHUTDOWN_TIMEOUT;
use crate::ports::{FinishedRequestRecord, ProxyOptions, RequestSink, RunningProxy, Wiring};
use crate::reload::{self, ConfigReloader, ReloadConstraints};
use crate::settings::Settings;
use crate::state::{HostLock, StateDir};

/// Request lines that may wait to be printed; further ones are counted.
const REQUEST_LINE_QUEUE_SIZE: usize = 1024;
/// Maximum length of a printed path or model id, because a client may send anything.
const MAX_NAME_CHARS: usize = 120;

/// Runs the gateway until a stop signal.
pub(crate) async fn run_proxy_command(
    wiring: &Wiring,
    settings: &Settings,
    io: &mut Io,
) -> Result<Exit, CommandFailure> {
    // Usage is counted in the state directory, by one process at a time.
    let locked = if settings.gateway.limits.has_limits() {
        let directory = StateDir::open(&settings.state_dir)?;
        Some((HostLock::acquire(&directory).await?, directory.path().to_owned()))
    } else {
        None
    };
    let mut lines = RequestPrinter::new(settings.log_requests);
    let options = ProxyOptions {
        listen: settings.proxy_listen,
        allowed_hosts: settings.allowed_hosts.clone(),
        gateway: settings.gateway.clone(),
        vault: settings.credential_vault.clone(),
        ledger_dir: locked.as_ref().map(|(_, directory)| directory.clone()),
        serve_metrics: settings.metrics,
        request_sink: lines.sink.take(),
    };
    let mut stop = StopTriggers::new(&mut io.signals, settings.exit_on_stdin_eof.then_some(&mut io.stdin), wiring)?;
    let proxy: Arc<dyn RunningProxy> = tokio::select! {
        launched = wiring.proxy_launcher.launch(options) => launched?.into(),
        () = stop.wait_for_stop(None) => return Ok(Exit::Done),
    };
    let (on_notice, mut notices) = reload::notice_channel();
    let target = Arc::clone(&proxy);
    let constraints = ReloadConstraints { withheld_variables: None, has_no_ledger: locked.is_none() };
    let reloader =
        ConfigReloader::start(settings, constraints, Arc::new(move |options| target.reconfigure(options)), on_notice);
    print_connection_help(&*proxy, settings, &mut io.console);
    {
        let mut stopping = std::pin::pin!(stop.wait_for_stop(reloader.as_ref()));
        loop {
            tokio::select! {
                () = &mut stopping => break,
                Some(line) = lines.received.recv() => lines.print_request(&line, &mut io.console),
                Some(notice) = notices.recv() => io.console.write_note(&notice.text, notice.style()),
            }
        }
    }
    drop(reloader);
    let stopped = stop_proxy(&*proxy, &mut io.signals).await;
    while let Ok(line) = lines.received.try_recv() {
        lines.print_request(&line, &mut io.console);
    }
    stopped.map(|()| Exit::Done)
}

async fn stop_proxy(proxy: &dyn RunningProxy, signals: &mut crate::Signals) -> Result<(), CommandFailure> {
    let stopped = signals.run_or_interrupt(tokio::time::timeout(SHUTDOWN_TIMEOUT, proxy.shutdown())).await?;
    stopped.map_err(|_| {
        CommandFailure::new(Exit::Failed, "shutdownTimeout", "The gateway did not finish its requests in time.")
    })
}

/// Prints two lines on stdout for programs, and instructions on stderr for people.
fn print_connection_help(proxy: &dyn RunningProxy, settings: &Settings, console: &mut Console) {
    let address = proxy.local_addr();
    let nonce = proxy.nonce();
    let nonce = nonce.expose_secret();
    // A parent that has closed our stdout may still use the gateway.
    let _unread = console.write_out(&format!("READY:{}\nNONCE:{nonce}\n", address.port()));
    if !address.ip().is_loopback() {
        let text = format!(
            "Anyone who can connect to {address} and has the nonce can use your keys. The connection is not encrypted."
        );
        console.write_note(&text, TextStyle::Yellow);
    }
    let names: Vec<&str> = settings.gateway.upstreams.iter().map(|spec| spec.name.as_str()).collect();
    let base_url = format!("http://{}", to_local_address(address));
    console.write_note(&format!("Listening on {base_url}. Upstreams: {}.", names.join(", ")), TextStyle::Plain);
    console.write_note(&format!("  export ANTHROPIC_BASE_URL={base_url}"), TextStyle::Plain);
    console.write_note(&format!("  export ANTHROPIC_AUTH_TOKEN={nonce}.shell"), TextStyle::Plain);
    console.write_note("The text after the dot is your choice. Press Ctrl-C to stop.", TextStyle::Dim);
}

/// Returns an address that a client on this machine can use.
fn to_local_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Prints one line per request, without blocking the gateway.
struct RequestPrinter {
    sink: Option<RequestSink>,
    received: mpsc::Receiver<FinishedRequestRecord>,
    dropped: Arc<AtomicU64>,
}

impl RequestPrinter {
    fn new(is_enabled: bool) -> Self {
        let (sender, received) = mpsc::channel(REQUEST_LINE_QUEUE_SIZE);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let sink: RequestSink = Arc::new(move |line| {
            if sender.try_send(line).is_err() {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { sink: is_enabled.then_some(sink), received, dropped }
    }

    fn print_request(&self, line: &FinishedRequestRecord, console: &mut Console) {
        console.write_note(&format_request(line, &crate::time::now_rfc3339()), TextStyle::Plain);
        match self.dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            count => console.write_note(&format!("({count} more requests were not printed)"), TextStyle::Dim),
        }
    }
}

fn format_request(line: &FinishedRequestRecord, time: &str) -> String {
    let name = |text: &str| -> String { to_one_line(text).chars().take(MAX_NAME_CHARS).collect() };
    let or_dash = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), name);
    let status = line.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let (read, written) = line.tokens;
    format!(
        "{time} {method} {path} model={model} upstream={upstream} status={status} ms={ms} in={read} out={written} {outcome}",
        method = name(&line.method),
        path = name(&line.path),
        model = or_dash(line.model.as_deref()),
        upstream = or_dash(line.upstream.as_deref()),
        ms = line.duration.as_millis(),
        outcome = line.outcome,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn request_log_entry_is_always_one_line() {
        let line = FinishedRequestRecord {
            method: "POST".into(),
            path: "/v1/messages".into(),
            model: Some(format!("m\n\u{1b}[2J{}", "x".repeat(500))),
            upstream: Some("work".into()),
            status: Some(200),
            duration: Duration::from_millis(12),
            tokens: (3, 4),
            outcome: "answered",
        };
        let text = format_request(&line, "T");
        assert!(text.starts_with("T POST /v1/messages model=m [2Jxxx"), "{text}");
        assert!(text.ends_with("x upstream=work status=200 ms=12 in=3 out=4 answered"), "{text}");
        assert!(text.len() < 300 && !text.contains(char::is_control), "{text}");
        let disconnected =
            FinishedRequestRecord { model: None, upstream: None, status: None, outcome: "client-left", ..line };
        assert_eq!(
            format_request(&disconnected, "T"),
            "T POST /v1/messages model=- upstream=- status=- ms=12 in=3 out=4 client-left"
        );
    }

    #[test]
    fn wildcard_address_is_shown_as_loopback() {
        for (listened, shown) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("127.0.0.1:1", "127.0.0.1:1")] {
            assert_eq!(to_local_address(listened.parse().unwrap()).to_string(), shown);
        }
    }
}
