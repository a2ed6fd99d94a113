// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host for one function without endpoint or link. It has memory from address 0 on, and accesses the registers of
//! BAR 0. The function's TLPs arrive immediately and are checked: reads and writes have a maximum size, and writes
//! may be restricted to certain ranges. A violation panics.

use riser_device::{BarIndex, Device, DmaError, Input, Output, Request, RequestOp, ResetKind, Token};
use riser_tlp::{Class, Data, Duration, PayloadPool, Span, Time};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of outputs in one step.
const TURNS: u32 = 2_000_000;

pub(crate) struct Host {
    device: Box<dyn Device>,
    memory: Vec<u8>,
    pool: PayloadPool,
    now: Time,
    /// Register reads that are not completed yet.
    asked: BTreeMap<Token, u32>,
    answer: u64,
    next: u32,
    pub(crate) interrupts: BTreeMap<u16, u64>,
    /// Ranges that the device may write; `None` for all of memory.
    pub(crate) allowed: Option<Vec<Range<u64>>>,
    /// Maximum number of bytes of one read or write.
    most: usize,
}

impl Host {
    pub(crate) fn new(device: Box<dyn Device>, memory_bytes: usize, most: usize) -> Host {
        let mut host = Host {
            device,
            memory: vec![0; memory_bytes],
            pool: PayloadPool::new(),
            now: Time::ZERO,
            asked: BTreeMap::new(),
            answer: 0,
            next: 0,
            interrupts: BTreeMap::new(),
            allowed: None,
            most,
        };
        host.settle();
        host
    }

    fn request(&mut self, op: RequestOp) -> Token {
        let token = Token(self.next);
        self.next += 1;
        self.device.handle(self.now, Input::Request(Request::new(token, op)));
        token
    }

    /// Writes registers, and waits until the device has no more output.
    pub(crate) fn write_bytes(&mut self, at: u64, bytes: &[u8]) {
        self.post(at, bytes);
        self.settle();
    }

    /// Writes registers without waiting.
    pub(crate) fn post(&mut self, at: u64, bytes: &[u8]) {
        let Ok(span) = Span::covering(at, bytes.len() as u32) else { return };
        let data = Data::Carried(self.pool.copy(bytes));
        self.request(RequestOp::Write { bar: BarIndex(0), offset: at, span, data });
    }

    pub(crate) fn write(&mut self, at: u64, value: u32) {
        self.write_bytes(at, &value.to_le_bytes());
    }

    pub(crate) fn read(&mut self, at: u64) -> u32 {
        self.read_bytes(at, 4) as u32
    }

    pub(crate) fn read_bytes(&mut self, at: u64, len: u32) -> u64 {
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

    pub(crate) fn reset(&mut self, kind: ResetKind) {
        self.device.handle(self.now, Input::Reset(kind));
        self.settle();
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
    pub(crate) fn settle(&mut self) {
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
                assert!(bytes.len() <= self.most, "a write of {} bytes", bytes.len());
                if let Some(allowed) = &self.allowed {
                    let is_in = allowed.iter().any(|place| place.start <= write.address && end <= place.end);
                    assert!(is_in, "a write to {:#x}", write.address);
                }
                let at = usize::try_from(write.address).ok();
                if let Some(to) = at.and_then(|at| self.memory.get_mut(at..)?.get_mut(..bytes.len())) {
                    to.copy_from_slice(bytes);
                }
            }
            Output::Read(read) => {
                assert!(read.len as usize <= self.most, "a read of {} bytes", read.len);
                let at = usize::try_from(read.address).unwrap_or(usize::MAX);
                let there = self.memory.get(at..).and_then(|bytes| bytes.get(..read.len as usize));
                let result = there.map(|bytes| Data::Carried(self.pool.copy(bytes)));
                let result = result.ok_or(DmaError::UnsupportedRequest);
                self.device.handle(self.now, Input::DmaDone { id: read.id, result });
            }
            Output::Complete { token, result } => {
                let len = self.asked.remove(&token).expect("the host waits for this read");
                let bytes = result.ok().and_then(|data| data.bytes().map(<[u8]>::to_vec));
                self.answer = bytes.map_or(u64::MAX, |bytes| {
                    assert_eq!(bytes.len(), len as usize);
                    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
                });
            }
            Output::Interrupt { vector } => *self.interrupts.entry(vector).or_default() += 1,
            other => panic!("unexpected output {other:?}"),
        }
    }
}
