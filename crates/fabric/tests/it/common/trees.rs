// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of switches with raw devices that send writes and reads at full speed. Their bridges are set up as by
//! firmware. Never enumerates.
//!
//! ```text
//!   root port ══ switch 0 ──┬── device 0        or       root port ══ switch 0 ──┬══ switch 1 ── devices 0 ..
//!   (bus 1)      (bus 2)    └── device 1 ..              (bus 1)      (bus 2)    └══ switch 2 ── devices ..
//! ```
// Each user of this module uses a part of it.
use super::{config, ideal_host};
use config::{Builder, ConfigSpace, Identity, PcieLayout, PortType};
use device::Ready;
use endpoint::{CreditReturn, TlpPort};
use host::memory::HostMemory;
use riser_fabric::switch::{Switch, SwitchConfig, SwitchPortConfig};
use riser_fabric::{
    Above, Fabric, Forwarding, HostId, LinkConfig, PortArbitration, SlotConfig, SwitchSlot, SwitchTiming,
};
use std::collections::VecDeque;
use tlp::{
    Bdf, Body, Class, Data, Duration, MemoryOp, MemoryRequest, PayloadPool, Repr, Span, Tag, TcSet, Time, Tlp,
};

/// Sends `left` requests of 256 B, alternately a write and a read, while there is a tag for the read. The data is only
/// counted.
pub(crate) struct Both {
    requester: Bdf,
    left: u64,
    /// Whether a read is next if there is a tag for it.
    reads_next: bool,
    tags: Vec<Tag>,
    address: u64,
    open: Vec<u32>,
    credits: VecDeque<CreditReturn>,
}

impl Both {
    /// Creates a source with at most `tags` outstanding reads.
    pub(crate) fn new(requester: Bdf, left: u64, tags: u16) -> Both {
        Both {
            requester,
            left,
            reads_next: false,
            tags: (0..tags).map(Tag::from_bits).collect(),
            address: 0,
            open: vec![0; usize::from(tags)],
            credits: VecDeque::with_capacity(64),
        }
    }

    fn next_op(&self) -> MemoryOp {
        if self.reads_next && !self.tags.is_empty() { MemoryOp::Read } else { MemoryOp::Write }
    }

    fn request(&mut self, op: MemoryOp, tag: Tag, data: Data) -> Tlp {
        self.left -= 1;
        self.reads_next = op == MemoryOp::Write;
        self.address = (self.address + 4096) % (1 << 20);
        let span = Span::covering(0x1_0000_0000 + self.address, 256).unwrap();
        let body = MemoryRequest { op, requester: self.requester, tag, span };
        Tlp::new(Repr::new(Body::Memory(body)), data)
    }
}

impl TlpPort for Both {
    fn handle_tlp(&mut self, _now: Time, tlp: &Tlp) {
        self.credits.push_back(CreditReturn::of(tlp));
        if let Body::Completion(c) = tlp.repr.body {
            let open = &mut self.open[usize::from(c.tag.bits())];
            *open += tlp.data.len() as u32;
            if *open == 256 {
                *open = 0;
                self.tags.push(c.tag);
            }
        }
    }

    fn poll_tlp(&mut self, _now: Time, class: Class, _room: TcSet) -> Option<Tlp> {
        match (class, self.next_op()) {
            _ if self.left == 0 => None,
            (Class::Posted, MemoryOp::Write) => {
                Some(self.request(MemoryOp::Write, Tag::default(), Data::Counted(256)))
            }
            (Class::NonPosted, MemoryOp::Read) => {
                self.tags.pop().map(|tag| self.request(MemoryOp::Read, tag, Data::NONE))
            }
            _ => None,
        }
    }

    fn ready(&self) -> Ready {
        let credits = if self.credits.is_empty() { Ready::NONE } else { Ready::TAKEN };
        match self.next_op() {
            _ if self.left == 0 => credits,
            MemoryOp::Read => credits.or(Ready::output(Class::NonPosted)),
            _ => credits.or(Ready::output(Class::Posted)),
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

/// Returns a tree of `switches` times `fan_out` devices, each with `requests` requests: below one switch if `switches`
/// is one, otherwise below that many, which are connected to one more.
pub(crate) fn tree(up: &LinkConfig, down: &LinkConfig, switches: u8, fan_out: u8, requests: u64) -> Fabric {
    let (slots, below) = (Vec::new(), Vec::new());
    let mut plan = Plan { up: up.clone(), down: down.clone(), requests, slots, switches: below };
    if switches == 1 {
        plan.switch(Above::RootPort(HostId::FIRST), 1, fan_out);
    } else {
        let buses = plan.add_parent(switches, fan_out);
        for (n, bus) in buses.into_iter().enumerate() {
            plan.switch(Above::Switch { switch: 0, port: n + 1 }, bus, fan_out);
        }
    }
    let host = ideal_host(HostMemory::new(1 << 20, 1 << 24).unwrap());
    Fabric::new(config(host, plan.slots, plan.switches)).unwrap()
}

struct Plan {
    up: LinkConfig,
    down: LinkConfig,
    requests: u64,
    slots: Vec<SlotConfig>,
    switches: Vec<SwitchSlot>,
}

impl Plan {
    /// A switch of `fan_out` devices whose upstream port is on `bus`.
    fn switch(&mut self, above: Above, bus: u8, fan_out: u8) {
        let switch = self.switches.len();
        let below: Vec<(u8, u8)> = (1..=fan_out).map(|n| (bus + 1 + n, bus + 1 + n)).collect();
        for (n, (first, _)) in below.iter().enumerate() {
            let device = Box::new(Both::new(Bdf::new(*first, 0, 0).unwrap(), self.requests, 32));
            let above = Above::Switch { switch, port: n + 1 };
            self.slots.push(SlotConfig { link: self.down.clone(), above, device });
        }
        self.push(above, bus, &below);
    }

    /// The switch on bus 1 that `switches` others hang on; the buses of these.
    fn add_parent(&mut self, switches: u8, fan_out: u8) -> Vec<u8> {
        let size = fan_out + 2;
        let firsts: Vec<u8> = (0..switches).map(|n| 3 + n * size).collect();
        let below: Vec<(u8, u8)> = firsts.iter().map(|first| (*first, first + size - 1)).collect();
        self.push(Above::RootPort(HostId::FIRST), 1, &below);
        firsts
    }

    fn push(&mut self, above: Above, bus: u8, below: &[(u8, u8)]) {
        let last = below.iter().map(|(_, last)| *last).max().unwrap_or(bus);
        let upstream = port(&self.up, space(PortType::Upstream, [bus, bus + 1, last]));
        let downstream = below
            .iter()
            .map(|(first, last)| port(&self.up, space(PortType::Downstream, [bus + 1, *first, *last])));
        let config = SwitchConfig {
            upstream,
            downstream: downstream.collect(),
            timing: SwitchTiming { latency: Duration::from_ns(100), mode: Forwarding::StoreAndForward },
            arbitration: PortArbitration::RoundRobin,
            payloads: PayloadPool::new(),
        };
        let switch = Switch::new(config).unwrap().into();
        self.switches.push(SwitchSlot { link: self.up.clone(), above, switch });
    }
}

fn port(link: &LinkConfig, space: ConfigSpace) -> SwitchPortConfig {
    let (rate, width) = (link.root.rate, link.root.width);
    SwitchPortConfig { space, buffer_tlps: [128, 128, u32::MAX], rate, width }
}

/// A bridge between the buses `[primary, secondary]` up to the last. Its windows are closed, so that all addresses go
/// up.
fn space(port: PortType, buses: [u8; 3]) -> ConfigSpace {
    let identity = Identity { vendor: 0x1234, device: 0x5678, class: 0x06_04_00, ..Identity::default() };
    let pcie = PcieLayout { port, function_level_reset: false, ..PcieLayout::default() };
    let mut space = Builder::type1(identity).pcie(pcie).build().unwrap();
    let [primary, secondary, last] = buses;
    space.write(6, 0xf, u32::from_le_bytes([primary, secondary, last, 0]));
    // Base above limit.
    space.write(8, 0xf, 0x0000_fff0);
    space.write(9, 0xf, 0x0000_fff0);
    space.write(7, 0x3, 0x00f0);
    // Memory Space Enable, Bus Master Enable.
    space.write(1, 0x3, 0x0006);
    // Device Control: Max_Payload_Size of 256 B.
    if let Some(at) = space.pcie_capability() {
        space.write(at + 2, 0x3, 1 << 5);
    }
    space
}
