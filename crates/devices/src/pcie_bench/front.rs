// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of the benchmark device: software writes the settings of a test, starts it, and reads the results.
//! After a reset, the settings are those of the lab.

use super::registers::{self as r, Error, Status};
use super::settings::{BenchSettings, CardPath, MAX_LATENCIES, MAX_OUTSTANDING, SettingsError};
use super::{BAR, Card, DONE_VECTOR, ERRORS, Pattern, Phase, Test, Transfers, transfer};
use device::Io;
use device::io::{RegisterFile, Request, WriteRequest};
use plug::Shared;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Journal entries of one page.
const PAGE_ENTRIES: usize = ((r::BAR_BYTES - r::JOURNAL) / 4) as usize;

/// Values of the register PATTERN, from 0 on.
const PATTERNS: [Pattern; r::Pattern::ALL.len()] = [Pattern::Sequential, Pattern::Random];
/// Values of the register PATH, from 0 on.
const PATHS: [CardPath; r::Path::ALL.len()] = [CardPath::Dma, CardPath::Command];

/// Returns the value of a register that selects `one` of `all`.
fn code<T: PartialEq>(all: &[T], one: &T) -> u32 {
    all.iter().position(|other| other == one).unwrap_or_default() as u32
}

/// See the [module](self).
pub(super) struct Front {
    file: RefCell<RegisterFile>,
    /// Writable bits.
    writable: Vec<u8>,
    /// Settings of the lab.
    settings: Rc<BenchSettings>,
    results: Shared<Transfers>,
    /// Error of software during the test.
    trouble: Cell<Error>,
}

impl Front {
    /// Creates the registers with these settings.
    pub(super) fn new(settings: &Rc<BenchSettings>, results: &Shared<Transfers>) -> Front {
        let mut file = RegisterFile::new(r::BAR_BYTES as usize);
        for (at, value) in [
            (r::VERSION, r::VERSION_VALUE),
            (r::TEST, code(&Test::DMA, &settings.test)),
            (r::SIZE, settings.size_bytes),
            (r::OFFSET, settings.host_offset_bytes),
            (r::PATTERN, code(&PATTERNS, &settings.pattern)),
            (r::PATH, code(&PATHS, &settings.path)),
            (r::OUTSTANDING, settings.outstanding.into()),
            (r::TICK, 1),
            (r::ENTRIES, MAX_LATENCIES as u32),
            (r::MOST_OUTSTANDING, MAX_OUTSTANDING.into()),
        ] {
            file.set_u32(at, value);
        }
        file.set_u64(r::WINDOW_BYTES, settings.window_bytes);
        file.set_u64(r::TRANSFERS, settings.transfers);
        file.set_u64(r::WARM_UP, settings.warm_up);
        file.set_u64(r::SEED, settings.seed);
        let mut writable = vec![0; r::BAR_BYTES as usize];
        for &(at, mask) in r::WRITABLE.iter().filter(|(at, _)| *at != r::CONTROL) {
            writable[at as usize..][..4].copy_from_slice(&mask.to_le_bytes());
        }
        let (file, trouble) = (RefCell::new(file), Cell::new(Error::None));
        Front { file, writable, settings: settings.clone(), results: results.clone(), trouble }
    }

    /// Answers reads and writes of registers.
    pub(super) async fn serve(self, io: Io) {
        let front = Rc::new(self);
        while let Some(request) = io.next_request().await {
            match request {
                Request::Read(read) => {
                    let file = front.file.borrow();
                    let answer = file.read(&read);
                    read.complete(answer);
                }
                Request::Write(write) if write.at(BAR, r::CONTROL) => front.control(&io, write.u32()),
                Request::Write(write) => front.write(&write),
                _ => {}
            }
        }
    }

    fn u32(&self, offset: u64) -> u32 {
        self.file.borrow().u32(offset)
    }

    fn is_running(&self) -> bool {
        self.u32(r::STATUS) == Status::Running as u32
    }

    /// Writes settings, unless a test runs.
    fn write(&self, write: &WriteRequest) {
        if self.is_running() {
            return;
        }
        let page = self.u32(r::PAGE);
        self.file.borrow_mut().write_bits(write, &self.writable);
        if self.u32(r::PAGE) != page {
            self.show_journal();
        }
    }

    fn control(self: &Rc<Front>, io: &Io, value: u32) {
        let trouble = match (value & r::control::START != 0, value & r::control::STOP != 0) {
            (true, _) if !self.is_running() => return self.start(io),
            (true, _) => Error::Busy,
            (false, true) if self.is_running() => Error::Stopped,
            _ => return,
        };
        if trouble == Error::Stopped {
            self.results.change(|results| {
                results.phase = Phase::Done;
                results.measure_end = results.measure_end.max(results.measure_start);
            });
        }
        if self.trouble.get() != Error::Stopped {
            self.trouble.set(trouble);
        }
    }

    fn start(self: &Rc<Front>, io: &Io) {
        let settings = self.settings();
        self.trouble.set(Error::None);
        self.results.change(|results| *results = Transfers::default());
        let mut file = self.file.borrow_mut();
        file.set_u32(r::STATUS, Status::Running as u32);
        file.set_u32(r::ERROR, Error::None as u32);
        file.set_u64(r::ELAPSED, 0);
        file.set_u64(r::ENDED, 0);
        let window = file.u64(r::WINDOW);
        drop(file);
        let (front, io_of_task) = (self.clone(), io.clone());
        io.spawn(async move {
            let error = match settings {
                Err(error) => error as u32,
                Ok(settings) => front.run(&io_of_task, settings, window).await,
            };
            front.end(error);
            io_of_task.interrupt(DONE_VECTOR).await
        });
    }

    /// Runs a test, and returns its error.
    async fn run(&self, io: &Io, settings: BenchSettings, window: u64) -> u32 {
        self.results.change(|results| *results = settings.results());
        let card = Card::new(io, &Rc::new(settings), &self.results, window);
        transfer(&card).await;
        let failure = self.results.get().failure;
        let code = failure.and_then(|error| ERRORS.iter().position(|e| *e == error));
        code.map_or(self.trouble.get() as u32, |at| at as u32 + 1)
    }

    fn end(&self, error: u32) {
        let status = if error == Error::None as u32 { Status::Done } else { Status::Failed };
        self.show_journal();
        let results = self.results.get();
        let mut file = self.file.borrow_mut();
        file.set_u64(r::ELAPSED, results.elapsed().as_ps());
        file.set_u64(r::ENDED, results.transfers);
        file.set_u32(r::ERROR, error);
        file.set_u32(r::STATUS, status as u32);
    }

    /// Shows the part of the journal that software has selected.
    fn show_journal(&self) {
        let first = (self.u32(r::PAGE) as usize).saturating_mul(PAGE_ENTRIES);
        let results = self.results.get();
        let latencies = results.latencies_ps.iter().skip(first).take(PAGE_ENTRIES);
        let mut file = self.file.borrow_mut();
        file.bytes_mut()[r::JOURNAL as usize..].fill(0);
        for (at, latency) in (r::JOURNAL..).step_by(4).zip(latencies) {
            file.set_u32(at, u32::try_from(*latency).unwrap_or(u32::MAX));
        }
    }

    /// Returns the settings of the lab with those of the registers, checked.
    fn settings(&self) -> Result<BenchSettings, Error> {
        let file = self.file.borrow();
        let of = |at: u64| file.u32(at);
        let pattern = *PATTERNS.get(of(r::PATTERN) as usize).ok_or(Error::Pattern)?;
        let path = *PATHS.get(of(r::PATH) as usize).ok_or(Error::Path)?;
        let (transfers, warm_up) = (file.u64(r::TRANSFERS), file.u64(r::WARM_UP));
        transfers.checked_add(warm_up).ok_or(Error::Transfers)?;
        let settings = BenchSettings {
            test: *Test::DMA.get(of(r::TEST) as usize).ok_or(Error::Test)?,
            size_bytes: of(r::SIZE),
            window_bytes: file.u64(r::WINDOW_BYTES),
            host_offset_bytes: of(r::OFFSET),
            pattern,
            path,
            outstanding: u16::try_from(of(r::OUTSTANDING)).map_err(|_| Error::Outstanding)?,
            transfers,
            warm_up,
            seed: file.u64(r::SEED),
            ..(*self.settings).clone()
        };
        settings.check().map_err(|error| error_of(&error))?;
        let window = file.u64(r::WINDOW);
        let fits = window.checked_add(settings.window_bytes - 1).is_some();
        if fits && window.is_multiple_of(4096) { Ok(settings) } else { Err(Error::Window) }
    }
}

/// Returns the error of a setting that a register has.
fn error_of(error: &SettingsError) -> Error {
    match error {
        SettingsError::Size(_, offset) if *offset > 63 => Error::Offset,
        SettingsError::Window(..) => Error::WindowBytes,
        SettingsError::Outstanding(_) => Error::Outstanding,
        SettingsError::Transfers(_) => Error::Transfers,
        // The settings that only the lab has were checked before.
        _ => Error::Size,
    }
}
