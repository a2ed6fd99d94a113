// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures an interface. Reads a packet socket and returns NetTLP's frames as the bytes of a pcap file, so that they
//! are read like a file. Never decodes a TLP, and never sends.

mod filter;

use capture::encap::{self, EncapError, Parsed, PortUse};
use capture::reader::LINKTYPE_ETHERNET;
use capture::superpacket::Cut;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal};
use socket2::SockRef;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Size of the longest frame: an IPv6 packet after an Ethernet header and four VLAN tags.
const FRAME_MAX: usize = 65_535 + 40 + 14 + 16;
/// Size of the socket's receive buffer.
const BUFFER_BYTES: usize = 32 << 20;
/// Timeout of a receive call, after which the stop flag is checked, in microseconds.
const WAIT_US: i64 = 100_000;
/// Maximum number of waiting frames to return after the caller has stopped the capture.
const LEFT_MAX: usize = 1 << 18;
/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK`: the interfaces whose frames begin with Ethernet headers.
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;
/// `PACKET_OUTGOING`: a sent frame. On loopback each frame is seen again as received.
const OUTGOING: u8 = 4;

/// Counters of an interface.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveCounts {
    /// NetTLP frames, after the kernel's merged datagrams were split.
    pub frames: u64,
    /// Number of these that are first fragments of datagrams, which are not reassembled.
    pub fragments: u64,
    /// Frames that the kernel dropped because the socket's buffer was full.
    pub dropped: u64,
}

/// Reason why an interface cannot be captured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The list of interfaces cannot be read.
    #[error("interfaces: {0}")]
    Interfaces(Errno),
    /// There is no such interface. Has the names of all interfaces.
    #[error("no such interface: expected {}", .0.join(", "))]
    NoInterface(Vec<String>),
    /// The frames of the interface do not begin with Ethernet headers. Has its `ARPHRD` number.
    #[error("link type {0}: expected Ethernet (1) or loopback (772)")]
    LinkType(u16),
    /// The process may not capture.
    #[error("capturing needs root or CAP_NET_RAW: {}", .0.desc())]
    Forbidden(Errno),
    /// A system call failed.
    #[error("{}", .0.desc())]
    Socket(Errno),
    /// The copy of the frames cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// An interface as the bytes of a pcap file.
pub struct LiveCapture {
    socket: OwnedFd,
    interface: LinkAddr,
    stop: Arc<AtomicBool>,
    counts: Rc<Cell<LiveCounts>>,
    frame: Vec<u8>,
    part: Vec<u8>,
    /// Bytes of records; those from `at` are unread.
    ready: Vec<u8>,
    at: usize,
    /// Frames that may still be received after the stop.
    left: usize,
    file: Option<BufWriter<File>>,
}

/// Result of a receive call.
enum Received {
    /// A frame of the interface: its length in bytes, and its time of arrival.
    Frame(usize, TimeSpec),
    /// A frame of another interface, or a second copy of a frame.
    NotOurs,
    /// No frame before the timeout.
    Nothing,
}

/// Returns the interface's link-layer address, to which sockets are bound.
fn find(name: &str) -> Result<LinkAddr, LiveError> {
    let all = nix::ifaddrs::getifaddrs().map_err(LiveError::Interfaces)?;
    let links = all.filter_map(|i| Some((i.interface_name, *i.address?.as_link_addr()?)));
    let links: Vec<(String, LinkAddr)> = links.collect();
    let Some((_, link)) = links.iter().find(|(other, _)| other == name) else {
        return Err(LiveError::NoInterface(links.into_iter().map(|(name, _)| name).collect()));
    };
    match link.hatype() {
        ETHERNET | LOOPBACK => Ok(*link),
        other => Err(LiveError::LinkType(other)),
    }
}

fn listen(interface: &LinkAddr) -> Result<OwnedFd, Errno> {
    let all = SockProtocol::EthAll;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, all)?;
    if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES);
    }
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, WAIT_US))?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    // The kernel filter only saves work. Without it this code skips more frames.
    let _ = SockRef::from(&socket).attach_filter(&filter::program());
    bind(socket.as_raw_fd(), interface)?;
    Ok(socket)
}

/// Returns a pcap header: nanoseconds, little endian, Ethernet.
fn file_header() -> Vec<u8> {
    let words = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, FRAME_MAX as u32, u32::from(LINKTYPE_ETHERNET)];
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

/// Protocol of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Nettlp,
    /// First fragment of a NetTLP datagram. Later fragments have no ports and cannot be recognized.
    Fragment,
    Others,
}

/// Returns the protocol of a frame, by its ports.
fn of(frame: &[u8]) -> Of {
    let (of, ports) = match encap::parse(frame, frame.len()) {
        Ok(Parsed::Datagram(d)) => (Of::Nettlp, (d.source_port, d.destination_port)),
        Err(EncapError::Fragment { ports: Some(ports), .. }) => (Of::Fragment, ports),
        _ => return Of::Others,
    };
    if PortUse::between(ports.0, ports.1) == PortUse::Foreign { Of::Others } else { of }
}

impl LiveCapture {
    /// Starts a capture of the interface `name`, which ends when `stop` becomes true. Writes all frames to `file` too.
    /// Also returns the counters, which the capture updates.
    ///
    /// # Errors
    /// The interface does not exist or has no Ethernet headers, the process may not capture, or `file` cannot be
    /// written.
    pub fn open(
        name: &str,
        file: Option<File>,
        stop: Arc<AtomicBool>,
    ) -> Result<(LiveCapture, Rc<Cell<LiveCounts>>), LiveError> {
        let interface = find(name)?;
        let socket = listen(&interface).map_err(|error| match error {
            Errno::EPERM | Errno::EACCES => LiveError::Forbidden(error),
            _ => LiveError::Socket(error),
        })?;
        let counts = Rc::new(Cell::new(LiveCounts::default()));
        let mut live = LiveCapture {
            socket,
            interface,
            stop,
            counts: counts.clone(),
            frame: vec![0; FRAME_MAX],
            part: vec![0; FRAME_MAX],
            ready: Vec::with_capacity(FRAME_MAX),
            at: 0,
            left: LEFT_MAX,
            file: file.map(BufWriter::new),
        };
        live.put(&file_header())?;
        Ok((live, counts))
    }

    fn count(&self, add: impl FnOnce(&mut LiveCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }

    /// Receives the next frame into `self.frame`.
    fn receive(&mut self, flags: MsgFlags) -> io::Result<Received> {
        let mut control = nix::cmsg_space!(TimeSpec, u32);
        let mut slices = [IoSliceMut::new(&mut self.frame)];
        let fd = self.socket.as_raw_fd();
        let message = match recvmsg::<LinkAddr>(fd, &mut slices, Some(&mut control), flags) {
            Ok(message) => message,
            // An interface that went down may come up again.
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => return Ok(Received::Nothing),
            Err(error) => return Err(error.into()),
        };
        let (mut time, mut dropped) = (TimeSpec::new(0, 0), None);
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::ScmTimestampns(at) => time = at,
                ControlMessageOwned::RxqOvfl(count) => dropped = Some(count),
                _ => {}
            }
        }
        let (bytes, from) = (message.bytes, message.address);
        if let Some(dropped) = dropped {
            self.count(|counts| counts.dropped = u64::from(dropped));
        }
        // Between socket() and bind(), frames of all interfaces arrive.
        let ours = from.is_some_and(|from| {
            from.ifindex() == self.interface.ifindex()
                && !(self.interface.hatype() == LOOPBACK && from.pkttype() == OUTGOING)
        });
        Ok(if ours { Received::Frame(bytes, time) } else { Received::NotOurs })
    }

    /// Writes one record for a frame of `len` bytes, or one record for each datagram that the kernel merged into the
    /// frame.
    fn take(&mut self, len: usize, time: TimeSpec) -> io::Result<()> {
        let frame = std::mem::take(&mut self.frame);
        let taken = self.take_frame(&frame[..len], time);
        self.frame = frame;
        taken
    }

    fn take_frame(&mut self, frame: &[u8], time: TimeSpec) -> io::Result<()> {
        match of(frame) {
            Of::Nettlp => {}
            Of::Fragment => self.count(|counts| counts.fragments += 1),
            Of::Others => return Ok(()),
        }
        let Some(cut) = Cut::of(frame) else { return self.record(frame, time) };
        let mut part = std::mem::take(&mut self.part);
        let written = (0..cut.parts()).try_for_each(|index| {
            let len = cut.write(frame, index, &mut part);
            self.record(&part[..len], time)
        });
        self.part = part;
        written
    }

    fn record(&mut self, frame: &[u8], time: TimeSpec) -> io::Result<()> {
        self.count(|counts| counts.frames += 1);
        let (len, mut header) = (frame.len() as u32, [0; 16]);
        let words = [time.tv_sec() as u32, time.tv_nsec() as u32, len, len];
        for (out, word) in header.chunks_exact_mut(4).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        self.put(&header)?;
        self.put(frame)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.ready.extend_from_slice(bytes);
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Read for LiveCapture {
    /// Returns bytes of the next records; no bytes after the stop. Blocks until there are bytes.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() {
            self.ready.clear();
            self.at = 0;
            // Frames that arrived before the stop are returned, up to a limit.
            let is_over = self.stop.load(Ordering::Relaxed);
            let flags = if is_over { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() };
            self.left -= usize::from(is_over);
            match self.receive(flags)? {
                _ if self.left == 0 => return self.flush().map(|()| 0),
                Received::Nothing if is_over => return self.flush().map(|()| 0),
                Received::Frame(len, time) => self.take(len, time)?,
                Received::NotOurs => {}
                Received::Nothing => self.flush()?,
            }
        }
        let len = out.len().min(self.ready.len() - self.at);
        out[..len].copy_from_slice(&self.ready[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}
