// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ready-made devices, each with the host program that drives it beside it: what a newcomer reads first.
//!
//! | device | written as | shows |
//! |---|---|---|
//! | [`simple_nic`] | `async fn` | a register file, descriptor rings, DMA, interrupts |
//! | [`memory`] | callbacks, [`device::Device`] itself | the smallest device there is: requests in, completions out |
//! | [`counter`] | `async fn` | AtomicOps: a counter in host memory that several devices share |
//! | [`traffic`] | raw TLPs, below the seam | flows of reads, writes, AtomicOps and messages, each with its Traffic Class |
//! | [`pcie_bench`] | `async fn` | many transfers under way, without an allocation for each |
//! | [`disk`] | `async fn`, over a filter below the endpoint | writes that are answered, as gem5 has them, or posted |
//! | [`dma_engine`] | `async fn`, one for each function | SR-IOV: one engine behind a physical function and its virtual ones |
//! | [`clock`] | `async fn` | the fabric's time in a register, for programs that have no other way to know it |
//! | [`nvme`] | `async fn`, one for each function | queues, PRPs and SGLs, for the stock drivers of operating systems |
//! | [`endpoint_test`] | `async fn` | what the kernel's own `pci_endpoint_test` and `pcitest` test |
//! | [`mmio`] | a driver alone | how long a register read takes |
//! | [`ice_nic`] | `async fn` | control by registers for every frame, or in batches, and what it costs |
//! | [`packet_nic`] | `async fn` | the three NICs of pcie-bench's Figure 1: rings, batches, interrupts |
//! | [`intel_82574`] | `async fn` | a NIC that a stock kernel's driver knows |
//! | [`replay`] | raw TLPs, below the seam | what a capture's devices have asked for, played again |
//!
//! Each module has a [`Model`](plug::Model), the settings by which a lab names the device; a `function` that makes it with its
//! configuration space, and a `driver`, the program of its host. [`models`] is the table of all. What stands behind the
//! seam of `device` knows no host; drivers reach theirs by `host::Cpu`, and what stands below an endpoint hears of its link
//! (`link::Notice`). This crate never knows a fabric.
//!
//! The device of the tutorial is not here: it is `templates/my-device`, which `riser new` writes.

/// The registers of a device on `$bar`, a row each: the constant of its offset, which stands in a module `register`; its bytes; and
/// the name that traces show.
macro_rules! registers {
    ($bar:expr; $($REGISTER:ident $offset:literal $bytes:expr, $name:literal;)*) => {
        /// Offsets of the registers.
        mod register {
            $(pub(super) const $REGISTER: u64 = $offset;)*
        }

        /// The registers by their names.
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

/// The models that ship.
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

/// The registers of a device of this crate.
const fn registers_of(device: u16, registers: &'static [DeviceRegister]) -> FunctionRegisters {
    FunctionRegisters { vendor: VENDOR, device, registers }
}

/// Who a device of this crate says it is. `class`: base class, sub-class and programming interface, 8 bits each
/// (PCI Code and ID Assignment Specification).
const fn identity(device: u16, class: u32) -> Identity {
    Identity { vendor: VENDOR, device, revision: 1, class, subsystem_vendor: VENDOR, subsystem: device }
}
