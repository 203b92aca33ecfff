//! Clients that abort a stream.

use serde_json::json;

use crate::errors::begun;
use crate::sdk::Sdk;
use crate::support::{Fixture, Reply, TestUpstream};

pub(crate) async fn a_client_abort_ends_the_upstream_call(sdk: Sdk) {
    let (chunks, reply) = Reply::stream();
    let upstream = TestUpstream::start([reply]).await;
    let fixture = Fixture::anthropic(&upstream).await;
    for chunk in begun() {
        chunks.try_send(Ok(chunk)).unwrap();
    }
    let jobs = json!([{"do": "abort", "prompt": "hi"}]);
    let mut running = sdk.start(&fixture.gateway.base_url(), fixture.bearer(), &jobs);
    // The process is still running, so the abort closed the connection.
    upstream.hung_up().await;
    fixture.gateway.wait_until_idle().await;
    let facts = running.facts().await;
    assert_eq!(facts[0]["text"], "half a", "{facts:?}");
    let expected = match sdk {
        Sdk::Node => json!("APIUserAbortError"),
        // The Python SDK does not report closing a stream as an error.
        Sdk::Python => json!(null),
    };
    assert_eq!(facts[0]["error"]["class"], expected, "{facts:?}");
    running.end().await;
    assert_eq!(fixture.registration.usage().input_tokens, 7, "what has passed is paid for");
}
