// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many datagrams per system call: `recvmmsg`, and segmentation and receive offload (`UDP_SEGMENT`, `UDP_GRO`).

use super::queue::SendQueue;
use super::socket::Port;
use super::{MAX_TLP_BYTES, SocketCounters};
use crate::stream::SegmentRun;
use capture::encap::NETTLP_LEN;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage};
use nix::sys::socket::{recv, recvmmsg, recvmsg, sendmmsg, sendmsg, setsockopt, sockopt};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Maximum number of datagrams per `recvmmsg`.
pub(super) const BATCH: usize = 32;
/// Size of the largest datagram: NetTLP header, TLP, authentication tag.
pub(super) const MAX_DATAGRAM_BYTES: usize = NETTLP_LEN + MAX_TLP_BYTES + 16;
/// Size of a receive slot: one byte more than the largest datagram, to detect longer datagrams.
const SLOT_BYTES: usize = MAX_DATAGRAM_BYTES + 1;
/// Maximum number of datagrams per send with segmentation offload, as accepted by kernels before 6.9.
pub(super) const MAX_SEGMENTS: usize = 64;
/// Maximum number of bytes per send with segmentation offload: an IPv6 packet with its headers stays below 65,535.
pub(super) const MAX_RUN_BYTES: usize = 65_000;

thread_local! {
    // The headers hold pointers. In the structures of the sockets, they would prevent that sockets move between
    // threads. Each address family has its own headers, because the kernel leaves the length of the last address in
    // them.
    static HEADERS_V4: RefCell<MultiHeaders<SockaddrStorage>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
    static HEADERS_V6: RefCell<MultiHeaders<SockaddrStorage>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
    static HEADERS_SEND: RefCell<MultiHeaders<SockaddrStorage>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

/// Number of calls that receive one datagram, between two calls that look for more datagrams.
const SINGLES: u32 = 32;

/// Receive buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    bytes: Box<[u8]>,
    control: Vec<u8>,
    /// Number of calls that still receive one datagram before the next call looks for more; 0: several datagrams
    /// arrived last time.
    singles: u32,
}

/// Metadata of a received datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) from: Option<SocketAddr>,
    pub(super) len: usize,
    /// Length of each datagram except the last, if the kernel coalesced several.
    pub(super) segment: usize,
    /// Drop count of the socket so far, if the kernel reported it.
    pub(super) drops: Option<u32>,
}

impl Received {
    /// Returns the datagrams in the received bytes.
    pub(super) fn run<'a>(&self, bytes: &'a [u8]) -> SegmentRun<'a> {
        SegmentRun::received(bytes, u16::try_from(self.segment).ok())
    }
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        let bytes = vec![0; (BATCH * SLOT_BYTES).max(1 << 16)].into_boxed_slice();
        Buffers { bytes, control: nix::cmsg_space!(i32, u32), singles: 0 }
    }

    /// Receives once, with control messages, and returns the bytes, which may be several datagrams. Returns
    /// `WouldBlock` if no datagram waits, or no datagram arrives before the socket's timeout.
    pub(super) fn receive_one(
        &mut self,
        socket: &UdpSocket,
        flags: MsgFlags,
    ) -> io::Result<(Received, &[u8])> {
        self.control.resize(self.control.capacity(), 0);
        let mut slices = [IoSliceMut::new(&mut self.bytes)];
        let message =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut self.control), flags)?;
        let from = message.address.as_ref().and_then(socket_address);
        let mut received = Received { from, len: message.bytes, segment: message.bytes.max(1), drops: None };
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::UdpGroSegments(size) if size > 0 => received.segment = size as usize,
                ControlMessageOwned::RxqOvfl(drops) => received.drops = Some(drops),
                _ => {}
            }
        }
        Ok((received, &self.bytes[..received.len]))
    }

    /// Receives waiting datagrams, like [`receive_many`](Self::receive_many), or only one of them, from a connected socket. The
    /// call for one datagram is cheaper, so it is used while datagrams arrive one by one. It gives no address.
    pub(super) fn receive_connected(
        &mut self,
        socket: &UdpSocket,
        ipv6: bool,
        flags: MsgFlags,
        mut each: impl FnMut(Option<SocketAddr>, &[u8]),
    ) -> io::Result<usize> {
        if let Some(left) = self.singles.checked_sub(1) {
            let bytes = &mut self.bytes[..SLOT_BYTES];
            let len = recv(socket.as_raw_fd(), bytes, flags & MsgFlags::MSG_DONTWAIT)?;
            each(None, &bytes[..len]);
            self.singles = left;
            return Ok(1);
        }
        let count = self.receive_many(socket, ipv6, flags, each)?;
        self.singles = if count == 1 { SINGLES } else { 0 };
        Ok(count)
    }

    /// Receives one datagram without control messages.
    pub(super) fn receive_alone(
        &mut self,
        socket: &UdpSocket,
        flags: MsgFlags,
    ) -> io::Result<(Option<SocketAddr>, &[u8])> {
        let mut slices = [IoSliceMut::new(&mut self.bytes[..SLOT_BYTES])];
        let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, None, flags)?;
        let (from, len) = (message.address.as_ref().and_then(socket_address), message.bytes);
        Ok((from, &self.bytes[..len]))
    }

    /// Receives waiting datagrams, at most [`BATCH`], without blocking and without control messages. A datagram that is too long
    /// has length [`MAX_DATAGRAM_BYTES`] `+ 1`. Returns zero if no datagram waits.
    pub(super) fn receive_many(
        &mut self,
        socket: &UdpSocket,
        ipv6: bool,
        flags: MsgFlags,
        mut each: impl FnMut(Option<SocketAddr>, &[u8]),
    ) -> io::Result<usize> {
        let headers = if ipv6 { &HEADERS_V6 } else { &HEADERS_V4 };
        headers.with_borrow_mut(|headers| {
            let mut chunks = self.bytes.chunks_exact_mut(SLOT_BYTES);
            let mut slices: [_; BATCH] =
                std::array::from_fn(|_| [IoSliceMut::new(chunks.next().unwrap_or_default())]);
            let mut count = 0;
            for message in recvmmsg(socket.as_raw_fd(), headers, slices.iter_mut(), flags, None)? {
                let from = message.address.as_ref().and_then(socket_address);
                each(from, message.iovs().next().unwrap_or_default());
                count += 1;
            }
            Ok(count)
        })
    }
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    address.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into())
}

/// Returns true if an error only means that nothing is available now.
pub(super) fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Lets the kernel deliver consecutive datagrams as one. Returns true if the kernel supports this.
pub(super) fn receive_coalesced(socket: &UdpSocket) -> bool {
    setsockopt(socket, sockopt::UdpGroSegment, &true).is_ok()
}

/// Lets the kernel report dropped datagrams.
pub(super) fn report_drops(socket: &UdpSocket) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::RxqOvfl, &1)?)
}

/// Maximum length of datagrams for which one system call sends several datagrams of equal length (`UDP_SEGMENT`). The kernel rejects lengths above the
/// path's MTU, and sends on interfaces without checksum offload. Old kernels reject every such send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segmentation {
    most_bytes: u16,
}

impl Segmentation {
    /// Creates a state that uses segmentation if `wanted`. A length that the kernel rejects later is not tried again.
    pub(super) fn new(wanted: bool) -> Segmentation {
        Segmentation { most_bytes: if wanted { u16::MAX } else { 0 } }
    }

    fn refused(&mut self, segment: usize, error: &io::Error) -> bool {
        let known = matches!(
            error.raw_os_error().map(Errno::from_raw),
            Some(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE)
        );
        if known {
            self.most_bytes = (segment - 1) as u16;
        }
        known
    }
}

/// Sends datagrams of `segment` bytes, of which the last may be shorter, with as few system calls as possible. `to` is `None` on
/// a connected socket. After an error, some datagrams may be unsent.
pub(super) fn send(
    socket: &UdpSocket,
    to: Option<SocketAddr>,
    bytes: &[u8],
    segment: usize,
    segmentation: &mut Segmentation,
    counters: &mut SocketCounters,
) -> io::Result<()> {
    if bytes.len() <= segment {
        send_one(socket, to, bytes)?;
        return count_sent(counters, 1, 1);
    }
    let count = bytes.len().div_ceil(segment);
    if segment <= usize::from(segmentation.most_bytes) {
        match send_segmented(socket, to, bytes, segment as u16) {
            Err(error) if segmentation.refused(segment, &error) => {}
            other => return other.and_then(|()| count_sent(counters, count, 1)),
        }
    }
    for batch in bytes.chunks(segment * BATCH) {
        let calls = send_many(socket, to, batch, segment)?;
        count_sent(counters, batch.len().div_ceil(segment), calls)?;
    }
    Ok(())
}

fn count_sent(counters: &mut SocketCounters, datagrams: usize, calls: usize) -> io::Result<()> {
    counters.sent_datagrams += datagrams as u64;
    counters.send_calls += calls as u64;
    Ok(())
}

fn send_one(socket: &UdpSocket, to: Option<SocketAddr>, bytes: &[u8]) -> io::Result<()> {
    match to {
        Some(to) => socket.send_to(bytes, to).map(drop),
        None => socket.send(bytes).map(drop),
    }
}

fn send_segmented(socket: &UdpSocket, to: Option<SocketAddr>, bytes: &[u8], segment: u16) -> io::Result<()> {
    let slices = [IoSlice::new(bytes)];
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    let to = to.map(SockaddrStorage::from);
    sendmsg(socket.as_raw_fd(), &slices, &control, MsgFlags::empty(), to.as_ref())?;
    Ok(())
}

/// Sends datagrams individually, up to [`BATCH`] per call. Returns the number of calls.
fn send_many(socket: &UdpSocket, to: Option<SocketAddr>, bytes: &[u8], segment: usize) -> io::Result<usize> {
    let to = [to.map(SockaddrStorage::from); BATCH];
    let (mut rest, mut calls) = (bytes, 0);
    while !rest.is_empty() {
        let mut chunks = rest.chunks(segment);
        let slices: [_; BATCH] = std::array::from_fn(|_| [IoSlice::new(chunks.next().unwrap_or_default())]);
        let count = rest.len().div_ceil(segment).min(BATCH);
        let sent = HEADERS_SEND.with_borrow_mut(|headers| {
            sendmmsg(socket.as_raw_fd(), headers, &slices[..count], to, [], MsgFlags::empty())
                .map(Iterator::count)
        })?;
        rest = &rest[(sent * segment).min(rest.len())..];
        calls += 1;
    }
    Ok(calls)
}

/// Sends the datagrams in `queue`. If the kernel has no room for a datagram, the datagram stays queued. Datagrams
/// that fail for another reason are dropped and counted. The first such error is returned after all datagrams were
/// tried.
pub(super) fn flush(
    queue: &mut SendQueue,
    sockets: &[Port],
    segmentation: &mut Segmentation,
    counters: &mut SocketCounters,
) -> io::Result<()> {
    let mut failure = Ok(());
    while let Some((first, count, bytes)) = queue.front_run(MAX_SEGMENTS, MAX_RUN_BYTES) {
        let socket = &sockets[usize::from(first.socket)].socket;
        match send(socket, first.to, bytes, first.len, segmentation, counters) {
            Ok(()) => {}
            Err(error) if would_block(&error) => return failure,
            Err(error) => {
                counters.failed_sends += count as u64;
                failure = failure.and(Err(error));
            }
        }
        queue.pop(count);
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_not_retry_segmentation_at_a_rejected_length() {
        let rows = [
            (Errno::EINVAL, 1500, true, 1499),
            (Errno::EMSGSIZE, 9000, true, 8999),
            (Errno::EIO, 18, true, 17),
            (Errno::ECONNREFUSED, 18, false, u16::MAX),
        ];
        for (errno, segment, refused, most_bytes) in rows {
            let mut segmentation = Segmentation::new(true);
            assert_eq!(segmentation.refused(segment, &errno.into()), refused, "{errno}");
            assert_eq!(segmentation.most_bytes, most_bytes);
        }
    }

    #[test]
    fn merged_datagrams_arrive_separately_with_and_without_offload() {
        let receiver = UdpSocket::bind("127.11.30.1:0").unwrap();
        let sender = UdpSocket::bind("127.11.30.2:0").unwrap();
        let to = receiver.local_addr().unwrap();
        // 70 datagrams of 100 bytes, and one of 7. Without offload they need more than one call.
        let bytes: Vec<u8> = (0..70 * 100 + 7).map(|index| (index / 100) as u8).collect();
        for (offload, calls) in [(true, 1), (false, 3)] {
            let (mut segmentation, mut counters) = (Segmentation::new(offload), SocketCounters::default());
            // A run has at most 64 datagrams, like the runs that `front_run` and the streams return.
            let (first, rest) = bytes.split_at(if offload { 6400 } else { bytes.len() });
            send(&sender, Some(to), first, 100, &mut segmentation, &mut counters).unwrap();
            assert_eq!(counters.send_calls, calls);
            if offload {
                send(&sender, Some(to), rest, 100, &mut segmentation, &mut counters).unwrap();
            }
            assert_eq!(counters.sent_datagrams, 71);
            let (mut buffers, mut got) = (Buffers::new(), Vec::new());
            while got.len() < bytes.len() {
                let flags = MsgFlags::MSG_DONTWAIT;
                let each = |from, datagram: &[u8]| {
                    assert_eq!(from, sender.local_addr().ok());
                    assert!(matches!(datagram.len(), 100 | 7));
                    got.extend_from_slice(datagram);
                };
                assert!(buffers.receive_many(&receiver, false, flags, each).unwrap() > 0);
            }
            assert_eq!(got, bytes);
        }
    }
}
