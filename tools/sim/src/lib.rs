//! A simulated LLM server whose every token leaves at a known, logged time.
