//! The splitter of server-sent events: see `hostler_gateway::fuzzing::sse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_gateway::fuzzing::sse(data));
