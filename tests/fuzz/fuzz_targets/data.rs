//! Fuzzes the readers of data sets: any split of the input must give what one read gives.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tokclock_fuzz::data(input));
