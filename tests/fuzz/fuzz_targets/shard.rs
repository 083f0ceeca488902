//! Fuzzes the readers of what a shard leaves: its description and its seconds.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tokclock_fuzz::shard(input));
