// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual channels that software sets by the registers of the ports.
//!
//! ```text
//!   00:01.0 root port ══ link 1 ══ 01:00.0 switch ── 02:00.0 ══ link 0 ══ 03:00.0 endpoint
//! ```

use config::ext::vc;
use config::{Bar, Builder, ConfigSpace, Identity, MsiLayout, PcieLayout, PortType, VcLayout, VcSetting};
use device::io::Request;
use device::{AsyncDevice, DmaOptions, Io};
use endpoint::{Endpoint, EndpointConfig, EndpointLimits, FunctionConfig};
use fabric::{
    Above, Fabric, FabricConfig, Forwarding, HostConfig, HostId, HostProfile, Limits, LinkConfig, LinkId,
    PortArbitration, PortId, Side, SlotConfig, Stop, Switch, SwitchConfig, SwitchPortConfig, SwitchSlot,
    SwitchTiming,
};
use host::firmware::{HostMap, System, enumerate_host};
use host::memory::HostMemory;
use host::{AsyncProgram, Cpu};
use link::{PortConfig, VcArbitration};
use tlp::{Bdf, Data, Duration, Mps, PayloadPool, Rate, TcSet, TcVcMap, Time, TrafficClass, Vc, Width};

const ROOT: Bdf = Bdf::from_bits(0x0008);
const UP: Bdf = Bdf::from_bits(0x0100);
const DOWN: Bdf = Bdf::from_bits(0x0200);
const END: Bdf = Bdf::from_bits(0x0300);
/// Link from the switch to the endpoint, and from the root port to the switch.
const SLOT_LINK: LinkId = LinkId(0);
const ROOT_LINK: LinkId = LinkId(1);

/// The ports in the order of the traffic upstream, with their functions.
const PORTS: [(Bdf, LinkId, Side); 4] = [
    (END, SLOT_LINK, Side::Device),
    (DOWN, SLOT_LINK, Side::Root),
    (UP, ROOT_LINK, Side::Device),
    (ROOT, ROOT_LINK, Side::Root),
];

/// Offsets in BAR 0: a write of n to the DW pair of a Traffic Class starts n transfers of that class by each worker.
const WRITES: u64 = 0x000;
const READS: u64 = 0x100;
/// Each transfer is a write and a read that flushes it, so the Traffic Classes do not wait for each other.
const FLUSHED: u64 = 0x200;
const WORKERS: usize = 16;

const MEMORY: u64 = 0x1000;
/// By this time the firmware has ended.
const GO: Time = Time::from_ps(20_000_000_000);

async fn endpoint_program(io: Io) {
    while let Some(request) = io.next_request().await {
        let Request::Write(write) = request else { continue };
        let (what, count) = (write.offset(), write.u64());
        drop(write);
        let tc = TrafficClass::from_bits((what / 8 % 8) as u8);
        for _ in 0..WORKERS {
            io.spawn(work(io.clone(), what & !0xff, DmaOptions::tc(tc), count));
        }
    }
}

async fn work(io: Io, kind: u64, options: DmaOptions, count: u64) {
    let read = |len| io.dma_read_data(MEMORY, len, false, options.clone());
    let write = |len| io.dma_write_with(MEMORY, Data::Counted(len), options.clone());
    for _ in 0..count {
        match kind {
            WRITES => _ = write(256).await,
            READS => _ = read(512).await,
            _ => _ = (write(1024).await, read(4).await),
        }
    }
}

/// TC1 is on VC1 after reset, all others on VC0.
fn layout() -> VcLayout {
    let mut layout = VcLayout { vcs: 2, low_priority: 1, phases: 32, ..VcLayout::default() };
    layout.reset[0].tc_map = 0xfd;
    layout.reset[1] = VcSetting { enabled: true, id: 1, tc_map: 0x02 };
    layout
}

fn port(lanes: u8) -> PortConfig {
    let mut classes = [TcSet::NONE; Vc::COUNT];
    (classes[0], classes[1]) = (TcSet::from_bits(0xfd), TcSet::from_bits(0x02));
    PortConfig {
        tc_vc: TcVcMap::new(classes).unwrap(),
        arbitration: VcArbitration::round_robin(),
        ..PortConfig::new(Rate::Gt8, Width::new(lanes).unwrap(), Mps::new(256).unwrap())
    }
}

fn link(lanes: u8) -> LinkConfig {
    let (root, device) = (port(lanes), port(lanes));
    LinkConfig { root, device, propagation: Duration::from_ns(2), rcb: None, bit_error_rate: 0 }
}

fn identity(class: u32) -> Identity {
    Identity { vendor: 0x7269, device: 1, class, ..Identity::default() }
}

fn bridge_space(port: PortType) -> ConfigSpace {
    let pcie = PcieLayout { mps_supported: Mps::new(256).unwrap(), ..PcieLayout::port(port) };
    let builder = Builder::type1(identity(0x06_0400)).msi(MsiLayout { vectors: 1 }).pcie(pcie);
    builder.advanced_error_reporting().virtual_channels(layout()).build().unwrap()
}

fn endpoint(payloads: &PayloadPool) -> Endpoint {
    let pcie = PcieLayout { mps_supported: Mps::new(256).unwrap(), ..PcieLayout::default() };
    let builder = Builder::type0(identity(0xff_0000)).bar(0, Bar::memory32(4096)).pcie(pcie);
    let config = builder.advanced_error_reporting().virtual_channels(layout()).build().unwrap();
    let functions = vec![FunctionConfig { config, device: Box::new(AsyncDevice::new(endpoint_program)) }];
    let limits = EndpointLimits::default();
    let config = EndpointConfig { name: "end".into(), functions, limits, pool: payloads.clone() };
    Endpoint::new(config).unwrap()
}

fn switch(payloads: &PayloadPool) -> Switch {
    let port = |port| SwitchPortConfig {
        space: bridge_space(port),
        buffer_tlps: [127; 3],
        rate: Rate::Gt8,
        width: Width::new(8).unwrap(),
    };
    Switch::new(SwitchConfig {
        upstream: port(PortType::Upstream),
        downstream: vec![port(PortType::Downstream)],
        timing: SwitchTiming { latency: Duration::from_ns(100), mode: Forwarding::StoreAndForward },
        arbitration: PortArbitration::RoundRobin,
        payloads: payloads.clone(),
    })
    .unwrap()
}

/// The host's view of the hierarchy.
struct Lab {
    cpu: Cpu,
    system: System,
}

impl Lab {
    fn at(&self, function: Bdf, dw: u16) -> u16 {
        self.system.get(function).unwrap().extended_capability(vc::ID).unwrap() + dw
    }

    async fn read(&self, function: Bdf, dw: u16) -> u32 {
        self.cpu.config_read(function, self.at(function, dw)).await.unwrap()
    }

    async fn write(&self, function: Bdf, dw: u16, value: u32) {
        self.cpu.config_write(function, self.at(function, dw), 0xf, value).await.unwrap();
    }

    async fn start(&self, what: u64, tc: u64, count: u64) {
        let bar = self.system.get(END).unwrap().found.address(0, 0).unwrap();
        self.cpu.write_u64(bar + what + 8 * tc, count).await.unwrap();
    }

    async fn wait(&self, us: u64) {
        self.cpu.sleep(Duration::from_us(us)).await;
    }
}

fn fabric<F, Fut>(slot_lanes: u8, root_lanes: u8, program: F) -> Fabric
where
    F: FnOnce(Lab) -> Fut + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let payloads = PayloadPool::new();
    let memory = HostMemory::new(1 << 20, 1 << 20).unwrap();
    let program = AsyncProgram::with_pool(payloads.clone(), memory.clone(), |cpu| async move {
        let system = enumerate_host(&cpu, &HostMap::default()).await?;
        assert_eq!(system.functions().map(|f| f.bdf()).collect::<Vec<_>>(), [ROOT, UP, DOWN, END]);
        cpu.sleep_until(GO).await;
        program(Lab { cpu, system }).await;
        Ok::<(), String>(())
    });
    let above = Above::Switch { switch: 0, port: 1 };
    let switch = SwitchSlot {
        link: link(root_lanes),
        above: Above::RootPort(HostId::FIRST),
        switch: switch(&payloads).into(),
    };
    Fabric::new(FabricConfig {
        slots: vec![SlotConfig { link: link(slot_lanes), above, device: Box::new(endpoint(&payloads)) }],
        switches: vec![switch],
        hosts: vec![HostConfig {
            profile: HostProfile::ideal(),
            memory,
            payloads,
            root_ports: vec![bridge_space(PortType::RootPort)],
            program: Some(Box::new(program)),
        }],
        faults: Vec::new(),
        seed: 5,
    })
    .unwrap()
}

const ENABLE: u32 = vc::resource::ENABLE;
/// DW of VC Resource Control of the second resource, and of its status.
const SECOND: u16 = vc::RESOURCE_CONTROL + 3;
const SECOND_STATUS: u16 = vc::RESOURCE_STATUS + 3;
const PENDING: u32 = vc::resource_status::NEGOTIATION_PENDING;

/// Moves TC3 to VC5 at both ends of each link, by the second resource. Negotiation is pending until the other end has
/// enabled the channel too.
async fn move_tc3(lab: &Lab) {
    for ends in [[DOWN, END], [ROOT, UP]] {
        for function in ends {
            assert_eq!(lab.read(function, vc::RESOURCE_CONTROL).await, ENABLE | 0xfd, "{function}");
            assert_eq!(lab.read(function, SECOND).await, ENABLE | 1 << 24 | 0x02, "{function}");
            assert_eq!(lab.read(function, SECOND_STATUS).await & PENDING, 0, "{function}");
            lab.write(function, SECOND, 0).await;
            lab.write(function, vc::RESOURCE_CONTROL, 0xf6).await;
            let fixed = lab.read(function, vc::RESOURCE_CONTROL).await;
            assert_eq!(fixed, ENABLE | 0xf7, "{function}: TC0 stays on VC0, which stays enabled");
            lab.write(function, SECOND, ENABLE | 5 << 24 | 0x08).await;
            lab.wait(20).await;
            let pending = lab.read(function, SECOND_STATUS).await & PENDING;
            assert_eq!(pending != 0, function == ends[0], "{function}");
        }
        assert_eq!(lab.read(ends[0], SECOND_STATUS).await & PENDING, 0, "{}", ends[0]);
    }
}

#[test]
fn software_moves_a_traffic_class_to_another_channel() {
    let mut fabric = fabric(8, 8, |lab| async move {
        lab.start(WRITES, 3, 1).await;
        lab.wait(50).await;
        move_tc3(&lab).await;
        lab.start(WRITES, 3, 1).await;
        lab.start(READS, 3, 1).await;
        lab.wait(50).await;
        // The downstream port no longer has TC3: 16 writes are malformed (`PCIe 5.0 §2.5.2`).
        lab.write(DOWN, SECOND, ENABLE | 5 << 24).await;
        lab.start(WRITES, 3, 1).await;
        lab.wait(50).await;
    });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    let sent = |link, side| fabric.port_counters(PortId::new(link, side)).vcs.map(|vc| vc.tlps);
    // 16 writes, 16 requests, and the 16 writes that are malformed on the first link.
    assert_eq!(sent(SLOT_LINK, Side::Device)[1..], [0, 0, 0, 0, 48, 0, 0]);
    assert_eq!(sent(ROOT_LINK, Side::Device)[1..], [0, 0, 0, 0, 32, 0, 0]);
    // Two completions of each read.
    for link in [SLOT_LINK, ROOT_LINK] {
        assert_eq!(sent(link, Side::Root)[1..], [0, 0, 0, 0, 32, 0, 0]);
    }
    for (function, link, side) in PORTS {
        let counters = fabric.port_counters(PortId::new(link, side));
        let refused = if function == DOWN { 16 } else { 0 };
        assert_eq!(counters.unmapped_tcs, refused, "{function}");
        assert_eq!(counters.receiver_overflows, 0, "{function}");
        // The credits of the malformed TLPs return on VC0, where the endpoint did not use them.
        let errors = counters.flow_control_protocol_errors;
        assert_eq!(errors != 0, function == END, "{function}: {errors}");
    }
}

/// Period of one setting of the arbitration.
const STEP: Duration = Duration::from_us(200);
/// Time after which the registers are written, through the loaded links.
const SETTLES: Duration = Duration::from_us(100);

/// Fills the VC Arbitration Table: in each DW of eight phases, `of_vc1` are of VC1.
async fn write_table(lab: &Lab, function: Bdf, of_vc1: u32) {
    let table = (lab.read(function, vc::CAPABILITY_2).await >> 24) as u16 * 4;
    let phases = (0..of_vc1).fold(0, |word, n| word | 1 << (4 * n));
    for dw in 0..4 {
        lab.write(function, table + dw, phases).await;
    }
}

/// Share of VC1 at a saturated port, with each of four settings: the table loaded but not selected, selected, rewritten,
/// and loaded again.
fn shares(function: Bdf, id: PortId, kind: u64, lanes: (u8, u8)) -> [f64; 4] {
    let mut fabric = fabric(lanes.0, lanes.1, move |lab| async move {
        for tc in [0, 1] {
            lab.start(kind, tc, u64::MAX).await;
        }
        let load = vc::control::LOAD_TABLE;
        write_table(&lab, function, 6).await;
        lab.write(function, vc::CONTROL, load).await;
        lab.cpu.sleep_until(GO + STEP).await;
        lab.write(function, vc::CONTROL, 1 << 1).await;
        lab.cpu.sleep_until(GO + STEP * 2).await;
        write_table(&lab, function, 2).await;
        lab.cpu.sleep_until(GO + STEP * 3).await;
        lab.write(function, vc::CONTROL, 1 << 1 | load).await;
        lab.cpu.sleep_until(GO + STEP * 5).await;
    });
    let mut sent_by = |until| {
        assert_eq!(fabric.run(Limits { until, ..Limits::default() }), Stop::TimeLimit);
        fabric.port_counters(id).vcs.map(|vc| vc.payload_bytes as f64)
    };
    std::array::from_fn(|step| {
        let start = GO + STEP * step as u64;
        let (before, after) = (sent_by(start + SETTLES), sent_by(start + STEP));
        let sent = [0, 1].map(|vc| after[vc] - before[vc]);
        sent[1] / (sent[0] + sent[1])
    })
}

/// The egress port of the slower link decides on the shares.
#[test]
fn software_selects_and_loads_the_arbitration_of_channels() {
    for (function, link, side) in PORTS {
        let kind = if side == Side::Device { FLUSHED } else { READS };
        let lanes = if link == SLOT_LINK { (4, 8) } else { (8, 4) };
        let shares = shares(function, PortId::new(link, side), kind, lanes);
        for (share, due) in shares.into_iter().zip([0.5, 0.75, 0.75, 0.25]) {
            assert!((share - due).abs() < 0.02, "{function}: {shares:?}");
        }
    }
}
