// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC as device software, whose cable is connected to a network interface of this machine.

use super::software::{Count, DeviceSoftware, MAX_TURN, SoftwareError, read_counts};
use super::target::Attachment;
use crate::carrier::Wait;
use crate::net::{AnyCarrier, Clock};
use crate::snic::{Snic, SnicError};
use devices::ethernet::NetInterface;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use tlp::Duration;
use tlp::rules::Refusal;

/// Wait for the carrier while the interface is broken, because a broken interface reports its error at once, again
/// and again.
const BROKEN: Duration = Duration::from_ms(10);
/// Maximum number of frames taken from the interface in one turn.
const BURST: usize = 32;
/// Buffer size in bytes. A frame with the usual MTU and a tag has 1518.
const FRAME_BYTES: usize = 2048;

/// The simple NIC, whose cable is connected to a network interface.
pub struct TapNic<'i> {
    snic: Snic<AnyCarrier>,
    interface: &'i dyn NetInterface,
}

impl<'i> TapNic<'i> {
    /// Plugs the NIC into the adapter's host, and its cable into `interface`.
    ///
    /// # Errors
    /// As [`Snic::with_rest`].
    pub fn new(attachment: Attachment, interface: &'i dyn NetInterface) -> Result<TapNic<'i>, SnicError> {
        let Attachment { carrier, place, rest, .. } = attachment;
        Ok(TapNic { snic: Snic::with_rest(carrier, &place, rest)?, interface })
    }

    /// Returns the counters of the cable, the NIC, its interrupts, TLPs and reads.
    pub fn counters(&self) -> Vec<Count> {
        let Snic { cable, host, .. } = &self.snic;
        let (nic, wire, tlps) = (self.snic.counters(), cable.counters(), host.counters());
        let (interrupts, lost_interrupts) = host.vectors().counts();
        let counts = [
            ("from_wire", wire.from_wire),
            ("from_wire_lost", wire.from_wire_lost),
            ("to_wire", wire.to_wire),
            ("to_wire_lost", wire.to_wire_lost),
            ("tx_frames", nic.tx_frames),
            ("rx_frames", nic.rx_frames),
            ("refused_doorbells", nic.refused_doorbells),
            ("refused_descriptors", nic.refused_descriptors),
            ("no_buffer", nic.no_buffer),
            ("lost_frames", nic.lost),
            ("dma_errors", nic.dma_errors),
            ("interrupts", interrupts),
            ("lost_interrupts", lost_interrupts),
            ("received_tlps", tlps.received),
            ("sent_tlps", tlps.sent),
            ("malformed", tlps.malformed),
            ("not_carried", tlps.not_carried),
        ];
        let reads = read_counts(&host.read_counters().copied().unwrap_or_default());
        counts.into_iter().chain(reads).collect()
    }

    /// Moves all waiting frames and TLPs, in both directions. Returns their number.
    fn carry(&mut self, clock: Clock) -> io::Result<usize> {
        let (Snic { cable, host, .. }, mut buffer, mut moved) = (&mut self.snic, [0; FRAME_BYTES], 0);
        for _ in 0..BURST {
            // If the NIC has no room, frames wait in the interface's own queue.
            if !cable.has_room() {
                break;
            }
            match self.interface.receive(&mut buffer) {
                Ok(len) => moved += usize::from(cable.frame_from_wire(&buffer[..len])),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // No frame waits, or the interface is down.
                Err(_) => break,
            }
        }
        let received = host.receive(Wait::Never);
        // The NIC continues even if the receive call failed.
        let advanced = host.advance(clock.now());
        while let Some(frame) = cable.frame_to_wire() {
            moved += 1;
            // An interface that is down loses frames, as an unplugged cable does.
            let _ = self.interface.send(&frame);
        }
        moved += received?;
        advanced.map(|()| moved)
    }
}

impl DeviceSoftware for TapNic<'_> {
    fn carrier(&self) -> &AnyCarrier {
        self.snic.host.carrier()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.snic.host.refusals()
    }

    fn turn(&mut self, clock: Clock) -> Result<(), SoftwareError> {
        let moved = self.carry(clock);
        // After an error, this turn waits too, because the same error may occur at once, again and again.
        if !matches!(moved, Ok(1..)) {
            let Snic { cable, host, .. } = &self.snic;
            let timer = host.poll_timeout().map(|at| at.since(clock.now()));
            let due = timer.into_iter().chain(host.carrier().due()).fold(MAX_TURN, Duration::min);
            let interface = cable.has_room().then(|| self.interface.readable());
            wait(interface, host.carrier().readiness(), due)?;
        }
        Ok(moved.map(drop)?)
    }
}

/// Waits for a datagram, or for a frame of an interface, for at most `most`.
fn wait(interface: Option<BorrowedFd<'_>>, carrier: BorrowedFd<'_>, most: Duration) -> io::Result<()> {
    let timeout =
        |most: Duration| TimeSpec::from(std::time::Duration::from_nanos(most.as_ps().div_ceil(1000)));
    let mut fds = [carrier, interface.unwrap_or(carrier)].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let fds = &mut fds[..1 + usize::from(interface.is_some())];
    let broken = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    let is_broken = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| events.intersects(broken));
    let result = match ppoll(fds, Some(timeout(most)), None) {
        Ok(_) if fds[1..].iter().any(is_broken) => {
            ppoll(&mut fds[..1], Some(timeout(most.min(BROKEN))), None)
        }
        result => result,
    };
    match result {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
