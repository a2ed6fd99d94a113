// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Hexadecimal text: one TLP per line.
//!
//! ```text
//! line   = [time] [direction] {number} ["len=" bytes] ["#" comment]
//! time   = "[" seconds "]" | seconds with a point | number with a unit: ps, ns, us, ms, s
//! number = dwords of 8 digits, words of 4, bytes of 2, or one number of any even length; each may begin with "0x"
//! ```
//!
//! A comment that is a whole line, such as `# mps=256 tags=32`, gives [settings](crate::check::Settings::set) for
//! the rules.
//!
//! Blanks, `,`, `;`, `|`, `:`, `-` and `_` separate numbers. The header comes first, then the known data. If the
//! line does not have the whole TLP, `len=` gives its length. A line without `len=` may be a header log: four DWs
//! with a header of three DWs, whose TLP is not four DWs long. The fourth DW is then undefined.

use super::error::LineError;
use super::words::{bracketed_time, cut, dword, is_hex, seconds};
use super::{ByteOrder, Lines, TextTlp};
use crate::reader::{HEX_HEADING, MAX_FRAME_LEN};
use crate::settings::FunctionOverrides;
use crate::time::duration_ps;
use std::cmp::Ordering;
use std::collections::VecDeque;
use tlp::{Header, Repr};

/// Length of a header log in bytes.
const LOG_LEN: usize = 16;

pub(super) struct Hex {
    order: ByteOrder,
    reason: Reason,
    is_flit: bool,
    settings: FunctionOverrides,
}

/// The source of the byte order of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The caller or the first line gives it.
    Given,
    /// More headers are valid in this order.
    Detected,
    /// Both orders have the same number of valid headers.
    Assumed,
    /// The text has flit-mode headers, most of which are valid in both orders.
    Flit,
}

impl Reason {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Reason::Given => "",
            Reason::Detected => ", detected: more headers are valid in this order",
            Reason::Assumed => ", assumed: neither order has more valid headers",
            Reason::Flit => ", assumed: riser does not detect the order in flit mode",
        }
    }
}

impl Hex {
    /// Detects the byte order from the start of the text, unless the caller or the first line gives it.
    pub(super) fn new(order: Option<ByteOrder>, is_flit: bool, sample: &str) -> Hex {
        let given = order.or_else(|| says_big(sample).then_some(ByteOrder::Big));
        let (order, reason) = match given {
            Some(order) => (order, Reason::Given),
            None if is_flit => (ByteOrder::Big, Reason::Flit),
            None => detect_order(sample.lines().filter_map(|line| Some(parse(line).ok()??.bytes))),
        };
        Hex { order, reason, is_flit, settings: FunctionOverrides::default() }
    }

    /// Stores the settings in a comment such as `mps=256 tags=32`. Comments without the name of a setting are
    /// ignored.
    fn comment(&mut self, comment: &str) -> Result<(), LineError> {
        let pairs: Option<Vec<_>> = comment.split_whitespace().map(|word| word.split_once('=')).collect();
        let pairs = pairs.unwrap_or_default();
        if !pairs.iter().any(|(name, _)| FunctionOverrides::NAMES.contains(name)) {
            return Ok(());
        }
        let mut settings = self.settings;
        let set = |(name, value): (&str, &str)| settings.set(name, value);
        pairs.into_iter().try_for_each(set)?;
        self.settings = settings;
        Ok(())
    }
}

impl Lines for Hex {
    fn has_guessed_byte_order(&self) -> bool {
        let is_reversed = self.reason == Reason::Detected && self.order == ByteOrder::Little;
        is_reversed || self.reason == Reason::Assumed
    }

    fn taken_for(&self) -> String {
        let order = match self.order {
            ByteOrder::Big => "Fmt and Type first",
            ByteOrder::Little => "the bytes of each dword reversed",
        };
        let flit = if self.is_flit { ", headers of flit mode" } else { "" };
        let settings = self.settings.to_string();
        let settings = if settings.is_empty() { settings } else { format!(", settings {settings}") };
        format!("hexadecimal TLPs ({order}{}{flit}{settings})", self.reason.text())
    }

    fn settings(&self) -> FunctionOverrides {
        self.settings
    }

    fn line(&mut self, line: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        if let Some(comment) = line.trim_start().strip_prefix('#') {
            return self.comment(comment);
        }
        let Some(mut tlp) = parse(line)? else { return Ok(()) };
        tlp.line = number;
        if self.order == ByteOrder::Little {
            reverse_dwords(&mut tlp.bytes);
        }
        tlp.is_flit = self.is_flit;
        if !tlp.is_flit && tlp.wire_len.is_none() && is_header_log(&tlp.bytes) {
            tlp.trim_log();
        }
        out.push_back(tlp);
        Ok(())
    }
}

/// Returns true if riser wrote the text, which is then big endian.
fn says_big(sample: &str) -> bool {
    sample.starts_with(HEX_HEADING)
}

/// Returns true for four DWs that begin with the header of a TLP of another length.
fn is_header_log(bytes: &[u8]) -> bool {
    let is_of_other_len = |header: Header<'_>| header.tlp_len() != LOG_LEN;
    bytes.len() == LOG_LEN && Header::new(bytes).is_ok_and(is_of_other_len)
}

pub(super) fn reverse_dwords(bytes: &mut [u8]) {
    bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
}

/// Returns the byte order in which more TLPs begin with a valid header, and the reason. TLPs with the right length
/// count twice.
pub(super) fn detect_order(tlps: impl Iterator<Item = Vec<u8>>) -> (ByteOrder, Reason) {
    let score = |bytes: &[u8]| match Repr::parse_header(bytes) {
        Ok(parsed) => 1 + usize::from(parsed.tlp_len() == bytes.len()),
        Err(_) => 0,
    };
    let (mut big, mut little) = (0, 0);
    for mut bytes in tlps {
        big += score(&bytes);
        reverse_dwords(&mut bytes);
        little += score(&bytes);
    }
    match big.cmp(&little) {
        Ordering::Greater => (ByteOrder::Big, Reason::Detected),
        Ordering::Equal => (ByteOrder::Big, Reason::Assumed),
        Ordering::Less => (ByteOrder::Little, Reason::Detected),
    }
}

/// Returns true if a line is a TLP with a complete header.
pub(super) fn is_tlp(line: &str) -> bool {
    matches!(parse(line), Ok(Some(tlp)) if tlp.bytes.len() >= 12)
}

/// Returns true if a sample is hexadecimal text: at least one line is a TLP, and at least half of the lines without
/// comments are TLPs or probably meant as TLPs. Other lines become errors with their line numbers. Lines for which
/// `is_other` is true belong to another format.
pub(super) fn is_text(sample: &str, is_other: fn(&str) -> bool) -> bool {
    let (mut good, mut meant, mut all) = (0_u64, 0_u64, 0_u64);
    for line in sample.lines() {
        match parse(line) {
            Ok(None) => {}
            Ok(Some(tlp)) => {
                all += 1;
                good += u64::from(tlp.bytes.len() >= 12);
                meant += u64::from(tlp.bytes.len() < 12);
            }
            Err(_) => {
                all += 1;
                meant += u64::from(is_meant(line) && !is_other(line));
            }
        }
    }
    says_big(sample) || good > 0 && (good + meant) * 2 >= all
}

/// Returns the TLP of a line; `None` if the line is empty.
fn parse(line: &str) -> Result<Option<TextTlp>, LineError> {
    let line = line.split('#').next().unwrap_or_default();
    let mut tlp = TextTlp::default();
    let mut rest = line;
    if let Some((time, behind)) = bracketed_time(line) {
        (tlp.time, rest) = (Some(time), behind);
    }
    let (mut numbers, mut offset, mut joined) = (Vec::new(), None, 0);
    for word in rest.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|')) {
        if word.is_empty() {
            continue;
        }
        if let Some(direction) = direction(word) {
            if !tlp.interface.is_empty() {
                return Err(LineError::word(cut(word), "one direction per line"));
            }
            tlp.interface = direction;
        } else if let Some(bytes) = word.strip_prefix("len=") {
            let wrong = || LineError::word(word, format!("4 to {MAX_FRAME_LEN} bytes"));
            let len = bytes.parse().ok().filter(|len| (4..=MAX_FRAME_LEN).contains(len));
            tlp.wire_len = Some(len.ok_or_else(wrong)?);
        } else if let Some(time) = time(word.trim_start_matches('-')) {
            if word.starts_with('-') || tlp.time.is_some() {
                return Err(LineError::word(cut(word), "one time per line, zero or more"));
            }
            tlp.time = Some(time);
        } else {
            offset = offset.or(word.strip_suffix(':').filter(|word| numbers.is_empty() && is_hex(word)));
            joined += usize::from(word.contains(':'));
            numbers.extend(word.split([':', '-', '_']).filter(|part| !part.is_empty()));
        }
    }
    if numbers.is_empty() {
        return if line.trim().is_empty() { Ok(None) } else { Err(LineError::NoTlp("line")) };
    }
    if let Some(offset) = offset.filter(|_| joined == 1 && numbers.len() > 1) {
        return Err(LineError::Dump(cut(offset)));
    }
    tlp.bytes = bytes_of(&numbers)?;
    Ok(Some(tlp))
}

/// Returns the name of the interface for a direction. The name of a link may precede the direction.
pub(super) fn direction(word: &str) -> Option<String> {
    let lower = word.to_ascii_lowercase();
    let lower = lower.trim_end_matches(':');
    let (link, way) = lower.rsplit_once(':').unwrap_or(("", lower));
    let way = match way {
        "up" | "upstream" | "tx" | "<-" => "upstream",
        "down" | "downstream" | "rx" | "->" => "downstream",
        _ => return None,
    };
    let link = &word[..link.len()];
    Some(if link.is_empty() { way.to_owned() } else { format!("{link}:{way}") })
}

fn time(word: &str) -> Option<u128> {
    let word = word.strip_prefix('@').unwrap_or(word);
    if word.contains('.') && !word.ends_with('s') { seconds(word) } else { duration_ps(word) }
}

/// Returns the bytes of hexadecimal numbers.
pub(super) fn bytes_of(numbers: &[&str]) -> Result<Vec<u8>, LineError> {
    let mut digits = Vec::with_capacity(numbers.len());
    for number in numbers {
        let bare = number.strip_prefix("0x").or_else(|| number.strip_prefix("0X"));
        if !is_hex(bare.unwrap_or(number)) {
            return Err(LineError::word(cut(number), "a hexadecimal number, direction or time"));
        }
        digits.push((bare.unwrap_or(number), bare.is_some()));
    }
    let (width, expected) = match digits.as_slice() {
        [(one, _)] if one.len().is_multiple_of(2) => (one.len(), ""),
        [(_, false)] => (8, "an even number"),
        all if all.iter().all(|(number, _)| number.len() <= 2) => (2, "2"),
        all if all.iter().all(|(number, _)| number.len() == 4) => (4, "4"),
        _ => (8, "8, or 4 or 2 in all numbers of the line"),
    };
    let mut text = String::new();
    for (number, is_marked) in digits {
        match number.len() {
            len if len.is_multiple_of(width) => {}
            len if is_marked && len < width => text.extend(std::iter::repeat_n('0', width - len)),
            len => {
                return Err(LineError::Digits { number: cut(number), digits: len as u64, expected });
            }
        }
        text.push_str(number);
    }
    if text.len() > 2 * MAX_FRAME_LEN {
        return Err(LineError::TlpLength(text.len() / 2));
    }
    let byte =
        |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    Ok(text.as_bytes().chunks_exact(2).filter_map(byte).collect())
}

/// Returns the error of the first line that is not a TLP but has a DW of eight digits, with the line number.
pub(super) fn first_error(sample: &str) -> Option<String> {
    let mut lines = sample.lines().enumerate();
    lines.find_map(|(at, line)| {
        let error = parse(line).err().filter(|_| has_dword(line))?;
        Some(format!("line {}: {error}", at + 1))
    })
}

/// Returns true if an invalid line is probably meant as a TLP: it has a DW, and at most one word that cannot be
/// part of a TLP.
fn is_meant(line: &str) -> bool {
    let is_number = |word: &str| is_hex(word.strip_prefix("0x").unwrap_or(word));
    let is_part = |word: &&str| {
        is_number(word) || direction(word).is_some() || time(word).is_some() || word.starts_with("len=")
    };
    let line = line.split('#').next().unwrap_or_default();
    let line = bracketed_time(line).map_or(line, |(_, rest)| rest);
    let others = line.split_whitespace().filter(|word| !is_part(word)).count();
    has_dword(line) && others <= 1
}

fn has_dword(line: &str) -> bool {
    line.split_whitespace().any(|word| dword(word).is_some())
}
