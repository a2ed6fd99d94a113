// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logs with TLP headers: of Linux (AER and DPC, with or without timestamps), of `lspci -vvv`, and of rasdaemon.
//!
//! | program | text | source |
//! |---|---|---|
//! | Linux | `TLP Header: 34000000 70000010 00000000 88468846` | older kernels |
//! | | `TLP Header: 0x34000000 0x00000052 0x00000000 0x00000000 E-E Prefixes: 0x...` | `pcie_print_tlp_log` of newer kernels |
//! | | `TLP Header (Flit): 0x... ` with up to 14 dwords | the same |
//! | | `TLP Header={0x...,0x...,0x...,0x...}` | the trace event `aer_event` |
//! | lspci | `HeaderLog: 40008001 3100000f fee00db8 00000000` | pciutils 3.9 |
//! | rasdaemon | `TLP Header: 00000000 00000001 00000002 00000003` after the error in the same line | 0.6.8 |

use super::error::LineError;
use super::hex;
use super::words::{self, bracketed_time, cut_to, dword, function};
use super::{Lines, TextTlp};
use crate::count::counted;
use config::ext::aer::{Correctable, Uncorrectable};
use std::collections::VecDeque;
use std::fmt::Write;

const KERNEL: &str = "TLP Header";
const LSPCI: &str = "HeaderLog:";
const PREFIXES: &str = "E-E Prefixes:";
/// Text in each line of a record from the firmware.
const FIRMWARE: &str = "[Hardware Error]:";
/// Text of a trace event without a header.
const NOT_AVAILABLE: &str = "TLP Header=Not available";
/// Number of DWs in a header log, and the maximum in flit mode (Linux: `PCIE_STD_MAX_TLP_HEADERLOG`).
const LOG_DW: usize = 4;
const MAX_DW: usize = 14;
/// Maximum number of errors that are kept per device, and maximum length of a note in bytes.
const MAX_ERRORS: usize = 8;
const MAX_NOTE: usize = 200;

/// Maximum number of functions whose errors are kept.
const MAX_FUNCTIONS: usize = 64;

/// Maximum number of skipped lines whose numbers are listed.
const MAX_LINES: usize = 8;

/// Logged errors of one function.
#[derive(Default)]
struct Errors {
    function: String,
    severity: String,
    bits: Vec<Bit>,
    /// The status bits that are not masked.
    status: u32,
    /// True if the log shows that this is an AER error. Other lines may also have a number in brackets.
    is_error: bool,
    /// Line of the first error, and its time in picoseconds.
    line: u64,
    time: Option<u128>,
}

/// A logged error: its text, and the number of its bit in the status register.
struct Bit {
    text: String,
    number: Option<u8>,
}

impl Errors {
    fn note(&self) -> String {
        let bits: Vec<&str> = self.bits.iter().map(|bit| bit.text.as_str()).collect();
        self.note_of(&bits.join(", "))
    }

    fn note_of(&self, bits: &str) -> String {
        match (self.severity.is_empty(), bits.is_empty()) {
            (false, false) => format!("{}: {bits}", self.severity),
            _ => format!("{}{bits}", self.severity),
        }
    }

    /// Converts errors without a header to a record; `None` if there are no errors.
    fn without_header(self) -> Option<TextTlp> {
        if !self.is_error {
            return None;
        }
        let is_corrected = self.severity.starts_with("Correct");
        let mut bits: Vec<String> = self.bits.iter().map(|bit| bit.with_name(is_corrected)).collect();
        let is_listed = |number: u8| self.bits.iter().any(|bit| bit.number == Some(number));
        let others = (0..32).filter(|number| self.status >> number & 1 == 1 && !is_listed(*number));
        bits.extend(others.map(|number| match name_of(number, is_corrected) {
            Some(name) => format!("{name} (bit {number})"),
            None => format!("bit {number}"),
        }));
        let note = cut(&self.note_of(&bits.join(", ")));
        let Errors { function: interface, line, time, .. } = self;
        (!note.is_empty()).then(|| TextTlp { line, time, interface, note, ..TextTlp::default() })
    }

    fn push(&mut self, bit: Bit) {
        if self.bits.len() < MAX_ERRORS {
            self.bits.push(bit);
        }
    }
}

impl Bit {
    /// Returns the specification's name, the bit, and the text of the log.
    fn with_name(&self, is_corrected: bool) -> String {
        let (text, first) =
            self.text.split_once(" (First)").map_or((&*self.text, ""), |(text, _)| (text, ", first"));
        match self.number.and_then(|number| Some((number, name_of(number, is_corrected)?))) {
            Some((number, name)) if name == text => format!("{name} (bit {number}{first})"),
            Some((number, name)) => format!("{name} (bit {number} {text}{first})"),
            None => self.text.clone(),
        }
    }
}

/// Short names of uncorrectable errors, as in lspci and the kernel, by bit.
const SHORT_NAMES: [(u8, &str); 17] = [
    (4, "DLP"),
    (5, "SDES"),
    (12, "TLP"),
    (13, "FCP"),
    (14, "CmpltTO"),
    (15, "CmpltAbrt"),
    (16, "UnxCmplt"),
    (17, "RxOF"),
    (18, "MalfTLP"),
    (19, "ECRC"),
    (20, "UnsupReq"),
    (21, "ACSViol"),
    (22, "UncorrIntErr"),
    (23, "BlockedTLP"),
    (24, "AtomicOpBlocked"),
    (25, "TLPBlockedErr"),
    (26, "PoisonTLPBlocked"),
];

fn number_of(short_name: &str) -> Option<u8> {
    SHORT_NAMES.iter().find(|(_, name)| *name == short_name).map(|(number, _)| *number)
}

/// The specification's name of the error with this bit.
fn name_of(number: u8, is_corrected: bool) -> Option<&'static str> {
    let bit = 1 << number;
    if is_corrected {
        return Correctable::ALL.into_iter().find(|error| error.mask() == bit).map(Correctable::name);
    }
    Uncorrectable::ALL.into_iter().find(|error| error.mask() == bit).map(Uncorrectable::name)
}

#[derive(Default)]
pub(super) struct Log {
    /// The function in the last line that has one, without records from the firmware.
    device: String,
    /// Errors whose header may follow. The oldest is first.
    known: VecDeque<Errors>,
    /// Errors in the current record from the firmware.
    firmware: Errors,
    /// True after the first line of lspci's list of errors.
    is_in_list: bool,
    kernel: u64,
    lspci: u64,
    rasdaemon: u64,
    /// Number of header logs that are all zeros.
    empty: u64,
    /// Number of errors without a header.
    without_header: u64,
    /// Errors that a later error has replaced. They become records next.
    replaced: Vec<Errors>,
    /// Lines with TLPs as hexadecimal text, which do not belong to a log: their number, and the numbers of the
    /// first ones.
    hexadecimal: u64,
    hexadecimal_lines: Vec<u64>,
    /// Number of the current line, and its time in picoseconds.
    line: u64,
    time: Option<u128>,
}

/// Returns true if a line shows that the file is a log: it has a header, an AER error, or a kernel timestamp.
pub(super) fn is_line(line: &str) -> bool {
    let marks = [KERNEL, LSPCI, "PCIe Bus Error:", "DPC: containment event", "PCIe AER events"];
    marks.iter().any(|mark| line.contains(mark)) && !line.trim_start().starts_with('#')
        || bracketed_time(line).is_some_and(|(_, rest)| rest.contains(": "))
}

impl Log {
    /// Removes and returns the errors for a line with a header log. `before` is the text before the header. Also
    /// returns true if this line has the complete error, as with rasdaemon and the trace event.
    fn take(&mut self, before: &str) -> (bool, Errors) {
        if before.contains(FIRMWARE) {
            return (false, std::mem::take(&mut self.firmware));
        }
        let found = function(before);
        let said = without_service(found.map_or(before, |(_, end)| &before[end..]));
        let said = said.trim_matches(|c: char| c.is_whitespace() || c == ':' || c == ',');
        let device = found.map(|(start, end)| &before[start..end]);
        let (line, time) = (self.line, self.time);
        if !said.is_empty() {
            let function = device.unwrap_or_default().to_owned();
            return (
                true,
                Errors { function, severity: cut(said), line, time, is_error: true, ..Errors::default() },
            );
        }
        let device = device.unwrap_or(&self.device);
        let at = self.known.iter().position(|errors| errors.function == device);
        let known = at.and_then(|at| self.known.remove(at));
        let function = device.to_owned();
        (false, known.unwrap_or_else(|| Errors { function, line, time, ..Errors::default() }))
    }

    /// Counts a header, and sets its interface and its note with the errors.
    fn name(&mut self, before: &str, tlp: &mut TextTlp) {
        let (is_whole, errors) = self.take(before);
        *(if is_whole { &mut self.rasdaemon } else { &mut self.kernel }) += 1;
        (tlp.note, tlp.interface) = (errors.note(), errors.function);
    }

    /// Appends the record for errors without a header.
    fn hand_out(&mut self, errors: Errors, out: &mut VecDeque<TextTlp>) {
        if let Some(record) = errors.without_header() {
            self.without_header += 1;
            out.push_back(record);
        }
    }

    /// Returns the errors of the current function.
    fn errors(&mut self) -> &mut Errors {
        let found = self.known.iter().position(|errors| errors.function == self.device);
        let at = found.unwrap_or_else(|| {
            if self.known.len() == MAX_FUNCTIONS {
                self.replaced.extend(self.known.pop_front());
            }
            let (function, line, time) = (self.device.clone(), self.line, self.time);
            self.known.push_back(Errors { function, line, time, ..Errors::default() });
            self.known.len() - 1
        });
        &mut self.known[at]
    }

    /// Stores the errors in a line, since their header may follow.
    fn learn(&mut self, text: &str) {
        if let Some((_, said)) = text.split_once(FIRMWARE) {
            self.learn_of_firmware(said);
            return;
        }
        if self.is_list(text) {
            let set = text.split_whitespace().filter_map(|bit| bit.strip_suffix('+')).map(cut);
            set.for_each(|text| self.errors().push(Bit { number: number_of(&text), text }));
            return;
        }
        let Some((start, end)) = function(text) else { return };
        text[start..end].clone_into(&mut self.device);
        let said = without_service(&text[end..]);
        if let Some((_, severity)) = said.split_once("PCIe Bus Error: severity=") {
            let severity = cut(severity.split(',').next().unwrap_or_default());
            let (function, line, time) = (self.device.clone(), self.line, self.time);
            let new = Errors { function, severity, line, time, is_error: true, ..Errors::default() };
            let before = std::mem::replace(self.errors(), new);
            self.replaced.push(before);
        } else if let Some(bit) = error_bit(said) {
            let errors = self.errors();
            // The bits of RP PIO have other meanings.
            let number = bit.number.filter(|_| errors.is_error);
            errors.push(Bit { number, ..bit });
        } else if let Some((_, status)) = said.split_once("error status/mask=") {
            self.errors().status = unmasked(status);
        } else if is_whole_error(said) {
            let said = said.trim();
            let (function, line, time) = (self.device.clone(), self.line, self.time);
            self.replaced.push(Errors {
                function,
                severity: cut(said),
                line,
                time,
                is_error: true,
                ..Errors::default()
            });
        }
    }

    /// Counts a line with a TLP as hexadecimal text.
    fn note_hexadecimal(&mut self, line: &str) {
        if !hex::is_tlp(line) {
            return;
        }
        self.hexadecimal += 1;
        if self.hexadecimal_lines.len() < MAX_LINES {
            self.hexadecimal_lines.push(self.line);
        }
    }

    /// Returns true if a line belongs to lspci's list of a function's errors, which may have two lines.
    fn is_list(&mut self, text: &str) -> bool {
        let is_first = text.trim_start().starts_with("UESta:");
        if is_first {
            let line = self.line;
            let errors = self.errors();
            (errors.is_error, errors.line) = (true, line);
            errors.bits.clear();
        }
        let is_bits = !text.trim().is_empty() && text.split_whitespace().all(|bit| bit.ends_with(['+', '-']));
        self.is_in_list = is_first || self.is_in_list && is_bits;
        self.is_in_list
    }

    /// Stores the errors in a record from the firmware (Linux: `drivers/firmware/efi/cper.c`).
    fn learn_of_firmware(&mut self, said: &str) {
        let said = said.trim_start();
        if said.starts_with("Hardware error from") || said.starts_with("section_type:") {
            let new = Errors { line: self.line, time: self.time, ..Errors::default() };
            self.replaced.push(std::mem::replace(&mut self.firmware, new));
        } else if let Some((start, end)) = function(said).filter(|_| said.starts_with("device_id:")) {
            said[start..end].clone_into(&mut self.firmware.function);
        } else if said.starts_with("aer_uncor_status:") {
            let status = said.split(',').next().unwrap_or_default();
            self.firmware.is_error = true;
            if self.firmware.line == 0 {
                (self.firmware.line, self.firmware.time) = (self.line, self.time);
            }
            self.firmware.push(Bit { number: None, text: cut(&with_names(status)) });
        }
    }

    fn lspci(&mut self, text: &str, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        let header = Header::of_dwords(text, false)?.tlp()?;
        let (_, errors) = self.take("");
        let Some(mut tlp) = header else {
            self.empty += 1;
            self.hand_out(errors, out);
            return Ok(());
        };
        self.lspci += 1;
        tlp.line = self.line;
        (tlp.note, tlp.interface) = (errors.note(), errors.function);
        out.push_back(tlp);
        Ok(())
    }
}

impl Lines for Log {
    fn taken_for(&self) -> String {
        let of = |count: u64, whose: &str| (count > 0).then(|| format!("{count} {whose}"));
        let parts = [
            of(self.kernel, "of the kernel"),
            of(self.lspci, "of lspci"),
            of(self.rasdaemon, "of rasdaemon"),
            of(self.empty, "empty"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let mut text = match parts.as_slice() {
            [] => "a log without TLP headers".to_owned(),
            parts => format!("a log with TLP headers: {}", parts.join(", ")),
        };
        // Writing to a string cannot fail.
        if self.without_header > 0 {
            let _ = write!(text, "; {} without a header", counted(self.without_header, "error"));
        }
        if self.hexadecimal > 0 {
            let lines: Vec<String> = self.hexadecimal_lines.iter().map(u64::to_string).collect();
            let more = if self.hexadecimal > MAX_LINES as u64 { ", ..." } else { "" };
            let count = counted(self.hexadecimal, "line");
            let lines = lines.join(", ");
            let _ = write!(
                text,
                "; skipped: {count} of hexadecimal TLPs ({lines}{more}); --read-as hex reads them"
            );
        }
        text
    }

    fn flush(&mut self, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        let mut rest: Vec<Errors> = std::mem::take(&mut self.known).into();
        rest.push(std::mem::take(&mut self.firmware));
        rest.sort_by_key(|errors| errors.line);
        rest.into_iter().for_each(|errors| self.hand_out(errors, out));
        Ok(())
    }

    fn line(&mut self, line: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        let (time, text) = bracketed_time(line).map_or((None, line), |(time, text)| (Some(time), text));
        (self.line, self.time) = (number, time);
        if let Some(at) = text.find(LSPCI) {
            return self.lspci(&text[at + LSPCI.len()..], out);
        }
        if let Some((before, _)) = text.split_once(NOT_AVAILABLE) {
            let (_, errors) = self.take(before);
            self.hand_out(errors, out);
            return Ok(());
        }
        let header = text.match_indices(KERNEL).find_map(|(at, _)| {
            Header::parse(&text[at + KERNEL.len()..]).map(|header| (&text[..at], header))
        });
        let Some((before, header)) = header else {
            self.learn(text);
            for errors in std::mem::take(&mut self.replaced) {
                self.hand_out(errors, out);
            }
            self.note_hexadecimal(line);
            return Ok(());
        };
        let Some(mut tlp) = header?.tlp()? else {
            self.empty += 1;
            let (_, errors) = self.take(before);
            self.hand_out(errors, out);
            return Ok(());
        };
        (tlp.line, tlp.time) = (number, time);
        self.name(before, &mut tlp);
        out.push_back(tlp);
        Ok(())
    }
}

/// Returns a kernel line after the name of the port service that wrote it.
fn without_service(text: &str) -> &str {
    let text = text.trim_start_matches([':', ' ']);
    ["AER:", "DPC:"].iter().find_map(|service| text.strip_prefix(service)).unwrap_or(text)
}

/// Returns the error in a line such as `[21] ACSViol                (First)`.
fn error_bit(text: &str) -> Option<Bit> {
    let (bit, name) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    let number = bit.trim().parse::<u8>().ok().filter(|bit| *bit < 32);
    number?;
    let words: Vec<&str> = name.split_whitespace().collect();
    (!words.is_empty()).then(|| Bit { text: cut(&words.join(" ")), number })
}

/// Returns the bits that are set in a status register and clear in its mask, from text such as `00044000/00400000`.
fn unmasked(text: &str) -> u32 {
    let text = text.split_whitespace().next().unwrap_or_default();
    let (status, mask) = text.split_once('/').unwrap_or((text, ""));
    let [status, mask] = [status, mask].map(|text| u32::from_str_radix(text, 16).unwrap_or(0));
    status & !mask
}

/// Returns true if a text is a complete error, as in `ras-mc-ctl --errors`: `Corrected error: Bad TLP`.
fn is_whole_error(said: &str) -> bool {
    let severity = said.trim_start().split_once(" error: ").map_or("", |(severity, _)| severity);
    matches!(severity, "Corrected" | "Uncorrected (Fatal)" | "Uncorrected (Non-Fatal)")
}

/// Appends the names of the errors to a status register such as `aer_uncor_status: 0x00100000`.
fn with_names(status: &str) -> String {
    let value = status.split_whitespace().next_back().and_then(dword).unwrap_or(0);
    let set = Uncorrectable::ALL.into_iter().filter(|error| value & error.mask() != 0);
    match set.map(Uncorrectable::name).collect::<Vec<_>>() {
        none if none.is_empty() => status.to_owned(),
        names => format!("{status} ({})", names.join(", ")),
    }
}

fn cut(text: &str) -> String {
    cut_to(text, MAX_NOTE).to_owned()
}

/// A header log.
struct Header {
    dwords: Vec<u32>,
    prefixes: Vec<u32>,
    is_flit: bool,
}

impl Header {
    /// Reads the header after the words `TLP Header`; `None` if no header follows.
    fn parse(text: &str) -> Option<Result<Header, LineError>> {
        let (text, is_flit) = match text.trim_start().strip_prefix("(Flit)") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let text = text.strip_prefix(':').or_else(|| text.strip_prefix("={"))?;
        Some(Header::of_dwords(text, is_flit))
    }

    fn of_dwords(text: &str, is_flit: bool) -> Result<Header, LineError> {
        let (header, prefixes) = text.split_once(PREFIXES).unwrap_or((text, ""));
        let dwords = dwords(header);
        let most = if is_flit { MAX_DW } else { LOG_DW };
        if !(if is_flit { 1 } else { LOG_DW }..=most).contains(&dwords.len()) {
            let log = cut_to(header.trim(), 60).to_owned();
            if let Some(word) = words(header).nth(dwords.len()).filter(|_| dwords.len() < most) {
                let word = words::cut(word);
                return Err(LineError::LogWord { log, word });
            }
            return Err(LineError::LogLength { log, dwords: dwords.len(), is_flit });
        }
        Ok(Header { dwords, prefixes: self::dwords(prefixes), is_flit })
    }

    /// Converts the header to a TLP; `None` if no header was logged.
    fn tlp(&self) -> Result<Option<TextTlp>, LineError> {
        let is_all = |wanted: u32| self.dwords.iter().all(|dw| *dw == wanted);
        if is_all(0) {
            return Ok(None);
        }
        if is_all(u32::MAX) {
            return Err(LineError::LogOfOnes);
        }
        let dwords = self.prefixes.iter().chain(&self.dwords);
        let bytes = dwords.flat_map(|dw| dw.to_be_bytes()).collect();
        let mut tlp = TextTlp { bytes, is_flit: self.is_flit, ..TextTlp::default() };
        if !self.is_flit {
            tlp.trim_log();
        }
        Ok(Some(tlp))
    }
}

/// Returns the DWs at the start of a text.
fn dwords(text: &str) -> Vec<u32> {
    words(text).map_while(dword).take(MAX_DW + 1).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}'));
    words.filter(|word| !word.is_empty())
}
