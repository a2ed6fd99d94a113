// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `riser` command: parses arguments, calls the other crates, and prints their results.
//!
//! This crate never computes results itself, and overwrites files only on request, as with `--force`.
//!
//! - [`commands`]: one file per command. A new command adds three lines to its `mod.rs`, and its name to a group of [`help`].
//! - [`output`]: tables and JSON on standard output. - [`progress`]: progress bars.
//! - [`failure`]: reasons why a command does not complete. - [`exit`]: messages on standard error, and exit statuses.
//! - [`help`]: layout of the help, and the overview that `riser` alone prints.

mod commands;
mod exit;
mod failure;
mod help;
mod output;
mod progress;

use clap::{CommandFactory, FromArgMatches, Parser};
use failure::Failure;
use files::{input, interrupt};
use plug::Models;
use std::ffi::OsString;
use std::process::ExitCode;

pub use worlds::models;

/// Run a PCI Express slot in software: write a device, watch its packets, measure its performance.
#[derive(Parser)]
#[command(name = "riser", version = env!("RISER_VERSION"), propagate_version = true, after_help = EXAMPLE)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

const EXAMPLE: &str = "\
Examples:
  riser run labs/ping.toml --capture ping.pcapng
  riser trace ping.pcapng
  riser bench --suite LAT_RD BW_WR --gen 4 --lanes 16

Exit status: 0 done; 1 the run failed, or an input file has an error; 2 wrong usage: an argument has an error, including --set; \
130 interrupted (Ctrl-C).
Commands create missing folders of the files they write. Standard output must be open: if it is closed (>&-), the output is lost and \
the exit status does not show it. Redirect it to /dev/null to discard it.";

/// Runs the command with these models for the slots of its labs. It can be the only call in the `main` of a program
/// with its own devices.
///
/// ```no_run
/// # use std::process::ExitCode;
/// fn main() -> ExitCode {
///     riser_cli::main_with(riser_cli::models())
/// }
/// ```
pub fn main_with(models: Models) -> ExitCode {
    let itself = std::env::current_exe().map(OsString::from).into_iter().collect();
    ExitCode::from(run_with(models, itself, std::env::args_os()))
}

/// Like [`main_with`], with these arguments. The first argument is the name of the command. `itself` is the program
/// with its leading arguments. Other processes, such as workers, run the same command by it. Returns the exit status.
pub fn run_with<A: Into<OsString> + Clone>(
    models: Models,
    itself: Vec<OsString>,
    args: impl IntoIterator<Item = A>,
) -> u8 {
    interrupt::outlive_file_limits();
    files::limit::raise();
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    if args.len() <= 1 {
        return exit::status(output::text(help::OVERVIEW));
    }
    match parse(&args) {
        Ok(cli) => exit::status(cli.command.run(&models, itself)),
        Err(error) => exit::refuse_arguments(&error, &args),
    }
}

/// Parses the arguments. A negative number after an option counts as its value, so that the error lists the valid
/// values.
fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Returns the parser of `riser` with all commands below it.
pub fn command() -> clap::Command {
    help::arrange(with_negative_numbers(Cli::command()))
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes = |arg: clap::Arg| {
        let takes_values = arg.get_action().takes_values() && !arg.is_positional();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(takes).mut_subcommands(with_negative_numbers)
}
