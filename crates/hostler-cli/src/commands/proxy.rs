use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use secrecy::ExposeSecret as _;
use tokio::sync::mpsc;

use super::serve::Stop;
use crate::Io;
use crate::console::{Console, Style, one_line};
use crate::exit::{Exit, Failure};
use crate::host::SHUTDOWN_TIMEOUT;
use crate::ports::{ProxyOptions, RequestLine, RequestSink, RunningProxy, Wiring};
use crate::reload::{self, Bounds, Reloader};
use crate::settings::Settings;
use crate::state::{HostLock, StateDir};

/// Lines that may wait to be printed; what comes beyond is counted.
const LINES: usize = 1024;
/// More of a path or a model's id is not shown: a client may send anything.
const LONGEST_NAME: usize = 120;

/// Runs the gateway alone until it is told to stop.
pub(crate) async fn proxy(wiring: &Wiring, settings: &Settings, io: &mut Io) -> Result<Exit, Failure> {
    // What is used is counted in the state directory, by one process.
    let locked = if settings.gateway.limits.any() {
        let directory = StateDir::open(&settings.state_dir)?;
        Some((HostLock::take(&directory).await?, directory.path().to_owned()))
    } else {
        None
    };
    let mut lines = Lines::new(settings.log_requests);
    let options = ProxyOptions {
        listen: settings.proxy_listen,
        allowed_hosts: settings.allowed_hosts.clone(),
        gateway: settings.gateway.clone(),
        vault: settings.vault.clone(),
        ledger_dir: locked.as_ref().map(|(_, directory)| directory.clone()),
        metrics: settings.metrics,
        requests: lines.sink.take(),
    };
    let mut stop = Stop::new(&mut io.signals, settings.exit_on_stdin_eof.then_some(&mut io.stdin), wiring)?;
    let proxy: Arc<dyn RunningProxy> = tokio::select! {
        launched = wiring.proxies.launch(options) => launched?.into(),
        () = stop.requested(None) => return Ok(Exit::Done),
    };
    let (tell, mut notes) = reload::notes();
    let target = Arc::clone(&proxy);
    let bounds = Bounds { hidden: None, unlimited: locked.is_none() };
    let reloader = Reloader::start(settings, bounds, Arc::new(move |options| target.reconfigure(options)), tell);
    introduce(&*proxy, settings, &mut io.console);
    {
        let mut stopping = std::pin::pin!(stop.requested(reloader.as_ref()));
        loop {
            tokio::select! {
                () = &mut stopping => break,
                Some(line) = lines.received.recv() => lines.print(&line, &mut io.console),
                Some(note) = notes.recv() => io.console.note(&note.text, note.style()),
            }
        }
    }
    drop(reloader);
    let stopped = stop_in_time(&*proxy, &mut io.signals).await;
    while let Ok(line) = lines.received.try_recv() {
        lines.print(&line, &mut io.console);
    }
    stopped.map(|()| Exit::Done)
}

async fn stop_in_time(proxy: &dyn RunningProxy, signals: &mut crate::Signals) -> Result<(), Failure> {
    let stopped = signals.unless(tokio::time::timeout(SHUTDOWN_TIMEOUT, proxy.shutdown())).await?;
    stopped.map_err(|_| Failure::new(Exit::Failed, "The gateway did not end its requests in time."))
}

/// Tells programs by two lines on stdout, and people what to type.
fn introduce(proxy: &dyn RunningProxy, settings: &Settings, console: &mut Console) {
    let address = proxy.local_addr();
    let nonce = proxy.nonce();
    let nonce = nonce.expose_secret();
    // A parent that has closed our stdout may still want the gateway.
    let _unread = console.out(&format!("READY:{}\nNONCE:{nonce}\n", address.port()));
    if !address.ip().is_loopback() {
        let text = format!(
            "Whoever reaches {address} and has the nonce below can use your keys, and the way there is not encrypted."
        );
        console.note(&text, Style::Yellow);
    }
    let names: Vec<&str> = settings.gateway.upstreams.iter().map(|spec| spec.name.as_str()).collect();
    let base_url = format!("http://{}", reachable(address));
    console.note(&format!("The gateway listens at {base_url}; upstreams: {}.", names.join(", ")), Style::Plain);
    console.note(&format!("  export ANTHROPIC_BASE_URL={base_url}"), Style::Plain);
    console.note(&format!("  export ANTHROPIC_AUTH_TOKEN={nonce}.shell"), Style::Plain);
    console.note("Any word may stand behind the dot. Ctrl-C ends it.", Style::Dim);
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// One line per request, printed when there is time.
struct Lines {
    sink: Option<RequestSink>,
    received: mpsc::Receiver<RequestLine>,
    dropped: Arc<AtomicU64>,
}

impl Lines {
    fn new(wanted: bool) -> Self {
        let (sender, received) = mpsc::channel(LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let lost = Arc::clone(&dropped);
        let sink: RequestSink = Arc::new(move |line| {
            if sender.try_send(line).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { sink: wanted.then_some(sink), received, dropped }
    }

    fn print(&self, line: &RequestLine, console: &mut Console) {
        console.note(&describe(line, &crate::time::now()), Style::Plain);
        match self.dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            count => console.note(&format!("({count} requests are not shown: they came too fast)"), Style::Dim),
        }
    }
}

fn describe(line: &RequestLine, time: &str) -> String {
    let name = |text: &str| -> String { one_line(text).chars().take(LONGEST_NAME).collect() };
    let or_dash = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), name);
    let status = line.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let (read, written) = line.tokens;
    format!(
        "{time} {method} {path} model={model} upstream={upstream} status={status} ms={ms} in={read} out={written} {ending}",
        method = name(&line.method),
        path = name(&line.path),
        model = or_dash(line.model.as_deref()),
        upstream = or_dash(line.upstream.as_deref()),
        ms = line.duration.as_millis(),
        ending = line.ending,
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_is_one_line_whatever_the_client_sends() {
        let line = RequestLine {
            method: "POST".into(),
            path: "/v1/messages".into(),
            model: Some(format!("m\n\u{1b}[2J{}", "x".repeat(500))),
            upstream: Some("work".into()),
            status: Some(200),
            duration: Duration::from_millis(12),
            tokens: (3, 4),
            ending: "answered",
        };
        let text = describe(&line, "T");
        assert!(text.starts_with("T POST /v1/messages model=m [2Jxxx"), "{text}");
        assert!(text.ends_with("x upstream=work status=200 ms=12 in=3 out=4 answered"), "{text}");
        assert!(text.len() < 300 && !text.contains(char::is_control), "{text}");
        let left = RequestLine { model: None, upstream: None, status: None, ending: "client-left", ..line };
        assert_eq!(
            describe(&left, "T"),
            "T POST /v1/messages model=- upstream=- status=- ms=12 in=3 out=4 client-left"
        );
    }

    #[test]
    fn an_address_for_everybody_is_shown_as_one_for_this_machine() {
        for (listened, shown) in [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("127.0.0.1:1", "127.0.0.1:1")] {
            assert_eq!(reachable(listened.parse().unwrap()).to_string(), shown);
        }
    }
}
