// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A device that increments a counter in host memory, which it may share with others, by AtomicOps (`PCIe 5.0 §6.15`);
//! and the driver that starts it and, once all have ended, checks the counter.
//!
//! Registers, little-endian, on BAR 0:
//!
//! ```text
//! +0   u64  counter   bus address of the counter, a multiple of 16; the lock word lies 8 bytes behind it
//! +8   u32  control   writing 1 starts
//! +12  u32  status    0 idle, 1 running, 2 done, 3 failed
//! ```
//!
//! When it has ended, it raises vector 0. The three [`Method`]s do the same with FetchAdd, with CAS, and with CAS and
//! Swap as a lock around a plain read and write. The device never looks at what others do but through the counter.

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

/// Bytes of BAR 0.
pub const BAR_BYTES: u64 = 128;
/// Other processing accelerator (PCI Code and ID Assignment Specification, §1.19).
const CLASS: u32 = 0x12_0000;
const BAR: BarIndex = BarIndex(0);
const DONE_VECTOR: u16 = 0;
/// From the counter to its lock word.
const LOCK_OFFSET: u64 = 8;

/// Offset of the counter's address.
const COUNTER: u64 = 0;
/// Where the registers are.
const LAYOUT: control::Layout =
    control::Layout { bar: BAR, control: 8, status: 12, bytes: 16, bar_bytes: BAR_BYTES };

/// The registers by their names.
const REGISTERS: &[DeviceRegister] = &[
    named(Some(BAR.0), COUNTER, 8, "counter"),
    named(Some(BAR.0), LAYOUT.control, 4, "control"),
    named(Some(BAR.0), LAYOUT.status, 4, "status"),
];

/// Ways to increment a counter that is shared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A FetchAdd.
    #[default]
    FetchAdd,
    /// A CAS, again and again until nobody came between.
    CompareSwap,
    /// A read and a write behind a lock that is taken by CAS and released by Swap.
    Lock,
}

/// Increments a counter in host memory by AtomicOps. All `counter` devices of a lab with the same method share one; when
/// the last of them has ended, its driver checks that the counter holds every increment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How it increments.
    pub method: Method,
    /// How often.
    pub increments: u64,
    /// Increments under way at once; with `lock` there is one.
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

/// What a device has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Increments that have ended.
    pub increments: u64,
    /// CAS that found another value than they expected.
    pub retries: u64,
    /// What the counter held when all devices had ended; the driver of the last one writes it.
    pub counter: Option<u64>,
    started: Option<Time>,
    ended: Option<Time>,
}

impl Report {
    /// From the start to the end of the last increment, or to `now` where there are more to come.
    pub fn elapsed(&self, now: Time) -> Duration {
        self.started.map_or(Duration::ZERO, |start| self.ended.unwrap_or(now).since(start))
    }
}

impl plug::Report for Report {
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

/// A counter that devices share: which address it has, and how many increments it is to hold in the end.
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
    /// Adds a device with these settings to those that increment it.
    pub fn join(&self, settings: &Settings) {
        let state = &self.inner;
        state.expected.set(state.expected.get().wrapping_add(settings.increments));
        state.running.set(state.running.get() + 1);
    }

    /// Its address; the first who asks allocates it.
    fn address(&self, cpu: &Cpu) -> Result<u64, DriverError> {
        if let Some(address) = self.inner.address.get() {
            return Ok(address);
        }
        let address = cpu.memory().alloc(64, 64).map_err(|e| DriverError::from(e).at("counter"))?;
        self.inner.address.set(Some(address));
        Ok(address)
    }

    /// Removes a device that has ended; true if it was the last.
    fn leave(&self) -> bool {
        let left = self.inner.running.get().saturating_sub(1);
        self.inner.running.set(left);
        left == 0
    }
}

/// The device and its configuration space; `pcie` says what link it is on.
///
/// # Errors
/// Where a setting is not legal.
pub fn function(
    settings: Settings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    report: &Shared<Report>,
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
    report: Shared<Report>,
    registers: Registers,
) -> Result<(), DmaError> {
    let address = registers.u64(COUNTER);
    report.change(|r| *r = Report { started: Some(io.now()), ..Report::default() });
    let left = Rc::new(Cell::new(settings.increments));
    let workers = if settings.method == Method::Lock { 1 } else { settings.outstanding };
    let work = |_| io.spawn(work(io.clone(), settings.method, address, left.clone(), report.clone()));
    let workers: Vec<_> = (0..workers).map(work).collect();
    let mut failed = false;
    for worker in workers {
        // A worker that is refused for want of tasks leaves its work to the others.
        failed |= worker.await.is_ok_and(|result| result.is_err());
    }
    report.change(|r| r.ended = Some(io.now()));
    registers.set_status(if failed || left.get() > 0 { control::FAILED } else { control::DONE });
    io.interrupt(DONE_VECTOR).await
}

/// A worker: increment after increment, until there are none left.
async fn work(
    io: Io,
    method: Method,
    address: u64,
    left: Rc<Cell<u64>>,
    report: Shared<Report>,
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

/// Increments by CAS; each CAS expects the value that the one before has found. Returns how many found another value.
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

/// Increments by a read and a write behind the lock. The Swap that releases the lock stays behind the write (`PCIe 5.0 §2.4.1`,
/// entry B2a). Returns how often the lock was taken.
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

/// Lets the device send AtomicOps, starts it and waits for its end. The driver of the last device that works on `target`
/// checks that the counter holds every increment.
///
/// # Errors
/// A line that says what failed, or what the counter holds instead.
pub async fn driver(
    cpu: Cpu,
    function: FoundFunction,
    target: Target,
    report: Shared<Report>,
) -> Result<(), DriverError> {
    let said = |e: host::HostError| DriverError::from(e).at(function);
    let address = target.address(&cpu)?;
    function.enable_atomics(&cpu).await?;
    cpu.write_u64(function.address(BAR, COUNTER)?, address).await.map_err(said)?;
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
        expected => Err(format!("the counter holds {counter} after {expected} increments").into()),
    }
}
