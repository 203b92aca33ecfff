//! The WebSocket server beside tokio-tungstenite: fan-out of shared messages, small requests, large messages from a
//! client, and memory per connection.
//!
//! Each server runs in a process of its own, so that its CPU time and memory are measured alone. tokio-tungstenite runs
//! without liveness checks and with the small read buffer that its documentation advises for many connections.
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark prints its results")]

#[allow(dead_code, unreachable_pub, unused_imports, reason = "shared with the benchmarks of other crates")]
#[path = "../../hostler-testkit/src/benchmark_table.rs"]
mod benchmark_table;
#[path = "support/measured_server.rs"]
mod measured_server;
#[path = "support/raw_clients.rs"]
mod raw_clients;
#[path = "support/servers.rs"]
mod servers;
#[allow(dead_code, unreachable_pub, unused_imports, reason = "the benchmark uses sockets and frames only")]
#[path = "../src/ws/mod.rs"]
mod ws;

use std::time::{Duration, Instant};

use benchmark_table::{BenchmarkRow, BenchmarkTable, median};
use measured_server::MeasuredServer;
use raw_clients::RawConnection;
use servers::{FanOut, ServerKind};

/// Sizes of a text delta, of a tool result and of a snapshot.
const DELTA_BYTES: usize = 300;
const RESULT_BYTES: usize = 4 * 1024;
const SNAPSHOT_BYTES: usize = 64 * 1024;

/// Each fan-out: name, connections, messages, bytes of a message, and the gap between messages in ms.
const FAN_OUTS: [(&str, usize, FanOut); 6] = [
    ("paced deltas", 1, FanOut { messages: 2_000, bytes: DELTA_BYTES, gap_ms: 1 }),
    ("paced deltas", 200, FanOut { messages: 1_000, bytes: DELTA_BYTES, gap_ms: 4 }),
    ("burst of deltas", 1, FanOut { messages: 200_000, bytes: DELTA_BYTES, gap_ms: 0 }),
    ("burst of deltas", 200, FanOut { messages: 10_000, bytes: DELTA_BYTES, gap_ms: 0 }),
    ("burst of tool results", 200, FanOut { messages: 2_000, bytes: RESULT_BYTES, gap_ms: 0 }),
    ("paced snapshots", 200, FanOut { messages: 100, bytes: SNAPSHOT_BYTES, gap_ms: 20 }),
];

const ROUNDS: usize = 3;
const SEQUENTIAL_REQUESTS: usize = 10_000;
const PIPELINED_REQUESTS: usize = 100_000;
const REQUEST_BYTES: usize = 200;
const UPLOADS: usize = 64;
const UPLOAD_BYTES: usize = 1024 * 1024;
const IDLE_CONNECTIONS: usize = 400;
const STALLED_CONNECTIONS: usize = 200;

/// Time in which a server becomes idle.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// Medians of one server, in the order of the table.
type Figures = Vec<(String, &'static str, f64)>;

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--serve").skip(1);
    if let Some(kind) = arguments.next() {
        return servers::serve(kind.parse().expect("a kind of server"));
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let [ours, deflated, peer] = [ServerKind::Hostler, ServerKind::HostlerDeflated, ServerKind::Tungstenite]
        .map(|kind| runtime.block_on(measure(kind)));
    let mut table = BenchmarkTable::default();
    for ((metric, unit, hostler), (_, _, peer)) in ours.into_iter().zip(&peer) {
        let baseline = Some(("tokio-tungstenite".to_owned(), *peer));
        table.rows.push(BenchmarkRow { metric, unit, hostler, baseline, target: None });
    }
    // The peer does not support compression, so its plain messages are the comparison.
    for ((metric, unit, hostler), (_, _, peer)) in deflated.into_iter().zip(&peer) {
        if metric.contains("tool results") || metric.contains("snapshots") || metric.contains("memory") {
            let (metric, baseline) = (format!("compressed: {metric}"), Some(("plain".to_owned(), *peer)));
            table.rows.push(BenchmarkRow { metric, unit, hostler, baseline, target: None });
        }
    }
    println!("{table}");
}

async fn measure(kind: ServerKind) -> Figures {
    let mut figures = Figures::new();
    for (name, connections, order) in FAN_OUTS {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(fan_out(kind, connections, order).await);
        }
        let (rates, costs): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
        figures.push((format!("{name} to {connections}: CPU per delivery"), "µs", median(&costs)));
        if order.gap_ms == 0 {
            figures.push((format!("{name} to {connections}: deliveries"), "k/s", median(&rates)));
        }
    }
    figures.extend(requests(kind).await);
    figures.extend(uploads(kind).await);
    figures.push(("idle connection: memory".to_owned(), "KiB", idle_memory(kind).await));
    figures.push(("connection that does not read: memory".to_owned(), "KiB", stalled_memory(kind).await));
    figures
}

/// Returns thousands of deliveries per second, and the server's CPU time per delivery in µs.
async fn fan_out(kind: ServerKind, connections: usize, order: FanOut) -> (f64, f64) {
    let mut server = MeasuredServer::start(kind);
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(RawConnection::connect(server.address).await);
    }
    let (begin, spent) = (Instant::now(), server.processor_time());
    let bytes = server.fan_out(order);
    let reading = clients.into_iter().map(|mut client| {
        tokio::spawn(async move {
            client.read_bytes(bytes).await;
            client
        })
    });
    let clients = futures::future::join_all(reading.collect::<Vec<_>>()).await;
    let (elapsed, spent) = (begin.elapsed(), server.processor_time() - spent);
    drop(clients);
    let deliveries = (connections * order.messages) as f64;
    (deliveries / elapsed.as_secs_f64() / 1e3, spent.as_secs_f64() * 1e6 / deliveries)
}

/// Sends small requests: one after the other, and many at once.
async fn requests(kind: ServerKind) -> Figures {
    let (mut round_trips, mut costs, mut rates, mut pipelined_costs) = (vec![], vec![], vec![], vec![]);
    let request = raw_clients::masked_frame(REQUEST_BYTES);
    for _ in 0..ROUNDS {
        let server = MeasuredServer::start(kind);
        let mut client = RawConnection::connect(server.address).await;
        let spent = server.processor_time();
        for _ in 0..SEQUENTIAL_REQUESTS {
            let begin = Instant::now();
            client.write(&request).await;
            client.read_bytes(servers::ANSWER_FRAME_BYTES).await;
            round_trips.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        let sequential = server.processor_time() - spent;
        costs.push(sequential.as_secs_f64() * 1e6 / SEQUENTIAL_REQUESTS as f64);

        let (begin, spent) = (Instant::now(), server.processor_time());
        client
            .exchange(&request.repeat(100), PIPELINED_REQUESTS / 100, PIPELINED_REQUESTS * servers::ANSWER_FRAME_BYTES)
            .await;
        rates.push(PIPELINED_REQUESTS as f64 / begin.elapsed().as_secs_f64() / 1e3);
        let spent = server.processor_time() - spent;
        pipelined_costs.push(spent.as_secs_f64() * 1e6 / PIPELINED_REQUESTS as f64);
    }
    vec![
        ("small request: round trip, p50".to_owned(), "µs", median(&round_trips)),
        ("small request: CPU".to_owned(), "µs", median(&costs)),
        ("small requests at once: requests".to_owned(), "k/s", median(&rates)),
        ("small requests at once: CPU per request".to_owned(), "µs", median(&pipelined_costs)),
    ]
}

/// Sends large messages to the server.
async fn uploads(kind: ServerKind) -> Figures {
    let (mut rates, mut costs) = (vec![], vec![]);
    let upload = raw_clients::masked_frame(UPLOAD_BYTES);
    for _ in 0..ROUNDS {
        let server = MeasuredServer::start(kind);
        let mut client = RawConnection::connect(server.address).await;
        let (begin, spent) = (Instant::now(), server.processor_time());
        client.exchange(&upload, UPLOADS, UPLOADS * servers::ANSWER_FRAME_BYTES).await;
        rates.push(UPLOADS as f64 / begin.elapsed().as_secs_f64());
        costs.push((server.processor_time() - spent).as_secs_f64() * 1e6 / UPLOADS as f64);
    }
    vec![
        ("messages of 1 MiB from a client: rate".to_owned(), "MiB/s", median(&rates)),
        ("messages of 1 MiB from a client: CPU per MiB".to_owned(), "µs", median(&costs)),
    ]
}

/// Returns the memory per connection that has sent a request and received an answer and some deltas.
async fn idle_memory(kind: ServerKind) -> f64 {
    let mut server = MeasuredServer::start(kind);
    let request = raw_clients::masked_frame(REQUEST_BYTES);
    let before = server.anonymous_kib();
    let mut clients = Vec::new();
    for _ in 0..IDLE_CONNECTIONS {
        let mut client = RawConnection::connect(server.address).await;
        client.write(&request).await;
        client.read_bytes(servers::ANSWER_FRAME_BYTES).await;
        clients.push(client);
    }
    let bytes = server.fan_out(FanOut { messages: 10, bytes: DELTA_BYTES, gap_ms: 1 });
    for client in &mut clients {
        client.read_bytes(bytes).await;
    }
    tokio::time::sleep(SETTLE_TIME).await;
    (server.anonymous_kib() - before) / IDLE_CONNECTIONS as f64
}

/// Returns the memory per connection whose client does not read while 32 MiB are sent to each.
async fn stalled_memory(kind: ServerKind) -> f64 {
    let mut server = MeasuredServer::start(kind);
    let mut clients = Vec::new();
    for _ in 0..STALLED_CONNECTIONS {
        clients.push(RawConnection::connect(server.address).await);
    }
    let before = server.anonymous_kib();
    server.fan_out(FanOut { messages: 512, bytes: SNAPSHOT_BYTES, gap_ms: 1 });
    tokio::time::sleep(Duration::from_secs(1) + SETTLE_TIME).await;
    (server.anonymous_kib() - before) / STALLED_CONNECTIONS as f64
}
