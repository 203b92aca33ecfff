//! Transcripts, in two pieces and in one: see `hostler_claude::fuzzing::check_transcript`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_claude::fuzzing::check_transcript(data));
