// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the bytes of requests, and the outcomes of completions.

use super::*;
use proptest::prelude::*;
use tlp::{Bdf, Body, Completion, Duration, Mps, Mrrs, Rcb, Repr};

const US: fn(u64) -> Time = |us| Time::from_ps(us * 1_000_000);

/// One buffer for all requests.
struct Buffer(Vec<u8>);

impl Buffers for Buffer {
    fn place(&mut self, _: u64, offset: u64, len: usize) -> Option<&mut [u8]> {
        self.0.get_mut(offset as usize..offset as usize + len)
    }

    fn data(&self, _: u64, offset: u64, len: usize) -> Option<&[u8]> {
        self.0.get(offset as usize..offset as usize + len)
    }
}

fn settings() -> RequesterSettings {
    let rest = Rest { lost: Duration::from_us(500), duplicate: Duration::from_us(50) };
    let settings = RequesterSettings::unreliable(Bdf::from_bits(0x1a00), 0..=3, rest);
    RequesterSettings { timeout: Duration::from_us(100), retries: 1, ..settings }
}

/// Returns all TLPs that the requester sends now.
fn send_all(requester: &mut Requester, now: Time, buffer: &Buffer) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    while let Some(outgoing) = requester.poll_transmit() {
        let mut tlp = vec![0xee; outgoing.tlp_len()];
        outgoing.emit(buffer, &mut tlp);
        requester.sent(now, &outgoing);
        sent.push(tlp);
    }
    sent
}

/// Returns a CplD with a header of 12 bytes and `data`, in whole DWs.
fn cpld(tag: u16, byte_count: u16, lower_address: u8, data: &[u8]) -> Vec<u8> {
    let completion = Completion {
        byte_count,
        lower_address,
        length_dw: Some((data.len() / 4) as u16),
        ..Completion::new(Bdf::from_bits(0x0100), Bdf::from_bits(0x1a00), Tag::from_bits(tag))
    };
    let mut bytes = vec![0; 12 + data.len()];
    Repr::new(Body::Completion(completion)).emit(&mut bytes);
    bytes[12..].copy_from_slice(data);
    bytes
}

fn ends(requester: &mut Requester) -> Vec<Result<u64, Fault>> {
    std::iter::from_fn(|| requester.poll_done()).map(|done| done.result).collect()
}

// Headers from `PCIe 5.0 Figure 2-13` and 2-14: MRd, 3 DW; MRd, 4 DW; byte enables of §2.2.5.
#[test]
fn reads_have_the_expected_bytes() {
    for (address, len, expected) in [
        (0x1000, 4, vec![vec![0x00, 0, 0, 1, 0x1a, 0x00, 0, 0x0f, 0, 0, 0x10, 0]]),
        (0x1001, 2, vec![vec![0x00, 0, 0, 1, 0x1a, 0x00, 0, 0x06, 0, 0, 0x10, 0]]),
        (0x1003, 2, vec![vec![0x00, 0, 0, 2, 0x1a, 0x00, 0, 0x18, 0, 0, 0x10, 0]]),
        (0x1_0000_0100, 512, vec![vec![0x20, 0, 0, 0x80, 0x1a, 0x00, 0, 0xff, 0, 0, 0, 1, 0, 0, 0x01, 0]]),
        // MRRS 512 B, then the 4 KiB boundary.
        (
            0x1e00 - 4,
            1024,
            vec![
                vec![0x00, 0, 0, 0x80, 0x1a, 0x00, 0, 0xff, 0, 0, 0x1d, 0xfc],
                vec![0x00, 0, 0, 1, 0x1a, 0x00, 1, 0x0f, 0, 0, 0x1f, 0xfc],
                vec![0x00, 0, 0, 0x7f, 0x1a, 0x00, 2, 0xff, 0, 0, 0x20, 0],
            ],
        ),
        (0x0, 1, vec![vec![0x00, 0, 0, 1, 0x1a, 0x00, 0, 0x01, 0, 0, 0, 0]]),
        (
            u64::MAX,
            1,
            vec![vec![0x20, 0, 0, 1, 0x1a, 0x00, 0, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfc]],
        ),
    ] {
        let mut requester = Requester::new(settings());
        requester.read(address, len, 0).unwrap();
        assert_eq!(send_all(&mut requester, US(0), &Buffer(vec![])), expected, "{len} bytes at {address:#x}");
    }
}

// A request of 1024 DW has Length 0 (`PCIe 5.0 §2.2.1`), and its completion Byte Count 0 (§2.3.1.1).
#[test]
fn read_of_a_whole_page_has_length_zero() {
    let mut requester = Requester::new(RequesterSettings { mrrs: Mrrs::new(4096).unwrap(), ..settings() });
    let mut buffer = Buffer(vec![0; 4096]);
    requester.read(0x2000, 4096, 0).unwrap();
    let sent = send_all(&mut requester, US(0), &buffer);
    assert_eq!(sent, [[0x00, 0, 0, 0, 0x1a, 0x00, 0, 0xff, 0, 0, 0x20, 0]]);
    let data: Vec<u8> = (0..4096).map(|n| (n % 251) as u8).collect();
    let whole = cpld(0, 4096, 0, &data);
    assert_eq!(whole[..12], [0x4a, 0, 0, 0, 0x01, 0x00, 0, 0, 0x1a, 0x00, 0, 0]);
    assert_eq!(requester.handle(US(1), &whole, &mut buffer), Handled::Answer);
    assert_eq!(ends(&mut requester), [Ok(4096)]);
    assert_eq!(buffer.0, data);
}

// Data is in its byte lanes, in whole DWs. (Upstream sends 3 bytes for 1 or 2 bytes, in the wrong lanes.)
#[test]
fn writes_have_the_expected_bytes() {
    for (address, data, expected) in [
        (0x1000, &[0x11][..], vec![vec![0x40, 0, 0, 1, 0x1a, 0x00, 0, 0x01, 0, 0, 0x10, 0, 0x11, 0, 0, 0]]),
        (0x1002, &[0x11, 0x22], vec![vec![0x40, 0, 0, 1, 0x1a, 0, 0, 0x0c, 0, 0, 0x10, 0, 0, 0, 0x11, 0x22]]),
        (
            0x1ffe,
            &[1, 2, 3, 4],
            vec![
                vec![0x40, 0, 0, 1, 0x1a, 0, 0, 0x0c, 0, 0, 0x1f, 0xfc, 0, 0, 1, 2],
                vec![0x40, 0, 0, 1, 0x1a, 0, 0, 0x03, 0, 0, 0x20, 0x00, 3, 4, 0, 0],
            ],
        ),
        (
            0x1_0000_0003,
            &[1, 2, 3],
            vec![vec![0x60, 0, 0, 2, 0x1a, 0, 0, 0x38, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0]],
        ),
    ] {
        let mut requester = Requester::new(settings());
        requester.write(address, data.len() as u64, 0).unwrap();
        assert_eq!(send_all(&mut requester, US(0), &Buffer(data.to_vec())), expected, "{address:#x}");
        assert_eq!(ends(&mut requester), [Ok(data.len() as u64)]);
    }
}

/// Returns a requester with a read of 8 bytes at 0x1006 under tag 0 in progress: Byte Count 8, Lower Address 6.
fn reading() -> (Requester, Buffer) {
    let mut requester = Requester::new(settings());
    requester.read(0x1006, 8, 0).unwrap();
    let buffer = Buffer(vec![0xee; 8]);
    assert_eq!(send_all(&mut requester, US(0), &buffer).len(), 1);
    (requester, buffer)
}

// Upstream accepts any completion; see "What upstream gets wrong".
#[test]
fn completion_that_does_not_match_is_a_stray_and_never_data() {
    let right = cpld(0, 8, 6, &[0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]);
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = right.clone();
        change(&mut bytes);
        bytes
    };
    let against = Violation::expecting;
    for (bytes, stray, why) in [
        (with(|b| b[8] = 0x1b), Stray::Requester, Violation::new(RuleId::UnexpectedCompletion, 0x1b00_0000)),
        (with(|b| b[10] = 1), Stray::Tag, Violation::new(RuleId::UnexpectedCompletion, 0x1a00_0001)),
        (with(|b| b[10] = 4), Stray::Tag, Violation::new(RuleId::UnexpectedCompletion, 0x1a00_0004)),
        (with(|b| b[1] |= 0x80), Stray::Tag, Violation::new(RuleId::UnexpectedCompletion, 0x1a00_0200)),
        (with(|b| b[11] = 2), Stray::LowerAddress, against(RuleId::LowerAddress, 2, 6)),
        (with(|b| b[7] = 9), Stray::ByteCount, against(RuleId::ByteCount, 9, 8)),
        (with(|b| b[7] = 7), Stray::LowerAddress, against(RuleId::LowerAddress, 6, 7)),
        (cpld(0, 8, 6, &[0; 16]), Stray::Length, Violation::new(RuleId::CompletionLength, 4)),
        (with(|b| b[0] = 0x4b), Stray::Locked, against(RuleId::CompletionLocked, 0x0b, 0x0a)),
        (with(|b| b.truncate(23)), Stray::Malformed, Violation::new(RuleId::Length, 23)),
        (with(|b| b.push(0)), Stray::Malformed, Violation::new(RuleId::Length, 25)),
        (
            vec![0x0a, 0, 0, 0, 1, 0, 0, 8, 0x1a, 0, 0, 6],
            Stray::WithoutData,
            against(RuleId::CompletionType, 0b000, 0b010),
        ),
        (vec![], Stray::Malformed, Violation::new(RuleId::Length, 0)),
        (vec![0xff; 24], Stray::Malformed, Violation::new(RuleId::ReservedFmt, 0b111)),
    ] {
        let (mut requester, mut buffer) = reading();
        assert_eq!(requester.handle(US(1), &bytes, &mut buffer), Handled::Stray(stray), "{bytes:02x?}");
        assert_eq!((requester.counters().strays.of(stray), requester.counters().strays.total()), (1, 1));
        let refused: Vec<_> = requester.refusals().iter().map(|r| (r.violation, r.at, r.count)).collect();
        assert_eq!(refused, [(why, US(1), 1)], "{bytes:02x?}");
        assert_eq!((&buffer.0[..], requester.poll_done()), (&[0xee; 8][..], None));
        // The correct completion is still accepted.
        assert_eq!(requester.handle(US(2), &right, &mut buffer), Handled::Answer);
        assert_eq!((ends(&mut requester), &buffer.0[..]), (vec![Ok(8)], &[1, 2, 3, 4, 5, 6, 7, 8][..]));
    }
    let (mut requester, mut buffer) = reading();
    let mrd = [0x00, 0, 0, 1, 0x01, 0x00, 0, 0x0f, 0, 0, 0x10, 0];
    assert_eq!(requester.handle(US(1), &mrd, &mut buffer), Handled::Request);
}

// `PCIe 5.0 §2.3.1.1`: split at the Read Completion Boundary; the network may reorder them.
#[test]
fn completions_of_one_read_may_arrive_in_any_order() {
    let first = cpld(0, 200, 0x3d, &[0, 10, 11, 12]);
    let second = cpld(0, 197, 0x40, &[20; 128]);
    let third = cpld(0, 69, 0x40, &[30; 72]);
    let all = [&first, &second, &third];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut requester = Requester::new(settings());
        let mut buffer = Buffer(vec![0xee; 200]);
        requester.read(0x103d, 200, 0).unwrap();
        assert_eq!(send_all(&mut requester, US(0), &buffer).len(), 1);
        for (place, which) in order.into_iter().enumerate() {
            assert_eq!(requester.handle(US(1), all[which], &mut buffer), Handled::Answer);
            assert_eq!(requester.has_done(), place == 2, "{order:?}");
            let again = requester.handle(US(1), all[which], &mut buffer);
            let expected = if place == 2 { Handled::Late } else { Handled::Stray(Stray::Repeated) };
            assert_eq!(again, expected);
        }
        assert_eq!(ends(&mut requester), [Ok(200)]);
        let expected = [&[10, 11, 12][..], &[20; 128], &[30; 69]].concat();
        assert_eq!(buffer.0, expected, "{order:?}");
    }
}

#[test]
fn error_completion_ends_its_read() {
    let cpl = |status: u8| vec![0x0a, 0, 0, 0, 1, 0, status << 5, 8, 0x1a, 0, 0, 6];
    let mut poisoned = cpld(0, 8, 6, &[9; 12]);
    poisoned[2] |= 0x40;
    for (bytes, fault) in [
        (cpl(1), Fault::UnsupportedRequest(0x1006)),
        (cpl(2), Fault::ConfigRetry(0x1006)),
        (cpl(4), Fault::CompleterAbort(0x1006)),
        (cpl(7), Fault::UnsupportedRequest(0x1006)),
        (poisoned, Fault::Poisoned(0x1006)),
    ] {
        let (mut requester, mut buffer) = reading();
        assert_eq!(requester.handle(US(1), &bytes, &mut buffer), Handled::Answer);
        assert_eq!((ends(&mut requester), &buffer.0[..]), (vec![Err(fault)], &[0xee; 8][..]));
        assert_eq!((requester.outstanding(), requester.resting()), (0, 1));
    }
}

#[test]
fn failed_read_gives_up_its_other_parts() {
    let mut requester = Requester::new(settings());
    let mut buffer = Buffer(vec![0; 4096]);
    requester.read(0, 4096, 7).unwrap();
    assert_eq!(send_all(&mut requester, US(0), &buffer).len(), 4);
    let refused = [0x0a, 0, 0, 0, 1, 0, 0x20, 0, 0x1a, 0, 1, 0];
    requester.handle(US(1), &refused, &mut buffer);
    let done = requester.poll_done().unwrap();
    assert_eq!((done.token, done.result), (7, Err(Fault::UnsupportedRequest(0x200))));
    assert_eq!((requester.outstanding(), requester.resting(), requester.under_way()), (0, 4, 0));
    // Further completions of the failed read count as late, and their data is not stored.
    assert_eq!(requester.handle(US(2), &cpld(0, 512, 0, &[1; 512]), &mut buffer), Handled::Late);
    assert!(buffer.0.iter().all(|byte| *byte == 0));
    assert!(requester.poll_transmit().is_none());
}

#[test]
fn unanswered_read_is_retried_under_another_tag_and_then_fails() {
    let (mut requester, buffer) = reading();
    assert_eq!(requester.poll_timeout(), Some(US(100)));
    requester.handle_timeout(US(99));
    assert!(requester.poll_transmit().is_none());
    requester.handle_timeout(US(100));
    let again = send_all(&mut requester, US(100), &buffer);
    assert_eq!(again, [[0x00, 0, 0, 3, 0x1a, 0x00, 1, 0x3c, 0, 0, 0x10, 0x04]]);
    requester.handle_timeout(US(200));
    let fault = Fault::TimedOut { address: 0x1006, len: 8, attempts: 2 };
    assert_eq!(ends(&mut requester), [Err(fault)]);
    let counters = requester.counters();
    assert_eq!((counters.read_tlps, counters.retried, counters.timed_out), (2, 1, 2));
}

// No read gets a tag for which a completion can still arrive.
#[test]
fn tags_rest_while_their_completions_can_arrive() {
    let right = |tag| cpld(tag, 8, 6, &[0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0]);
    let (mut requester, mut buffer) = reading();
    requester.handle_timeout(US(100));
    send_all(&mut requester, US(100), &buffer);
    assert_eq!(requester.handle(US(101), &right(1), &mut buffer), Handled::Answer);
    assert_eq!((requester.resting(), ends(&mut requester)), (2, vec![Ok(8)]));
    // Tag 1, whose completions arrived, rests 50 us. Tag 0, whose read was given up, rests 500 us. Two other tags
    // are free.
    for (now, resting) in [(150, 2), (151, 1), (599, 1), (600, 0)] {
        requester.handle_timeout(US(now));
        assert_eq!(requester.resting(), resting, "{now} us");
    }
    assert_eq!(requester.poll_timeout(), None);

    // If the late completion of a tag arrives, the tag rests only as long as duplicates require.
    let (mut requester, mut buffer) = reading();
    requester.handle_timeout(US(100));
    assert_eq!(requester.handle(US(120), &right(0), &mut buffer), Handled::Late);
    assert_eq!(requester.handle(US(121), &right(0), &mut buffer), Handled::Late);
    assert_eq!((requester.counters().late, requester.counters().copies, buffer.0[0]), (1, 1, 0xee));
    for (now, resting) in [(169, 1), (170, 0)] {
        requester.handle_timeout(US(now));
        assert_eq!(requester.resting(), resting, "{now} us");
    }
}

#[test]
fn read_without_a_free_tag_waits_for_the_end_of_a_rest() {
    let mut requester = Requester::new(RequesterSettings { tags: 5..=5, ..settings() });
    let mut buffer = Buffer(vec![0; 8]);
    requester.read(0, 4, 0).unwrap();
    requester.read(0, 4, 1).unwrap();
    requester.write(0, 4, 2).unwrap();
    // A write does not wait for an earlier read.
    let first_bytes: Vec<u8> = send_all(&mut requester, US(0), &buffer).iter().map(|tlp| tlp[0]).collect();
    assert_eq!(first_bytes, [0x00, 0x40]);
    requester.handle(US(10), &cpld(5, 4, 0, &[0; 4]), &mut buffer);
    assert!(requester.poll_transmit().is_none());
    assert_eq!(requester.poll_timeout(), Some(US(60)));
    requester.handle_timeout(US(60));
    assert_eq!(send_all(&mut requester, US(60), &buffer).len(), 1);
}

#[test]
fn rejects_invalid_requests() {
    let mut requester = Requester::new(RequesterSettings { requests: 2, ..settings() });
    assert_eq!(requester.read(0, 0, 0), Err(RequestError::Empty));
    let beyond = RequestError::BeyondEnd { address: u64::MAX, len: 2 };
    assert_eq!(requester.write(u64::MAX, 2, 0), Err(beyond));
    let first = requester.read(0, 1, 0).unwrap();
    requester.read(0, 1, 1).unwrap();
    assert_eq!(requester.read(0, 1, 2), Err(RequestError::NoRoom(2)));
    requester.cancel(US(0), first);
    requester.cancel(US(0), first);
    assert_eq!(ends(&mut requester), [Err(Fault::Cancelled)]);
    let second = requester.read(0, 1, 3).unwrap();
    assert_ne!(first, second);
    requester.cancel_all(US(0));
    assert_eq!(ends(&mut requester), [Err(Fault::Cancelled); 2]);
    assert!(requester.poll_transmit().is_none());
}

/// Returns the completions of a root complex for an MRd.
fn complete(mrd: &[u8], memory: &[u8], mps: Mps, rcb: Rcb) -> Vec<Vec<u8>> {
    let Body::Memory(m) = Repr::parse(mrd).unwrap().repr.body else { panic!("no MRd") };
    let (mut address, mut remaining) = (m.span.first_byte(), m.span.byte_count());
    let mut completions = Vec::new();
    while remaining > 0 {
        let len = split::completion_piece(address, remaining, mps, rcb);
        let (first, last) = (address & !3, (address + u64::from(len)).next_multiple_of(4));
        let data = &memory[first as usize..last as usize];
        completions.push(cpld(m.tag.bits(), remaining as u16, address as u8 & 0x7f, data));
        (address, remaining) = (address + u64::from(len), remaining - len);
    }
    completions
}

/// A peer that was stopped, for example a stopped process, later answers all requests. Among them are given-up
/// reads whose tags have rested and are in use again.
#[test]
fn late_answers_of_a_stopped_peer_do_not_corrupt_later_reads() {
    // Bytes of each read; when the peer resumes, in us: before the first rest ends, and long after several have.
    for (mrrs, until) in [(128, 50), (512, 1_000), (512, 3_000), (256, 20_000)] {
        let settings = RequesterSettings { mrrs: Mrrs::new(mrrs).unwrap(), retries: 255, ..settings() };
        let mut requester = Requester::new(settings);
        let memory: Vec<u8> = (0..4096_u32).flat_map(u32::to_be_bytes).collect();
        let mut buffer = Buffer(vec![0xee; 8192]);
        requester.read(0x1001, 8192, 0).unwrap();
        let mut asked = VecDeque::new();
        let mut now = 0;
        let done = loop {
            requester.handle_timeout(US(now));
            asked.extend(send_all(&mut requester, US(now), &buffer));
            // The peer answers one request at a time, so that old answers arrive between new requests.
            let answered = if now < until { None } else { asked.pop_front() };
            for answer in
                answered.iter().flat_map(|mrd| complete(mrd, &memory, Mps::default(), Rcb::default()))
            {
                requester.handle(US(now), &answer, &mut buffer);
            }
            if let Some(done) = requester.poll_done() {
                break done.result;
            }
            now += 10;
            assert!(now < 100_000, "still reading");
        };
        assert_eq!(done, Ok(8192));
        assert!(buffer.0 == memory[0x1001..0x1001 + 8192], "stale data: {mrrs} until {until}");
        // All requests are answered: the tags are trusted again.
        while let Some(mrd) = asked.pop_front() {
            for answer in complete(&mrd, &memory, Mps::default(), Rcb::default()) {
                requester.handle(US(now), &answer, &mut buffer);
            }
        }
        requester.handle_timeout(US(now + 1_000));
        assert_eq!(requester.tags.oldest_suspect(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // For every address % 4 and length, and every way to split: all bytes are exact.
    #[test]
    fn any_read_is_exact(
        address in 0u64..6000, len in 1u64..5000, mrrs in 0u8..6, mps in 0u8..6, rcb: bool, turn: bool,
    ) {
        let memory: Vec<u8> = (0..12_000u32).map(|n| (n ^ n >> 8) as u8).collect();
        let mrrs = Mrrs::from_encoding(mrrs).unwrap();
        let (mps, rcb) = (Mps::from_encoding(mps).unwrap(), Rcb::new(if rcb { 64 } else { 128 }).unwrap());
        let mut requester = Requester::new(RequesterSettings { mrrs, tags: 0..=255, ..settings() });
        let mut buffer = Buffer(vec![0; len as usize]);
        requester.read(address, len, 0).unwrap();
        let mut completions: Vec<_> =
            send_all(&mut requester, US(0), &buffer).iter().map(|mrd| complete(mrd, &memory, mps, rcb)).collect();
        if turn {
            completions.reverse();
        }
        for completion in completions.iter().flatten() {
            prop_assert_eq!(requester.handle(US(1), completion, &mut buffer), Handled::Answer);
        }
        prop_assert_eq!(ends(&mut requester), vec![Ok(len)]);
        prop_assert_eq!(&buffer.0[..], &memory[address as usize..][..len as usize]);
    }

    // Written bytes arrive at their addresses, and no other bytes are enabled.
    #[test]
    fn any_write_is_exact(address in 0u64..6000, len in 1u64..5000, mps in 0u8..6) {
        let data: Vec<u8> = (0..len).map(|n| (n % 250) as u8 + 1).collect();
        let mps = Mps::from_encoding(mps).unwrap();
        let mut requester = Requester::new(RequesterSettings { mps, ..settings() });
        requester.write(address, len, 0).unwrap();
        let mut memory = vec![0; 12_000];
        for mwr in send_all(&mut requester, US(0), &Buffer(data.clone())) {
            let parsed = Repr::parse(&mwr).unwrap();
            let Body::Memory(m) = parsed.repr.body else { panic!("no MWr") };
            prop_assert!(m.span.length_dw() * 4 <= mps.bytes());
            let lanes = &mwr[parsed.data][parsed.repr.data_lanes()];
            let first = m.span.first_byte() as usize;
            memory[first..first + lanes.len()].copy_from_slice(lanes);
        }
        prop_assert_eq!(&memory[address as usize..][..len as usize], &data[..]);
        prop_assert_eq!(memory.iter().filter(|byte| **byte != 0).count(), data.len());
    }

    // The fast path and the general parser agree.
    #[test]
    fn fast_path_reads_completions_like_the_parser(
        first in prop_oneof![Just(0x0au8), Just(0x4a), any::<u8>()], rest in prop::collection::vec(any::<u8>(), 0..80),
        dws in 0u8..18, fit: bool,
    ) {
        let mut bytes = [&[first], &rest[..]].concat();
        if fit && bytes.len() >= 12 {
            bytes[2] &= 0x7c;
            bytes[3] = dws;
            bytes.resize(12 + if first & 0x40 == 0 { 0 } else { usize::from(dws) * 4 }, 0x5a);
        }
        let read = answer::read(&bytes);
        match Repr::parse(&bytes).map(|parsed| (parsed.repr.body, parsed)) {
            Err(error) => prop_assert_eq!(read, Read::Malformed(error.on_a_link())),
            Ok((Body::Completion(c), _)) if c.locked => prop_assert_eq!(read, Read::Locked),
            Ok((Body::Completion(c), parsed)) => {
                let Read::Completion(answer) = read else { panic!("{read:?}") };
                prop_assert_eq!(answer.completion, c);
                prop_assert_eq!(answer.poisoned, parsed.repr.ep);
                prop_assert_eq!(answer.data, c.length_dw.map(|_| &bytes[parsed.data]));
            }
            Ok(_) => prop_assert_eq!(read, Read::Request),
        }
    }

    // No input causes a panic, and only bytes of the read are written.
    #[test]
    fn any_datagrams_change_only_bytes_of_the_read(datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..50)) {
        let (mut requester, mut buffer) = reading();
        for datagram in &datagrams {
            requester.handle(US(1), datagram, &mut buffer);
        }
        let counted = requester.counters().strays.total() + requester.counters().completions;
        prop_assert!(counted <= datagrams.len() as u64);
    }
}
