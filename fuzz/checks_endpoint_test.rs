// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the endpoint of `pci_endpoint_test` for any driver. A fuzz target calls them, and the tests of
//! `riser-devices` on random scripts. A failed check panics.

use riser_config::PcieLayout;
use riser_device::{BarIndex, Device, DmaError, Input, Output, Request, RequestOp, Token};
use riser_devices::endpoint_test::{Counters, Settings, function};
use riser_plug::Shared;
use riser_tlp::{Class, Data, PayloadPool, Span, Time};
use std::collections::BTreeMap;

/// Size of host memory in bytes, from address 0 on. Requests above it fail.
pub(crate) const MEMORY: usize = 1 << 17;
/// Maximum number of outputs in one step. It allows a transfer of any legal size.
const TURNS: u32 = 1_000_000;
pub(crate) const COMMAND: u64 = 0x04;
pub(crate) const STATUS: u64 = 0x08;
const IRQ_TYPE: u64 = 0x24;
const IRQ_NUMBER: u64 = 0x28;

/// The endpoint and its host.
pub(crate) struct Bench {
    device: Box<dyn Device>,
    settings: Settings,
    counters: Shared<Counters>,
    pub(crate) memory: Vec<u8>,
    pool: PayloadPool,
    next: u32,
    /// BAR reads that are not completed yet. Then the last result: the data, or `None` if the read was refused.
    asked: BTreeMap<Token, usize>,
    answer: Option<Vec<u8>>,
    pub(crate) interrupts: BTreeMap<u16, u64>,
    pub(crate) intx: bool,
    /// Command to write before the device's next output is handled.
    pub(crate) meanwhile: Option<u32>,
}

impl Bench {
    pub(crate) fn new(settings: Settings) -> Bench {
        let (counters, pool) = (Shared::default(), PayloadPool::new());
        let made = function(&settings, PcieLayout::default(), &pool, &counters).expect("legal settings");
        let mut bench = Bench {
            device: made.device,
            settings,
            counters,
            memory: vec![0; MEMORY],
            pool,
            next: 0,
            asked: BTreeMap::new(),
            answer: None,
            interrupts: BTreeMap::new(),
            intx: false,
            meanwhile: None,
        };
        bench.settle();
        bench
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.counters.get()
    }

    fn request(&mut self, op: RequestOp) -> Token {
        let token = Token(self.next);
        self.next += 1;
        self.device.handle(Time::ZERO, Input::Request(Request::new(token, op)));
        token
    }

    /// Writes bytes of a BAR, and waits until the device has no more output.
    pub(crate) fn write_bytes(&mut self, bar: u8, offset: u64, bytes: &[u8]) {
        self.post(bar, offset, bytes);
        self.settle();
    }

    fn post(&mut self, bar: u8, offset: u64, bytes: &[u8]) {
        let Ok(span) = Span::covering(offset, bytes.len() as u32) else { return };
        let data = Data::Carried(self.pool.copy(bytes));
        self.request(RequestOp::Write { bar: BarIndex(bar), offset, span, data });
    }

    pub(crate) fn read_bytes(&mut self, bar: u8, offset: u64, len: u32) -> Option<Vec<u8>> {
        let span = Span::covering(offset, len).ok()?;
        let token = self.request(RequestOp::Read { bar: BarIndex(bar), offset, span, locked: false });
        self.asked.insert(token, len as usize);
        self.settle();
        assert!(self.asked.is_empty(), "BAR read without an answer");
        self.answer.take()
    }

    pub(crate) fn write(&mut self, register: u64, value: u32) {
        self.write_bytes(0, register, &value.to_le_bytes());
    }

    pub(crate) fn read(&mut self, register: u64) -> u32 {
        let bytes = self.read_bytes(0, register, 4).expect("a register");
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    /// Processes outputs until the device has none.
    fn settle(&mut self) {
        for _ in 0..TURNS {
            while self.device.poll_taken().is_some() {}
            let output = Class::ALL.into_iter().find_map(|class| self.device.poll_output(Time::ZERO, class));
            match output {
                Some(output) => self.take(output),
                None if self.device.poll_timeout().is_some() => self.device.handle(Time::ZERO, Input::Timer),
                None => return,
            }
        }
        panic!("output never ends: {:?}", self.device.waits_for());
    }

    fn take(&mut self, output: Output) {
        if let Some(command) = self.meanwhile.take() {
            self.post(0, COMMAND, &command.to_le_bytes());
        }
        match output {
            Output::Write(write) => {
                let bytes = write.data.bytes().expect("the write carries bytes");
                in_one_page(write.address, bytes.len());
                let to = usize::try_from(write.address).unwrap_or(usize::MAX);
                if let Some(to) = self.memory.get_mut(to..).and_then(|to| to.get_mut(..bytes.len())) {
                    to.copy_from_slice(bytes);
                }
            }
            Output::Read(read) => {
                in_one_page(read.address, read.len as usize);
                let (at, len) = (usize::try_from(read.address).unwrap_or(usize::MAX), read.len as usize);
                // A read of zero bytes also has an address.
                let is_there = at.checked_add(len.max(1)).is_some_and(|end| end <= MEMORY);
                let result = match (is_there, read.carry) {
                    (false, _) => Err(DmaError::UnsupportedRequest),
                    (true, true) => Ok(Data::Carried(self.pool.copy(&self.memory[at..at + len]))),
                    (true, false) => Ok(Data::Counted(read.len)),
                };
                self.device.handle(Time::ZERO, Input::DmaDone { id: read.id, result });
            }
            Output::Complete { token, result } => {
                let len = self.asked.remove(&token).expect("the host waits for this read");
                self.answer =
                    result.ok().map(|data| data.bytes().expect("the answer carries bytes").to_vec());
                assert!(self.answer.as_ref().is_none_or(|bytes| bytes.len() == len));
            }
            Output::Interrupt { vector } => {
                assert!(vector < self.settings.msix.max(self.settings.msi.into()), "vector {vector}");
                *self.interrupts.entry(vector).or_default() += 1;
            }
            Output::Intx { asserted } => {
                assert!(self.settings.intx && self.intx != asserted, "INTx message without a change");
                self.intx = asserted;
            }
            other => panic!("unexpected output {other:?}"),
        }
    }
}

fn in_one_page(address: u64, len: usize) {
    assert!(address % 4096 + len as u64 <= 4096, "{len} B at {address:#x}");
}

/// Runs a driver's script. Each step is a byte and its arguments.
pub(crate) fn driver(mut script: &[u8]) -> Counters {
    let settings = Settings { msi: 4, msix: 8, transfer_bytes: 1 << 20, ..Settings::default() };
    let settings = Settings { sizes_bytes: Vec::new(), bar_bytes: [8192, 0, 128, 4096, 0, 256], ..settings };
    let mut bench = Bench::new(settings);
    bench.memory.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n ^ n >> 8) as u8);
    let mut interrupts = 0;
    while let [op, a, b, c, rest @ ..] = script {
        script = rest;
        let value = u32::from_le_bytes([*b, *c, *a, *c]);
        match op % 8 {
            // Writes a register: any value, a small one, or a possible address or size.
            0 => bench.write(4 * u64::from(*a % 12), value),
            1 => bench.write(4 * u64::from(*a % 12), u32::from(*b % 10)),
            2 => bench.write(4 * u64::from(*a % 12), u32::from(*b) << 8 | u32::from(*c)),
            3 => bench.write(COMMAND, 1 << (*a % 7)),
            4 => bench.meanwhile = Some(1 << (*a % 7)),
            5 => bench.write_bytes(*a % 7, u64::from(*b) << (*c % 8), &vec![*c; usize::from(*a % 40) + 1]),
            6 => _ = bench.read_bytes(*a % 7, u64::from(*b) << (*c % 8), u32::from(*c % 40) + 1),
            _ => bench.write_bytes(0, u64::from(*a % 48), &[*b, *c][..usize::from(*a % 2) + 1]),
        }
        assert_eq!(bench.read(COMMAND), 0, "COMMAND is cleared immediately");
        for (vector, count) in std::mem::take(&mut bench.interrupts) {
            let (kind, number) = (bench.read(IRQ_TYPE), bench.read(IRQ_NUMBER));
            assert!(number == u32::from(vector) + 1, "vector {vector} for number {number}");
            assert!((kind, number) <= (1, 4) || kind == 2, "number {number} of kind {kind}");
            interrupts += count;
        }
        bench.read(STATUS);
        assert!(!bench.intx, "INTx after a read of STATUS");
    }
    let counters = bench.counters();
    assert!(counters.failed <= counters.reads + counters.writes + counters.copies, "{counters:?}");
    assert!(interrupts <= counters.interrupts, "{counters:?}");
    counters
}
