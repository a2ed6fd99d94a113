// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device that the kernel's driver `pci_endpoint_test` and its tool `pcitest` test: six BARs of memory, interrupts of each kind, and
//! transfers in each direction with checksums. A program of the simulated host runs the same tests. The registers are those of the kernel's
//! documentation, `PCI/endpoint/pci-test-function.rst`.
//!
//! All BARs are memory for free use, except the first bytes of BAR 0, which are registers, little-endian:
//!
//! ```text
//! +00  u32  magic         no function; the driver's test of BAR 0 writes and reads it
//! +04  u32  command       a doorbell, which reads 0 after the command is taken; one of the bits
//!                         0 raise INTx, 1 raise MSI, 2 raise MSI-X, 3 READ, 4 WRITE, 5 COPY
//! +08  u32  status        of the last command: 0 READ succeeded, 1 READ failed, 2, 3 WRITE, 4, 5 COPY; 6 an interrupt was raised;
//!                         7 invalid source addresses, 8 invalid destination addresses. A read deasserts INTx
//! +0c  u64  source        bus address for reads of READ and COPY
//! +14  u64  destination   bus address for writes of WRITE and COPY
//! +1c  u32  size          bytes of a transfer
//! +20  u32  checksum      CRC-32 without the final complement: READ compares it with the data read, WRITE sets it for the data written
//! +24  u32  IRQ type      the kind of interrupt that a command raises: 0 INTx, 1 MSI, 2 MSI-X
//! +28  u32  IRQ number    the vector, counted from 1; unused for INTx
//! +2c  u32  flags         bit 0: use a DMA engine. All transfers here do
//! ```
//!
//! Commands are executed one after another. A command that is written while another runs starts after it, with the
//! register values of that time. A transfer consists of pieces of at most a page, one after another. A read of no bytes
//! follows each written piece, because only this read reveals that a posted write had no target. A command other than
//! one of the six bits, or an invalid IRQ type, has no effect: status stays 0, and no interrupt is raised. For both MSI
//! and MSI-X types, the interrupt uses the one that software has enabled. A vector that does not exist is not raised,
//! and bit 6 stays clear.

mod commands;
mod driver;
mod settings;

pub use commands::Counters;
pub use driver::{EndpointTestReport, driver};
pub use settings::Settings;

use config::{Bar, BuildError, Builder, ConfigSpace, Identity, MsiLayout, MsixLayout, PcieLayout};
use device::AsyncDevice;
use endpoint::FunctionConfig;
use plug::{Fault, Model, Shared};
use tlp::PayloadPool;

/// Vendor ID of a DRA74x of Texas Instruments, the first device in the driver's table.
pub const VENDOR: u16 = 0x104c;
/// Device ID of the DRA74x.
pub const DEVICE: u16 = 0xb500;
/// Offset of the MSI-X table in BAR 0, followed by the Pending Bit Array: on separate pages, which hypervisors do not pass through.
const TABLE: u32 = 0x1000;

registers! { Some(0);
    MAGIC       0x00 4, "magic";
    COMMAND     0x04 4, "command (doorbell)";
    STATUS      0x08 4, "status";
    SOURCE      0x0c 8, "source";
    DESTINATION 0x14 8, "destination";
    SIZE        0x1c 4, "size";
    CHECKSUM    0x20 4, "checksum";
    IRQ_TYPE    0x24 4, "IRQ type";
    IRQ_NUMBER  0x28 4, "IRQ number";
    FLAGS       0x2c 4, "flags";
}

/// Command bits.
mod command {
    pub(super) const RAISE: [u32; 3] = [1 << 0, 1 << 1, 1 << 2];
    pub(super) const READ: u32 = 1 << 3;
    pub(super) const WRITE: u32 = 1 << 4;
    pub(super) const COPY: u32 = 1 << 5;
}

/// Status bits.
mod status {
    pub(super) const READ_SUCCESS: u32 = 1 << 0;
    pub(super) const READ_FAIL: u32 = 1 << 1;
    pub(super) const WRITE_SUCCESS: u32 = 1 << 2;
    pub(super) const WRITE_FAIL: u32 = 1 << 3;
    pub(super) const COPY_SUCCESS: u32 = 1 << 4;
    pub(super) const COPY_FAIL: u32 = 1 << 5;
    pub(super) const IRQ_RAISED: u32 = 1 << 6;
    pub(super) const SOURCE_INVALID: u32 = 1 << 7;
    pub(super) const DESTINATION_INVALID: u32 = 1 << 8;
}

/// Kinds of interrupts.
mod irq {
    pub(super) const INTX: u32 = 0;
    pub(super) const MSI: u32 = 1;
    pub(super) const MSIX: u32 = 2;
}

/// Creates the endpoint and its configuration space for the link `pcie`. Payloads come from `pool`.
///
/// # Errors
/// If a setting is invalid.
pub fn function(
    settings: &Settings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    counters: &Shared<Counters>,
) -> Result<FunctionConfig, Fault> {
    settings.check()?;
    let (made, counters) = (settings.clone(), counters.clone());
    let start = move |io| commands::serve(io, made.clone(), counters.clone());
    Ok(FunctionConfig {
        config: config_space(settings, pcie)?,
        device: Box::new(AsyncDevice::with_pool(pool.clone(), start)),
    })
}

fn config_space(settings: &Settings, pcie: PcieLayout) -> Result<ConfigSpace, BuildError> {
    let identity = Identity {
        vendor: VENDOR,
        device: DEVICE,
        revision: 0,
        class: settings.class,
        subsystem_vendor: VENDOR,
        subsystem: DEVICE,
    };
    let mut builder = Builder::type0(identity);
    for (bar, bytes) in (0..).zip(settings.bar_bytes).filter(|(_, bytes)| *bytes > 0) {
        builder = builder.bar(bar, Bar::memory32(bytes));
    }
    if settings.intx {
        builder = builder.interrupt_pin(1);
    }
    if settings.msi > 0 {
        builder = builder.msi(MsiLayout { vectors: settings.msi });
    }
    if settings.msix > 0 {
        builder = builder.msix(msix(settings.msix));
    }
    builder.pcie(pcie).usual().build()
}

fn msix(vectors: u16) -> MsixLayout {
    let table_bytes = u32::from(vectors) * config::cap::msix::ENTRY_BYTES as u32;
    MsixLayout { vectors, table: (0, TABLE), pending: (0, TABLE + table_bytes.next_multiple_of(8)) }
}
