// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser check`: reports errors of a lab, or draws the lab, from `riser-lab`.

use super::labs::{self, Set};
use crate::{Failure, input, output};
use lab::{BuildOptions, Sketch};
use plug::Models;
use plug::site::NativeCode;
use session::Session;
use std::path::PathBuf;
use view::tree::Topology;

const EXAMPLE: &str = "\
Examples:
  riser check labs/ping.toml
  riser check labs/ping.toml --set slot.nic.link.lanes=16
  riser check labs/tree.toml --svg tree.svg

Reads the lab as `riser run` does, but runs nothing. Prints each error with its line and the legal values, or draws the lab if it has \
none. --svg also writes the drawing as a picture. The exit status is 1 if the lab has errors, and 2 if only values of \
--set have errors. riser reports all TOML errors together. In valid TOML, it first reports all wrong types and values \
of keys, and then conflicts between keys and between files.";

/// Report the errors of a lab, or draw it
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Lab files; - is standard input
    #[arg(value_name = "LAB.toml", required = true)]
    labs: Vec<PathBuf>,

    #[command(flatten)]
    set: Set,

    /// Write an SVG picture to this file: the hosts, switches, slots and links of one lab
    #[arg(long, value_name = "OUT.svg")]
    svg: Option<PathBuf>,

    /// Overwrite existing files
    #[arg(long, requires = "svg")]
    force: bool,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    input::check(args.labs.iter().map(PathBuf::as_path))?;
    if args.svg.is_some() && args.labs.len() > 1 {
        return Err(Failure::usage(format!("--svg draws one lab, given {}", args.labs.len())));
    }
    let mut outputs = output::files(args.force);
    args.labs.iter().for_each(|path| outputs.reads(path));
    let mut svg = outputs.claim_if("--svg", args.svg.as_deref())?;
    for path in &args.labs {
        let (file, name) = labs::read(models, path, &args.set)?;
        let options = BuildOptions::native(NativeCode::NotLoaded);
        let session = Session::with(&file, options).map_err(|why| Failure::Run(format!("{name}: {why}")))?;
        output::warn(session.warnings());
        output::text(&format!("{name}\n{}", lab::draw(&file.lab)))?;
        if let Some(place) = svg.take() {
            let picture = Topology::of(&name, &Sketch::of(&file.lab));
            place.write(&picture.svg().map_err(Failure::run)?)?;
        }
    }
    Ok(())
}
