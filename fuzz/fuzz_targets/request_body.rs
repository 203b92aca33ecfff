//! Request envelopes, and the model that is replaced in them: see `hostler_gateway::fuzzing::body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_gateway::fuzzing::body(data));
