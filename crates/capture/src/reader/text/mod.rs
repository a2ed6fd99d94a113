// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text formats. This module detects the format, splits lines, and returns TLPs as frames of `LINKTYPE_PCI_EXP`. A
//! submodule parses each format.
//!
//! Memory holds at most [`MAX_LINE`] bytes of a line, and the TLPs of one line. A longer line is reported as one
//! error.

pub(super) mod columns;
mod csv;
mod descriptor;
mod error;
mod hex;
mod log;
mod mmiotrace;
mod pcileech;
mod words;

use super::format::{ByteOrder, FileFormat, ReadOptions};
use super::{Fault, Found, Interfaces, LINKTYPE_PCI_EXP, Mark, Source, Step, Unreadable};
use crate::count::counted;
use crate::settings::FunctionOverrides;
use crate::time::{Resolution, Timestamp};
use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, Read};
use tlp::Header;

pub use error::{LineError, MAX_LINE, PacketError};

/// Number of bytes at the start of a file from which its format is detected.
const SAMPLE: usize = 128 << 10;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The line of a TLP in a text, and the text about the TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextLine<'a> {
    /// Number of the line in the file, from 1.
    pub line: u64,
    /// True if the line has a time; otherwise the timestamp of the record is zero.
    pub has_time: bool,
    /// Text about the TLP, such as the errors that a kernel logged with it; may be empty.
    pub note: &'a str,
    /// The fourth DW of a header log whose header has three. It is undefined, and not a part of the TLP.
    pub undefined: Option<u32>,
    /// True for the header of a TLP in flit mode.
    pub is_flit: bool,
    /// True for a header that a port logged with an error. The text does not have the other TLPs of its link.
    pub is_log: bool,
    /// Settings in the text before this line.
    pub settings: FunctionOverrides,
}

/// A TLP in a text.
#[derive(Default)]
struct TextTlp {
    line: u64,
    bytes: Vec<u8>,
    /// Length of the whole TLP in bytes, if the text has it.
    wire_len: Option<usize>,
    undefined: Option<u32>,
    is_flit: bool,
    /// Time in picoseconds.
    time: Option<u128>,
    /// Name of the interface, which may end with the direction.
    interface: String,
    note: String,
}

impl TextTlp {
    /// Removes the fourth DW of a header log if the header has three.
    fn trim_log(&mut self) {
        let Ok(header) = Header::new(&self.bytes) else { return };
        let end = header.prefix_bytes().len() + header.bytes().len();
        if let Some(dw) = self.bytes.get(end..end + 4).and_then(|dw| dw.first_chunk()) {
            self.undefined = Some(u32::from_be_bytes(*dw));
            self.bytes.truncate(end);
        }
    }

    /// Length of the whole TLP in bytes: from the text, or from its header.
    fn original_len(&self) -> usize {
        let by_header = || if self.is_flit { 0 } else { Header::new(&self.bytes).map_or(0, |h| h.tlp_len()) };
        self.wire_len.unwrap_or_else(by_header).max(self.bytes.len())
    }
}

/// The reader of one format. It takes one line at a time, and appends the TLPs that are complete.
trait Lines {
    /// Describes the format; for a log, also the headers that were read.
    fn taken_for(&self) -> String;

    /// Reads line `number`. Returns the error of an unreadable line.
    fn line(&mut self, line: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), LineError>;

    /// Appends the unfinished TLP at the end of the file. Returns an error if it is incomplete.
    fn flush(&mut self, _out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        Ok(())
    }

    /// Returns the number of lines that do not belong to TLPs, for a format in which all lines should.
    fn others(&self) -> u64 {
        0
    }

    /// Returns the settings in the lines so far.
    fn settings(&self) -> FunctionOverrides {
        FunctionOverrides::default()
    }

    /// Returns true if the byte order was guessed, which the user should know.
    fn has_guessed_byte_order(&self) -> bool {
        false
    }
}

pub(super) struct Text {
    format: FileFormat,
    lines: Box<dyn Lines + Send>,
    resolution: Resolution,
    line: String,
    number: u64,
    has_ended: bool,
    pending: VecDeque<TextTlp>,
    /// The current TLP.
    current: TextTlp,
    tlps: u64,
    /// Number of TLPs with an undefined fourth dword.
    undefined: u64,
}

impl Text {
    /// Detects the format of a text. `None` if it is unknown; an error if the options do not match the file.
    pub(super) fn detect<R: Read>(
        source: &mut Source<R>,
        options: &ReadOptions,
    ) -> io::Result<Option<Result<Text, Unreadable>>> {
        source.need(SAMPLE)?;
        let sample = &source.window()[..source.window().len().min(SAMPLE)];
        if options.format.is_none() && options.columns.is_none() && is_binary(sample) {
            return Ok(None);
        }
        if let Some(what) = no_text(sample).filter(|_| options.format.is_some() && options.columns.is_none())
        {
            return Ok(Some(Err(Unreadable::Option(format!("{what}, expected UTF-8")))));
        }
        let utf16 = utf16(sample).filter(|_| options.columns.is_some());
        let sample = String::from_utf8_lossy(sample);
        let sample = sample.trim_start_matches(BYTE_ORDER_MARK);
        let has_columns = options.columns.as_ref().map(|_| FileFormat::Csv);
        let format = options.format.or(has_columns).or_else(|| format_of(sample));
        let Some(format) = format else { return Ok(None) };
        let lines: Box<dyn Lines + Send> = match (format, &options.columns) {
            (FileFormat::Hex, _) => Box::new(hex::Hex::new(options.byte_order, options.flit, sample)),
            (FileFormat::Log, _) => Box::new(log::Log::default()),
            (FileFormat::Pcileech, _) => Box::new(pcileech::Pcileech::default()),
            (FileFormat::Mmiotrace, _) => Box::new(mmiotrace::Mmiotrace::default()),
            (FileFormat::Csv, Some(columns)) => {
                let no_text = utf16.or_else(|| no_csv(sample));
                let no_text = no_text.map_or(Ok(()), |what| Err(Unreadable::Option(what.to_owned())));
                match no_text.and_then(|()| csv::Csv::new(columns.clone(), options.byte_order, sample)) {
                    Ok(csv) => Box::new(csv),
                    Err(error) => return Ok(Some(Err(error))),
                }
            }
            (FileFormat::Csv, None) | (FileFormat::Pcap | FileFormat::Pcapng, _) => return Ok(None),
        };
        let resolution = match format {
            FileFormat::Csv | FileFormat::Hex => Resolution::PICOSECONDS,
            _ => Resolution::MICROSECONDS,
        };
        Ok(Some(Ok(Text {
            format,
            lines,
            resolution,
            line: String::new(),
            number: 0,
            has_ended: false,
            pending: VecDeque::new(),
            current: TextTlp::default(),
            tlps: 0,
            undefined: 0,
        })))
    }

    pub(super) const fn format(&self) -> FileFormat {
        self.format
    }

    /// Describes the format and the TLPs read so far.
    pub(super) fn taken_for(&self) -> String {
        let mut text = self.lines.taken_for();
        if self.format == FileFormat::Log {
            return text;
        }
        let others = self.lines.others();
        // Writing to a string cannot fail.
        let _ = write!(text, ": {}", counted(self.tlps, "TLP"));
        if others > 0 {
            let _ = write!(text, ", {}", counted(others, "other line"));
        }
        if self.undefined > 0 {
            let _ = write!(text, ", {} with an undefined fourth dword", self.undefined);
        }
        text
    }

    pub(super) fn has_guessed_byte_order(&self) -> bool {
        self.lines.has_guessed_byte_order()
    }

    /// Returns the bytes of the current TLP.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.current.bytes
    }

    /// Returns the line and the note of the current TLP.
    pub(super) fn about(&self) -> TextLine<'_> {
        let TextTlp { line, undefined, is_flit, time, note, .. } = &self.current;
        TextLine {
            line: *line,
            has_time: time.is_some(),
            note,
            undefined: *undefined,
            is_flit: *is_flit,
            is_log: self.format == FileFormat::Log,
            settings: self.lines.settings(),
        }
    }

    /// Reads the next TLP.
    pub(super) fn step<R: Read>(
        &mut self,
        source: &mut Source<R>,
        interfaces: &mut Interfaces,
        found: &mut Found,
    ) -> io::Result<Step> {
        loop {
            if let Some(tlp) = self.pending.pop_front() {
                self.hand_out(tlp, interfaces, found);
                return Ok(Step::Frame);
            }
            let offset = source.offset();
            let result = match self.next_line(source)? {
                Some(is_whole) => {
                    self.number += 1;
                    match is_whole {
                        true => self.lines.line(&self.line, self.number, &mut self.pending),
                        false => Err(LineError::TooLong),
                    }
                }
                None if std::mem::replace(&mut self.has_ended, true) => return Ok(Step::End),
                None => self.lines.flush(&mut self.pending),
            };
            if let Err(what) = result {
                return Ok(Step::Fault(Fault::Line { offset, line: self.number, what }));
            }
        }
    }

    fn hand_out(&mut self, tlp: TextTlp, interfaces: &mut Interfaces, found: &mut Found) {
        let unit = 10_u128.pow(u32::from(12 - self.resolution.digits()));
        let time = tlp.time.unwrap_or(0);
        *found = Found {
            // Rounded to the resolution, so that copies of the file have the same time as the printed lines.
            timestamp: Timestamp::from_ps(time - time % unit),
            interface_id: interfaces.of_text(&tlp.interface, self.resolution, LINKTYPE_PCI_EXP),
            original_len: tlp.original_len(),
            bytes: 0..0,
            record_len: 0,
            mark: Mark::default(),
            direction: None,
            is_untimed: tlp.time.is_none(),
        };
        self.tlps += u64::from(!tlp.bytes.is_empty());
        self.undefined += u64::from(tlp.undefined.is_some());
        self.current = tlp;
    }

    /// Reads the next line; `None` at the end of the file. Skips a line longer than [`MAX_LINE`] and returns false.
    fn next_line<R: Read>(&mut self, source: &mut Source<R>) -> io::Result<Option<bool>> {
        let (mut need, mut is_whole) = (1, true);
        loop {
            let is_there = source.need(need)?;
            let window = source.window();
            let window = &window[..window.len().min(MAX_LINE)];
            let end = window.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            match end {
                None if is_there && window.len() < MAX_LINE => need = window.len() + 1,
                None if window.is_empty() => return Ok((!is_whole).then_some(false)),
                None if is_there && window.len() == MAX_LINE => {
                    (need, is_whole) = (1, false);
                    source.skip(MAX_LINE);
                }
                end => {
                    let end = end.unwrap_or(window.len());
                    self.line.clear();
                    let text = String::from_utf8_lossy(&window[..end]);
                    let text =
                        if self.number == 0 { text.trim_start_matches(BYTE_ORDER_MARK) } else { &text };
                    append_shown(text.trim_end(), &mut self.line);
                    source.skip(end);
                    return Ok(Some(is_whole));
                }
            }
        }
    }
}

/// Appends text in a form that is safe for a terminal: without escape sequences such as colors, and with other
/// control characters replaced.
fn append_shown(text: &str, line: &mut String) {
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.as_str().starts_with('[') {
            // Parameters, then one final character (ECMA-48 §5.4).
            rest.by_ref().skip(1).find(|c| !(' '..='?').contains(c));
        } else {
            line.push(if c.is_ascii_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c });
        }
    }
}

/// Returns a hint about a file without a known format, if it is compressed, UTF-16 or CSV, or has hexadecimal DWs.
pub(super) fn hint(window: &[u8]) -> Option<String> {
    // The first bytes of gzip, RFC 1952 §2.3.1.
    if window.starts_with(&[0x1f, 0x8b]) {
        return Some("this is compressed by gzip: zcat FILE | riser trace -".to_owned());
    }
    if let Some(what) = utf16(window) {
        return Some(what.to_owned());
    }
    let sample = String::from_utf8_lossy(&window[..window.len().min(SAMPLE)]);
    let names = csv::names(sample.trim_start_matches(BYTE_ORDER_MARK)).filter(|_| no_csv(&sample).is_none());
    let as_csv = names.map(|names| format!("looks like CSV with columns {names}; use --columns"));
    let as_hex = || hex::first_error(&sample).map(|e| format!("as hexadecimal text (--read-as hex), {e}"));
    as_csv.or_else(as_hex)
}

fn utf16(window: &[u8]) -> Option<&'static str> {
    let starts = |mark: [u8; 2]| window.starts_with(&mark);
    (starts([0xff, 0xfe]) || starts([0xfe, 0xff])).then_some("this is UTF-16, expected UTF-8")
}

/// Returns the reason why a sample cannot be CSV.
fn no_csv(sample: &str) -> Option<&'static str> {
    let is_odd = |c: &char| *c == char::REPLACEMENT_CHARACTER || c.is_control() && !c.is_whitespace();
    match sample.chars().filter(is_odd).count() * 8 > sample.chars().count() {
        _ if sample.is_empty() => Some("empty file, expected CSV"),
        is_binary => is_binary.then_some("binary data, expected CSV"),
    }
}

/// Returns the reason why a file is not text in UTF-8.
fn no_text(sample: &[u8]) -> Option<&'static str> {
    match sample {
        [] => Some("empty file"),
        sample if utf16(sample).is_some() => Some("UTF-16 text"),
        sample => is_binary(sample).then_some("binary data"),
    }
}

fn is_binary(sample: &[u8]) -> bool {
    // Logs may contain escape sequences. Logs of crashes may contain zero bytes.
    let odd =
        sample.iter().filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace() && **byte != 0);
    let text = sample.iter().filter(|byte| **byte != 0).count();
    text == 0 || odd.count() * 8 > text
}

fn format_of(sample: &str) -> Option<FileFormat> {
    let any = |is_one: fn(&str) -> bool| sample.lines().any(is_one);
    if any(mmiotrace::is_line) {
        Some(FileFormat::Mmiotrace)
    } else if any(pcileech::is_head) {
        Some(FileFormat::Pcileech)
    } else if hex::is_text(sample, log::is_line) {
        Some(FileFormat::Hex)
    } else {
        any(log::is_line).then_some(FileFormat::Log)
    }
}
