// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The function of engines: its registers, its turns among other functions, its interrupts. Independent of other functions, except for
//! the shared turns.

use super::logic::{Fifo, LogicState, MakeLogic};
use super::registers::{self as r, LogicKind, engine as register};
use super::turns::{TurnPermit, Turns};
use super::window::Window;
use super::{DESCRIPTOR_BYTES, Direction, EngineReport, Interrupts, RingReport, Settings, WindowOf};
use config::register::put;
use device::io::{ReadRequest, RegisterFile, WriteRequest};
use device::{DmaError, Io};
use plug::Shared;
use plug::transfers::{EndedTransfer, Phase, Transfers};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::Time;

/// Room for data in transit to an engine, in addition to the window.
const BUFFER_BYTES: u64 = 64 << 10;

/// State shared by all functions.
pub(super) struct Common {
    pub(super) settings: Settings,
    /// Returns the window of a function: its own, or the shared one.
    pub(super) window: Box<dyn Fn() -> Rc<Window>>,
    pub(super) writes: Turns,
    /// Writable bits of BAR 0: for the physical function, and for a virtual one.
    pub(super) writable: [Vec<u8>; 2],
    pub(super) report: Shared<EngineReport>,
    pub(super) measured: Option<Shared<Transfers>>,
    pub(super) logic: Option<MakeLogic>,
}

/// A function from one reset to the next.
pub(super) struct Function {
    pub(super) io: Io,
    number: u16,
    common: Rc<Common>,
    window: Rc<Window>,
    registers: RefCell<RegisterFile>,
    fifos: Vec<Rc<Fifo>>,
}

impl Function {
    pub(super) fn new(io: Io, number: u16, common: Rc<Common>) -> Rc<Function> {
        let settings = &common.settings;
        let fifos = (0..settings.h2d_engines.max(settings.d2h_engines)).map(|_| Rc::default()).collect();
        let function = Function {
            io,
            number,
            window: (common.window)(),
            registers: RefCell::new(RegisterFile::new(r::BAR_BYTES as usize)),
            fifos,
            common,
        };
        function.reset_registers();
        Rc::new(function)
    }

    // ---- registers ----

    /// Completes a read.
    pub(super) fn read(&self, read: ReadRequest) {
        let mut registers = self.registers.borrow_mut();
        let sizes = put(r::limits::PAYLOAD_BYTES, self.io.mps().bytes())
            | put(r::limits::READ_BYTES, self.read_bytes());
        registers.set_u32(r::LIMITS, sizes);
        let shared = self.common.settings.window_of == WindowOf::All;
        let window =
            put(r::window::PLACES, self.window.places().into()) | put(r::window::SHARED, shared.into());
        registers.set_u32(r::WINDOW, window);
        registers.set_u32(r::WEIGHT, self.common.writes.weight(self.number).into());
        let answer = registers.read(&read);
        read.complete(answer);
    }

    /// Sets the registers to their reset values.
    pub(super) fn reset_registers(&self) {
        let Settings { vfs, h2d_engines, .. } = self.common.settings;
        let engines = self.common.settings.engines();
        let mut registers = self.registers.borrow_mut();
        registers.bytes_mut().fill(0);
        registers.set_u32(r::ID, r::ID_VALUE);
        registers.set_u32(r::VERSION, r::VERSION_VALUE);
        let kinds = put(r::engines::H2D_ENGINES, h2d_engines.into())
            | put(r::engines::D2H_ENGINES, engines as u32 - u32::from(h2d_engines))
            | put(r::engines::DEVICE_ENTRIES, self.device_entries());
        registers.set_u32(r::ENGINES, kinds);
        let functions = put(r::function::FUNCTIONS, u32::from(vfs) + 1);
        registers.set_u32(r::FUNCTION, put(r::function::NUMBER, self.number.into()) | functions);
        for engine in 0..engines {
            let d2h = u32::from(self.direction(engine) == Direction::D2h);
            let kind = put(register::kind::D2H, d2h) | put(register::kind::VECTOR, engine as u32);
            registers.set_u32(at(engine, register::KIND), kind);
        }
        if self.number == 0 {
            for function in 0..=vfs {
                self.set_weight(function, 1);
            }
            (0..u64::from(vfs)).for_each(|vf| registers.set_u32(r::VF_WEIGHTS + 4 * vf, 1));
        }
    }

    /// Stores the writable bits of a write. Returns false outside the BAR.
    pub(super) fn store(&self, write: &WriteRequest) -> bool {
        let mut registers = self.registers.borrow_mut();
        if has(write, r::INTERRUPTS) {
            // Bytes that are not written clear no bits.
            registers.set_u32(r::INTERRUPTS, 0);
        }
        registers.write_bits(write, &self.common.writable[usize::from(self.number > 0)])
    }

    pub(super) fn u32(&self, register: u64) -> u32 {
        self.registers.borrow().u32(register)
    }

    /// Applies the weights from the physical function's registers.
    pub(super) fn weigh(&self) {
        if self.number > 0 {
            return;
        }
        let registers = self.registers.borrow();
        self.set_weight(0, registers.u32(r::WEIGHT) as u8);
        for vf in 0..self.common.settings.vfs {
            self.set_weight(vf + 1, registers.u32(r::VF_WEIGHTS + 4 * u64::from(vf)) as u8);
        }
    }

    fn set_weight(&self, function: u16, weight: u8) {
        self.common.writes.set_weight(function, weight);
        self.window.turns.set_weight(function, weight);
    }

    /// Resets the counters of an engine; no descriptor is posted.
    pub(super) fn begin_anew(&self, engine: usize) {
        for register in [register::STATUS, register::POSTED, register::DONE, register::FAILED] {
            self.set_engine_u32(engine, register, 0);
        }
        self.registers.borrow_mut().set_u64(at(engine, register::BYTES), 0);
        if self.direction(engine) == Direction::D2h {
            self.fifos[self.pair(engine)].clear();
        }
    }

    // ---- for engines ----

    pub(super) fn engines(&self) -> usize {
        self.common.settings.engines()
    }

    pub(super) fn direction(&self, engine: usize) -> Direction {
        self.common.settings.direction(engine)
    }

    /// Returns its index among the engines of its direction.
    fn pair(&self, engine: usize) -> usize {
        let h2d = usize::from(self.common.settings.h2d_engines);
        engine.checked_sub(h2d).unwrap_or(engine)
    }

    pub(super) fn engine_u32(&self, engine: usize, register: u64) -> u32 {
        self.registers.borrow().u32(at(engine, register))
    }

    pub(super) fn engine_u64(&self, engine: usize, register: u64) -> u64 {
        self.registers.borrow().u64(at(engine, register))
    }

    pub(super) fn set_engine_u32(&self, engine: usize, register: u64, value: u32) {
        self.registers.borrow_mut().set_u32(at(engine, register), value);
    }

    /// Sets a field of an engine's STATUS.
    pub(super) fn set_status(&self, engine: usize, field: u32, value: u32) {
        let before = self.engine_u32(engine, register::STATUS);
        self.set_engine_u32(engine, register::STATUS, before & !field | put(field, value));
    }

    /// Returns the number of descriptors of each engine in the device's memory.
    pub(super) fn device_entries(&self) -> u32 {
        self.common.settings.device_entries()
    }

    /// Returns the offset of an engine's descriptor in BAR 0.
    fn descriptor_at(&self, engine: usize, index: u32) -> u64 {
        let index = self.device_entries() as u64 * engine as u64 + u64::from(index);
        r::DESCRIPTOR + index * r::DESCRIPTOR_STRIDE
    }

    /// Returns a descriptor in the device's memory.
    pub(super) fn descriptor(&self, engine: usize, index: u32) -> [u8; DESCRIPTOR_BYTES as usize] {
        let at = self.descriptor_at(engine, index) as usize;
        let registers = self.registers.borrow();
        registers.bytes().get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or_default()
    }

    /// Writes STATUS and MOVED of a descriptor in the device's memory.
    pub(super) fn set_descriptor(&self, engine: usize, index: u32, code: u32, moved: u64) {
        let at = self.descriptor_at(engine, index);
        let mut registers = self.registers.borrow_mut();
        registers.set_u32(at + r::descriptor::STATUS, code);
        registers.set_u64(at + r::descriptor::MOVED, moved);
    }

    pub(super) fn behind(&self, engine: usize, kind: LogicKind, seed: u64) -> LogicState {
        let made = self.common.logic.as_ref().and_then(|make| make(self.number, engine as u16, kind, seed));
        match made {
            Some(logic) => LogicState::Logic(logic),
            None => LogicState::of(kind, seed, &self.fifos[self.pair(engine)]),
        }
    }

    /// Returns the maximum size of a read request in bytes.
    pub(super) fn read_bytes(&self) -> u32 {
        self.io.mrrs().bytes().min(self.common.settings.read_bytes)
    }

    /// Returns the maximum number of bytes in transit to an engine, which is at least what its window can deliver.
    pub(super) fn buffer_bytes(&self) -> u64 {
        BUFFER_BYTES.max(u64::from(self.window.most()) * u64::from(self.read_bytes()))
    }

    pub(super) async fn place_to_read(&self, engine: usize, bytes: u32) -> TurnPermit {
        self.window.turns.place(self.number, engine as u16, bytes).await
    }

    /// Handles the end of a read that took its place in the window at `since`.
    pub(super) fn arrived(&self, since: Time) {
        let Some(window) = self.window.arrived(self.io.now().since(since), self.read_bytes()) else { return };
        self.common.report.change(|report| match self.common.settings.window_of {
            WindowOf::All => report.window = Some(window),
            WindowOf::Function => {
                if let Some(function) = report.functions.get_mut(usize::from(self.number)) {
                    function.window = Some(window);
                }
            }
        });
    }

    pub(super) async fn place_to_write(&self, engine: usize, bytes: u32) -> TurnPermit {
        self.common.writes.place(self.number, engine as u16, bytes).await
    }

    /// Starts the measurement at the first doorbell.
    pub(super) fn begins(&self) {
        if let Some(measured) = self.common.measured.as_ref().filter(|m| m.get().phase == Phase::Idle) {
            measured.change(|m| m.start(self.io.now()));
        }
    }

    pub(super) fn note(&self, engine: usize, note: impl FnOnce(&mut RingReport)) {
        self.common.report.change(|report| {
            if let Some(function) = report.functions.get_mut(usize::from(self.number)) {
                note(&mut function.rings[engine]);
            }
        });
    }

    /// Counts moved bytes.
    pub(super) fn moved(&self, engine: usize, bytes: u64) {
        let before = self.engine_u64(engine, register::BYTES);
        self.registers.borrow_mut().set_u64(at(engine, register::BYTES), before + bytes);
        self.note(engine, |report| report.bytes += bytes);
    }

    /// Counts a measured transfer. A failed transfer is not counted. It ends the driver, and thus the run.
    pub(super) fn count(&self, direction: Direction, bytes: u64, failed: bool) {
        let Some(measured) = self.common.measured.as_ref().filter(|_| !failed) else { return };
        let (now, bytes) = (self.io.now(), bytes as u32);
        let (bytes_read, bytes_written) = match direction {
            Direction::H2d => (bytes, 0),
            Direction::D2h => (0, bytes),
        };
        measured
            .change(|m| m.end(now, EndedTransfer { bytes_read, bytes_written, ..EndedTransfer::default() }));
    }

    // ---- interrupts ----

    pub(super) async fn interrupt(&self, engine: usize) -> Result<(), DmaError> {
        if self.common.settings.interrupts != Interrupts::Intx {
            return self.io.interrupt(engine as u16).await;
        }
        let before = self.registers.borrow().u32(r::INTERRUPTS);
        self.registers.borrow_mut().set_u32(r::INTERRUPTS, before | 1 << engine);
        self.io.intx(true).await
    }

    /// Clears the interrupt bits that software has written as one; `before` are the bits before the write.
    pub(super) async fn clear_intx(&self, before: u32) {
        let left = before & !self.registers.borrow().u32(r::INTERRUPTS);
        self.registers.borrow_mut().set_u32(r::INTERRUPTS, left);
        if before != 0 && left == 0 {
            // Fails only if the function may not send interrupts.
            let _ = self.io.intx(false).await;
        }
    }
}

/// Returns whether a write touches this register of 4 B.
pub(super) fn has(write: &WriteRequest, register: u64) -> bool {
    write.offset() < register + 4 && register < write.offset() + write.len() as u64
}

/// Returns the offset of an engine's register in BAR 0.
pub(super) const fn at(engine: usize, register: u64) -> u64 {
    r::ENGINE + engine as u64 * r::ENGINE_STRIDE + register
}

/// Returns the writable bits of BAR 0 for a function with these settings.
pub(super) fn writable(settings: &Settings, is_physical: bool) -> Vec<u8> {
    let mut bits = vec![0; r::BAR_BYTES as usize];
    let mut allow = |at: u64, mask: &[u8]| bits[at as usize..][..mask.len()].copy_from_slice(mask);
    for &(at, mask) in r::WRITABLE {
        if is_physical || at != r::WEIGHT {
            allow(at, &mask.to_le_bytes());
        }
    }
    if is_physical {
        (0..u64::from(settings.vfs))
            .for_each(|vf| allow(r::VF_WEIGHTS + 4 * vf, &r::vf_weights::WEIGHT.to_le_bytes()));
    }
    for engine in 0..settings.engines() as u64 {
        for &(at, mask) in register::WRITABLE {
            allow(r::ENGINE + engine * r::ENGINE_STRIDE + at, &mask.to_le_bytes());
        }
    }
    for descriptor in 0..r::DESCRIPTOR_COUNT {
        for &(at, mask) in r::descriptor::WRITABLE {
            allow(r::DESCRIPTOR + descriptor * r::DESCRIPTOR_STRIDE + at, &mask.to_le_bytes());
        }
    }
    bits
}
