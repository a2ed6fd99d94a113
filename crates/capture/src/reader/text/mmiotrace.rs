// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linux' mmiotrace (kernel documentation, `trace/mmiotrace`): accesses of the CPU to mapped registers.
//!
//! ```text
//! R width timestamp map-id physical value PC PID
//! W width timestamp map-id physical value PC PID
//! PCIDEV busdevfn vendordevice irq 7 * (address | flags) 7 * size [driver]
//! ```
//!
//! riser makes the TLPs from these lines: an MRd and a CplD for a read, an MWr for a write. The requester is
//! 00:00.0, and tags count up. The completer is the function whose `PCIDEV` line has the address, or 00:00.0.

use super::error::LineError;
use super::words::{is_hex, seconds};
use super::{Lines, TextTlp};
use std::collections::VecDeque;
use tlp::{Bdf, Body, Completion, MemoryOp, MemoryRequest, Repr, Span, Tag};

const TAKEN_FOR: &str =
    "mmiotrace (the TLPs are made from accesses: requester 00:00.0, counted tags, no completion time)";
/// Maximum number of memory windows of functions.
const MAX_WINDOWS: usize = 4096;
/// Flags in the low bits of an address in a `PCIDEV` line.
const ADDRESS_FLAGS: u64 = 0xf;
/// First words of lines that are not accesses.
const OTHER_LINES: [&str; 6] = ["VERSION", "LSPCI", "MAP", "UNMAP", "MARK", "#"];

#[derive(Default)]
pub(super) struct Mmiotrace {
    windows: Vec<(u64, u64, Bdf)>,
    tag: u16,
    /// Number of lines that are not from mmiotrace.
    others: u64,
}

/// An access to a register.
struct Access {
    is_write: bool,
    bytes: u32,
    time: u128,
    address: u64,
    value: u64,
}

/// Returns true if a line is an access or the version of mmiotrace.
pub(super) fn is_line(line: &str) -> bool {
    line.trim_end() == "VERSION 20070824" || matches!(access(line), Some(Ok(_)))
}

impl Mmiotrace {
    fn device(&mut self, text: &str) -> Option<()> {
        let mut words = text.split_whitespace();
        let mut hex = || u64::from_str_radix(words.next()?, 16).ok();
        let function = Bdf::from_bits(u16::try_from(hex()?).ok()?);
        let (_ids, _irq) = (hex()?, hex()?);
        let mut numbers = [0; 14];
        for number in &mut numbers {
            *number = hex()?;
        }
        let (starts, sizes) = numbers.split_at(7);
        let windows = starts.iter().zip(sizes).filter(|(start, size)| **size > 0 && **start & 1 == 0);
        let windows = windows.map(|(start, size)| (start & !ADDRESS_FLAGS, *size, function));
        self.windows.extend(windows.take(MAX_WINDOWS.saturating_sub(self.windows.len())));
        Some(())
    }

    /// Returns the header of the request and, for a read, the header of its completion.
    fn headers(&mut self, access: &Access) -> Result<(Repr, Option<Repr>), LineError> {
        let Access { bytes, address, .. } = *access;
        let wrong = |error| LineError::AccessSpan { bytes, address, error };
        let span = Span::covering(address, bytes).map_err(wrong)?;
        let (requester, tag) = (Bdf::default(), Tag::from_bits(self.tag));
        let request = |op| Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span }));
        if access.is_write {
            return Ok((request(MemoryOp::Write), None));
        }
        self.tag = (self.tag + 1) % 256;
        let completion = Repr::new(Body::Completion(Completion {
            byte_count: access.bytes as u16,
            lower_address: (access.address & 0x7f) as u8,
            length_dw: Some(span.length_dw() as u16),
            ..Completion::new(self.completer(access.address), requester, tag)
        }));
        Ok((request(MemoryOp::Read), Some(completion)))
    }

    fn completer(&self, address: u64) -> Bdf {
        let holds =
            |(start, size, _): &&(u64, u64, Bdf)| address.checked_sub(*start).is_some_and(|at| at < *size);
        self.windows.iter().find(holds).map_or(Bdf::default(), |(_, _, function)| *function)
    }
}

impl Lines for Mmiotrace {
    fn line(&mut self, line: &str, number: u64, out: &mut VecDeque<TextTlp>) -> Result<(), LineError> {
        if let Some(device) = line.strip_prefix("PCIDEV ") {
            return self.device(device).ok_or(LineError::Device);
        }
        if line.starts_with("UNKNOWN ") {
            return Err(LineError::UnknownAccess);
        }
        let Some(access) = access(line) else {
            let word = line.split_whitespace().next();
            self.others += u64::from(word.is_some_and(|word| !OTHER_LINES.contains(&word)));
            return Ok(());
        };
        let access = access?;
        let made = |repr: Repr, interface: &str| TextTlp {
            line: number,
            bytes: bytes_of(&repr, access.value),
            time: Some(access.time),
            interface: interface.to_owned(),
            ..TextTlp::default()
        };
        let (request, completion) = self.headers(&access)?;
        out.push_back(made(request, "downstream"));
        out.extend(completion.map(|completion| made(completion, "upstream")));
        Ok(())
    }

    fn others(&self) -> u64 {
        self.others
    }

    fn taken_for(&self) -> String {
        TAKEN_FOR.to_owned()
    }
}

/// Returns a TLP with this header, and with the value in the byte lanes of its data.
fn bytes_of(repr: &Repr, value: u64) -> Vec<u8> {
    let header_len = repr.header_len();
    let mut bytes = vec![0; repr.tlp_len()];
    repr.emit(&mut bytes);
    let lanes = &mut bytes[header_len..];
    let lanes = lanes.get_mut(repr.data_lanes()).unwrap_or_default();
    lanes.iter_mut().zip(value.to_le_bytes()).for_each(|(lane, byte)| *lane = byte);
    bytes
}

/// Returns the access in a line; `None` for other lines.
fn access(line: &str) -> Option<Result<Access, LineError>> {
    let mut words = line.split_whitespace();
    let is_write = match words.next()? {
        "R" => false,
        "W" => true,
        _ => return None,
    };
    let mut access = || {
        let bytes = words.next()?.parse().ok()?;
        let time = seconds(words.next()?)?;
        let _map: u32 = words.next()?.parse().ok()?;
        let mut hex = || {
            let digits = words.next()?.strip_prefix("0x")?;
            u64::from_str_radix(digits, 16).ok().filter(|_| is_hex(digits))
        };
        Some(Access { is_write, bytes, time, address: hex()?, value: hex()? })
    };
    Some(access().ok_or(LineError::Access).and_then(|access| match access.bytes {
        1 | 2 | 4 | 8 => Ok(access),
        other => Err(LineError::AccessWidth(other)),
    }))
}
