// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nettlp_run_cb`: receives the TLPs of up to 16 contexts, one after the other, in the caller's thread. Never
//! calls back for a TLP that is shorter than its header says.

use crate::dma::{DATAGRAM_MAX, NETTLP_LEN};
use crate::socket;
use crate::strays;
use nettlp::completer::padding_of_short_write;
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tlp::Span;
use tlp::wire::field;

/// `NETTLP_CB_MAX_NTS`: maximum number of contexts per loop.
pub(crate) const CONTEXTS_MAX: usize = 16;
/// Longest sleep of the loop. After it, the loop checks whether it was stopped.
const STOP_EVERY: Duration = Duration::from_millis(50);
/// Maximum number of datagrams taken from one context before the next one.
const BURST: usize = 64;

/// Number of calls of [`stop`]. Each loop remembers the number at its start.
static STOPS: AtomicU64 = AtomicU64::new(0);

/// Ends all running loops. Safe in signal handlers: one atomic addition.
pub(crate) fn stop() {
    STOPS.fetch_add(1, Ordering::SeqCst);
}

/// Type of the callback for a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Mrd,
    Mwr,
    Cpl,
    Cpld,
    Other,
}

/// Buffer for a datagram. The TLP starts at an address that is a multiple of 8, so that data after a header of four
/// DW is aligned.
#[repr(align(8))]
struct Buffer([u8; SKIP + DATAGRAM_MAX]);

const SKIP: usize = 2;
const TLP_AT: usize = SKIP + NETTLP_LEN;

/// Calls `each` with the index of the context, the kind and the TLP, until [`stop`] is called.
pub(crate) fn run(fds: &[RawFd], mut each: impl FnMut(usize, Kind, &mut [u8])) -> Result<(), Errno> {
    let began = STOPS.load(Ordering::SeqCst);
    let is_stopped = || STOPS.load(Ordering::SeqCst) != began;
    let mut watched = fds.iter().map(|fd| socket::watched(*fd)).collect::<Result<Vec<_>, _>>()?;
    let mut buffer = Buffer([0; SKIP + DATAGRAM_MAX]);
    while !is_stopped() {
        socket::wait_any(&mut watched, STOP_EVERY)?;
        for (index, _) in watched.iter().enumerate().filter(|(_, fd)| socket::is_ready(fd)) {
            for _ in 0..BURST {
                if is_stopped() {
                    return Ok(());
                }
                match socket::receive_now(fds[index], &mut buffer.0[SKIP..]) {
                    Ok(len) => take(&mut buffer, len, |kind, tlp| each(index, kind, tlp)),
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::ECONNREFUSED | Errno::EINTR) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(())
}

fn take(buffer: &mut Buffer, len: usize, call: impl FnOnce(Kind, &mut [u8])) {
    let end = SKIP + len;
    let tlp = buffer.0.get(TLP_AT..end).and_then(classify);
    let Some((kind, whole)) = tlp.filter(|(_, whole)| TLP_AT + whole <= buffer.0.len()) else {
        return strays::add();
    };
    let whole = TLP_AT + whole;
    if whole > end {
        complete_write(&mut buffer.0[TLP_AT..whole], whole - end);
    }
    call(kind, &mut buffer.0[TLP_AT..whole.max(end)]);
}

/// Completes a write whose last `missing` bytes did not arrive: moves its data to the right byte lanes, and fills
/// the rest of the DW with 0.
fn complete_write(tlp: &mut [u8], missing: usize) {
    let last_dw = tlp.len() - 4;
    let mut came = [0; 4];
    came[..4 - missing].copy_from_slice(&tlp[last_dw..last_dw + 4 - missing]);
    tlp[last_dw..].fill(0);
    let span = Span::in_dw(0, field::FIRST_BE.get(tlp) as u8);
    let padding = match field::LENGTH.get(tlp) {
        1 => padding_of_short_write(span, 4 - missing),
        _ => 0,
    };
    let lead = if padding == 0 { 0 } else { span.lead() as usize };
    let data = &came[padding..4 - missing];
    tlp[last_dw + lead..][..data.len()].copy_from_slice(data);
}

/// Returns the kind of a TLP, and the length that its header declares, without a digest. Returns `None` if the TLP is
/// shorter. A write may lack up to 3 bytes: old LibTLP sends writes of 1 and 2 bytes with 3 bytes of data.
fn classify(tlp: &[u8]) -> Option<(Kind, usize)> {
    let first = *tlp.first().filter(|_| tlp.len() >= 12)?;
    let kind = match first {
        0x00 | 0x20 => Kind::Mrd,
        0x40 | 0x60 => Kind::Mwr,
        0x0a => Kind::Cpl,
        0x4a => Kind::Cpld,
        _ => Kind::Other,
    };
    let is_prefix = first >> 5 == 0b100;
    let header = if first & 0x20 == 0 || is_prefix { 12 } else { 16 };
    let data = match (kind, field::LENGTH.get(tlp)) {
        (Kind::Mwr | Kind::Cpld, 0) => 4096,
        (Kind::Mwr | Kind::Cpld, dws) => dws as usize * 4,
        _ => 0,
    };
    let whole = header + data;
    let short = if kind == Kind::Mwr { 3 } else { 0 };
    (tlp.len() >= header && tlp.len() + short >= whole).then_some((kind, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PCIe 5.0 Table 2-3`: first bytes, and truncated TLPs.
    #[test]
    fn first_byte_and_length_select_kind() {
        let tlp = |first: u8, length: u8, bytes: usize| {
            let mut tlp = vec![0; bytes];
            tlp[0] = first;
            tlp[3] = length;
            tlp
        };
        let rows = [
            (tlp(0x00, 1, 12), Some((Kind::Mrd, 12))),
            (tlp(0x20, 1, 16), Some((Kind::Mrd, 16))),
            (tlp(0x20, 1, 15), None),
            (tlp(0x40, 1, 16), Some((Kind::Mwr, 16))),
            (tlp(0x40, 1, 15), Some((Kind::Mwr, 16))),
            (tlp(0x40, 1, 12), None),
            (tlp(0x60, 2, 24), Some((Kind::Mwr, 24))),
            (tlp(0x60, 2, 20), None),
            (tlp(0x40, 0, 4108), Some((Kind::Mwr, 4108))),
            (tlp(0x0a, 0, 12), Some((Kind::Cpl, 12))),
            (tlp(0x4a, 1, 16), Some((Kind::Cpld, 16))),
            (tlp(0x4a, 1, 15), None),
            (tlp(0x01, 1, 12), Some((Kind::Other, 12))),
            (tlp(0x91, 1, 12), Some((Kind::Other, 12))),
            (tlp(0x74, 0, 12), None),
            (vec![0; 11], None),
        ];
        for (tlp, expected) in rows {
            assert_eq!(classify(&tlp), expected, "{:#04x}, {} bytes", tlp[0], tlp.len());
        }
        assert_eq!(classify(&[]), None);
    }

    /// Upstream's LibTLP sends three bytes for a write of one or two bytes. The rest reads as 0, even if the buffer
    /// held other bytes before.
    #[test]
    fn three_data_bytes_are_a_write_of_one_or_two_bytes() {
        let mut buffer = Buffer([0xee; SKIP + DATAGRAM_MAX]);
        for (first_be, came, data) in [
            (0b0001, [0, 0, 7], [7, 0, 0, 0]),
            (0b0010, [0, 0, 7], [0, 7, 0, 0]),
            (0b0011, [0, 7, 8], [7, 8, 0, 0]),
            (0b0100, [0, 0, 7], [0, 0, 7, 0]),
            (0b0110, [0, 7, 8], [0, 7, 8, 0]),
            (0b1111, [7, 8, 9], [7, 8, 9, 0]),
        ] {
            let header = [0x40, 0, 0, 1, 0x1b, 0, 0, first_be, 0, 0, 0x10, 0];
            let datagram = [&[0; 6], &header[..], &came].concat();
            buffer.0[SKIP..SKIP + datagram.len()].copy_from_slice(&datagram);
            let mut seen = Vec::new();
            take(&mut buffer, datagram.len(), |kind, tlp| seen.push((kind, tlp.to_vec())));
            assert_eq!(seen, [(Kind::Mwr, [&header[..], &data].concat())], "{first_be:#06b}");
        }
        let before = strays::count();
        take(&mut buffer, 5, |_, _| unreachable!());
        take(&mut buffer, DATAGRAM_MAX + 1, |_, _| unreachable!());
        assert!(strays::count() >= before + 2);
    }
}
