//! Command lines that are allowed, before a real bash: see `hostler_rules::fuzzing::shell_reads`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    hostler_rules::fuzzing::shell_reads(data);
});
