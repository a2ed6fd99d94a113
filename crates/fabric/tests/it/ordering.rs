// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Producers and consumers through the whole fabric. A reader that sees the flag also sees the data, for all rates,
//! credits and errors of links. Several links in parallel lose no byte.

use crate::common::link;
use crate::common::system::{HIGH, System, bar, bytes, credits, text};
use device::Io;
use device::io::{RegisterFile, Request, join_array};
use host::Cpu;
use host::firmware::FoundFunction;
use proptest::prelude::*;
use riser_fabric::{Limits, LinkConfig, LinkId, PortId, Side, Stop};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Class, Duration, Rate};

/// Addresses to which the device writes its data and, after it, its flag.
const DATA: u64 = HIGH + 0x1_0000;
const FLAG: u64 = 0x8000;
/// The register that starts round n.
const DOORBELL: u64 = 0x2000;
/// The device's value after it has seen an error.
const WRONG: u32 = 0xdead;

/// In round n, the device checks the data that the host wrote before the doorbell, writes `lengths[n]` bytes at odd
/// places, then the flag, then raises an interrupt.
async fn producer(io: Io, lengths: Vec<u32>) {
    let registers = Rc::new(RefCell::new(RegisterFile::new(0x4000)));
    while let Some(request) = io.next_request().await {
        match request {
            Request::Read(read) => {
                let registers = registers.borrow();
                let answer = registers.read(&read);
                read.complete(answer);
            }
            Request::Write(write) => {
                registers.borrow_mut().write(&write);
                if write.at(device::BarIndex(0), DOORBELL) {
                    let n = write.u32();
                    let seen = registers.borrow().bytes()[..0x1000] == bytes(u64::from(n), 0x1000);
                    // Not spawned: rounds may not overtake each other.
                    let _ = round(&io, n, lengths[n as usize], seen).await;
                }
            }
            _ => {}
        }
    }
}

async fn round(io: &Io, n: u32, len: u32, seen: bool) -> Result<(), device::DmaError> {
    io.dma_write(DATA + u64::from(n % 7), bytes(u64::from(n) + 100, len.into())).await?;
    io.dma_write(FLAG, if seen { n + 1 } else { WRONG }).await?;
    io.interrupt(0).await
}

/// In each round, data and doorbell go down. The flag must never be ahead of the data, and a read after the doorbell
/// must see the data.
async fn consumer(cpu: Cpu, f: FoundFunction, lengths: Vec<u32>, poll: bool) -> Result<(), String> {
    for (n, len) in (0u32..).zip(lengths) {
        cpu.write(bar(&f, 0), bytes(n.into(), 0x1000)).await.map_err(text)?;
        cpu.write_u32(bar(&f, DOORBELL), n).await.map_err(text)?;
        // More writes than fit into the link's queue precede it.
        if cpu.read_u32(bar(&f, DOORBELL)).await.map_err(text)? != n {
            return Err(format!("round {n}: the read passed the writes before it"));
        }
        if poll {
            while cpu.memory().read_u32(FLAG).map_err(text)? == n {
                cpu.sleep(Duration::from_ns(13)).await;
            }
        } else {
            cpu.interrupt(f.vector(0)).await;
        }
        let flag = cpu.memory().read_u32(FLAG).map_err(text)?;
        if flag != n + 1 {
            return Err(format!("round {n}: flag {flag:#x}"));
        }
        let mut data = vec![0; len as usize];
        cpu.memory().read(DATA + u64::from(n % 7), &mut data).map_err(text)?;
        if data != bytes(u64::from(n) + 100, len.into()) {
            return Err(format!("round {n}: the flag came before the data"));
        }
        let back = cpu.read(bar(&f, DOORBELL), 4).await.map_err(text)?;
        if back[..] != n.to_le_bytes() {
            return Err(format!("round {n}: the read passed the write before it: {back:?}"));
        }
    }
    Ok(())
}

fn any_link() -> impl Strategy<Value = LinkConfig> {
    let rate = prop::sample::select(&[Rate::Gt2_5, Rate::Gt5, Rate::Gt8, Rate::Gt16, Rate::Gt32][..]);
    let lanes = prop::sample::select(&[1u8, 2, 4, 8, 12, 16, 32][..]);
    let mps = prop::sample::select(&[128u32, 256, 512][..]);
    let errors = prop_oneof![Just(0u64), 20_000..2_000_000u64];
    (rate, lanes, mps, errors, 1u16..5, 1u16..5, any::<bool>()).prop_map(
        |(rate, lanes, mps, errors, down, up, scarce)| {
            let mut link = link(rate, lanes, mps);
            link.bit_error_rate = u64::MAX.checked_div(errors).unwrap_or(0);
            if scarce {
                let data = (mps / 16) as u16;
                credits(&mut link, false, Class::Posted, down, data * down);
                credits(&mut link, true, Class::Posted, up, data * up);
                credits(&mut link, false, Class::NonPosted, down, 8 * down);
                credits(&mut link, true, Class::Completion, up, data * up);
            }
            link
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn reader_that_sees_the_flag_sees_the_data(
        link in any_link(),
        lengths in prop::collection::vec(1u32..3000, 1..8),
        poll in any::<bool>(),
        latencies in [0u64..300, 0u64..300, 0u64..300, 0u64..300],
        seed in any::<u64>(),
    ) {
        let mut system = System::new();
        let [root, read, write, interrupt] = latencies.map(Duration::from_ns);
        (system.host.root_complex_latency, system.host.memory_read_latency) = (root, read);
        (system.host.memory_write_latency, system.host.interrupt_latency) = (write, interrupt);
        system.host.write_line_service = Duration::from_ps(write.as_ps() / 100);
        system.seed = seed;
        let (up, down) = (lengths.clone(), lengths);
        let mut fabric = system
            .device(link, move |io| producer(io, up.clone()))
            .with_program(move |cpu, found| consumer(cpu, found[0], down, poll));
        prop_assert_eq!(fabric.run(Limits::default()), Stop::Finished);
        for side in [Side::Root, Side::Device] {
            let counters = fabric.port_counters(PortId::new(LinkId(0), side));
            prop_assert_eq!(counters.classified_bytes(), counters.wire_bytes);
            prop_assert_eq!(counters.receiver_overflows, 0);
            prop_assert_eq!(counters.data_link_protocol_errors, 0);
        }
    }
}

/// Copies by DMA, with 16 outstanding reads: from `HIGH + slot * 1 MiB` to 512 KiB after it, in pieces at odd places.
async fn copier(io: Io, slot: u64, pieces: u64) -> Result<(), device::DmaError> {
    let Some(Request::Write(_)) = io.next_request().await else { return Ok(()) };
    let from = HIGH + (slot << 20);
    for group in 0..pieces / 16 {
        let at = |k: u64| from + (group * 16 + k) * 700;
        let reads: [_; 16] = std::array::from_fn(|k| io.dma_read(at(k as u64), 700));
        for (k, read) in (0..).zip(join_array(reads).await) {
            io.dma_write(at(k) + (512 << 10), read?).await?;
        }
    }
    io.interrupt(0).await
}

#[test]
fn seven_links_with_errors_keep_every_byte() {
    let mut system = System::new();
    system.seed = 3;
    system.host.memory_read_latency = Duration::from_ns(200);
    let links = [
        (Rate::Gt2_5, 16, 128),
        (Rate::Gt5, 8, 256),
        (Rate::Gt8, 4, 512),
        (Rate::Gt8, 16, 256),
        (Rate::Gt16, 2, 128),
        (Rate::Gt16, 8, 1024),
        (Rate::Gt32, 16, 256),
    ];
    const PIECES: u64 = 64;
    let memory = system.memory.clone();
    for (slot, (rate, lanes, mps)) in (0..).zip(links) {
        let mut link = link(rate, lanes, mps);
        // One bit in 200,000: about every fiftieth frame of 512 B.
        link.bit_error_rate = u64::MAX / 200_000;
        memory.write(HIGH + (slot << 20), &bytes(slot, PIECES * 700)).unwrap();
        system = system.device(link, move |io| copier(io, slot, PIECES));
    }
    let mut fabric = system.with_program(|cpu, found| async move {
        for function in &found {
            cpu.write_u32(bar(function, 0), 1).await.map_err(text)?;
        }
        for function in &found {
            cpu.interrupt(function.vector(0)).await;
        }
        Ok(())
    });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
    for slot in 0..7 {
        let mut copy = vec![0; (PIECES * 700) as usize];
        memory.read(HIGH + (slot << 20) + (512 << 10), &mut copy).unwrap();
        assert_eq!(copy, bytes(slot, PIECES * 700), "slot {slot}");
        let port = |side| *fabric.port_counters(PortId::new(LinkId(slot as u32), side));
        assert!(port(Side::Root).bad_lcrc + port(Side::Device).bad_lcrc > 0, "slot {slot} has met no error");
    }
}

/// The host writes to the device, more than the link's queue holds, and then sets a flag in its memory. If a device
/// reads the flag as set, it has received the writes, because the completion did not pass them (`PCIe 5.0 §2.4.1`,
/// entry D2a).
#[test]
fn a_completion_does_not_pass_the_writes_before_it() {
    const WRITES: u32 = 40;
    let mut slow = link(Rate::Gt8, 4, 256);
    credits(&mut slow, false, Class::Posted, 2, 32);
    let mut fabric = System::new()
        .device(slow, |io: Io| async move {
            // Bus Master Enable is set by the time of the first write.
            let Some(Request::Write(_)) = io.next_request().await else { return };
            let count = Rc::new(RefCell::new(1));
            let (looks, counted) = (io.clone(), count.clone());
            io.spawn(async move {
                while looks.dma_read(FLAG, 4).await.is_ok_and(|b| b[0] != 1) {}
                let all = u32::from(*counted.borrow() == WRITES);
                let _ = looks.dma_write(FLAG + 4, 2 + all).await;
                let _ = looks.interrupt(0).await;
            });
            while let Some(Request::Write(_)) = io.next_request().await {
                *count.borrow_mut() += 1;
            }
        })
        .with_program(|cpu, found| async move {
            for n in 0..WRITES {
                cpu.write(bar(&found[0], u64::from(n) * 256), [1; 256]).await.map_err(text)?;
            }
            cpu.memory().write_u32(FLAG, 1).map_err(text)?;
            cpu.interrupt(found[0].vector(0)).await;
            match cpu.memory().read_u32(FLAG + 4) {
                Ok(3) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    assert_eq!(fabric.run(Limits::default()), Stop::Finished);
}
