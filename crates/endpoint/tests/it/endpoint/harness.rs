// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An endpoint with devices that a test controls completely, and a host made by hand.

use config::{Bar, Builder, ConfigSpace, Identity, MsiLayout, MsixLayout, PcieLayout};
use device::shared::Notifier;
use device::*;
use riser_endpoint::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::message::MessageCodes;
use tlp::*;

pub(crate) const HOST: Bdf = Bdf::from_bits(0);
/// Bus 3, device 0: function 0 of the endpoint.
pub(crate) const EP: Bdf = Bdf::from_bits(0x0300);
pub(crate) const BAR0: u64 = 0x10_0000_0000;
pub(crate) const BAR2: u64 = 0xf000_0000;
pub(crate) const COMMAND: u16 = 1;
pub(crate) const MSI: u16 = 0x40 / 4;
pub(crate) const PCIE: u16 = 0x50 / 4;
pub(crate) const DEVICE_CONTROL: u16 = PCIE + 2;
pub(crate) const DEVICE_CONTROL_2: u16 = PCIE + 10;
pub(crate) const MSIX: u16 = 0x8c / 4;
pub(crate) const AER_STATUS: u16 = 0x104 / 4;

/// The state of a device, which a test observes and controls.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) inputs: Vec<Input>,
    pub(crate) outputs: [VecDeque<Output>; 3],
    pub(crate) taken: VecDeque<Token>,
    pub(crate) timeout: Option<Time>,
    /// Takes requests by itself.
    pub(crate) takes: bool,
    /// Begins a new read whenever a read has ended.
    pub(crate) rereads: bool,
    pub(crate) notifier: Option<Notifier>,
    /// The accepted message codes.
    pub(crate) messages: MessageCodes,
    /// The received sizes, each with the number of inputs before it.
    pub(crate) sizes: Vec<(u32, u32, usize)>,
}

#[derive(Clone, Default)]
pub(crate) struct Probe(pub(crate) Rc<RefCell<State>>);

impl Device for Probe {
    fn handle(&mut self, _now: Time, input: Input) {
        let mut state = self.0.borrow_mut();
        if let (Input::Request(request), true) = (&input, state.takes) {
            state.taken.push_back(request.token);
        }
        if let (Input::DmaDone { .. }, true) = (&input, state.rereads) {
            state.outputs[Class::NonPosted.index()].push_back(read(1, 0x1000, 64));
        }
        state.inputs.push(input);
    }

    fn poll_output(&mut self, _now: Time, class: Class) -> Option<Output> {
        self.0.borrow_mut().outputs[class.index()].pop_front()
    }

    fn ready(&self) -> Ready {
        let state = self.0.borrow();
        let outputs = Class::ALL.into_iter().filter(|class| !state.outputs[class.index()].is_empty());
        let taken = if state.taken.is_empty() { Ready::NONE } else { Ready::TAKEN };
        outputs.fold(taken, |ready, class| ready.or(Ready::output(class)))
    }

    fn poll_taken(&mut self) -> Option<Token> {
        self.0.borrow_mut().taken.pop_front()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.0.borrow().timeout
    }

    fn messages(&self) -> MessageCodes {
        self.0.borrow().messages
    }

    fn set_notifier(&mut self, notifier: Notifier) -> bool {
        self.0.borrow_mut().notifier = Some(notifier);
        true
    }

    fn set_sizes(&mut self, mps: Mps, mrrs: Mrrs) {
        let state = &mut *self.0.borrow_mut();
        state.sizes.push((mps.bytes(), mrrs.bytes(), state.inputs.len()));
    }
}

impl Probe {
    /// Pushes an output from outside, so that the device has to notify.
    pub(crate) fn push(&self, class: Class, output: Output) {
        let state = &mut *self.0.borrow_mut();
        state.outputs[class.index()].push_back(output);
        state.notifier.iter().for_each(Notifier::notify);
    }

    /// Accepts these requests. The device has to notify, too.
    pub(crate) fn take(&self, tokens: Vec<Token>) {
        let state = &mut *self.0.borrow_mut();
        state.taken.extend(tokens);
        state.notifier.iter().for_each(Notifier::notify);
    }

    pub(crate) fn take_inputs(&self) -> Vec<Input> {
        std::mem::take(&mut self.0.borrow_mut().inputs)
    }

    /// Returns the tokens of all requests since the last call.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let token = |i: Input| if let Input::Request(r) = i { Some(r.token) } else { None };
        self.take_inputs().into_iter().filter_map(token).collect()
    }

    /// Returns the DMA reads that ended since the last call.
    pub(crate) fn done(&self) -> Vec<(u32, Result<Data, DmaError>)> {
        let done = |i: Input| if let Input::DmaDone { id, result } = i { Some((id.0, result)) } else { None };
        self.take_inputs().into_iter().filter_map(done).collect()
    }
}

pub(crate) struct Bench {
    pub(crate) endpoint: Endpoint,
    pub(crate) probes: Vec<Probe>,
    pub(crate) pool: PayloadPool,
}

pub(crate) fn space() -> ConfigSpace {
    Builder::type0(Identity { vendor: 0x1234, device: 1, ..Identity::default() })
        .bar(0, Bar::memory64(64 << 10))
        .bar(2, Bar::memory32(4096))
        .msi(MsiLayout { vectors: 4 })
        .pcie(PcieLayout {
            ten_bit_tag: true,
            mps_supported: Mps::from_encoding(5).unwrap(),
            ..PcieLayout::default()
        })
        .msix(MsixLayout { vectors: 40, table: (2, 0), pending: (2, 0x800) })
        .advanced_error_reporting()
        .build()
        .unwrap()
}

impl Bench {
    /// One function; Memory Space and Bus Master enabled, BARs set, MPS 256, MRRS 512, 8-bit tags.
    pub(crate) fn new(limits: EndpointLimits) -> Bench {
        Bench::with_functions(limits, 1)
    }

    pub(crate) fn with_functions(limits: EndpointLimits, count: u8) -> Bench {
        let mut bench = Bench::raw(limits, count);
        for f in 0..count {
            bench.write_config(f, 4, BAR0 as u32 + u32::from(f) * 0x1_0000);
            bench.write_config(f, 5, (BAR0 >> 32) as u32);
            bench.write_config(f, 6, BAR2 as u32 + u32::from(f) * 0x1000);
            bench.write_config(f, COMMAND, 0x6);
            bench.write_config(f, DEVICE_CONTROL, 0x2930);
        }
        bench
    }

    /// State after reset, with all features disabled.
    pub(crate) fn raw(limits: EndpointLimits, count: u8) -> Bench {
        Bench::of(limits, (0..count).map(|_| space()).collect())
    }

    /// Functions with these configuration spaces, as after reset.
    pub(crate) fn of(limits: EndpointLimits, spaces: Vec<ConfigSpace>) -> Bench {
        let probes: Vec<Probe> = spaces.iter().map(|_| Probe::default()).collect();
        probes.iter().for_each(|p| p.0.borrow_mut().takes = true);
        let pool = PayloadPool::new();
        let function =
            |(p, config): (&Probe, ConfigSpace)| FunctionConfig { config, device: Box::new(p.clone()) };
        let functions = probes.iter().zip(spaces).map(function).collect();
        let config = EndpointConfig { name: "probe".into(), functions, limits, pool: pool.clone() };
        Bench { endpoint: Endpoint::new(config).unwrap(), probes, pool }
    }

    pub(crate) fn write_config(&mut self, function: u8, dw: u16, value: u32) {
        let id = Bdf::from_bits(EP.bits() | u16::from(function));
        self.endpoint.write_config(Time::ZERO, id, dw, 0xf, value);
    }

    pub(crate) fn probe(&self) -> &Probe {
        &self.probes[0]
    }

    pub(crate) fn handle(&mut self, tlp: Tlp) {
        self.endpoint.handle_tlp(Time::ZERO, &tlp);
        self.check_refusals();
    }

    /// Each refused TLP has a rule.
    fn check_refusals(&self) {
        let explained: u64 = self.endpoint.refusals().iter().map(|refusal| refusal.count).sum();
        assert_eq!(explained, self.endpoint.counters().refused(), "{:?}", self.endpoint.counters());
    }

    /// Polls an output, and checks that `ready` has announced it.
    pub(crate) fn poll(&mut self, class: Class) -> Option<Tlp> {
        let announced = self.endpoint.ready().contains(Ready::output(class));
        let tlp = self.endpoint.poll_tlp(Time::ZERO, class, tlp::TcSet::ALL);
        assert!(announced || tlp.is_none(), "{tlp:?} was not announced");
        self.check_refusals();
        tlp
    }

    fn poll_credits(&mut self) -> Option<CreditReturn> {
        let announced = self.endpoint.ready().contains(Ready::TAKEN);
        let credit = self.endpoint.poll_credits();
        assert!(announced || credit.is_none(), "{credit:?} was not announced");
        credit
    }

    pub(crate) fn poll_all(&mut self, class: Class) -> Vec<Tlp> {
        std::iter::from_fn(|| self.poll(class)).collect()
    }

    /// Header credits and data credits returned since the last call, by class.
    pub(crate) fn credits(&mut self) -> [(u32, u32); 3] {
        let mut sum = [(0, 0); 3];
        while let Some(credit) = self.poll_credits() {
            sum[credit.class.index()].0 += 1;
            sum[credit.class.index()].1 += credit.data_credits;
        }
        sum
    }

    pub(crate) fn advance(&mut self, to: Time) {
        while let Some(t) = self.endpoint.poll_timeout().filter(|&t| t <= to) {
            self.endpoint.handle_timeout(t);
            for class in Class::ALL {
                while self.endpoint.poll_tlp(t, class, tlp::TcSet::ALL).is_some() {}
            }
            self.check_refusals();
        }
    }

    /// Writes a register of a capability, by its DW within the capability.
    pub(crate) fn write_capability(&mut self, function: u8, id: u8, dw: u16, value: u32) {
        let at = self.endpoint.config(function).unwrap().capability(id).unwrap();
        self.write_config(function, at + dw, value);
    }

    /// A register of a capability of function 0.
    pub(crate) fn capability(&self, id: u8, dw: u16) -> u32 {
        let config = self.endpoint.config(0).unwrap();
        config.read(config.capability(id).unwrap() + dw)
    }

    /// Likewise of an extended capability.
    pub(crate) fn write_extended(&mut self, function: u8, id: u16, dw: u16, value: u32) {
        let at = self.endpoint.config(function).unwrap().extended_capability(id).unwrap();
        self.write_config(function, at + dw, value);
    }

    pub(crate) fn extended(&self, function: u8, id: u16, dw: u16) -> u32 {
        let config = self.endpoint.config(function).unwrap();
        config.read(config.extended_capability(id).unwrap() + dw)
    }

    /// Message Codes and requesters of the messages that are sent now.
    pub(crate) fn messages(&mut self) -> Vec<(u8, Bdf)> {
        let message = |tlp: Tlp| match tlp.repr.body {
            Body::Message(m) => Some((m.code, m.requester)),
            _ => None,
        };
        self.poll_all(Class::Posted).into_iter().filter_map(message).collect()
    }

    pub(crate) fn config(&self, dw: u16) -> u32 {
        self.endpoint.config(0).unwrap().read(dw)
    }
}

pub(crate) fn read(id: u32, address: u64, len: u32) -> Output {
    Output::Read(DmaRead::new(DmaId(id), address, len))
}

pub(crate) fn write(address: u64, data: Data) -> Output {
    Output::Write(DmaWrite::new(address, data))
}

pub(crate) fn memory(op: MemoryOp, tag: u16, address: u64, len: u32, data: Data) -> Tlp {
    let span = Span::covering(address, len).unwrap();
    let request = MemoryRequest { op, requester: HOST, tag: Tag::from_bits(tag), span };
    Tlp::new(Repr::new(Body::Memory(request)), data).with_carry(true)
}

pub(crate) fn mrd(tag: u16, address: u64, len: u32) -> Tlp {
    memory(MemoryOp::Read, tag, address, len, Data::NONE)
}

pub(crate) fn mwr(address: u64, bytes: &[u8]) -> Tlp {
    let data = Data::Carried(PayloadPool::new().copy(bytes));
    memory(MemoryOp::Write, 0, address, bytes.len() as u32, data)
}

pub(crate) fn cfg(op: Access, completer: Bdf, register_dw: u16, first_be: u8, data: &[u8]) -> Tlp {
    let (kind, tag) = (ConfigKind::Type0, Tag::from_bits(9));
    let request = ConfigRequest { op, kind, requester: HOST, tag, completer, register_dw, first_be };
    let data = if data.is_empty() { Data::NONE } else { Data::Carried(PayloadPool::new().copy(data)) };
    Tlp::new(Repr::new(Body::Config(request)), data).with_carry(true)
}

pub(crate) fn completion(tlp: &Tlp) -> Completion {
    match tlp.repr.body {
        Body::Completion(c) => c,
        other => panic!("no completion: {other:?}"),
    }
}

pub(crate) fn request(tlp: &Tlp) -> MemoryRequest {
    match tlp.repr.body {
        Body::Memory(m) => m,
        other => panic!("no memory request: {other:?}"),
    }
}

/// The byte that host memory holds at an address.
pub(crate) fn byte_at(address: u64) -> u8 {
    (address ^ address >> 8).wrapping_mul(37) as u8
}

/// Returns the completions of a read by a host that splits at `cut(address, remaining)`.
pub(crate) fn answer_with(pool: &PayloadPool, tlp: &Tlp, mut cut: impl FnMut(u64, u32) -> u32) -> Vec<Tlp> {
    let m = request(tlp);
    let (mut address, mut remaining) = (m.span.first_byte(), m.span.byte_count());
    let mut all = Vec::new();
    while remaining > 0 {
        let piece = cut(address, remaining);
        let body = Completion {
            byte_count: remaining as u16,
            lower_address: (address & 0x7f) as u8,
            length_dw: Some(((address & 3) as u32 + piece).div_ceil(4) as u16),
            ..Completion::new(HOST, m.requester, m.tag)
        };
        let payload = pool.fill(piece as usize, |out| {
            (address..).zip(out).for_each(|(a, byte)| *byte = byte_at(a));
        });
        let data = if tlp.carry { Data::Carried(payload) } else { Data::Counted(piece) };
        let (tc, attr) = (tlp.repr.tc, tlp.repr.attr & Attributes::COMPLETED);
        all.push(Tlp::new(Repr { tc, attr, ..Repr::new(Body::Completion(body)) }, data));
        address = address.wrapping_add(u64::from(piece));
        remaining -= piece;
    }
    all
}

/// As [`answer_with`], at MPS 256 and an RCB of 64 B.
pub(crate) fn answer(tlp: &Tlp) -> Vec<Tlp> {
    let (mps, rcb) = (Mps::new(256).unwrap(), Rcb::new(64).unwrap());
    answer_with(&PayloadPool::new(), tlp, |a, n| split::completion_piece(a, n, mps, rcb))
}

/// A Cpl with an error.
pub(crate) fn refuse(tlp: &Tlp, status: Status) -> Tlp {
    let mut all = answer(tlp);
    let mut tlp = all.swap_remove(0);
    if let Body::Completion(c) = &mut tlp.repr.body {
        (c.status, c.length_dw) = (status, None);
    }
    tlp.data = Data::NONE;
    tlp
}

pub(crate) fn us(n: u64) -> Time {
    Time::ZERO + Duration::from_us(n)
}
