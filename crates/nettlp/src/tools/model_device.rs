// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any model of a lab as device software. Knows no model by name.

use super::software::{DeviceSoftware, MAX_TURN, SoftwareError};
use super::target::Attachment;
use crate::carrier::Wait;
use crate::device_host::{DeviceHost, DeviceHostError, Settings};
use crate::net::{AnyCarrier, Clock};
use config::PcieLayout;
use host::memory::{HostMemory, MemoryError};
use plug::file::Folder;
use plug::plugged::{AnyReport, FunctionEnd};
use plug::site::NativeCode;
use plug::{End, Plan, RunContext, Shown, Site};
use thiserror::Error;
use tlp::{Bdf, Mps, Mrrs, PayloadPool, TcSet, Time};

/// Settings of a model as device software.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// The BAR that the adapter's BAR4 shows, or `None` for the first memory BAR.
    pub bar: Option<u8>,
    /// Max_Payload_Size of the adapter's path.
    pub mps: Mps,
    /// The folder of files that the model's settings name.
    pub folder: Folder,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether native code may run.
    pub native: NativeCode,
}

/// The reason why a model cannot be device software.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FunctionError {
    /// The model cannot be plugged in.
    #[error("{0}")]
    Plug(String),
    /// The model has no endpoint.
    #[error("it is no device behind an endpoint, and no adapter can show it; legal are those that are")]
    NoFunction,
    /// The model has virtual functions.
    #[error(
        "an adapter shows one function, and this has virtual ones; legal is none, such as by --set vfs=0"
    )]
    VirtualFunctions,
    /// The model has no memory BAR.
    #[error("it has no BAR of memory that an adapter could show")]
    NoBar,
}

/// What a slot of a lab has around a device. The memory stays unused: that of the adapter's host is reached instead.
pub struct Surroundings {
    pool: PayloadPool,
    memory: HostMemory,
}

impl Surroundings {
    /// Creates an empty pool, and memory of 2 GiB below 4 GiB and 62 GiB above.
    ///
    /// # Errors
    /// As [`HostMemory::new`].
    pub fn new() -> Result<Surroundings, MemoryError> {
        Ok(Surroundings { pool: PayloadPool::new(), memory: HostMemory::new(2 << 30, 64 << 30)? })
    }
}

/// The function of a model, before it is attached to an adapter.
pub struct ModelFunction {
    end: FunctionEnd,
    /// The BAR that the adapter's BAR4 shows.
    pub bar: u8,
    report: Option<Box<dyn AnyReport>>,
    pool: PayloadPool,
    mps: Mps,
}

impl ModelFunction {
    /// Plugs a model in as the only function of its slot.
    ///
    /// # Errors
    /// The model cannot be plugged in, or an adapter cannot show its function.
    pub fn new(
        plan: &Plan,
        settings: &ModelSettings,
        around: &Surroundings,
    ) -> Result<ModelFunction, FunctionError> {
        let limits = Settings::new(0).limits;
        let plugged = plan.plug(&mut Site {
            pcie: PcieLayout::default(),
            mps: settings.mps,
            mrrs: Mrrs::default(),
            tcs: TcSet::ALL,
            tags: limits.max_outstanding_reads,
            lenient_completions: limits.lenient_completions,
            id: Bdf::default(),
            done_vector: 0,
            completion_timeout: limits.completion_timeout,
            payloads: &around.pool,
            memory: &around.memory,
            folder: &settings.folder,
            seed: settings.seed,
            native: settings.native,
            context: &mut RunContext::default(),
        });
        let plugged = plugged.map_err(|fault| FunctionError::Plug(fault.to_string()))?;
        let End::Function(end) = plugged.end else { return Err(FunctionError::NoFunction) };
        if end.virtual_functions.is_some() {
            return Err(FunctionError::VirtualFunctions);
        }
        let bar = settings.bar.or_else(|| end.memory_bar()).ok_or(FunctionError::NoBar)?;
        let (report, pool, mps) = (plugged.report, around.pool.clone(), settings.mps);
        Ok(ModelFunction { end: *end, bar, report, pool, mps })
    }
}

/// A model as device software.
pub struct ModelDevice {
    host: DeviceHost<AnyCarrier>,
    report: Option<Box<dyn AnyReport>>,
}

/// Counters of a model as device software.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct ModelCounters {
    /// TLPs received.
    pub received_tlps: u64,
    /// TLPs sent.
    pub sent_tlps: u64,
    /// Malformed TLPs received.
    pub malformed: u64,
    /// Completions without a request.
    pub unexpected_completions: u64,
    /// TLPs that the carrier cannot carry.
    pub not_carried: u64,
    /// Interrupts sent.
    pub interrupts: u64,
    /// Interrupts of vectors that the host has not set up.
    pub lost_interrupts: u64,
    /// Reads sent again. `None` in a session, as the two below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_asked_again: Option<u64>,
    /// Reads that timed out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_timed_out: Option<u64>,
    /// Completions that came late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_completions: Option<u64>,
}

impl ModelDevice {
    /// Attaches a function to an adapter.
    ///
    /// # Errors
    /// As [`DeviceHost::new`].
    pub fn new(function: ModelFunction, attachment: Attachment) -> Result<ModelDevice, DeviceHostError> {
        let ModelFunction { end, bar, report, pool, mps } = function;
        let Attachment { carrier, place, rest } = attachment;
        let settings = Settings { mps, rest, ..Settings::new(bar) };
        Ok(ModelDevice { host: DeviceHost::new(carrier, end.function, &place, settings, &pool)?, report })
    }

    /// Returns the counters.
    pub fn counters(&self) -> ModelCounters {
        let (tlps, (interrupts, lost_interrupts)) = (self.host.counters(), self.host.vectors().counts());
        let reads = self.host.read_counters();
        ModelCounters {
            received_tlps: tlps.received,
            sent_tlps: tlps.sent,
            malformed: tlps.malformed,
            unexpected_completions: tlps.unexpected,
            not_carried: tlps.not_carried,
            interrupts,
            lost_interrupts,
            reads_asked_again: reads.map(|reads| reads.retried),
            reads_timed_out: reads.map(|reads| reads.timed_out),
            late_completions: reads.map(|reads| reads.late),
        }
    }

    /// Returns what the model reports of itself at `now`.
    pub fn shown(&self, now: Time) -> Shown {
        self.report.as_ref().map(|report| report.shown(now)).unwrap_or_default()
    }

    fn failure(&self) -> Option<String> {
        self.report.as_ref()?.failure()
    }
}

impl DeviceSoftware for ModelDevice {
    fn carrier(&self) -> &AnyCarrier {
        self.host.carrier()
    }

    fn turn(&mut self, clock: Clock) -> Result<(), SoftwareError> {
        let due = self.host.poll_timeout().map_or(MAX_TURN, |at| at.since(clock.now()).min(MAX_TURN));
        let received = self.host.receive(Wait::AtMost(due));
        // The device continues even if nothing could be received.
        self.host.advance(clock.now())?;
        match self.failure() {
            Some(why) => Err(SoftwareError::Device(why)),
            None => Ok(received.map(drop)?),
        }
    }
}
