//! The commands of the documents: every one is understood, and those of the how-tos do what they say
//! against the simulator.
//!
//! A how-to is run as a person would: its blocks one after another in one directory, with servers at the
//! ports that its `tokclock sim` lines name. Only times are cut short, and ports are whatever is free.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tokclock_tests::command::{SimProcess, Tool, alone};

const TOOL: Tool = Tool(env!("CARGO_BIN_EXE_tokclock-under-test"));

/// A block of a document between fences.
struct Block {
    /// The line of its first line, from 1.
    line: usize,
    /// What stands behind the opening fence.
    info: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The README and every document below `cli/docs`, by name.
fn pages() -> Vec<(String, String)> {
    let mut found = vec![root().join("README.md")];
    let mut folders = vec![root().join("cli/docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, fs::read_to_string(path).unwrap())
    };
    found.into_iter().map(named).collect()
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => {
                let block = Block { line: number + 2, info: info.into(), text: String::new() };
                open = Some((indent, block));
            }
            (Some(_), Some(_)) => found.extend(open.take().map(|(_, block)| block)),
            (Some((indent, block)), None) => {
                block.text.push_str(line.get(*indent..).unwrap_or(line.trim_start()));
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block that does not end");
    found
}

/// The commands of a block, with their lines; what goes on after a backslash is one command.
fn commands(block: &Block) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (block.line..).zip(block.text.lines()) {
        let line = line.trim_start().trim_start_matches("$ ");
        let (text, continues) = match line.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (line, false),
        };
        if goes_on {
            found.last_mut().unwrap().1.push_str(text);
        } else if line.starts_with("tokclock ") {
            found.push((number, text.to_owned()));
        }
        goes_on = continues && (goes_on || line.starts_with("tokclock "));
    }
    found
}

/// A directory with a `tokclock` in it that is this script around the tool.
fn wrapped(dir: &Path, script: &str) -> PathBuf {
    let bin = dir.join("bin");
    fs::create_dir(&bin).unwrap();
    let path = bin.join("tokclock");
    fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    bin
}

/// Runs a script with the wrapped tool in front of everything.
fn bash(dir: &Path, bin: &Path, script: &str) -> Output {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.current_dir(dir).arg("-c").arg(script).env("PATH", path).env("TOOL", TOOL.0);
    bash.env("XDG_STATE_HOME", dir).output().unwrap()
}

/// Without what a shell would do with its output, and with a name for what a reader fills in.
fn bare(command: &str) -> String {
    let mut quote = None;
    let mut end = command.len();
    for (at, c) in command.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '|' | '#') => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    command[..end].replace("<run>", "RUN").replace("<other>", "OTHER")
}

#[test]
fn every_command_of_every_page_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    // Whoever asks for help is told first of what is wrong with the words before.
    let bin = wrapped(dir.path(), r#"exec "$TOOL" "$@" --help >/dev/null"#);
    // A loop of a page counts with `i`.
    let understood = |command: &str| bash(dir.path(), &bin, &format!("i=1; {command}"));
    assert!(!understood("tokclock run --duration soon").status.success(), "nothing is checked");
    let mut count = 0;
    for (page, text) in pages() {
        for block in blocks(&text) {
            for (line, command) in commands(&block) {
                count += 1;
                let output = understood(&bare(&command));
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{page}:{line}: {command}\n{said}");
            }
        }
    }
    assert!(count > 70, "{count} commands were found");
}

/// What a reader waits for, made short: the words stay those of the page.
fn shortened(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        let short = match words[at - 1].as_str() {
            "-d" | "--duration" => "400ms",
            "--warmup" => "100ms",
            "--rate" if words[at].parse::<f64>().is_ok() => "100",
            _ => continue,
        };
        // The last word of a line takes the first of the next with it.
        let rest = words[at].find('\n').map_or(String::new(), |cut| words[at][cut..].to_owned());
        words[at] = format!("{short}{rest}");
    }
    words.join(" ")
}

/// Starts the servers that a how-to names, and gives its text with their real ports.
fn served(dir: &Path, text: &str) -> (Vec<SimProcess>, String) {
    let mut sims = Vec::new();
    let mut text = text.to_owned();
    let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
    for line in &lines {
        let Some(options) = line.strip_prefix("tokclock sim --port ") else { continue };
        let (port, options) = options.split_once(' ').unwrap_or((options, ""));
        let home = dir.join(format!("sim-{port}"));
        fs::create_dir(&home).unwrap();
        let sim = TOOL.sim(&home, &format!("--port 0 {options}"));
        text = text.replace(line.as_str(), "true");
        text = text.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{}", sim.port()));
        sims.push(sim);
    }
    (sims, text)
}

/// In a module of its own name, so that it can be left out where it has been run on another driver.
mod walked {
    use super::*;

    #[test]
    fn the_how_tos_do_what_they_say() {
        let _alone = alone();
        let how_tos: Vec<(String, String)> =
            pages().into_iter().filter(|(name, _)| name.contains("docs/howto/")).collect();
        assert!(how_tos.len() >= 5, "{} how-tos were found", how_tos.len());
        for (page, text) in how_tos {
            walk(&page, &text);
        }
    }

    /// Runs the blocks of a how-to.
    fn walk(page: &str, text: &str) {
        let dir = tempfile::tempdir().unwrap();
        let (_sims, text) = served(dir.path(), text);
        // A sweep waits for a steady service and a search for certainty: neither is at stake here.
        let script = r#"
            case $1 in
                sweep) set -- "$@" --warmup 0 --drain 1s ;;
                search) set -- "$@" --warmup 0 --drain 1s -d 300ms --max-duration 300ms --max-probes 3 ;;
            esac
            "$TOOL" "$@"
            code=$?
            echo "$code $*" >> "$CODES"
            exit $code"#;
        let bin = wrapped(dir.path(), script);
        let codes = dir.path().join("codes");
        let export = format!("export CODES='{}'\n", codes.display());
        for block in blocks(&text) {
            if !block.info.is_empty() {
                continue;
            }
            let output = bash(dir.path(), &bin, &format!("{export}{}", shortened(&block.text)));
            let said = String::from_utf8_lossy(&output.stderr);
            let codes = fs::read_to_string(&codes).unwrap_or_default();
            // 3 is an answer, and 4 says that this host was too busy to be believed.
            let is_answer = |line: &str| matches!(line.split(' ').next(), Some("0" | "3" | "4"));
            let bad = codes.lines().find(|line| !is_answer(line));
            assert!(bad.is_none(), "{page}:{}: {}\n{said}", block.line, bad.unwrap_or_default());
        }
        let ran = fs::read_to_string(&codes).unwrap_or_default().lines().count();
        assert!(ran >= 2, "{page}: {ran} commands were run");
    }
}
