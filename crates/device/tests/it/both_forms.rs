// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small device (a register file with a copy engine), written directly and as `async` code. Both forms behave the
//! same for any script of inputs.

use crate::rig::{Event, Rig};
use proptest::prelude::*;
use riser_device::io::{RegisterFile, Request};
use riser_device::{AsyncDevice, BarIndex, DmaError, DmaId, DmaRead, DmaWrite, Io};
use riser_device::{Device, Input, Output, RequestOp, Token};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tlp::{Class, Data, Time};

const BAR: BarIndex = BarIndex(0);
const SOURCE: u64 = 0;
const TARGET: u64 = 8;
const LENGTH: u64 = 16;
/// Write: starts a copy. Read: copies done, and failed copies in bits 31:16.
const CONTROL: u64 = 24;
const VECTOR: u16 = 1;

/// Each copy reads, writes, sends an interrupt and counts, concurrently with other copies.
async fn copier(io: Io) {
    let mut registers = RegisterFile::new(CONTROL as usize);
    let done = Rc::new(Cell::new(0u32));
    while let Some(request) = io.next_request().await {
        match request {
            Request::Write(w) if w.at(BAR, CONTROL) => {
                let (source, target) = (registers.u64(SOURCE), registers.u64(TARGET));
                let (io, len, done) = (io.clone(), registers.u32(LENGTH), Rc::clone(&done));
                io.clone().spawn(async move {
                    let one = if copy(io, source, target, len).await.is_ok() { 1 } else { 1 << 16 };
                    done.set(done.get() + one);
                });
            }
            Request::Write(w) => {
                registers.write(&w);
            }
            Request::Read(r) if r.at(BAR, CONTROL) => r.complete(done.get()),
            Request::Read(r) => {
                let answer = registers.read(&r);
                r.complete(answer);
            }
            _ => {}
        }
    }
}

async fn copy(io: Io, source: u64, target: u64, len: u32) -> Result<(), DmaError> {
    let bytes = io.dma_read(source, len).await?;
    io.dma_write(target, bytes).await?;
    io.interrupt(VECTOR).await
}

/// The same device as a state machine.
#[derive(Default)]
struct Copier {
    registers: Vec<u8>,
    done: u32,
    next_id: u32,
    targets: BTreeMap<DmaId, u64>,
    posted: VecDeque<Output>,
    reads: VecDeque<Output>,
    completions: VecDeque<Output>,
    taken: VecDeque<Token>,
}

impl Copier {
    fn new() -> Copier {
        Copier { registers: vec![0; CONTROL as usize], ..Copier::default() }
    }

    fn register(&self, offset: u64) -> u64 {
        u64::from_le_bytes(*self.registers[offset as usize..].first_chunk().unwrap())
    }

    fn request(&mut self, token: Token, op: RequestOp) {
        self.taken.push_back(token);
        match op {
            RequestOp::Write { offset: CONTROL, .. } => self.start(),
            RequestOp::Write { offset, data, .. } => self.write(offset as usize, data.bytes().unwrap()),
            RequestOp::Read { offset, span, .. } => {
                self.read(token, offset as usize, span.byte_count() as usize)
            }
            other => unreachable!("{other:?} is not for this device"),
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        for (at, byte) in (offset..).zip(bytes) {
            if let Some(to) = self.registers.get_mut(at) {
                *to = *byte;
            }
        }
    }

    fn read(&mut self, token: Token, offset: usize, len: usize) {
        let pool = tlp::PayloadPool::new();
        let result = if offset as u64 == CONTROL {
            let mut bytes = self.done.to_le_bytes().to_vec();
            bytes.resize(len, 0);
            Ok(Data::Carried(pool.copy(&bytes)))
        } else {
            let bytes = self.registers.get(offset..offset + len);
            bytes
                .map(|bytes| Data::Carried(pool.copy(bytes)))
                .ok_or(riser_device::CompletionError::UnsupportedRequest)
        };
        self.completions.push_back(Output::Complete { token, result });
    }

    fn start(&mut self) {
        let id = DmaId(self.next_id);
        self.next_id += 1;
        self.targets.insert(id, self.register(TARGET));
        let (address, len) = (self.register(SOURCE), self.register(LENGTH) as u32);
        self.reads.push_back(Output::Read(DmaRead::new(id, address, len)));
    }

    fn dma_done(&mut self, id: DmaId, result: Result<Data, DmaError>) {
        let Some(address) = self.targets.remove(&id) else { return };
        match result {
            Ok(data) => self.posted.push_back(Output::Write(DmaWrite::new(address, data))),
            Err(_) => self.done += 1 << 16,
        }
    }
}

impl Device for Copier {
    fn handle(&mut self, _: Time, input: Input) {
        match input {
            Input::Request(request) => self.request(request.token, request.op),
            Input::DmaDone { id, result } => self.dma_done(id, result),
            Input::Reset(_) => *self = Copier { next_id: self.next_id, ..Copier::new() },
            _ => {}
        }
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<Output> {
        let output = match class {
            Class::Posted => self.posted.pop_front(),
            Class::NonPosted => self.reads.pop_front(),
            Class::Completion => self.completions.pop_front(),
        };
        match output {
            Some(Output::Write(_)) => self.posted.push_back(Output::Interrupt { vector: VECTOR }),
            Some(Output::Interrupt { .. }) => self.done += 1,
            _ => {}
        }
        output
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Read(u64, u32),
    Start,
    /// Answers one of the outstanding reads.
    Answer(usize),
    Fail(usize),
    /// Sets which classes have room.
    Open([bool; 3]),
    /// Accepts one output.
    One(Class),
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop::sample::select(Class::ALL.to_vec());
    prop_oneof![
        3 => (0..4u64, prop::collection::vec(any::<u8>(), 1..=4)).prop_map(|(dw, bytes)| Step::Write(dw * 4, bytes)),
        1 => (1..64u32).prop_map(|len| Step::Write(LENGTH, len.to_le_bytes().to_vec())),
        3 => (0..30u64, 1..=4u32).prop_map(|(offset, len)| Step::Read(offset, len)),
        2 => Just(Step::Read(CONTROL, 4)),
        4 => Just(Step::Start),
        4 => (0..8usize).prop_map(Step::Answer),
        1 => (0..8usize).prop_map(Step::Fail),
        2 => any::<[bool; 3]>().prop_map(Step::Open),
        2 => class.prop_map(Step::One),
        1 => Just(Step::Reset),
    ]
}

fn play(device: impl Device + 'static, script: &[Step]) -> Vec<Event> {
    let mut rig = Rig::new(device);
    let mut all = Vec::new();
    for (n, step) in script.iter().enumerate() {
        rig.now = Time::from_ps(n as u64);
        take(&mut rig, step);
        all.append(&mut rig.log);
    }
    rig.open = [true; 3];
    rig.poll_all();
    all.append(&mut rig.log);
    all
}

fn take(rig: &mut Rig, step: &Step) {
    let under_way = rig.reads.len();
    match step {
        Step::Write(offset, bytes) => drop(rig.write(*offset, bytes)),
        Step::Read(offset, len) => drop(rig.read(*offset, *len)),
        Step::Start => drop(rig.write(CONTROL, &[1])),
        Step::Answer(n) if under_way > 0 => rig.answer(n % under_way),
        Step::Fail(n) if under_way > 0 => {
            let id = rig.reads.remove(n % under_way).id;
            rig.done(id, Err(DmaError::CompleterAbort));
        }
        Step::Answer(_) | Step::Fail(_) => {}
        Step::Open(open) => {
            rig.open = *open;
            rig.poll_all();
        }
        Step::One(class) => drop(rig.poll_one(*class)),
        Step::Reset => rig.reset(),
    }
}

/// A script with every kind of step, and the expected events of both forms.
#[test]
fn async_and_trait_devices_follow_the_script() {
    let script = [
        Step::Write(SOURCE, vec![0x40]),
        Step::Write(TARGET, vec![0x80]),
        Step::Write(LENGTH, vec![2]),
        Step::Start,
        Step::Open([false, true, true]),
        Step::Answer(0),
        Step::Read(CONTROL, 4),
        Step::One(Class::Posted),
        Step::Open([true; 3]),
        Step::Read(CONTROL, 4),
        Step::Start,
        Step::Reset,
        Step::Answer(0),
        Step::Read(SOURCE, 1),
    ];
    let pool = tlp::PayloadPool::new();
    let carried = |bytes: &[u8]| Data::Carried(pool.copy(bytes));
    let expected = [
        Event::Taken(0),
        Event::Taken(1),
        Event::Taken(2),
        Event::Taken(3),
        Event::Read(0x40, 2),
        Event::Taken(4),
        Event::Complete(4, Ok(carried(&[0; 4]))),
        Event::Write(0x80, carried(&[0x40, 0x41])),
        Event::Interrupt(VECTOR),
        Event::Taken(5),
        Event::Complete(5, Ok(carried(&[1, 0, 0, 0]))),
        Event::Taken(6),
        Event::Read(0x40, 2),
        Event::Taken(7),
        Event::Complete(7, Ok(carried(&[0]))),
    ];
    assert_eq!(play(Copier::new(), &script), expected);
    assert_eq!(play(AsyncDevice::new(copier), &script), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn async_and_trait_devices_behave_alike(script in prop::collection::vec(step(), 0..80)) {
        prop_assert_eq!(play(Copier::new(), &script), play(AsyncDevice::new(copier), &script));
    }
}
