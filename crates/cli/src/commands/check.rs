// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser check`: says what is wrong with a lab, or draws it, from `riser-lab`.

use super::labs::{self, Set};
use crate::failure::Failure;
use crate::{input, output};
use lab::BuildOptions;
use plug::Models;
use plug::site::NativeCode;
use session::Session;
use std::path::PathBuf;

const EXAMPLE: &str = "\
Examples:
  riser check labs/ping.toml
  riser check labs/ping.toml --set slot.nic.link.lanes=16

Reads the lab as `riser run` would, and runs nothing. What is wrong is named, each with its line and the legal values, and \
the exit status is 1, or 2 where only what --set says is wrong; a good lab is drawn. Told at once are all errors of TOML; else of \
types and single keys; else what is wrong with how keys and files stand to each other.";

/// Say what is wrong with a lab, or draw it
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// The lab files; - is standard input
    #[arg(value_name = "LAB.toml", required = true)]
    labs: Vec<PathBuf>,

    #[command(flatten)]
    set: Set,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    input::check(args.labs.iter().map(PathBuf::as_path))?;
    for path in &args.labs {
        let (file, name) = labs::read(models, path, &args.set)?;
        let options = BuildOptions::native(NativeCode::NotLoaded);
        let session = Session::with(&file, options).map_err(|why| Failure::Run(format!("{name}: {why}")))?;
        output::warn(session.warnings());
        output::text(&format!("{name}\n{}", lab::draw(&file.lab)))?;
    }
    Ok(())
}
