// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--sequence`: prints the first transactions that match the filter as a sequence diagram, or draws it.

use super::{Args, for_each_record, shown};
use crate::failure::Failure;
use crate::output;
use capture::Tracker;
use capture::diagram::{Arranged, Diagram, Steps};
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
    let filter = args.filter()?;
    let (mut tracker, mut steps, mut diagram) = (Tracker::new(), Steps::new(), Diagram::new());
    let mut take = |tracker: &mut Tracker, steps: &mut Steps| {
        while let Some(t) = tracker.next_ended() {
            diagram.add(steps, &t, filter.as_ref().is_none_or(|filter| filter.holds_for(&t)));
        }
    };
    for_each_record(args, file, |record| {
        let terms = filter.as_ref().map_or(0, |filter| filter.terms(record));
        let outcome = tracker.see(record, terms);
        steps.see(record, &outcome);
        take(&mut tracker, &mut steps);
        Ok(())
    })?;
    tracker.finish();
    take(&mut tracker, &mut steps);
    if diagram.is_empty() {
        output::note(format_args!("{}: no transaction to draw", shown(file)));
        return Ok(None);
    }
    if diagram.left_out() > 0 {
        let (file, left) = (shown(file), diagram.left_out());
        output::note(format_args!("{file}: {left} more transactions match; --filter selects those to draw"));
    }
    Ok(Some(diagram.arrange(&steps)))
}
