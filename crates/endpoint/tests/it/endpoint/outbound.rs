// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outputs of devices other than reads: writes, interrupts, messages. Also the order of classes and functions.

use crate::endpoint::harness::*;
use device::*;
use riser_endpoint::*;
use tlp::*;

fn interrupt(vector: u16) -> Output {
    Output::Interrupt { vector }
}

/// A message to the root complex with `len` bytes.
fn message(len: u32) -> Output {
    let message = OutMessage::new(MessageRouting::ToRootComplex, 0x7e);
    Output::Message(message.with_data(Data::Counted(len)))
}

/// Address, length, MPS encoding: bytes of each MWr.
#[test]
fn writes_are_split_at_mps_and_4_kib() {
    let rows: [(u64, u32, u32, &[u32]); 6] = [
        (0x1000, 1024, 1, &[256, 256, 256, 256]),
        (0x1001, 256, 1, &[255, 1]),
        (0x1fff, 4, 0, &[1, 3]),
        (0x1f80, 512, 1, &[128, 256, 128]),
        (0xffff_fff0, 32, 1, &[16, 16]),
        (u64::MAX - 7, 8, 1, &[8]),
    ];
    for (address, len, mps, pieces) in rows {
        let mut bench = Bench::new(EndpointLimits::default());
        bench.write_config(0, DEVICE_CONTROL, 0x2910 | mps << 5);
        let data =
            bench.pool.fill(len as usize, |out| out.iter_mut().enumerate().for_each(|(i, b)| *b = i as u8));
        bench.probe().push(Class::Posted, write(address, Data::Carried(data)));
        let tlps = bench.poll_all(Class::Posted);
        let spans: Vec<(u64, u32)> =
            tlps.iter().map(|t| (request(t).span.first_byte(), request(t).span.byte_count())).collect();
        let mut at = address;
        for (&(first, count), &piece) in spans.iter().zip(pieces) {
            assert_eq!((first, count), (at, piece));
            at = at.wrapping_add(u64::from(piece));
        }
        assert_eq!(spans.len(), pieces.len());
        let bytes: Vec<u8> = tlps.iter().flat_map(|t| t.data.bytes().unwrap().to_vec()).collect();
        assert!(bytes.iter().enumerate().all(|(i, &b)| b == i as u8));
        assert!(tlps.iter().all(|t| request(t).requester == EP));
    }
}

#[test]
fn msi_is_a_posted_write_after_earlier_writes() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, MSI + 1, 0xfee0_0000);
    bench.write_config(0, MSI + 3, 0x4042);
    bench.write_config(0, MSI, 0x0011_0000); // enable, two vectors
    bench.probe().push(Class::Posted, write(0x2000, Data::Counted(512)));
    bench.probe().push(Class::Posted, interrupt(1));
    bench.probe().push(Class::Posted, interrupt(2));
    let tlps = bench.poll_all(Class::Posted);
    let addresses: Vec<u64> = tlps.iter().map(|t| request(t).span.address()).collect();
    assert_eq!(addresses, [0x2000, 0x2100, 0xfee0_0000, 0xfee0_0000]);
    assert_eq!(tlps[2].data.bytes(), Some(&[0x43, 0x40, 0, 0][..]));
    assert_eq!(tlps[3].data.bytes(), Some(&[0x42, 0x40, 0, 0][..]), "vector 2 of 2 is folded");
    let counters = bench.endpoint.counters();
    assert_eq!((counters.interrupts, counters.interrupts_out_of_range), (2, 1));
}

#[test]
fn an_interrupt_without_msi_is_counted() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, interrupt(0));
    assert!(bench.poll(Class::Posted).is_none());
    assert_eq!(bench.endpoint.counters().interrupts_not_enabled, 1);
}

#[test]
fn endpoint_holds_msix_table_and_masked_vectors_pend() {
    let mut bench = Bench::new(EndpointLimits::default());
    let entry = [0x00, 0x10, 0xe0, 0xfe, 1, 0, 0, 0, 0x99, 0, 0, 0, 0, 0, 0, 0];
    bench.handle(mwr(BAR2 + 16 * 33, &entry));
    bench.write_config(0, MSIX, 0xc000_0000); // enabled, function masked
    bench.probe().push(Class::Posted, interrupt(33));
    bench.probe().push(Class::Posted, interrupt(40));
    assert!(bench.poll(Class::Posted).is_none());
    bench.handle(mrd(1, BAR2 + 0x804, 4));
    assert_eq!(
        bench.poll(Class::Completion).unwrap().data.bytes(),
        Some(&[2, 0, 0, 0][..]),
        "pending bit 33"
    );
    bench.handle(mrd(1, BAR2 + 16 * 33, 16));
    assert_eq!(bench.poll(Class::Completion).unwrap().data.bytes(), Some(&entry[..]));
    bench.write_config(0, MSIX, 0x8000_0000);
    let tlp = bench.poll(Class::Posted).unwrap();
    assert_eq!((request(&tlp).span.address(), tlp.data.bytes()), (0x1_fee0_1000, Some(&[0x99, 0, 0, 0][..])));
    assert!(bench.poll(Class::Posted).is_none());
    // A masked vector, unmasked by a write of one byte.
    bench.handle(mwr(BAR2 + 16 * 33 + 12, &[1]));
    bench.probe().push(Class::Posted, interrupt(33));
    assert!(bench.poll(Class::Posted).is_none());
    bench.handle(mwr(BAR2 + 16 * 33 + 12, &[0]));
    assert!(bench.poll(Class::Posted).is_some());
    assert!(bench.probe().take_inputs().is_empty(), "the device saw none of it");
    assert_eq!(bench.endpoint.counters().interrupts_out_of_range, 1);
    assert_eq!(bench.credits(), [(3, 3), (2, 0), (0, 0)]);
}

#[test]
fn bus_master_enable_gates_every_request() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, MSI, 0x0001_0000);
    bench.write_config(0, COMMAND, 0x2);
    bench.probe().push(Class::Posted, write(0x2000, Data::Counted(512)));
    bench.probe().push(Class::Posted, interrupt(0));
    bench.probe().push(Class::NonPosted, read(5, 0x1000, 64));
    assert!(bench.poll_all(Class::Posted).is_empty() && bench.poll_all(Class::NonPosted).is_empty());
    assert_eq!(bench.probe().done(), [(5, Err(DmaError::BusMasterDisabled))]);
    assert_eq!(bench.endpoint.counters().blocked_by_bus_master, 3);
    let refusals = bench.endpoint.refusals();
    let [refusal] = &refusals[..] else { panic!("{refusals:?}") };
    assert_eq!((refusal.violation, refusal.count), (Violation::new(RuleId::BusMasterEnable, 0), 3));
    let first = refusal.tlp.to_string();
    assert!(first.starts_with("MWr, len 64, ") && first.ends_with(" Addr 0x00002000"), "{first}");
    assert_eq!(bench.endpoint.poll_timeout(), Some(Time::ZERO), "the other classes are to be polled again");
    assert!(bench.endpoint.waits_for().unwrap().contains("Bus Master Enable is clear"));
}

#[test]
fn transfer_ends_when_bus_master_enable_is_cleared() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, write(0x2000, Data::Counted(512)));
    bench.probe().push(Class::NonPosted, read(5, 0x1000, 1024));
    let asked = bench.poll(Class::NonPosted).unwrap();
    assert!(bench.poll(Class::Posted).is_some());
    bench.write_config(0, COMMAND, 0x2);
    assert!(bench.poll(Class::Posted).is_none() && bench.poll(Class::NonPosted).is_none());
    assert_eq!(bench.probe().done(), [(5, Err(DmaError::BusMasterDisabled))]);
    answer(&asked).into_iter().for_each(|c| bench.handle(c));
    assert!(bench.probe().done().is_empty());
    assert_eq!(
        (bench.endpoint.counters().swallowed_completions, bench.endpoint.tags(0)),
        (2, Some((0, 256)))
    );
}

/// A device that retries for ever without permission: time passes, and the run does not hang.
#[test]
fn stubborn_device_does_not_hang_the_run() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, COMMAND, 0x2);
    bench.probe().0.borrow_mut().rereads = true;
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 64));
    assert!(bench.poll(Class::NonPosted).is_none());
    assert_eq!(bench.endpoint.poll_timeout(), Some(us(1)));
    bench.advance(us(10));
    let refused = bench.endpoint.counters().blocked_by_bus_master;
    assert!((64..64 * 12).contains(&refused), "{refused}");
}

/// Property 1 of the seam: without a tag left, completions, writes and interrupts still go out.
#[test]
fn a_device_starved_of_tags_still_answers_and_interrupts() {
    let mut bench = Bench::new(EndpointLimits { max_outstanding_reads: 2, ..EndpointLimits::default() });
    bench.write_config(0, MSI, 0x0001_0000);
    for id in 0..3 {
        bench.probe().push(Class::NonPosted, read(id, 0x1000, 2048));
    }
    assert_eq!(bench.poll_all(Class::NonPosted).len(), 2);
    assert_eq!(
        bench.endpoint.waits_for().as_deref(),
        Some("probe: 1 DMA reads wait for tags (2 of 2 tags in use)")
    );
    bench.handle(mrd(7, BAR0, 4));
    let token = bench.probe().tokens()[0];
    bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    bench.probe().push(Class::Posted, interrupt(0));
    assert_eq!(completion(&bench.poll(Class::Completion).unwrap()).tag.bits(), 7);
    assert!(bench.poll(Class::Posted).is_some());
    assert!(bench.poll(Class::NonPosted).is_none());
}

/// An output after a write may not pass it (`PCIe 5.0 Table 2-40`, B2a and D2a).
#[test]
fn a_read_and_an_answer_wait_for_the_write_before_them() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.handle(mrd(7, BAR0, 4));
    let token = bench.probe().tokens()[0];
    bench.probe().push(Class::Posted, write(0x2000, Data::Counted(512)));
    assert!(bench.poll(Class::Posted).is_some());
    bench.probe().push(Class::NonPosted, read(1, 0x2000, 64));
    bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    assert!(bench.poll(Class::NonPosted).is_none() && bench.poll(Class::Completion).is_none());
    assert_eq!(bench.endpoint.poll_timeout(), None);
    assert!(bench.poll(Class::Posted).is_some());
    assert_eq!(bench.endpoint.poll_timeout(), Some(Time::ZERO), "the others are to be polled again");
    assert!(bench.poll(Class::NonPosted).is_some() && bench.poll(Class::Completion).is_some());
}

#[test]
fn functions_take_turns() {
    let mut bench = Bench::with_functions(EndpointLimits::default(), 2);
    for probe in &bench.probes {
        probe.push(Class::Posted, write(0x2000, Data::Counted(768)));
    }
    let ids: Vec<u8> =
        bench.poll_all(Class::Posted).iter().map(|t| request(t).requester.function()).collect();
    assert_eq!(ids, [0, 1, 0, 1, 0, 1]);
}

#[test]
fn only_enabled_attributes_are_sent() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, DEVICE_CONTROL, 0x2930 & !0x800); // Enable No Snoop off
    let attr = Attributes::all();
    let tc = TrafficClass::new(3).unwrap();
    let options = DmaOptions::tc(tc).with_attr(attr);
    let w = DmaWrite::new(0x2000, Data::Counted(4)).with_options(options);
    bench.probe().push(Class::Posted, Output::Write(w));
    let tlp = bench.poll(Class::Posted).unwrap();
    assert_eq!((tlp.repr.attr, tlp.repr.tc.bits()), (Attributes::RELAXED_ORDERING, 3));
}

#[test]
fn outputs_that_cannot_be_sent_are_counted() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, read(1, 0, 4));
    bench.probe().push(Class::NonPosted, interrupt(0));
    bench.probe().push(Class::Completion, interrupt(0));
    bench.probe().push(Class::Posted, write(u64::MAX, Data::Counted(2)));
    bench.probe().push(Class::Posted, message(3));
    assert!(Class::ALL.iter().all(|&class| bench.poll(class).is_none()));
    assert_eq!(bench.endpoint.counters().bad_outputs, 5);
    bench.probe().push(Class::Posted, message(8));
    assert_eq!(bench.poll(Class::Posted).unwrap().repr.data_dw(), 2);
}

#[test]
fn rejects_impossible_endpoints() {
    let make = |limits, count: usize| {
        let function = || FunctionConfig { config: space(), device: Box::new(Probe::default()) };
        let functions = (0..count).map(|_| function()).collect();
        let config = EndpointConfig { name: String::new(), functions, limits, pool: PayloadPool::new() };
        Endpoint::new(config).err().map(|e| e.to_string())
    };
    let limits = EndpointLimits::default();
    assert_eq!(make(limits, 0).unwrap(), "0 functions; expected 1 to 256");
    assert_eq!(make(limits, 9).unwrap(), "9 functions without the ARI capability; expected 1 to 8");
    assert_eq!(make(limits, 257).unwrap(), "257 functions; expected 1 to 256");
    let none = EndpointLimits { max_outstanding_reads: 0, ..limits };
    assert_eq!(make(none, 1).unwrap(), "max_outstanding_reads 0; expected 1 to 768");
    let slow = EndpointLimits { completion_timeout: Duration::from_ms(51), ..limits };
    assert!(make(slow, 1).unwrap().starts_with("completion_timeout 51000000.000 ns"));
    assert_eq!(make(limits, 8), None);
}
