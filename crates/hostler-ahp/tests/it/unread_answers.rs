//! A client that sends requests and never reads an answer: the host stops reading from it.

use crate::common::rig;
use hostler_ahp::{AhpConnectionLimits, connect_in_memory};
use serde_json::{Value, json};

/// Number of requests; without a limit the host would read all of them.
const REQUESTS: usize = 20_000;

/// Maximum number of unanswered requests, plus the capacity of the queues before and after them.
const MOST_TAKEN: usize = 256 + 4 * 64;

#[tokio::test]
async fn a_client_that_reads_no_answers_is_not_read_until_it_does() {
    for (method, params) in [
        ("disposeSession", json!({"channel": "ahp-session:/unknown"})),
        ("hostler/tagSession", json!({"channel": "ahp-session:/unknown", "tag": null})),
        ("subscribe", json!({"channel": "ahp-root://"})),
    ] {
        let rig = rig().await;
        let mut client = connect_in_memory(&rig.engine, AhpConnectionLimits::default());
        let hello = json!({"channel": "ahp-root://", "protocolVersions": ["1.0.0"], "clientId": "c"});
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
        client.sender.send(hello.to_string()).await.unwrap();
        assert!(client.receiver.recv().await.unwrap().starts_with(b"{"));

        let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let request = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let mut sent = 0;
        // Each yield lets every runnable task make progress; a host without the limit would read all requests.
        let mut waits = 0;
        while sent < REQUESTS && waits < 2_000 {
            match client.sender.try_send(request(sent + 1)) {
                Ok(()) => (sent, waits) = (sent + 1, 0),
                Err(_) => waits += 1,
            }
            tokio::task::yield_now().await;
        }
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks().saturating_sub(before);
        assert!(sent <= MOST_TAKEN && tasks <= MOST_TAKEN, "{method}: {sent} were taken, in {tasks} tasks");

        // As soon as the client reads, it is served again, and every request is answered.
        let mut answered = 0;
        while answered < sent {
            let answer: Value = serde_json::from_slice(&client.receiver.recv().await.unwrap()).unwrap();
            answered += usize::from(answer.get("id").is_some());
        }
        client.sender.send(request(sent + 1)).await.unwrap();
        let answer: Value = serde_json::from_slice(&client.receiver.recv().await.unwrap()).unwrap();
        assert_eq!(answer["id"], sent + 1, "{method}");
        rig.engine.shutdown().await;
    }
}
