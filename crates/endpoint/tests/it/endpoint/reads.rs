// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DMA reads: tags, completions in and out of order, errors, timeouts.

use crate::endpoint::harness::*;
use device::*;
use riser_endpoint::*;
use tlp::*;

fn bytes(address: u64, len: u32) -> Vec<u8> {
    (0..u64::from(len)).map(|i| byte_at(address + i)).collect()
}

fn asked(bench: &mut Bench) -> Vec<Tlp> {
    bench.poll_all(Class::NonPosted)
}

#[test]
fn reads_are_split_and_reassembled_in_any_order() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::NonPosted, read(1, 0x1f01, 1200));
    bench.probe().push(Class::NonPosted, read(2, 0x8000, 100));
    let tlps = asked(&mut bench);
    let spans: Vec<(u64, u32)> =
        tlps.iter().map(|t| (request(t).span.first_byte(), request(t).span.byte_count())).collect();
    assert_eq!(spans, [(0x1f01, 255), (0x2000, 512), (0x2200, 433), (0x8000, 100)]);
    for tlp in tlps.iter().rev() {
        answer(tlp).into_iter().for_each(|c| bench.handle(c));
    }
    let done = bench.probe().done();
    assert_eq!((done[0].0, done[1].0), (2, 1));
    assert_eq!(done[0].1.as_ref().unwrap().bytes(), Some(&bytes(0x8000, 100)[..]));
    assert_eq!(done[1].1.as_ref().unwrap().bytes(), Some(&bytes(0x1f01, 1200)[..]));
    let counters = *bench.endpoint.counters();
    assert_eq!((counters.dma_reads, counters.dma_reads_done), (2, 2));
    assert_eq!(bench.credits()[2].0, counters.completions as u32);
}

type Change = fn(&mut Repr);

/// Rows: a change of a completion; whether its Traffic Class and attributes still match the request. ID-based Ordering is
/// not compared (`PCIe 5.0 §2.3.2`).
const CHANGES: [(Change, bool); 5] = [
    (|_| {}, true),
    (|repr| repr.attr ^= Attributes::ID_BASED_ORDERING, true),
    (|repr| repr.attr ^= Attributes::NO_SNOOP, false),
    (|repr| repr.attr ^= Attributes::RELAXED_ORDERING, false),
    (|repr| repr.tc = TrafficClass::default(), false),
];

#[test]
fn completions_with_another_traffic_class_or_attribute_are_malformed_unless_lenient() {
    let options = DmaOptions::tc(TrafficClass::from_bits(2)).with_attr(Attributes::COMPLETED);
    for lenient_completions in [false, true] {
        for (n, (change, repeats)) in CHANGES.into_iter().enumerate() {
            let limits = EndpointLimits { lenient_completions, ..EndpointLimits::default() };
            let mut bench = Bench::new(limits);
            for id in [1, 2] {
                let read = DmaRead::new(DmaId(id), 0x1000, 4).with_options(options.clone());
                bench.probe().push(Class::NonPosted, Output::Read(read));
            }
            let [served, refused] = &asked(&mut bench)[..] else { panic!("two requests") };
            for mut tlp in [answer(served).remove(0), refuse(refused, Status::UnsupportedRequest)] {
                change(&mut tlp.repr);
                bench.handle(tlp);
            }
            let results: Vec<_> =
                bench.probe().done().into_iter().map(|(_, result)| result.map(|_| ())).collect();
            let expected = match repeats || lenient_completions {
                true => [Ok(()), Err(DmaError::UnsupportedRequest)],
                false => [Err(DmaError::Malformed); 2],
            };
            assert_eq!(results, expected, "change {n}, lenient: {lenient_completions}");
        }
    }
}

#[test]
fn aligned_splitting_cuts_at_multiples_of_mrrs() {
    let mut bench = Bench::new(EndpointLimits { align_reads: true, ..EndpointLimits::default() });
    bench.probe().push(Class::NonPosted, read(1, 0x1181, 1200));
    let lens: Vec<u32> = asked(&mut bench).iter().map(|t| request(t).span.byte_count()).collect();
    assert_eq!(lens, [0x1200 - 0x1181, 512, 512, 49]);
}

#[test]
fn counted_read_returns_only_the_length() {
    let mut bench = Bench::new(EndpointLimits::default());
    let r = DmaRead::new(DmaId(1), 0x1000, 1000).counted();
    bench.probe().push(Class::NonPosted, Output::Read(r));
    let tlps = asked(&mut bench);
    assert!(tlps.iter().all(|t| !t.carry));
    tlps.iter().flat_map(answer).for_each(|c| bench.handle(c));
    assert_eq!(bench.probe().done(), [(1, Ok(Data::Counted(1000)))]);
}

#[test]
fn zero_length_read_is_a_flush() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::NonPosted, read(1, 0x1004, 0));
    let tlps = asked(&mut bench);
    assert!(request(&tlps[0]).span.is_zero_length());
    answer(&tlps[0]).into_iter().for_each(|c| bench.handle(c));
    assert_eq!(bench.probe().done(), [(1, Ok(Data::NONE))]);
    assert_eq!((tlps.len(), bench.endpoint.tags(0)), (1, Some((0, 256))));
}

/// Tags by the enable bits (`PCIe 5.0 §2.2.6.2`): extended, 10-bit, limit: how many, the first.
#[test]
fn read_uses_as_many_tags_as_are_enabled() {
    let rows = [
        (false, false, 768, 32, 0),
        (true, false, 768, 256, 0),
        (true, true, 768, 768, 256),
        (true, false, 16, 16, 0),
    ];
    for (extended, ten_bit, limit, count, first) in rows {
        let mut bench =
            Bench::new(EndpointLimits { max_outstanding_reads: limit, ..EndpointLimits::default() });
        bench.write_config(0, DEVICE_CONTROL, 0x0830 | u32::from(extended) << 8); // MRRS 128
        bench.write_config(0, DEVICE_CONTROL_2, u32::from(ten_bit) << 12);
        bench.probe().push(Class::NonPosted, read(1, 0, 768 * 128 + 1));
        let tags: Vec<u16> = asked(&mut bench).iter().map(|t| request(t).tag.bits()).collect();
        assert_eq!(tags, (first..first + count).collect::<Vec<u16>>());
    }
}

#[test]
fn released_tag_continues_the_read() {
    let mut bench = Bench::new(EndpointLimits { max_outstanding_reads: 1, ..EndpointLimits::default() });
    bench.probe().push(Class::NonPosted, read(1, 0x4000, 4096));
    let mut requests = 0;
    while let Some(tlp) = bench.poll(Class::NonPosted) {
        requests += 1;
        answer(&tlp).into_iter().for_each(|c| bench.handle(c));
    }
    assert_eq!(
        (requests, &bench.probe().done()[0].1),
        (8, &Ok(Data::Carried(bench.pool.copy(&bytes(0x4000, 4096)))))
    );
}

/// The host's answer to the first of two requests of a read: how the read ends, and the tags then in use.
#[test]
fn error_ends_the_read_once_and_later_completions_are_dropped() {
    type Spoil = fn(&Tlp) -> Vec<Tlp>;
    let poison: Spoil = |t| {
        let mut all = answer(t);
        all[0].repr.ep = true;
        all
    };
    let byte_count: Spoil = |t| {
        let mut all = answer(t);
        if let Body::Completion(c) = &mut all[0].repr.body {
            c.byte_count -= 1;
        }
        all.truncate(1);
        all
    };
    let crs: Spoil = |t| vec![refuse(t, Status::ConfigRetry)];
    let rows: [(Spoil, DmaError, u16); 5] = [
        (|t| vec![refuse(t, Status::UnsupportedRequest)], DmaError::UnsupportedRequest, 0),
        (|t| vec![refuse(t, Status::CompleterAbort)], DmaError::CompleterAbort, 0),
        (poison, DmaError::Poisoned, 0),
        (byte_count, DmaError::Malformed, 1),
        (crs, DmaError::Malformed, 1),
    ];
    for (spoil, error, in_use) in rows {
        let mut bench = Bench::new(EndpointLimits::default());
        bench.probe().push(Class::NonPosted, read(1, 0x1000, 1024));
        let tlps = asked(&mut bench);
        spoil(&tlps[0]).into_iter().for_each(|c| bench.handle(c));
        assert_eq!(bench.probe().done(), [(1, Err(error))]);
        answer(&tlps[1]).into_iter().for_each(|c| bench.handle(c));
        assert!(bench.probe().done().is_empty(), "{error:?}");
        assert_eq!(bench.endpoint.tags(0), Some((in_use, 256)), "{error:?}");
        assert!(bench.endpoint.counters().swallowed_completions >= 2);
        // The same id again, with the same tags: the old read has no effect on the result.
        bench.probe().push(Class::NonPosted, read(1, 0x9000, 64));
        asked(&mut bench).iter().flat_map(answer).for_each(|c| bench.handle(c));
        assert_eq!(bench.probe().done()[0].1.as_ref().unwrap().bytes(), Some(&bytes(0x9000, 64)[..]));
    }
}

#[test]
fn unexpected_completions_are_dropped_and_logged() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 64));
    let tlp = asked(&mut bench).remove(0);
    let with = |f: fn(&mut Completion)| {
        let mut c = answer(&tlp).remove(0);
        if let Body::Completion(body) = &mut c.repr.body {
            f(body);
        }
        c
    };
    bench.handle(with(|c| c.tag = Tag::from_bits(900)));
    bench.handle(with(|c| c.tag = Tag::from_bits(7)));
    bench.handle(with(|c| c.requester = HOST));
    bench.handle(with(|c| c.requester = Bdf::from_bits(EP.bits() | 3)));
    assert_eq!(bench.endpoint.counters().unexpected_completions, 4);
    // Advisory, which is masked after reset: Advisory Non-Fatal Error Status alone (`PCIe 5.0 §6.2.4.3`).
    assert_eq!((bench.config(AER_STATUS), bench.config(AER_STATUS + 3)), (0, 1 << 13));
    assert_eq!(bench.credits()[2].0, 4);
    bench.handle(with(|_| ()));
    bench.handle(with(|_| ()));
    assert_eq!((bench.probe().done().len(), bench.endpoint.counters().unexpected_completions), (1, 5));
}

#[test]
fn timeout_quarantines_the_tag_until_no_completion_can_arrive() {
    let timeout = Duration::from_us(50);
    let limits =
        EndpointLimits { max_outstanding_reads: 1, completion_timeout: timeout, ..EndpointLimits::default() };
    let mut bench = Bench::new(limits);
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 64));
    let first = asked(&mut bench).remove(0);
    bench.probe().push(Class::NonPosted, read(2, 0x2000, 64));
    bench.advance(us(49));
    assert!(bench.probe().done().is_empty());
    bench.advance(us(50));
    assert_eq!(bench.probe().done(), [(1, Err(DmaError::CompletionTimeout))]);
    assert_eq!((bench.endpoint.counters().completion_timeouts, bench.config(AER_STATUS)), (1, 1 << 14));
    assert!(bench.poll(Class::NonPosted).is_none(), "the tag is out of use");
    // Late, but not too late: counted, and the tag is free.
    bench.endpoint.handle_tlp(us(60), &answer(&first).remove(0));
    assert!(bench.probe().done().is_empty());
    assert_eq!(bench.endpoint.counters().late_completions, 1);
    assert!(bench.endpoint.poll_tlp(us(60), Class::NonPosted, tlp::TcSet::ALL).is_some());
    // Never: free after a second timeout.
    bench.advance(us(159));
    assert_eq!(bench.probe().done(), [(2, Err(DmaError::CompletionTimeout))]);
    bench.probe().push(Class::NonPosted, read(3, 0x3000, 64));
    assert!(bench.endpoint.poll_tlp(us(159), Class::NonPosted, tlp::TcSet::ALL).is_none());
    bench.endpoint.handle_timeout(us(160));
    assert!(bench.endpoint.poll_tlp(us(160), Class::NonPosted, tlp::TcSet::ALL).is_some());
}

#[test]
fn reads_beyond_the_limits_fail_at_once() {
    let mut bench = Bench::new(EndpointLimits { max_dma_len: 4096, ..EndpointLimits::default() });
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 4097));
    bench.probe().push(Class::NonPosted, read(2, u64::MAX - 3, 5));
    bench.probe().push(Class::NonPosted, read(3, u64::MAX - 3, 4));
    assert_eq!(asked(&mut bench).len(), 1);
    let done = bench.probe().done();
    assert_eq!(done, [(1, Err(DmaError::TooLong)), (2, Err(DmaError::TooLong))]);
}

#[test]
fn functions_have_their_own_tags() {
    let mut bench =
        Bench::with_functions(EndpointLimits { max_outstanding_reads: 1, ..EndpointLimits::default() }, 2);
    bench.probes[0].push(Class::NonPosted, read(1, 0x1000, 64));
    bench.probes[1].push(Class::NonPosted, read(1, 0x2000, 64));
    let tlps = asked(&mut bench);
    let ids: Vec<(u8, u16)> =
        tlps.iter().map(|t| (request(t).requester.function(), request(t).tag.bits())).collect();
    assert_eq!(ids, [(0, 0), (1, 0)]);
    answer(&tlps[1]).into_iter().for_each(|c| bench.handle(c));
    assert!(bench.probes[0].done().is_empty());
    assert_eq!(bench.probes[1].done()[0].1.as_ref().unwrap().bytes(), Some(&bytes(0x2000, 64)[..]));
}
