// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A switch of three downstream ports, set up by configuration requests as firmware does it. Never looks inside.
//!
//! ```text
//!   port   function   buses behind   memory                     I/O
//!   0      01:00.0    02 .. 06       1000_0000 .. 3fff_ffff     1000 .. 3fff
//!   1      02:00.0    03             1000_0000 .. 1fff_ffff     1000 .. 1fff
//!   2      02:01.0    04 .. 05       2000_0000 .. 2fff_ffff     2000 .. 2fff
//!   3      02:02.0    06             3000_0000 .. 37ff_ffff     none
//! ```
use crate::common::tlps::status_name;
pub(crate) use crate::common::tlps::{bdf, fetch_add, message, mrd as read, mwr as write};
use config::{
    AcsLayout, AerLayout, AerRole, Builder, ConfigSpace, DpcLayout, Identity, MsiLayout, PcieLayout,
    PortType, SlotLayout,
};
use link::Notice;
use riser_fabric::switch::{
    Forwarding, PortArbitration, Switch, SwitchConfig, SwitchPortConfig, SwitchTiming,
};
use riser_fabric::{BridgeOwner as _, Effect};
use tlp::*;

pub(crate) const LATENCY: Duration = Duration::from_ns(100);
pub(crate) const RATE: Rate = Rate::Gt8;

pub(crate) fn width(lanes: u8) -> Width {
    Width::new(lanes).unwrap()
}

/// The function of a port.
pub(crate) fn space(port: PortType, number: u8) -> ConfigSpace {
    space_with(port, number, 4)
}

/// The same, with this number of supported end-to-end prefixes.
pub(crate) fn space_with(port: PortType, number: u8, end_end_prefixes: u8) -> ConfigSpace {
    let identity = Identity { vendor: 0x1234, device: 0x5678, class: 0x06_04_00, ..Identity::default() };
    let downstream = port == PortType::Downstream;
    let slot = downstream.then(|| SlotLayout {
        number: u16::from(number),
        hot_plug: true,
        power_controller: true,
        occupied: true,
        ..SlotLayout::default()
    });
    let pcie = PcieLayout {
        port,
        function_level_reset: false,
        port_number: number,
        slot,
        ari_forwarding: downstream,
        atomic_routing: true,
        end_end_prefixes,
        rate: RATE,
        ..PcieLayout::default()
    };
    let role = if downstream { AerRole::DownstreamPort } else { AerRole::UpstreamPort };
    let builder = Builder::type1(identity)
        .interrupt_pin(1)
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie)
        .advanced_error_reporting_with(AerLayout::new(role));
    let builder = if downstream {
        builder.access_control(AcsLayout::port(32)).downstream_port_containment(DpcLayout::default())
    } else {
        builder
    };
    builder.build().unwrap()
}

pub(crate) fn config(ports: u8, mode: Forwarding, arbitration: PortArbitration) -> SwitchConfig {
    let port = |kind, number, lanes| SwitchPortConfig {
        space: space(kind, number),
        buffer_tlps: [64; 3],
        rate: RATE,
        width: width(lanes),
    };
    SwitchConfig {
        upstream: port(PortType::Upstream, 0, 16),
        downstream: (1..=ports).map(|n| port(PortType::Downstream, n, 8)).collect(),
        timing: SwitchTiming { latency: LATENCY, mode },
        arbitration,
        payloads: PayloadPool::new(),
    }
}

pub(crate) struct Rig {
    pub(crate) switch: Switch,
    pub(crate) now: Time,
}

impl Rig {
    /// Set up as drawn above.
    pub(crate) fn new() -> Rig {
        Rig::with(Forwarding::StoreAndForward, PortArbitration::RoundRobin)
    }

    pub(crate) fn with(mode: Forwarding, arbitration: PortArbitration) -> Rig {
        let mut rig = Rig::bare(3, mode, arbitration);
        let rows: [(u8, u32, u32, u32); 4] = [
            (0, 0x0006_0201, 0x3ff0_1000, 0x3010),
            (1, 0x0003_0302, 0x1ff0_1000, 0x1010),
            (2, 0x0005_0402, 0x2ff0_2000, 0x2020),
            (3, 0x0006_0602, 0x37f0_3000, 0x00f0),
        ];
        for (port, buses, memory, io) in rows {
            rig.set(port, 6, 0xf, buses);
            rig.set(port, 8, 0xf, memory);
            rig.set(port, 7, 0x3, io);
            // Prefetchable base above limit: closed.
            rig.set(port, 9, 0xf, 0x0000_fff0);
            // SERR# Enable of Bridge Control; memory, I/O, Bus Master.
            rig.set(port, 15, 0x4, 0x0002_0000);
            rig.set(port, 1, 0x3, 0x0007);
        }
        rig
    }

    /// Links are up, and software has not configured the switch.
    pub(crate) fn bare(ports: u8, mode: Forwarding, arbitration: PortArbitration) -> Rig {
        let switch = Switch::new(config(ports, mode, arbitration)).unwrap();
        let mut rig = Rig { switch, now: Time::ZERO };
        for port in 0..=usize::from(ports) {
            let lanes = if port == 0 { 16 } else { 8 };
            rig.switch.handle_notice(port, rig.now, Notice::Up { rate: RATE, width: width(lanes) });
        }
        rig.drain();
        rig.actions();
        rig
    }

    pub(crate) fn actions(&mut self) -> Vec<(usize, riser_fabric::switch::Action)> {
        let action = |effect| match effect {
            Effect::Act(port, action) => Some((port as usize, action)),
            _ => None,
        };
        self.switch.effects().drain(..).filter_map(action).collect()
    }

    /// ID of the function of `port`.
    pub(crate) fn id(port: u8) -> Bdf {
        if port == 0 { bdf(1, 0, 0) } else { bdf(2, port - 1, 0) }
    }

    /// Handles `tlp` at `port`, and sends everything that may be sent.
    pub(crate) fn arrive(&mut self, port: usize, tlp: &Tlp) -> Vec<(usize, Tlp)> {
        self.put(port, tlp);
        self.drain()
    }

    /// Each TLP that counts as an error has a rule.
    pub(crate) fn put(&mut self, port: usize, tlp: &Tlp) {
        let before = (self.errors(), self.explained());
        self.switch.handle_tlp(port, self.now, self.now, tlp);
        assert_eq!(self.errors() > before.0, self.explained() > before.1, "{tlp}");
    }

    fn errors(&self) -> u64 {
        let c = self.switch.counters();
        let refused = [c.unsupported_requests, c.acs_violations, c.unexpected_completions, c.link_down];
        let dropped = [c.malformed, c.ecrc_errors, c.poisoned, c.overflows];
        refused.iter().chain(&dropped).sum()
    }

    fn explained(&self) -> u64 {
        self.switch.refusals().iter().map(|refusal| refusal.count).sum()
    }

    /// All that leaves from now on, by port.
    pub(crate) fn drain(&mut self) -> Vec<(usize, Tlp)> {
        let mut out = Vec::new();
        loop {
            let before = out.len();
            for port in 0..self.switch.ports() {
                for class in Class::ALL {
                    while let Some(tlp) = self.switch.poll_tlp(port, self.now, class, TcSet::ALL) {
                        out.push((port, tlp));
                    }
                }
            }
            // A TLP sent at one port may unblock another port.
            if out.len() > before {
                continue;
            }
            let Some(at) = self.switch.poll_timeout() else { return out };
            self.now = self.now.max(at);
            self.switch.handle_timeout(self.now);
        }
    }

    /// A configuration write to the function of `port`.
    pub(crate) fn set(&mut self, port: u8, register_dw: u16, first_be: u8, value: u32) {
        let kind = if port == 0 { ConfigKind::Type0 } else { ConfigKind::Type1 };
        let op = Access::Write;
        let body = ConfigRequest { op, kind, ..config_to(Rig::id(port), register_dw, first_be) };
        let mut tlp = Tlp::new(Repr::new(Body::Config(body)), Data::NONE);
        tlp.data = Data::Carried(PayloadPool::new().copy(&value.to_le_bytes()));
        let out = self.arrive(0, &tlp);
        let answered = out.iter().any(|(to, tlp)| *to == 0 && status(tlp) == Some(Status::Success));
        assert!(answered, "register {register_dw:#x} of port {port} is written: {}", lines(&out).join("; "));
    }

    /// A configuration read of the function of `port`, over TLPs.
    pub(crate) fn get(&mut self, port: u8, register_dw: u16) -> u32 {
        let kind = if port == 0 { ConfigKind::Type0 } else { ConfigKind::Type1 };
        let body = ConfigRequest { kind, ..config_to(Rig::id(port), register_dw, 0xf) };
        let out = self.arrive(0, &Tlp::new(Repr::new(Body::Config(body)), Data::NONE));
        let data = out.iter().find_map(|(_, tlp)| tlp.data.bytes()).expect("a read is answered");
        u32::from_le_bytes(data.try_into().unwrap())
    }

    /// A register of an extended capability of `port`, which is set.
    pub(crate) fn set_extended(&mut self, port: u8, id: u16, dw: u16, value: u32) {
        let at =
            self.switch.space(usize::from(port)).extended_capability(id).expect("the capability is there");
        self.set(port, at + dw, 0xf, value);
    }

    /// The same, which is read.
    pub(crate) fn extended(&self, port: usize, id: u16, dw: u16) -> u32 {
        let space = self.switch.space(port);
        space.read(space.extended_capability(id).expect("the capability is there") + dw)
    }

    /// Credits that `port` returns, by class.
    pub(crate) fn credits(&mut self, port: usize) -> [u32; 3] {
        let mut sum = [0; 3];
        while let Some(credit) = self.switch.poll_credits(port) {
            sum[credit.class.index()] += 1;
        }
        sum
    }
}

pub(crate) fn config_to(completer: Bdf, register_dw: u16, first_be: u8) -> ConfigRequest {
    ConfigRequest {
        kind: ConfigKind::Type1,
        first_be,
        ..ConfigRequest::new(Access::Read, bdf(0, 0, 0), Tag::from_bits(1), completer, register_dw)
    }
}

pub(crate) fn config_read(kind: ConfigKind, completer: Bdf) -> Tlp {
    Tlp::new(Repr::new(Body::Config(ConfigRequest { kind, ..config_to(completer, 0, 0xf) })), Data::NONE)
}

pub(crate) fn io_read(requester: Bdf, address: u32) -> Tlp {
    let body = IoRequest { op: Access::Read, requester, tag: Tag::from_bits(7), address, first_be: 0xf };
    Tlp::new(Repr::new(Body::Io(body)), Data::NONE)
}

/// A completion of `len` bytes, 4 at least.
pub(crate) fn completion(completer: Bdf, requester: Bdf, len: u16) -> Tlp {
    let body = Completion {
        byte_count: len,
        length_dw: Some(len / 4),
        ..Completion::new(completer, requester, Tag::from_bits(7))
    };
    Tlp::new(Repr::new(Body::Completion(body)), Data::Counted(u32::from(len)))
}

/// A Vendor_Defined Type 1 to the function `id`.
pub(crate) fn message_to(id: Bdf, requester: Bdf) -> Tlp {
    let mut tlp = message(MessageRouting::ById, requester, 0x7f);
    if let Body::Message(m) = &mut tlp.repr.body {
        m.header[..2].copy_from_slice(&id.bits().to_be_bytes());
    }
    tlp
}

pub(crate) fn with_attributes(tlp: Tlp, attr: Attributes) -> Tlp {
    Tlp { repr: Repr { attr, ..tlp.repr }, ..tlp }
}

pub(crate) fn status(tlp: &Tlp) -> Option<Status> {
    match tlp.repr.body {
        Body::Completion(c) => Some(c.status),
        _ => None,
    }
}

/// Port and type; for completions without data also the status and the completer.
pub(crate) fn line(port: usize, tlp: &Tlp) -> String {
    match tlp.repr.body {
        Body::Completion(c) if c.length_dw.is_none() => {
            let status = status_name(c.status);
            format!("{port}: Cpl {status} of {}", c.completer)
        }
        Body::Message(m) => {
            format!("{port}: {} of {}", message::name_of(&m).unwrap_or("message"), m.requester)
        }
        _ => format!("{port}: {}", tlp.repr.name()),
    }
}

pub(crate) fn lines(out: &[(usize, Tlp)]) -> Vec<String> {
    out.iter().map(|(port, tlp)| line(*port, tlp)).collect()
}
