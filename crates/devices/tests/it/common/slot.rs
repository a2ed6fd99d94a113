// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simple root port: joins a host program with an [`Endpoint`], TLP by TLP, without a link. TLPs arrive immediately;
//! a DMA read completes 500 ns later.

use super::{Event, MAX_STEPS};
use device::CompletionError;
use endpoint::{Endpoint, EndpointConfig, FunctionConfig, TlpPort};
use host::cpu::msi;
use host::firmware::MSI_ADDRESS;
use host::{AsyncProgram, HostError, HostInput, HostMemory, HostOutput, HostProgram, HostReadId};
use std::collections::{BTreeMap, VecDeque};
use tlp::{
    Access, Bdf, Body, Class, CompletedRequest, Completion, ConfigKind, ConfigRequest, Data, Duration,
    MemoryOp, MemoryRequest, Mps, PayloadPool, Rcb, Repr, Span, Status, Tag, Time, Tlp,
    split::completion_piece,
};

pub(crate) struct Slot {
    pub(crate) endpoint: Endpoint,
    pub(crate) memory: HostMemory,
    /// Maximum size of completions.
    mps: Mps,
    /// Transactions of the device.
    pub(crate) log: Vec<Event>,
    pool: PayloadPool,
    now: Time,
    answers: VecDeque<(Time, Tlp)>,
    host_reads: BTreeMap<Tag, (HostReadId, Vec<u8>)>,
    next_tag: u16,
}

impl Slot {
    pub(crate) fn new(function: FunctionConfig) -> Slot {
        let (functions, limits, pool) = (vec![function], Default::default(), PayloadPool::new());
        Slot::of(Endpoint::new(EndpointConfig { name: "slot".into(), functions, limits, pool }).unwrap())
    }

    pub(crate) fn of(endpoint: Endpoint) -> Slot {
        let pool = PayloadPool::new();
        Slot {
            endpoint,
            memory: HostMemory::new(16 << 20, 64 << 20).unwrap(),
            mps: Mps::new(256).unwrap(),
            log: Vec::new(),
            pool,
            now: Time::ZERO,
            answers: VecDeque::new(),
            host_reads: BTreeMap::new(),
            next_tag: 0,
        }
    }

    pub(crate) fn run(&mut self, program: &mut AsyncProgram) -> Result<(), String> {
        for _ in 0..MAX_STEPS {
            while self.pass_one(program) {}
            if let Some(outcome) = program.outcome() {
                return outcome.map_err(|error| error.to_string());
            }
            let answer = self.answers.front().map(|(at, _)| *at);
            let next =
                [answer, self.endpoint.poll_timeout(), program.poll_timeout()].into_iter().flatten().min();
            let next = next.unwrap_or_else(|| panic!("nothing moves: {:?}", program.waits_for()));
            self.now = next.max(self.now);
            self.wake(program);
        }
        panic!("no end after {MAX_STEPS} steps: {:?}", program.waits_for());
    }

    fn wake(&mut self, program: &mut AsyncProgram) {
        while self.answers.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, tlp) = self.answers.pop_front().unwrap();
            self.endpoint.handle_tlp(self.now, &tlp);
        }
        if self.endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
            self.endpoint.handle_timeout(self.now);
        }
        if program.poll_timeout().is_some_and(|at| at <= self.now) {
            program.handle(self.now, HostInput::Timer);
        }
    }

    fn pass_one(&mut self, program: &mut AsyncProgram) -> bool {
        while self.endpoint.poll_credits().is_some() {}
        for class in Class::ALL {
            if let Some(tlp) = self.endpoint.poll_tlp(self.now, class, tlp::TcSet::ALL) {
                self.on_tlp(tlp, program);
                return true;
            }
        }
        match program.poll_output(self.now) {
            Some(output) => self.on_host_output(output, program),
            None => return false,
        }
        true
    }

    fn on_host_output(&mut self, output: HostOutput, program: &mut AsyncProgram) {
        // The only device on a link is device 0; the port above ensures that (`PCIe 5.0 §7.3.1`).
        if let HostOutput::ConfigRead { id, function, .. } = &output
            && function.device() > 0
        {
            return program.handle(self.now, HostInput::Done { id: *id, result: Err(HostError::NoDevice) });
        }
        let requester = Bdf::default();
        let (body, data) = match output {
            HostOutput::MmioWrite { address, data } => {
                let span = Span::covering(address, data.len() as u32).unwrap();
                let tag = Tag::default();
                (Body::Memory(MemoryRequest { op: MemoryOp::Write, requester, tag, span }), data)
            }
            HostOutput::MmioRead { id, address, len, .. } => {
                let (tag, span) = (self.tag(id), Span::covering(address, len).unwrap());
                (Body::Memory(MemoryRequest { op: MemoryOp::Read, requester, tag, span }), Data::NONE)
            }
            HostOutput::ConfigRead { id, function, register_dw, byte_enables } => {
                (self.config(id, Access::Read, function, register_dw, byte_enables), Data::NONE)
            }
            HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value } => {
                // If a write enables only some bytes, the TLP has the bytes from the first to the last enabled one.
                let body = self.config(id, Access::Write, function, register_dw, byte_enables);
                let tlp = Tlp::from_lanes(Repr::new(body), &value.to_le_bytes(), &self.pool);
                (body, tlp.data)
            }
            // This host has no caches.
            HostOutput::Extension(_) => return,
            other => panic!("no driver here does {other:?}"),
        };
        self.endpoint.handle_tlp(self.now, &Tlp::new(Repr::new(body), data).with_carry(true));
    }

    fn config(&mut self, id: HostReadId, op: Access, completer: Bdf, register_dw: u16, first_be: u8) -> Body {
        let (kind, requester, tag) = (ConfigKind::Type0, Bdf::default(), self.tag(id));
        Body::Config(ConfigRequest { op, kind, requester, tag, completer, register_dw, first_be })
    }

    fn tag(&mut self, id: HostReadId) -> Tag {
        let tag = Tag::from_bits(self.next_tag % 256);
        self.next_tag = self.next_tag.wrapping_add(1);
        assert!(self.host_reads.insert(tag, (id, Vec::new())).is_none(), "as many as there are tags");
        tag
    }

    fn on_tlp(&mut self, tlp: Tlp, program: &mut AsyncProgram) {
        match tlp.repr.body {
            Body::Memory(m) if m.op == MemoryOp::Read => self.on_read(&tlp),
            Body::Memory(m) if m.span.address() == MSI_ADDRESS => {
                let data = tlp.data.bytes().unwrap();
                let vector = u16::from_le_bytes([data[0], data[1]]);
                self.log.push(Event::Interrupt(vector));
                program.handle(self.now, msi(vector));
            }
            Body::Memory(m) => {
                let bytes = tlp.data.bytes().unwrap_or_default();
                self.memory.write(m.span.first_byte(), bytes).unwrap();
                self.log.push(Event::DmaWrite(m.span.first_byte(), bytes.to_vec()));
            }
            Body::Completion(c) => self.on_completion(c, &tlp.data, program),
            other => panic!("no device here sends {other:?}"),
        }
    }

    fn on_read(&mut self, read: &Tlp) {
        let asked = CompletedRequest::of(&read.repr).expect("a read is answered");
        let (first, len) = (asked.bytes.first_byte, asked.bytes.byte_count);
        self.log.push(Event::DmaRead(first, len));
        let Ok(bytes) = self.memory.payload(&self.pool, first, len as usize) else {
            // There is no device at this address.
            let refusal = asked.without_data(Bdf::default(), Status::UnsupportedRequest);
            return self.answer(Tlp::new(refusal, Data::NONE));
        };
        let bytes = Data::Carried(bytes);
        let all = if read.carry { bytes } else { Data::Counted(len) };
        let mut done = 0;
        while done < len {
            let piece = completion_piece(first + u64::from(done), len - done, self.mps, Rcb::default());
            let data = all.slice(done as usize, piece as usize);
            let repr = asked.with_data(Bdf::default(), done, piece);
            self.answer(Tlp::new(repr, data).with_carry(read.carry));
            done += piece;
        }
    }

    fn answer(&mut self, tlp: Tlp) {
        self.answers.push_back((self.now + Duration::from_ns(500), tlp));
    }

    fn on_completion(&mut self, c: Completion, data: &Data, program: &mut AsyncProgram) {
        let (id, bytes) = self.host_reads.get_mut(&c.tag).expect("answers what was asked");
        let id = *id;
        let result = match c.status {
            Status::Success => {
                bytes.extend_from_slice(data.bytes().unwrap_or_default());
                if usize::from(c.byte_count) > data.len() && c.length_dw.is_some() {
                    return; // more of it comes
                }
                Ok(Data::Carried(self.pool.copy(bytes)))
            }
            Status::ConfigRetry => Err(HostError::ConfigRetry),
            Status::CompleterAbort => Err(HostError::Completion(CompletionError::CompleterAbort)),
            Status::UnsupportedRequest => Err(HostError::Completion(CompletionError::UnsupportedRequest)),
        };
        self.host_reads.remove(&c.tag);
        program.handle(self.now, HostInput::Done { id, result });
    }
}
