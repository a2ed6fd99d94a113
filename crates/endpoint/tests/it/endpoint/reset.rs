// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resets: outstanding transactions are void, stale completions never arrive, tags stay out of use.

use crate::endpoint::harness::*;
use device::*;
use riser_endpoint::*;
use tlp::*;

fn function_level_reset(bench: &mut Bench) {
    bench.handle(cfg(Access::Write, EP, DEVICE_CONTROL, 0b0011, &[0x30, 0xa9]));
}

fn set_up_again(bench: &mut Bench) {
    bench.write_config(0, COMMAND, 0x6);
    bench.write_config(0, 4, BAR0 as u32);
    bench.write_config(0, 5, (BAR0 >> 32) as u32);
}

fn was_reset(bench: &Bench) -> bool {
    bench.probe().take_inputs().iter().any(|i| matches!(i, Input::Reset(ResetKind::FunctionLevel)))
}

#[test]
fn flr_voids_outstanding_requests_and_keeps_tags_out_of_use() {
    let mut bench = Bench::new(EndpointLimits { max_outstanding_reads: 4, ..EndpointLimits::default() });
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 4096));
    bench.probe().push(Class::Posted, write(0x2000, Data::Counted(512)));
    let asked = bench.poll_all(Class::NonPosted);
    assert!(bench.poll(Class::Posted).is_some());
    bench.handle(mrd(3, BAR0, 4));
    let token = bench.probe().tokens()[0];

    function_level_reset(&mut bench);
    let c = completion(&bench.poll(Class::Completion).unwrap());
    assert_eq!(c.status, Status::Success, "the configuration write itself is answered");
    assert!(was_reset(&bench) && bench.poll(Class::Posted).is_none(), "the rest of the write is void");
    assert_eq!(
        (bench.config(COMMAND) & 0xffff, bench.config(DEVICE_CONTROL) & 0xe0),
        (0, 0x20),
        "MPS is kept"
    );
    assert_eq!(bench.endpoint.function_id(0), Some(EP));

    set_up_again(&mut bench);
    bench.probe().push(Class::NonPosted, read(1, 0x8000, 512));
    assert!(bench.poll(Class::NonPosted).is_none(), "all four tags wait for their completions");
    bench.probe().push(Class::Completion, Output::Complete { token, result: Ok(Data::Counted(4)) });
    assert!(bench.poll(Class::Completion).is_none(), "a token of the former life");
    assert_eq!(bench.endpoint.counters().stale_tokens, 1);

    answer(&asked[2]).into_iter().for_each(|c| bench.handle(c));
    assert!(bench.probe().done().is_empty(), "swallowed");
    let again = bench.poll(Class::NonPosted).unwrap();
    assert_eq!(request(&again).tag, request(&asked[2]).tag);
    for tlp in [&asked[0], &again, &asked[1]] {
        answer(tlp).into_iter().for_each(|c| bench.handle(c));
    }
    let expected: Vec<u8> = (0..512).map(|i| byte_at(0x8000 + i)).collect();
    assert_eq!(bench.probe().done()[0].1.as_ref().unwrap().bytes(), Some(&expected[..]));
    let counters = bench.endpoint.counters();
    assert_eq!((counters.swallowed_completions, counters.unexpected_completions), (6, 0));
    assert_eq!(bench.endpoint.tags(0), Some((1, 4)));
}

#[test]
fn tags_of_lost_completions_are_free_after_the_timeout() {
    let limits = EndpointLimits { completion_timeout: Duration::from_us(50), ..EndpointLimits::default() };
    let mut bench = Bench::new(limits);
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 4096));
    bench.poll_all(Class::NonPosted);
    function_level_reset(&mut bench);
    bench.probe().take_inputs();
    bench.advance(us(99));
    assert_eq!(bench.endpoint.tags(0), Some((8, 256)));
    bench.advance(us(100));
    assert_eq!(bench.endpoint.tags(0), Some((0, 256)));
    assert!(bench.probe().done().is_empty());
    assert_eq!(bench.endpoint.counters().completion_timeouts, 0, "none waited for them");
}

#[test]
fn flr_returns_credits_of_unaccepted_requests() {
    let mut bench = Bench::with_functions(EndpointLimits::default(), 2);
    bench.probes.iter().for_each(|p| p.0.borrow_mut().takes = false);
    bench.handle(mwr(BAR0, &[0; 64]));
    bench.handle(mrd(1, BAR0, 4));
    bench.handle(mwr(BAR0 + 0x1_0000, &[0; 64]));
    assert_eq!(bench.credits(), [(0, 0); 3]);
    function_level_reset(&mut bench);
    let other = bench.probes[1].tokens();
    // The write to Device Control is the second non-posted one.
    assert_eq!(bench.credits(), [(1, 4), (2, 1), (0, 0)]);
    bench.probes[1].take(other);
    assert_eq!(bench.credits(), [(1, 4), (0, 0), (0, 0)], "function 1 is as it was");
}

/// Transactions Pending, read by a configuration request.
fn pending(bench: &mut Bench) -> u8 {
    bench.handle(cfg(Access::Read, EP, DEVICE_CONTROL, 0xf, &[]));
    bench.poll(Class::Completion).unwrap().data.bytes().unwrap()[2] >> 5 & 1
}

#[test]
fn transactions_pending_is_set_until_all_completions_arrive() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().push(Class::NonPosted, read(1, 0x1000, 64));
    bench.probe().push(Class::NonPosted, read(2, 0x2000, 1024));
    let asked = bench.poll_all(Class::NonPosted);
    assert_eq!(pending(&mut bench), 1);
    answer(&asked[0]).into_iter().for_each(|c| bench.handle(c));
    bench.handle(refuse(&asked[1], Status::CompleterAbort));
    assert_eq!(bench.probe().done().len(), 2, "the second read has failed");
    assert_eq!(pending(&mut bench), 1, "but its second request is not completed");
    answer(&asked[2]).into_iter().for_each(|c| bench.handle(c));
    assert_eq!(pending(&mut bench), 0);
}

/// `PCIe 5.0 §7.5.3.5`: requests that the completion timeout has terminated are not pending, although their tags are
/// quarantined; §6.6.2: a Function Level Reset clears the bit, although completions may still arrive.
#[test]
fn timeout_and_flr_clear_transactions_pending() {
    let limits = EndpointLimits { completion_timeout: Duration::from_us(50), ..EndpointLimits::default() };
    for reset in [false, true] {
        let mut bench = Bench::new(limits);
        bench.probe().push(Class::NonPosted, read(1, 0x1000, 4096));
        bench.poll_all(Class::NonPosted);
        assert_eq!(pending(&mut bench), 1);
        if reset {
            function_level_reset(&mut bench);
            bench.poll(Class::Completion).unwrap();
        } else {
            bench.advance(us(50));
        }
        assert_eq!(pending(&mut bench), 0, "reset: {reset}");
        assert_eq!(bench.endpoint.tags(0), Some((8, 256)), "reset: {reset}: no completion has arrived");
    }
}

#[test]
fn hot_reset_clears_the_id_and_restarts_the_device() {
    let mut bench = Bench::new(EndpointLimits::default());
    bench.probe().0.borrow_mut().takes = false;
    bench.handle(mwr(BAR0, &[0; 64]));
    bench.handle(mrd(1, 0x1000, 4));
    let token = bench.probe().tokens()[0];
    bench.endpoint.reset(Time::ZERO, ResetKind::Hot);
    let inputs = bench.probe().take_inputs();
    assert!(matches!(inputs[..], [Input::Reset(ResetKind::Hot)]));
    assert!(bench.poll(Class::Completion).is_none());
    assert_eq!(bench.endpoint.function_id(0), Some(Bdf::from_bits(0)));
    bench.probe().0.borrow_mut().taken.push_back(token);
    assert_eq!(bench.credits(), [(0, 0); 3], "the link has all credits again");
    assert_eq!(bench.config(4), 0x4);
    bench.write_config(0, 4, BAR0 as u32);
    bench.write_config(0, 5, (BAR0 >> 32) as u32);
    bench.write_config(0, COMMAND, 0x6);
    bench.handle(mwr(BAR0, &[0; 64]));
    assert_ne!(bench.probe().tokens(), [token], "an old token names nothing new");
}
