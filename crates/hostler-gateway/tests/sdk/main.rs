#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
//! The official SDKs as clients of the gateway. Their scripts report what they received; the expectations are here,
//! once for both.

mod client_aborts;
mod errors;
mod responses;
mod sdk;
#[path = "../gateway/support.rs"]
#[allow(dead_code, reason = "the other test binary uses the rest")]
mod support;

/// Runs each test with both SDKs.
macro_rules! with_both_sdks {
    ($($module:ident: $($test:ident)*;)*) => {
        mod node {
            $($(#[tokio::test] async fn $test() { crate::$module::$test(crate::sdk::Sdk::Node).await })*)*
        }
        mod python {
            $($(#[tokio::test] async fn $test() { crate::$module::$test(crate::sdk::Sdk::Python).await })*)*
        }
    };
}

with_both_sdks! {
    responses:
        complete_and_streamed_messages_are_equal
        raw_events_arrive_in_order
        thinking_and_tools_survive_a_round_trip
        tokens_are_counted
        models_are_listed_and_found
        concurrent_streams_are_not_mixed_up;
    errors:
        upstream_errors_have_their_types
        gateway_errors_have_their_types
        a_clients_retry_succeeds
        an_interrupted_stream_is_an_error;
    client_aborts:
        a_client_abort_ends_the_upstream_call;
}
