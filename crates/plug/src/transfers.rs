// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Transfers that a model offers for measurements, after pcie-bench (SIGCOMM'18, §4): the workload, the model's offer, and
//! the results.

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
    /// Latency of a DMA write followed by a read of the same address.
    #[serde(rename = "LAT_WRRD")]
    LatWrRd,
    /// Bandwidth of DMA reads.
    #[serde(rename = "BW_RD")]
    BwRd,
    /// Bandwidth of DMA writes.
    #[serde(rename = "BW_WR")]
    BwWr,
    /// Bandwidth of alternating DMA reads and writes.
    #[serde(rename = "BW_RDWR")]
    BwRdWr,
    /// Latency of a frame from a program to a looped-back cable and back (SIGCOMM'18, §2). Only NICs have it.
    #[serde(rename = "LAT_LOOP", skip_deserializing)]
    LatLoop,
    /// Bandwidth of frames that a NIC sends to a looped-back cable and stores again.
    #[serde(rename = "BW_LOOP", skip_deserializing)]
    BwLoop,
}

impl Test {
    /// The tests of DMA transfers, in the paper's order.
    pub const DMA: [Test; 5] = [Test::LatRd, Test::LatWrRd, Test::BwRd, Test::BwWr, Test::BwRdWr];
    /// The tests of NICs in loop-back.
    pub const LOOP: [Test; 2] = [Test::LatLoop, Test::BwLoop];

    /// Returns every test: those of DMA transfers, then those of NICs.
    pub fn all() -> impl Iterator<Item = Test> {
        Test::DMA.into_iter().chain(Test::LOOP)
    }

    /// Returns its name: of a test of DMA transfers, the paper's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Test::LatRd => "LAT_RD",
            Test::LatWrRd => "LAT_WRRD",
            Test::BwRd => "BW_RD",
            Test::BwWr => "BW_WR",
            Test::BwRdWr => "BW_RDWR",
            Test::LatLoop => "LAT_LOOP",
            Test::BwLoop => "BW_LOOP",
        }
    }

    /// True for a latency test: one outstanding transfer at a time, each one timed.
    #[must_use]
    pub const fn is_latency(self) -> bool {
        matches!(self, Test::LatRd | Test::LatWrRd | Test::LatLoop)
    }
}

/// The order in which the units of the window are used (SIGCOMM'18, §4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// In order, around the window.
    Sequential,
    /// Random, with repetition.
    Random,
}

/// Contents of the host's caches when the test starts (SIGCOMM'18, §4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    /// No line of the window is in the cache: the host has written much other memory.
    Cold,
    /// The host has written the window: its lines are in the cache, up to the size of the cache.
    HostWarm,
    /// The device has written the window twice: its lines are in the part of the cache that device writes may use.
    DeviceWarm,
    /// The device has written random lines of 64 MiB. The window is the start of these 64 MiB.
    DeviceThrash,
}

impl CacheState {
    /// Returns the name in lab files.
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

/// A workload for a model. The model chooses the values that are `None`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workload {
    /// The test: one of [`Model::TESTS`].
    pub test: Test,
    /// Bytes of each transfer.
    pub size_bytes: u32,
    /// Number of measured transfers.
    pub transfers: u64,
    /// Number of transfers before the measured transfers. These are not measured.
    pub warm_up: u64,
    /// Maximum number of outstanding transfers, in bandwidth tests.
    pub outstanding: Option<u16>,
    /// Device profile, by its name or path.
    pub profile: Option<String>,
    /// Bytes of the window of host memory that the transfers access.
    pub window_bytes: Option<u64>,
    /// Offset of each transfer from the start of a cache line.
    pub host_offset_bytes: Option<u32>,
    /// The order of the units.
    pub pattern: Option<Pattern>,
    /// State of the host's caches at the start. It must be [`Offer::cache`] of the model's offer.
    pub cache: Option<CacheState>,
    /// Part of host memory that contains the window.
    pub memory: Option<MemoryKind>,
}

impl Workload {
    /// Returns a workload of a few transfers of `size_bytes`; the model chooses the rest.
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

    /// Returns `has`, the only part of memory that a model supports.
    ///
    /// # Errors
    /// If the other part is requested. The message gives the width of its addresses, as users know it.
    pub fn only_memory(&self, has: MemoryKind) -> Result<MemoryKind, Fault> {
        let bits = |memory: MemoryKind| if memory == MemoryKind::Low { 32 } else { 64 };
        match self.memory {
            Some(asked) if asked != has => {
                let message = format!("addresses of {} bits, expected {}", bits(asked), bits(has));
                Err(Fault::at("memory", message))
            }
            _ => Ok(has),
        }
    }

    /// Total number of transfers, including the warm-up.
    pub const fn transfers_in_all(&self) -> u64 {
        self.transfers.saturating_add(self.warm_up)
    }

    /// Returns `has`, the only value that a model supports.
    ///
    /// # Errors
    /// If another value is requested; the message gives the legal one.
    pub fn only<T: Serialize + PartialEq>(key: &str, asked: Option<&T>, has: T) -> Result<T, Fault> {
        let text = |value: &T| serde_json::to_value(value).unwrap_or_default().to_string().replace('"', "");
        match asked {
            Some(asked) if *asked != has => {
                Err(Fault::at(key, format!("{key} of {}, expected {}", text(asked), text(&has))))
            }
            _ => Ok(has),
        }
    }
}

/// Splits a write into TLPs: given its address, its bytes and the path's Max_Payload_Size, returns address and bytes of
/// each TLP.
pub type CutWrites = Box<dyn Fn(u64, u32, Mps) -> Vec<(u64, u32)>>;

/// A model configured for a [`Workload`], with the values that it has chosen.
pub struct Offer {
    /// The model with its settings.
    pub plan: Plan,
    /// Name of the device in results: its profile, or the model.
    pub device: String,
    /// Outstanding transfers in bandwidth tests.
    pub outstanding: u16,
    /// Bytes of host memory that the transfers access.
    pub window_bytes: u64,
    /// Offset of each transfer from the start of a cache line.
    pub host_offset_bytes: u32,
    /// The order of the units.
    pub pattern: Pattern,
    /// Part of host memory that contains the window.
    pub memory: MemoryKind,
    /// Contents of the host's caches that the driver prepares at the start.
    pub cache: CacheState,
    /// Basis of the profile figures that the workload depends on, if there is a profile.
    pub basis: Option<Basis>,
    /// How the device splits writes, if not only by Max_Payload_Size and 4 KiB.
    pub cut_writes: Option<CutWrites>,
    /// Name of a closed form of `riser model nic` that counts the device's transactions for each frame;
    /// [`Test::BwLoop`] only. `None`: only the frames cross the link.
    pub nic: Option<&'static str>,
}

impl Offer {
    /// Returns an offer of `settings`: one outstanding transfer at a time, in order from the start of a window of
    /// `window_bytes`, with cold caches.
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
            nic: None,
        }
    }
}

/// Progress of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// Not started.
    #[default]
    Idle,
    /// Transfers of the warm-up run.
    WarmUp,
    /// Measured transfers run.
    Measuring,
    /// The last measured transfer has ended, or one has failed.
    Done,
}

/// Results of a measurement, filled by the device. All fields except `failure` and the counters of the whole run cover only
/// measured transfers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// Progress of the measurement.
    pub phase: Phase,
    /// Measured transfers that have ended. The write and the read of [`Test::LatWrRd`] are one transfer.
    pub transfers: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// End of the last transfer before the measured ones, or start of the device if there was none.
    pub measure_start: Time,
    /// End of the last measured transfer.
    pub measure_end: Time,
    /// Latency of each transfer in picoseconds of the device's clock, in the order of their ends; latency tests only.
    pub latencies_ps: Vec<u64>,
    /// Part of each latency in which the frame was outside the NIC, on its cable and in its MAC; [`Test::LatLoop`] only.
    pub outside_ps: Vec<u64>,
    /// Reason why the measurement has failed; `None` if it has not failed.
    pub failure: Option<DmaError>,
    /// Transfers that have ended, including the warm-up and the end.
    pub ended: u64,
    /// Number of transfers before the measured ones.
    pub warm_up: u64,
    /// Number of transfers to measure.
    pub wanted: u64,
    /// Whether each transfer is timed.
    pub is_latency: bool,
    /// Whether the transfers are frames that come back.
    pub is_loop: bool,
}

/// Number of latencies for which memory is allocated in advance, eight bytes each.
const MAX_KEPT: u64 = 1 << 24;

/// A finished transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndedTransfer {
    /// Latency in picoseconds; latency tests only.
    pub latency_ps: u64,
    /// Part of it outside the NIC; [`Test::LatLoop`] only.
    pub outside_ps: u64,
    /// Bytes read.
    pub bytes_read: u32,
    /// Bytes written.
    pub bytes_written: u32,
}

impl Transfers {
    /// Returns the state before the device is started.
    pub fn of(test: Test, warm_up: u64, wanted: u64) -> Transfers {
        let is_loop = Test::LOOP.contains(&test);
        Transfers { warm_up, wanted, is_latency: test.is_latency(), is_loop, ..Transfers::default() }
    }

    /// Returns the total time of the measured transfers.
    pub fn elapsed(&self) -> Duration {
        self.measure_end.since(self.measure_start)
    }

    /// Records that the device was started, perhaps again. Allocates all memory for the results.
    pub fn start(&mut self, now: Time) {
        let Transfers { warm_up, wanted, is_latency, is_loop, .. } = *self;
        let phase = if warm_up == 0 { Phase::Measuring } else { Phase::WarmUp };
        let kept =
            |is_kept: bool| Vec::with_capacity(if is_kept { wanted.min(MAX_KEPT) as usize } else { 0 });
        let (latencies_ps, outside_ps) = (kept(is_latency), kept(is_latency && is_loop));
        let fresh = Transfers { warm_up, wanted, is_latency, is_loop, ..Transfers::default() };
        *self = Transfers { phase, measure_start: now, latencies_ps, outside_ps, ..fresh };
    }

    /// Records that a transfer has ended.
    #[inline]
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

    /// Records that a transfer has failed: the measurement is given up.
    pub fn fail(&mut self, now: Time, error: DmaError) {
        self.phase = Phase::Done;
        self.measure_end = now;
        self.failure.get_or_insert(error);
    }

    #[inline]
    fn count(&mut self, now: Time, transfer: EndedTransfer) {
        self.transfers += 1;
        self.bytes_read += u64::from(transfer.bytes_read);
        self.bytes_written += u64::from(transfer.bytes_written);
        self.measure_end = now;
        if self.is_latency {
            self.keep_latency(&transfer);
        }
        if self.transfers == self.wanted {
            self.phase = Phase::Done;
        }
    }

    // Not inlined: tests of bandwidth keep no latencies, and have shorter transfers.
    #[inline(never)]
    fn keep_latency(&mut self, transfer: &EndedTransfer) {
        self.latencies_ps.push(transfer.latency_ps);
        if self.is_loop {
            self.outside_ps.push(transfer.outside_ps);
        }
    }
}

impl Report for Transfers {
    /// There is no rate until the warm-up has ended.
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
