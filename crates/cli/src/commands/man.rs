// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser man`: prints the help of each command as a manual page, with `clap_mangen`.

use crate::{Cli, Failure, output};
use clap::CommandFactory;
use clap_mangen::Man;
use files::ClaimedOutput;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  riser man -o ~/.local/share/man/man1
  riser man | man -l -
  riser man model bw > riser-model-bw.1

With -o, writes one page for each command and subcommand. The files are riser.1, riser-run.1, riser-model-bw.1 and so \
on; `man riser-run` shows the second. Without -o, prints one page to standard output.";

/// Write manual pages
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Command whose page is printed [default: riser itself]
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,

    /// Write all pages to this folder
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut riser = Cli::command().disable_help_subcommand(true);
    riser.build();
    let Some(folder) = args.output else {
        return output::text(page(find(&riser, &args.command)?)?.trim_end());
    };
    output::refuse_standard(&folder, "without -o, one page goes to standard output")?;
    let mut outputs = output::files(args.force);
    let mut places: Vec<(ClaimedOutput, &clap::Command)> = Vec::new();
    for command in all(&riser) {
        let file = folder.join(format!("{}.1", name(command)));
        places.push((outputs.claim("-o", &file)?, command));
    }
    places.into_iter().try_for_each(|(place, command)| Ok(place.write(&page(command)?)?))
}

/// Returns the command and all commands below it.
fn all(command: &clap::Command) -> Vec<&clap::Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(all)).collect()
}

fn find<'a>(riser: &'a clap::Command, words: &[String]) -> Result<&'a clap::Command, Failure> {
    words.iter().try_fold(riser, |command, word| {
        command.find_subcommand(word).ok_or_else(|| {
            let legal: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
            let place = name(command).replace('-', " ");
            let legal = if legal.is_empty() { "none".to_owned() } else { legal.join(", ") };
            Failure::usage(format!("`{place}` has no command `{word}`: there are {legal}"))
        })
    })
}

/// Name of the command's page, such as `riser-model-bw`.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let written = Man::new(command.clone()).render(&mut text);
    written.map_err(|e| Failure::Run(format!("{}: {e}", name(command))))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
