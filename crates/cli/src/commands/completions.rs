// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser completions`: prints shell completion scripts, with `clap_complete`. Does not install them.

use crate::{Cli, Failure, output};
use clap::CommandFactory;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  riser completions bash > ~/.local/share/bash-completion/completions/riser
  riser completions zsh > ~/.zfunc/_riser        # with fpath+=~/.zfunc before compinit in .zshrc
  riser completions fish > ~/.config/fish/completions/riser.fish
  riser completions elvish >> ~/.config/elvish/rc.elv
  riser completions powershell >> $PROFILE";

/// Print a shell script that completes riser's commands and arguments
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Shell that reads the script
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "riser", &mut script);
    output::text(String::from_utf8_lossy(&script).trim_end())
}
