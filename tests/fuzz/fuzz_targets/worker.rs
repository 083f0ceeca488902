//! Fuzzes what a coordinator and a worker read: lines of any kind, and what stands in them.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tokclock_fuzz::worker(input));
