//! Clients disconnect and reconnect while the host works: cut, stalled, many, and of other implementations.

mod reconnecting_client;
pub(crate) mod scheduling_watchdog;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{HostProcess, TEST_TIMEOUT, TestHome};
use hostler_testkit::processes;
use hostler_testkit::raw_client::RawClient;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use reconnecting_client::{ReconnectingClient, ResyncKind};
use scheduling_watchdog::SchedulingWatchdog;
use serde_json::json;
use tokio::task::JoinSet;

/// Deterministic pseudorandom numbers.
struct SeededRandom(u64);

impl SeededRandom {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (self.0 >> 33) % (high - low + 1)
    }
}

/// Returns the fake agent's response to `deltas N`.
fn deltas(count: u64) -> String {
    (0..count).map(|number| format!("d{number} ")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_cut_a_hundred_times_misses_nothing() {
    const CUTS: u32 = 100;
    const LENGTH: u64 = 8_000;
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let mut driver = RawClient::connect_and_initialize(&host.url()).await;
    let (_, chat) = driver.create_session(&home.work()).await;
    let mut client = ReconnectingClient::subscribe(&host.url(), &chat).await;
    let (mut dice, mut cuts, mut streams) = (SeededRandom(3), 0, 0);
    while cuts < CUTS {
        driver.send_message(&chat, &format!("deltas {LENGTH}")).await;
        streams += 1;
        loop {
            // In the middle of a stream, at its end, or before its start.
            for _ in 0..dice.between(0, 400) {
                if client.state.turns.len() == streams {
                    break;
                }
                assert!(client.receive().await, "the host hung up");
            }
            if client.state.turns.len() == streams || cuts == CUTS {
                break;
            }
            client.disconnect();
            cuts += 1;
            assert_eq!(client.reconnect(&host.url()).await, ResyncKind::Replay, "the recent past is held");
        }
        client.receive_turns(streams).await;
        // The sending client is subscribed too, and must not be the one that stalls.
        driver.wait_for_action("chat/turnComplete").await;
        assert!(client.text() == deltas(LENGTH), "a character is lost or doubled in stream {streams}");
        client.assert_state_matches_host().await;
    }
    host.stop().await;
}

/// Host, a chat that streams text every few milliseconds, and a client that reads it.
struct StreamingHost {
    home: TestHome,
    host: HostProcess,
    driver: RawClient,
    client: ReconnectingClient,
    chat: String,
}

impl StreamingHost {
    async fn start() -> Self {
        let home = TestHome::new();
        let host = home.serve_fake(&[]).await;
        let mut driver = RawClient::connect_and_initialize(&host.url()).await;
        let (_, chat) = driver.create_session(&home.work()).await;
        let client = ReconnectingClient::subscribe(&host.url(), &chat).await;
        Self { home, host, driver, client, chat }
    }

    /// Starts a turn without an end and receives this many actions of it.
    async fn stream(&mut self, actions: u64) {
        self.driver.send_message(&self.chat, "slow").await;
        while !self.client.is_running() {
            assert!(self.client.receive().await, "the host hung up");
        }
        for _ in 0..actions {
            assert!(self.client.receive().await && self.client.is_running(), "{:?}", self.client.state.turns.last());
        }
    }

    /// Drops the connections, stops the host and starts another one.
    async fn restart(&mut self) {
        let tree = self.host.process_tree();
        self.host.wait_for_exit().await;
        assert!(processes::wait_for_exit(&tree).await.is_empty(), "agents outlive their host");
        self.host = self.home.serve_fake(&[]).await;
        self.driver = RawClient::connect_and_initialize(&self.host.url()).await;
    }
}

/// A hundred cuts, in several homes concurrently.
const HOME_COUNT: u64 = 4;
const DISCONNECTS_PER_HOME: usize = 25;

/// Does the same in all homes, each with its own seed.
async fn in_all_homes<F: Future<Output = ()> + Send + 'static>(mut visit: impl FnMut(u64) -> F) {
    let mut homes: JoinSet<()> = (0..HOME_COUNT).map(&mut visit).collect();
    while let Some(visited) = homes.join_next().await {
        visited.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconnect_to_a_restarted_host_a_hundred_times_misses_nothing() {
    in_all_homes(|seed| async move {
        let mut bed = StreamingHost::start().await;
        let mut dice = SeededRandom(500 + seed);
        for round in 0..DISCONNECTS_PER_HOME {
            bed.stream(dice.between(1, 60)).await;
            let before = bed.client.text();
            if round % 2 == 0 {
                bed.client.disconnect();
            }
            bed.host.signal(Signal::SIGTERM);
            // A connected client receives everything, the end of the turn included.
            while bed.client.raw.is_some() && bed.client.receive().await {}
            let received = bed.client.text();
            bed.restart().await;
            let url = bed.host.url();
            assert_eq!(bed.client.reconnect(&url).await, ResyncKind::Replay, "all published output is written");
            bed.client.assert_state_matches_host().await;
            assert!(!bed.client.is_running(), "the turn ended with its host");
            assert_eq!(bed.client.state.turns.len(), round + 1);
            assert!(bed.client.text().starts_with(&before) && bed.client.text().starts_with(&received));
        }
        bed.host.stop().await;
    })
    .await;
}

/// Maximum delay until streamed output is written.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconnect_to_a_killed_host_a_hundred_times_misses_only_recent_output() {
    let watchdog = Arc::new(SchedulingWatchdog::start());
    in_all_homes(|seed| {
        let watchdog = Arc::clone(&watchdog);
        async move {
            let mut bed = StreamingHost::start().await;
            let mut dice = SeededRandom(700 + seed);
            for round in 0..DISCONNECTS_PER_HOME {
                bed.stream(dice.between(20, 80)).await;
                let killed = Instant::now();
                bed.host.signal(Signal::SIGKILL);
                while bed.client.receive().await {}
                let received = bed.client.text();
                // A host without processor time cannot write: only usable time counts.
                let is_old = |at: &Instant| watchdog.usable_time(*at, killed) > MAX_WRITE_DELAY;
                let safe = bed.client.text_progress.iter().rfind(|(at, _)| is_old(at)).map_or(0, |(_, to)| *to);
                bed.restart().await;
                let url = bed.host.url();
                bed.client.reconnect(&url).await;
                bed.client.assert_state_matches_host().await;
                assert!(!bed.client.is_running(), "the turn ended with its host");
                assert_eq!(bed.client.state.turns.len(), round + 1, "an acknowledged message survives");
                let stored = bed.client.text();
                assert!(
                    received.starts_with(&stored) || stored.starts_with(&received),
                    "the stored text is another one"
                );
                assert!(stored.len() >= safe, "{} bytes were stored, at least {safe} were old enough", stored.len());
            }
            bed.host.stop().await;
        }
    })
    .await;
}

/// Returns a field of a process's status, in bytes.
fn memory(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

const MEGABYTE: u64 = 1024 * 1024;

/// Returns a connection with a small receive buffer: unread data stays in the host.
async fn narrow(host: &HostProcess) -> RawClient {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let stream = socket.connect(([127, 0, 0, 1], host.port).into()).await.unwrap();
    RawClient::connect_over(stream, &host.url()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_reader_is_disconnected_and_resynced_without_affecting_others() {
    const ACTIONS: usize = 60_000;
    const LENGTH: u64 = 10_000;
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let mut driver = RawClient::connect_and_initialize(&host.url()).await;
    let (_, chat) = driver.create_session(&home.work()).await;
    let mut stalled = ReconnectingClient::subscribe_over(narrow(&host).await, &chat).await;
    let mut reader = ReconnectingClient::subscribe(&host.url(), &chat).await;
    let mut other = ReconnectingClient::subscribe(&host.url(), &chat).await;
    let before = memory(host.pid, "VmRSS");
    let expected = deltas(LENGTH);
    // Waiting deltas are merged into one action, so the number of turns is not known in advance.
    let (mut actions, mut turns) = (0, 0);
    while actions < ACTIONS {
        turns += 1;
        driver.send_message(&chat, &format!("deltas {LENGTH}")).await;
        // The sending client is subscribed too, and reads.
        tokio::join!(
            driver.wait_for_action("chat/turnComplete"),
            reader.receive_turns(turns),
            other.receive_turns(turns)
        );
        assert!(reader.text() == expected && other.text() == expected, "a reader that reads missed something");
        actions += reader.text_progress.len();
    }
    let grown = memory(host.pid, "VmHWM").saturating_sub(before) / MEGABYTE;
    assert!(grown < 300, "the host took {grown} MB for a reader that stalls");
    reader.assert_state_matches_host().await;
    other.assert_state_matches_host().await;

    // Data in flight arrives; then the connection ends, long before the last turn does.
    tokio::time::timeout(TEST_TIMEOUT, async { while stalled.receive().await {} })
        .await
        .expect("the reader is cut off");
    assert!(stalled.state.turns.len() < turns, "the reader was not cut off");
    stalled.reconnect(&host.url()).await;
    assert!(stalled.text() == expected, "the reader was not made whole");
    stalled.assert_state_matches_host().await;
    host.stop().await;
}

/// A thousand connections need more descriptors than the default limit; the host inherits the limit.
fn allow_many_descriptors() {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(8_192)), hard).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_subscribers_receive_the_same_envelopes_with_the_same_numbers() {
    allow_many_descriptors();
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let mut driver = RawClient::connect_and_initialize(&host.url()).await;
    let (_, chat) = driver.create_session(&home.work()).await;
    let mut subscribers = Vec::new();
    for _ in 0..1_000 {
        let mut raw = RawClient::connect_and_initialize(&host.url()).await;
        raw.call("subscribe", json!({"channel": chat})).await.unwrap();
        subscribers.push(raw);
    }
    driver.send_message(&chat, "deltas 20").await;
    let listening = subscribers.into_iter().map(|mut raw| {
        tokio::spawn(async move {
            let mut received = Vec::new();
            loop {
                let mut message = raw.receive().await.expect("the turn is not over");
                let envelope = message["params"].take();
                let is_end = envelope["action"]["type"] == "chat/turnComplete";
                received.push((envelope["serverSeq"].as_u64().unwrap(), envelope["action"].to_string()));
                if is_end {
                    return (raw, received);
                }
            }
        })
    });
    // All stay connected until the last one has received everything.
    let mut connected = Vec::new();
    let mut first: Option<Vec<(u64, String)>> = None;
    for listener in listening.collect::<Vec<_>>() {
        let (raw, received) = listener.await.unwrap();
        connected.push(raw);
        let first = first.get_or_insert_with(|| received.clone());
        assert!(*first == received, "two subscribers disagree");
    }
    let received = first.unwrap();
    assert!(received.windows(2).all(|pair| pair[0].0 < pair[1].0), "sequence numbers grow");
    drop(connected);
    host.stop().await;
}

/// Runs one client from connect to disconnect.
async fn visit(url: &str, home: &TestHome) {
    let mut raw = RawClient::connect_and_initialize(url).await;
    let (session, _) = raw.create_session(&home.work()).await;
    raw.call("disposeSession", json!({"channel": session})).await.unwrap();
}

/// Waits until the host has as few descriptors as before.
async fn settle(host: &HostProcess, descriptors: usize) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while processes::count_descriptors(host.pid) > descriptors {
        let open = processes::count_descriptors(host.pid);
        assert!(Instant::now() < deadline, "{open} descriptors are open, {descriptors} were");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_connections_leak_nothing() {
    let home = TestHome::new();
    let host = home.serve_fake(&[]).await;
    let url = host.url();
    visit(&url, &home).await;
    let descriptors = processes::count_descriptors(host.pid);
    for _ in 0..200 {
        visit(&url, &home).await;
    }
    settle(&host, descriptors).await;
    let before = memory(host.pid, "VmRSS");
    for _ in 0..1_000 {
        visit(&url, &home).await;
    }
    settle(&host, descriptors).await;
    let grown = memory(host.pid, "VmRSS").saturating_sub(before);
    assert!(grown < 20 * MEGABYTE, "a thousand visits left {} kB behind", grown / 1024);
    // A client that was silent for this long would have been disconnected on a slow machine.
    let mut last = RawClient::connect_and_initialize(&url).await;
    let list = last.call("listSessions", json!({"channel": "ahp-root://"})).await.unwrap();
    assert_eq!(list["items"], json!([]));
    host.stop().await;
}
