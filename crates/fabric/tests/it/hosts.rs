// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several hosts on one fabric, each with the same bus numbers and addresses. They do not affect each other. The hosts
//! use only the trait, as a kernel or another simulator would.

use crate::common;
use crate::root_rig::{End, bdf, below, message, root_port, space, window};
use config::{Bar, Builder, ConfigSpace, Identity, MsiLayout, PcieLayout};
use device::io::Request;
use device::{AsyncDevice, Io};
use endpoint::{Endpoint, EndpointConfig, EndpointLimits, FunctionConfig, TlpPort};
use host::{DriverError, HostInput, HostInterrupt, HostMemory, HostOutput, HostProgram, HostReadId, Wire};
use riser_fabric::{
    Above, Fabric, FabricConfig, HostConfig, HostId, HostProfile, Limits, NoHost, SlotConfig, Stop,
    TopologyError,
};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::{Bdf, Data, Duration, MessageRouting, PayloadPool, Rate, Time};

const HOSTS: [HostId; 2] = [HostId(0), HostId(1)];
/// Registers of a type 0 header, in DW.
const COMMAND: u16 = 1;
const BAR0: u16 = 4;
/// Address that the cards read; they write [`ANSWER`] bytes after it.
const QUESTION: u64 = 0x1000;
const ANSWER: u64 = 0x100;
const MSI: u64 = 0xfee0_3000;

/// A step of a host.
#[derive(Clone, Debug)]
enum Step {
    ConfigWrite(Bdf, u16, u8, u32),
    ConfigRead(Bdf, u16),
    Write(u64, Vec<u8>),
    Sleep(Duration),
    /// Waits until the host has received this many interrupts in total.
    Interrupts(usize),
    Fail(&'static str),
    End,
}

/// The inputs that a host has received.
#[derive(Default)]
struct Heard {
    interrupts: Vec<HostInterrupt>,
    answers: Vec<Vec<u8>>,
}

/// A host written against the trait.
#[derive(Clone, Default)]
struct Machine(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    heard: Heard,
    now: Time,
    asked: u32,
    /// Whether a request is outstanding.
    waits: bool,
    wakes_at: Option<Time>,
    outcome: Option<Result<(), DriverError>>,
}

impl State {
    fn id(&mut self) -> HostReadId {
        self.asked += 1;
        self.waits = true;
        HostReadId(self.asked)
    }

    fn next(&mut self) -> Option<HostOutput> {
        let pool = PayloadPool::new();
        while !self.waits && self.wakes_at.is_none() {
            if let Some(Step::Interrupts(n)) = self.steps.front()
                && self.heard.interrupts.len() < *n
            {
                return None;
            }
            match self.steps.pop_front()? {
                Step::ConfigWrite(function, register_dw, byte_enables, value) => {
                    let id = self.id();
                    return Some(HostOutput::ConfigWrite { id, function, register_dw, byte_enables, value });
                }
                Step::ConfigRead(function, register_dw) => {
                    return Some(HostOutput::ConfigRead {
                        id: self.id(),
                        function,
                        register_dw,
                        byte_enables: 0xf,
                    });
                }
                Step::Write(address, bytes) => {
                    return Some(HostOutput::MmioWrite { address, data: Data::Carried(pool.copy(&bytes)) });
                }
                Step::Sleep(duration) => self.wakes_at = Some(self.now + duration),
                Step::Interrupts(_) => {}
                Step::Fail(why) => self.outcome = Some(Err(why.into())),
                Step::End => self.outcome = Some(Ok(())),
            }
        }
        None
    }
}

impl HostProgram for Machine {
    fn handle(&mut self, now: Time, input: HostInput) {
        let mut state = self.0.borrow_mut();
        state.now = now;
        match input {
            HostInput::Done { id, result } => {
                assert_eq!(id.0, state.asked, "the answer is to its own request");
                state.waits = false;
                state.heard.answers.push(result.unwrap().bytes().unwrap_or_default().to_vec());
            }
            HostInput::Interrupt(interrupt) => state.heard.interrupts.push(interrupt),
            HostInput::Timer => state.wakes_at = state.wakes_at.filter(|at| *at > now),
            other => panic!("{other:?}"),
        }
    }

    fn poll_output(&mut self, now: Time) -> Option<HostOutput> {
        let mut state = self.0.borrow_mut();
        state.now = now;
        state.next()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.borrow().wakes_at
    }

    fn outcome(&self) -> Option<Result<(), DriverError>> {
        self.0.borrow().outcome.clone()
    }
}

/// A card that reads 8 bytes at a given address and writes them to a higher address. It interrupts by its MSI, and by a
/// DMA write of 32 bits to the interrupt address.
async fn card(io: Io) {
    while let Some(request) = io.next_request().await {
        if let Request::Write(write) = request {
            let address = u64::from_le_bytes(write.data().bytes().unwrap().try_into().unwrap());
            let bytes = io.dma_read(address, 8).await.unwrap();
            io.dma_write(address + ANSWER, bytes).await.unwrap();
            io.interrupt(0).await.unwrap();
            io.dma_write(MSI + 4, 0xdead_beef_u32).await.unwrap();
        }
    }
}

fn card_space() -> ConfigSpace {
    Builder::type0(Identity { vendor: 0x1af4, device: 0x10ff, ..Identity::default() })
        .bar(0, Bar::memory32(4096))
        .msi(MsiLayout { vectors: 1 })
        .pcie(PcieLayout::default())
        .build()
        .unwrap()
}

fn endpoint() -> Box<dyn TlpPort> {
    let device = Box::new(AsyncDevice::new(card));
    let functions = vec![FunctionConfig { config: card_space(), device }];
    let (limits, pool) = (EndpointLimits::default(), PayloadPool::new());
    Box::new(Endpoint::new(EndpointConfig { name: "card".into(), functions, limits, pool }).unwrap())
}

/// Sets the root port and the card up, at the same places on every host; with `data` as the data of the card's MSI.
fn set_up(data: u32) -> Vec<Step> {
    let (port, card) = (root_port(0), below(0));
    let (bus, base) = (u32::from(card.bus()), (window(0) >> 16) as u32);
    let space = card_space();
    let msi = space.msi_capability().unwrap();
    let data_dw = if space.read(msi) & 1 << 23 != 0 { 3 } else { 2 };
    let write = |function, register, enables, value| Step::ConfigWrite(function, register, enables, value);
    vec![
        write(port, 6, 0xf, (bus + 0xf) << 16 | bus << 8),
        write(port, 8, 0xf, (base + 0xff0) << 16 | base),
        write(port, COMMAND, 0x3, 0x0006),
        write(card, BAR0, 0xf, window(0) as u32),
        write(card, msi + 1, 0xf, MSI as u32),
        write(card, msi + data_dw, 0x3, data),
        write(card, msi, 0x4, 0x0001_0000),
        write(card, COMMAND, 0x3, 0x0006),
    ]
}

/// Makes the card read at `address`, write after it and interrupt.
fn ring(address: u64) -> Vec<Step> {
    vec![Step::Write(window(0), address.to_le_bytes().to_vec()), Step::Interrupts(2)]
}

struct Pair {
    fabric: Fabric,
    machines: [Machine; 2],
    memories: [HostMemory; 2],
}

/// Returns two hosts with a root port and a device each.
fn pair(steps: [Vec<Step>; 2], devices: [Box<dyn TlpPort>; 2]) -> Pair {
    let machines: [Machine; 2] = Default::default();
    let memories = [0, 1].map(|_| HostMemory::new(1 << 20, 0).unwrap());
    for (machine, steps) in machines.iter().zip(steps) {
        machine.0.borrow_mut().steps = steps.into();
    }
    let host = |(machine, memory): (&Machine, &HostMemory)| HostConfig {
        profile: HostProfile { interrupt_latency: Duration::from_ns(50), ..HostProfile::ideal() },
        memory: memory.clone(),
        payloads: PayloadPool::new(),
        root_ports: vec![space(0)],
        program: Some(Box::new(machine.clone())),
    };
    let slot = |(host, device)| {
        let (link, above) = (common::link(Rate::Gt8, 8, 256), Above::RootPort(host));
        SlotConfig { link, above, device }
    };
    let fabric = Fabric::new(FabricConfig {
        hosts: machines.iter().zip(&memories).map(host).collect(),
        slots: HOSTS.into_iter().zip(devices).map(slot).collect(),
        switches: Vec::new(),
        faults: Vec::new(),
        seed: 1,
    });
    Pair { fabric: fabric.unwrap(), machines, memories }
}

fn cards(addresses: [u64; 2]) -> Pair {
    let steps = |n: u32, address| [set_up(0x40 + n), ring(address), vec![Step::End]].concat();
    let pair = pair([steps(0, addresses[0]), steps(1, addresses[1])], [endpoint(), endpoint()]);
    for (n, memory) in pair.memories.iter().enumerate() {
        for at in [QUESTION, 2 * QUESTION] {
            memory.write_u64(at, 0x1111_2222_0000_0000 + at + n as u64).unwrap();
        }
    }
    pair
}

/// Each host's card has worked, and interrupted only its own host.
fn check_interrupts(pair: &Pair) {
    for (n, machine) in pair.machines.iter().enumerate() {
        let requester = below(0);
        let expected = [(MSI, 0x40 + n as u32), (MSI + 4, 0xdead_beef)]
            .map(|(address, data)| HostInterrupt::Message { requester, address, data });
        assert_eq!(machine.0.borrow().heard.interrupts, expected, "host {n}");
    }
}

#[test]
fn dma_and_interrupts_stay_with_their_host() {
    let mut pair = cards([QUESTION; 2]);
    assert_eq!(pair.fabric.run(Limits::default()), Stop::Finished);
    for (n, memory) in pair.memories.iter().enumerate() {
        let own = 0x1111_2222_0000_1000 + n as u64;
        assert_eq!(
            (memory.read_u64(QUESTION + ANSWER), memory.read_u64(2 * QUESTION + ANSWER)),
            (Ok(own), Ok(0))
        );
        let root = pair.fabric.root_of(HOSTS[n]).unwrap();
        assert_eq!(
            (root.counters().memory_reads, root.counters().memory_writes, root.counters().interrupts),
            (1, 1, 2)
        );
        assert_eq!(root.counters().unsupported_requests, 0);
    }
    check_interrupts(&pair);
}

/// Host 0's card is assigned to host 1, as to a guest: its DMA reaches the memory of host 1, its interrupts stay with host 0.
#[test]
fn dma_of_granted_function_reaches_other_host() {
    let mut pair = cards([2 * QUESTION, QUESTION]);
    pair.fabric.grant_dma(HOSTS[0], below(0), HOSTS[1]).unwrap();
    assert_eq!(pair.fabric.run(Limits::default()), Stop::Finished);
    let answers =
        |n: usize| [QUESTION, 2 * QUESTION].map(|at| pair.memories[n].read_u64(at + ANSWER).unwrap());
    assert_eq!(answers(0), [0, 0]);
    assert_eq!(answers(1), [0x1111_2222_0000_1001, 0x1111_2222_0000_2001]);
    check_interrupts(&pair);
    // Host 1 has no such grant: on that host, the same requester ID is another function.
    assert_eq!(pair.fabric.root_of(HOSTS[1]).unwrap().counters().memory_reads, 1);
}

/// A grant applies to one function only.
#[test]
fn grant_applies_to_one_function() {
    let mut pair = cards([QUESTION; 2]);
    pair.fabric.grant_dma(HOSTS[0], bdf(0x11, 0, 0), HOSTS[1]).unwrap();
    assert_eq!(pair.fabric.run(Limits::default()), Stop::Finished);
    assert_eq!(pair.memories[0].read_u64(QUESTION + ANSWER), Ok(0x1111_2222_0000_1000));
}

/// Wires reach their host as levels of a root port.
#[test]
fn interrupt_wires_reach_host_as_levels() {
    let ends = [End::default(), End::default()];
    for (at, code) in [(20_000, 0x20), (21_000, 0x20), (22_000, 0x23), (23_000, 0x24)] {
        ends[1].send(at, message(MessageRouting::Local, below(0), code));
    }
    let sleep = Step::Sleep(Duration::from_us(40));
    let [quiet, wired] = ends.map(|end| Box::new(end) as Box<dyn TlpPort>);
    let mut pair = pair([vec![sleep.clone(), Step::End], vec![sleep, Step::End]], [quiet, wired]);
    assert_eq!(pair.fabric.run(Limits::default()), Stop::Finished);
    let (root_port, requester) = (root_port(0), below(0));
    let wire = |wire, asserted| HostInterrupt::Wire { root_port, requester, wire, asserted };
    let expected = [wire(Wire::A, true), wire(Wire::D, true), wire(Wire::A, false)];
    assert_eq!(pair.machines[1].0.borrow().heard.interrupts, expected);
    assert_eq!(pair.machines[0].0.borrow().heard.interrupts, []);
}

/// The host program may issue a request at any time, and determines when it is called.
#[test]
fn outside_event_wakes_host() {
    let mut pair = pair([set_up(0), Vec::new()], [endpoint(), endpoint()]);
    let until =
        |us| Limits { until: Time::ZERO + Duration::from_us(us), open_ended: true, ..Limits::default() };
    assert_eq!(pair.fabric.run(until(50)), Stop::TimeLimit);
    let machine = &pair.machines[0];
    machine.0.borrow_mut().steps.push_back(Step::ConfigRead(below(0), 0));
    assert_eq!(pair.fabric.run(until(60)), Stop::TimeLimit);
    assert_eq!(machine.0.borrow().heard.answers.len(), set_up(0).len(), "it was not called");
    pair.fabric.wake_host(HOSTS[0]).unwrap();
    assert_eq!(pair.fabric.run(until(61)), Stop::TimeLimit);
    let answers = machine.0.borrow().heard.answers[set_up(0).len()..].to_vec();
    assert_eq!(answers[0], [0xf4, 0x1a, 0xff, 0x10]);
}

#[test]
fn errors_name_the_host() {
    let failing = vec![Step::Sleep(Duration::from_us(30)), Step::Fail("out of patience")];
    let mut pair = pair([vec![Step::End], failing], [endpoint(), endpoint()]);
    assert_eq!(pair.fabric.run(Limits::default()), Stop::Failed("host 1: out of patience".into()));
    assert_eq!(pair.fabric.host_outcome(), Some(&Ok(())), "the memory of the first");

    let no_host = NoHost { host: HostId(2), last: 1 };
    assert_eq!(no_host.to_string(), "host 2; expected 0 to 1");
    assert_eq!(pair.fabric.root_of(HostId(2)).err(), Some(no_host));
    assert_eq!(pair.fabric.wake_host(HostId(2)), Err(no_host));
    assert_eq!(pair.fabric.grant_dma(HOSTS[0], below(0), HostId(2)), Err(no_host));
    assert_eq!(pair.fabric.grant_dma(HostId(2), below(0), HOSTS[0]), Err(no_host));

    let config = |hosts, above| FabricConfig {
        hosts,
        slots: vec![SlotConfig { link: common::link(Rate::Gt8, 8, 256), above, device: endpoint() }],
        switches: Vec::new(),
        faults: Vec::new(),
        seed: 0,
    };
    let host = || common::ideal_host(HostMemory::new(4096, 0).unwrap());
    let said = |config| Fabric::new(config).err().map(|error: TopologyError| error.to_string());
    let none = said(config(Vec::new(), Above::RootPort(HostId::FIRST)));
    assert_eq!(none.as_deref(), Some("0 hosts; expected 1 to 64"));
    let other = said(config(vec![host()], Above::RootPort(HostId(1))));
    assert_eq!(other.as_deref(), Some("the link of slot 0 connects to host 1, but the number of hosts is 1"));
}
