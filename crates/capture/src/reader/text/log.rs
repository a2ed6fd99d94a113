// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logs that hold TLP headers: of Linux (AER and DPC, with or without time stamps), of `lspci -vvv`, and of rasdaemon.
//!
//! | program | text | source |
//! |---|---|---|
//! | Linux | `TLP Header: 34000000 70000010 00000000 88468846` | older kernels |
//! | | `TLP Header: 0x34000000 0x00000052 0x00000000 0x00000000 E-E Prefixes: 0x...` | `pcie_print_tlp_log` of newer kernels |
//! | | `TLP Header (Flit): 0x... ` with up to 14 dwords | the same |
//! | | `TLP Header={0x...,0x...,0x...,0x...}` | the trace event `aer_event` |
//! | lspci | `HeaderLog: 40008001 3100000f fee00db8 00000000` | pciutils 3.9 |
//! | rasdaemon | `TLP Header: 00000000 00000001 00000002 00000003` after the error in the same line | 0.6.8 |

use super::hex::{self, cut_to};
use super::words::{bracketed_time, dword, function};
use super::{Lines, TextTlp};
use config::ext::aer::Uncorrectable;
use std::collections::VecDeque;

const KERNEL: &str = "TLP Header";
const LSPCI: &str = "HeaderLog:";
const PREFIXES: &str = "E-E Prefixes:";
/// Part of each line of a record of the firmware.
const FIRMWARE: &str = "[Hardware Error]:";
/// Dwords of a header log, and the most that one of flit mode has (Linux: `PCIE_STD_MAX_TLP_HEADERLOG`).
const LOG_DW: usize = 4;
const MAX_DW: usize = 14;
/// Most errors of one device that are kept, and most bytes of a note.
const MAX_ERRORS: usize = 8;
const MAX_NOTE: usize = 200;

/// Most functions whose errors are kept.
const MAX_FUNCTIONS: usize = 64;

/// Logged errors of one function.
#[derive(Default)]
struct Errors {
    function: String,
    severity: String,
    bits: Vec<String>,
}

impl Errors {
    fn note(&self) -> String {
        let bits = self.bits.join(", ");
        match (self.severity.is_empty(), bits.is_empty()) {
            (false, false) => format!("{}: {bits}", self.severity),
            _ => format!("{}{bits}", self.severity),
        }
    }

    fn push(&mut self, bit: String) {
        if self.bits.len() < MAX_ERRORS {
            self.bits.push(bit);
        }
    }
}

#[derive(Default)]
pub(super) struct Log {
    /// The function of the last line that named one, aside from records of the firmware.
    device: String,
    /// Errors whose header may follow, oldest first.
    known: VecDeque<Errors>,
    /// Errors of the firmware's current record.
    firmware: Errors,
    /// True after the first line of lspci's list of errors.
    is_in_list: bool,
    kernel: u64,
    lspci: u64,
    rasdaemon: u64,
    /// Header logs of zeros.
    empty: u64,
}

/// Returns whether a line tells that this is a log: a header, an error of AER, or a time stamp of a kernel.
pub(super) fn is_line(line: &str) -> bool {
    let marks = [KERNEL, LSPCI, "PCIe Bus Error:", "DPC: containment event", "PCIe AER events"];
    marks.iter().any(|mark| line.contains(mark)) && !line.trim_start().starts_with('#')
        || bracketed_time(line).is_some_and(|(_, rest)| rest.contains(": "))
}

impl Log {
    /// Gives a header its interface and what is known of the error.
    fn name(&mut self, before: &str, tlp: &mut TextTlp) {
        if before.contains(FIRMWARE) {
            self.kernel += 1;
            let errors = std::mem::take(&mut self.firmware);
            (tlp.note, tlp.interface) = (errors.note(), errors.function);
            return;
        }
        let found = function(before);
        let said = without_service(found.map_or(before, |(_, end)| &before[end..]));
        let said = said.trim_matches(|c: char| c.is_whitespace() || c == ':' || c == ',');
        let device = found.map(|(start, end)| &before[start..end]);
        // rasdaemon and the trace event have all in one line.
        if !said.is_empty() {
            self.rasdaemon += 1;
            tlp.interface = device.unwrap_or_default().to_owned();
            tlp.note = cut(said);
            return;
        }
        self.kernel += 1;
        let device = device.unwrap_or(&self.device);
        tlp.interface = device.to_owned();
        if let Some(at) = self.known.iter().position(|errors| errors.function == device) {
            tlp.note = self.known.remove(at).unwrap_or_default().note();
        }
    }

    /// The errors of the current function.
    fn errors(&mut self) -> &mut Errors {
        let found = self.known.iter().position(|errors| errors.function == self.device);
        let at = found.unwrap_or_else(|| {
            if self.known.len() == MAX_FUNCTIONS {
                self.known.pop_front();
            }
            self.known.push_back(Errors { function: self.device.clone(), ..Errors::default() });
            self.known.len() - 1
        });
        &mut self.known[at]
    }

    /// Keeps what a line says about the function whose header may follow.
    fn learn(&mut self, text: &str) {
        if let Some((_, said)) = text.split_once(FIRMWARE) {
            self.learn_of_firmware(said);
            return;
        }
        if self.is_list(text) {
            let set = text.split_whitespace().filter_map(|bit| bit.strip_suffix('+')).map(cut);
            set.for_each(|bit| self.errors().push(bit));
            return;
        }
        let Some((start, end)) = function(text) else { return };
        text[start..end].clone_into(&mut self.device);
        let said = without_service(&text[end..]);
        if let Some((_, severity)) = said.split_once("PCIe Bus Error: severity=") {
            let severity = cut(severity.split(',').next().unwrap_or_default());
            *self.errors() = Errors { function: self.device.clone(), severity, bits: Vec::new() };
        } else if let Some(error) = error_bit(said) {
            self.errors().push(error);
        }
    }

    /// Returns whether a line is of lspci's list of a function's errors, which may have two lines.
    fn is_list(&mut self, text: &str) -> bool {
        let is_first = text.trim_start().starts_with("UESta:");
        if is_first {
            self.errors().bits.clear();
        }
        let is_bits = !text.trim().is_empty() && text.split_whitespace().all(|bit| bit.ends_with(['+', '-']));
        self.is_in_list = is_first || self.is_in_list && is_bits;
        self.is_in_list
    }

    /// Keeps what a record of the firmware says (Linux: `drivers/firmware/efi/cper.c`).
    fn learn_of_firmware(&mut self, said: &str) {
        let said = said.trim_start();
        if said.starts_with("Hardware error from") || said.starts_with("section_type:") {
            self.firmware = Errors::default();
        } else if let Some((start, end)) = function(said).filter(|_| said.starts_with("device_id:")) {
            said[start..end].clone_into(&mut self.firmware.function);
        } else if said.starts_with("aer_uncor_status:") {
            let status = said.split(',').next().unwrap_or_default();
            self.firmware.push(cut(&with_names(status)));
        }
    }

    fn lspci(&mut self, text: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), String> {
        let Some(mut tlp) = Header::of_dwords(text, false)?.tlp()? else {
            self.empty += 1;
            return Ok(());
        };
        self.lspci += 1;
        (tlp.line, tlp.interface) = (number, self.device.clone());
        tlp.note = self.errors().note();
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
        match parts.as_slice() {
            [] => "a log without TLP headers".to_owned(),
            parts => format!("a log with TLP headers: {}", parts.join(", ")),
        }
    }

    fn line(&mut self, line: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), String> {
        let (time, text) = bracketed_time(line).map_or((None, line), |(time, text)| (Some(time), text));
        if let Some(at) = text.find(LSPCI) {
            return self.lspci(&text[at + LSPCI.len()..], number, out);
        }
        let header = text.match_indices(KERNEL).find_map(|(at, _)| {
            Header::parse(&text[at + KERNEL.len()..]).map(|header| (&text[..at], header))
        });
        let Some((before, header)) = header else {
            self.learn(text);
            return Ok(());
        };
        let Some(mut tlp) = header?.tlp()? else {
            self.empty += 1;
            return Ok(());
        };
        (tlp.line, tlp.time) = (number, time);
        self.name(before, &mut tlp);
        out.push_back(tlp);
        Ok(())
    }
}

/// The rest of a kernel's line after the name of the port service that wrote it.
fn without_service(text: &str) -> &str {
    let text = text.trim_start_matches([':', ' ']);
    ["AER:", "DPC:"].iter().find_map(|service| text.strip_prefix(service)).unwrap_or(text)
}

/// The error of a line such as `[21] ACSViol                (First)`.
fn error_bit(text: &str) -> Option<String> {
    let (bit, name) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    bit.trim().parse::<u8>().ok().filter(|bit| *bit < 32)?;
    let words: Vec<&str> = name.split_whitespace().collect();
    (!words.is_empty()).then(|| cut(&words.join(" ")))
}

/// A status register such as `aer_uncor_status: 0x00100000`, and the errors that it holds.
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
    /// The header after the words `TLP Header`; `None` if no dwords follow.
    fn parse(text: &str) -> Option<Result<Header, String>> {
        let (text, is_flit) = match text.trim_start().strip_prefix("(Flit)") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let text = text.strip_prefix(':').or_else(|| text.strip_prefix("={"))?;
        Some(Header::of_dwords(text, is_flit))
    }

    fn of_dwords(text: &str, is_flit: bool) -> Result<Header, String> {
        let (header, prefixes) = text.split_once(PREFIXES).unwrap_or((text, ""));
        let dwords = dwords(header);
        let most = if is_flit { MAX_DW } else { LOG_DW };
        if !(if is_flit { 1 } else { LOG_DW }..=most).contains(&dwords.len()) {
            let text = cut_to(header.trim(), 60);
            if let Some(word) = words(header).nth(dwords.len()).filter(|_| dwords.len() < most) {
                let word = hex::cut(word);
                return Err(format!("header log `{text}`: `{word}` is not a dword of 8 hexadecimal digits"));
            }
            return Err(format!(
                "header log `{text}` has {} dwords, expected {}",
                dwords.len(),
                expected(is_flit)
            ));
        }
        Ok(Header { dwords, prefixes: self::dwords(prefixes), is_flit })
    }

    /// The TLP; `None` if no header was logged.
    fn tlp(&self) -> Result<Option<TextTlp>, String> {
        let is_all = |wanted: u32| self.dwords.iter().all(|dw| *dw == wanted);
        if is_all(0) {
            return Ok(None);
        }
        if is_all(u32::MAX) {
            return Err("header log of ones: the function did not answer when its log was read".to_owned());
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

const fn expected(is_flit: bool) -> &'static str {
    if is_flit { "1 to 14" } else { "4" }
}

/// The dwords that a text begins with.
fn dwords(text: &str) -> Vec<u32> {
    words(text).map_while(dword).take(MAX_DW + 1).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}'));
    words.filter(|word| !word.is_empty())
}
