// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--sequence`: prints the first transactions that match the filter as a sequence diagram, or draws it.

use super::{Args, for_each_record, shown};
use crate::{Failure, output};
use capture::diagram::{Arranged, Diagram};
use std::path::Path;
use view::sequence::Sequence;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.svg.is_some() && args.names_files() {
        return Err(Failure::usage("--svg takes one capture"));
    }
    let mut outputs = output::files(args.force);
    args.files.iter().for_each(|file| outputs.reads(file));
    let mut svg = outputs.claim_if("--svg", args.svg.as_deref())?;
    args.files.iter().try_for_each(|file| {
        let Some(arranged) = arranged(args, file)? else { return Ok(()) };
        if args.names_files() {
            output::text(&format!("==> {} <==", file.display()))?;
        }
        output::text(&arranged.to_string())?;
        let Some(place) = svg.take() else { return Ok(()) };
        let picture = Sequence::of(shown(file), &arranged);
        Ok(place.write(&picture.svg().map_err(Failure::run)?)?)
    })
}

/// Returns the diagram of a capture; `None` if no transaction matches.
fn arranged(args: &Args, file: &Path) -> Result<Option<Arranged>, Failure> {
    let mut diagram = Diagram::new(args.filter()?);
    for_each_record(args, file, |record| {
        diagram.see(record);
        Ok(())
    })?;
    let file = shown(file);
    let Some((arranged, left_out)) = diagram.finish() else {
        output::note(format_args!("{file}: no transaction to draw"));
        return Ok(None);
    };
    if left_out > 0 {
        output::note(format_args!(
            "{file}: {left_out} more transactions match; --filter selects those to draw"
        ));
    }
    Ok(Some(arranged))
}
