// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Root ports with configuration spaces, a host program above them and devices of raw TLPs below. Never looks inside.
//!
//! ```text
//!   root port   function   buses behind   memory                     I/O
//!   0           00:01.0    10 .. 1f       9000_0000 .. 9fff_ffff     1000 .. 1fff
//!   1           00:02.0    20 .. 2f       a000_0000 .. afff_ffff     2000 .. 2fff
//! ```
use crate::common::tlps::status_name;
pub(crate) use crate::common::tlps::{bdf, fetch_add, message, mrd, mwr, poisoned};
use crate::common::{config, ideal_host};
use config::ext::{acs, aer};
use config::{
    AcsLayout, AerLayout, AerRole, Builder, ConfigSpace, DpcLayout, Identity, MsiLayout, PcieLayout,
    PortType, SlotLayout,
};
use endpoint::{CreditReturn, TlpPort};
use host::memory::HostMemory;
use host::{AsyncProgram, Cpu};
use link::PortConfig;
use riser_fabric::{
    Fabric, FabricConfig, FaultRule, HostConfig, HostProfile, Limits, LinkConfig, PeerToPeer, SlotConfig,
    Stop,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::*;

pub(crate) const LATENCY: Duration = Duration::from_ns(100);
/// The vector that each root port's MSI is set to: this and the number of the port.
pub(crate) const VECTOR: u16 = 0x40;

/// Returns the device below root port `n`.
pub(crate) fn below(n: u8) -> Bdf {
    bdf(0x10 * (n + 1), 0, 0)
}

/// First address of the memory window of root port `n`.
pub(crate) const fn window(n: u8) -> u64 {
    0x9000_0000 + n as u64 * 0x1000_0000
}

pub(crate) fn root_port(n: u8) -> Bdf {
    bdf(0, n + 1, 0)
}

/// The function of a root port.
pub(crate) fn space(n: u8) -> ConfigSpace {
    space_with(n, 4)
}

/// The same, with this number of supported end-to-end prefixes.
pub(crate) fn space_with(n: u8, end_end_prefixes: u8) -> ConfigSpace {
    let identity = Identity { vendor: 0x1234, device: 0x5678, class: 0x06_04_00, ..Identity::default() };
    let slot = SlotLayout {
        number: u16::from(n) + 1,
        hot_plug: true,
        attention_button: true,
        power_controller: true,
        occupied: true,
        ..SlotLayout::default()
    };
    let pcie = PcieLayout {
        port_number: n,
        slot: Some(slot),
        end_end_prefixes,
        ltr: true,
        ..PcieLayout::port(PortType::RootPort)
    };
    Builder::type1(identity)
        .interrupt_pin(1)
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie)
        .advanced_error_reporting_with(AerLayout::new(AerRole::RootPort))
        .access_control(AcsLayout::port(32))
        .downstream_port_containment(DpcLayout { root_port: true, ..DpcLayout::default() })
        .build()
        .unwrap()
}

type Answer = Box<dyn FnMut(&Tlp) -> Vec<Tlp>>;

#[derive(Default)]
struct EndState {
    script: VecDeque<(Time, Tlp)>,
    /// Each with its place in the order of all.
    ready: [VecDeque<(u64, Tlp)>; 3],
    sent: u64,
    received: Vec<Tlp>,
    credits: VecDeque<CreditReturn>,
    answer: Option<Answer>,
}

impl EndState {
    fn push(&mut self, tlp: Tlp) {
        self.sent += 1;
        self.ready[tlp.class().index()].push_back((self.sent, tlp));
    }
}

/// A device that sends the given TLPs, keeps arriving ones, and answers requests if it has an answer function.
#[derive(Clone, Default)]
pub(crate) struct End(Rc<RefCell<EndState>>);

impl End {
    pub(crate) fn send(&self, at_ns: u64, tlp: Tlp) {
        self.0.borrow_mut().script.push_back((Time::ZERO + Duration::from_ns(at_ns), tlp));
    }

    /// Answers each request with one completion.
    pub(crate) fn answer(&self, mut answer: impl FnMut(&Tlp) -> Option<Tlp> + 'static) {
        self.answer_many(move |request| Vec::from_iter(answer(request)));
    }

    /// Answers requests with completions, in any order.
    pub(crate) fn answer_many(&self, answer: impl FnMut(&Tlp) -> Vec<Tlp> + 'static) {
        self.0.borrow_mut().answer = Some(Box::new(answer));
    }

    /// Answers every request with success.
    pub(crate) fn serve(&self, as_function: Bdf) {
        self.answer(move |request| served(request, as_function));
    }

    pub(crate) fn received(&self) -> Vec<Tlp> {
        self.0.borrow().received.clone()
    }

    /// Returns the arrived TLPs except Set_Slot_Power_Limit.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.received().iter().map(line).filter(|l| !l.starts_with("Set_Slot_Power_Limit")).collect()
    }
}

impl TlpPort for End {
    fn handle_tlp(&mut self, _now: Time, tlp: &Tlp) {
        let mut state = self.0.borrow_mut();
        state.credits.push_back(CreditReturn::of(tlp));
        if tlp.class() == Class::NonPosted {
            let answers = state.answer.as_mut().map(|answer| answer(tlp)).unwrap_or_default();
            answers.into_iter().for_each(|tlp| state.push(tlp));
        }
        state.received.push(tlp.clone());
    }

    fn poll_tlp(&mut self, _now: Time, class: Class, _room: TcSet) -> Option<Tlp> {
        let mut state = self.0.borrow_mut();
        let (place, _) = state.ready[class.index()].front()?;
        // No TLP passes a posted request here.
        let posted = &state.ready[Class::Posted.index()];
        if class != Class::Posted && posted.front().is_some_and(|(before, _)| before < place) {
            return None;
        }
        state.ready[class.index()].pop_front().map(|(_, tlp)| tlp)
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.0.borrow_mut().credits.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.borrow().script.front().map(|(at, _)| *at)
    }

    fn handle_timeout(&mut self, now: Time) {
        let mut state = self.0.borrow_mut();
        while state.script.front().is_some_and(|(at, _)| *at <= now) {
            let Some((_, tlp)) = state.script.pop_front() else { return };
            state.push(tlp);
        }
    }
}

/// Two root ports with one device each.
pub(crate) struct Rig {
    pub(crate) ends: [End; 2],
    pub(crate) host: HostProfile,
    pub(crate) mode: PeerToPeer,
    pub(crate) preset: bool,
    pub(crate) mps: [u32; 2],
    /// End-to-end prefixes that each root port takes.
    pub(crate) end_end_prefixes: u8,
    pub(crate) faults: Vec<FaultRule>,
    /// The link of a slot with this Max_Payload_Size.
    pub(crate) link: fn(u32) -> LinkConfig,
}

impl Rig {
    pub(crate) fn new() -> Rig {
        let host = HostProfile {
            root_complex_latency: LATENCY,
            completion_timeout: Duration::from_us(500),
            ..HostProfile::ideal()
        };
        let mode = PeerToPeer::Forward;
        Rig {
            ends: [End::default(), End::default()],
            host,
            mode,
            preset: false,
            mps: [256; 2],
            end_end_prefixes: 4,
            faults: Vec::new(),
            link,
        }
    }

    pub(crate) fn fabric<F, Fut>(&self, program: F) -> Fabric
    where
        F: FnOnce(Cpu) -> Fut + 'static,
        Fut: Future<Output = Result<(), String>> + 'static,
    {
        let memory = HostMemory::new(1 << 20, 1 << 20).unwrap();
        let payloads = PayloadPool::new();
        let program = AsyncProgram::with_pool(payloads.clone(), memory.clone(), program);
        let slot =
            |(end, mps): (&End, u32)| SlotConfig::on_root_port((self.link)(mps), Box::new(end.clone()));
        let host = HostConfig {
            profile: self.host.clone(),
            payloads,
            root_ports: (0..2).map(|n| space_with(n, self.end_end_prefixes)).collect(),
            program: Some(Box::new(program)),
            ..ideal_host(memory)
        };
        let slots = self.ends.iter().zip(self.mps).map(slot).collect();
        let faults = self.faults.clone();
        let mut fabric = Fabric::new(FabricConfig { faults, ..config(host, slots, Vec::new()) }).unwrap();
        fabric.root_mut().set_peer_to_peer(self.mode);
        if self.preset {
            (0..2).for_each(|n| fabric.root_mut().preset(n));
        }
        fabric
    }

    /// Runs [`set_up`] and then `program` to its end.
    pub(crate) fn run<F, Fut>(&self, program: F) -> Fabric
    where
        F: FnOnce(Cpu) -> Fut + 'static,
        Fut: Future<Output = Result<(), String>> + 'static,
    {
        let mut fabric = self.fabric(|cpu| async move {
            set_up(&cpu).await;
            program(cpu).await
        });
        finish(&mut fabric);
        fabric
    }
}

pub(crate) fn finish(fabric: &mut Fabric) {
    assert!(matches!(fabric.run(Limits::default()), Stop::Finished), "the program ends");
    check_refusals(fabric);
}

/// Each TLP that counts as an error has a rule. A write to a link that is down may count as unsupported as well.
fn check_refusals(fabric: &Fabric) {
    let (c, of_functions) = (fabric.root().counters(), fabric.root().function_counters());
    let refused = [c.unsupported_requests, of_functions.acs_violations, c.unexpected_completions];
    let dropped = [c.malformed, c.ecrc_errors, c.poisoned, c.completion_timeouts];
    let errors: u64 = refused.iter().chain(&dropped).sum();
    let explained: u64 = fabric.root().refusals().iter().map(|refusal| refusal.count).sum();
    let range = errors.max(of_functions.link_down)..=errors + of_functions.link_down;
    assert!(range.contains(&explained), "{explained} of {range:?} refusals: {c:?}");
}

pub(crate) fn link(mps: u32) -> LinkConfig {
    let port = PortConfig::new(Rate::Gt8, Width::new(8).unwrap(), Mps::new(mps).unwrap());
    let (root, device, propagation) = (port.clone(), port, Duration::from_ns(2));
    LinkConfig { root, device, propagation, rcb: None, bit_error_rate: 0 }
}

/// Sets both root ports up as drawn above, each with MSI, and reports errors of all classes.
pub(crate) async fn set_up(cpu: &Cpu) {
    for n in 0..2u8 {
        let (bus, io) = (u32::from(below(n).bus()), u32::from(n) + 1);
        let memory = (window(n) >> 16) as u32;
        let rows = [
            (6, 0xf, (bus + 0xf) << 16 | bus << 8),
            (8, 0xf, (memory + 0xff0) << 16 | memory),
            (7, 0x3, io << 12 | io << 4),
            // Prefetchable base above limit: closed.
            (9, 0xf, 0x0000_fff0),
            // SERR# Enable of Bridge Control; memory, I/O, Bus Master.
            (15, 0x4, 0x0002_0000),
            (1, 0x3, 0x0007),
        ];
        for (register, enables, value) in rows {
            write(cpu, n, register, enables, value).await;
        }
        let space = space(n);
        let msi = space.msi_capability().unwrap();
        let data = if read(cpu, n, msi).await & 1 << 23 != 0 { 3 } else { 2 };
        write(cpu, n, msi + 1, 0xf, 0xfee0_0000).await;
        write(cpu, n, msi + data, 0x3, u32::from(VECTOR) + u32::from(n)).await;
        write(cpu, n, msi, 0x4, 0x0001_0000).await;
        write(cpu, n, space.pcie_capability().unwrap() + 2, 0x1, 0x2f).await;
        let aer = space.aer_capability().unwrap();
        write(cpu, n, aer + aer::CORRECTABLE_MASK, 0xf, 0).await;
        // ECRC Check Enable.
        write(cpu, n, aer + aer::CONTROL, 0xf, 1 << 8).await;
    }
}

/// Turns on these Access Control Services of root port `n`.
pub(crate) async fn set_acs(cpu: &Cpu, n: u8, services: u32) {
    let at = space(n).extended_capability(acs::ID).unwrap() + 1;
    write(cpu, n, at, 0xc, services << 16).await;
}

/// Register of the first extended capability with this ID.
pub(crate) fn extended(n: u8, id: u16, dw: u16) -> u16 {
    space(n).extended_capability(id).unwrap() + dw
}

/// Register of the PCI Express capability.
pub(crate) fn pcie(n: u8, dw: u16) -> u16 {
    space(n).pcie_capability().unwrap() + dw
}

pub(crate) async fn write(cpu: &Cpu, n: u8, register: u16, enables: u8, value: u32) {
    cpu.config_write(root_port(n), register, enables, value).await.unwrap();
}

pub(crate) async fn read(cpu: &Cpu, n: u8, register: u16) -> u32 {
    cpu.config_read(root_port(n), register).await.unwrap()
}

pub(crate) fn error(requester: Bdf, code: u8) -> Tlp {
    message(MessageRouting::ToRootComplex, requester, code)
}

/// A completion of a read of `len` bytes at `address`, with or without data.
pub(crate) fn completion(completer: Bdf, requester: Bdf, tag: Tag, status: Status, len: u16) -> Tlp {
    let with_data = status == Status::Success && len > 0;
    let body = Completion {
        status,
        byte_count: if len == 0 { 4 } else { len },
        length_dw: with_data.then_some(len.div_ceil(4)),
        ..Completion::new(completer, requester, tag)
    };
    let data = if with_data { Data::Counted(u32::from(len)) } else { Data::NONE };
    Tlp::new(Repr::new(Body::Completion(body)), data)
}

/// Returns the one completion of `request` with this status; `None` if no completion answers it. Byte `n` of memory is `n` modulo
/// 251.
pub(crate) fn served_with(request: &Tlp, completer: Bdf, status: Status) -> Option<Tlp> {
    let (requester, tag) = request.repr.transaction();
    let (len, address) = match request.repr.body {
        _ if request.class() != Class::NonPosted => return None,
        Body::Memory(m) if m.op.is_read() => (m.span.byte_count() as u16, m.span.first_byte()),
        Body::Config(c) if c.op == Access::Write => (0, 0),
        _ => (4, 0),
    };
    let tlp = completion(completer, requester, tag, status, len);
    let mut tlp = Tlp { account: request.account, ..tlp };
    (tlp.repr.tc, tlp.repr.attr) = (request.repr.tc, request.repr.attr & Attributes::COMPLETED);
    if let Body::Completion(c) = &mut tlp.repr.body
        && c.length_dw.is_some()
    {
        c.lower_address = (address & 0x7f) as u8;
        let bytes: Vec<u8> = (0..u64::from(len)).map(|n| ((address + n) % 251) as u8).collect();
        tlp.data = Data::Carried(PayloadPool::new().copy(&bytes));
    }
    Some(tlp)
}

pub(crate) fn served(request: &Tlp, completer: Bdf) -> Option<Tlp> {
    served_with(request, completer, Status::Success)
}

/// Returns type, target, and requester.
pub(crate) fn line(tlp: &Tlp) -> String {
    let (requester, tag) = tlp.repr.transaction();
    let (name, tag) = (tlp.repr.name(), tag.bits());
    match tlp.repr.body {
        Body::Completion(c) if c.length_dw.is_none() => {
            let status = status_name(c.status);
            format!("{name} {status} of {} to {requester} tag {tag}", c.completer)
        }
        Body::Completion(c) => {
            let (len, bc, low) = (tlp.data.len(), c.byte_count, c.lower_address);
            format!("{name} {len} B, bc {bc}, low {low:#x}, of {} to {requester} tag {tag}", c.completer)
        }
        Body::Memory(m) => {
            let (address, len) = (m.span.first_byte(), m.span.byte_count());
            format!("{name} {address:#x} {len} B of {requester} tag {tag}")
        }
        Body::Config(c) => format!("{name} {} register {:#x}", c.completer, c.register_dw),
        Body::Message(m) => format!("{} of {requester}", message::name_of(&m).unwrap_or("message")),
        _ => format!("{name} of {requester} tag {tag}"),
    }
}
