// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole systems: a host program on one side, endpoints with `async` devices or raw devices on the other. Never looks
//! into any part.
// Each user of this module uses a part of it.
use config::{Bar, Builder, Identity, MsiLayout, PcieLayout};
use device::io::Request;
use device::{AsyncDevice, DmaError, Io};
use endpoint::{CreditReturn, Endpoint, EndpointConfig, EndpointLimits, FunctionConfig, RawDevice, TlpPort};
use host::firmware::{self, FIRST_VECTOR, FoundFunction, HostMap, MpsPolicy, Policy, Window};
use host::memory::HostMemory;
use host::{AsyncProgram, Cpu, HostProgram};
use link::CreditLimit;
use riser_fabric::{
    AddressMap, Direction, Fabric, FabricConfig, FaultAction, FaultRule, FrameKind, HostConfig, HostProfile,
    LinkConfig, LinkId, SlotConfig, SwitchSlot, Tap, TapRecord,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tlp::{Class, Duration, Mps, PayloadPool, Time, Tlp};

/// Bytes of BAR 0 of every device here.
pub(crate) const BAR_BYTES: u64 = 16384;
/// Interrupt vectors of every device here.
pub(crate) const VECTORS: u8 = 4;
/// Bytes of low and of high host memory.
pub(crate) const LOW_BYTES: u64 = 1 << 20;
pub(crate) const HIGH_BYTES: u64 = 1 << 24;
pub(crate) const HIGH: u64 = 4 << 30;

/// A system under construction.
pub(crate) struct System {
    pub(crate) host: HostProfile,
    pub(crate) memory: HostMemory,
    pub(crate) payloads: PayloadPool,
    pub(crate) slots: Vec<SlotConfig>,
    pub(crate) faults: Vec<FaultRule>,
    pub(crate) seed: u64,
}

impl System {
    pub(crate) fn new() -> System {
        System {
            host: HostProfile::ideal(),
            memory: HostMemory::new(LOW_BYTES, HIGH_BYTES).unwrap(),
            payloads: PayloadPool::new(),
            slots: Vec::new(),
            faults: Vec::new(),
            seed: 1,
        }
    }

    /// Adds a slot with an `async` device.
    pub(crate) fn device<F, Fut>(self, link: LinkConfig, factory: F) -> System
    where
        F: Fn(Io) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        self.device_with(link, EndpointLimits::default(), factory)
    }

    /// Adds a slot with an `async` device and limits of its endpoint.
    pub(crate) fn device_with<F, Fut>(
        mut self,
        link: LinkConfig,
        limits: EndpointLimits,
        factory: F,
    ) -> System
    where
        F: Fn(Io) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let pcie = PcieLayout { mps_supported: link.device.mps, ten_bit_tag: true, ..PcieLayout::default() };
        let config = Builder::type0(Identity { vendor: 0x1af4, device: 0x10ff, ..Identity::default() })
            .bar(0, Bar::memory32(BAR_BYTES))
            .msi(MsiLayout { vectors: VECTORS })
            .pcie(pcie)
            .build()
            .unwrap();
        let device = Box::new(AsyncDevice::with_pool(self.payloads.clone(), factory));
        let functions = vec![FunctionConfig { config, device }];
        let name = format!("device {}", self.slots.len());
        let config = EndpointConfig { name, functions, limits, pool: self.payloads.clone() };
        self.slots.push(SlotConfig::on_root_port(link, Box::new(Endpoint::new(config).unwrap())));
        self
    }

    /// Adds a slot with a raw device.
    pub(crate) fn raw(mut self, link: LinkConfig, device: &Raw) -> System {
        self.slots.push(SlotConfig::on_root_port(link, Box::new(device.clone())));
        self
    }

    /// Adds a fault of the frames of `kind` on link 0: the `nth`, and then every `every`th.
    pub(crate) fn fault(
        mut self,
        direction: Direction,
        kind: FrameKind,
        nth: u64,
        every: u64,
        action: FaultAction,
    ) -> System {
        self.faults.push(FaultRule { every, ..FaultRule::new(LinkId(0), direction, kind, nth, action) });
        self
    }

    /// The fabric, without a host program.
    pub(crate) fn without_program(self) -> Fabric {
        Fabric::new(self.config(None)).unwrap()
    }

    /// The parts of the fabric. Its host has bare root ports.
    pub(crate) fn config(self, program: Option<Box<dyn HostProgram>>) -> FabricConfig {
        let System { host: profile, memory, payloads, .. } = self;
        let host = HostConfig { profile, memory, payloads, root_ports: Vec::new(), program };
        FabricConfig { faults: self.faults, seed: self.seed, ..config(host, self.slots, Vec::new()) }
    }

    /// Returns the fabric, with a host program that enumerates and continues with `program`.
    pub(crate) fn with_program<F, Fut>(self, program: F) -> Fabric
    where
        F: FnOnce(Cpu, Vec<FoundFunction>) -> Fut + 'static,
        Fut: Future<Output = Result<(), String>> + 'static,
    {
        let windows = self.windows();
        self.with_bare_program(move |cpu| async move {
            let found = enumerate(&cpu, &windows).await?;
            program(cpu, found).await
        })
    }

    /// The fabric, with a host program that enumerates nothing.
    pub(crate) fn with_bare_program<F, Fut>(self, program: F) -> Fabric
    where
        F: FnOnce(Cpu) -> Fut,
        Fut: Future<Output = Result<(), String>> + 'static,
    {
        let program = AsyncProgram::with_pool(self.payloads.clone(), self.memory.clone(), program);
        Fabric::new(self.config(Some(Box::new(program)))).unwrap()
    }

    fn windows(&self) -> Vec<HostMap> {
        self.slots.iter().enumerate().map(|(n, slot)| window(n, slot.link.root.mps.bytes())).collect()
    }
}

/// An ideal host with bare root ports, without a program.
pub(crate) fn ideal_host(memory: HostMemory) -> HostConfig {
    let (profile, payloads, root_ports) = (HostProfile::ideal(), PayloadPool::new(), Vec::new());
    HostConfig { profile, memory, payloads, root_ports, program: None }
}

/// A fabric with one host, without faults.
pub(crate) fn config(host: HostConfig, slots: Vec<SlotConfig>, switches: Vec<SwitchSlot>) -> FabricConfig {
    FabricConfig { hosts: vec![host], slots, switches, faults: Vec::new(), seed: 1 }
}

/// Returns the addresses below root port `n`, a bare one: firmware handles it like a root complex's own bus.
pub(crate) fn window(n: usize, mps: u32) -> HostMap {
    let window = |w: riser_fabric::Window| Window { base: w.base, size: w.size };
    let mps = MpsPolicy::Fixed(Mps::new(mps).unwrap());
    HostMap {
        first_bus: AddressMap.bus(n),
        last_bus: AddressMap.bus(n),
        mmio32: window(AddressMap.mmio32(n)),
        mmio64: window(AddressMap.mmio64(n)),
        io: window(AddressMap.io(n)),
        policy: Policy { mps, error_reporting: false, ..Policy::default() },
        ..HostMap::default()
    }
}

/// Enumerates the functions below bare root ports, one port after the other; vectors are passed on from one to the next.
pub(crate) async fn enumerate(cpu: &Cpu, ports: &[HostMap]) -> Result<Vec<FoundFunction>, String> {
    let (mut found, mut first) = (Vec::new(), FIRST_VECTOR);
    for (port, map) in ports.iter().enumerate() {
        let map = HostMap { vectors: (first, map.vectors.1), ..map.clone() };
        let system = firmware::enumerate_host(cpu, &map).await?;
        for function in system.functions().map(|f| f.found) {
            first = first.max(function.vector_base + function.vectors);
            found.push(FoundFunction { port, ..function });
        }
    }
    Ok(found)
}

/// Address of `offset` in BAR 0 of `function`.
pub(crate) fn bar(function: &FoundFunction, offset: u64) -> u64 {
    function.address(0, offset).unwrap()
}

/// Byte `n` of a pattern that differs between neighbours, pages and `salt`s.
pub(crate) fn byte(salt: u64, n: u64) -> u8 {
    ((n ^ n >> 8 ^ salt.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x9d) >> 3) as u8
}

pub(crate) fn bytes(salt: u64, len: u64) -> Vec<u8> {
    (0..len).map(|n| byte(salt, n)).collect()
}

/// The error text of a device, for `map_err`.
pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Credits of one class at a receiver.
pub(crate) fn credits(link: &mut LinkConfig, at_root: bool, class: Class, header: u16, data: u16) {
    let port = if at_root { &mut link.root } else { &mut link.device };
    port.rx_buffer[class.index()] = CreditLimit::finite(header, data);
}

/// A raw device that tests can inspect while the fabric owns it.
#[derive(Clone)]
pub(crate) struct Raw(pub(crate) Rc<RefCell<RawDevice>>);

impl Raw {
    pub(crate) fn new() -> Raw {
        Raw(Rc::new(RefCell::new(RawDevice::new(4096))))
    }

    pub(crate) fn send(&self, at_ns: u64, tlp: Tlp) {
        self.0.borrow_mut().send(Time::ZERO + Duration::from_ns(at_ns), tlp);
    }

    pub(crate) fn received(&self) -> Vec<Tlp> {
        self.0.borrow().received().iter().map(|(_, tlp)| tlp.clone()).collect()
    }
}

impl TlpPort for Raw {
    fn handle_tlp(&mut self, now: Time, tlp: &Tlp) {
        self.0.borrow_mut().handle_tlp(now, tlp);
    }
    fn poll_tlp(&mut self, now: Time, class: Class, room: tlp::TcSet) -> Option<Tlp> {
        self.0.borrow_mut().poll_tlp(now, class, room)
    }
    fn poll_credits(&mut self) -> Option<CreditReturn> {
        self.0.borrow_mut().poll_credits()
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.0.borrow().poll_timeout()
    }
    fn handle_timeout(&mut self, now: Time) {
        self.0.borrow_mut().handle_timeout(now);
    }
    fn waits_for(&self) -> Option<String> {
        self.0.borrow().waits_for()
    }
}

/// A value that a device or program leaves for the test.
#[derive(Clone, Default)]
pub(crate) struct Told<T>(Rc<Cell<Option<T>>>);

impl<T: Copy> Told<T> {
    pub(crate) fn new() -> Told<T> {
        Told(Rc::new(Cell::new(None)))
    }
    pub(crate) fn set(&self, value: T) {
        self.0.set(Some(value));
    }
    pub(crate) fn get(&self) -> Option<T> {
        self.0.get()
    }
}

/// Stores the result of a closure for each frame that arrives (not for frames sent or lost).
#[derive(Clone)]
pub(crate) struct Arrivals<T> {
    pub(crate) seen: Rc<RefCell<Vec<T>>>,
    pick: fn(&TapRecord<'_>) -> Option<T>,
}

impl<T> Arrivals<T> {
    pub(crate) fn new(pick: fn(&TapRecord<'_>) -> Option<T>) -> Arrivals<T> {
        Arrivals { seen: Rc::default(), pick }
    }
}

impl<T> Tap for Arrivals<T> {
    fn frame(&mut self, r: &TapRecord<'_>) {
        if r.direction != Direction::of_sender(r.at) && !r.damaged && !r.dropped {
            self.seen.borrow_mut().extend((self.pick)(r));
        }
    }
}

/// A read of `len` bytes by function 01:00.0, tag 0.
pub(crate) fn read(address: u64, len: u32) -> Tlp {
    let span = tlp::Span::covering(address, len).unwrap();
    let (op, requester, tag) = (tlp::MemoryOp::Read, tlp::Bdf::from_bits(0x100), tlp::Tag::default());
    let body = tlp::Body::Memory(tlp::MemoryRequest { op, requester, tag, span });
    Tlp::new(tlp::Repr::new(body), tlp::Data::NONE)
}

/// A device that waits for a write, then reads `len` bytes at 0x4000 and writes them to 0x8000, and tells how the read
/// ended.
pub(crate) async fn copy_when_told(
    io: Io,
    told: Told<Result<(), DmaError>>,
    len: u32,
) -> Result<(), DmaError> {
    let Some(Request::Write(_)) = io.next_request().await else { return Ok(()) };
    let read = io.dma_read(0x4000, len).await;
    told.set(read.as_ref().map(|_| ()).map_err(|e| *e));
    if let Ok(data) = read {
        io.dma_write(0x8000, data).await?;
    }
    io.interrupt(0).await
}
