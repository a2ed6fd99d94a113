// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--html`, `--perfetto`, `--write`, `--write-hex`: write a capture to another file. Overwrite a file only with `--force`.

use super::{Args, for_each_record, need_time, shown};
use crate::commands::words::Word;
use crate::{Failure, output};
use capture::perfetto;
use capture::reader::{HEX_HEADING, UNTIMED};
use capture::render::counted;
use capture::{Record, Writer, hex_text};
use files::ClaimedOutput;
use plug::Models;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use view::TracePage;

/// Link types of a pcapng file, each with the function that begins it.
pub(super) const LINK_TYPES: [Word<LinkType>; 2] = [
    ("125", "TLPs without encapsulation: LINKTYPE_PCI_EXP of docs/linktype-125.md", Writer::of_tlps),
    ("nettlp", "Ethernet, IPv4, UDP and the header of NetTLP", Writer::new),
];

pub(super) type LinkType = fn(File) -> io::Result<Writer<File>>;

/// Writes the file of the first of these options that is given. Returns false if none is.
pub(super) fn run(args: &Args, models: &Models) -> Result<bool, Failure> {
    type Write = fn(&Args, &Models, &Path, ClaimedOutput, &Path) -> Result<(), Failure>;
    let all: [(&str, &Option<_>, Write); 4] = [
        ("--html", &args.html, html),
        ("--perfetto", &args.perfetto, perfetto),
        ("--write", &args.write, pcapng),
        ("--write-hex", &args.write_hex, text),
    ];
    let given = all.into_iter().find_map(|(option, out, write)| Some((option, out.as_deref()?, write)));
    let Some((option, out, write)) = given else { return Ok(false) };
    let [file] = args.files.as_slice() else {
        return Err(Failure::usage(format!("{option} takes one file")));
    };
    let mut outputs = output::files(args.force);
    outputs.reads(file);
    write(args, models, file, outputs.claim(option, out)?, out).map(|()| true)
}

fn html(args: &Args, models: &Models, file: &Path, place: ClaimedOutput, out: &Path) -> Result<(), Failure> {
    let mut page = TracePage::new(&shown(file)).naming(models.registers());
    for_each_record(args, file, |record| {
        page.record(record);
        Ok(())
    })?;
    if page.hidden() > 0 {
        let (out, rows, more) = (out.display(), page.rows(), page.hidden());
        output::note(format_args!("{out}: shows {rows} records and only counts {more} more"));
    }
    Ok(place.fill(|output| page.write(BufWriter::new(output)))?)
}

fn perfetto(args: &Args, _: &Models, file: &Path, place: ClaimedOutput, _: &Path) -> Result<(), Failure> {
    let (filter, output) = (args.filter()?, place.open()?);
    let failed = |error| output.failed(&error);
    let mut writer = output.writer().and_then(|file| perfetto::Writer::new(file, filter)).map_err(failed)?;
    for_each_record(args, file, |record| {
        need_time(file, "--perfetto", record)?;
        Ok(writer.see(record).map_err(failed)?)
    })?;
    writer.finish().map_err(failed)?;
    Ok(output.finish()?)
}

fn pcapng(args: &Args, _: &Models, file: &Path, place: ClaimedOutput, out: &Path) -> Result<(), Failure> {
    let output = place.open()?;
    let failed = |error| output.failed(&error);
    let mut writer = output.writer().and_then(args.linktype).map_err(failed)?;
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
    if untimed > 0 {
        let (out, count) = (out.display(), counted(untimed, "TLP"));
        output::note(format_args!(
            "{out}: the input has no time for {count}; pcapng has time 0 and the comment `{UNTIMED}` for each"
        ));
    }
    note_left_out(out, left_out);
    Ok(())
}

fn text(args: &Args, _: &Models, file: &Path, place: ClaimedOutput, out: &Path) -> Result<(), Failure> {
    let output = place.open()?;
    let failed = |error| output.failed(&error);
    let mut writer = BufWriter::new(output.writer().map_err(failed)?);
    writer.write_all(HEX_HEADING.as_bytes()).map_err(failed)?;
    let (mut sieve, mut line, mut left_out) = (args.sieve()?, String::new(), 0);
    for_each_record(args, file, |record| {
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
    note_left_out(out, left_out);
    Ok(())
}

fn note_left_out(out: &Path, count: u64) {
    if count > 0 {
        let (out, count) = (out.display(), counted(count, "record"));
        output::note(format_args!("{out}: left out {count}: not a TLP, or a flit-mode header"));
    }
}

/// Returns true if a record is a TLP that captures can contain; a flit-mode header is not.
fn is_tlp(record: &Record<'_>) -> bool {
    !record.tlp_bytes.is_empty() && record.text.is_none_or(|text| !text.is_flit)
}
