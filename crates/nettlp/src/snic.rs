// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC (NSDI'20, section 6.2) as device software: frames of a wire on one side, a remote adapter's host on the
//! other. Sans-IO: whoever has a tap interface, or another wire, carries the frames. A doorbell sends the descriptor that it
//! names, since the ring of NetTLP's driver has one.

use crate::carrier::{Carrier, Wait};
use crate::device_host::{DeviceHost, DeviceHostCounters, DeviceHostError, Place, Settings, Vectors};
use crate::requester::{self, Rest};
use config::PcieLayout;
use devices::simple_nic::{self, Arrival, Counters, EthernetPort, Inbox, TxDoorbell};
use plug::Shared;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use thiserror::Error;
use tlp::{PayloadPool, Time};

/// Frames that wait for the wire; further ones are lost, as on a wire, and counted.
pub const MAX_FRAMES_TO_WIRE: usize = 256;
/// The BAR with the registers, as NetTLP has it.
const BAR: u8 = 4;

/// Why there is no such NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SnicError {
    /// It cannot stand there.
    #[error(transparent)]
    Host(#[from] DeviceHostError),
    /// Its configuration space.
    #[error(transparent)]
    Config(#[from] config::BuildError),
}

/// What a NIC has seen at its wire, beside [`Counters`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WireCounters {
    /// Frames that came from the wire.
    pub from_wire: u64,
    /// Frames from the wire that were lost because too many waited.
    pub from_wire_lost: u64,
    /// Frames that left to the wire.
    pub to_wire: u64,
    /// Frames to the wire that were lost because too many waited.
    pub to_wire_lost: u64,
}

/// Frames on their way to the wire.
#[derive(Clone, Default)]
struct ToWire(Rc<RefCell<(VecDeque<Vec<u8>>, WireCounters)>>);

impl EthernetPort for ToWire {
    fn transmit(&mut self, frame: &[u8]) -> Option<Arrival> {
        let (frames, counters) = &mut *self.0.borrow_mut();
        if frames.len() < MAX_FRAMES_TO_WIRE {
            frames.push_back(frame.to_vec());
        } else {
            counters.to_wire_lost += 1;
        }
        // What comes back comes by itself.
        None
    }
}

/// The NIC on a carrier.
pub struct Snic<C> {
    host: DeviceHost<C>,
    inbox: Inbox,
    to_wire: ToWire,
    counters: Shared<Counters>,
}

impl<C: Carrier> Snic<C> {
    /// The NIC at `place`, over `carrier`, between machines.
    ///
    /// # Errors
    /// Where it cannot stand there.
    pub fn new(carrier: C, place: &Place) -> Result<Snic<C>, SnicError> {
        Snic::with_rest(carrier, place, Rest::NETWORK)
    }

    /// The same, whose tags rest so long where datagrams may be lost.
    ///
    /// # Errors
    /// Where it cannot stand there.
    pub fn with_rest(carrier: C, place: &Place, rest: Rest) -> Result<Snic<C>, SnicError> {
        let (pool, counters) = (PayloadPool::new(), Shared::default());
        let (inbox, to_wire) = (simple_nic::inbox(), ToWire::default());
        let pcie = PcieLayout::default();
        let (wire, frames) = (to_wire.clone(), Rc::clone(&inbox));
        let doorbell = TxDoorbell::Names;
        let function =
            simple_nic::function_with_inbox(BAR.into(), pcie, &pool, wire, frames, doorbell, &counters)?;
        let settings = Settings { rest, ..Settings::new(BAR) };
        let host = DeviceHost::new(carrier, function, place, settings, &pool)?;
        Ok(Snic { host, inbox, to_wire, counters })
    }

    /// A frame has come from the wire, without FCS; false where it is lost because too many wait.
    pub fn frame_from_wire(&mut self, frame: &[u8]) -> bool {
        let taken = self.inbox.push(frame.to_vec());
        let counters = &mut self.to_wire.0.borrow_mut().1;
        counters.from_wire += 1;
        counters.from_wire_lost += u64::from(!taken);
        taken
    }

    /// The next frame for the wire.
    pub fn frame_to_wire(&mut self) -> Option<Vec<u8>> {
        let (frames, counters) = &mut *self.to_wire.0.borrow_mut();
        let frame = frames.pop_front()?;
        counters.to_wire += 1;
        Some(frame)
    }

    /// As [`DeviceHost::receive`].
    ///
    /// # Errors
    /// Those of the carrier.
    pub fn receive(&mut self, wait: Wait) -> io::Result<usize> {
        self.host.receive(wait)
    }

    /// As [`DeviceHost::advance`]; to be called behind [`frame_from_wire`](Self::frame_from_wire) too.
    ///
    /// # Errors
    /// Those of the carrier.
    pub fn advance(&mut self, now: Time) -> io::Result<()> {
        self.host.advance(now)
    }

    /// As [`DeviceHost::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.host.poll_timeout()
    }

    /// What the NIC has counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        *self.counters.get()
    }

    /// What it has seen at its wire.
    #[must_use]
    pub fn wire_counters(&self) -> WireCounters {
        self.to_wire.0.borrow().1
    }

    /// What its host has counted.
    #[must_use]
    pub fn host_counters(&self) -> DeviceHostCounters {
        self.host.counters()
    }

    /// What its reads have counted, where datagrams may be lost.
    #[must_use]
    pub fn read_counters(&self) -> Option<&requester::Counters> {
        self.host.read_counters()
    }

    /// The carrier.
    #[must_use]
    pub fn carrier(&self) -> &C {
        self.host.carrier()
    }

    /// Where its interrupts go.
    #[must_use]
    pub fn vectors(&self) -> &Vectors {
        self.host.vectors()
    }
}
