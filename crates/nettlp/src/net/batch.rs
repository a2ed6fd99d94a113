// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One system call for many datagrams: `recvmmsg`, and segmentation and receive offload (`UDP_SEGMENT`, `UDP_GRO`).

use super::queue::SendQueue;
use super::socket::Port;
use super::{MAX_TLP_BYTES, SocketCounters};
use capture::encap::NETTLP_LEN;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, MultiHeaders, SockaddrStorage};
use nix::sys::socket::{recvmmsg, recvmsg, sendmsg, setsockopt, sockopt};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;

/// Datagrams of one `recvmmsg`.
pub(super) const BATCH: usize = 32;
/// Bytes of the largest datagram: NetTLP header, TLP, authentication tag.
pub(super) const MAX_DATAGRAM_BYTES: usize = NETTLP_LEN + MAX_TLP_BYTES + 16;
/// One byte more than is legal, so that what is too long is seen to be.
const SLOT_BYTES: usize = MAX_DATAGRAM_BYTES + 1;
/// Datagrams of one send with segmentation offload: what kernels before 6.9 take.
pub(super) const MAX_SEGMENTS: usize = 64;
/// Bytes of one send with segmentation offload: an IPv6 packet with its headers stays below 65,535.
pub(super) const MAX_RUN_BYTES: usize = 65_000;

thread_local! {
    // Not in the sockets' structures, since they hold pointers and could not move between threads; one for each family,
    // since the kernel leaves the length of the last address in them.
    static HEADERS_V4: RefCell<MultiHeaders<SockaddrStorage>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
    static HEADERS_V6: RefCell<MultiHeaders<SockaddrStorage>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

/// Where datagrams are received to.
#[derive(Debug)]
pub(super) struct Buffers {
    bytes: Box<[u8]>,
    control: Vec<u8>,
}

/// What is known of a datagram before it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) from: Option<SocketAddr>,
    pub(super) len: usize,
    /// Length of each datagram but the last, where several came as one.
    pub(super) segment: usize,
    /// The socket's count of drops so far, where the kernel gave it.
    pub(super) drops: Option<u32>,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        let bytes = vec![0; (BATCH * SLOT_BYTES).max(1 << 16)].into_boxed_slice();
        Buffers { bytes, control: nix::cmsg_space!(i32, u32) }
    }

    /// Receives once, with control messages; gives the bytes, which may be several datagrams. `WouldBlock` where there is
    /// nothing, or nothing came before the socket's timeout.
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

    /// Receives what waits, at most [`BATCH`] datagrams, without waiting and without control messages; a datagram that is
    /// too long has [`MAX_DATAGRAM_BYTES`] `+ 1`. Zero where there is nothing.
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

/// Whether an error only says that there is nothing now.
pub(super) fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Whether the kernel sends many datagrams as one; switched off when it refuses.
pub(super) fn offers_segmentation(socket: &UdpSocket) -> bool {
    // Setting size 0 changes nothing, and fails where the kernel does not know the option.
    setsockopt(socket, sockopt::UdpGsoSegment, &0).is_ok()
}

/// Has the kernel give datagrams that came together as one; whether it does.
pub(super) fn receive_coalesced(socket: &UdpSocket) -> bool {
    setsockopt(socket, sockopt::UdpGroSegment, &true).is_ok()
}

/// Has the kernel tell what it drops.
pub(super) fn report_drops(socket: &UdpSocket) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::RxqOvfl, &1)?)
}

/// Sends datagrams of `segment` bytes, the last may be shorter, as one. `to` is `None` on a connected socket.
pub(super) fn send_run(
    socket: &UdpSocket,
    to: Option<SocketAddr>,
    bytes: &[u8],
    segment: u16,
) -> io::Result<()> {
    if bytes.len() <= usize::from(segment) {
        return match to {
            Some(to) => socket.send_to(bytes, to).map(drop),
            None => socket.send(bytes).map(drop),
        };
    }
    let slices = [IoSlice::new(bytes)];
    let control = [ControlMessage::UdpGsoSegments(&segment)];
    let to = to.map(SockaddrStorage::from);
    sendmsg(socket.as_raw_fd(), &slices, &control, MsgFlags::empty(), to.as_ref())?;
    Ok(())
}

/// Sends what waits in `queue`, in runs where `segmentation` is on. What the kernel has no room for stays in line; what
/// it cannot send for another reason is dropped and counted, and the first such error is given when all was tried.
pub(super) fn flush(
    queue: &mut SendQueue,
    sockets: &[Port],
    segmentation: &mut bool,
    counters: &mut SocketCounters,
) -> io::Result<()> {
    let mut failure = Ok(());
    loop {
        let most = if *segmentation { MAX_SEGMENTS } else { 1 };
        let Some((first, count, bytes)) = queue.front_run(most, MAX_RUN_BYTES) else { return failure };
        let socket = &sockets[usize::from(first.socket)].socket;
        match send_run(socket, first.to, bytes, first.len as u16) {
            Ok(()) => {
                counters.send_calls += 1;
                counters.sent_datagrams += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return failure,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if count > 1 && refuses_segmentation(&error) => {
                *segmentation = false;
                continue;
            }
            Err(error) => {
                counters.failed_sends += count as u64;
                failure = failure.and(Err(error));
            }
        }
        queue.pop(count);
    }
}

/// Whether the kernel cannot send runs on this way after all: an interface without checksum offload, for one.
pub(super) fn refuses_segmentation(error: &io::Error) -> bool {
    matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE))
}
