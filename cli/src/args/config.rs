//! What may be typed after `tokclock config`, `completions` and `man`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  tokclock config check load.toml                  mistakes by line, or what it means
  tokclock config schema > tokclock.schema.json    for an editor that knows JSON Schema
  tokclock run --config load.toml                  use it";

const CHECK_EXAMPLES: &str = "\
Examples:
  tokclock config check load.toml
  tokclock config check load.toml --command sweep
  tokclock config check tokclock-results/<run>/run.toml

Problems go to stdout, one a line, as FILE:LINE: WHAT. No server is asked and nothing is fetched.
Exit codes: 0 good, 2 something is wrong.";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  tokclock config schema > tokclock.schema.json
  tokclock config schema --command run             without what only sweep and search have

Exit codes: 0, 2 usage.";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tokclock completions bash > ~/.local/share/bash-completion/completions/tokclock
  tokclock completions zsh > ~/.zfunc/_tokclock
  tokclock completions fish > ~/.config/fish/completions/tokclock.fish

Exit codes: 0, 2 usage.";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  tokclock man | man -l -                          the main page
  tokclock man --out ~/.local/share/man/man1       a page for each command

Exit codes: 0, 1 could not write, 2 usage.";

/// What is done with files of options.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a file as --config does: say what is wrong with it, or what it means
    #[command(after_help = CHECK_EXAMPLES)]
    Check(ConfigCheckArgs),
    /// Print the JSON Schema of such files
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema(SchemaArgs),
}

/// A command that takes a file of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadCommand {
    /// `tokclock run`
    Run,
    /// `tokclock sweep`
    Sweep,
    /// `tokclock search`
    Search,
}

/// Options of `config check`.
#[derive(Debug, Args)]
pub(crate) struct ConfigCheckArgs {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The command that it is for [default: what the first line of a saved file says, else run]
    #[arg(long, value_name = "COMMAND", hide_possible_values = true)]
    pub(crate) command: Option<LoadCommand>,
}

/// Options of `config schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The command that files are for: run, sweep, search [default: any of them]
    #[arg(long, value_name = "COMMAND", hide_possible_values = true)]
    pub(crate) command: Option<LoadCommand>,
}

/// Options of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory to write a page for each command to; it is made [default: the main page alone, to
    /// stdout]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
