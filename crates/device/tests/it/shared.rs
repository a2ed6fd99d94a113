// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One engine for several functions: callbacks with the number of the function, and channels between `async` functions.

use riser_device::Channel;
use riser_device::Request as Request_;
use riser_device::io::{Io, Request};
use riser_device::shared::{Engine, SharedEngine};
use riser_device::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::*;

/// A copier: a write to any function is a source address. The engine reads at these addresses, one at a time, in the
/// order of all doorbells. It reports to the function whose doorbell was written.
#[derive(Default)]
struct Copier {
    waiting: VecDeque<(u16, u64)>,
    busy: Option<u16>,
    taken: Vec<(u16, Token)>,
    finished: Vec<u16>,
    told: Vec<(u16, u16, u32, u32)>,
    vectors: u16,
}

impl Engine for Copier {
    fn handle(&mut self, _now: Time, function: u16, input: Input) {
        match input {
            Input::Request(Request_ { token, op: RequestOp::Write { data, .. }, .. }) => {
                self.taken.push((function, token));
                let bytes = data.bytes().unwrap().try_into().unwrap();
                self.waiting.push_back((function, u64::from_le_bytes(bytes)));
            }
            Input::DmaDone { .. } => self.finished.extend(self.busy.take()),
            Input::Reset(_) => {
                self.waiting.retain(|(f, _)| *f != function);
                self.busy = self.busy.filter(|f| *f != function);
            }
            _ => {}
        }
    }

    fn poll_output(&mut self, _now: Time, function: u16, class: Class) -> Option<Output> {
        if !self.ready(function).contains(Ready::output(class)) {
            return None;
        }
        let (_, address) = self.waiting.pop_front()?;
        self.busy = Some(function);
        Some(Output::Read(DmaRead::new(DmaId(0), address, 64)))
    }

    fn ready(&self, function: u16) -> Ready {
        let next = self.waiting.front().is_some_and(|(f, _)| *f == function);
        let taken = self.taken.iter().any(|(f, _)| *f == function);
        let read = if next && self.busy.is_none() { Ready::output(Class::NonPosted) } else { Ready::NONE };
        if taken { read.or(Ready::TAKEN) } else { read }
    }

    fn poll_taken(&mut self, function: u16) -> Option<Token> {
        let at = self.taken.iter().position(|(f, _)| *f == function)?;
        Some(self.taken.remove(at).1)
    }

    fn poll_timeout(&self, _function: u16) -> Option<Time> {
        None
    }

    fn set_vectors(&mut self, function: u16, vectors: u16) {
        self.vectors = function << 8 | vectors;
    }

    fn set_sizes(&mut self, function: u16, mps: Mps, mrrs: Mrrs) {
        self.told.push((function, self.vectors, mps.bytes(), mrrs.bytes()));
    }
}

fn doorbell(token: u32, value: u64) -> Input {
    let data = Data::Carried(PayloadPool::new().copy(&value.to_le_bytes()));
    let op = RequestOp::Write { bar: BarIndex(0), offset: 0, span: Span::covering(0, 8).unwrap(), data };
    Input::Request(Request_::new(Token(token), op))
}

fn asks(device: &mut dyn Device) -> Option<u64> {
    match device.poll_output(Time::ZERO, Class::NonPosted)? {
        Output::Read(read) => Some(read.address),
        other => panic!("{other:?}"),
    }
}

fn done() -> Input {
    Input::DmaDone { id: DmaId(0), result: Ok(Data::Counted(64)) }
}

#[test]
fn one_engine_serves_functions_in_doorbell_order() {
    let engine = SharedEngine::new(Copier::default());
    let mut functions: Vec<Box<dyn Device>> = (0..3).map(|n| engine.function(n)).collect();
    for (n, address) in [(2, 0x2000), (0, 0x1000), (1, 0x3000)] {
        functions[n].handle(Time::ZERO, doorbell(n as u32, address));
        assert_eq!(functions[n].poll_taken(), Some(Token(n as u32)));
    }
    assert_eq!(asks(&mut *functions[0]), None, "it is the turn of function 2");
    assert_eq!(asks(&mut *functions[2]), Some(0x2000));
    assert!(!functions[0].ready().contains(Ready::output(Class::NonPosted)), "one at a time");
    functions[2].handle(Time::ZERO, done());
    assert_eq!(asks(&mut *functions[0]), Some(0x1000));
    functions[0].handle(Time::ZERO, Input::Reset(ResetKind::FunctionLevel));
    assert_eq!(asks(&mut *functions[1]), Some(0x3000), "a reset of one frees the engine for others");
    functions[1].handle(Time::ZERO, done());
    assert_eq!(engine.with(|e| e.finished.clone()), [2, 1]);
}

#[test]
fn engine_gets_settings_of_each_function() {
    let engine = SharedEngine::new(Copier::default());
    for (n, mps) in [(1, 128), (2, 256)] {
        let mut function = engine.function(n);
        function.set_vectors(4);
        function.set_sizes(Mps::new(mps).unwrap(), Mrrs::new(4096).unwrap());
    }
    assert_eq!(engine.with(|e| e.told.clone()), [(1, 0x104, 128, 4096), (2, 0x204, 256, 4096)]);
}

/// Virtual functions send their doorbells to one task of the physical function, through a channel for two values.
#[test]
fn channel_connects_tasks_of_several_functions() {
    let channel: Channel<(u16, u64)> = Channel::new(2);
    let served = Rc::new(RefCell::new(Vec::new()));
    let (work, log) = (channel.clone(), Rc::clone(&served));
    let mut physical = AsyncDevice::new(move |io: Io| {
        let (work, log) = (work.clone(), Rc::clone(&log));
        async move {
            loop {
                io.sleep(Duration::from_us(1)).await;
                let job = work.receive().await;
                log.borrow_mut().push((job, io.now()));
            }
        }
    });
    let mut virtuals: Vec<AsyncDevice> = (0..2).map(|n| sender(n, channel.clone())).collect();
    for n in 0..6u32 {
        virtuals[n as usize % 2].handle(Time::ZERO, doorbell(n, u64::from(n)));
    }
    assert_eq!(channel.len(), 2, "the others wait for room");
    for step in 0..12 {
        let now = Time::ZERO + Duration::from_us(step);
        physical.handle(now, Input::Timer);
        for device in &mut virtuals {
            if device.ready().contains(Ready::TAKEN) {
                assert!(device.poll_output(now, Class::Posted).is_none());
            }
        }
    }
    let order: Vec<u64> = served.borrow().iter().map(|((_, value), _)| *value).collect();
    assert_eq!(order.len(), 6);
    for n in 0..2 {
        let own: Vec<u64> =
            served.borrow().iter().filter(|((f, _), _)| *f == n).map(|((_, v), _)| *v).collect();
        assert_eq!(own, [u64::from(n), u64::from(n) + 2, u64::from(n) + 4], "each in its order");
    }
    assert_eq!(served.borrow()[0].1, Time::ZERO + Duration::from_us(1));
    assert!(channel.is_empty());

    virtuals[0].handle(Time::ZERO + Duration::from_us(20), Input::Reset(ResetKind::FunctionLevel));
    virtuals[0].handle(Time::ZERO + Duration::from_us(20), doorbell(9, 9));
    assert_eq!(channel.len(), 1, "the channel outlives a reset");
}

fn sender(number: u16, channel: Channel<(u16, u64)>) -> AsyncDevice {
    AsyncDevice::new(move |io: Io| {
        let channel = channel.clone();
        async move {
            while let Some(request) = io.next_request().await {
                if let Request::Write(doorbell) = request {
                    channel.send((number, doorbell.u64())).await;
                }
            }
        }
    })
}
