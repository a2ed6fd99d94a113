// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simple NIC (NSDI'20, section 6.2) as device software. It connects a wire with frames to the host of a remote
//! adapter. Sans-IO: the caller transports the frames, for example through a tap interface. A write to a doorbell
//! sends the descriptor with the written index, because the ring of NetTLP's driver has only one descriptor.

use crate::carrier::Carrier;
use crate::device_host::{DeviceHost, DeviceHostError, DeviceLocation, HostedSettings};
use crate::requester::Rest;
use config::PcieLayout;
use devices::ethernet::Cable;
use devices::simple_nic::{self, Counters, TxDoorbell};
use plug::Shared;
use thiserror::Error;
use tlp::PayloadPool;

/// The BAR with the registers, as in NetTLP.
const BAR: u8 = 4;

/// Reason why the NIC could not be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SnicError {
    /// The device cannot be placed there.
    #[error(transparent)]
    Host(#[from] DeviceHostError),
    /// Error of the configuration space.
    #[error(transparent)]
    Config(#[from] config::BuildError),
}

/// The NIC, connected to a carrier.
pub struct Snic<C> {
    /// Host of the device, which sends and receives its TLPs. Also advance it after every frame from the wire.
    pub host: DeviceHost<C>,
    /// Frames to and from the wire.
    pub cable: Cable,
    counters: Shared<Counters>,
}

impl<C: Carrier> Snic<C> {
    /// Creates the NIC at `place` over `carrier`, with the rest times of a network between machines.
    ///
    /// # Errors
    /// If the device cannot be placed there.
    pub fn new(carrier: C, place: &DeviceLocation) -> Result<Snic<C>, SnicError> {
        Snic::with_rest(carrier, place, Rest::NETWORK)
    }

    /// Creates the NIC with the given rest times, which are used if datagrams can be lost.
    ///
    /// # Errors
    /// If the device cannot be placed there.
    pub fn with_rest(carrier: C, place: &DeviceLocation, rest: Rest) -> Result<Snic<C>, SnicError> {
        let (pool, counters) = (PayloadPool::new(), Shared::default());
        let (cable, pcie, doorbell) = (Cable::default(), PcieLayout::default(), TxDoorbell::Names);
        let (wire, inbox) = (cable.clone(), cable.inbox());
        let function =
            simple_nic::function_with_inbox(BAR.into(), pcie, &pool, wire, inbox, doorbell, &counters)?;
        let settings = HostedSettings { rest, ..HostedSettings::new(BAR) };
        let host = DeviceHost::new(carrier, function, place, settings, &pool)?;
        Ok(Snic { host, cable, counters })
    }

    /// Returns the counters of the NIC.
    pub fn counters(&self) -> Counters {
        *self.counters.get()
    }
}
