//! The command, started as a person would, with its results in `out`.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// `tokclock run URL` in `dir`, with results in `dir/out`, and both outputs kept.
pub(crate) fn tokclock(dir: &Path, url: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokclock-under-test"));
    command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A baseline of this host must not colour a verdict.
    command.env("XDG_STATE_HOME", dir);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"] {
        command.env_remove(name);
    }
    command.args(["run", url, "--out", "out"]).args(options);
    command
}

#[track_caller]
pub(crate) fn exits_with(output: &Output, code: i32) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
}

pub(crate) fn summary(dir: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("out/summary.json")).unwrap()).unwrap()
}
