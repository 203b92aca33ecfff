//! Command lines before the rules: see `hostler_rules::fuzzing::shell_rules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_rules::fuzzing::shell_rules(data));
