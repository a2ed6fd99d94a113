// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--perfetto`: writes a capture for the Perfetto viewer. Overwrites a file only with `--force`.

use super::{Args, for_each_record, need_time};
use crate::failure::Failure;
use crate::output;
use capture::perfetto::Writer;
use std::path::Path;

pub(super) fn run(args: &Args, out: &Path) -> Result<(), Failure> {
    let [file] = args.files.as_slice() else { return Err(Failure::usage("--perfetto takes one file")) };
    let filter = args.filter()?;
    let mut outputs = output::files(args.force);
    outputs.reads(file);
    let output = outputs.claim("--perfetto", out)?.open()?;
    let failed = |error| output.failed(&error);
    let mut writer = output.writer().and_then(|file| Writer::new(file, filter)).map_err(failed)?;
    for_each_record(args, file, |record| {
        need_time(file, "--perfetto", record)?;
        Ok(writer.see(record).map_err(failed)?)
    })?;
    writer.finish().map_err(failed)?;
    Ok(output.finish()?)
}
