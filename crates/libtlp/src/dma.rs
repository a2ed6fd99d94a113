// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA reads and writes of a context: one request at a time, under one tag.
//!
//! After a read has timed out, its tag stays unused ("rests") until the missing completions have arrived, at most for
//! [`DRAIN`]. This state
//! is kept per socket, because programs may copy contexts. Before a read is sent, datagrams that wait on the socket are
//! dropped: they cannot answer this read, and are only copies of earlier completions. Never waits longer than
//! [`TIMEOUT`] for a request, and [`DRAIN`] before it.

use crate::gather::{Gather, Read, Taken};
use crate::socket;
use crate::strays;
use crate::types::Nettlp;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tlp::{Body, MemoryOp, MemoryRequest, Repr, Span, split};

/// `LIBTLP_CPL_TIMEOUT`: timeout of a read for its completions.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(500);
/// `LIBTLP_DRAIN_TIMEOUT`: how much longer the tag of a read that timed out rests.
pub(crate) const DRAIN: Duration = Duration::from_millis(500);

/// Length of `struct nettlp_hdr`, which precedes each TLP. Software sets all its bytes to zero.
pub(crate) const NETTLP_LEN: usize = 6;
/// Longest accepted datagram: a header of four DW, 4 KiB and a digest. Longer datagrams are strays.
pub(crate) const DATAGRAM_MAX: usize = NETTLP_LEN + 16 + 4096 + 4;
/// Maximum data of one request.
const REQUEST_MAX: u32 = 4096;
/// Maximum number of datagrams dropped before a read is sent: a peer that sends all the time must not block it.
const DROP_MAX: usize = 1024;

/// A read that timed out.
struct Resting {
    gather: Gather,
    until: Instant,
}

/// Reads that timed out, by socket: at most one read per socket.
static RESTING: Mutex<BTreeMap<RawFd, Resting>> = Mutex::new(BTreeMap::new());
/// Number of entries in `RESTING`, so that the lock is not taken if it is empty.
static RESTING_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Opens the socket of a context.
pub(crate) fn init(nt: &mut Nettlp) -> Result<(), Errno> {
    let port = nt.port_of_tag()?;
    let local = nt.local_addr.with_port(port);
    let fd = socket::open(Some(local), nt.remote_addr.with_port(port), TIMEOUT)?;
    if nt.is_own() {
        socket::set_receive_timeout(&fd, TIMEOUT)?;
    }
    nt.port = i32::from(port);
    nt.sockfd = std::os::fd::IntoRawFd::into_raw_fd(fd);
    // If a socket with this number was closed, its resting read is obsolete.
    forget(nt.sockfd);
    Ok(())
}

/// Reads all of `out`, with requests of at most `limit` bytes.
pub(crate) fn read(nt: &Nettlp, address: u64, out: &mut [u8], limit: usize) -> Result<(), Errno> {
    for_each_piece(address, out.len(), limit, |at, range| read_piece(nt, at, &mut out[range]))
}

/// Writes all of `data`, with requests of at most `limit` bytes.
pub(crate) fn write(nt: &Nettlp, address: u64, data: &[u8], limit: usize) -> Result<(), Errno> {
    for_each_piece(address, data.len(), limit, |at, range| write_piece(nt, at, &data[range]))
}

fn for_each_piece(
    address: u64,
    len: usize,
    limit: usize,
    mut each: impl FnMut(u64, std::ops::Range<usize>) -> Result<(), Errno>,
) -> Result<(), Errno> {
    if limit < 4 || (len > 0 && address.checked_add(len as u64 - 1).is_none()) {
        return Err(Errno::EINVAL);
    }
    let limit = limit.min(REQUEST_MAX as usize) as u32;
    let mut done = 0;
    while done < len {
        let at = address + done as u64;
        let remaining = (len - done).min(REQUEST_MAX as usize) as u32;
        let piece = split::request_piece(at, remaining, limit) as usize;
        each(at, done..done + piece)?;
        done += piece;
    }
    Ok(())
}

fn request(nt: &Nettlp, op: MemoryOp, address: u64, len: usize) -> Result<MemoryRequest, Errno> {
    let span = Span::covering(address, len as u32).map_err(|_| Errno::EINVAL)?;
    Ok(MemoryRequest { op, requester: nt.requester(), tag: nt.tag(), span })
}

fn write_piece(nt: &Nettlp, address: u64, data: &[u8]) -> Result<(), Errno> {
    let request = request(nt, MemoryOp::Write, address, data.len())?;
    let mut datagram = [0; DATAGRAM_MAX];
    let header = Repr::new(Body::Memory(request)).emit(&mut datagram[NETTLP_LEN..]);
    // Whole DWs: bytes that are not enabled are 0.
    let start = NETTLP_LEN + header + request.span.lead() as usize;
    datagram[start..start + data.len()].copy_from_slice(data);
    let end = NETTLP_LEN + header + request.span.length_dw() as usize * 4;
    socket::send_whole(nt.sockfd, &datagram[..end])
}

fn read_piece(nt: &Nettlp, address: u64, out: &mut [u8]) -> Result<(), Errno> {
    let request = request(nt, MemoryOp::Read, address, out.len())?;
    let mut buffer = [0; DATAGRAM_MAX];
    await_rest(nt.sockfd, &mut buffer)?;
    if nt.is_own() {
        drop_waiting(nt.sockfd, &mut buffer);
    }
    let end = NETTLP_LEN + Repr::new(Body::Memory(request)).emit(&mut buffer[NETTLP_LEN..]);
    buffer[..NETTLP_LEN].fill(0);
    socket::send_whole(nt.sockfd, &buffer[..end])?;
    let deadline = Instant::now() + TIMEOUT;
    let mut gather = Gather::new(Read { requester: request.requester, tag: request.tag, span: request.span });
    let result = collect(nt, &mut gather, out, &mut buffer, deadline);
    // Late completions must not answer the next read. If the peer is absent, no completions arrive.
    if result.is_err() && result != Err(Errno::ECONNREFUSED) && !gather.is_whole() {
        rest(nt.sockfd, gather, Instant::now() + DRAIN);
    }
    result
}

/// Receives until the read has all its bytes.
fn collect(
    nt: &Nettlp,
    gather: &mut Gather,
    out: &mut [u8],
    buffer: &mut [u8; DATAGRAM_MAX],
    deadline: Instant,
) -> Result<(), Errno> {
    // The socket's own timeout limits the wait for the first datagram, which takes only one system call. Completions of
    // one read arrive together.
    let mut asleep = nt.is_own();
    while !gather.is_whole() {
        let len = socket::receive_by(nt.sockfd, buffer, deadline, asleep)?;
        let tlp = tlp_of(buffer, len).unwrap_or_default();
        let taken = if tlp.is_empty() { Taken::Stray(None) } else { gather.take(tlp, Some(out)) };
        match taken {
            Taken::Data => {}
            Taken::Failed(error) => return Err(error),
            Taken::Stray(why) => {
                why.map_or_else(strays::add, |why| strays::add_refused(why, tlp));
                if Instant::now() >= deadline {
                    return Err(Errno::ETIME);
                }
            }
        }
        asleep = false;
    }
    Ok(())
}

/// Returns the TLP of a datagram of `len` bytes. Returns `None` if the datagram contains no TLP, or was longer than the
/// buffer.
pub(crate) fn tlp_of(buffer: &[u8; DATAGRAM_MAX], len: usize) -> Option<&[u8]> {
    buffer.get(NETTLP_LEN..len)
}

fn drop_waiting(fd: RawFd, buffer: &mut [u8]) {
    for _ in 0..DROP_MAX {
        match socket::receive_now(fd, buffer) {
            Ok(_) => strays::add(),
            // Clears the error of an earlier datagram; the next send reports the current state.
            Err(Errno::EINTR | Errno::ECONNREFUSED) => {}
            Err(_) => return,
        }
    }
}

fn resting() -> MutexGuard<'static, BTreeMap<RawFd, Resting>> {
    RESTING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn rest(fd: RawFd, gather: Gather, until: Instant) {
    let mut all = resting();
    all.insert(fd, Resting { gather, until });
    RESTING_COUNT.store(all.len(), Ordering::Release);
}

/// Removes and returns the read that rests on a socket.
fn forget(fd: RawFd) -> Option<Resting> {
    if RESTING_COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut all = resting();
    let found = all.remove(&fd);
    RESTING_COUNT.store(all.len(), Ordering::Release);
    found
}

/// Waits until the socket's tag may be used again.
fn await_rest(fd: RawFd, buffer: &mut [u8; DATAGRAM_MAX]) -> Result<(), Errno> {
    let Some(Resting { mut gather, until }) = forget(fd) else { return Ok(()) };
    while !gather.is_whole() {
        match socket::receive_by(fd, buffer, until, false) {
            Ok(len) => {
                strays::add();
                let _ = tlp_of(buffer, len).map(|tlp| gather.take(tlp, None));
                if Instant::now() >= until {
                    break;
                }
            }
            Err(Errno::ETIME) => break,
            Err(Errno::ECONNREFUSED) => {}
            Err(error) => {
                rest(fd, gather, until);
                return Err(error);
            }
        }
    }
    Ok(())
}
