// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots whose data link layers are not riser's: frames cross as bytes. Two data link layers are partners here:
//! the small one of the example, and riser's own, which must behave in bytes as it does without.

mod bad_input;
mod byte_link;
mod repeater;
mod same_capture;
mod small_link;

#[path = "../../../examples/frames/data_link.rs"]
mod data_link;

use crate::common::system::{System, bar, bytes, text};
use device::Io;
use device::io::Request;
use endpoint::{DataLink, FrameSlot, Joined, RawDevice};
use host::Cpu;
use host::firmware::FoundFunction;
use link::{Counters, PortConfig};
use riser_fabric::{Fabric, LinkConfig, LinkId, PortId, Side};
use tlp::{Duration, Time};

/// Bytes of a copy.
const LEN: u32 = 3000;

/// A device that copies 3000 bytes of host memory each time it is triggered, and interrupts.
fn copier(link: LinkConfig) -> System {
    System::new().device(link, |io: Io| async move {
        while let Some(request) = io.next_request().await {
            if let Request::Write(_) = request {
                if let Ok(data) = io.dma_read(0x4000, LEN).await {
                    let _ = io.dma_write(0x8000, data).await;
                }
                let _ = io.interrupt(0).await;
            }
        }
    })
}

/// The host's part: triggers the copier this many times, and compares every byte.
async fn copy(cpu: Cpu, found: Vec<FoundFunction>, rounds: u64) -> Result<(), String> {
    for round in 0..rounds {
        let data = bytes(round, LEN.into());
        cpu.memory().write(0x4000, &data).map_err(text)?;
        cpu.write_u32(bar(&found[0], 0), 1).await.map_err(text)?;
        cpu.interrupt(found[0].vector(0)).await;
        let mut copy = vec![0; LEN as usize];
        cpu.memory().read(0x8000, &mut copy).map_err(text)?;
        if copy != data {
            return Err(format!("round {round}: other bytes"));
        }
    }
    Ok(())
}

fn at_us(us: u64) -> Time {
    Time::ZERO + Duration::from_us(us)
}

/// Puts a data link layer below the device of each slot.
fn joined<L: DataLink + 'static>(mut system: System, link: impl Fn(PortConfig) -> L) -> System {
    for slot in &mut system.slots {
        let device = std::mem::replace(&mut slot.device, Box::new(RawDevice::default()));
        slot.device = Box::new(FrameSlot::new(Joined::new(link(slot.link.device.clone()), device)));
    }
    system
}

/// The counters of one end. All bytes on the wire are of some kind.
fn counters(fabric: &Fabric, side: Side) -> Counters {
    let counters = *fabric.port_counters(PortId::new(LinkId(0), side));
    assert_eq!(counters.classified_bytes(), counters.wire_bytes, "{side:?}");
    counters
}

/// Counters of errors that no correct partner causes.
fn protocol_errors(counters: &Counters) -> [u64; 6] {
    [
        counters.data_link_protocol_errors,
        counters.flow_control_protocol_errors,
        counters.receiver_overflows,
        counters.unmapped_tcs,
        counters.malformed_tlps,
        counters.undetected_errors,
    ]
}
