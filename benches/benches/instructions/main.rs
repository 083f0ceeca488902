//! Instructions that single operations take, under callgrind: the same under any load, so that a
//! small step back is seen.

#![expect(clippy::print_stdout, reason = "a bench says what it left out")]

#[cfg(feature = "callgrind")]
mod counted;

fn main() {
    #[cfg(feature = "callgrind")]
    if counted::can_run() {
        counted::run();
        return;
    }
    println!(
        "instruction counts are left out: install valgrind, `cargo install gungraun-runner --version \
         0.20.0`, and give --features callgrind"
    );
}
