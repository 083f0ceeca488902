//! Files of options, and what describes the tool: checked, described, completed, as a person does it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use tokclock_tests::command::{Tool, exits_with, stderr};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// `tokclock config check` of a file that says this.
fn check(dir: &Path, text: &str, more: &[&str]) -> Output {
    std::fs::write(dir.join("load.toml"), text).unwrap();
    TOOL.run(dir, "config check load.toml", more)
}

/// The lines of `document` between fences of this language.
fn fenced(document: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let parts = document.split(fence.as_str()).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

fn docs(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The names of the options that a page of help shows.
fn options_of(help: &str) -> Vec<String> {
    let option = |line: &str| {
        let line = line.trim_start();
        let long = line.strip_prefix("--").or_else(|| line.get(2..)?.strip_prefix(", --"))?;
        line.starts_with('-').then(|| {
            let end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
            long.split(end).next().unwrap_or_default().to_owned()
        })
    };
    help.lines().filter_map(option).collect()
}

#[test]
fn a_good_file_is_told_in_words_and_a_bad_one_line_by_line() {
    let dir = TempDir::new().unwrap();
    let good = "rate = 5\nduration = \"10s\"\nisl = 64\nslo = [\"p95(ttft)<500ms\"]\n";
    let output = check(dir.path(), good, &[]);
    exits_with(&output, 0);
    let said = stdout(&output);
    assert!(said.starts_with("load.toml: good, for tokclock run\n"), "{said}");
    assert!(said.contains("requests/s, poisson") && said.contains("p95(ttft)<500ms"), "{said}");
    assert!(said.lines().count() <= 4, "{said}");

    let bad = "rate = 5\nspeed = 3\n\ndrain = \"soon\"\nheader = 5\n";
    let output = check(dir.path(), bad, &[]);
    exits_with(&output, 2);
    let said = stdout(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].starts_with("load.toml:2: unknown key `speed`"), "{said}");
    assert!(lines[1].starts_with("load.toml:4: `drain`: ") && lines[1].contains("30s"), "{said}");
    assert!(lines[2].starts_with("load.toml:5: `header`: "), "{said}");
    assert_eq!(stderr(&output), "error: load.toml: 3 problems\n");

    let output = check(dir.path(), "seed = 1\nrate = 5\n\nconcurrency = 3\n", &[]);
    exits_with(&output, 2);
    assert!(stdout(&output).starts_with("load.toml:2: --rate and --concurrency"));
}

#[test]
fn a_file_is_for_the_command_that_it_names() {
    let dir = TempDir::new().unwrap();
    let sweep =
        "# Reproduces this: tokclock sweep --config run.toml\nrepeat = 2\nrate = \"1..8\"\n";
    let output = check(dir.path(), sweep, &[]);
    exits_with(&output, 0);
    let said = stdout(&output);
    assert!(said.contains("tokclock sweep") && said.contains("4 loads"), "{said}");
    let output = check(dir.path(), sweep, &["--command", "run"]);
    exits_with(&output, 2);
    assert!(stdout(&output).starts_with("load.toml:2: unknown key `repeat`"));
    let missing = TOOL.run(dir.path(), "config check missing.toml", &[]);
    exits_with(&missing, 2);
    assert!(stderr(&missing).contains("missing.toml"));
}

#[test]
fn the_schema_holds_every_option_and_every_example() {
    let dir = TempDir::new().unwrap();
    let output = TOOL.run(dir.path(), "config schema", &[]);
    exits_with(&output, 0);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    // What is no matter of a file.
    const TYPED: [&str; 10] = [
        "config",
        "baseline",
        "no-report",
        "json",
        "quiet",
        "worker",
        "workers",
        "help",
        "resume",
        "beside",
    ];
    let page = docs("config.md");
    for command in ["run", "sweep", "search"] {
        let help = stdout(&TOOL.run(dir.path(), command, &["--help"]));
        let options = options_of(&help);
        assert!(options.len() > 100, "{options:?}");
        for option in options.iter().filter(|one| !TYPED.contains(&one.as_str())) {
            assert!(properties.contains_key(option), "no {option} in the schema");
            assert!(page.contains(&format!("`{option}`")), "no {option} in config.md");
        }
    }
    for (number, example) in fenced(&page, "toml").iter().enumerate() {
        let command = if example.contains("repeat") { "sweep" } else { "run" };
        let output = check(dir.path(), example, &["--command", command]);
        assert_eq!(output.status.code(), Some(0), "{number}: {}", stdout(&output));
        let table: toml::Table = toml::from_str(example).unwrap();
        assert!(table.keys().all(|key| properties.contains_key(key)), "{number}");
    }
}

#[test]
fn shells_and_manuals_know_the_options() {
    let dir = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = TOOL.run(dir.path(), "completions", &[shell]);
        exits_with(&output, 0);
        let script = stdout(&output);
        assert!(script.contains("max-in-flight") && script.contains("tokclock"), "{shell}");
    }
    exits_with(&TOOL.run(dir.path(), "completions tcsh", &[]), 2);
    let main = stdout(&TOOL.run(dir.path(), "man", &[]));
    assert!(main.lines().any(|line| line.starts_with(".TH")), "{main}");
    exits_with(&TOOL.run(dir.path(), "man --out pages", &[]), 0);
    let run = std::fs::read_to_string(dir.path().join("pages/tokclock-run.1")).unwrap();
    assert!(run.contains(".TH tokclock-run 1"), "{run}");
    let output = TOOL.run(dir.path(), "man --out /proc/none", &[]);
    exits_with(&output, 1);
    assert_eq!(stderr(&output).lines().count(), 1);
}

#[test]
fn the_help_groups_the_commands() {
    let dir = TempDir::new().unwrap();
    let help = stdout(&TOOL.run(dir.path(), "--help", &[]));
    for word in ["Measure:\n  run ", "  config ", "Examples:", "Exit codes"] {
        assert!(help.contains(word), "no {word:?} in {help}");
    }
}
