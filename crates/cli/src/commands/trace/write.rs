// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--write`, `--write-hex`: write the TLPs of a capture to another file. Overwrite a file only with `--force`.

use super::{Args, for_each_record};
use crate::failure::Failure;
use crate::output;
use capture::reader::UNTIMED;
use capture::render::Count;
use capture::{Record, Writer, hex_text};
use clap::ValueEnum;
use files::ClaimedOutput;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Link type of a pcapng file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum LinkType {
    /// TLPs without encapsulation: LINKTYPE_PCI_EXP of docs/linktype-125.md
    #[value(name = "125")]
    PciExpress,
    /// Ethernet, IPv4, UDP and the header of NetTLP
    Nettlp,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let option = if args.write.is_some() { "--write" } else { "--write-hex" };
    let [file] = args.files.as_slice() else {
        return Err(Failure::usage(format!("{option} takes one file")));
    };
    let mut outputs = output::files(args.force);
    outputs.reads(file);
    let out = args.write.as_deref().or(args.write_hex.as_deref()).unwrap_or(Path::new("-"));
    let place = outputs.claim(option, out)?;
    let left_out = if args.write.is_some() { pcapng(args, file, place)? } else { text(args, file, place)? };
    if left_out > 0 {
        output::note(format_args!(
            "{}: left out {}: not a TLP, or a flit-mode header",
            out.display(),
            Count(left_out, "record")
        ));
    }
    Ok(())
}

fn pcapng(args: &Args, file: &Path, place: ClaimedOutput) -> Result<u64, Failure> {
    let output = place.open()?;
    let failed = |error| output.failed(&error);
    let mut writer = output
        .writer()
        .and_then(|file| match args.linktype {
            LinkType::PciExpress => Writer::of_tlps(file),
            LinkType::Nettlp => Writer::new(file),
        })
        .map_err(failed)?;
    let (mut sieve, mut left_out, mut untimed) = (args.sieve()?, 0, 0);
    for_each_record(args, file, |record| {
        match record.interface.filter(|_| sieve.keeps(record)) {
            Some(interface) if is_tlp(record) => {
                writer.copy(interface, record).map_err(failed)?;
                untimed += u64::from(!record.has_time);
            }
            Some(_) => left_out += 1,
            None => {}
        }
        Ok(())
    })?;
    writer.finish().map_err(failed)?;
    output.finish()?;
    if let (Some(file), true) = (&args.write, untimed > 0) {
        let count = Count(untimed, "TLP");
        output::note(format_args!(
            "{}: the input has no time for {count}; pcapng has time 0 and the comment `{UNTIMED}` for each",
            file.display()
        ));
    }
    Ok(left_out)
}

fn text(args: &Args, file: &Path, place: ClaimedOutput) -> Result<u64, Failure> {
    let output = place.open()?;
    let failed = |error| output.failed(&error);
    let mut writer = BufWriter::new(output.writer().map_err(failed)?);
    writer.write_all(capture::reader::HEX_HEADING.as_bytes()).map_err(failed)?;
    let (mut sieve, mut line, mut left_out) = (args.sieve()?, String::new(), 0);
    for_each_record(args, file, |record: &Record<'_>| {
        if sieve.keeps(record) {
            line.clear();
            left_out += u64::from(!hex_text::append_line(record, &mut line));
            writer.write_all(line.as_bytes()).map_err(failed)?;
        }
        Ok(())
    })?;
    writer.flush().map_err(failed)?;
    drop(writer);
    output.finish()?;
    Ok(left_out)
}

/// Returns true if a record is a TLP that captures can contain; a flit-mode header is not.
fn is_tlp(record: &Record<'_>) -> bool {
    !record.tlp_bytes.is_empty() && record.text.is_none_or(|text| !text.is_flit)
}
