// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ready-made devices, each with its host program: the place to start reading.
//!
//! | device | written as | shows |
//! |---|---|---|
//! | [`simple_nic`] | `async fn` | a register file, descriptor rings, DMA, interrupts |
//! | [`memory`] | callbacks, [`device::Device`] itself | the smallest device there is: requests in, completions out |
//! | [`counter`] | `async fn` | AtomicOps: a counter in host memory that several devices share |
//! | [`traffic`] | raw TLPs, below the seam | flows of reads, writes, AtomicOps and messages, each with a Traffic Class |
//! | [`pcie_bench`] | `async fn` | many transfers in flight, without an allocation per transfer |
//! | [`disk`] | `async fn`, over a filter below the endpoint | non-posted writes, as in gem5, or posted ones |
//! | [`dma_engine`] | `async fn`, one for each function | SR-IOV: one engine shared by a physical function and its virtual ones |
//! | [`clock`] | `async fn` | the fabric's time in a register, for programs that cannot get it otherwise |
//! | [`nvme`] | `async fn`, one for each function | queues, PRPs and SGLs, for the stock drivers of operating systems |
//! | [`endpoint_test`] | `async fn` | the device that the kernel's `pci_endpoint_test` and `pcitest` test |
//! | [`mmio`] | only a driver | the time of a register read |
//! | [`ice_nic`] | `async fn` | the cost of control by registers, per frame or in batches |
//! | [`packet_nic`] | `async fn` | the three NICs of pcie-bench's Figure 1: rings, batches, interrupts |
//! | [`intel_82574`] | `async fn` | a NIC with a driver in stock kernels |
//! | [`replay`] | raw TLPs, below the seam | replay of the requests of a capture's devices |
//!
//! Each module has a [`Model`](plug::Model), the settings with which a lab selects the device; a `function`, which creates the
//! device and its configuration space; and a `driver`, its host program. [`models`] lists all. Devices above the seam of `device`
//! do not depend on the host. Drivers access it through `host::Cpu`. Code below an endpoint gets notices of its link (`link::Notice`).
//! This crate never depends on the fabric.
//!
//! The device of the tutorial is in `templates/my-device`, which `riser new` copies.

/// Defines the registers of a device in `$bar`, one per row: the constant of its offset in a module `register`, its size in bytes,
/// and its name in traces.
macro_rules! registers {
    ($bar:expr; $($REGISTER:ident $offset:literal $bytes:expr, $name:literal;)*) => {
        /// Offsets of the registers.
        mod register {
            $(pub(super) const $REGISTER: u64 = $offset;)*
        }

        /// Register names.
        const REGISTERS: &[capture::DeviceRegister] =
            &[$(plug::named($bar, register::$REGISTER, $bytes, $name)),*];
    };
}

pub mod clock;
mod control;
pub mod counter;
pub mod disk;
pub mod dma_engine;
pub mod endpoint_test;
pub mod ethernet;
mod group;
pub mod ice_nic;
pub mod intel_82574;
pub mod memory;
pub mod mmio;
pub mod nvme;
pub mod packet_nic;
pub mod pcie_bench;
pub mod queue;
mod raw_end;
pub mod replay;
pub mod simple_nic;
pub mod traffic;

use capture::DeviceRegister;
use config::Identity;
use plug::{FunctionRegisters, Models};

/// Returns the models of this crate.
pub fn models() -> Models {
    Models::default()
        .with::<memory::Settings>()
        .with::<simple_nic::Settings>()
        .with::<pcie_bench::Bench>()
        .with::<counter::Settings>()
        .with::<traffic::Flows>()
        .with::<replay::Playback>()
        .with::<disk::Settings>()
        .with::<mmio::Settings>()
        .with::<ice_nic::Settings>()
        .with::<dma_engine::Settings>()
        .with::<packet_nic::Settings>()
        .with::<clock::Settings>()
        .with::<intel_82574::Settings>()
        .with::<nvme::Settings>()
        .with::<endpoint_test::Settings>()
}

pub use plug::VENDOR;

/// Device IDs, by device.
pub mod device_id {
    /// [`memory`](crate::memory).
    pub const MEMORY: u16 = 0x0001;
    /// [`simple_nic`](crate::simple_nic).
    pub const SIMPLE_NIC: u16 = 0x0002;
    /// [`pcie_bench`](crate::pcie_bench).
    pub const PCIE_BENCH: u16 = 0x0003;
    /// [`counter`](crate::counter).
    pub const COUNTER: u16 = 0x0004;
    /// [`disk`](crate::disk).
    pub const DISK: u16 = 0x0005;
    /// [`ice_nic`](crate::ice_nic).
    pub const ICE_NIC: u16 = 0x0006;
    /// [`dma_engine`](crate::dma_engine), and its virtual functions.
    pub const DMA_ENGINE: u16 = 0x0007;
    /// The virtual functions of a [`dma_engine`](crate::dma_engine).
    pub const DMA_ENGINE_VF: u16 = 0x0008;
    /// [`packet_nic`](crate::packet_nic).
    pub const PACKET_NIC: u16 = 0x0009;
    /// [`clock`](crate::clock).
    pub const CLOCK: u16 = 0x000a;
    /// [`nvme`](crate::nvme), and its virtual functions.
    pub const NVME: u16 = 0x000b;
}

/// Returns the registers of a device of this crate.
const fn registers_of(device: u16, registers: &'static [DeviceRegister]) -> FunctionRegisters {
    FunctionRegisters { vendor: VENDOR, device, registers }
}

/// Returns the identity of a device of this crate. `class`: base class, sub-class and programming interface, 8 bits each (PCI Code
/// and ID Assignment Specification).
const fn identity(device: u16, class: u32) -> Identity {
    Identity { vendor: VENDOR, device, revision: 1, class, subsystem_vendor: VENDOR, subsystem: device }
}
