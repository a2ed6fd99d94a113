// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device of pcie-bench (SIGCOMM'18, §4 and §5.1), and the driver that starts it.
//!
//! [`registers`] are those of the device in RTL, too. After a reset, the settings are those of the lab.
//! The device raises vector 0 at the end of a test.
//!
//! A latency test is one worker that times each transfer. A bandwidth test has as many workers as transfers may be in
//! flight; each takes the next address, issues its transfer, waits for its end, and repeats. Transfers are measured
//! after the warm-up. The workers stop when the last measured transfer has ended, so the load is constant until then.
//! There is no allocation per transfer.
//!
//! The card's profile defines its own costs ([`CardCosts`]); the default card has no costs.

mod card;
mod costs;
mod driver;
mod front;
mod generator;
mod model;
pub mod registers;
mod settings;
mod slots;
mod staged;
mod units;

pub use card::{CARDS, DeviceFile, DeviceKind, card, card_basis};
pub use costs::{CardClock, CardCosts, ReadCosts, WriteCosts};
pub use driver::{Window, driver};
pub use model::Bench;
pub use plug::transfers::{CacheState, Pattern, Phase, Test, Transfers};
pub use settings::{
    BUFFER_BYTES, BenchSettings, CardPath, MAX_COMMAND_BYTES, MAX_LATENCIES, MAX_OUTSTANDING, MAX_TABLE,
    MAX_WINDOW_BYTES, SettingsError,
};
pub use units::Units;
pub(crate) use units::below;

use crate::control;
use crate::{device_id, identity};
use config::{Bar, Builder, MsiLayout, PcieLayout};
use device::io::{DmaOptions, DmaReadFuture};
use device::{AsyncDevice, BarIndex, DmaError, Io};
use endpoint::FunctionConfig;
use front::Front;
use generator::CardGenerator;
use plug::Shared;
use plug::transfers::EndedTransfer;
pub use registers::BAR_BYTES;
use staged::Stages;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::{Data, PayloadPool, Time};

/// Other processing accelerator (PCI Code and ID Assignment Specification, §1.19).
const CLASS: u32 = 0x12_0000;
/// Vector that signals the end of the test.
const DONE_VECTOR: u16 = 0;
const BAR: BarIndex = BarIndex(0);

/// Layout of the registers by which a driver starts the device.
const LAYOUT: control::Layout = control::Layout {
    bar: BAR,
    control: registers::CONTROL,
    status: registers::STATUS,
    bytes: BAR_BYTES as usize,
    bar_bytes: BAR_BYTES,
};

/// Failures of transfers: values of the error register, from 1 on.
pub const ERRORS: [DmaError; 7] = [
    DmaError::UnsupportedRequest,
    DmaError::CompleterAbort,
    DmaError::Poisoned,
    DmaError::CompletionTimeout,
    DmaError::Malformed,
    DmaError::BusMasterDisabled,
    DmaError::TooLong,
];

/// Creates the benchmark device and its configuration space for the link `pcie`. Payloads come from `pool`;
/// measurements go to `results`.
///
/// # Errors
/// The first invalid setting.
pub fn function(
    settings: BenchSettings,
    pcie: PcieLayout,
    pool: &PayloadPool,
    results: &Shared<Transfers>,
) -> Result<FunctionConfig, SettingsError> {
    settings.check()?;
    results.change(|r| *r = settings.results());
    let (settings, results) = (Rc::new(settings), results.clone());
    let config = Builder::type0(identity(device_id::PCIE_BENCH, CLASS))
        .bar(BAR, Bar::memory32(BAR_BYTES))
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie)
        .usual()
        .build()?;
    let serve = move |io| Front::new(&settings, &results).serve(io);
    Ok(FunctionConfig { config, device: Box::new(AsyncDevice::with_pool(pool.clone(), serve)) })
}

/// The control task (SIGCOMM'18, §5.1): starts all workers, and waits for them.
async fn transfer(card: &Rc<Card>) {
    card.results.change(|r| r.start(card.io.now()));
    match &card.stages {
        None => card.io.generate(Box::new(CardGenerator::new(card.clone(), card.io.now()))).await,
        Some(stages) => run_staged(card, stages).await,
    }
}

/// Runs the workers of a card with costs.
async fn run_staged(card: &Rc<Card>, stages: &Rc<Stages>) {
    let worker = |_| card.io.spawn(staged::work(card.clone(), stages.clone()));
    let workers: Vec<_> = (0..card.settings.workers()).map(worker).collect();
    for worker in workers {
        // A worker that could not start, because too many tasks run, leaves its work to the others.
        let _ = worker.await;
    }
}

/// State shared by the workers.
struct Card {
    io: Io,
    settings: Rc<BenchSettings>,
    results: Shared<Transfers>,
    window: u64,
    units: RefCell<Units>,
    /// Issued transfers. For BW_RDWR, transfers with even numbers are reads.
    issued: Cell<u64>,
    /// Data of writes.
    data: Data,
    /// Stages of transfers; `None` if the card has no costs.
    stages: Option<Rc<Stages>>,
}

impl Card {
    fn new(io: &Io, settings: &Rc<BenchSettings>, results: &Shared<Transfers>, window: u64) -> Rc<Card> {
        let size = settings.size_bytes;
        let pattern = |bytes: &mut [u8]| bytes.iter_mut().zip(0u8..=255).for_each(|(byte, n)| *byte = n);
        let data = match settings.carry {
            true => Data::Carried(io.payloads().fill(size as usize, pattern)),
            false => Data::Counted(size),
        };
        Rc::new(Card {
            io: io.clone(),
            settings: settings.clone(),
            results: results.clone(),
            window,
            units: RefCell::new(Units::new(settings)),
            issued: Cell::new(0),
            data,
            stages: (!settings.costs.is_free()).then(|| Rc::new(Stages::new(settings, window))),
        })
    }

    /// Returns the address of the next transfer, whether it writes, and whether it reads.
    #[inline]
    fn next(&self) -> (u64, (bool, bool)) {
        let issued = self.issued.replace(self.issued.get() + 1);
        let address = self.window.wrapping_add(self.units.borrow_mut().next_offset());
        (address, self.settings.nth(issued))
    }

    /// Counts the end of a transfer that started at `start`.
    #[inline(always)]
    fn end(&self, start: Time, writes: bool, reads: bool) {
        let (now, bytes) = (self.io.now(), self.settings.size_bytes);
        let of = |done: bool| if done { bytes } else { 0 };
        let latency_ps = self.settings.costs.clock.between(start, now);
        let (bytes_read, bytes_written) = (of(reads), of(writes));
        let ended = EndedTransfer { latency_ps, bytes_read, bytes_written, ..EndedTransfer::default() };
        self.results.change(|r| r.end(now, ended));
    }

    fn dma_read(&self, address: u64) -> DmaReadFuture<Data> {
        let BenchSettings { size_bytes, carry, .. } = *self.settings;
        self.io.dma_read_data(address, size_bytes, carry, DmaOptions::default())
    }
}
