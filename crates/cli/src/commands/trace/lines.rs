// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a capture as lines, in one of the views of `capture::views`. This module does not store records.

use super::{Args, for_each_record, shown};
use crate::{Failure, output};
use capture::Names;
use capture::names::OfRequests;
use capture::views::{Credits, Findings, Lines, Records, Transactions, View};
use plug::Models;
use std::io::{BufWriter, Write};

/// Size of the output buffer.
const BUFFER_BYTES: usize = 1 << 16;

pub(super) fn run(args: &Args, models: &Models) -> Result<(), Failure> {
    args.filter()?;
    if args.check.check && !args.check.has_rules() {
        return Err(Failure::usage("--rule and --ignore: no rule left to judge by"));
    }
    // A live capture needs each line at once.
    let buffer = if args.interface.is_some() { 0 } else { BUFFER_BYTES };
    let (mut out, mut has_failed) = (BufWriter::with_capacity(buffer, output::stream()), false);
    for file in &args.files {
        if args.names_files() && !args.json {
            writeln!(out, "==> {} <==", file.display())?;
        }
        let lines = Lines { json: args.json, file: args.file_name(file), line: String::new() };
        let mut view = view(args, models, lines)?;
        for_each_record(args, file, |record| Ok(view.see(record, &mut out)?))?;
        let ended = view.finish(&mut out)?;
        out.flush()?;
        ended.note.iter().for_each(|note| output::note(format_args!("{}: {note}", shown(file))));
        has_failed |= ended.has_failed;
    }
    if has_failed { Err(Failure::Command(1)) } else { Ok(()) }
}

fn view<'a>(args: &Args, models: &Models, lines: Lines<'a>) -> Result<Box<dyn View + 'a>, Failure> {
    let (sieve, registers) = (args.sieve()?, models.registers());
    Ok(if args.check.check {
        Box::new(Findings::new(lines, args.check.checker(), args.check.limit(args.json)))
    } else if args.transactions {
        Box::new(Transactions::new(lines, args.filter()?, OfRequests::new(registers)))
    } else if args.credits {
        let ledgers = args.ledgers();
        Box::new(Credits { lines, sieve, ledgers, unknown: 0 })
    } else {
        Box::new(Records { lines, sieve, names: Names::new(registers), data: args.hex })
    })
}
