// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs as PCILeech prints them: a head line, then the bytes as on the wire, 16 in a line with their offset and as text.
//!
//! ```text
//! TX: MRd32:  Len: 020 ReqID: 0600 BE_FL: ff Tag: 99 Addr: 00001c80
//! 0000    00 00 00 20 06 00 99 ff  00 00 1c 80               ... ........
//! ```
//!
//! PCILeech is the device: TX goes upstream. Source: PCILeech issue 217.

use super::TextTlp;
use super::words::is_hex;
use crate::reader::MAX_FRAME_LEN;
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Pcileech {
    /// The TLP whose bytes are being read.
    open: Option<TextTlp>,
}

/// Returns whether a line is the head of a TLP.
pub(super) fn is_head(line: &str) -> bool {
    head(line).is_some()
}

/// The interface of the TLP that this head announces.
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
    pub(super) fn line(
        &mut self,
        line: &str,
        number: u64,
        out: &mut VecDeque<TextTlp>,
    ) -> Result<(), String> {
        if let Some(interface) = head(line) {
            self.flush(out);
            self.open = Some(TextTlp { line: number, interface: interface.to_owned(), ..TextTlp::default() });
            return Ok(());
        }
        let (Some(tlp), Some((offset, bytes))) = (&mut self.open, dump_line(line)) else {
            self.flush(out);
            return Ok(());
        };
        if offset != tlp.bytes.len() || offset >= MAX_FRAME_LEN {
            let expected = tlp.bytes.len();
            self.flush(out);
            return Err(format!("bytes at offset {offset:#06x}: expected {expected:#06x}"));
        }
        tlp.bytes.extend(bytes);
        Ok(())
    }

    /// Appends the TLP that is being read, if it has bytes.
    pub(super) fn flush(&mut self, out: &mut VecDeque<TextTlp>) {
        out.extend(self.open.take().filter(|tlp| !tlp.bytes.is_empty()));
    }
}

/// The offset and the bytes of a line.
fn dump_line(line: &str) -> Option<(usize, Vec<u8>)> {
    let (offset, rest) = line.trim_start().split_once(' ')?;
    let offset = usize::from_str_radix(offset, 16).ok().filter(|_| offset.len() >= 4 && is_hex(offset))?;
    // Three blanks end the bytes; two are in the middle of the line.
    let bytes = rest.trim_start().split("   ").next()?;
    let byte = |pair: &str| (pair.len() == 2 && is_hex(pair)).then(|| u8::from_str_radix(pair, 16).ok())?;
    let bytes: Option<Vec<u8>> = bytes.split_whitespace().map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty() && bytes.len() <= 16).map(|bytes| (offset, bytes))
}
