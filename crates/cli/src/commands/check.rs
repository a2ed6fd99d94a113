// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser check`: reports errors of a lab, or draws the lab, from `riser-lab`.

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

Reads the lab as `riser run` does, but runs nothing. Prints each error with its line and the legal values, or draws the lab if it has \
none. The exit status is 1 if the lab has errors, and 2 if only values of --set have errors. riser reports all TOML \
errors together. In valid TOML, it first reports all wrong types and values of keys, and then conflicts between keys \
and between files.";

/// Report the errors of a lab, or draw it
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Lab files; - is standard input
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
