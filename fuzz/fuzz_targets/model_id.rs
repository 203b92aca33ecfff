//! Model ids in all their forms: see `hostler_gateway::fuzzing::model`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostler_gateway::fuzzing::model(data));
