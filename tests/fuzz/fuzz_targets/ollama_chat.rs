//! Fuzzes the `ollama_chat` dialect: any split of the input must give what one read gives.
#![no_main]

use tokclock_fuzz::dialect;
use tokclock_parser::dialect::Dialect;

libfuzzer_sys::fuzz_target!(|input: &[u8]| dialect(&Dialect::OllamaChat, input));
