// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the 82574L for any driver and any network. Two fuzz targets call them, and the tests of
//! `riser-devices` on random scripts. A failed check panics.

use riser_config::PcieLayout;
use riser_device::{BarIndex, Device, DmaError, Input, Output, Request, RequestOp, ResetKind, Token};
use riser_devices::ethernet::{Cable, LinkInput, MAX_FRAMES_TO_WIRE, Modes, WireCounters};
use riser_devices::intel_82574::{Counters, Layout, function};
use riser_plug::Shared;
use riser_tlp::{Class, Data, Duration, PayloadPool, Span, Time};
use std::collections::BTreeMap;

/// Size of host memory in bytes, from address 0 on. Reads above it fail.
const MEMORY: usize = 1 << 17;
/// Maximum number of outputs in one step. It allows a ring of 65,536 descriptors with a few transfers each.
const TURNS: u32 = 2_000_000;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Registers with an effect.
const REGISTERS: [u32; 42] = [
    0x0, 0x8, 0x10, 0x14, 0x18, 0x20, 0xc0, 0xc4, 0xc8, 0xd0, 0xd8, 0xdc, 0xe0, 0xe4, 0xe8, 0x100, 0x400,
    0xf00, 0x1000, 0x102c, 0x2800, 0x2804, 0x2808, 0x2810, 0x2818, 0x3800, 0x3804, 0x3808, 0x3810, 0x3818,
    0x3900, 0x3908, 0x3910, 0x3918, 0x5000, 0x5008, 0x5200, 0x5400, 0x5404, 0x5800, 0x5808, 0x5b50,
];

/// The NIC, its host's memory and its network.
pub(crate) struct Bench {
    device: Box<dyn Device>,
    cable: Cable,
    counters: Shared<Counters>,
    memory: Vec<u8>,
    pool: PayloadPool,
    now: Time,
    /// Register reads that are not completed yet.
    asked: BTreeMap<Token, u32>,
    answer: u32,
    next: u32,
    pushed: u64,
    pub(crate) pme: u64,
    pub(crate) interrupts: BTreeMap<u16, u64>,
    /// Ranges that the device may write; `None` for all of memory.
    allowed: Option<Vec<std::ops::Range<u64>>>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let (cable, counters, pool) = (Cable::default(), Shared::default(), PayloadPool::new());
        let layout = Layout { mac: MAC, negotiation: Duration::from_us(10), pcie: PcieLayout::default() };
        let made = function(layout, &pool, cable.clone(), cable.inbox(), &counters).expect("a legal layout");
        let mut bench = Bench {
            device: made.device,
            cable,
            counters,
            memory: vec![0; MEMORY],
            pool,
            now: Time::ZERO,
            asked: BTreeMap::new(),
            answer: 0,
            next: 0,
            pushed: 0,
            pme: 0,
            interrupts: BTreeMap::new(),
            allowed: None,
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
        self.device.handle(self.now, Input::Request(Request::new(token, op)));
        token
    }

    fn write_bytes(&mut self, at: u64, bytes: &[u8]) {
        let Ok(span) = Span::covering(at, bytes.len() as u32) else { return };
        let data = Data::Carried(self.pool.copy(bytes));
        self.request(RequestOp::Write { bar: BarIndex(0), offset: at, span, data });
        self.settle();
    }

    pub(crate) fn write(&mut self, at: u64, value: u32) {
        self.write_bytes(at, &value.to_le_bytes());
    }

    pub(crate) fn read(&mut self, at: u64) -> u32 {
        self.read_bytes(at, 4)
    }

    fn read_bytes(&mut self, at: u64, len: u32) -> u32 {
        let Ok(span) = Span::covering(at, len) else { return 0 };
        let token = self.request(RequestOp::Read { bar: BarIndex(0), offset: at, span, locked: false });
        self.asked.insert(token, len);
        self.settle();
        assert!(self.asked.is_empty(), "register read without an answer");
        self.answer
    }

    pub(crate) fn store(&mut self, at: usize, bytes: &[u8]) {
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn load(&self, at: usize, len: usize) -> &[u8] {
        &self.memory[at..at + len]
    }

    pub(crate) fn frame(&mut self, frame: &[u8]) {
        self.pushed += 1;
        self.cable.frame_from_wire(frame);
        self.settle();
    }

    pub(crate) fn cable(&self) -> &Cable {
        &self.cable
    }

    pub(crate) fn wire(&self) -> WireCounters {
        self.cable.counters()
    }

    pub(crate) fn link(&mut self, input: LinkInput) {
        self.cable.change_link(input);
        self.settle();
    }

    pub(crate) fn reset(&mut self) {
        self.device.handle(self.now, Input::Reset(ResetKind::Hot));
        self.settle();
    }

    /// Returns the frames sent since the last call.
    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.cable.frame_to_wire()).collect()
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.device.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.device.handle(self.now, Input::Timer);
            self.settle();
        }
        self.now = end;
    }

    /// Processes outputs until the device has none at the current time.
    fn settle(&mut self) {
        for _ in 0..TURNS {
            while self.device.poll_taken().is_some() {}
            let output = Class::ALL.into_iter().find_map(|class| self.device.poll_output(self.now, class));
            match output {
                Some(output) => self.take(output),
                None if self.device.poll_timeout().is_some_and(|at| at <= self.now) => {
                    self.device.handle(self.now, Input::Timer);
                }
                None => return,
            }
        }
        panic!("output never ends: {:?}", self.device.waits_for());
    }

    fn take(&mut self, output: Output) {
        match output {
            Output::Write(write) => {
                let bytes = write.data.bytes().expect("the write carries bytes");
                let end = write.address.saturating_add(bytes.len() as u64);
                assert!(bytes.len() <= 16 << 10, "a write of {} bytes", bytes.len());
                if let Some(allowed) = &self.allowed {
                    let is_in = allowed.iter().any(|place| place.start <= write.address && end <= place.end);
                    assert!(is_in, "a write to {:#x}", write.address);
                }
                if let Some(to) = usize::try_from(write.address)
                    .ok()
                    .and_then(|at| self.memory.get_mut(at..)?.get_mut(..bytes.len()))
                {
                    to.copy_from_slice(bytes);
                }
            }
            Output::Read(read) => {
                assert!(read.len <= 24 << 10, "a read of {} bytes", read.len);
                let at = usize::try_from(read.address).unwrap_or(usize::MAX);
                let there = self.memory.get(at..).and_then(|bytes| bytes.get(..read.len as usize));
                let result = there
                    .map(|bytes| Data::Carried(self.pool.copy(bytes)))
                    .ok_or(DmaError::UnsupportedRequest);
                self.device.handle(self.now, Input::DmaDone { id: read.id, result });
            }
            Output::Complete { token, result } => {
                let len = self.asked.remove(&token).expect("the host waits for this read");
                let bytes = result.ok().and_then(|data| data.bytes().map(<[u8]>::to_vec));
                self.answer = bytes.map_or(u32::MAX, |bytes| {
                    assert_eq!(bytes.len(), len as usize);
                    bytes.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
                });
            }
            Output::Interrupt { vector } => *self.interrupts.entry(vector).or_default() += 1,
            Output::Pme => self.pme += 1,
            Output::Intx { .. } => {}
            other => panic!("unexpected output {other:?}"),
        }
    }

    /// Sets up a receive ring with 8 buffers of 2048 B at 10000h and a transmit ring at 2000h. Receives unicast frames to the NIC and
    /// broadcast frames.
    pub(crate) fn set_up(&mut self) {
        for n in 0..8_u64 {
            self.store(0x1000 + 16 * n as usize, &(0x10000 + 0x800 * n).to_le_bytes());
        }
        for (at, value) in [
            (0x2800, 0x1000),
            (0x2808, 128),
            (0x3800, 0x2000),
            (0x3808, 128),
            (0, 0x40),
            (0x400, 0xa),
            (0x100, 0x0400_8002),
        ] {
            self.write(at, value);
        }
        self.wait(Duration::from_us(20));
        self.write(0x2818, 7);
    }
}

/// Runs a driver's script. Each step is a byte and its arguments.
pub(crate) fn driver(mut script: &[u8]) -> Counters {
    let mut bench = Bench::new();
    bench.store(0x2000, &[0x55; 64]);
    let mut out = 0;
    while let [op, a, b, c, rest @ ..] = script {
        script = rest;
        let value = u32::from_le_bytes([*b, *c, *a >> 4, *c]);
        let register = u64::from(REGISTERS[usize::from(*a) % REGISTERS.len()]);
        match op % 9 {
            0 => bench.write(register, value),
            1 => bench.write(register, u32::from(*b) | u32::from(*c) << 8),
            2 => _ = bench.read(register),
            3 => _ = bench.read_bytes(u64::from(*b) << 8 | u64::from(*c), u32::from(*a % 8) + 1),
            4 => bench.write_bytes(u64::from(*b) << 9 | u64::from(*c), &vec![*a; usize::from(*a % 9)]),
            5 => bench.store(usize::from(*a) << 4, &[*b, *c, 0, 0, *c, 0, *b, *a]),
            6 => bench.frame(&vec![*b; usize::from(*c) * 40]),
            7 => bench.link(match Modes::from_bits(*a) {
                Some(modes) => LinkInput::Far(modes),
                None => LinkInput::Plugged(*b % 2 == 0),
            }),
            _ => bench.wait(Duration::from_us(u64::from(*a))),
        }
        out += count(&bench.sent());
    }
    bench.wait(Duration::from_ms(2000));
    out += count(&bench.sent());
    let (counters, wire) = (bench.counters(), bench.wire());
    assert_eq!(wire.from_wire, bench.pushed);
    assert!(out + wire.to_wire_lost <= counters.tx_frames, "{counters:?}");
    counters
}

fn count(frames: &[Vec<u8>]) -> u64 {
    assert!(frames.len() <= MAX_FRAMES_TO_WIRE);
    frames.iter().for_each(|frame| assert!((14..=9234).contains(&frame.len()), "{} bytes", frame.len()));
    frames.len() as u64
}

/// Receives frames. Three bytes of the script give the length, the content and the kind of each. The device writes
/// only the buffers and the ring, and counts every frame once.
pub(crate) fn network(script: &[u8]) -> Counters {
    let mut bench = Bench::new();
    bench.set_up();
    // The ring and the buffers. The driver returns each buffer.
    bench.allowed = Some(vec![0x1000..0x1080, 0x10000..0x14000]);
    for step in script.as_chunks::<3>().0 {
        let [len, byte, kind] = *step;
        let mut frame = vec![byte; usize::from(len) * 9];
        let head: [u8; 16] = match kind % 4 {
            0 => [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, kind, byte],
            1 => [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, byte],
            2 => [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, kind, byte],
            _ => [byte; 16],
        };
        let known = frame.len().min(16);
        frame[..known].copy_from_slice(&head[..known]);
        bench.frame(&frame);
        if kind & 0x80 == 0 {
            let head = bench.read(0x2810);
            bench.write(0x2818, (head + 7) % 8);
        }
    }
    let waiting = u64::from(bench.cable.inbox().len() as u32);
    let (counters, wire) = (bench.counters(), bench.wire());
    let accounted =
        counters.rx_frames + counters.filtered + counters.refused_frames + wire.from_wire_lost + waiting;
    // The device may keep one frame until a buffer is free.
    assert!(accounted <= bench.pushed && accounted + 1 >= bench.pushed, "{counters:?} {wire:?}");
    assert_eq!(counters.dma_errors, 0);
    counters
}
