// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--html`: writes a capture as one page. Overwrites a file only with `--force`.

use super::{Args, for_each_record};
use crate::failure::Failure;
use crate::output;
use plug::Models;
use std::io::BufWriter;
use std::path::Path;
use view::TracePage;

pub(super) fn run(args: &Args, models: &Models, out: &Path) -> Result<(), Failure> {
    let [file] = args.files.as_slice() else { return Err(Failure::usage("--html takes one file")) };
    let mut outputs = output::files(args.force);
    outputs.reads(file);
    let place = outputs.claim("--html", out)?;
    let mut page = TracePage::new(&super::shown(file)).naming(models.registers());
    for_each_record(args, file, |record| {
        page.record(record);
        Ok(())
    })?;
    if page.hidden() > 0 {
        output::note(format_args!(
            "{}: shows {} records and only counts {} more",
            out.display(),
            page.rows(),
            page.hidden()
        ));
    }
    Ok(place.fill(|output| page.write(BufWriter::new(output)))?)
}
