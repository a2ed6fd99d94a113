// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Closed-form bandwidth model of a PCI Express link: the rate of a transfer size, without a simulation.
//!
//! The model has two forms:
//!
//! - [`published`]: the model of pcie-bench (SIGCOMM'18, §3) exactly as printed, including its mistakes.
//! - [`exact`]: counts the bytes that each direction of the wire carries. Simulations agree with this form.
//!
//! The model also covers whole devices: a [`Description`] lists the transactions of a NIC and its driver per packet,
//! and both forms give the packets per second that the link allows. [`in_flight`] gives the number of transfers that a
//! device must have in flight to reach this rate.
//!
//! One device moves data to and from host memory. *Up* is device to host (MWr, MRd), *down* is host to device (CplD).
//! Bandwidths are payload, in Gb/s of 10^9 bits per second. Generations 1 to 5 are covered, and 6 and 7 by arithmetic only
//! ([`Basis::Arithmetic`]).
//!
//! This is the only crate below the measurements that computes in floats. This crate does not simulate or do I/O, and
//! never panics on invalid input: [`Params`] holds only valid values, and sizes are checked.
//!
//! ```
//! use riser_model::{Dllps, Params, Transfer, exact, published};
//!
//! let gen3_x8 = Params::new(3, 8, 256, 512, 64)?;
//! let transfer = Transfer::of(256);
//! assert!((published(&gen3_x8, transfer)?.write_gbps - 52.92).abs() < 0.01);
//! assert!((exact(&gen3_x8, transfer, &Dllps::default())?.write_gbps - 57.46).abs() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bandwidth;
mod device;
mod encapsulation;
mod ethernet;
mod exact;
mod inflight;
pub mod nic;
mod params;
mod published;
mod rate;
mod split;
mod wire;

pub use bandwidth::{Bandwidth, Direction, DirectionLoad, Equations, Flow, Flows, Form};
pub use device::{
    Description, DescriptionError, Kind, Length, PacketLoad, Packeting, SHIPPED, Shipped, Side, Throughput,
    Transaction,
};
pub use encapsulation::encapsulated_gbps;
pub use ethernet::{FCS_BYTES, ethernet_gbps, packet_ns};
pub use exact::{Dllps, KindDllps, Measured, exact, exact_writing};
pub use inflight::{IOMMU_MISS_NS, InFlight, QUOTED, Quoted, in_flight};
pub use params::{Addressing, FRAME_BYTES, ModelError, Params, Transfer};
pub use published::published;
pub use rate::{Basis, FlitRate, LinkRate};
pub use split::{TlpCount, completions, reads, writes};
