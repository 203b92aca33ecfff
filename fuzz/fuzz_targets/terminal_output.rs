//! Output of shells: see `hostler_terminal::fuzzing::terminal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_terminal::fuzzing::terminal(data));
