//! The bearer in its header: see `hostler_gateway::fuzzing::bearer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_gateway::fuzzing::bearer(data));
