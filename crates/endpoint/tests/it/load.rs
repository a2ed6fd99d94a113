// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An endpoint under load, without a link or a host: for the benchmark and for the count of its allocations.

use config::{Bar, Builder, ConfigSpace, Identity, PcieLayout, SriovLayout};
use device::*;
use riser_endpoint::*;
use std::collections::VecDeque;
use tlp::*;

/// Transactions of one round.
pub(crate) const ROUND: u64 = 1024;
const OUTSTANDING: u32 = 32;
const BYTES: u32 = 256;
const BAR0: u64 = 0x10_0000;
const VF_BAR0: u64 = 0x20_0000;
const VF_BYTES: u64 = 4096;

/// A device that always has a write and, up to a limit, a read to send, and answers immediately.
struct Busy {
    payload: Option<Payload>,
    pool: PayloadPool,
    next: u64,
    reads: u32,
    outstanding: u32,
    /// Implements `ready`.
    says: bool,
    answers: VecDeque<Token>,
    taken: VecDeque<Token>,
}

impl Busy {
    fn new(pool: &PayloadPool, carry: bool, outstanding: u32, says: bool) -> Box<Busy> {
        let payload = carry.then(|| pool.copy(&[1; BYTES as usize]));
        let (answers, taken) = (VecDeque::new(), VecDeque::new());
        Box::new(Busy { payload, pool: pool.clone(), next: 0, reads: 0, outstanding, says, answers, taken })
    }

    fn address(&mut self) -> u64 {
        self.next += 1;
        0x1000_0000 + self.next % 4096 * 256
    }

    fn data(&self) -> Data {
        match &self.payload {
            Some(_) => Data::Carried(self.pool.fill(BYTES as usize, |bytes| bytes[0] = 1)),
            None => Data::Counted(BYTES),
        }
    }
}

impl Device for Busy {
    fn handle(&mut self, _: Time, input: Input) {
        match input {
            Input::Request(request) => {
                self.taken.push_back(request.token);
                self.answers.push_back(request.token);
            }
            Input::DmaDone { result, .. } => {
                assert_eq!(result.map(|data| data.len()), Ok(BYTES as usize));
                self.reads -= 1;
            }
            _ => {}
        }
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<Output> {
        match class {
            Class::Posted => Some(Output::Write(DmaWrite::new(self.address(), self.data()))),
            Class::NonPosted if self.reads < self.outstanding => {
                self.reads += 1;
                let read = DmaRead::new(DmaId(self.next as u32), self.address(), BYTES);
                Some(Output::Read(if self.payload.is_some() { read } else { read.counted() }))
            }
            Class::NonPosted => None,
            Class::Completion => {
                let token = self.answers.pop_front()?;
                Some(Output::Complete { token, result: Ok(Data::Counted(4)) })
            }
        }
    }

    fn ready(&self) -> Ready {
        if !self.says {
            return Ready::ALL;
        }
        let parts = [
            (true, Ready::output(Class::Posted)),
            (self.reads < self.outstanding, Ready::output(Class::NonPosted)),
            (!self.answers.is_empty(), Ready::output(Class::Completion)),
            (!self.taken.is_empty(), Ready::TAKEN),
        ];
        parts.into_iter().filter(|(there, _)| *there).fold(Ready::NONE, |all, (_, one)| all.or(one))
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

fn physical(vfs: u16) -> ConfigSpace {
    let sriov = SriovLayout::new(vfs, 0x1001).bar(0, Bar::memory32(VF_BYTES));
    Builder::type0(Identity::default())
        .bar(0, Bar::memory32(4096))
        .pcie(PcieLayout::default())
        .single_root_virtualization(sriov)
        .build()
        .expect("legal")
}

/// The endpoint, and the reads that its host has not answered yet.
pub(crate) struct Load {
    endpoint: Endpoint,
    host: VecDeque<Tlp>,
    bytes: Data,
}

impl Load {
    /// With payload carried, or only counted.
    pub(crate) fn new(carry: bool) -> Load {
        let space =
            Builder::type0(Identity::default()).bar(0, Bar::memory32(4096)).pcie(PcieLayout::default());
        let pool = PayloadPool::new();
        let device = Busy::new(&pool, carry, OUTSTANDING, false);
        let functions = vec![FunctionConfig { config: space.build().expect("legal"), device }];
        let limits = EndpointLimits::default();
        let config = EndpointConfig { name: "busy".into(), functions, limits, pool };
        let mut endpoint = Endpoint::new(config).expect("legal");
        let pcie = endpoint.config(0).and_then(|c| c.pcie_capability()).expect("there");
        for (dw, value) in [(4, BAR0 as u32), (pcie + 2, 0x2930), (1, 0x6)] {
            endpoint.write_config(Time::ZERO, Bdf::from_bits(0x100), dw, 0xf, value);
        }
        Load::around(endpoint, carry)
    }

    fn around(endpoint: Endpoint, carry: bool) -> Load {
        let bytes = Data::Counted(BYTES);
        let bytes = if carry { Data::Carried(PayloadPool::new().copy(&[1; BYTES as usize])) } else { bytes };
        Load { endpoint, host: VecDeque::new(), bytes }
    }

    /// Virtual functions, all equally busy, with counted data only. Each has one read outstanding, or waits for a tag.
    pub(crate) fn virtual_functions(count: u16, limits: EndpointLimits) -> Load {
        let pool = PayloadPool::new();
        let device = Busy::new(&pool, false, 1, true);
        let functions = vec![FunctionConfig { config: physical(count), device }];
        let config = EndpointConfig { name: "busy".into(), functions, limits, pool: pool.clone() };
        let config_of_each = Builder::virtual_function(Identity::default()).pcie(PcieLayout::default());
        let made_of = VirtualFunctions {
            config: config_of_each.build().expect("legal"),
            device: Box::new(move |_| Busy::new(&pool, false, 1, true)),
        };
        let endpoint = Endpoint::new(config).and_then(|e| e.with_virtual_functions(0, made_of));
        let mut endpoint = endpoint.expect("legal");
        let space = endpoint.config(0).expect("there");
        let pcie = space.pcie_capability().expect("there");
        let sriov = space.extended_capability(0x10).expect("there");
        let enable = [
            (4, BAR0 as u32),
            (pcie + 2, 0x2930),
            (1, 0x6),
            (sriov + 4, count.into()),
            (sriov + 9, VF_BAR0 as u32),
            (sriov + 2, 0x19),
        ];
        for (dw, value) in enable {
            endpoint.write_config(Time::ZERO, Bdf::from_bits(0x100), dw, 0xf, value);
        }
        for n in 0..count {
            endpoint.write_config(Time::ZERO, Bdf::from_bits(0x101 + n), 1, 0xf, 0x4);
        }
        Load::around(endpoint, false)
    }

    /// A round of DMA writes.
    pub(crate) fn writes(&mut self) {
        for _ in 0..ROUND {
            let tlp = self.endpoint.poll_tlp(Time::ZERO, Class::Posted, tlp::TcSet::ALL);
            assert!(tlp.is_some_and(|t| t.data.len() == BYTES as usize));
        }
    }

    /// A round of DMA reads, each answered after 31 others.
    pub(crate) fn reads(&mut self) {
        for _ in 0..ROUND {
            while let Some(tlp) = self.endpoint.poll_tlp(Time::ZERO, Class::NonPosted, tlp::TcSet::ALL) {
                self.host.push_back(tlp);
            }
            let request = self.host.pop_front().expect("32 are outstanding");
            self.endpoint.handle_tlp(Time::ZERO, &self.answer(&request));
            while self.endpoint.poll_credits().is_some() {}
        }
    }

    fn answer(&self, request: &Tlp) -> Tlp {
        let Body::Memory(m) = request.repr.body else { panic!("{request:?}") };
        let body = Completion {
            byte_count: BYTES as u16,
            lower_address: (m.span.address() & 0x7f) as u8,
            length_dw: Some(BYTES as u16 / 4),
            ..Completion::new(Bdf::default(), m.requester, m.tag)
        };
        Tlp::new(Repr::new(Body::Completion(body)), self.bytes.clone())
    }

    /// A round of reads of a register of the device.
    pub(crate) fn register_reads(&mut self) {
        self.registers_at(BAR0);
    }

    /// As `register_reads`, of virtual function `n`.
    #[allow(dead_code, reason = "for the benchmark")]
    pub(crate) fn virtual_register_reads(&mut self, n: u64) {
        self.registers_at(VF_BAR0 + n * VF_BYTES);
    }

    fn registers_at(&mut self, base: u64) {
        let span = Span::covering(base + 16, 4).expect("legal");
        let (op, requester, tag) = (MemoryOp::Read, Bdf::default(), Tag::default());
        let repr = Repr::new(Body::Memory(MemoryRequest { op, requester, tag, span }));
        for _ in 0..ROUND {
            self.endpoint.handle_tlp(Time::ZERO, &Tlp::new(repr, Data::NONE));
            assert!(self.endpoint.poll_tlp(Time::ZERO, Class::Completion, tlp::TcSet::ALL).is_some());
            while self.endpoint.poll_credits().is_some() {}
        }
    }
}
