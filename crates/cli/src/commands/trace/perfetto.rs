// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--perfetto`: a capture for the Perfetto viewer. Never overwrites a file unasked.

use super::{Args, for_each_record};
use crate::commands::files;
use crate::failure::Failure;
use capture::perfetto::Writer;
use std::path::Path;

pub(super) fn run(args: &Args, out: &Path) -> Result<(), Failure> {
    let [file] = args.files.as_slice() else { return Err(Failure::usage("--perfetto takes one file")) };
    let filter = args.filter()?;
    files::not_the_input(out, Path::new(file))?;
    // Before the output is there: a file that is no capture leaves none.
    super::open(file)?;
    let failed = |error| files::failed(out, &error);
    let mut writer = Writer::new(files::create(out, args.force)?, filter).map_err(failed)?;
    for_each_record(args, file, |record| writer.see(record).map_err(failed))?;
    writer.finish().map_err(failed)?;
    Ok(())
}
