// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs any model of a lab as device software.

use super::software::{Count, DeviceSoftware, MAX_TURN, SoftwareError, read_counts};
use super::target::Attachment;
use crate::carrier::Wait;
use crate::device_host::{DeviceHost, DeviceHostError, HostedSettings};
use crate::net::{AnyCarrier, Clock};
use config::PcieLayout;
use host::memory::{HostMemory, MemoryError};
use plug::file::Folder;
use plug::plugged::{AnyReport, FunctionEnd};
use plug::site::NativeCode;
use plug::{End, Plan, RunContext, Shown, Site};
use thiserror::Error;
use tlp::rules::Refusal;
use tlp::{Bdf, Mps, Mrrs, PayloadPool, TcSet, Time};

/// Settings of a model as device software.
#[derive(Clone, Debug)]
pub struct ModelSettings {
    /// The BAR that the adapter's BAR4 shows, or `None` for the first memory BAR.
    pub bar: Option<u8>,
    /// Max_Payload_Size of the adapter's path.
    pub mps: Mps,
    /// The folder with the files that the model's settings name.
    pub folder: Folder,
    /// Seed of all random choices.
    pub seed: u64,
    /// Permission to run native code.
    pub native: NativeCode,
}

/// Reason why a model cannot be device software.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FunctionError {
    /// The model cannot be plugged in.
    #[error("{0}")]
    Plug(String),
    /// There is no memory for its host.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The model has no endpoint.
    #[error("it has no endpoint, so no adapter can present it; expected a model with an endpoint")]
    NoFunction,
    /// The model has no memory BAR.
    #[error("it has no memory BAR for an adapter to present")]
    NoBar,
}

/// The function of a model with its virtual functions, before it is attached to an adapter.
pub struct ModelFunction {
    end: FunctionEnd,
    /// Number of its virtual functions.
    pub virtual_functions: u16,
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
    pub fn new(plan: &Plan, settings: &ModelSettings) -> Result<ModelFunction, FunctionError> {
        let (limits, pool) = (HostedSettings::new(0).limits, PayloadPool::new());
        // This memory is not used, because the device reaches the memory of the adapter's host.
        let memory = HostMemory::new(2 << 30, 64 << 30)?;
        let plugged = plan.plug(&mut Site {
            pcie: PcieLayout::default(),
            mps: settings.mps,
            mrrs: Mrrs::default(),
            tcs: TcSet::ALL,
            tags: limits.max_outstanding_reads,
            lenient_completions: limits.lenient_completions,
            id: Bdf::default(),
            done_vector: 0,
            digests: false,
            completion_timeout: limits.completion_timeout,
            payloads: &pool,
            memory: &memory,
            folder: &settings.folder,
            seed: settings.seed,
            native: settings.native,
            context: &mut RunContext::default(),
        });
        let plugged = plugged.map_err(|fault| FunctionError::Plug(fault.to_string()))?;
        let End::Function(end) = plugged.end else { return Err(FunctionError::NoFunction) };
        let virtual_functions =
            if end.virtual_functions.is_some() { plan.needs().virtual_functions } else { 0 };
        let bar = settings.bar.or_else(|| end.memory_bar()).ok_or(FunctionError::NoBar)?;
        let report = plugged.report;
        Ok(ModelFunction { end: *end, virtual_functions, bar, report, pool, mps: settings.mps })
    }
}

/// A model as device software.
pub struct ModelDevice {
    host: DeviceHost<AnyCarrier>,
    report: Option<Box<dyn AnyReport>>,
}

impl ModelDevice {
    /// Attaches a function to an adapter.
    ///
    /// # Errors
    /// As [`DeviceHost::new`] and [`DeviceHost::with_virtual_functions`].
    pub fn new(function: ModelFunction, attachment: Attachment) -> Result<ModelDevice, DeviceHostError> {
        let ModelFunction { end, bar, report, pool, mps, .. } = function;
        let Attachment { carrier, place, virtual_places, rest } = attachment;
        let settings = HostedSettings { mps, rest, ..HostedSettings::new(bar) };
        let host = DeviceHost::new(carrier, end.function, &place, settings, &pool)?;
        let host = match end.virtual_functions {
            Some(functions) => host.with_virtual_functions(functions, &virtual_places)?,
            None => host,
        };
        Ok(ModelDevice { host, report })
    }

    /// Returns the counters of TLPs and interrupts, and of reads unless they travel in a session.
    pub fn counters(&self) -> Vec<Count> {
        let (tlps, (interrupts, lost_interrupts)) = (self.host.counters(), self.host.interrupts());
        let counts = [
            ("received_tlps", tlps.received),
            ("sent_tlps", tlps.sent),
            ("malformed", tlps.malformed),
            ("unexpected_completions", tlps.unexpected),
            ("not_carried", tlps.not_carried),
            ("interrupts", interrupts),
            ("lost_interrupts", lost_interrupts),
        ];
        counts.into_iter().chain(self.host.read_counters().into_iter().flat_map(read_counts)).collect()
    }

    /// Returns the values that the model shows about itself at `now`.
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

    fn refusals(&self) -> Vec<Refusal> {
        self.host.refusals()
    }

    fn turn(&mut self, clock: Clock) -> Result<(), SoftwareError> {
        let due = self.host.poll_timeout().map_or(MAX_TURN, |at| at.since(clock.now()).min(MAX_TURN));
        let received = self.host.receive(Wait::AtMost(due));
        // The device continues even if the receive call failed.
        self.host.advance(clock.now())?;
        match self.failure() {
            Some(why) => Err(SoftwareError::Device(why)),
            None => Ok(received.map(drop)?),
        }
    }
}
