//! Bytes of an LLM server's answer in, events out: no I/O, no clock, no threads.
