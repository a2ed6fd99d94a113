// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nettlp_run_cb`: TLPs of up to 16 contexts, one after the other, in the caller's thread. Never calls back for a TLP
//! that is shorter than its header says.

use crate::dma::{DATAGRAM_MAX, NETTLP_LEN, count_stray};
use crate::socket;
use nix::errno::Errno;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tlp::wire::field;

/// `NETTLP_CB_MAX_NTS`: most contexts of one loop.
pub(crate) const CONTEXTS_MAX: usize = 16;
/// How long the loop sleeps before it looks whether it was stopped.
const STOP_EVERY: Duration = Duration::from_millis(50);
/// Datagrams that are taken from one context before the next one's turn.
const BURST: usize = 64;

/// How often loops were told to stop. Each remembers the number that it began with.
static STOPS: AtomicU64 = AtomicU64::new(0);

/// Ends all loops that run now. Safe in signal handlers: one atomic addition.
pub(crate) fn stop() {
    STOPS.fetch_add(1, Ordering::SeqCst);
}

/// Which callback a TLP is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Mrd,
    Mwr,
    Cpl,
    Cpld,
    Other,
}

/// Room for a datagram whose TLP begins at a multiple of 8, so that data behind four DW is aligned.
#[repr(align(8))]
struct Buffer([u8; SKIP + DATAGRAM_MAX]);

const SKIP: usize = 2;
const TLP_AT: usize = SKIP + NETTLP_LEN;

/// Calls `each` with the number of the context, the kind and the TLP, until [`stop`].
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
        return count_stray();
    };
    let whole = TLP_AT + whole;
    if whole > end {
        buffer.0[end..whole].fill(0);
    }
    call(kind, &mut buffer.0[TLP_AT..whole.max(end)]);
}

/// What a TLP is, and its bytes by its header, without a digest; `None` where there are fewer. Of a write up to 3 may be
/// missing: LibTLP of old sends writes of 1 and 2 bytes with 3 bytes of data.
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

    /// `PCIe 5.0 Table 2-3`: first bytes; and what is cut short.
    #[test]
    fn kinds_by_first_byte_and_length() {
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

    /// The three bytes that old LibTLP sends for a write of one; the fourth reads as 0, whatever was there before.
    #[test]
    fn a_missing_byte_reads_as_zero() {
        let mut buffer = Buffer([0xee; SKIP + DATAGRAM_MAX]);
        let datagram = [0, 0, 0, 0, 0, 0, 0x40, 0, 0, 1, 0x1b, 0, 0, 0x01, 0, 0, 0x10, 0, 7, 0, 0];
        buffer.0[SKIP..SKIP + datagram.len()].copy_from_slice(&datagram);
        let mut seen = Vec::new();
        take(&mut buffer, datagram.len(), |kind, tlp| seen.push((kind, tlp.to_vec())));
        assert_eq!(seen, [(Kind::Mwr, [&datagram[6..], &[0]].concat())]);
        let before = crate::dma::strays();
        take(&mut buffer, 5, |_, _| unreachable!());
        take(&mut buffer, DATAGRAM_MAX + 1, |_, _| unreachable!());
        assert!(crate::dma::strays() >= before + 2);
    }
}
