// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of devices that do one thing when they are told to: parameters, then Control, then Status. Status and all registers
//! behind it are read-only. Never knows what a device does.
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

/// What Control takes.
const START: u32 = 1;
/// Status: it runs.
const RUNNING: u32 = 1;
/// Status: it has ended well.
pub(crate) const DONE: u32 = 2;
/// Status: it has ended otherwise.
pub(crate) const FAILED: u32 = 3;

/// Where the registers are.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// The BAR.
    pub(crate) bar: BarIndex,
    /// Offset of Control: parameters stand before it.
    pub(crate) control: u64,
    /// Offset of Status.
    pub(crate) status: u64,
    /// Bytes of all registers.
    pub(crate) bytes: usize,
    /// Bytes of the BAR.
    pub(crate) bar_bytes: u64,
}

/// Who such a device is.
pub(crate) struct Who {
    /// Device ID.
    pub(crate) device: u16,
    /// As [`identity`] takes it.
    pub(crate) class: u32,
}

/// A function of these registers with one interrupt vector, whose device `start`s as [`Registers::serve`] says. `pcie` says what
/// link it is on.
///
/// # Errors
/// Where its configuration space cannot be.
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

/// The registers, shared by those who answer for them and who work.
#[derive(Clone)]
pub(crate) struct Registers {
    file: Rc<RefCell<RegisterFile>>,
    layout: Layout,
}

impl Registers {
    /// Registers that are all zero.
    pub(crate) fn new(layout: Layout) -> Registers {
        Registers { file: Rc::new(RefCell::new(RegisterFile::new(layout.bytes))), layout }
    }

    /// The 64-bit parameter at `offset`.
    pub(crate) fn u64(&self, offset: u64) -> u64 {
        self.file.borrow().u64(offset)
    }

    /// The register at `offset`.
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

    /// Answers register reads and writes, and calls `start` when the device is to start and does not run; it runs until
    /// somebody sets another Status.
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
                // All else is read-only.
                _ => {}
            }
        }
    }
}

/// A driver's part: starts the device, waits for the interrupt that it raises when it has ended, and reads its Status.
///
/// # Errors
/// A line that says which access failed.
pub(crate) async fn run(
    cpu: &Cpu,
    function: &FoundFunction,
    layout: Layout,
    vector: u16,
) -> Result<u32, DriverError> {
    let said = |e: host::HostError| DriverError::from(e).at(function);
    cpu.write_u32(function.address(layout.bar, layout.control)?, START).await.map_err(said)?;
    cpu.interrupt(function.vector(vector)).await;
    cpu.read_u32(function.address(layout.bar, layout.status)?).await.map_err(said)
}
