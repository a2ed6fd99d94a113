// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A raw-TLP device that sends writes or reads at full speed, and fabrics around it.
pub(crate) mod sources;
pub(crate) mod system;
pub(crate) mod tlps;
pub(crate) mod tree;
pub(crate) mod trees;

pub(crate) use system::{config, ideal_host};

use endpoint::{CreditReturn, TlpPort};
use host::memory::HostMemory;
use link::PortConfig;
use riser_fabric::{Fabric, FabricConfig, LinkConfig, SlotConfig};
use std::collections::VecDeque;
use tlp::{
    Bdf, Body, Class, Data, Duration, MemoryOp, MemoryRequest, Mps, Rate, Repr, Span, Tag, Time, Tlp, Width,
};

/// Sends `left` requests of `size` bytes, with at most `tags` outstanding reads.
pub(crate) struct Stream {
    pub(crate) op: MemoryOp,
    pub(crate) size: u32,
    pub(crate) left: u64,
    pub(crate) tags: Vec<Tag>,
    pub(crate) data: Data,
    pub(crate) address: u64,
    pub(crate) open: Vec<u32>,
    pub(crate) received: u64,
    pub(crate) credits: VecDeque<CreditReturn>,
}

impl Stream {
    pub(crate) fn new(op: MemoryOp, size: u32, count: u64, tags: u16, data: Data) -> Stream {
        Stream {
            op,
            size,
            left: count,
            tags: (0..tags).map(Tag::from_bits).collect(),
            data,
            address: 0x1_0000_0000,
            open: vec![0; usize::from(tags)],
            received: 0,
            credits: VecDeque::new(),
        }
    }

    fn request(&mut self, tag: Tag) -> Tlp {
        self.left -= 1;
        let address = self.address;
        self.address = 0x1_0000_0000 + (address + 4096) % (1 << 20);
        let span = Span::covering(address, self.size).unwrap();
        let body = Body::Memory(MemoryRequest { op: self.op, requester: Bdf::from_bits(0x100), tag, span });
        let data = if self.op == MemoryOp::Write { self.data.clone() } else { Data::NONE };
        Tlp::new(Repr::new(body), data).with_carry(matches!(self.data, Data::Carried(_)))
    }
}

impl TlpPort for Stream {
    fn handle_tlp(&mut self, _now: Time, tlp: &Tlp) {
        self.credits.push_back(CreditReturn::of(tlp));
        if let Body::Completion(c) = tlp.repr.body {
            let open = &mut self.open[usize::from(c.tag.bits())];
            *open += tlp.data.len() as u32;
            if *open == self.size {
                *open = 0;
                self.received += 1;
                self.tags.push(c.tag);
            }
        }
    }

    fn poll_tlp(&mut self, _now: Time, class: Class, _room: tlp::TcSet) -> Option<Tlp> {
        match (class, self.op) {
            (_, _) if self.left == 0 => None,
            (Class::Posted, MemoryOp::Write) => Some(self.request(Tag::default())),
            (Class::NonPosted, MemoryOp::Read) => self.tags.pop().map(|tag| self.request(tag)),
            _ => None,
        }
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.credits.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _now: Time) {}
}

pub(crate) fn link(rate: Rate, lanes: u8, mps: u32) -> LinkConfig {
    let port = PortConfig::new(rate, Width::new(lanes).unwrap(), Mps::new(mps).unwrap());
    LinkConfig {
        root: port.clone(),
        device: port,
        propagation: Duration::from_ps(2_000),
        rcb: None,
        bit_error_rate: 0,
    }
}

pub(crate) fn fabric(link: LinkConfig, device: Stream) -> Fabric {
    fabric_seeded(link, device, 1)
}

pub(crate) fn fabric_seeded(link: LinkConfig, device: Stream, seed: u64) -> Fabric {
    let host = ideal_host(HostMemory::new(1 << 20, 1 << 24).unwrap());
    let slots = vec![SlotConfig::on_root_port(link, Box::new(device))];
    Fabric::new(FabricConfig { seed, ..config(host, slots, Vec::new()) }).unwrap()
}
