// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers of devices that perform one operation on command: parameters, then Control, then Status. Status and all
//! registers after it are read-only. This module does not depend on the operation.
//!
//! | register | value |
//! |---|---|
//! | Control | [`START`] starts the device, unless it runs |
//! | Status | 0 before the first start, [`RUNNING`], [`DONE`], [`FAILED`] |

use crate::identity;
use config::{Bar, BuildError, Builder, MsiLayout, PcieLayout};
use device::io::{RegisterFile, Request};
use device::{AsyncDevice, BarIndex, Io};
use endpoint::FunctionConfig;
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use std::cell::RefCell;
use std::rc::Rc;
use tlp::PayloadPool;

/// Value of Control that starts the device.
const START: u32 = 1;
/// Status: running.
const RUNNING: u32 = 1;
/// Status: ended with success.
pub(crate) const DONE: u32 = 2;
/// Status: ended with failure.
pub(crate) const FAILED: u32 = 3;

/// Layout of the registers.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// The BAR.
    pub(crate) bar: BarIndex,
    /// Offset of Control. Parameters precede this offset.
    pub(crate) control: u64,
    /// Offset of Status.
    pub(crate) status: u64,
    /// Size of all registers in bytes.
    pub(crate) bytes: usize,
    /// Size of the BAR in bytes.
    pub(crate) bar_bytes: u64,
}

/// Identity of such a device.
pub(crate) struct Who {
    /// Device ID.
    pub(crate) device: u16,
    /// Class code, as for [`identity`].
    pub(crate) class: u32,
}

/// Creates a function with these registers and one interrupt vector, for the link `pcie`. [`Registers::serve`] calls `start`.
///
/// # Errors
/// If the configuration space cannot be built.
pub(crate) fn function(
    who: Who,
    layout: Layout,
    pcie: PcieLayout,
    pool: &PayloadPool,
    start: impl Fn(&Io, &Registers) + Clone + 'static,
) -> Result<FunctionConfig, BuildError> {
    let config = Builder::type0(identity(who.device, who.class))
        .bar(layout.bar, Bar::memory32(layout.bar_bytes))
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie)
        .usual()
        .build()?;
    let serve = move |io| Registers::new(layout).serve(io, start.clone());
    Ok(FunctionConfig { config, device: Box::new(AsyncDevice::with_pool(pool.clone(), serve)) })
}

/// The registers, shared by the task that serves them and the task that works.
#[derive(Clone)]
pub(crate) struct Registers {
    file: Rc<RefCell<RegisterFile>>,
    layout: Layout,
}

impl Registers {
    /// Creates registers that are all zero.
    pub(crate) fn new(layout: Layout) -> Registers {
        Registers { file: Rc::new(RefCell::new(RegisterFile::new(layout.bytes))), layout }
    }

    /// Returns the 64-bit parameter at `offset`.
    pub(crate) fn u64(&self, offset: u64) -> u64 {
        self.file.borrow().u64(offset)
    }

    /// Returns the register at `offset`.
    pub(crate) fn u32(&self, offset: u64) -> u32 {
        self.file.borrow().u32(offset)
    }

    /// Sets the register at `offset`.
    pub(crate) fn set_u32(&self, offset: u64, value: u32) {
        self.file.borrow_mut().set_u32(offset, value);
    }

    /// Sets Status.
    pub(crate) fn set_status(&self, status: u32) {
        self.set_u32(self.layout.status, status);
    }

    /// Answers register reads and writes. Calls `start` if Control is written while the device does not run. The device
    /// runs until Status is set to another value.
    pub(crate) async fn serve(self, io: Io, start: impl Fn(&Io, &Registers)) {
        let Layout { bar, control, status, .. } = self.layout;
        while let Some(request) = io.next_request().await {
            match request {
                Request::Read(read) => {
                    let file = self.file.borrow();
                    let answer = file.read(&read);
                    read.complete(answer);
                }
                Request::Write(write) if write.offset() + write.len() as u64 <= control => {
                    self.file.borrow_mut().write(&write);
                }
                Request::Write(write)
                    if write.at(bar, control) && write.u32() == START && self.u32(status) != RUNNING =>
                {
                    self.set_status(RUNNING);
                    start(&io, &self);
                }
                // All other registers are read-only.
                _ => {}
            }
        }
    }
}

/// The driver's side: starts the device, waits for the interrupt at its end, and reads its Status.
///
/// # Errors
/// The access that failed.
pub(crate) async fn run(
    cpu: &Cpu,
    function: &FoundFunction,
    layout: Layout,
    vector: u16,
) -> Result<u32, DriverError> {
    let at_function = |e: host::HostError| DriverError::from(e).at(function);
    cpu.write_u32(function.address(layout.bar, layout.control)?, START).await.map_err(at_function)?;
    cpu.interrupt(function.vector(vector)).await;
    cpu.read_u32(function.address(layout.bar, layout.status)?).await.map_err(at_function)
}
