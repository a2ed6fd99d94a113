// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC (NSDI'20, section 6.2) as device software: frames of a wire on one side, a remote adapter's host on the
//! other. Sans-IO: whoever has a tap interface, or another wire, carries the frames. A doorbell sends the descriptor that it
//! names, since the ring of NetTLP's driver has one.

use crate::carrier::Carrier;
use crate::device_host::{DeviceHost, DeviceHostError, Place, Settings};
use crate::requester::Rest;
use config::PcieLayout;
use devices::ethernet::Cable;
use devices::simple_nic::{self, Counters, TxDoorbell};
use plug::Shared;
use thiserror::Error;
use tlp::PayloadPool;

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
    /// What carries its TLPs; to be advanced behind every frame from the wire, too.
    pub host: DeviceHost<C>,
    /// Where frames from the wire come, and those for it go.
    pub cable: Cable,
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

    /// What the NIC has counted.
    pub fn counters(&self) -> Counters {
        *self.counters.get()
    }
}
