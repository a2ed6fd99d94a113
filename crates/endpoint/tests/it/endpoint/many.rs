// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Endpoints with many functions behave like endpoints with a few. The endpoint notices changes by shared engines and
//! channels between functions, and serves functions round robin.

use crate::endpoint::harness::*;
use config::{Bar, Builder, ConfigSpace, Identity, PcieLayout, SriovLayout};
use device::Channel;
use device::io::{Io, Request};
use device::shared::{Engine, SharedEngine, Stirred};
use device::*;
use link::Notice;
use riser_endpoint::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::*;

/// More than are polled each time, which are 8.
const MANY: u16 = 12;

fn space(n: u16) -> ConfigSpace {
    Builder::type0(Identity { vendor: 0x1234, device: n, ..Identity::default() })
        .bar(0, Bar::memory64(4096))
        .pcie(PcieLayout::default())
        .alternative_routing((n + 1) as u8)
        .build()
        .unwrap()
}

/// An endpoint of these devices, each with its registers at a page of BAR0, Bus Master Enable set.
fn endpoint(devices: Vec<Box<dyn Device>>) -> Endpoint {
    let functions = (0..).zip(devices).map(|(n, device)| FunctionConfig { config: space(n), device });
    let (name, limits, pool) = ("many".into(), EndpointLimits::default(), PayloadPool::new());
    let config = EndpointConfig { name, functions: functions.collect(), limits, pool };
    let mut endpoint = Endpoint::new(config).unwrap();
    for n in 0..endpoint_len(&endpoint) {
        let (id, at) = (Bdf::from_bits(EP.bits() + n), page(n));
        for (dw, value) in [(4, at as u32), (5, (at >> 32) as u32), (COMMAND, 6)] {
            endpoint.write_config(Time::ZERO, id, dw, 0xf, value);
        }
    }
    endpoint
}

fn endpoint_len(endpoint: &Endpoint) -> u16 {
    (0..=255).filter(|n| endpoint.config(*n).is_some()).count() as u16
}

fn page(n: u16) -> u64 {
    BAR0 + u64::from(n) * 4096
}

/// All that it has to send of a class, each announced.
fn all(endpoint: &mut Endpoint, now: Time, class: Class) -> Vec<Tlp> {
    std::iter::from_fn(|| next(endpoint, now, class)).collect()
}

/// The next TLP of a class, which must be announced.
fn next(endpoint: &mut Endpoint, now: Time, class: Class) -> Option<Tlp> {
    let announced = endpoint.ready().contains(Ready::output(class));
    let tlp = endpoint.poll_tlp(now, class, TcSet::ALL);
    assert!(announced || tlp.is_none(), "{tlp:?} was not announced");
    tlp
}

/// Reads in the order of the functions' doorbells, one at a time. The next read usually belongs to another function.
#[derive(Default)]
struct OneByOne {
    waiting: VecDeque<u16>,
    busy: bool,
    taken: Vec<(u16, Token)>,
    /// Whether it notifies for the function that a call concerns, or for all.
    says: bool,
    stirred: Vec<u16>,
}

impl OneByOne {
    fn next(&self, function: u16) -> bool {
        !self.busy && self.waiting.front() == Some(&function)
    }
}

impl Engine for OneByOne {
    fn handle(&mut self, _now: Time, function: u16, input: Input) {
        match input {
            Input::Request(request) => {
                self.taken.push((function, request.token));
                self.waiting.push_back(function);
            }
            Input::DmaDone { .. } => {
                self.busy = false;
                self.stirred.extend(self.waiting.front());
            }
            _ => {}
        }
    }

    fn poll_output(&mut self, _now: Time, function: u16, class: Class) -> Option<Output> {
        if class != Class::NonPosted || !self.next(function) {
            return None;
        }
        self.waiting.pop_front();
        self.busy = true;
        Some(read(1, 0x1000 * u64::from(function), 64))
    }

    fn ready(&self, function: u16) -> Ready {
        let taken = self.taken.iter().any(|(f, _)| *f == function);
        let read = if self.next(function) { Ready::output(Class::NonPosted) } else { Ready::NONE };
        if taken { read.or(Ready::TAKEN) } else { read }
    }

    fn poll_taken(&mut self, function: u16) -> Option<Token> {
        let at = self.taken.iter().position(|(f, _)| *f == function)?;
        Some(self.taken.remove(at).1)
    }

    fn poll_timeout(&self, _function: u16) -> Option<Time> {
        None
    }

    fn poll_stirred(&mut self) -> Stirred {
        match (self.says, self.stirred.pop()) {
            (false, _) => Stirred::All,
            (true, Some(function)) => Stirred::One(function),
            (true, None) => Stirred::None,
        }
    }
}

#[test]
fn shared_engine_is_polled_after_a_call_of_any_function() {
    for (count, says) in [(4, false), (MANY, false), (MANY, true), (200, true)] {
        let engine = SharedEngine::new(OneByOne { says, ..OneByOne::default() });
        let mut endpoint = endpoint((0..count).map(|n| engine.function(n)).collect());
        let order: Vec<u16> = (0..count).map(|n| (n * 7 + 3) % count).collect();
        for &n in &order {
            endpoint.handle_tlp(Time::ZERO, &mwr(page(n), &[0; 4]));
        }
        assert_eq!(std::iter::from_fn(|| endpoint.poll_credits()).count(), order.len());
        let mut served = Vec::new();
        while let [asked] = &all(&mut endpoint, Time::ZERO, Class::NonPosted)[..] {
            served.push(request(asked).requester.bits() - EP.bits());
            answer(asked).into_iter().for_each(|c| endpoint.handle_tlp(Time::ZERO, &c));
        }
        assert_eq!(served, order, "{count} functions, notifies for one: {says}");
        assert_eq!(endpoint.ready(), Ready::TAKEN, "the credits of completions");
    }
}

/// A TLP that a function sends after a write to another one. The functions share it, and do not notify.
#[derive(Default)]
struct Mail {
    taken: Vec<(u16, Token)>,
    /// The functions that write, and when.
    writes: Vec<(u16, Time)>,
}

/// A function that shares its [`Mail`]. A write to it is for the opposite function.
struct Silent {
    number: u16,
    count: u16,
    delay: Duration,
    mail: Rc<RefCell<Mail>>,
    now: Time,
}

impl Silent {
    fn due(&self) -> Option<Time> {
        self.mail.borrow().writes.iter().find(|(whose, _)| *whose == self.number).map(|(_, at)| *at)
    }
}

impl Device for Silent {
    fn handle(&mut self, now: Time, input: Input) {
        self.now = now;
        if let Input::Request(request) = input {
            let mail = &mut *self.mail.borrow_mut();
            mail.taken.push((self.count - 1 - self.number, request.token));
            mail.writes.push((self.count - 1 - self.number, now + self.delay));
        }
    }

    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        self.due().filter(|at| class == Class::Posted && *at <= now)?;
        self.mail.borrow_mut().writes.retain(|(whose, _)| *whose != self.number);
        Some(write(0x1000, Data::Counted(4)))
    }

    fn ready(&self) -> Ready {
        let write = self.due().is_some_and(|at| at <= self.now);
        let taken = self.mail.borrow().taken.iter().any(|(across, _)| self.count - 1 - across == self.number);
        let ready = if write { Ready::output(Class::Posted) } else { Ready::NONE };
        if taken { ready.or(Ready::TAKEN) } else { ready }
    }

    fn poll_taken(&mut self) -> Option<Token> {
        let taken = &mut self.mail.borrow_mut().taken;
        let at = taken.iter().position(|(across, _)| self.count - 1 - across == self.number)?;
        Some(taken.remove(at).1)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due().filter(|at| *at > self.now)
    }
}

/// Functions that share state and never notify are polled, for any number of functions: immediately, and at a time that
/// another function's call has set.
#[test]
fn functions_that_share_without_notifying_do_not_stall() {
    for (count, delay_us) in [(8, 0), (9, 0), (200, 0), (8, 3), (9, 3), (200, 3)] {
        let mail: Rc<RefCell<Mail>> = Rc::default();
        let function = |number| -> Box<dyn Device> {
            let (mail, delay, now) = (Rc::clone(&mail), Duration::from_us(delay_us), Time::ZERO);
            Box::new(Silent { number, count, delay, mail, now })
        };
        let mut endpoint = endpoint((0..count).map(function).collect());
        endpoint.handle_tlp(Time::ZERO, &mwr(page(count - 1), &[0; 4]));
        assert!(endpoint.ready().contains(Ready::TAKEN) && endpoint.poll_credits().is_some());
        if delay_us > 0 {
            assert!(all(&mut endpoint, Time::ZERO, Class::Posted).is_empty());
            assert_eq!(endpoint.poll_timeout(), Some(us(delay_us)), "{count} functions");
            endpoint.handle_timeout(us(delay_us));
        }
        let sent = all(&mut endpoint, us(delay_us), Class::Posted);
        let senders: Vec<u16> = sent.iter().map(|t| request(t).requester.bits() - EP.bits()).collect();
        assert_eq!(senders, [0], "{count} functions, {delay_us} us");
        assert_eq!(endpoint.poll_timeout(), None);
    }
}

/// Function 0 sends at the request of function 1, by its `Io`.
#[test]
fn function_may_send_through_another_functions_io() {
    for count in [3, MANY] {
        let lent: Rc<RefCell<Option<Io>>> = Rc::default();
        let mut devices: Vec<Box<dyn Device>> = vec![{
            let lent = Rc::clone(&lent);
            Box::new(AsyncDevice::new(move |io: Io| {
                *lent.borrow_mut() = Some(io.clone());
                std::future::pending::<()>()
            }))
        }];
        devices.extend((1..count).map(|_| -> Box<dyn Device> {
            let lent = Rc::clone(&lent);
            Box::new(AsyncDevice::new(move |io: Io| {
                let lent = Rc::clone(&lent);
                async move {
                    while let Some(Request::Write(_)) = io.next_request().await {
                        let other = lent.borrow().clone().unwrap();
                        let _ = other.dma_write(0x1000, [1; 4]).await;
                    }
                }
            }))
        }));
        let mut endpoint = endpoint(devices);
        endpoint.handle_tlp(Time::ZERO, &mwr(page(1), &[0; 4]));
        let mut written = Vec::new();
        while endpoint.poll_timeout() == Some(Time::ZERO) || endpoint.ready() != Ready::NONE {
            endpoint.handle_timeout(Time::ZERO);
            while endpoint.poll_credits().is_some() {}
            written.extend(all(&mut endpoint, Time::ZERO, Class::Posted));
        }
        let senders: Vec<u16> = written.iter().map(|t| request(t).requester.bits()).collect();
        assert_eq!(senders, [EP.bits()], "{count} functions");
    }
}

/// Function 0 works on messages from the others: its task is woken in their calls.
#[test]
fn channel_wakes_a_function_that_was_not_called() {
    for count in [3, MANY] {
        let work: Channel<u64> = Channel::new(2);
        let receiver = work.clone();
        let mut devices: Vec<Box<dyn Device>> = vec![Box::new(AsyncDevice::new(move |io: Io| {
            let work = receiver.clone();
            async move {
                loop {
                    let address = work.receive().await;
                    let _ = io.dma_write(address, [1; 4]).await;
                }
            }
        }))];
        devices.extend((1..count).map(|_| -> Box<dyn Device> {
            let work = work.clone();
            Box::new(AsyncDevice::new(move |io: Io| {
                let work = work.clone();
                async move {
                    while let Some(request) = io.next_request().await {
                        if let Request::Write(doorbell) = request {
                            work.send(doorbell.u64()).await;
                        }
                    }
                }
            }))
        }));
        let mut endpoint = endpoint(devices);
        for n in 1..count {
            endpoint.handle_tlp(Time::ZERO, &mwr(page(n), &(0x1000 * u64::from(n)).to_le_bytes()));
        }
        let mut written = Vec::new();
        // Works like a link: polls, and returns at the requested time.
        while endpoint.poll_timeout() == Some(Time::ZERO) || endpoint.ready() != Ready::NONE {
            endpoint.handle_timeout(Time::ZERO);
            while endpoint.poll_credits().is_some() {}
            written.extend(all(&mut endpoint, Time::ZERO, Class::Posted));
        }
        let senders: Vec<u16> = written.iter().map(|t| request(t).requester.bits()).collect();
        assert_eq!(senders, vec![EP.bits(); usize::from(count) - 1]);
        let mut addresses: Vec<u64> = written.iter().map(|t| request(t).span.address()).collect();
        addresses.sort_unstable();
        assert_eq!(addresses, (1..u64::from(count)).map(|n| 0x1000 * n).collect::<Vec<u64>>());
    }
}

#[test]
fn many_functions_take_turns_and_reads_wait_for_split_writes() {
    let probes: Vec<Probe> = (0..MANY).map(|_| Probe::default()).collect();
    let mut endpoint = endpoint(probes.iter().map(|p| -> Box<dyn Device> { Box::new(p.clone()) }).collect());
    for probe in &probes {
        // Max_Payload_Size is 128 B after reset: two TLPs each.
        probe.push(Class::Posted, write(0x1000, Data::Counted(256)));
        probe.push(Class::NonPosted, read(1, 0x2000, 64));
    }
    let mut senders = Vec::new();
    for n in 0..2 * MANY {
        let tlp = endpoint.poll_tlp(Time::ZERO, Class::Posted, TcSet::ALL).unwrap();
        senders.push(request(&tlp).requester.bits() - EP.bits());
        // Half of each write is sent: a read of the same function may not pass it (`PCIe 5.0 §2.4.1`).
        if n == MANY - 1 {
            assert!(endpoint.poll_tlp(Time::ZERO, Class::NonPosted, TcSet::ALL).is_none());
        }
    }
    assert_eq!(senders, (0..MANY).chain(0..MANY).collect::<Vec<u16>>());
    assert_eq!(endpoint.poll_timeout(), Some(Time::ZERO), "the held output asks to be polled");
    endpoint.handle_timeout(Time::ZERO);
    assert_eq!(all(&mut endpoint, Time::ZERO, Class::NonPosted).len(), usize::from(MANY));
}

/// While a write is being split, a read that is also being split goes on. The next read may not pass the write
/// (`PCIe 5.0 §2.4.1`), and is announced after the last TLP of the write.
#[test]
fn split_read_continues_during_split_write() {
    for count in [1, MANY] {
        let probes: Vec<Probe> = (0..count).map(|_| Probe::default()).collect();
        let mut endpoint =
            endpoint(probes.iter().map(|p| -> Box<dyn Device> { Box::new(p.clone()) }).collect());
        // After reset, Max_Read_Request_Size is 512 B and Max_Payload_Size 128 B: two TLPs each.
        probes[0].push(Class::NonPosted, read(1, 0x2000, 1024));
        probes[0].push(Class::NonPosted, read(2, 0x4000, 64));
        probes[0].push(Class::Posted, write(0x1000, Data::Counted(256)));
        let mut sent = |class| next(&mut endpoint, Time::ZERO, class).map(|t| request(&t).span.address());
        assert_eq!(sent(Class::NonPosted), Some(0x2000));
        assert_eq!(sent(Class::Posted), Some(0x1000));
        assert_eq!(sent(Class::NonPosted), Some(0x2200));
        assert_eq!(sent(Class::NonPosted), None);
        assert_eq!(sent(Class::Posted), Some(0x1080));
        assert_eq!(sent(Class::NonPosted), Some(0x4000));
    }
}

#[test]
fn endpoint_has_earliest_deadline_of_its_functions() {
    let probes: Vec<Probe> = (0..MANY).map(|_| Probe::default()).collect();
    for (n, probe) in (1..).zip(&probes) {
        probe.0.borrow_mut().timeout = Some(us(100 - n));
    }
    let mut endpoint = endpoint(probes.iter().map(|p| -> Box<dyn Device> { Box::new(p.clone()) }).collect());
    assert_eq!(endpoint.poll_timeout(), Some(us(88)));
    probes[11].0.borrow_mut().timeout = None;
    probes[10].0.borrow_mut().timeout = None;
    endpoint.handle_timeout(us(90));
    let told: Vec<usize> =
        (0..12).filter(|&n| probes[n].take_inputs().iter().any(|i| matches!(i, Input::Timer))).collect();
    assert_eq!(told, [9], "the others had nothing to wait for, or wait longer");
}

/// Every physical function reports the link's rate and width of the last notice (`PCIe 5.0 §7.5.3.8`).
#[test]
fn link_status_follows_link_notices() {
    let probes = (0..3).map(|_| -> Box<dyn Device> { Box::new(Probe::default()) });
    let mut endpoint = endpoint(probes.collect());
    let status = |endpoint: &Endpoint, n: u8| {
        let config = endpoint.config(n).unwrap();
        config.read(config.pcie_capability().unwrap() + 4) >> 16 & 0x3ff
    };
    let (x4, x1) = (Width::new(4).unwrap(), Width::new(1).unwrap());
    let rows = [
        (Notice::Up { rate: Rate::Gt16, width: x4 }, 0x044),
        (Notice::Retrained { rate: Rate::Gt5, width: x1 }, 0x012),
        (Notice::Up { rate: Rate::Gt8, width: x1 }, 0x013),
    ];
    for (notice, expected) in rows {
        endpoint.handle_notice(Time::ZERO, notice);
        for n in 0..3 {
            assert_eq!(status(&endpoint, n), expected, "{notice:?}, function {n}");
        }
    }
}

/// Set_Slot_Power_Limit: bits 7:0 of its data are the value, 9:8 the scale (`PCIe 5.0 §2.2.8.5`); all functions capture it, no
/// device sees it.
#[test]
fn all_functions_capture_the_slot_power_limit() {
    let probes: Vec<Probe> = (0..2).map(|_| Probe::default()).collect();
    let mut endpoint = endpoint(probes.iter().map(|p| -> Box<dyn Device> { Box::new(p.clone()) }).collect());
    for (value, scale) in [(75u8, 0u8), (250, 1), (1, 3)] {
        let (routing, requester) = (MessageRouting::Local, HOST);
        let body = Message { length_dw: Some(1), ..Message::new(routing, requester, 0x50) };
        let data = Data::Carried(PayloadPool::new().copy(&[value, scale, 0, 0]));
        endpoint.handle_tlp(Time::ZERO, &Tlp::new(Repr::new(Body::Message(body)), data));
        // Captured Slot Power Limit Value and Scale (`PCIe 5.0 §7.5.3.3`).
        for n in 0..2 {
            let config = endpoint.config(n).unwrap();
            let capabilities = config.read(config.pcie_capability().unwrap() + 1);
            assert_eq!(capabilities >> 18 & 0x3ff, u32::from(scale) << 8 | u32::from(value));
        }
    }
    assert!(probes.iter().all(|p| p.take_inputs().is_empty()));
    assert_eq!(endpoint.counters().messages_consumed, 3);
}

/// No two functions have one ID, with or without ARI Capable Hierarchy (`PCIe 5.0 §9.2.1.2`).
#[test]
fn rejects_numbering_that_gives_two_functions_one_id() {
    use config::VfNumbering;
    use riser_endpoint::VirtualFunctions;
    let made = |ari: (u16, u16), without: (u16, u16), physical: u16| {
        let numbering = |(first_offset, stride)| VfNumbering { first_offset, stride };
        let sriov = SriovLayout {
            ari: numbering(ari),
            without_ari: numbering(without),
            ..SriovLayout::new(4, 0x1001)
        };
        let space = |_| {
            Builder::type0(Identity::default())
                .pcie(PcieLayout::default())
                .alternative_routing(0)
                .single_root_virtualization(sriov)
                .build()
                .unwrap()
        };
        let endpoint = Bench::of(EndpointLimits::default(), (0..physical).map(space).collect()).endpoint;
        let vfs = || VirtualFunctions {
            config: Builder::virtual_function(Identity::default())
                .pcie(PcieLayout::default())
                .build()
                .unwrap(),
            device: Box::new(|_| Box::new(Probe::default())),
        };
        let all = (0..physical).try_fold(endpoint, |e, p| e.with_virtual_functions(p, vfs()));
        all.err().map(|e| e.to_string())
    };
    assert_eq!(made((1, 1), (0x100, 1), 1), None);
    assert_eq!(made((2, 2), (0x100, 2), 2), None, "even and odd");
    let refused = |text: Option<String>, function: &str, numbers: &str| {
        let text = text.unwrap();
        assert!(text.starts_with(function) && text.contains(numbers), "{text}");
    };
    refused(
        made((0, 1), (0x100, 1), 1),
        "virtual function 0 of function 0",
        "First VF Offset 0 and VF Stride 1",
    );
    refused(made((1, 1), (0x100, 0), 1), "virtual function 1 of function 0", "Offset 256 and VF Stride 0");
    refused(made((1, 2), (0x100, 2), 2), "virtual function 0 of function 0", "Offset 1 and VF Stride 2");
    refused(made((2, 1), (0x100, 2), 2), "virtual function 0 of function 1", "Offset 2 and VF Stride 1");
    refused(
        made((0xffff, 1), (0x100, 1), 1),
        "virtual function 1 of function 0",
        "Offset 65535 and VF Stride 1",
    );
}

/// With ARI the function number has eight bits (`PCIe 5.0 §6.13`), even with few functions. Requests to other function
/// numbers are completed with UR, and a write to them does not change the ID. Without ARI, requests with any device
/// number are for this device, which captures the number.
#[test]
fn ari_device_answers_only_for_existing_functions() {
    let plain = || Builder::type0(Identity::default()).pcie(PcieLayout::default()).build().unwrap();
    for (alternative, expected) in [(true, Status::UnsupportedRequest), (false, Status::Success)] {
        let spaces = if alternative { vec![space(0), space(1)] } else { vec![plain(), plain()] };
        let mut bench = Bench::of(EndpointLimits::default(), spaces);
        let mut write_to = |function: u16| {
            let id = Bdf::from_bits(EP.bits() + function);
            bench.handle(cfg(Access::Write, id, COMMAND, 0b0011, &[6, 0]));
            completion(&bench.poll(Class::Completion).unwrap()).status
        };
        assert_eq!([0, 1].map(&mut write_to), [Status::Success; 2]);
        assert_eq!([0x08, 0xf9].map(&mut write_to), [expected; 2], "03:01.0 and 03:1f.1");
        let moved = if alternative { EP.bits() } else { EP.bits() + 0xf8 };
        assert_eq!(bench.endpoint.function_id(0), Some(Bdf::from_bits(moved)));
    }
}
