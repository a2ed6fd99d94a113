// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A warm fabric allocates nothing per event: a run of ten times the length allocates as much.

use crate::common;
use crate::common::sources::{Source, Sources};
use crate::common::system::{Raw, System, bar, text};
use crate::common::trees;
use crate::common::{Stream, fabric, link};
use device::Io;
use device::io::Request;
use link::VcArbitration;
use riser_fabric::{Fabric, Limits, Stop, Tap, TapRecord};
use tlp::{Data, MemoryOp, PayloadPool, Rate, TcVcMap};

/// Sees every frame and keeps none.
struct Count(u64);

impl Tap for Count {
    fn frame(&mut self, _: &TapRecord<'_>) {
        self.0 += 1;
    }
}

/// Allocations during `events` events after a warm-up of `warm` events.
fn allocations(fabric: &mut Fabric, warm: u64, events: u64) -> u64 {
    let slice = |events| Limits { events, ..Limits::default() };
    assert_eq!(fabric.run(slice(warm)), Stop::Paused);
    allocation_counter::measure(|| assert_eq!(fabric.run(slice(events)), Stop::Paused)).count_total
}

#[test]
fn raw_device_streams_allocate_nothing() {
    let carried = Data::Carried(PayloadPool::new().copy(&[0x5a; 256]));
    for data in [Data::Counted(256), carried] {
        for op in [MemoryOp::Write, MemoryOp::Read] {
            let mut fabric =
                fabric(link(Rate::Gt8, 16, 256), Stream::new(op, 256, u64::MAX, 32, data.clone()));
            fabric.set_tap(Box::new(Count(0)));
            assert_eq!(allocations(&mut fabric, 20_000, 40_000), 0, "{op:?} {data:?}");
        }
    }
}

/// Eight channels at once.
#[test]
fn streams_on_eight_channels_allocate_nothing() {
    let mut link = link(Rate::Gt8, 16, 256);
    for port in [&mut link.root, &mut link.device] {
        port.tc_vc = TcVcMap::one_to_one();
        port.arbitration = VcArbitration::round_robin();
    }
    let sources = (0..8).map(|tc| Source::flood(tc, 256)).collect();
    let mut system = System::new();
    system.slots.push(riser_fabric::SlotConfig::on_root_port(link, Box::new(Sources::new(sources))));
    let mut fabric = system.without_program();
    assert_eq!(allocations(&mut fabric, 20_000, 40_000), 0);
}

/// Writes and reads of all devices of a tree, through one switch and through two.
#[test]
fn streams_through_switches_allocate_nothing() {
    for (switches, fan_out) in [(1, 8), (4, 4)] {
        let (up, down) = (link(Rate::Gt8, 16, 256), link(Rate::Gt8, 4, 256));
        let mut fabric = trees::tree(&up, &down, switches, fan_out, u64::MAX);
        assert_eq!(allocations(&mut fabric, 100_000, 40_000), 0, "{switches} switches");
    }
}

/// Carried bytes: DMA reads and writes by an `async` device of an endpoint, register reads and writes, a flag and an
/// interrupt for each round, by a host program.
#[test]
fn host_program_and_device_allocate_nothing() {
    let mut system = System::new();
    system.host.memory_read_latency = tlp::Duration::from_ns(300);
    system.host.write_line_service = tlp::Duration::from_ns(2);
    let mut fabric = system
        .device(link(Rate::Gt8, 8, 256), |io: Io| async move {
            while let Some(request) = io.next_request().await {
                match request {
                    Request::Read(read) => read.complete(7u32),
                    Request::Write(_) => {
                        let _ = round(&io).await;
                    }
                    _ => {}
                }
            }
        })
        .raw(link(Rate::Gt8, 1, 128), &Raw::new())
        .with_bare_program(|cpu| async move {
            let windows = vec![common::system::window(0, 256)];
            let found = common::system::enumerate(&cpu, &windows).await?;
            loop {
                cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
                cpu.read_u32(bar(&found[0], 4)).await.map_err(text)?;
                cpu.interrupt(found[0].vector(0)).await;
            }
        });
    assert_eq!(allocations(&mut fabric, 200_000, 100_000), 0);
}

async fn round(io: &Io) -> Result<(), device::DmaError> {
    let bytes = io.dma_read(0x1000, 1024).await?;
    io.dma_write(0x4000, bytes).await?;
    io.interrupt(0).await
}
