// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A hierarchy for error tests: enumerated by firmware, with error reporting enabled. Faults are rules on links; status
//! registers are written only to clear them.
//!
//! ```text
//!   00:01.0 root port ══ link 2 ══ 01:00.0 switch ─┬─ 02:00.0 ══ link 0 ══ 03:00.0 endpoint A
//!                                                  └─ 02:01.0 ══ link 1 ══ 04:00.0 endpoint B
//! ```

use config::ext::{aer, dpc};
use config::{
    AcsLayout, AerLayout, AerRole, AtomicSupport, Bar, Builder, ConfigSpace, DpcLayout, Identity, MsiLayout,
    PcieLayout, PortType, SlotLayout,
};
use device::io::Request;
use device::{AsyncDevice, CompletionError, DmaError, DmaOptions, Io};
use endpoint::{Endpoint, EndpointConfig, EndpointLimits, FunctionConfig};
use fabric::{
    Above, Fabric, FabricConfig, FaultAction, FaultRule, Forwarding, FrameKind, HostConfig, HostId,
    HostProfile, Limits, LinkConfig, LinkId, PortArbitration, SlotConfig, Stop, Switch, SwitchConfig,
    SwitchPortConfig, SwitchSlot, SwitchTiming,
};
use host::HostError;
use host::firmware::{HostMap, System, enumerate_host};
use host::memory::HostMemory;
use host::{AsyncProgram, Cpu};
use link::{CreditLimit, PortConfig};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use tlp::{Bdf, Class, Duration, Mps, PayloadPool, Rate, Rcb, Time, Width};

pub(crate) const ROOT: Bdf = Bdf::from_bits(0x0008);
pub(crate) const UP: Bdf = Bdf::from_bits(0x0100);
pub(crate) const DOWN_A: Bdf = Bdf::from_bits(0x0200);
pub(crate) const DOWN_B: Bdf = Bdf::from_bits(0x0208);
pub(crate) const A: Bdf = Bdf::from_bits(0x0300);
pub(crate) const B: Bdf = Bdf::from_bits(0x0400);
pub(crate) const ALL: [Bdf; 6] = [ROOT, UP, DOWN_A, DOWN_B, A, B];

pub(crate) const LINK_A: LinkId = LinkId(0);
pub(crate) const LINK_UP: LinkId = LinkId(2);

/// At this time the firmware has ended, and faults start.
pub(crate) const GO: Time = Time::from_ps(20_000_000_000);
/// Longer than any timer.
const SETTLE: Duration = Duration::from_us(400);
/// Timeout of the endpoints; the root complex waits longer.
const ENDPOINT_TIMEOUT: Duration = Duration::from_us(60);
const HOST_TIMEOUT: Duration = Duration::from_us(150);

/// Offsets in BAR 0 of an endpoint. A write of an address to one of these starts the operation at that address.
pub(crate) mod at {
    pub(crate) const PLAIN: u64 = 0x40;
    pub(crate) const DMA_READ: u64 = 0x100;
    pub(crate) const DMA_WRITE: u64 = 0x108;
    pub(crate) const FETCH_ADD: u64 = 0x110;
    pub(crate) const READ_WITH_PASID: u64 = 0x118;
    /// Sends a message of this code to the root complex.
    pub(crate) const MESSAGE: u64 = 0x128;
    /// Ignores requests for this many ns.
    pub(crate) const BUSY: u64 = 0x120;
    /// A read of this address is aborted.
    pub(crate) const ABORTS: u64 = 0x200;
    /// A read of this address is never answered.
    pub(crate) const SILENT: u64 = 0x208;
    /// An address beyond the BAR, but within the window of the port above.
    pub(crate) const BEYOND: u64 = 0x2000;
}

pub(crate) type Log = Rc<RefCell<Vec<String>>>;
pub(crate) type Act = Pin<Box<dyn Future<Output = String>>>;

async fn endpoint_program(io: Io, log: Log) {
    let mut kept = Vec::new();
    while let Some(request) = io.next_request().await {
        match request {
            Request::Read(read) if read.offset() == at::ABORTS => read.fail(CompletionError::CompleterAbort),
            Request::Read(read) if read.offset() == at::SILENT => kept.push(read),
            Request::Read(read) => read.complete(0x1234_5678u32),
            Request::Write(write) if write.offset() == at::BUSY => {
                io.sleep(Duration::from_ns(write.u64())).await;
            }
            Request::Write(write) => {
                let (what, address) = (write.offset(), write.u64());
                drop(write);
                if what != at::PLAIN {
                    io.spawn(dma(io.clone(), what, address, log.clone()));
                } else {
                    log.borrow_mut().push(format!("written {address:#x}"));
                }
            }
            _ => {}
        }
    }
}

async fn dma(io: Io, what: u64, address: u64, log: Log) {
    let done: Result<String, DmaError> = match what {
        at::DMA_READ => io.dma_read(address, 4).await.map(|_| "read".into()),
        at::DMA_WRITE => io.dma_write(address, [1u8; 4]).await.map(|()| "sent".into()),
        at::MESSAGE => io.message(address as u8, []).await.map(|()| "sent".into()),
        at::FETCH_ADD => io.fetch_add(address, 1u32).await.map(|_| "added".into()),
        _ => {
            let options = DmaOptions::default().with_pasid(0x77);
            io.dma_read_with(address, 4, options).await.map(|_| "read".into())
        }
    };
    log.borrow_mut().push(done.unwrap_or_else(|error| format!("{error:?}")));
}

fn identity(device: u16, class: u32) -> Identity {
    Identity { vendor: 0x7269, device, class, ..Identity::default() }
}

fn endpoint_space() -> ConfigSpace {
    let pcie = PcieLayout {
        atomics: AtomicSupport::all(),
        end_end_prefixes: 4,
        mps_supported: mps(),
        ..PcieLayout::default()
    };
    Builder::type0(identity(1, 0xff_0000))
        .bar(0, Bar::memory32(4096))
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie)
        .advanced_error_reporting_with(AerLayout { prefix_log: true, ..AerLayout::new(AerRole::Endpoint) })
        .build()
        .unwrap()
}

fn bridge_space(port: PortType, role: AerRole, number: u8) -> ConfigSpace {
    let slot = SlotLayout { number: number.into(), occupied: true, ..SlotLayout::default() };
    let pcie = PcieLayout {
        port_number: number,
        mps_supported: mps(),
        atomic_routing: true,
        end_end_prefixes: 4,
        slot: port.is_above_link().then_some(slot),
        ..PcieLayout::port(port)
    };
    let root_port = role == AerRole::RootPort;
    let builder = Builder::type1(identity(2, 0x06_0400))
        .power_management()
        .msi(MsiLayout { vectors: 1 })
        .pcie(pcie)
        .advanced_error_reporting_with(AerLayout { prefix_log: true, ..AerLayout::new(role) });
    let builder = if port.is_above_link() {
        builder
            .access_control(AcsLayout::port(32))
            .downstream_port_containment(DpcLayout { root_port, ..DpcLayout::default() })
    } else {
        builder
    };
    builder.build().unwrap()
}

fn mps() -> Mps {
    Mps::new(256).unwrap()
}

fn port() -> PortConfig {
    PortConfig::new(Rate::Gt8, Width::new(8).unwrap(), mps())
}

/// A port of a switch has finite buffers for completions too.
fn switch_end() -> PortConfig {
    let mut end = port();
    end.rx_buffer[Class::Completion.index()] = CreditLimit::finite(127, 2047);
    end
}

/// Few posted requests, so that a test can overflow the buffer with more. Few other credits, so that a few more are not
/// an error by themselves.
fn endpoint_end() -> PortConfig {
    let mut end = port();
    end.rx_buffer[Class::Posted.index()] = CreditLimit::finite(4, 64);
    end.rx_buffer[Class::NonPosted.index()] = CreditLimit::finite(16, 16);
    end
}

fn link_of(root: PortConfig, device: PortConfig) -> LinkConfig {
    LinkConfig { root, device, propagation: Duration::from_ns(2), rcb: None, bit_error_rate: 0 }
}

fn endpoint(name: &str, payloads: &PayloadPool, log: &Log) -> Endpoint {
    let log = log.clone();
    let device = AsyncDevice::new(move |io| endpoint_program(io, log.clone()));
    let limits = EndpointLimits { completion_timeout: ENDPOINT_TIMEOUT, ..EndpointLimits::default() };
    let functions = vec![FunctionConfig { config: endpoint_space(), device: Box::new(device) }];
    Endpoint::new(EndpointConfig { name: name.into(), functions, limits, pool: payloads.clone() }).unwrap()
}

fn switch(payloads: &PayloadPool) -> Switch {
    let port = |port, role, number| SwitchPortConfig {
        space: bridge_space(port, role, number),
        buffer_tlps: [127; 3],
        rate: Rate::Gt8,
        width: Width::new(8).unwrap(),
    };
    let downstream = |n| port(PortType::Downstream, AerRole::DownstreamPort, n);
    let timing = SwitchTiming { latency: Duration::from_ns(100), mode: Forwarding::StoreAndForward };
    Switch::new(SwitchConfig {
        upstream: port(PortType::Upstream, AerRole::UpstreamPort, 0),
        downstream: vec![downstream(1), downstream(2)],
        timing,
        arbitration: PortArbitration::RoundRobin,
        payloads: payloads.clone(),
    })
    .unwrap()
}

fn fabric<F, Fut>(log: &Log, start: F) -> Fabric
where
    F: FnOnce(Cpu) -> Fut + 'static,
    Fut: Future<Output = Result<(), String>> + 'static,
{
    let payloads = PayloadPool::new();
    let memory = HostMemory::new(1 << 20, 1 << 20).unwrap();
    let program = AsyncProgram::with_pool(payloads.clone(), memory.clone(), start);
    let slot = |n: usize, name| SlotConfig {
        link: link_of(switch_end(), endpoint_end()),
        above: Above::Switch { switch: 0, port: n },
        device: Box::new(endpoint(name, &payloads, log)),
    };
    let slots = vec![slot(1, "a"), slot(2, "b")];
    let link = link_of(port(), switch_end());
    let switches =
        vec![SwitchSlot { link, above: Above::RootPort(HostId::FIRST), switch: switch(&payloads).into() }];
    let root_complex_latency = Duration::from_ns(50);
    let host = HostProfile { completion_timeout: HOST_TIMEOUT, root_complex_latency, ..HostProfile::ideal() };
    Fabric::new(FabricConfig {
        hosts: vec![HostConfig {
            profile: HostProfile { rcb: Rcb::default(), ..host },
            memory,
            payloads,
            root_ports: vec![bridge_space(PortType::RootPort, AerRole::RootPort, 1)],
            program: Some(Box::new(program)),
        }],
        slots,
        switches,
        faults: Vec::new(),
        seed: 5,
    })
    .unwrap()
}

/// The part of the hierarchy that the host program uses.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) cpu: Cpu,
    pub(crate) system: Rc<System>,
    /// Results of the endpoints' transfers.
    pub(crate) log: Log,
    interrupts: Rc<Cell<u32>>,
}

impl Lab {
    /// An address in BAR 0 of an endpoint.
    pub(crate) fn bar(&self, function: Bdf, offset: u64) -> u64 {
        self.system.get(function).unwrap().found.address(0, 0).unwrap() + offset
    }

    /// DW of a register of an extended capability.
    pub(crate) fn extended(&self, function: Bdf, id: u16, dw: u16) -> u16 {
        self.system.get(function).unwrap().extended_capability(id).unwrap() + dw
    }

    pub(crate) fn aer(&self, function: Bdf, dw: u16) -> u16 {
        self.extended(function, aer::ID, dw)
    }

    pub(crate) fn dpc(&self, function: Bdf, dw: u16) -> u16 {
        self.extended(function, dpc::ID, dw)
    }

    /// DW of a register of the PCI Express capability.
    pub(crate) fn pcie(&self, function: Bdf, dw: u16) -> u16 {
        self.system.get(function).unwrap().pcie.unwrap().at + dw
    }

    pub(crate) async fn read(&self, function: Bdf, dw: u16) -> u32 {
        let read = self.cpu.config_read(function, dw).await;
        read.unwrap_or_else(|error| panic!("register {dw:#x} of {function}: {error:?}"))
    }

    pub(crate) async fn write(&self, function: Bdf, dw: u16, enables: u8, value: u32) {
        self.cpu.config_write(function, dw, enables, value).await.unwrap();
    }

    /// Sets bits of a register that has no write-one-to-clear bits in these bytes.
    pub(crate) async fn set(&self, function: Bdf, dw: u16, enables: u8, bits: u32) {
        let old = self.read(function, dw).await;
        self.write(function, dw, enables, old | bits).await;
    }

    /// A read by the host; returns the value or the error.
    pub(crate) async fn host_read(&self, address: u64) -> String {
        match self.cpu.read_u32(address).await {
            Ok(value) => format!("{value:#x}"),
            Err(HostError::Completion(error)) => format!("{error:?}"),
            Err(error) => format!("{error:?}"),
        }
    }

    /// A write by the host to register 3 of a function, which has no effect; returns the error, or an empty string.
    pub(crate) async fn host_writes_register(&self, function: Bdf) -> String {
        match self.cpu.config_write(function, 3, 0xf, 0).await {
            Ok(()) => String::new(),
            Err(HostError::Completion(error)) => format!("{error:?}"),
            Err(error) => format!("{error:?}"),
        }
    }

    /// Starts an operation of endpoint A, and returns its result.
    pub(crate) async fn have_a(&self, what: u64, address: u64) -> String {
        self.cpu.write_u64(self.bar(A, what), address).await.unwrap();
        self.cpu.sleep(ENDPOINT_TIMEOUT * 2).await;
        self.log.borrow().last().cloned().unwrap_or_else(|| "nothing".into())
    }

    /// Memory of the host.
    pub(crate) fn memory(&self) -> u64 {
        0x1000
    }

    /// Number of interrupts of the root port since the last call.
    pub(crate) fn interrupts(&self) -> u32 {
        self.interrupts.take()
    }

    /// Clears errors of enumeration, which accesses absent functions.
    pub(crate) async fn clear(&self) {
        for function in ALL {
            self.write(function, self.aer(function, aer::UNCORRECTABLE_STATUS), 0xf, !0).await;
            self.write(function, self.aer(function, aer::CORRECTABLE_STATUS), 0xf, !0).await;
            self.write(function, self.pcie(function, 2), 0b1100, 0x000f_0000).await;
            self.write(function, 1, 0b1100, 0xf900_0000).await;
            if ![A, B].contains(&function) {
                self.write(function, 7, 0b1100, 0xf900_0000).await;
            }
        }
        self.write(ROOT, self.aer(ROOT, aer::ROOT_STATUS), 0xf, 0x7f).await;
        self.interrupts.set(0);
    }

    pub(crate) async fn settle(&self) {
        self.cpu.sleep(SETTLE).await;
    }

    /// The errors that a function has logged, and the errors that the root port has received.
    pub(crate) async fn seen(&self, function: Bdf) -> Seen {
        let mut header = [0; 4];
        for (dw, word) in (aer::HEADER_LOG..).zip(&mut header) {
            *word = self.read(function, self.aer(function, dw)).await;
        }
        let status_dw = if [ROOT, DOWN_A, DOWN_B].contains(&function) { 7 } else { 1 };
        Seen {
            uncorrectable: self.read(function, self.aer(function, aer::UNCORRECTABLE_STATUS)).await,
            correctable: self.read(function, self.aer(function, aer::CORRECTABLE_STATUS)).await,
            first_error: self.read(function, self.aer(function, aer::CONTROL)).await & 0x1f,
            prefix: match self.read(function, self.aer(function, aer::CONTROL)).await & 1 << 11 {
                0 => 0,
                _ => self.read(function, self.aer(function, aer::PREFIX_LOG)).await,
            },
            header,
            device_status: self.read(function, self.pcie(function, 2)).await >> 16 & 0xf,
            status: self.read(function, status_dw).await >> 16 & 0xb900,
            root_status: self.read(ROOT, self.aer(ROOT, aer::ROOT_STATUS)).await & 0x7f,
            source: self.read(ROOT, self.aer(ROOT, aer::ERROR_SOURCE)).await,
            interrupts: self.interrupts(),
        }
    }
}

/// Registers of the function that has detected an error, and of the root port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) uncorrectable: u32,
    pub(crate) correctable: u32,
    pub(crate) first_error: u32,
    /// The first prefix, if TLP Prefix Log Present is set.
    pub(crate) prefix: u32,
    pub(crate) header: [u32; 4],
    /// Device Status, bits 3:0.
    pub(crate) device_status: u32,
    /// Status; for downstream and root ports, Secondary Status. Without System Error.
    pub(crate) status: u32,
    pub(crate) root_status: u32,
    pub(crate) source: u32,
    /// Registers of the root port.
    pub(crate) interrupts: u32,
}

/// A fault: link, direction, frames, the first frame, the interval, and the effect.
pub(crate) type Fault = (LinkId, fabric::Direction, FrameKind, (u64, u64), FaultAction);

/// Runs `program` on the enumerated hierarchy; `faults` start at [`GO`], which `program` waits for.
pub(crate) fn run<F, Fut>(faults: &[Fault], program: F)
where
    F: FnOnce(Lab) -> Fut + 'static,
    Fut: Future<Output = Result<(), String>> + 'static,
{
    let log = Log::default();
    let logged = log.clone();
    let mut fabric = fabric(&log, |cpu| async move {
        let system = Rc::new(enumerate_host(&cpu, &HostMap::default()).await?);
        assert_eq!(system.functions().map(|f| f.bdf()).collect::<Vec<_>>(), ALL);
        let interrupts = Rc::new(Cell::new(0));
        let (counted, vector) = (interrupts.clone(), system.get(ROOT).unwrap().found.vector(0));
        let waiting = cpu.clone();
        cpu.spawn(async move {
            loop {
                waiting.interrupt(vector).await;
                counted.set(counted.get() + 1);
            }
        });
        let lab = Lab { cpu, system, log: logged, interrupts };
        // Enumeration accessed absent devices on the internal bus of the switch, and logged it (`§6.2.3.2.4.1`).
        let detected = [UP, A].map(|function| (function, lab.pcie(function, 2)));
        for ((function, at), expected) in detected.into_iter().zip([0b1001, 0]) {
            assert_eq!(lab.read(function, at).await >> 16 & 0xf, expected, "Device Status of {function}");
        }
        lab.clear().await;
        program(lab).await
    });
    let stop = fabric.run(Limits { until: GO, ..Limits::default() });
    assert_eq!(stop, Stop::TimeLimit, "the program waits for its faults");
    for &(link, direction, kind, (nth, every), action) in faults {
        fabric.add_fault(FaultRule { every, ..FaultRule::new(link, direction, kind, nth, action) });
    }
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
}
