//! Fuzzes the reader of servers' metrics: whatever a page says, no figure is other than a number.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tokclock_fuzz::metrics(input));
