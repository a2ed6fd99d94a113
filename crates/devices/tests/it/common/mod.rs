// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simple host: joins a host program with one device, transaction by transaction, without endpoint or link.
//! Writes arrive immediately; a DMA read takes `read_latency`. All transactions are logged.
pub(crate) mod slot;

use device::{BarIndex, Device, DmaError, Input, Output, Request, RequestOp, Token};
use endpoint::FunctionConfig;
use host::caches::CachePreparation;
use host::cpu::msi;
use host::firmware::{FoundBar, FoundFunction};
use host::{AsyncProgram, HostError, HostInput, HostMemory, HostOutput, HostProgram, HostReadId};
use std::collections::VecDeque;
use tlp::{Bdf, Class, Data, Duration, PayloadPool, Span, Time};

/// Address of BAR 0. BAR `n` is `n` strides after it.
pub(crate) const BAR_BASE: u64 = 0x8000_0000;
const BAR_STRIDE: u64 = 0x1000_0000;
/// Maximum number of inputs of a test.
pub(crate) const MAX_STEPS: usize = 10_000_000;

/// A transaction between host and device, with the address or offset and the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The host wrote a register.
    MmioWrite(u8, u64, Vec<u8>),
    /// The host read a register.
    MmioRead(u8, u64, usize),
    /// The device wrote memory.
    DmaWrite(u64, Vec<u8>),
    /// The device read memory.
    DmaRead(u64, u32),
    /// The device raised a vector.
    Interrupt(u16),
}

/// The host.
pub(crate) struct Loopback {
    pub(crate) device: Box<dyn Device>,
    pub(crate) memory: HostMemory,
    pub(crate) read_latency: Duration,
    pub(crate) log: Vec<Event>,
    /// Cache preparations that programs have requested.
    pub(crate) prepared: Vec<CachePreparation>,
    pub(crate) keep_log: bool,
    /// Completes DMA reads with this error instead.
    pub(crate) fail_reads: Option<DmaError>,
    /// Maximum number of DMA reads in flight so far.
    pub(crate) most_reads: usize,
    pool: PayloadPool,
    now: Time,
    reads: VecDeque<(Time, Input)>,
    host_reads: Vec<(Token, HostReadId)>,
    next_token: u32,
}

/// The function as found by firmware: BAR `n` at `BAR_BASE + n * BAR_STRIDE`, vectors from 32 on.
pub(crate) fn found(bar: u8, size: u64) -> FoundFunction {
    let mut bars = [None; 6];
    bars[usize::from(bar)] = Some(FoundBar { address: BAR_BASE + BAR_STRIDE * u64::from(bar), size });
    let bdf = Bdf::new(1, 0, 0).unwrap();
    FoundFunction {
        bdf,
        port: 0,
        vendor: 0x7269,
        device: 0,
        class: 0,
        bars,
        io_bars: [None; 6],
        pcie: None,
        vector_base: 32,
        vectors: 2,
    }
}

impl Loopback {
    pub(crate) fn new(function: FunctionConfig) -> Loopback {
        Loopback {
            device: function.device,
            memory: HostMemory::new(16 << 20, 16 << 20).unwrap(),
            read_latency: Duration::from_ns(500),
            log: Vec::new(),
            prepared: Vec::new(),
            keep_log: true,
            fail_reads: None,
            most_reads: 0,
            pool: PayloadPool::new(),
            now: Time::ZERO,
            reads: VecDeque::new(),
            host_reads: Vec::new(),
            next_token: 0,
        }
    }

    /// Runs `program` to its end.
    pub(crate) fn run(&mut self, program: &mut AsyncProgram) -> Result<(), String> {
        for _ in 0..MAX_STEPS {
            while self.pass_one(program) {}
            if let Some(outcome) = program.outcome() {
                return outcome.map_err(|error| error.to_string());
            }
            let dma = self.reads.front().map(|(at, _)| *at);
            let next = [dma, self.device.poll_timeout(), program.poll_timeout()].into_iter().flatten().min();
            let next = next.unwrap_or_else(|| panic!("nothing moves: {:?}", program.waits_for()));
            self.now = next.max(self.now);
            self.wake(program);
        }
        panic!("no end after {MAX_STEPS} steps: {:?}", program.waits_for());
    }

    fn note(&mut self, event: impl FnOnce() -> Event) {
        if self.keep_log {
            self.log.push(event());
        }
    }

    fn wake(&mut self, program: &mut AsyncProgram) {
        while self.reads.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, input) = self.reads.pop_front().unwrap();
            self.device.handle(self.now, input);
        }
        if self.device.poll_timeout().is_some_and(|at| at <= self.now) {
            self.device.handle(self.now, Input::Timer);
        }
        if program.poll_timeout().is_some_and(|at| at <= self.now) {
            program.handle(self.now, HostInput::Timer);
        }
    }

    /// Passes one item on. Returns false without an item.
    fn pass_one(&mut self, program: &mut AsyncProgram) -> bool {
        while self.device.poll_taken().is_some() {}
        for class in Class::ALL {
            if let Some(output) = self.device.poll_output(self.now, class) {
                self.on_device_output(output, program);
                return true;
            }
        }
        match program.poll_output(self.now) {
            Some(output) => self.on_host_output(output),
            None => return false,
        }
        true
    }

    fn on_host_output(&mut self, output: HostOutput) {
        let token = Token(self.next_token);
        self.next_token += 1;
        let op = match output {
            HostOutput::MmioWrite { address, data } => {
                let (bar, offset, span) = decode(address, data.len() as u32);
                self.note(|| Event::MmioWrite(bar, offset, data.bytes().unwrap().to_vec()));
                RequestOp::Write { bar: BarIndex(bar), offset, span, data }
            }
            HostOutput::MmioRead { id, address, len, .. } => {
                let (bar, offset, span) = decode(address, len);
                self.note(|| Event::MmioRead(bar, offset, len as usize));
                self.host_reads.push((token, id));
                RequestOp::Read { bar: BarIndex(bar), offset, span, locked: false }
            }
            // This host has no caches.
            HostOutput::Extension(request) => {
                self.prepared.push(*request.downcast::<CachePreparation>().unwrap());
                return;
            }
            other => panic!("drivers leave configuration space alone: {other:?}"),
        };
        let request = Request::new(token, op);
        self.device.handle(self.now, Input::Request(request));
    }

    fn on_device_output(&mut self, output: Output, program: &mut AsyncProgram) {
        match output {
            Output::Write(write) => {
                if let Some(bytes) = write.data.bytes() {
                    self.memory.write(write.address, bytes).unwrap();
                }
                let bytes = || write.data.bytes().unwrap_or_default().to_vec();
                self.note(|| Event::DmaWrite(write.address, bytes()));
            }
            Output::Read(read) => {
                self.note(|| Event::DmaRead(read.address, read.len));
                let bytes = self.memory.payload(&self.pool, read.address, read.len as usize);
                let data = if read.carry { bytes.map(Data::Carried) } else { Ok(Data::Counted(read.len)) };
                let data = data.map_err(|_| DmaError::UnsupportedRequest);
                let result = self.fail_reads.map_or(data, Err);
                let input = Input::DmaDone { id: read.id, result };
                self.reads.push_back((self.now + self.read_latency, input));
                self.most_reads = self.most_reads.max(self.reads.len());
            }
            Output::Interrupt { vector } => {
                self.note(|| Event::Interrupt(vector));
                program.handle(self.now, msi(32 + vector));
            }
            Output::Complete { token, result } => {
                let at = self.host_reads.iter().position(|(t, _)| *t == token).expect("answered once");
                let (_, id) = self.host_reads.swap_remove(at);
                program
                    .handle(self.now, HostInput::Done { id, result: result.map_err(HostError::Completion) });
            }
            other => panic!("no device here does this: {other:?}"),
        }
    }
}

fn decode(address: u64, len: u32) -> (u8, u64, Span) {
    let bar = (address - BAR_BASE) / BAR_STRIDE;
    (bar as u8, (address - BAR_BASE) % BAR_STRIDE, Span::covering(address, len).unwrap())
}
