// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers that a model offers to be measured, after pcie-bench (SIGCOMM'18, §4): what it is asked for, what it will do, and
//! what came of it. Never measures anything itself.

use crate::model::{Fault, Model, Plan};
use crate::profile::Basis;
use crate::report::{Report, Shown, gbps, ns};
use crate::values::MemoryKind;
use device::DmaError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tlp::{Duration, Mps, Time};

/// A test of pcie-bench (SIGCOMM'18, §4.1 and §4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
pub enum Test {
    /// Latency of a DMA read.
    #[serde(rename = "LAT_RD")]
    LatRd,
    /// Latency of a DMA write and a read of the same address behind it.
    #[serde(rename = "LAT_WRRD")]
    LatWrRd,
    /// Bandwidth of DMA reads.
    #[serde(rename = "BW_RD")]
    BwRd,
    /// Bandwidth of DMA writes.
    #[serde(rename = "BW_WR")]
    BwWr,
    /// Bandwidth of DMA reads and writes in turn.
    #[serde(rename = "BW_RDWR")]
    BwRdWr,
}

impl Test {
    /// Every test, in the paper's order.
    pub const ALL: [Test; 5] = [Test::LatRd, Test::LatWrRd, Test::BwRd, Test::BwWr, Test::BwRdWr];

    /// The paper's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Test::LatRd => "LAT_RD",
            Test::LatWrRd => "LAT_WRRD",
            Test::BwRd => "BW_RD",
            Test::BwWr => "BW_WR",
            Test::BwRdWr => "BW_RDWR",
        }
    }

    /// True for a latency test: one transfer under way at a time, each one timed.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        matches!(self, Test::LatRd | Test::LatWrRd)
    }
}

/// The order in which the units of the window are used (SIGCOMM'18, §4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// One behind the other, around the window.
    Sequential,
    /// Drawn with replacement.
    Random,
}

/// What the host's caches hold when the test starts (SIGCOMM'18, §4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// Nothing of the window: the host has written over much else.
    Cold,
    /// The window, as far as it fits: the host has written it.
    HostWarm,
    /// The window, as far as writes of devices may go into the cache: the device has written it twice.
    DeviceWarm,
    /// What the device has written at random in 64 MiB, of which the window is the first part.
    DeviceThrash,
}

impl CacheState {
    /// Its name in lab files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CacheState::Cold => "cold",
            CacheState::HostWarm => "host-warm",
            CacheState::DeviceWarm => "device-warm",
            CacheState::DeviceThrash => "device-thrash",
        }
    }
}

/// What a model is asked to do. What is `None` is left to the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The test: one of [`Model::TESTS`].
    pub test: Test,
    /// Bytes of a transfer.
    pub size_bytes: u32,
    /// Transfers that count.
    pub transfers: u64,
    /// Transfers before them that do not.
    pub warm_up: u64,
    /// Transfers under way at most, in bandwidth tests.
    pub outstanding: Option<u16>,
    /// What the device costs: a profile by its name or path.
    pub profile: Option<String>,
    /// Bytes of the window of host memory that the transfers go to.
    pub window_bytes: Option<u64>,
    /// Offset of each transfer from a cache line.
    pub host_offset_bytes: Option<u32>,
    /// The order of the units.
    pub pattern: Option<Pattern>,
    /// State of the host's caches at the start. It must be [`Offer::cache`] of the model's offer.
    pub cache: Option<CacheState>,
    /// Where the window lies.
    pub memory: Option<MemoryKind>,
}

impl Workload {
    /// A few transfers of `size_bytes`, with the model's own choice of the rest.
    pub const fn new(test: Test, size_bytes: u32) -> Workload {
        Workload {
            test,
            size_bytes,
            transfers: 1,
            warm_up: 0,
            outstanding: None,
            profile: None,
            window_bytes: None,
            host_offset_bytes: None,
            pattern: None,
            cache: None,
            memory: None,
        }
    }

    /// Transfers, those of the warm-up among them.
    pub const fn transfers_in_all(&self) -> u64 {
        self.transfers.saturating_add(self.warm_up)
    }

    /// `has`, for what a model does in one way alone.
    ///
    /// # Errors
    /// Where something else is asked for: what is legal.
    pub fn only<T: Serialize + PartialEq>(key: &str, asked: Option<&T>, has: T) -> Result<T, Fault> {
        let text = |value: &T| serde_json::to_value(value).unwrap_or_default().to_string().replace('"', "");
        match asked {
            Some(asked) if *asked != has => {
                Err(Fault::at(key, format!("{key} of {}: legal is {}", text(asked), text(&has))))
            }
            _ => Ok(has),
        }
    }
}

/// The TLPs of a write of so many bytes to an address, where the path has this Max_Payload_Size: address and bytes of each.
pub type CutWrites = Box<dyn Fn(u64, u32, Mps) -> Vec<(u64, u32)>>;

/// A model that is set to a [`Workload`], and what it does of its own choice.
pub struct Offer {
    /// The model with its settings.
    pub plan: Plan,
    /// What results call the device: its profile, or the model.
    pub device: String,
    /// Transfers under way in bandwidth tests.
    pub outstanding: u16,
    /// Bytes of host memory that the transfers go to.
    pub window_bytes: u64,
    /// Offset of each transfer from a cache line.
    pub host_offset_bytes: u32,
    /// The order of the units.
    pub pattern: Pattern,
    /// Where the window lies.
    pub memory: MemoryKind,
    /// What its driver has the host's caches hold at the start.
    pub cache: CacheState,
    /// How the figures of its profile are known that the workload rests on, if it has a profile.
    pub basis: Option<Basis>,
    /// How its writes are cut, where not by Max_Payload_Size and 4 KiB alone.
    pub cut_writes: Option<CutWrites>,
}

impl Offer {
    /// `settings` with one transfer under way at a time, one behind the other from the begin of a window of `window_bytes` on,
    /// which no cache holds.
    pub fn new<M: Model>(settings: M, window_bytes: u64, memory: MemoryKind) -> Offer {
        Offer {
            plan: Plan::new(settings),
            device: M::NAME.to_owned(),
            outstanding: 1,
            window_bytes,
            host_offset_bytes: 0,
            pattern: Pattern::Sequential,
            memory,
            cache: CacheState::Cold,
            basis: None,
            cut_writes: None,
        }
    }
}

/// How far a measurement has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// Not started.
    #[default]
    Idle,
    /// Transfers run that do not count.
    WarmUp,
    /// Transfers run that count.
    Measuring,
    /// The last one that counts has ended, or one has failed.
    Done,
}

/// What was measured: filled by the device, read by whoever runs it. All but `failure` is about the transfers that count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// How far it has come.
    pub phase: Phase,
    /// Transfers that have ended; a write and the read behind it of [`Test::LatWrRd`] are one.
    pub transfers: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// When the last transfer before them ended; when the device was started where there was none.
    pub measure_start: Time,
    /// When the last of them ended.
    pub measure_end: Time,
    /// Latency of each in picoseconds, in the order of their ends; of latency tests only. What the device's clock says.
    pub latencies_ps: Vec<u64>,
    /// Why it was given up, if it was.
    pub failure: Option<DmaError>,
    /// Transfers that have ended, those of the warm-up and at the end among them.
    pub ended: u64,
    /// Transfers that do not count, before those that do.
    pub warm_up: u64,
    /// Transfers that are to count.
    pub wanted: u64,
    /// Whether each is timed.
    pub is_latency: bool,
}

/// Latencies for which memory is taken before the first: eight bytes each.
const MAX_KEPT: u64 = 1 << 24;

/// A transfer that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndedTransfer {
    /// Picoseconds that it took; of latency tests.
    pub latency_ps: u64,
    /// Bytes that it has read.
    pub bytes_read: u32,
    /// Bytes that it has written.
    pub bytes_written: u32,
}

impl Transfers {
    /// Before the device is started.
    pub fn of(test: Test, warm_up: u64, wanted: u64) -> Transfers {
        Transfers { warm_up, wanted, is_latency: test.is_latency(), ..Transfers::default() }
    }

    /// How long the transfers that count took.
    pub fn elapsed(&self) -> Duration {
        self.measure_end.since(self.measure_start)
    }

    /// The device was started, perhaps again. All memory that the results need is taken here.
    pub fn start(&mut self, now: Time) {
        let Transfers { warm_up, wanted, is_latency, .. } = *self;
        let phase = if warm_up == 0 { Phase::Measuring } else { Phase::WarmUp };
        let latencies_ps = Vec::with_capacity(if is_latency { wanted.min(MAX_KEPT) as usize } else { 0 });
        let fresh = Transfers { warm_up, wanted, is_latency, ..Transfers::default() };
        *self = Transfers { phase, measure_start: now, latencies_ps, ..fresh };
    }

    /// A transfer has ended.
    pub fn end(&mut self, now: Time, transfer: EndedTransfer) {
        self.ended += 1;
        match self.phase {
            Phase::WarmUp if self.ended == self.warm_up => {
                self.phase = Phase::Measuring;
                self.measure_start = now;
            }
            Phase::Measuring => self.count(now, transfer),
            _ => {}
        }
    }

    /// A transfer has failed: the measurement is given up.
    pub fn fail(&mut self, now: Time, error: DmaError) {
        self.phase = Phase::Done;
        self.measure_end = now;
        self.failure.get_or_insert(error);
    }

    fn count(&mut self, now: Time, transfer: EndedTransfer) {
        self.transfers += 1;
        self.bytes_read += u64::from(transfer.bytes_read);
        self.bytes_written += u64::from(transfer.bytes_written);
        self.measure_end = now;
        if self.is_latency {
            self.latencies_ps.push(transfer.latency_ps);
        }
        if self.transfers == self.wanted {
            self.phase = Phase::Done;
        }
    }
}

impl Report for Transfers {
    /// Of a warm-up that has not ended there is no rate.
    fn shown(&self, _: Time) -> Shown {
        let elapsed = self.elapsed();
        let shown = Shown::new().with("transfers", self.transfers).with("measured_ns", ns(elapsed));
        match self.transfers {
            0 => shown.with("warm_up_transfers", self.ended),
            _ => shown
                .with("read_gbps", gbps(self.bytes_read, elapsed))
                .with("write_gbps", gbps(self.bytes_written, elapsed)),
        }
    }

    fn transfers(&self) -> Option<(u64, u64)> {
        let all = self.warm_up.saturating_add(self.wanted);
        Some((self.ended.min(all), all))
    }
}
