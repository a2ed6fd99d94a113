// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A riser session over one socket, at the device software's end.

use super::SocketCounters;
use super::batch::{self, Buffers, MAX_DATAGRAM_BYTES, MAX_RUN_BYTES, MAX_SEGMENTS, Segmentation};
use super::socket::{self, Clock, OpenError, SPIN, Spin, std_duration};
use super::tagged::{nothing_is_zero, origin_at_device};
use crate::auth::Key;
use crate::carrier::{Arrival, Carrier, SendError, Wait};
use crate::stream::record::{MAX_WINDOW, Refusal};
use crate::stream::{ConnectError, Connector, HELLOS, Session, SessionCounters, SessionError};
use capture::encap::{NETTLP_LEN, Origin, PORT_SESSION};
use nix::sys::socket::MsgFlags;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use tlp::{Duration, Tag, Time};

/// Bytes of receive buffer per TLP of the window: twice the size that the kernel counts for a short datagram.
const BUFFER_BYTES_PER_TLP: usize = 4096;
/// Maximum sleep while a timer of the session runs; the kernel rounds it up to its own tick.
const TICK: Duration = Duration::from_ms(2);
/// Maximum number of receive calls that form one batch.
pub(super) const GATHERED_CALLS: usize = 4;
/// How long a dropped carrier waits for acknowledgements of its datagrams.
const LINGER: Duration = Duration::from_ms(100);

/// Length of one wait while lingering.
const SETTLE_WAIT: Duration = Duration::from_ms(1);

/// Options of a [`SessionCarrier`].
#[derive(Clone, Debug)]
pub struct SessionConnectOptions {
    /// Address of the adapter.
    pub remote: IpAddr,
    /// Local address; `None`: the address that the route selects.
    pub local: Option<IpAddr>,
    /// The adapter's port, 0x2ffd.
    pub port: u16,
    /// Key of an authenticated session; `None`: not authenticated.
    pub key: Option<Key>,
    /// Number of TLPs that the adapter may send before they are acknowledged; `None`: as many as the socket's
    /// buffer holds, at most 1024.
    pub window: Option<u16>,
    /// Use segmentation and receive offload if the kernel has them.
    pub offload: bool,
    /// Number of Hellos until a silent peer is given up. The wait doubles after each Hello.
    pub hellos: u32,
}

impl SessionConnectOptions {
    /// Creates options without authentication, and with the window that the socket's buffer holds.
    pub fn new(remote: IpAddr, local: Option<IpAddr>) -> SessionConnectOptions {
        let (port, key, window, offload, hellos) = (PORT_SESSION, None, None, true, HELLOS);
        SessionConnectOptions { remote, local, port, key, window, offload, hellos }
    }

    /// Returns true if a pre-shared key is set.
    pub const fn is_authenticated(&self) -> bool {
        self.key.is_some()
    }
}

/// A session: every TLP arrives exactly once and in order. Sending blocks no longer than the network interface does.
///
/// The drop of the carrier waits up to 100 ms for acknowledgements, and tells the adapter that the session ends.
#[derive(Debug)]
pub struct SessionCarrier {
    socket: UdpSocket,
    session: Session,
    clock: Clock,
    /// Result of the last reading of the clock.
    now: Time,
    spin: Spin,
    /// True if the last batch was a single TLP, like with one request at a time.
    single: bool,
    buffers: Buffers,
    scratch: Vec<u8>,
    segmentation: Segmentation,
    coalesced: bool,
    ipv6: bool,
    /// Current timeout of the socket.
    timeout: Option<std::time::Duration>,
    drops: u32,
    counters: SocketCounters,
}

/// Returns how many TLPs the receive buffer of a socket holds.
pub(super) fn window(socket: &UdpSocket, wanted: Option<u16>) -> u16 {
    let holds = socket::receive_buffer_bytes(socket) / BUFFER_BYTES_PER_TLP;
    wanted.unwrap_or(u16::try_from(holds).unwrap_or(MAX_WINDOW)).clamp(1, MAX_WINDOW)
}

/// Returns an unpredictable number.
pub(super) fn random() -> io::Result<u64> {
    getrandom::u64().map_err(|error| io::Error::other(error.to_string()))
}

impl SessionCarrier {
    /// Opens a session. Blocks until the peer has answered, by default at most 2.54 s.
    ///
    /// # Errors
    /// If the peer does not answer, or refuses the session; see [`OpenError`].
    pub fn connect(options: &SessionConnectOptions) -> Result<SessionCarrier, OpenError> {
        let local = socket::local_address(options.remote, options.local)?;
        let socket = socket::bind(SocketAddr::new(local, 0), "a riser session", false)?;
        socket::connect(&socket, SocketAddr::new(options.remote, options.port))?;
        let clock = Clock::new();
        let window = window(&socket, options.window);
        let nonce = random().map_err(OpenError::io("making a nonce"))?;
        let (longest, key) = (MAX_DATAGRAM_BYTES as u16, options.key.as_ref());
        let connector = Connector::new(clock.now(), nonce, window, longest, key, options.hellos);
        let session = connector
            .and_then(|connector| shake_hands(&socket, clock, connector))
            .map_err(|error| open_error(options, error))?;
        let coalesced = options.offload && batch::receive_coalesced(&socket);
        batch::report_drops(&socket).map_err(OpenError::io("enabling the count of dropped datagrams"))?;
        Ok(SessionCarrier {
            socket,
            session,
            clock,
            now: clock.now(),
            spin: Spin::default(),
            single: false,
            buffers: Buffers::new(),
            scratch: Vec::new(),
            segmentation: Segmentation::new(options.offload),
            coalesced,
            ipv6: local.is_ipv6(),
            timeout: None,
            drops: 0,
            counters: SocketCounters::default(),
        })
    }

    /// Returns the counters of the socket.
    pub fn socket_counters(&self) -> SocketCounters {
        self.counters
    }

    /// Returns a descriptor that is readable when a datagram has arrived, for callers that wait for other events too.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Returns the time after which [`receive`](Carrier::receive) must be called if nothing arrives; `None`: no limit.
    pub fn due(&self) -> Option<Duration> {
        self.session.poll_timeout().map(|at| at.since(self.clock.now()))
    }

    /// Returns the counters of the session.
    pub fn counters(&self) -> SessionCounters {
        self.session.counters()
    }

    /// If `manual` is true, only [`release`](Self::release) returns credits. Otherwise, delivery returns them.
    pub fn set_manual_release(&mut self, manual: bool) {
        self.session.set_manual_release(manual);
    }

    /// Returns the credits of `count` TLPs that [`receive`](Carrier::receive) has delivered.
    pub fn release(&mut self, count: usize) {
        self.session.release(count);
    }

    /// Returns the address and port of this side.
    ///
    /// # Errors
    /// Errors of `getsockname`.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

/// Sends Hellos and reads answers until a session opens or the attempt fails.
fn shake_hands(socket: &UdpSocket, clock: Clock, mut connector: Connector) -> Result<Session, ConnectError> {
    let mut bytes = [0; 512];
    loop {
        let now = clock.now();
        if let Some(hello) = connector.poll_transmit(now)? {
            // If the send fails, the receive call below reports the error.
            let _ = socket.send(&hello);
        }
        let wait = connector.poll_timeout().since(now).max(Duration::from_us(1));
        // Only a serious fault of the kernel can make this call fail.
        socket.set_read_timeout(Some(std_duration(wait))).map_err(|_| ConnectError::Silent)?;
        match socket.recv(&mut bytes) {
            Ok(len) => {
                if let Some(session) = connector.handle(clock.now(), &bytes[..len])? {
                    return Ok(session);
                }
            }
            Err(error) if batch::would_block(&error) => {}
            // No program listens on the port, so a longer wait is useless.
            Err(_) => return Err(ConnectError::Silent),
        }
    }
}

fn open_error(options: &SessionConnectOptions, error: ConnectError) -> OpenError {
    match error {
        ConnectError::Silent => OpenError::NoSession(options.remote),
        ConnectError::Refused(Refusal::WantsKey) => OpenError::WantsKey(options.remote),
        ConnectError::Refused(_) | ConnectError::Unauthentic => {
            OpenError::Refused { peer: options.remote, reason: error.to_string() }
        }
        ConnectError::NoRandomness => {
            OpenError::Io { what: "making keys", source: io::Error::other(error.to_string()) }
        }
    }
}

/// Converts the end of a session to a socket error.
fn session_error(error: SessionError) -> io::Error {
    let kind = match error {
        SessionError::Silent => io::ErrorKind::TimedOut,
        SessionError::Reset | SessionError::Closed => io::ErrorKind::ConnectionReset,
        SessionError::Protocol => io::ErrorKind::InvalidData,
        SessionError::Exhausted => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

fn arrival(datagram: &[u8]) -> Arrival<'_> {
    let (tlp, sequence) = (&datagram[NETTLP_LEN..], u16::from_be_bytes([datagram[0], datagram[1]]));
    Arrival { origin: origin_at_device(tlp), tlp, sequence, timestamp: 0 }
}

/// Delivers the TLP of a datagram, and the TLPs that waited for it.
fn deliver(
    session: &mut Session,
    now: Time,
    datagram: &[u8],
    scratch: &mut Vec<u8>,
    take: &mut impl FnMut(Arrival<'_>),
) -> usize {
    let Some(next) = session.handle(now, datagram, scratch) else { return 0 };
    take(arrival(next));
    let mut count = 1;
    while let Some(kept) = session.pop_kept(now) {
        take(arrival(&kept));
        session.recycle(kept);
        count += 1;
    }
    count
}

impl SessionCarrier {
    /// Sends all datagrams that the session has to send.
    fn transmit(&mut self) -> io::Result<()> {
        let now = self.now;
        while let Some(run) = self.session.poll_transmit(now, MAX_SEGMENTS, MAX_RUN_BYTES) {
            let segment = usize::from(run.segment);
            batch::send(&self.socket, None, run.bytes, segment, &mut self.segmentation, &mut self.counters)?;
        }
        self.session.failure().map_or(Ok(()), |error| Err(session_error(error)))
    }

    /// Makes one receive call, and delivers the received datagrams.
    fn receive_once(&mut self, flags: MsgFlags, take: &mut impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let (session, scratch) = (&mut self.session, &mut self.scratch);
        let (clock, at) = (self.clock, &mut self.now);
        let mut taken = 0;
        let count = if self.coalesced {
            let (received, bytes) = self.buffers.receive_one(&self.socket, flags)?;
            *at = clock.now();
            let run = received.run(bytes);
            for datagram in run.datagrams() {
                taken += deliver(session, *at, datagram, scratch, take);
            }
            if let Some(drops) = received.drops {
                self.counters.kernel_drops += u64::from(drops.wrapping_sub(self.drops));
                self.drops = drops;
            }
            run.count
        } else {
            let mut is_read = false;
            self.buffers.receive_many(&self.socket, self.ipv6, flags, |_, datagram| {
                if !std::mem::replace(&mut is_read, true) {
                    *at = clock.now();
                }
                taken += deliver(session, *at, datagram, scratch, take);
            })?
        };
        self.counters.receive_calls += 1;
        self.counters.received_datagrams += count as u64;
        Ok(taken)
    }

    /// Receives a batch without waiting. If several datagrams arrived, tries to receive more, because the answers
    /// to all of them are then sent together.
    fn receive_batch(&mut self, flags: MsgFlags, take: &mut impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let mut taken = nothing_is_zero(self.receive_once(flags, take))?;
        self.single = taken == 1;
        let mut more = taken;
        for _ in 1..GATHERED_CALLS {
            if more < 2 {
                break;
            }
            more = nothing_is_zero(self.receive_once(MsgFlags::MSG_DONTWAIT, take))?;
            taken += more;
        }
        Ok(taken)
    }

    /// Spins for a while if spinning paid off before.
    fn receive_spinning(&mut self, end: Time, take: &mut impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        if !self.single || !self.spin.is_due() {
            return Ok(0);
        }
        let (mut spin, until) = (self.spin, (self.now + SPIN).min(end));
        let taken = spin.until(until, self.clock, || self.receive_batch(MsgFlags::MSG_DONTWAIT, take))?;
        // Without this, spinning would never be tried again.
        (self.spin, self.single) = (spin, true);
        Ok(taken)
    }

    /// Waits for a datagram, at most `most`, or until a timer of the session is due.
    fn wait(&mut self, most: Duration) -> io::Result<MsgFlags> {
        let due = self.session.poll_timeout().map_or(Duration::MAX, |at| at.since(self.now));
        let wait = most.min(due.max(TICK));
        socket::prepare_wait(&self.socket, &mut self.timeout, wait)
    }
}

impl Carrier for SessionCarrier {
    fn is_reliable(&self) -> bool {
        true
    }

    fn tags(&self) -> RangeInclusive<u16> {
        0..=Tag::COUNT - 1
    }

    fn room(&self) -> usize {
        self.session.room()
    }

    fn send(
        &mut self,
        _origin: Origin,
        _tag: Tag,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SendError> {
        self.session.send(len, fill)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.now = self.clock.now();
        self.session.prompt();
        self.transmit()
    }

    fn receive(&mut self, wait: Wait, mut take: impl FnMut(Arrival<'_>)) -> io::Result<usize> {
        let most = wait.longest();
        let busy = most == Duration::ZERO || matches!(wait, Wait::Busy(_));
        // The last reading of the clock is accurate enough: an old reading can only make the wait too short.
        let end = self.now + most;
        let was_full = self.room() == 0;
        let mut taken = if busy { 0 } else { self.receive_spinning(end, &mut take)? };
        loop {
            if taken == 0 {
                let flags = if busy { MsgFlags::MSG_DONTWAIT } else { self.wait(end.since(self.now))? };
                taken = self.receive_batch(flags, &mut take)?;
            }
            if taken == 0 {
                self.now = self.clock.now();
            }
            let sent = self.transmit();
            // A failed send must not hide received TLPs. The error occurs again at a later call.
            if taken > 0 {
                return Ok(taken);
            }
            sent?;
            // A caller that waited for room can send now.
            if self.now >= end || was_full && self.room() > 0 {
                return Ok(0);
            }
            if busy {
                std::hint::spin_loop();
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.session.is_idle()
    }
}

impl Drop for SessionCarrier {
    fn drop(&mut self) {
        let mut alive = self.flush().is_ok();
        let end = self.now + LINGER;
        while alive && !self.session.is_idle() && self.now < end {
            // An acknowledgement does not end the wait for TLPs.
            let most = SETTLE_WAIT.min(end.since(self.now));
            alive = self.receive(Wait::AtMost(most), |_| ()).is_ok();
        }
        if alive {
            let bye = self.session.close();
            let _ = self.socket.send(bye.bytes);
        }
    }
}
