// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `riser new`: creates a crate for a device of your own, from `lab::template`. Never changes existing files.

use crate::{Failure, output};
use lab::template::{self, Riser};
use plug::Models;
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "\
Examples:
  riser new my-device
  riser new my-device --path ~/devices/mine --riser ~/src/riser

Creates a crate that compiles. It has a device with registers, a doorbell, DMA and an MSI; its driver; its settings \
with limits, and its report; a lab and a test. Its program is all of `riser` plus this device: `cargo run -- run \
labs/my-device.toml`. docs/tutorial.md explains the crate. \
The first line of each lab names labs/lab.schema.json, with which editors complete and check labs: docs/guides/editors.md. \
The crate also has a Linux driver, a test of it in a guest, and a CI workflow; docs/drivers.md explains these.
riser is not published as crates yet. The crate depends on riser's repository at the commit of this riser, or with --riser on a checkout.
--json prints one object: name, path, files: [...].";

/// Create a crate with a device of your own: device, driver, lab and test
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Name of the crate and of its model: small letters, digits and hyphens, beginning with a letter
    name: String,

    /// Folder of the crate, which must not exist [default: NAME in the current folder]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,

    /// Checkout of riser that the crate depends on [default: riser's repository]
    #[arg(long, value_name = "DIR")]
    riser: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    path: String,
    files: Vec<String>,
}

pub(crate) fn run(args: Args, models: &Models) -> Result<(), Failure> {
    template::check(&args.name, models).map_err(Failure::usage)?;
    let riser = args.riser.as_deref().map(checkout).transpose().map_err(Failure::usage)?;
    let folder = args.path.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let riser = riser.as_deref().map_or(Riser::Commit(env!("RISER_COMMIT")), Riser::Checkout);
    let files = template::files(&args.name, models, &riser).map_err(io::Error::from)?;
    write(&folder, &files)?;
    let path = folder.display().to_string();
    if args.json {
        let files = files.into_iter().map(|(path, _)| path).collect();
        return output::json(&Written { name: &args.name, path, files });
    }
    output::text(&format!(
        "{path}: a device of your own. Next:\n  cd {path}\n  cargo test\n  cargo run -- run labs/{}.toml",
        args.name
    ))
}

/// Returns the absolute path of a checkout.
fn checkout(folder: &Path) -> Result<PathBuf, String> {
    let why = |e: io::Error| format!("--riser {}: {e}", folder.display());
    let whole = fs::canonicalize(folder).map_err(why)?;
    match whole.join("crates/plug/Cargo.toml").is_file() {
        true => Ok(whole),
        false => Err(format!("--riser {}: not a checkout of riser: it has no crates/plug", folder.display())),
    }
}

/// Creates the folder and its files. On failure, removes the folder.
fn write(folder: &Path, files: &[(String, String)]) -> Result<(), Failure> {
    match fs::create_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let says = format!("{} exists, expected a new folder; --path names another", folder.display());
            return Err(Failure::usage(says));
        }
        Err(e) => return Err(files::failed(folder, &e).into()),
        Ok(()) => {}
    }
    let write = |(path, text): &(String, String)| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)
    };
    files.iter().try_for_each(write).map_err(|e| {
        // This call created the folder, so it contains no files of others.
        let _ = fs::remove_dir_all(folder);
        files::failed(folder, &e).into()
    })
}
