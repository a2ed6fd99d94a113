// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as PCILeech prints them: a head line, then lines with an offset, 16 bytes as on the wire, and the bytes as
//! text.
//!
//! ```text
//! TX: MRd32:  Len: 020 ReqID: 0600 BE_FL: ff Tag: 99 Addr: 00001c80
//! 0000    00 00 00 20 06 00 99 ff  00 00 1c 80               ... ........
//! ```
//!
//! PCILeech is the device, so TX goes upstream. Source: PCILeech issue 217.

use super::error::LineError;
use super::words::{cut_to, is_hex};
use super::{Lines, TextTlp};
use crate::reader::MAX_FRAME_LEN;
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Pcileech {
    /// The TLP whose bytes are being read.
    open: Option<TextTlp>,
    /// Number of lines that do not belong to a TLP.
    others: u64,
}

/// Returns true if a line is the head line of a TLP.
pub(super) fn is_head(line: &str) -> bool {
    head(line).is_some()
}

/// Returns the interface of the TLP that starts with this head line.
fn head(line: &str) -> Option<&'static str> {
    let (way, rest) = line.trim_start().split_once(": ")?;
    let interface = match way {
        "TX" => "upstream",
        "RX" => "downstream",
        _ => return None,
    };
    let (name, _) = rest.trim_start().split_once(':')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (is_name && rest.contains("Len:")).then_some(interface)
}

impl Pcileech {
    /// Appends the bytes that were read before an unreadable line, if there are any. The error of that line reports
    /// the TLP.
    fn end_damaged(&mut self, out: &mut VecDeque<TextTlp>) {
        out.extend(self.open.take().filter(|tlp| !tlp.bytes.is_empty()));
    }
}

impl Lines for Pcileech {
    fn line(&mut self, line: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        if let Some(interface) = head(line) {
            let flushed = self.flush(out);
            self.open = Some(TextTlp { line: number, interface: interface.to_owned(), ..TextTlp::default() });
            return flushed;
        }
        match (&mut self.open, dump_line(line)) {
            (Some(tlp), Some((offset, bytes))) if offset == tlp.bytes.len() && offset < MAX_FRAME_LEN => {
                tlp.bytes.extend(bytes);
                Ok(())
            }
            (Some(tlp), Some((offset, _))) => {
                let expected = tlp.bytes.len();
                self.end_damaged(out);
                Err(LineError::Offset { offset, expected })
            }
            (None, Some(_)) => Err(LineError::NoHead),
            (_, None) if line.starts_with("TX: ") || line.starts_with("RX: ") => {
                let before = self.flush(out).err().map(Box::new);
                Err(LineError::Head { before, line: cut_to(line, 40).to_owned() })
            }
            (Some(_), None) if is_offset(line.split_whitespace().next().unwrap_or_default()) => {
                self.end_damaged(out);
                Err(LineError::DumpLine)
            }
            (_, None) => {
                self.others += u64::from(!line.is_empty());
                self.flush(out)
            }
        }
    }

    fn others(&self) -> u64 {
        self.others
    }

    fn flush(&mut self, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        match self.open.take() {
            Some(tlp) if tlp.bytes.is_empty() => Err(LineError::NoDump(tlp.line)),
            open => {
                out.extend(open);
                Ok(())
            }
        }
    }

    fn taken_for(&self) -> String {
        "TLPs printed by PCILeech, TX upstream".to_owned()
    }
}

fn is_offset(word: &str) -> bool {
    word.len() >= 4 && is_hex(word)
}

/// Returns the offset and the bytes in a line.
fn dump_line(line: &str) -> Option<(usize, Vec<u8>)> {
    let (offset, rest) = line.trim_start().split_once(' ')?;
    let offset = usize::from_str_radix(offset, 16).ok().filter(|_| is_offset(offset))?;
    // Three blanks follow the last byte. Two blanks are in the middle of the line.
    let bytes = rest.trim_start().split("   ").next()?;
    let byte = |pair: &str| (pair.len() == 2 && is_hex(pair)).then(|| u8::from_str_radix(pair, 16).ok())?;
    let bytes: Option<Vec<u8>> = bytes.split_whitespace().map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty() && bytes.len() <= 16).map(|bytes| (offset, bytes))
}
