// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arriving requests: configuration, BAR decode, gating, unclaimed requests, answers and their splitting.

use crate::endpoint::harness::*;
use device::*;
use riser_endpoint::*;
use tlp::message::MessageCodes;
use tlp::*;

const NON_POSTED: usize = 1;

#[test]
fn configuration_requests_read_registers_and_set_the_id() {
    let mut bench = Bench::raw(EndpointLimits::default(), 1);
    bench.handle(cfg(Access::Read, EP, 0, 0xf, &[]));
    let tlp = bench.poll(Class::Completion).unwrap();
    let c = completion(&tlp);
    assert_eq!(tlp.data.bytes(), Some(&[0x34, 0x12, 0x01, 0x00][..]));
    assert_eq!((c.completer.bits(), c.byte_count, c.lower_address, c.length_dw), (0, 4, 0, Some(1)));
    // Command, byte enables 0001: one byte of data.
    bench.handle(cfg(Access::Write, EP, COMMAND, 0b0001, &[0x06]));
    // BAR 2, bytes 3:2 only; the data begin at the first enabled byte.
    bench.handle(cfg(Access::Write, EP, 6, 0b1100, &[0x00, 0xf0]));
    for _ in 0..2 {
        let c = completion(&bench.poll(Class::Completion).unwrap());
        assert_eq!((c.completer, c.status, c.length_dw), (EP, Status::Success, None));
    }
    assert_eq!((bench.config(COMMAND) & 0xffff, bench.config(6)), (6, 0xf000_0000));
    assert_eq!(bench.credits()[NON_POSTED], (3, 2));
    assert_eq!(bench.endpoint.function_id(0), Some(EP));
}

/// Requests that reach no device: TLP, status of the completion.
#[test]
fn unclaimed_requests_are_unsupported() {
    let other = Bdf::from_bits(EP.bits() | 5);
    let type1 = |mut tlp: Tlp| {
        if let Body::Config(c) = &mut tlp.repr.body {
            c.kind = ConfigKind::Type1;
        }
        tlp
    };
    let poisoned = |mut tlp: Tlp| {
        tlp.repr.ep = true;
        tlp
    };
    let counted = |mut tlp: Tlp| {
        tlp.data = Data::Counted(4);
        tlp
    };
    let ur = Status::UnsupportedRequest;
    let rows = [
        (mrd(1, 0x1000, 4), ur),
        (mrd(1, BAR0 - 4, 4), ur),
        (mrd(1, BAR0 + 0x1_0000, 4), ur),
        (cfg(Access::Read, other, 0, 0xf, &[]), ur),
        (type1(cfg(Access::Read, EP, 0, 0xf, &[])), ur),
        (poisoned(cfg(Access::Write, EP, 1, 0xf, &[7, 0, 0, 0])), ur),
        (counted(cfg(Access::Write, EP, 1, 0xf, &[7, 0, 0, 0])), Status::CompleterAbort),
    ];
    for (tlp, status) in rows {
        let mut bench = Bench::new(EndpointLimits::default());
        let before = bench.config(COMMAND) & 0xffff;
        bench.handle(tlp.clone());
        let c = completion(&bench.poll(Class::Completion).unwrap());
        assert_eq!((c.status, c.length_dw, c.requester), (status, None, HOST), "{tlp:?}");
        assert_eq!(bench.credits()[NON_POSTED].0, 1, "{tlp:?}");
        assert!(bench.probe().take_inputs().is_empty());
        assert_eq!(bench.config(COMMAND) & 0xffff, before);
    }
}

#[test]
fn memory_enable_gates_requests_and_posted_refusals_are_counted() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, COMMAND, 0x4);
    bench.handle(mrd(1, BAR0, 4));
    bench.handle(mwr(BAR0, &[1, 2, 3, 4]));
    assert_eq!(completion(&bench.poll(Class::Completion).unwrap()).status, Status::UnsupportedRequest);
    let counters = bench.endpoint.counters();
    assert_eq!((counters.unsupported_requests, counters.unsupported_posted), (1, 1));
    assert_eq!(bench.config(AER_STATUS), 1 << 20);
    assert_eq!(bench.credits(), [(1, 1), (1, 0), (0, 0)], "dropped, not kept");
    bench.write_config(0, COMMAND, 0x6);
    bench.handle(mwr(BAR0, &[1, 2, 3, 4]));
    assert_eq!(bench.probe().tokens().len(), 1);
}

#[test]
fn malformed_and_poisoned_writes_are_dropped_and_logged() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.handle(mwr(BAR0, &[0; 260])); // MPS is 256
    let mut short = mwr(BAR0, &[0; 8]);
    short.data = Data::Counted(7);
    bench.handle(short);
    let mut poisoned = mwr(BAR0, &[0; 8]);
    poisoned.repr.ep = true;
    bench.handle(poisoned);
    let counters = bench.endpoint.counters();
    assert_eq!((counters.malformed, counters.poisoned_requests, counters.requests), (2, 1, 0));
    assert_eq!(bench.config(AER_STATUS), 1 << 18 | 1 << 12);
    assert_eq!(bench.credits()[0], (3, 17 + 1 + 1));
}

#[test]
fn errors_are_reported_by_message_if_enabled() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.write_config(0, DEVICE_CONTROL, 0x2930 | 0xe); // non-fatal, fatal, unsupported
    bench.handle(mwr(0x1000, &[0; 4]));
    bench.handle(mwr(BAR0, &[0; 260]));
    let codes: Vec<u8> = bench
        .poll_all(Class::Posted)
        .iter()
        .map(|t| match t.repr.body {
            Body::Message(m) => m.code,
            _ => 0,
        })
        .collect();
    assert_eq!(codes, [0x31, 0x33], "ERR_NONFATAL, ERR_FATAL");
}

#[test]
fn requests_reach_the_device_with_bar_and_offset() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.handle(mwr(BAR0 + 0x13, &[1, 2, 3]));
    bench.handle(mrd(1, BAR2 + 0xa01, 2));
    let inputs = bench.probe().take_inputs();
    let ops: Vec<RequestOp> = inputs
        .into_iter()
        .filter_map(|i| if let Input::Request(r) = i { Some(r.op) } else { None })
        .collect();
    match &ops[..] {
        [
            RequestOp::Write { bar: BarIndex(0), offset: 0x13, span, data },
            RequestOp::Read { bar: BarIndex(2), offset: 0xa01, .. },
        ] => {
            assert_eq!((span.byte_count(), data.bytes()), (3, Some(&[1, 2, 3][..])));
        }
        other => panic!("{other:?}"),
    }
}

/// Address, length, MPS encoding, RCB: bytes of each completion.
#[test]
fn answers_are_split_at_mps_and_rcb() {
    let rows: [(u64, u32, u32, u32, &[u32]); 6] = [
        (0x0, 512, 1, 128, &[256, 256]),
        (0x20, 512, 1, 64, &[224, 256, 32]),
        (0x40, 300, 1, 128, &[192, 108]),
        (0x3, 1, 0, 64, &[1]),
        (0x7d, 7, 0, 64, &[7]),
        (0x1, 4095, 5, 64, &[4095]),
    ];
    for (offset, len, mps, rcb, pieces) in rows {
        let limits = EndpointLimits { rcb: Rcb::new(rcb).unwrap(), ..EndpointLimits::default() };
        let mut bench = Bench::new(limits);
        bench.write_config(0, DEVICE_CONTROL, 0x2910 | mps << 5);
        bench.handle(mrd(77, BAR0 + offset, len));
        let token = bench.probe().tokens()[0];
        let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let data = Data::Carried(bench.pool.copy(&bytes));
        bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(data) });
        let tlps = bench.poll_all(Class::Completion);
        let mut at = 0;
        for (tlp, &piece) in tlps.iter().zip(pieces) {
            let c = completion(tlp);
            assert_eq!(tlp.data.bytes(), Some(&bytes[at as usize..(at + piece) as usize]));
            assert_eq!((u32::from(c.byte_count), c.tag.bits(), c.completer), (len - at, 77, EP));
            assert_eq!(u64::from(c.lower_address), (offset + u64::from(at)) & 0x7f);
            assert_eq!(u32::from(c.length_dw.unwrap()), ((offset as u32 + at) % 4 + piece).div_ceil(4));
            at += piece;
        }
        assert_eq!((tlps.len(), at), (pieces.len(), len), "{offset:#x} {len} {mps} {rcb}");
    }
}

#[test]
fn zero_length_read_gets_one_meaningless_byte() {
    let mut bench = Bench::new(EndpointLimits::default());
    let mut tlp = mrd(1, BAR0 + 8, 4);
    if let Body::Memory(m) = &mut tlp.repr.body {
        m.span = Span::zero_length(BAR0 + 8);
    }
    bench.handle(tlp);
    let token = bench.probe().tokens()[0];
    bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::NONE) });
    let c = completion(&bench.poll(Class::Completion).unwrap());
    assert_eq!((c.byte_count, c.lower_address, c.length_dw), (1, 8, Some(1)));
}

#[test]
fn token_is_answered_once_with_the_right_length() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.handle(mrd(1, BAR0, 4));
    bench.handle(mrd(2, BAR0, 4));
    bench.handle(mrd(3, BAR0, 4));
    let tokens = bench.probe().tokens();
    assert_eq!(bench.credits()[NON_POSTED], (3, 0));
    let mut complete = |token, result| {
        bench.probe().push(Class::Completion, Output::Complete { token, result });
        bench.poll(Class::Completion).map(|t| completion(&t).status)
    };
    assert_eq!(complete(tokens[0], Ok(Data::Counted(4))), Some(Status::Success));
    assert_eq!(complete(tokens[0], Ok(Data::Counted(4))), None, "twice");
    assert_eq!(complete(Token(0xdead_0007), Ok(Data::Counted(4))), None, "unknown");
    assert_eq!(complete(tokens[1], Ok(Data::Counted(5))), Some(Status::CompleterAbort), "wrong length");
    let refused = Err(CompletionError::UnsupportedRequest);
    assert_eq!(complete(tokens[2], refused), Some(Status::UnsupportedRequest));
    let counters = bench.endpoint.counters();
    assert_eq!((counters.stale_tokens, counters.bad_answers), (2, 1));
}

/// Property 2 of the seam: credits return when the device takes, not before.
#[test]
fn credits_return_when_the_device_accepts_the_request() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().0.borrow_mut().takes = false;
    for i in 0..4 {
        bench.handle(mwr(BAR0 + i * 64, &[0; 64]));
    }
    bench.handle(mrd(1, BAR0, 4));
    assert_eq!(bench.credits(), [(0, 0); 3]);
    assert!(bench.endpoint.waits_for().unwrap().contains("5 requests not taken"));
    let tokens = bench.probe().tokens();
    bench.probe().take(tokens[..2].to_vec());
    assert_eq!(bench.credits(), [(2, 8), (0, 0), (0, 0)]);
    bench.probe().take(tokens[1..].to_vec());
    assert_eq!(bench.credits(), [(2, 8), (1, 0), (0, 0)]);
    assert_eq!(bench.endpoint.counters().stale_tokens, 1, "one was taken twice");
}

/// The number of requests that a device may take without answering is bounded: the credits of further reads are withheld.
#[test]
fn accepted_unanswered_reads_are_bounded() {
    let mut bench = Bench::new(EndpointLimits { max_requests: 8, ..EndpointLimits::default() });
    for tag in 0..20 {
        bench.handle(mrd(tag, BAR0, 4));
    }
    assert_eq!(bench.credits()[NON_POSTED].0, 8);
    let tokens = bench.probe().tokens();
    for &token in &tokens {
        bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    }
    assert_eq!(bench.poll_all(Class::Completion).len(), 20);
    assert_eq!(bench.credits()[NON_POSTED].0, 12);
    // The same if the endpoint answers itself and the completions cannot be sent.
    for _ in 0..20 {
        bench.handle(mrd(0, 0x1000, 4));
    }
    assert_eq!(bench.credits()[NON_POSTED].0, 8);
    assert_eq!(bench.poll_all(Class::Completion).len(), 20);
    assert_eq!(bench.credits()[NON_POSTED].0, 12);
}

/// Property 3 of the seam: if a device never answers a token, no completion is sent, and the requester times out.
#[test]
fn lost_token_is_never_answered() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.handle(mrd(1, BAR0, 4));
    assert_eq!((bench.probe().tokens().len(), bench.credits()[NON_POSTED].0), (1, 1));
    bench.advance(Time::ZERO + Duration::from_ms(1000));
    assert!(bench.poll(Class::Completion).is_none());
    assert!(bench.endpoint.waits_for().unwrap().contains("1 requests not answered"));
}

fn message(code: u8, routing: MessageRouting, id: u16) -> Tlp {
    let mut header = [0; 8];
    header[..2].copy_from_slice(&id.to_be_bytes());
    let tag = Tag::default();
    // Set_Slot_Power_Limit has data; the other messages here have none.
    let length_dw = (code == 0x50).then_some(1);
    let body = Message { routing, requester: HOST, tag, code, header, length_dw };
    Tlp::new(Repr::new(Body::Message(body)), Data::Counted(length_dw.map_or(0, |_| 4)))
}

#[test]
fn messages_reach_their_target_function() {
    let mut bench = Bench::with_functions(EndpointLimits::default(), 2);
    let vendor = MessageCodes::of(&[0x7e, 0x7f]);
    bench.probes.iter().for_each(|probe| probe.0.borrow_mut().messages = vendor);
    bench.handle(message(0x50, MessageRouting::Local, 0)); // Set_Slot_Power_Limit
    bench.handle(message(0x7f, MessageRouting::ById, EP.bits() | 1));
    bench.handle(message(0x7e, MessageRouting::Local, 0));
    bench.handle(message(0x19, MessageRouting::Broadcast, 0)); // PME_Turn_Off
    bench.handle(message(0x00, MessageRouting::Broadcast, 0)); // Unlock, which only legacy endpoints have to do with
    bench.handle(message(0x7e, MessageRouting::ById, EP.bits() | 2));
    assert_eq!((bench.probes[0].tokens().len(), bench.probes[1].tokens().len()), (1, 1));
    let counters = bench.endpoint.counters();
    assert_eq!((counters.messages_consumed, counters.unsupported_posted), (3, 1));
    assert_eq!(bench.credits()[0], (6, 1));
    let Body::Message(ack) = bench.poll(Class::Posted).unwrap().repr.body else { panic!("PME_TO_Ack") };
    assert_eq!((ack.code, ack.routing, ack.requester), (0x1b, MessageRouting::Gathered, EP));
}

/// A message that no function takes is an Unsupported Request and ERR_NONFATAL (`PCIe 5.0 §2.3.1`), except messages
/// that every receiver may ignore (§2.2.8.6, §2.2.8.7) and messages that every endpoint knows. A function that takes a
/// code gets every such message.
#[test]
fn messages_without_target_function_are_unsupported() {
    use MessageRouting::{Broadcast, ById, Local, ToRootComplex};
    let unsupported = [
        (0x60, Local, "an unknown code"),
        (0x60, Broadcast, "an unknown code"),
        (0x7e, Local, "Vendor_Defined Type 0"),
        (0x7e, ById, "Vendor_Defined Type 0"),
        (0x30, ToRootComplex, "ERR_COR"),
        (0x33, ToRootComplex, "ERR_FATAL"),
        (0x04, ToRootComplex, "Page_Request"),
        (0x05, ById, "PRG_Response"),
        (0x01, ById, "Invalidate_Request"),
        (0x10, Local, "LTR"),
        (0x12, Local, "OBFF"),
        (0x53, Local, "PTM_Response"),
        (0x18, ToRootComplex, "PM_PME"),
        (0x20, Local, "Assert_INTA"),
    ];
    let silent = [0x7f, 0x40, 0x41, 0x43, 0x44, 0x45, 0x47, 0x48, 0x00, 0x14, 0x50];
    let rows = unsupported.iter().map(|row| (row.0, row.1, true));
    for (code, routing, refused) in rows.chain(silent.map(|code| (code, Local, false))) {
        let mut bench = Bench::new(EndpointLimits::default());
        // Device Control: all reporting enabled, UR among it.
        bench.write_config(0, DEVICE_CONTROL, 0x293f);
        bench.handle(message(code, routing, EP.bits()));
        let sent: Vec<u8> = bench.messages().into_iter().map(|(code, _)| code).collect();
        assert_eq!(sent, Vec::from_iter(refused.then_some(0x31)), "{code:#x}");
        assert_eq!(bench.config(AER_STATUS), u32::from(refused) << 20, "{code:#x}");
        assert!(bench.probe().tokens().is_empty(), "{code:#x}");
        assert_eq!(bench.endpoint.counters().unsupported_posted, u64::from(refused), "{code:#x}");
        assert_eq!(bench.credits()[0].0, 1);
        if !refused && (code & 0xf0 == 0x40 || code == 0x7f) {
            assert_eq!(bench.endpoint.counters().messages_ignored, 1, "{code:#x}");
        }
    }
    for (code, routing, _) in unsupported {
        let mut bench = Bench::new(EndpointLimits::default());
        bench.probe().0.borrow_mut().messages = MessageCodes::of(&[code]);
        bench.handle(message(code, routing, EP.bits()));
        assert_eq!((bench.probe().tokens().len(), bench.config(AER_STATUS)), (1, 0), "{code:#x}");
    }
}

#[test]
fn functions_have_their_own_ids_windows_and_registers() {
    let mut bench = Bench::with_functions(EndpointLimits::default(), 2);
    bench.write_config(1, COMMAND, 0x4);
    bench.handle(mrd(1, BAR0 + 0x1_0000, 4));
    let c = completion(&bench.poll(Class::Completion).unwrap());
    assert_eq!(c.status, Status::UnsupportedRequest, "function 1 has Memory Space off");
    bench.write_config(1, COMMAND, 0x6);
    bench.handle(mrd(1, BAR0 + 0x1_0000, 4));
    let token = bench.probes[1].tokens()[0];
    bench.probes[0].push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    assert!(bench.poll(Class::Completion).is_none(), "not function 0's to answer");
    bench.probes[1].push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    let c = completion(&bench.poll(Class::Completion).unwrap());
    assert_eq!(c.completer.bits(), EP.bits() | 1);
}
