// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every kind of transaction through a whole lab and back: host program, root complex, link, endpoint, device.

use config::{AtomicSupport, Bar, Builder, DeferrableLength, Identity, PcieLayout};
use device::io::{OutMessage, RegisterFile, Request};
use device::{AsyncDevice, CompletionError, DmaError, DmaOptions, Io};
use endpoint::EndpointLimits;
use fabric::{Limits, Stop, Tap, TapRecord};
use host::firmware::FoundFunction;
use host::{Cpu, HostError};
use lab::OneSlot;
use link::Frame;
use proptest::prelude::*;
use riser_session::Session;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use tlp::message::MessageCodes;
use tlp::{AtomicOp, Body, Data, MessageRouting, TrafficClass};

type Outcome = Result<(), String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn config() -> Builder {
    let class = 0xff_0000;
    Builder::type0(Identity {
        vendor: 0x7269,
        device: 9,
        revision: 0,
        class,
        subsystem_vendor: 0,
        subsystem: 0,
    })
    .bar(0, Bar::memory32(4096))
    .bar(1, Bar::io(32))
}

fn layout() -> PcieLayout {
    PcieLayout {
        legacy: true,
        ten_bit_tag: true,
        atomics: AtomicSupport::all(),
        deferrable_write: Some(DeferrableLength::Bytes128),
        ..PcieLayout::default()
    }
}

/// 256 B of registers in each BAR. The first deferrable write is deferred. Messages are recorded.
async fn device(io: Io, log: Rc<RefCell<Vec<u8>>>) {
    let mut registers = [RegisterFile::new(256), RegisterFile::new(32)];
    let mut deferred = false;
    while let Some(request) = io.next_request().await {
        match request {
            Request::Read(read) => {
                let answer = registers[usize::from(read.bar().0)].read(&read);
                read.complete(answer);
            }
            Request::Write(write) if write.is_answered() && write.bar().0 == 0 && !deferred => {
                deferred = true;
                write.fail(CompletionError::Retry);
            }
            Request::Write(write) => {
                registers[usize::from(write.bar().0)].write(&write);
            }
            Request::Atomic(atomic) => atomic.apply(registers[0].bytes_mut()),
            Request::Message(message) => log.borrow_mut().push(message.code),
            _ => {}
        }
    }
}

fn run<F, Fut>(lab: OneSlot, log: &Rc<RefCell<Vec<u8>>>, driver: F) -> Session
where
    F: FnOnce(Cpu, FoundFunction) -> Fut + 'static,
    Fut: Future<Output = Outcome> + 'static,
{
    let log = log.clone();
    let device = AsyncDevice::new(move |io| device(io, log.clone())).with_messages(MessageCodes::of(&[0x7f]));
    let mut lab = lab.plug(config(), device, driver).map(Session::from).unwrap();
    assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
    lab
}

fn lab() -> OneSlot {
    OneSlot { pcie: layout(), ..OneSlot::default() }
}

#[test]
fn a_host_program_reads_and_writes_io_space() {
    run(lab(), &Rc::default(), |cpu: Cpu, f: FoundFunction| async move {
        let port = f.io_address(1, 4)?;
        cpu.io_write(port, 0x1122_3344u32).await.map_err(text)?;
        cpu.io_write(port + 1, 0xeeu8).await.map_err(text)?;
        let whole = cpu.io_read(port, 4).await.map_err(text)?;
        let part = cpu.io_read(port + 2, 2).await.map_err(text)?;
        assert_eq!((whole, part), (0x1122_ee44, 0x1122));
        assert_eq!(cpu.io_read(port + 2, 4).await, Err(HostError::NoDevice), "not within one DW");
        let beyond = f.io_address(1, 31)? + 1;
        let refused = HostError::Completion(CompletionError::UnsupportedRequest);
        assert_eq!(cpu.io_read(beyond, 1).await, Err(refused));
        assert_eq!(cpu.io_read(0x80, 1).await, Err(HostError::NoDevice), "below all windows");
        Ok(())
    });
}

#[test]
fn host_program_sends_atomics_to_device() {
    run(lab(), &Rc::default(), |cpu: Cpu, f: FoundFunction| async move {
        let at = f.address(0, 16)?;
        cpu.write_u64(at, 40).await.map_err(text)?;
        assert_eq!(cpu.fetch_add(at, 2u64).await, Ok(40));
        assert_eq!(cpu.fetch_add(at, u32::MAX).await, Ok(42), "of 32 bits: modulo 2^32");
        assert_eq!(cpu.swap(at, 7u64).await, Ok(41));
        assert_eq!(cpu.compare_swap(at, 8u64, 9).await, Ok(7), "not equal: unchanged");
        assert_eq!(cpu.compare_swap(at, 7u128, 1 << 100).await, Ok(7));
        assert_eq!(cpu.read_u64(at + 8).await, Ok(1 << 36));
        assert_eq!(
            cpu.fetch_add(at + 4, 1u64).await,
            Err(HostError::NoDevice),
            "not aligned: no such request"
        );
        Ok(())
    });
}

#[test]
fn locked_sequence_ends_with_an_unlock_message() {
    let log = Rc::default();
    run(lab(), &log, |cpu: Cpu, f: FoundFunction| async move {
        let at = f.address(0, 32)?;
        cpu.write_u32(at, 5).await.map_err(text)?;
        let before = cpu.read_locked(at, 4).await.map_err(text)?;
        assert_eq!(&before[..], [5, 0, 0, 0]);
        cpu.write_u32(at, 6).await.map_err(text)?;
        cpu.unlock().await;
        // A non-posted request, which pushes the message before it.
        assert_eq!(cpu.read_u32(at).await, Ok(6));
        Ok(())
    });
    assert_eq!(*log.borrow(), [0x00]);
}

#[test]
fn an_endpoint_that_is_not_legacy_refuses_locked_reads() {
    let pcie = PcieLayout { legacy: false, ..layout() };
    run(OneSlot { pcie, ..OneSlot::default() }, &Rc::default(), |cpu: Cpu, f: FoundFunction| async move {
        let refused = HostError::Completion(CompletionError::UnsupportedRequest);
        assert_eq!(cpu.read_locked(f.address(0, 0)?, 8).await.unwrap_err(), refused);
        Ok(())
    });
}

#[test]
fn retries_deferred_write() {
    run(lab(), &Rc::default(), |cpu: Cpu, f: FoundFunction| async move {
        let at = f.address(0, 64)?;
        assert_eq!(cpu.write_deferrable(at, 3u32).await, Err(HostError::ConfigRetry));
        assert_eq!(cpu.read_u32(at).await, Ok(0));
        assert_eq!(cpu.write_deferrable(at, 3u32).await, Ok(()));
        assert_eq!(cpu.read_u32(at).await, Ok(3));
        assert_eq!(cpu.write_deferrable(at, [0; 129]).await, Err(HostError::NoDevice), "129 B: no such DMWr");
        Ok(())
    });
}

#[test]
fn messages_go_both_ways() {
    let log: Rc<RefCell<Vec<u8>>> = Rc::default();
    let noted = log.clone();
    let session = run(lab(), &log, move |cpu: Cpu, f: FoundFunction| async move {
        let id = f.bdf.bits().to_be_bytes();
        let mut vendor = OutMessage::new(MessageRouting::ById, 0x7f);
        vendor.header[..2].copy_from_slice(&id);
        cpu.send_message(f.bdf, vendor.with_data(Data::Carried(cpu.payloads().copy(&[1; 8])))).await;
        cpu.send_message(f.bdf, OutMessage::new(MessageRouting::Broadcast, 0x19)).await;
        let ack = cpu.next_message().await;
        assert_eq!((ack.code, ack.routing, ack.requester), (0x1b, MessageRouting::Gathered, f.bdf));
        assert_eq!(*noted.borrow(), [0x7f]);
        Ok(())
    });
    let counters = session.fabric.root().counters();
    assert_eq!((counters.messages, counters.power_messages, counters.vendor_messages), (1, 1, 0));
}

#[test]
fn a_device_sends_messages_of_any_kind() {
    let device = working(|io, _| async move {
        io.message(0x7e, [1, 2, 3, 4]).await?;
        let pme = OutMessage::new(MessageRouting::ToRootComplex, 0x18);
        io.send_message(pme.with_header([1, 2, 3, 4, 5, 6, 7, 8])).await?;
        io.send_message(OutMessage::new(MessageRouting::Local, 0x20)).await
    });
    let driver = |cpu: Cpu, f: FoundFunction| async move {
        cpu.take_messages(MessageCodes::of(&[0x7e])).await;
        cpu.write_u64(f.address(0, 0)?, 0).await.map_err(text)?;
        let mut got = Vec::new();
        // PM_PME ends in the registers of the root port.
        for _ in 0..3 {
            let m = cpu.next_message().await;
            got.push((m.code, m.requester == f.bdf, m.header[7], m.data.len()));
        }
        assert_eq!(got, [(0x7e, true, 0, 4), (0x20, true, 0, 0), (0x7f, true, 0, 0)]);
        Ok::<(), String>(())
    };
    let mut lab = lab().plug(config(), device, driver).map(Session::from).unwrap();
    let stop = lab.fabric.run(Limits::default());
    assert_eq!(stop, Stop::Finished);
    let c = lab.fabric.root().counters();
    assert_eq!((c.messages, c.vendor_messages, c.power_messages, c.legacy_interrupts), (4, 2, 1, 1));
}

/// A device whose only task runs `work` when the host writes an address, and then raises an interrupt.
fn working<F, Fut>(work: F) -> AsyncDevice
where
    F: Fn(Io, u64) -> Fut + Clone + 'static,
    Fut: Future<Output = Result<(), DmaError>> + 'static,
{
    AsyncDevice::new(move |io: Io| {
        let work = work.clone();
        async move {
            while let Some(request) = io.next_request().await {
                if let Request::Write(write) = request {
                    work(io.clone(), write.u64()).await?;
                    io.message(0x7f, []).await?;
                }
            }
            Ok::<(), DmaError>(())
        }
    })
}

async fn start(cpu: &Cpu, f: &FoundFunction, address: u64) -> Outcome {
    f.enable_atomics(cpu).await?;
    cpu.write_u64(f.address(0, 0)?, address).await.map_err(text)?;
    cpu.next_message().await;
    Ok(())
}

#[test]
fn atomics_need_their_enable_bit_and_mapped_memory() {
    let seen: Rc<RefCell<Vec<Result<u64, DmaError>>>> = Rc::default();
    let log = seen.clone();
    let device = working(move |io, address| {
        let log = log.clone();
        async move {
            for at in [address, 0x10_0000_0000 + address, address + 4] {
                let result = io.fetch_add(at, 1u64).await;
                log.borrow_mut().push(result);
            }
            Ok(())
        }
    });
    let driver = |cpu: Cpu, f: FoundFunction| async move {
        let at = cpu.memory().alloc(64, 64).map_err(text)?;
        cpu.write_u64(f.address(0, 0)?, at).await.map_err(text)?;
        cpu.next_message().await;
        start(&cpu, &f, at).await?;
        assert_eq!(cpu.memory().read_u64(at), Ok(1));
        Ok::<(), String>(())
    };
    let mut lab = lab().plug(config(), device, driver).map(Session::from).unwrap();
    assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
    let (off, bad, none) = (DmaError::AtomicsDisabled, DmaError::BadAtomic, DmaError::UnsupportedRequest);
    assert_eq!(*seen.borrow(), [Err(off), Err(off), Err(off), Ok(0), Err(none), Err(bad)]);
    assert_eq!(lab.fabric.root().counters().atomics, 1);
}

/// Requests upstream that a tap has seen.
#[derive(Clone, Default)]
struct Seen(Rc<RefCell<Vec<tlp::Tlp>>>);

impl Tap for Seen {
    fn frame(&mut self, record: &TapRecord<'_>) {
        if let Frame::Tlp { tlp, .. } = record.frame
            && record.at == fabric::Side::Root
            && record.direction == fabric::Direction::Upstream
        {
            self.0.borrow_mut().push(tlp.clone());
        }
    }
}

/// Tags of 10 bits are used if there are more outstanding requests than 8 bits allow (`PCIe 5.0 §2.2.6.2`).
#[test]
fn many_reads_use_tags_of_ten_bits() {
    for (limit, tags) in [(256, 0..256), (700, 256..956)] {
        let device = working(|io, address| async move {
            let read = |n: u64| io.spawn(io.dma_read_counted(address + n % 64 * 64, 64));
            let reads: Vec<_> = (0..2000).map(read).collect();
            for read in reads {
                read.await.map_err(|_| DmaError::TooLong)??;
            }
            Ok(())
        });
        let driver = |cpu: Cpu, f: FoundFunction| async move {
            let at = cpu.memory().alloc(4096, 4096).map_err(text)?;
            start(&cpu, &f, at).await
        };
        let limits = EndpointLimits { max_outstanding_reads: limit, ..EndpointLimits::default() };
        let host = fabric::HostProfile {
            memory_read_latency: tlp::Duration::from_us(20),
            ..fabric::HostProfile::ideal()
        };
        let mut lab =
            OneSlot { limits, host, ..lab() }.plug(config(), device, driver).map(Session::from).unwrap();
        let seen = Seen::default();
        lab.fabric.set_tap(Box::new(seen.clone()));
        assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
        let used: BTreeSet<u16> = seen.0.borrow().iter().filter_map(read_tag).collect();
        assert_eq!(used, tags.collect::<BTreeSet<u16>>(), "{limit} reads under way");
    }
}

fn read_tag(tlp: &tlp::Tlp) -> Option<u16> {
    match tlp.repr.body {
        Body::Memory(m) if m.op == tlp::MemoryOp::Read => Some(m.tag.bits()),
        _ => None,
    }
}

/// Traffic Class, attributes, hint and PASID of a transfer appear in its TLPs, and completions have its Traffic Class.
#[test]
fn transfer_options_reach_tlps() {
    let device = working(|io, address| async move {
        let tc = TrafficClass::from_bits(5);
        let hint = tlp::Hint { st: 0x2a, ..tlp::Hint::default() };
        let options = || DmaOptions::tc(tc).with_pasid(77).with_hint(hint);
        io.dma_write_with(address, [1u8; 8], options()).await?;
        io.dma_read_with(address, 8, options()).await?;
        let old = io.atomic(address, AtomicOp::Swap, &[9u64], options()).await?;
        assert_eq!(old, 0x0101_0101_0101_0101);
        Ok(())
    });
    let driver = |cpu: Cpu, f: FoundFunction| async move {
        let at = cpu.memory().alloc(64, 64).map_err(text)?;
        start(&cpu, &f, at).await
    };
    let mut lab = lab().plug(config(), device, driver).map(Session::from).unwrap();
    let seen = Seen::default();
    lab.fabric.set_tap(Box::new(seen.clone()));
    assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
    let with_pasid: Vec<String> = seen
        .0
        .borrow()
        .iter()
        .filter(|t| t.prefixes.pasid() == Some(77) && t.repr.tc.bits() == 5 && t.repr.th.is_some())
        .map(|t| t.repr.name().to_owned())
        .collect();
    assert_eq!(with_pasid, ["MWr", "MRd", "Swap"]);
}

/// An AtomicOp of 32 bits, 64, or (only CAS) 128, at an address in steps of 16 B, with its operands.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add32(u64, u32),
    Add64(u64, u64),
    Swap32(u64, u32),
    Swap64(u64, u64),
    Cas32(u64, u32, u32),
    Cas64(u64, u64, u64),
    Cas128(u64, u128, u128),
}

fn step() -> impl Strategy<Value = Step> {
    // Few values, so that comparisons are often equal.
    let (at, small) = (0u64..4, 0u32..3);
    prop_oneof![
        (at.clone(), any::<u32>()).prop_map(|(a, v)| Step::Add32(a, v)),
        (at.clone(), any::<u64>()).prop_map(|(a, v)| Step::Add64(a, v)),
        (at.clone(), small.clone()).prop_map(|(a, v)| Step::Swap32(a, v)),
        (at.clone(), small.clone()).prop_map(|(a, v)| Step::Swap64(a, v.into())),
        (at.clone(), small.clone(), small.clone()).prop_map(|(a, c, v)| Step::Cas32(a, c, v)),
        (at.clone(), small.clone(), small.clone()).prop_map(|(a, c, v)| Step::Cas64(a, c.into(), v.into())),
        (at, small.clone(), small).prop_map(|(a, c, v)| Step::Cas128(a, c.into(), v.into())),
    ]
}

/// The value before and after, computed on integers as `PCIe 5.0 §6.15.1` defines it.
fn reference(memory: &mut [u128; 4], step: Step) -> u128 {
    let (at, bits, new): (u64, u32, Box<dyn Fn(u128) -> u128>) = match step {
        Step::Add32(a, v) => (a, 32, Box::new(move |old| u128::from((old as u32).wrapping_add(v)))),
        Step::Add64(a, v) => (a, 64, Box::new(move |old| u128::from((old as u64).wrapping_add(v)))),
        Step::Swap32(a, v) => (a, 32, Box::new(move |_| v.into())),
        Step::Swap64(a, v) => (a, 64, Box::new(move |_| v.into())),
        Step::Cas32(a, c, v) => (a, 32, Box::new(move |old| if old == c.into() { v.into() } else { old })),
        Step::Cas64(a, c, v) => (a, 64, Box::new(move |old| if old == c.into() { v.into() } else { old })),
        Step::Cas128(a, c, v) => (a, 128, Box::new(move |old| if old == c { v } else { old })),
    };
    let mask = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let place = &mut memory[at as usize];
    let old = *place & mask;
    *place = *place & !mask | new(old);
    old
}

async fn carry_out(io: &Io, base: u64, step: Step) -> Result<u128, DmaError> {
    Ok(match step {
        Step::Add32(a, v) => io.fetch_add(base + a * 16, v).await?.into(),
        Step::Add64(a, v) => io.fetch_add(base + a * 16, v).await?.into(),
        Step::Swap32(a, v) => io.swap(base + a * 16, v).await?.into(),
        Step::Swap64(a, v) => io.swap(base + a * 16, v).await?.into(),
        Step::Cas32(a, c, v) => io.compare_swap(base + a * 16, c, v).await?.into(),
        Step::Cas64(a, c, v) => io.compare_swap(base + a * 16, c, v).await?.into(),
        Step::Cas128(a, c, v) => io.compare_swap(base + a * 16, c, v).await?,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Compares with a plain computation: every returned value, and the final memory contents.
    #[test]
    fn atomics_on_host_memory_match_reference(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut memory = [0u128; 4];
        let expected: Vec<u128> = steps.iter().map(|s| reference(&mut memory, *s)).collect();
        let got: Rc<RefCell<Vec<u128>>> = Rc::default();
        let log = got.clone();
        let device = working(move |io, base| {
            let (steps, log) = (steps.clone(), log.clone());
            async move {
                for step in steps {
                    let old = carry_out(&io, base, step).await?;
                    log.borrow_mut().push(old);
                }
                Ok(())
            }
        });
        let driver = move |cpu: Cpu, f: FoundFunction| async move {
            let at = cpu.memory().alloc(64, 64).map_err(text)?;
            start(&cpu, &f, at).await?;
            let mut bytes = [0; 64];
            cpu.memory().read(at, &mut bytes).map_err(text)?;
            let held: Vec<u128> = bytes.chunks(16).map(|b| u128::from_le_bytes(b.try_into().unwrap())).collect();
            if held == memory { Ok(()) } else { Err(format!("{held:x?} instead of {memory:x?}")) }
        };
        let mut lab = lab().plug(config(), device, driver).map(Session::from).unwrap();
        prop_assert_eq!(lab.fabric.run(Limits::default()), Stop::Finished);
        prop_assert_eq!(&*got.borrow(), &expected);
    }
}
