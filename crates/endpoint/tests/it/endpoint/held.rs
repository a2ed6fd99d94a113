// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLPs of the endpoint itself, between the writes of its functions (`PCIe 5.0 §2.4.1`, entries A2a and D2a). TLPs that
//! wait for channels without room: bounded, and independent for each Traffic Class (`§2.5`).

use crate::endpoint::harness::*;
use device::*;
use riser_endpoint::*;
use tlp::*;

fn only(n: u8) -> TcSet {
    TcSet::of(TrafficClass::from_bits(n))
}

fn of_tc(n: u8, mut tlp: Tlp) -> Tlp {
    tlp.repr.tc = TrafficClass::from_bits(n);
    tlp
}

fn write_of(n: u8, address: u64, len: u32) -> Output {
    let options = DmaOptions::tc(TrafficClass::from_bits(n));
    Output::Write(DmaWrite::new(address, Data::Counted(len)).with_options(options))
}

fn few(max_requests: u16) -> Bench {
    Bench::new(EndpointLimits { max_requests, ..EndpointLimits::default() })
}

fn turn_off() -> Tlp {
    let (routing, header) = (MessageRouting::Broadcast, [0; 8]);
    let message =
        Message { routing, requester: HOST, tag: Tag::default(), code: 0x19, header, length_dw: None };
    Tlp::new(Repr::new(Body::Message(message)), Data::NONE)
}

/// Polls a class: the address of a write, the code of a message, the tag of a completion, in words.
fn next(bench: &mut Bench, class: Class, room: TcSet) -> String {
    match bench.endpoint.poll_tlp(Time::ZERO, class, room).map(|tlp| tlp.repr.body) {
        None => "-".into(),
        Some(Body::Memory(m)) => format!("MWr {:x}", m.span.first_byte()),
        Some(Body::Message(m)) => format!("Msg {:02x}", m.code),
        Some(Body::Completion(c)) => format!("Cpl {}", c.tag.bits()),
        Some(other) => format!("{other:?}"),
    }
}

fn all(bench: &mut Bench, class: Class, room: TcSet) -> Vec<String> {
    std::iter::from_fn(|| Some(next(bench, class, room)).filter(|what| what != "-")).collect()
}

/// Makes the device answer all its requests.
fn answer_all(bench: &Bench) {
    for token in bench.probe().tokens() {
        bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    }
}

fn non_posted_credits(bench: &mut Bench) -> u32 {
    bench.credits()[Class::NonPosted.index()].0
}

/// Entry D2a: reads of the MSI-X table and of configuration space flush writes, even if the endpoint itself answers
/// them.
#[test]
fn own_completions_follow_earlier_writes() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, write_of(0, 0x1000, 1024));
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1000");
    bench.handle(mrd(7, BAR2, 4));
    bench.handle(cfg(Access::Read, EP, 0, 0xf, &[]));
    bench.handle(mrd(8, 0xdead_0000, 4));
    for write in ["MWr 1100", "MWr 1200", "MWr 1300"] {
        assert_eq!(next(&mut bench, Class::Completion, TcSet::ALL), "-");
        assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), write);
    }
    assert_eq!(bench.endpoint.poll_timeout(), Some(Time::ZERO), "asks to be polled again");
    assert_eq!(all(&mut bench, Class::Completion, TcSet::ALL), ["Cpl 7", "Cpl 9", "Cpl 8"]);
}

/// A completion does not wait for a later write, or a write of another Traffic Class or function.
#[test]
fn own_completions_pass_all_other_writes() {
    let mut bench = Bench::with_functions(EndpointLimits::default(), 2);
    bench.handle(mrd(1, BAR2, 4));
    bench.probe().push(Class::Posted, write_of(0, 0x1000, 512));
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1000");
    bench.handle(mrd(2, BAR2, 4));
    bench.handle(of_tc(3, mrd(3, BAR2, 4)));
    bench.handle(mrd(4, BAR2 + 0x1000, 4));
    bench.handle(mrd(5, BAR2, 4));
    assert_eq!(all(&mut bench, Class::Completion, TcSet::ALL), ["Cpl 1", "Cpl 3", "Cpl 4"]);
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1100");
    assert_eq!(all(&mut bench, Class::Completion, TcSet::ALL), ["Cpl 2", "Cpl 5"]);
}

/// A write that ends because Bus Master Enable was cleared, or by a reset, no longer blocks other TLPs.
#[test]
fn write_that_ends_early_releases_waiting_completions() {
    for flr in [false, true] {
        let mut bench = Bench::new(EndpointLimits::default());
        bench.probe().push(Class::Posted, write_of(0, 0x1000, 512));
        assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1000");
        bench.handle(mrd(2, BAR2, 4));
        assert_eq!(next(&mut bench, Class::Completion, TcSet::ALL), "-");
        if flr {
            bench.write_config(0, DEVICE_CONTROL, 0xa930);
        } else {
            bench.write_config(0, COMMAND, 0x2);
        }
        assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "-");
        assert_eq!(bench.endpoint.poll_timeout(), Some(Time::ZERO), "asks to be polled again, FLR: {flr}");
        assert_eq!(all(&mut bench, Class::Completion, TcSet::ALL), ["Cpl 2"], "FLR: {flr}");
    }
}

/// Entry A2a: after PME_TO_Ack, no TLP of any function may follow that was accepted before it (`PCIe 5.0 §5.3.3.2.1`).
#[test]
fn own_messages_follow_earlier_writes() {
    let mut bench = Bench::with_functions(EndpointLimits::default(), 2);
    bench.write_config(0, DEVICE_CONTROL, 0x2930 | 0xe); // errors are reported
    for (f, address) in [(0, 0x1000), (1, 0x8000)] {
        bench.probes[f].push(Class::Posted, write_of(0, address, 512));
    }
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1000");
    bench.handle(mwr(0x1000, &[0; 4]));
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 8000");
    bench.handle(turn_off());
    let order = all(&mut bench, Class::Posted, TcSet::ALL);
    assert_eq!(order, ["MWr 1100", "Msg 31", "MWr 8100", "Msg 1b"]);
}

#[test]
fn own_messages_go_before_later_writes_and_other_classes() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, write_of(5, 0x1000, 512));
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1000");
    bench.handle(turn_off());
    bench.probe().push(Class::Posted, write_of(0, 0x2000, 512));
    let order = all(&mut bench, Class::Posted, TcSet::ALL);
    assert_eq!(order, ["Msg 1b", "MWr 1100", "MWr 2000", "MWr 2100"]);
}

/// Answers whose channel has no room are bounded by max_requests: no credits return until they are sent.
#[test]
fn answers_that_cannot_be_sent_are_bounded() {
    let mut bench = few(4);
    let mut back = 0;
    for tag in 0..64 {
        bench.handle(mrd(tag, BAR0, 4));
        answer_all(&bench);
        assert_eq!(next(&mut bench, Class::Completion, only(1)), "-");
        back += non_posted_credits(&mut bench);
    }
    assert_eq!(back, 4);
    assert_eq!(all(&mut bench, Class::Completion, only(0)).len(), 64);
    assert_eq!(bench.endpoint.poll_timeout(), Some(Time::ZERO), "asks to be polled again");
    assert_eq!(non_posted_credits(&mut bench), 60);
}

/// The limit also applies to a device that answers before it accepts a request.
#[test]
fn answers_to_unaccepted_requests_are_bounded() {
    let mut bench = few(4);
    bench.probe().0.borrow_mut().takes = false;
    for tag in 0..8 {
        bench.handle(mrd(tag, BAR0, 4));
    }
    let tokens = bench.probe().tokens();
    for &token in &tokens {
        bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    }
    assert_eq!(next(&mut bench, Class::Completion, only(1)), "-");
    bench.probe().0.borrow_mut().taken.extend(tokens);
    assert_eq!(non_posted_credits(&mut bench), 0, "eight wait");
    assert_eq!(all(&mut bench, Class::Completion, only(0)).len(), 8);
    assert_eq!(non_posted_credits(&mut bench), 8);
}

/// Answers that a reset of the function voids count no more.
#[test]
fn answers_void_by_reset_release_credits() {
    let mut bench = few(4);
    for tag in 0..8 {
        bench.handle(mrd(tag, BAR0, 4));
    }
    assert_eq!(non_posted_credits(&mut bench), 4);
    answer_all(&bench);
    assert_eq!(next(&mut bench, Class::Completion, only(1)), "-");
    bench.write_config(0, DEVICE_CONTROL, 0xa930);
    assert_eq!(non_posted_credits(&mut bench), 4);
    bench.write_config(0, 6, BAR2 as u32);
    bench.write_config(0, COMMAND, 0x6);
    for tag in 0..8 {
        bench.handle(mrd(tag, BAR2 + 0xa00, 4));
    }
    assert_eq!(non_posted_credits(&mut bench), 4, "none is left from before");
}

/// `PCIe 5.0 §2.5`: a blocked channel uses no credits of others, for answers of the device and of the endpoint.
#[test]
fn requests_are_counted_by_traffic_class() {
    for address in [BAR0, BAR2] {
        let mut bench = few(4);
        let mut back = [0; 2];
        for tag in 0..16 {
            let n = u8::from(tag >= 8);
            bench.handle(of_tc(n, mrd(tag, address, 4)));
            answer_all(&bench);
            let left = next(&mut bench, Class::Completion, only(1));
            assert_eq!(left != "-", n == 1, "tag {tag}: {left}");
            back[usize::from(n)] += non_posted_credits(&mut bench);
        }
        assert_eq!(back, [4, 8], "TC0 is stuck, TC1 is not; at {address:x}");
    }
}

/// A parked output is not a refusal: 90 writes have no room, then a write with room is sent.
#[test]
fn parked_outputs_are_not_refusals() {
    let mut bench = Bench::new(EndpointLimits::default());
    for n in 0..90u8 {
        bench.probe().push(Class::Posted, write_of(1 + n % 3, 0x1000 * u64::from(n), 4));
    }
    bench.probe().push(Class::Posted, write_of(0, 0xf000_0000, 4));
    assert_eq!(next(&mut bench, Class::Posted, only(0)), "MWr f0000000");
    assert_eq!(bench.endpoint.poll_timeout(), None, "no pause");
    for class in [Class::NonPosted, Class::Completion] {
        let mut bench = Bench::new(EndpointLimits::default());
        for tag in 0..90u16 {
            let n = 1 + (tag % 3) as u8;
            let options = DmaOptions::tc(TrafficClass::from_bits(n));
            let read = DmaRead::new(DmaId(0), 0x1000, 4).counted().with_options(options);
            bench.probe().push(Class::NonPosted, Output::Read(read));
            bench.handle(of_tc(n, mrd(tag, BAR0, 4)));
        }
        answer_all(&bench);
        assert_eq!(next(&mut bench, class, only(0)), "-");
        assert_eq!(bench.endpoint.poll_timeout(), None, "{class:?}: no pause");
        assert_eq!(bench.probe().0.borrow().outputs[class.index()].len(), 0, "{class:?}: all accepted");
    }
}

/// A pause for refusals delays no wake-up that has another reason.
#[test]
fn pause_does_not_delay_other_wake_ups() {
    let bad = |bench: &Bench| {
        (0..100).for_each(|_| bench.probe().push(Class::Completion, Output::Interrupt { vector: 0 }));
    };
    let mut bench = Bench::new(EndpointLimits::default());
    bad(&bench);
    assert_eq!(next(&mut bench, Class::Completion, TcSet::ALL), "-");
    assert_eq!(bench.endpoint.poll_timeout(), Some(us(1)), "64 were refused");

    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::Posted, write_of(0, 0x1000, 512));
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1000");
    bench.handle(mrd(2, BAR2, 4));
    assert_eq!(next(&mut bench, Class::Completion, TcSet::ALL), "-", "behind the write");
    assert_eq!(next(&mut bench, Class::Posted, TcSet::ALL), "MWr 1100");
    bad(&bench);
    assert_eq!(next(&mut bench, Class::Completion, only(1)), "-");
    assert_eq!(bench.endpoint.poll_timeout(), Some(Time::ZERO), "the completion may go now");
}

/// An abandoned request frees its place, and no completion is sent for it.
#[test]
fn abandoned_requests_release_their_resources() {
    let mut bench = few(1);
    for tag in 0..3 {
        bench.handle(mrd(tag, BAR0, 4));
    }
    let tokens = bench.probe().tokens();
    assert_eq!(non_posted_credits(&mut bench), 1, "two more than may be outstanding");
    for token in tokens {
        bench.probe().push(Class::Completion, Output::Abandon { token });
    }
    assert_eq!(all(&mut bench, Class::Completion, TcSet::ALL), Vec::<String>::new());
    assert_eq!(non_posted_credits(&mut bench), 2);
}
