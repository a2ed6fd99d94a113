// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC (NSDI'20, section 6.2) as device software: frames of a wire on one side, a remote adapter's host on the
//! other. Sans-IO: whoever has a tap interface, or another wire, carries the frames. A doorbell sends the descriptor that it
//! names, since the ring of NetTLP's driver has one.

use crate::carrier::{Carrier, Wait};
use crate::device_host::{DeviceHost, DeviceHostCounters, DeviceHostError, Place, Settings, Vectors};
use crate::requester::{self, Rest};
use config::PcieLayout;
use devices::simple_nic::{self, Cable, Counters, TxDoorbell, WireCounters};
use plug::Shared;
use std::io;
use thiserror::Error;
use tlp::{PayloadPool, Time};

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

/// The NIC on a carrier.
pub struct Snic<C> {
    host: DeviceHost<C>,
    cable: Cable,
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
        let (cable, pcie, doorbell) = (Cable::default(), PcieLayout::default(), TxDoorbell::Names);
        let (wire, inbox) = (cable.clone(), cable.inbox());
        let function =
            simple_nic::function_with_inbox(BAR.into(), pcie, &pool, wire, inbox, doorbell, &counters)?;
        let settings = Settings { rest, ..Settings::new(BAR) };
        let host = DeviceHost::new(carrier, function, place, settings, &pool)?;
        Ok(Snic { host, cable, counters })
    }

    /// A frame has come from the wire, without FCS; false where it is lost because too many wait.
    pub fn frame_from_wire(&mut self, frame: &[u8]) -> bool {
        self.cable.frame_from_wire(frame)
    }

    /// The next frame for the wire.
    pub fn frame_to_wire(&mut self) -> Option<Vec<u8>> {
        self.cable.frame_to_wire()
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
        self.cable.counters()
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
