// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser check`: says what is wrong with a lab, or draws it, from `riser-lab`.

use super::labs;
use crate::failure::Failure;
use crate::output;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Example:
  riser check labs/ping.toml

Reads the lab as `riser run` would, and runs nothing. The first thing that is wrong is named with its line and the \
legal values, and the exit status is 1; a good lab is drawn.";

/// Say what is wrong with a lab, or draw it
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The lab files; - is standard input
    #[arg(value_name = "LAB.toml", required = true)]
    labs: Vec<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    for path in &args.labs {
        let (file, name) = labs::read(path)?;
        lab::build(&file).map_err(|why| Failure::Run(format!("{name}: {why}")))?;
        output::warn(&lab::profile::warnings(&file));
        output::text(&format!("{name}\n{}", lab::draw(&file.lab)))?;
    }
    Ok(())
}
