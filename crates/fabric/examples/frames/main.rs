// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A data link layer that is not riser's, below a device, on a link that damages frames: its device writes 1 MiB to host
//! memory, and the counters of both ends are printed.
//!
//!     cargo run -p riser-fabric --example frames

mod data_link;

use data_link::SmallLink;
use endpoint::{FrameSlot, Joined, RawDevice};
use host::memory::HostMemory;
use link::PortConfig;
use riser_fabric::{
    Fabric, FabricConfig, HostConfig, HostProfile, Limits, LinkConfig, LinkId, PortId, Side, SlotConfig,
};
use std::error::Error;
use tlp::{
    Bdf, Body, Data, Duration, MemoryOp, MemoryRequest, Mps, PayloadPool, Rate, Repr, Span, Tag, Time, Tlp,
    Width,
};

/// Start of high memory of the host.
const HIGH: u64 = 4 << 30;
const WRITES: u64 = 4096;

fn write(address: u64, pool: &PayloadPool) -> Option<Tlp> {
    let span = Span::covering(address, 256).ok()?;
    let (op, requester, tag) = (MemoryOp::Write, Bdf::from_bits(0x100), Tag::default());
    let body = Body::Memory(MemoryRequest { op, requester, tag, span });
    Some(Tlp::new(Repr::new(body), Data::Carried(pool.copy(&[address as u8; 256]))))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mps = Mps::new(256)?;
    let port = PortConfig::new(Rate::Gt8, Width::new(8).ok_or("no such width")?, mps);
    let payloads = PayloadPool::new();
    let mut device = RawDevice::new(0);
    for n in 0..WRITES {
        device.send(Time::ZERO, write(HIGH + n * 256, &payloads).ok_or("no such write")?);
    }
    let slot = FrameSlot::new(Joined::new(SmallLink::new(port.clone()), Box::new(device)));
    let link = LinkConfig {
        root: port.clone(),
        device: port,
        propagation: Duration::from_ns(2),
        rcb: None,
        // One bit of a million arrives flipped.
        bit_error_rate: u64::MAX / 1_000_000,
    };
    let host = HostConfig {
        profile: HostProfile::ideal(),
        memory: HostMemory::new(1 << 20, 1 << 24)?,
        payloads,
        root_ports: Vec::new(),
        program: None,
    };
    let mut fabric = Fabric::new(FabricConfig {
        hosts: vec![host],
        slots: vec![SlotConfig::on_root_port(link, Box::new(slot))],
        switches: Vec::new(),
        faults: Vec::new(),
        seed: 1,
    })?;
    let stop = fabric.run(Limits { until: Time::ZERO + Duration::from_ms(2), ..Limits::default() });
    println!("{stop}: {} writes arrived", fabric.root().counters().memory_writes);
    for side in [Side::Root, Side::Device] {
        println!("{} side: {:?}", side.name(), fabric.port_counters(PortId::new(LinkId(0), side)));
    }
    Ok(())
}
