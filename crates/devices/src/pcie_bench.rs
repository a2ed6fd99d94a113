// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The benchmark device of pcie-bench (SIGCOMM'18, §4 and §5.1), and the driver that starts it.
//!
//! Registers, little-endian, in BAR 0:
//!
//! ```text
//! +0   u64  window    bus address of the window in host memory, a multiple of 4 KiB
//! +8   u32  control   writing 1 starts the test
//! +12  u32  status    0 idle, 1 running, 2 done, 3 failed
//! +16  u32  error     reason of the failure: 1 + index in `ERRORS`
//! ```
//!
//! The device raises vector 0 at the end.
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
mod generator;
mod model;
mod settings;
mod slots;
mod staged;
mod units;

pub use card::{CARDS, DeviceFile, DeviceKind, card, card_basis};
pub use costs::{CardClock, CardCosts, ChannelCosts, ReadCosts, WriteCosts};
pub use driver::{Window, driver};
pub use model::Bench;
pub use plug::transfers::{CacheState, Pattern, Phase, Test, Transfers};
pub use settings::{
    BUFFER_BYTES, BenchSettings, CardPath, MAX_COMMAND_BYTES, MAX_LATENCIES, MAX_OUTSTANDING, MAX_TABLE,
    MAX_WINDOW_BYTES, SettingsError,
};
pub use units::Units;
pub(crate) use units::below;

use crate::control::{self, Registers, Who};
use crate::device_id;
use capture::DeviceRegister;
use config::PcieLayout;
use device::io::{DmaOptions, DmaReadFuture};
use device::{BarIndex, DmaError, Io};
use endpoint::FunctionConfig;
use generator::CardGenerator;
use plug::transfers::EndedTransfer;
use plug::{Shared, named};
use staged::Stages;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::{Data, PayloadPool, Time};

/// Size of BAR 0 in bytes.
pub const BAR_BYTES: u64 = 4096;
/// Other processing accelerator (PCI Code and ID Assignment Specification, §1.19).
const CLASS: u32 = 0x12_0000;
/// Vector that signals the end of the test.
const DONE_VECTOR: u16 = 0;
const BAR: BarIndex = BarIndex(0);

/// Offset of the window's address.
const WINDOW: u64 = 0;
/// Offset of the error number: 0, or 1 + index in [`ERRORS`].
const ERROR: u64 = 16;
/// Layout of the registers.
const LAYOUT: control::Layout =
    control::Layout { bar: BAR, control: 8, status: 12, bytes: 20, bar_bytes: BAR_BYTES };

/// Register names.
const REGISTERS: &[DeviceRegister] = &[
    named(Some(BAR.0), WINDOW, 8, "window"),
    named(Some(BAR.0), LAYOUT.control, 4, "control"),
    named(Some(BAR.0), LAYOUT.status, 4, "status"),
    named(Some(BAR.0), ERROR, 4, "error"),
];

/// Values of the error register, from 1 on.
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
    let start = move |io: &Io, registers: &Registers| {
        let card = Card::new(io, &settings, &results, registers.u64(WINDOW));
        io.spawn(run(card, registers.clone()));
    };
    let who = Who { device: device_id::PCIE_BENCH, class: CLASS };
    Ok(control::function(who, LAYOUT, pcie, pool, start)?)
}

/// The control task (SIGCOMM'18, §5.1): starts all workers, waits for them, and signals the end.
async fn run(card: Rc<Card>, registers: Registers) -> Result<(), DmaError> {
    card.results.change(|r| r.start(card.io.now()));
    match &card.stages {
        None => card.io.generate(Box::new(CardGenerator::new(card.clone(), card.io.now()))).await,
        Some(stages) => run_staged(&card, stages).await,
    }
    let failure = card.results.get().failure;
    let code =
        failure.and_then(|error| ERRORS.iter().position(|e| *e == error)).map_or(0, |at| at as u32 + 1);
    let status = if code == 0 { control::DONE } else { control::FAILED };
    registers.set_u32(ERROR, code);
    registers.set_status(status);
    card.io.interrupt(DONE_VECTOR).await
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
