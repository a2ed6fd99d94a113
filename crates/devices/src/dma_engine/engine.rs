// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One engine: its ring, the results of descriptors, and reports to the host. Moves no data itself.

use super::function::Function;
use super::logic::LogicState;
use super::registers::{self, ErrorCode, LogicKind, engine as register};
use super::{DESCRIPTOR_BYTES, Direction, MAX_RING_ENTRIES};
use crate::group::Group;
use crate::queue::Queue;
use config::register::get;
use device::Channel;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::Duration;

/// Maximum number of descriptors per read.
const FETCHED: u32 = 16;
/// Maximum number of descriptors fetched in advance.
const FETCHED_AHEAD: usize = 32;
/// Maximum number of ends of descriptors that wait to be reported.
const MAX_ENDS: usize = 64;
/// Maximum size of a descriptor's transfer in bytes.
const MAX_BYTES: u64 = 1 << 40;

/// A fetched descriptor.
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) interrupts: bool,
    /// Whether the next descriptor belongs to the same chain.
    pub(super) more: bool,
    /// Error in the descriptor.
    pub(super) fault: Option<ErrorCode>,
}

impl Descriptor {
    /// A descriptor that could not be fetched.
    const UNKNOWN: Descriptor =
        Descriptor { address: 0, bytes: 0, interrupts: true, more: false, fault: Some(ErrorCode::Fetch) };

    fn parse(bytes: &[u8]) -> Descriptor {
        use registers::descriptor as d;
        let u64_at = |at: u64| {
            let word = bytes.get(at as usize..).and_then(|rest| rest.first_chunk());
            word.map_or(0, |word| u64::from_le_bytes(*word))
        };
        let (address, size, flags) = (u64_at(d::ADDRESS), u64_at(d::BYTES), u64_at(d::FLAGS) as u32);
        let fault = if flags & !(d::flags::INTERRUPT | d::flags::MORE) != 0 {
            Some(ErrorCode::Flags)
        } else if size == 0 || size > MAX_BYTES {
            Some(ErrorCode::Size)
        } else if address.checked_add(size - 1).is_none() {
            Some(ErrorCode::Range)
        } else {
            None
        };
        let interrupts = flags & d::flags::INTERRUPT != 0;
        Descriptor { address, bytes: size, interrupts, more: flags & d::flags::MORE != 0, fault }
    }
}

/// Result of a descriptor.
pub(super) struct Ended {
    pub(super) code: ErrorCode,
    pub(super) moved: u64,
    pub(super) interrupts: bool,
}

/// Starts the tasks that move the data of descriptors, as members of a group.
pub(super) type Movers = fn(&Rc<EngineRun>, &Group, Channel<Descriptor>);

/// Settings that an engine takes from its registers at ENABLE.
pub(super) struct Setup {
    host_ring: Option<u64>,
    entries: u32,
    write_back: u64,
    write_status: bool,
    coalesce_count: u32,
    coalesce_time: Option<Duration>,
    /// Whether ring and logic are valid.
    is_legal: bool,
}

impl Setup {
    fn read(function: &Function, number: usize) -> Setup {
        let control = function.engine_u32(number, register::CONTROL);
        let coalescing = function.engine_u32(number, register::COALESCING);
        let time = get(coalescing, register::coalescing::TIME_US);
        let is_host = control & register::control::HOST_RING != 0;
        let host_ring = is_host.then(|| function.engine_u64(number, register::RING));
        let entries = function.engine_u32(number, register::ENTRIES);
        let most = if is_host { MAX_RING_ENTRIES } else { function.device_entries() };
        let is_aligned = host_ring.is_none_or(|ring| ring.is_multiple_of(DESCRIPTOR_BYTES));
        Setup {
            host_ring,
            entries,
            write_back: function.engine_u64(number, register::WRITE_BACK),
            write_status: control & register::control::WRITE_STATUS != 0 || !is_host,
            coalesce_count: get(coalescing, register::coalescing::COUNT),
            coalesce_time: (time > 0).then(|| Duration::from_us(time.into())),
            is_legal: entries.is_power_of_two() && entries <= most && is_aligned && logic(control).is_some(),
        }
    }
}

/// Decodes CONTROL.LOGIC.
fn logic(control: u32) -> Option<LogicKind> {
    LogicKind::ALL.get(get(control, register::control::LOGIC) as usize).copied()
}

/// An engine from ENABLE on. `life` has the tasks that report ends in order until the engine is disabled; `work` has
/// the tasks that an abort stops.
pub(super) struct EngineRun {
    pub(super) function: Rc<Function>,
    pub(super) number: usize,
    pub(super) direction: Direction,
    movers: Movers,
    pub(super) setup: Setup,
    pub(super) behind: RefCell<LogicState>,
    /// Whether a piece of the current chain has failed.
    pub(super) chain_failed: Cell<bool>,
    ends: Channel<Ended>,
    /// Number of descriptors whose end is reported or queued.
    ended: Cell<u32>,
    /// Bytes moved for the descriptor after these.
    moved: Cell<u64>,
    /// Number of descriptors reported to the host.
    told: Cell<u32>,
    /// Interrupts held back, and number of interrupts raised.
    held: Cell<u32>,
    interrupted: Cell<u64>,
    /// The doorbell, for the fetching task.
    doorbell: Queue<()>,
    /// Whether the engine has stopped because the ring was invalid.
    stands_still: Cell<bool>,
    aborts: Cell<u32>,
    work: RefCell<Option<Group>>,
    life: RefCell<Option<Group>>,
}

impl EngineRun {
    /// Starts taking descriptors.
    pub(super) fn start(function: &Rc<Function>, number: usize, movers: Movers) -> Rc<EngineRun> {
        let direction = function.direction(number);
        let setup = Setup::read(function, number);
        let kind = logic(function.engine_u32(number, register::CONTROL)).unwrap_or(LogicKind::Plain);
        let behind = function.behind(number, kind, function.engine_u64(number, register::SEED));
        let run = Rc::new(EngineRun {
            function: Rc::clone(function),
            number,
            direction,
            movers,
            setup,
            behind: RefCell::new(behind),
            chain_failed: Cell::new(false),
            ends: Channel::new(MAX_ENDS),
            ended: Cell::new(0),
            moved: Cell::new(0),
            told: Cell::new(0),
            held: Cell::new(0),
            interrupted: Cell::new(0),
            doorbell: Queue::new(1),
            stands_still: Cell::new(false),
            work: RefCell::default(),
            aborts: Cell::new(0),
            life: RefCell::new(Some(Group::default())),
        });
        run.spawn(|run| async move { run.tell_ends().await });
        run.work_from(0);
        run
    }

    /// Stops everything without reports.
    pub(super) fn finish(&self) {
        drop((self.work.take(), self.life.take()));
    }

    /// Starts a task that ends with this run.
    fn spawn<F: Future<Output = ()> + 'static>(self: &Rc<EngineRun>, task: impl FnOnce(Rc<EngineRun>) -> F) {
        if let Some(life) = &*self.life.borrow() {
            self.function.io.spawn(life.member(task(Rc::clone(self))));
        }
    }

    /// Takes descriptors from number `first` on.
    fn work_from(self: &Rc<EngineRun>, first: u32) {
        let group = Group::default();
        let descriptors = Channel::new(FETCHED_AHEAD);
        let (this, fetched) = (Rc::clone(self), descriptors.clone());
        self.function.io.spawn(group.member(async move { this.fetch(first, &fetched).await }));
        (self.movers)(self, &group, descriptors);
        *self.work.borrow_mut() = Some(group);
    }

    /// Handles a write to POSTED.
    pub(super) fn ring(&self) {
        self.note_busy();
        // A pending notification covers this write too.
        let _ = self.doorbell.push(());
    }

    /// Ends all posted descriptors, done or not. With `goes_on`, descriptors posted later are accepted.
    pub(super) fn abort(self: &Rc<EngineRun>, goes_on: bool) {
        drop(self.work.take());
        if self.stands_still.get() {
            return;
        }
        self.chain_failed.set(false);
        let (posted, this_one) = (self.posted(), self.aborts.get() + 1);
        self.aborts.set(this_one);
        self.spawn(|run| async move {
            while posted.wrapping_sub(run.ended.get()) as i32 > 0 {
                let moved = run.moved.get();
                run.end(Ended { code: ErrorCode::Aborted, moved, interrupts: true }).await;
            }
            if goes_on && run.aborts.get() == this_one {
                run.work_from(posted);
            }
        });
    }

    fn posted(&self) -> u32 {
        self.function.engine_u32(self.number, register::POSTED)
    }

    fn note_busy(&self) {
        let busy = self.posted() != self.told.get() && !self.stands_still.get();
        self.function.set_status(self.number, register::status::BUSY, busy.into());
    }

    // ---- descriptors ----

    /// Waits for descriptors between `taken` and the doorbell, and returns their number. `None` if the ring is invalid.
    async fn posted_behind(&self, taken: u32) -> Option<u32> {
        loop {
            let posted = self.posted();
            if posted != taken {
                let (open, entries) = (posted.wrapping_sub(self.told.get()), self.setup.entries);
                let behind = posted.wrapping_sub(taken);
                return (self.setup.is_legal && open <= entries && behind <= entries).then_some(behind);
            }
            self.doorbell.pop().await;
        }
    }

    /// Fetches posted descriptors in advance, as many per read as possible.
    async fn fetch(&self, first: u32, to: &Channel<Descriptor>) {
        let mut taken = first;
        while let Some(posted) = self.posted_behind(taken).await {
            let index = taken & (self.setup.entries - 1);
            let count = posted.min(FETCHED).min(self.setup.entries - index);
            match self.setup.host_ring {
                None => {
                    for n in index..index + count {
                        to.send(Descriptor::parse(&self.function.descriptor(self.number, n))).await;
                    }
                }
                Some(ring) => {
                    let at = ring.wrapping_add(DESCRIPTOR_BYTES * u64::from(index));
                    let bytes = self.function.io.dma_read(at, count * DESCRIPTOR_BYTES as u32).await;
                    let mut bytes =
                        bytes.as_deref().unwrap_or_default().chunks_exact(DESCRIPTOR_BYTES as usize);
                    for _ in 0..count {
                        to.send(bytes.next().map_or(Descriptor::UNKNOWN, Descriptor::parse)).await;
                    }
                }
            }
            taken = taken.wrapping_add(count);
        }
        self.stands_still.set(true);
        self.note_busy();
        self.function.note(self.number, |report| report.refused += 1);
        self.function.set_status(self.number, register::status::ERROR, ErrorCode::Ring as u32);
        // Fails only if the function may not send interrupts.
        let _ = self.function.interrupt(self.number).await;
    }

    /// Counts bytes moved for the first descriptor that has not ended.
    pub(super) fn moved(&self, bytes: u64) {
        self.moved.set(self.moved.get() + bytes);
        self.function.moved(self.number, bytes);
    }

    /// Ends the first descriptor that has not ended. Waits for room. If an abort stops the wait, the descriptor has not
    /// ended.
    pub(super) async fn end(&self, ended: Ended) {
        self.ends.send(ended).await;
        self.ended.set(self.ended.get().wrapping_add(1));
        self.moved.set(0);
    }

    // ---- reports to the host ----

    async fn tell_ends(self: Rc<EngineRun>) {
        loop {
            let ended = self.ends.receive().await;
            // Fails only if the function may not write.
            let _ = self.tell(ended).await;
        }
    }

    async fn tell(self: &Rc<EngineRun>, ended: Ended) -> Result<(), device::DmaError> {
        let Ended { code, moved, interrupts } = ended;
        let failed = code != ErrorCode::Ok;
        if (self.setup.write_status || failed) && code != ErrorCode::Fetch {
            self.write_status(code, moved).await?;
        }
        let (done, function, number) = (self.told.get().wrapping_add(1), &self.function, self.number);
        self.told.set(done);
        let failures = function.engine_u32(number, register::FAILED).wrapping_add(failed.into());
        function.set_engine_u32(number, register::DONE, done);
        function.set_engine_u32(number, register::FAILED, failures);
        if failed {
            function.set_status(number, register::status::ERROR, code as u32);
        }
        self.note_busy();
        function.note(number, |report| {
            report.done += 1;
            report.failed += u64::from(failed);
        });
        function.count(self.direction, moved, failed);
        if self.setup.write_back != 0 {
            let word = u64::from(failures) << 32 | u64::from(done);
            function.io.dma_write(self.setup.write_back, word).await?;
        }
        if interrupts || failed { self.interrupt().await } else { Ok(()) }
    }

    /// Writes STATUS and MOVED of the next descriptor to report.
    async fn write_status(&self, code: ErrorCode, moved: u64) -> Result<(), device::DmaError> {
        use registers::descriptor as d;
        let index = self.told.get() & self.setup.entries.wrapping_sub(1);
        let Some(ring) = self.setup.host_ring else {
            self.function.set_descriptor(self.number, index, code as u32, moved);
            return Ok(());
        };
        let mut bytes = [0; (d::MOVED + 8 - d::STATUS) as usize];
        bytes[..4].copy_from_slice(&(code as u32).to_le_bytes());
        bytes[4..].copy_from_slice(&moved.to_le_bytes());
        let at = ring.wrapping_add(DESCRIPTOR_BYTES * u64::from(index) + d::STATUS);
        self.function.io.dma_write(at, self.function.io.copy(&bytes)).await
    }

    /// Raises an interrupt, or holds it back according to COALESCING.
    async fn interrupt(self: &Rc<EngineRun>) -> Result<(), device::DmaError> {
        let held = self.held.get() + 1;
        if held >= self.setup.coalesce_count {
            return self.interrupt_now().await;
        }
        self.held.set(held);
        if let (1, Some(time)) = (held, self.setup.coalesce_time) {
            let so_far = self.interrupted.get();
            self.spawn(|run| async move {
                run.function.io.sleep(time).await;
                if run.interrupted.get() == so_far {
                    let _ = run.interrupt_now().await;
                }
            });
        }
        Ok(())
    }

    async fn interrupt_now(&self) -> Result<(), device::DmaError> {
        self.held.set(0);
        self.interrupted.set(self.interrupted.get() + 1);
        self.function.interrupt(self.number).await
    }
}
