//! End to end: the binary against the simulator and case files.
