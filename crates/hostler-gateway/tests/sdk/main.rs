#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
//! The official SDKs as clients of the gateway. Their scripts report what they saw; what that has to be is said here,
//! once for both.

mod client_aborts;
mod errors;
mod responses;
mod sdk;
#[path = "../gateway/support.rs"]
#[allow(dead_code, reason = "the other tests of the gateway need more of it")]
mod support;

/// Runs each of these with both SDKs.
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
        a_message_arrives_whole_and_streamed_alike
        raw_events_arrive_in_order
        thoughts_and_tools_make_the_round_trip
        tokens_are_counted
        models_are_listed_and_found
        a_crowd_of_streams_is_not_mixed_up;
    errors:
        errors_of_the_upstream_have_their_types
        errors_of_the_gateway_have_their_types
        the_usual_retry_of_a_client_works
        a_stream_that_breaks_off_is_an_error_and_no_message;
    client_aborts:
        a_client_that_aborts_ends_the_upstream_call;
}
