// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that increments a counter in host memory by AtomicOps (`PCIe 5.0 §6.15`). Several devices may share the
//! counter. The driver starts the device. The driver of the last device to end checks the counter.
//!
//! Registers, little-endian, in BAR 0:
//!
//! ```text
//! +0   u64  counter   bus address of the counter, a multiple of 16; the lock word is 8 bytes after it
//! +8   u32  control   writing 1 starts
//! +12  u32  status    0 idle, 1 running, 2 done, 3 failed
//! ```
//!
//! At the end, the device raises vector 0. The three [`Method`]s increment by FetchAdd, by CAS, or by a plain read and
//! write under a lock of CAS and Swap. The only connection to other devices is the counter.

use crate::control::{self, Registers, Who};
use crate::{device_id, registers_of};
use capture::DeviceRegister;
use config::PcieLayout;
use device::{BarIndex, DmaError, Io};
use endpoint::FunctionConfig;
use host::DriverError;
use host::cpu::Cpu;
use host::firmware::FoundFunction;
use plug::{Fault, FunctionRegisters, Model, Plugged, Shared, Shown, Site, named, ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tlp::{Duration, PayloadPool, Time};

/// Size of BAR 0 in bytes.
pub const BAR_BYTES: u64 = 128;
/// Other processing accelerator (PCI Code and ID Assignment Specification, §1.19).
const CLASS: u32 = 0x12_0000;
const BAR: BarIndex = BarIndex(0);
const DONE_VECTOR: u16 = 0;
/// Offset of the lock word from the counter.
const LOCK_OFFSET: u64 = 8;

/// Offset of the counter's address.
const COUNTER: u64 = 0;
/// Layout of the registers.
const LAYOUT: control::Layout =
    control::Layout { bar: BAR, control: 8, status: 12, bytes: 16, bar_bytes: BAR_BYTES };

/// Register names.
const REGISTERS: &[DeviceRegister] = &[
    named(Some(BAR.0), COUNTER, 8, "counter"),
    named(Some(BAR.0), LAYOUT.control, 4, "control"),
    named(Some(BAR.0), LAYOUT.status, 4, "status"),
];

/// Ways to increment a shared counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A FetchAdd.
    #[default]
    FetchAdd,
    /// CAS, repeated until no other device has changed the counter in between.
    CompareSwap,
    /// A read and a write under a lock. CAS takes the lock, Swap releases it.
    Lock,
}

/// Increments a counter in host memory by AtomicOps. All `counter` devices of a lab with the same method share one counter.
/// When the last of them has ended, its driver checks that the counter has all increments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Way to increment.
    pub method: Method,
    /// Number of increments.
    pub increments: u64,
    /// Number of increments in flight; one with `lock`.
    #[schemars(range(min = 1, max = 256))]
    pub outstanding: u16,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { method: Method::default(), increments: 1000, outstanding: 4 }
    }
}

impl Model for Settings {
    const NAME: &'static str = "counter";
    const REGISTERS: &'static [FunctionRegisters] = &[registers_of(device_id::COUNTER, REGISTERS)];

    fn plug(&self, site: &mut Site<'_>) -> Result<Plugged, Fault> {
        let report = Shared::default();
        let function = function(*self, site.pcie, site.payloads, &report)?;
        let target =
            site.context.get_or_default::<BTreeMap<Method, Target>>().entry(self.method).or_default().clone();
        target.join(self);
        let told = report.clone();
        let plugged =
            Plugged::new(function, move |cpu, found| driver(cpu, found, target.clone(), told.clone()));
        Ok(plugged.reporting(&report))
    }
}

/// Counters of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterReport {
    /// Finished increments.
    pub increments: u64,
    /// CAS operations that found another value than expected.
    pub retries: u64,
    /// Value of the counter after all devices have ended; set by the driver of the last one.
    pub counter: Option<u64>,
    started: Option<Time>,
    ended: Option<Time>,
}

impl CounterReport {
    /// Returns the time from the start to the end of the last increment, or to `now` if more are to come.
    pub fn elapsed(&self, now: Time) -> Duration {
        self.started.map_or(Duration::ZERO, |start| self.ended.unwrap_or(now).since(start))
    }
}

impl plug::Report for CounterReport {
    fn shown(&self, now: Time) -> Shown {
        let shown = Shown::new()
            .with("increments", self.increments)
            .with("retries", self.retries)
            .with("elapsed_ns", ns(self.elapsed(now)));
        match self.counter {
            Some(counter) => shown.with("counter", counter),
            None => shown,
        }
    }
}

/// A shared counter: its address, and its expected value at the end.
#[derive(Clone, Default)]
pub struct Target {
    inner: Rc<TargetState>,
}

#[derive(Default)]
struct TargetState {
    address: Cell<Option<u64>>,
    expected: Cell<u64>,
    running: Cell<u32>,
}

impl Target {
    /// Adds a device with these settings.
    pub fn join(&self, settings: &Settings) {
        let state = &self.inner;
        state.expected.set(state.expected.get().wrapping_add(settings.increments));
        state.running.set(state.running.get() + 1);
    }

    /// Returns the counter's address; the first call allocates it.
    fn address(&self, cpu: &Cpu) -> Result<u64, DriverError> {
        if let Some(address) = self.inner.address.get() {
            return Ok(address);
        }
        let address = cpu.memory().alloc(64, 64).map_err(|e| DriverError::from(e).at("counter"))?;
        self.inner.address.set(Some(address));
        Ok(address)
    }

    /// Removes a device that has ended; returns true if it was the last.
    fn leave(&self) -> bool {
        let left = self.inner.running.get().saturating_sub(1);
        self.inner.running.set(left);
        left == 0
    }
}

/// Creates the device and its configuration space for the link `pcie`.
///
/// # Errors
/// If a setting is invalid.
pub fn function(
    settings: Settings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    report: &Shared<CounterReport>,
) -> Result<FunctionConfig, Fault> {
    settings.check()?;
    let (who, report) = (Who { device: device_id::COUNTER, class: CLASS }, report.clone());
    let start = move |io: &Io, registers: &Registers| {
        io.spawn(run(io.clone(), settings, report.clone(), registers.clone()));
    };
    Ok(control::function(who, LAYOUT, pcie, pool, start)?)
}

async fn run(
    io: Io,
    settings: Settings,
    report: Shared<CounterReport>,
    registers: Registers,
) -> Result<(), DmaError> {
    let address = registers.u64(COUNTER);
    report.change(|r| *r = CounterReport { started: Some(io.now()), ..CounterReport::default() });
    let left = Rc::new(Cell::new(settings.increments));
    let workers = if settings.method == Method::Lock { 1 } else { settings.outstanding };
    let work = |_| io.spawn(work(io.clone(), settings.method, address, left.clone(), report.clone()));
    let workers: Vec<_> = (0..workers).map(work).collect();
    let mut failed = false;
    for worker in workers {
        // A worker that could not start, because too many tasks run, leaves its work to the others.
        failed |= worker.await.is_ok_and(|result| result.is_err());
    }
    report.change(|r| r.ended = Some(io.now()));
    registers.set_status(if failed || left.get() > 0 { control::FAILED } else { control::DONE });
    io.interrupt(DONE_VECTOR).await
}

/// A worker: performs increments until none are left.
async fn work(
    io: Io,
    method: Method,
    address: u64,
    left: Rc<Cell<u64>>,
    report: Shared<CounterReport>,
) -> Result<(), DmaError> {
    while left.get() > 0 {
        left.set(left.get() - 1);
        let retries = match method {
            Method::FetchAdd => io.fetch_add(address, 1u64).await.map(|_| 0)?,
            Method::CompareSwap => compare_swap(&io, address).await?,
            Method::Lock => lock(&io, address).await?,
        };
        report.change(|r| (r.increments, r.retries) = (r.increments + 1, r.retries + retries));
    }
    Ok(())
}

/// Increments by CAS. Each CAS expects the value that the previous one found. Returns the number of failed CAS operations.
async fn compare_swap(io: &Io, address: u64) -> Result<u64, DmaError> {
    let (mut expected, mut retries) = (0u64, 0);
    loop {
        let found = io.compare_swap(address, expected, expected.wrapping_add(1)).await?;
        if found == expected {
            return Ok(retries);
        }
        (expected, retries) = (found, retries + 1);
    }
}

/// Increments by a read and a write under the lock. The Swap that releases the lock cannot pass the write (`PCIe 5.0
/// §2.4.1`, entry B2a). Returns how often another device held the lock.
async fn lock(io: &Io, address: u64) -> Result<u64, DmaError> {
    let mut retries = 0;
    while io.compare_swap(address + LOCK_OFFSET, 0u32, 1).await? != 0 {
        retries += 1;
    }
    let bytes = io.dma_read(address, 8).await?;
    let value = bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    io.dma_write(address, value.wrapping_add(1)).await?;
    io.swap(address + LOCK_OFFSET, 0u32).await?;
    Ok(retries)
}

/// Enables AtomicOps, starts the device and waits for its end. The driver of the last device on `target` checks that the
/// counter has all increments.
///
/// # Errors
/// The operation that failed, or the wrong value of the counter.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    target: Target,
    report: Shared<CounterReport>,
) -> Result<(), DriverError> {
    let at_function = |e: host::HostError| DriverError::from(e).at(function);
    let address = target.address(&cpu)?;
    function.enable_atomics(&cpu).await?;
    cpu.write_u64(function.address(BAR, COUNTER)?, address).await.map_err(at_function)?;
    let status = control::run(&cpu, &function, LAYOUT, DONE_VECTOR).await?;
    if status != control::DONE {
        return Err(format!("{function}: an increment failed (status {status})").into());
    }
    if !target.leave() {
        return Ok(());
    }
    let counter = cpu.memory().read_u64(address)?;
    report.change(|r| r.counter = Some(counter));
    match target.inner.expected.get() {
        expected if expected == counter => Ok(()),
        expected => Err(format!("the counter is {counter}, expected {expected} increments").into()),
    }
}
