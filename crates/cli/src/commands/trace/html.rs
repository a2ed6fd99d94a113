// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--html`: a capture as one page. Never overwrites a file unasked.

use super::{Args, for_each_record};
use crate::commands::files;
use crate::failure::Failure;
use std::io::BufWriter;
use std::path::Path;
use view::TracePage;

pub(super) fn run(args: &Args, out: &Path) -> Result<(), Failure> {
    let [file] = args.files.as_slice() else { return Err(Failure::usage("--html takes one file")) };
    files::not_the_input(out, Path::new(file))?;
    // Before the output is there: a file that is no capture leaves none.
    super::open(file)?;
    let output = files::create(out, args.force)?;
    let mut page = TracePage::new(file);
    for_each_record(args, file, |record| {
        page.record(record);
        Ok(())
    })?;
    if page.hidden() > 0 {
        eprintln!(
            "riser: {}: shows {} records, {} more are only counted",
            out.display(),
            page.rows(),
            page.hidden()
        );
    }
    page.write(BufWriter::new(output)).map_err(|error| files::failed(out, &error))
}
