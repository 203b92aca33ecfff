//! Attached contents: see `hostler_attachments::fuzzing::attachments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_attachments::fuzzing::attachments(data));
