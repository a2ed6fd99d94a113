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

use super::TextTlp;
use super::hex::cut_to;
use super::words::{bracketed_time, dword, function};
use std::collections::VecDeque;

const KERNEL: &str = "TLP Header";
const LSPCI: &str = "HeaderLog:";
const PREFIXES: &str = "E-E Prefixes:";
/// Dwords of a header log, and the most that one of flit mode has (Linux: `PCIE_STD_MAX_TLP_HEADERLOG`).
const LOG_DW: usize = 4;
const MAX_DW: usize = 14;
/// Most errors of one device that are kept, and most bytes of a note.
const MAX_ERRORS: usize = 8;
const MAX_NOTE: usize = 200;

#[derive(Default)]
pub(super) struct Log {
    /// The function of the last line that named one.
    device: String,
    /// Severity and errors of this function from earlier lines.
    severity: String,
    errors: Vec<String>,
    kernel: u64,
    lspci: u64,
    lspci_empty: u64,
    rasdaemon: u64,
}

/// Returns whether a line tells that this is a log: a header, an error of AER, or a time stamp of a kernel.
pub(super) fn is_line(line: &str) -> bool {
    let marks = [KERNEL, LSPCI, "PCIe Bus Error:", "DPC: containment event", "PCIe AER events"];
    marks.iter().any(|mark| line.contains(mark)) && !line.trim_start().starts_with('#')
        || bracketed_time(line).is_some_and(|(_, rest)| rest.contains(": "))
}

impl Log {
    pub(super) fn taken_for(&self) -> String {
        let of = |count: u64, whose: &str| (count > 0).then(|| format!("{count} {whose}"));
        let empty = (self.lspci_empty > 0).then(|| format!("{} empty", self.lspci_empty));
        let parts = [
            of(self.kernel, "of the kernel"),
            of(self.lspci, "of lspci"),
            of(self.rasdaemon, "of rasdaemon"),
            empty,
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match parts.as_slice() {
            [] => "a log without TLP headers".to_owned(),
            parts => format!("a log with TLP headers: {}", parts.join(", ")),
        }
    }

    pub(super) fn line(
        &mut self,
        line: &str,
        number: u64,
        out: &mut VecDeque<TextTlp>,
    ) -> Result<(), String> {
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
        let header = header?;
        let mut tlp = header.tlp();
        (tlp.line, tlp.time) = (number, time);
        self.name(before, &mut tlp);
        out.push_back(tlp);
        Ok(())
    }

    /// Gives a header its interface and what is known of the error.
    fn name(&mut self, before: &str, tlp: &mut TextTlp) {
        let found = function(before);
        let rest = found.map_or(before, |(_, end)| &before[end..]);
        let said = rest.trim_matches(|c: char| c.is_whitespace() || c == ':' || c == ',');
        let said = said.strip_prefix("AER").or_else(|| said.strip_prefix("DPC")).unwrap_or(said);
        let said = said.trim_matches(|c: char| c.is_whitespace() || c == ':');
        let is_firmware = before.contains("[Hardware Error]");
        let device = found.map(|(start, end)| &before[start..end]);
        // rasdaemon and the trace event have all in one line.
        if !said.is_empty() && !is_firmware {
            self.rasdaemon += 1;
            tlp.interface = device.unwrap_or_default().to_owned();
            tlp.note = cut(said);
            return;
        }
        self.kernel += 1;
        if device.is_none_or(|device| device == self.device) {
            tlp.note = self.note();
        }
        tlp.interface = device.unwrap_or(&self.device).to_owned();
        self.errors.clear();
    }

    fn note(&self) -> String {
        let errors = self.errors.join(", ");
        match (self.severity.is_empty(), errors.is_empty()) {
            (false, false) => format!("{}: {errors}", self.severity),
            _ => format!("{}{errors}", self.severity),
        }
    }

    /// Keeps what a line says about the device whose header may follow.
    fn learn(&mut self, text: &str) {
        let errors_of_lspci = text.trim_start().strip_prefix("UESta:");
        if let Some(bits) = errors_of_lspci {
            let set = bits.split_whitespace().filter_map(|bit| bit.strip_suffix('+'));
            self.errors = set.take(MAX_ERRORS).map(cut).collect();
            return;
        }
        let Some((start, end)) = function(text) else { return };
        if self.device != text[start..end] {
            self.device = text[start..end].to_owned();
            self.severity.clear();
            self.errors.clear();
        }
        let said = text[end..].trim_start_matches(':');
        if let Some((_, severity)) = said.split_once("severity=") {
            self.severity = cut(severity.split(',').next().unwrap_or_default());
            self.errors.clear();
        } else if let Some(error) = error_bit(said).filter(|_| self.errors.len() < MAX_ERRORS) {
            self.errors.push(error);
        }
    }

    fn lspci(&mut self, text: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), String> {
        let header = Header::of_dwords(text, false)?;
        if header.dwords.iter().all(|dw| *dw == 0) {
            // No header was logged.
            self.lspci_empty += 1;
            return Ok(());
        }
        self.lspci += 1;
        let mut tlp = header.tlp();
        (tlp.line, tlp.interface, tlp.note) = (number, self.device.clone(), self.note());
        out.push_back(tlp);
        Ok(())
    }
}

/// The error of a line such as `[21] ACSViol                (First)`.
fn error_bit(text: &str) -> Option<String> {
    let (bit, name) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    bit.trim().parse::<u8>().ok().filter(|bit| *bit < 32)?;
    let words: Vec<&str> = name.split_whitespace().collect();
    (!words.is_empty()).then(|| cut(&words.join(" ")))
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
            return Err(format!("header log of {} dwords, expected {}", dwords.len(), expected(is_flit)));
        }
        Ok(Header { dwords, prefixes: self::dwords(prefixes), is_flit })
    }

    fn tlp(&self) -> TextTlp {
        let dwords = self.prefixes.iter().chain(&self.dwords);
        let bytes = dwords.flat_map(|dw| dw.to_be_bytes()).collect();
        let mut tlp = TextTlp { bytes, is_flit: self.is_flit, ..TextTlp::default() };
        if !self.is_flit {
            tlp.trim_log();
        }
        tlp
    }
}

const fn expected(is_flit: bool) -> &'static str {
    if is_flit { "1 to 14" } else { "4" }
}

/// The dwords that a text begins with.
fn dwords(text: &str) -> Vec<u32> {
    let words = text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '{' | '}'));
    words.filter(|word| !word.is_empty()).map_while(dword).take(MAX_DW + 1).collect()
}
