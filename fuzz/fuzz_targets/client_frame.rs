//! Frames of clients, their parameters and what they dispatch: see `hostler_ahp::fuzzing::frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_ahp::fuzzing::frame(data));
