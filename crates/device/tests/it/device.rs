// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of the seam, tested with `async` devices.

use crate::rig::{Event, Rig};
use futures::FutureExt;
use riser_device::io::{DmaOptions, Either, MAX_CALLS, MAX_OPEN_READS, MAX_OUTPUTS, MAX_TASKS, Request};
use riser_device::io::{join, join_array, select};
use riser_device::{AsyncDevice, BarIndex, CompletionError, DmaError, Io, Ready, RequestOp};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::{Attributes, Class, Data, Duration, Span, Time, TrafficClass};

const BAR: BarIndex = BarIndex(0);

/// Answers register reads with 7. A write to offset 0x10 starts a DMA read of the written address.
async fn registers(io: Io) {
    while let Some(request) = io.next_request().await {
        match request {
            Request::Write(w) if w.at(BAR, 0x10) => {
                let io = io.clone();
                io.clone().spawn(async move { io.dma_read(w.u64(), 8).await });
            }
            Request::Read(r) => r.complete(7u32),
            _ => {}
        }
    }
}

#[test]
fn a_register_read_is_answered_while_a_dma_waits() {
    let mut rig = Rig::new(AsyncDevice::new(registers));
    rig.open[Class::NonPosted.index()] = false;
    rig.write(0x10, &0x8000u64.to_le_bytes());
    rig.read(0, 4);
    let seven = rig.carried(&[7, 0, 0, 0]);
    assert_eq!(rig.take_log(), [Event::Taken(0), Event::Taken(1), Event::Complete(1, Ok(seven.clone()))]);

    rig.open = [true; 3];
    rig.poll_all();
    assert_eq!(rig.take_log(), [Event::Read(0x8000, 8)]);
    rig.read(0, 4);
    assert_eq!(
        rig.take_log(),
        [Event::Taken(2), Event::Complete(2, Ok(seven))],
        "the read is still under way"
    );
}

#[test]
fn a_stalled_class_does_not_block_the_others() {
    for stalled in Class::ALL {
        let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
            let device = io.clone();
            io.spawn(async move { device.dma_read(0x1000, 4).await });
            let device = io.clone();
            io.spawn(async move { device.interrupt(3).await });
            registers(io).await;
        }));
        rig.open[stalled.index()] = false;
        rig.read(0, 4);
        let seen = rig.take_log();
        let has = |f: fn(&Event) -> bool| seen.iter().any(f);
        assert_eq!(has(|e| matches!(e, Event::Interrupt(3))), stalled != Class::Posted, "{stalled:?}");
        assert_eq!(has(|e| matches!(e, Event::Read(0x1000, 4))), stalled != Class::NonPosted, "{stalled:?}");
        assert_eq!(has(|e| matches!(e, Event::Complete(0, _))), stalled != Class::Completion, "{stalled:?}");
    }
}

#[test]
fn request_is_taken_by_program_not_at_arrival() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        loop {
            io.sleep(Duration::from_ps(100)).await;
            let _ = io.next_request().await;
        }
    }));
    for _ in 0..3 {
        rig.write(0, &[0; 4]);
    }
    assert_eq!(rig.take_log(), []);
    for n in 0..3u32 {
        rig.run_to(u64::from(n) * 100 + 150);
        assert_eq!(rig.take_log(), [Event::Taken(n)]);
    }
}

#[test]
fn writes_and_interrupts_leave_in_program_order() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        // All three are issued before the first is accepted.
        let (a, (b, c)) = join(io.dma_write(0x100, [1u8]), join(io.interrupt(1), io.message(0x7e, []))).await;
        assert_eq!((a, b, c), (Ok(()), Ok(()), Ok(())));
        io.dma_write(0x200, 0x0403_0201u32).await?;
        io.intx(true).await?;
        io.pme().await?;
        io.interrupt(2).await
    }));
    rig.open[Class::Posted.index()] = false;
    rig.poll_all();
    rig.open[Class::Posted.index()] = true;
    rig.poll_all();
    let (one, four) = (rig.carried(&[1]), rig.carried(&[1, 2, 3, 4]));
    let expected = [
        Event::Write(0x100, one),
        Event::Interrupt(1),
        Event::Message(0x7e),
        Event::Write(0x200, four),
        Event::Intx(true),
        Event::Pme,
        Event::Interrupt(2),
    ];
    assert_eq!(rig.take_log(), expected);
}

#[test]
fn task_continues_when_its_write_is_accepted() {
    let times = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&times);
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        let seen = Rc::clone(&seen);
        async move {
            for n in 0..3u64 {
                io.dma_write_counted(n * 64, 64).await?;
                seen.borrow_mut().push(io.now().as_ps());
            }
            Ok::<(), DmaError>(())
        }
    }));
    for ps in [500, 700, 1100] {
        rig.now = Time::from_ps(ps);
        assert!(rig.poll_one(Class::Posted));
    }
    assert_eq!(*times.borrow(), [500, 700, 1100]);
    assert!(!rig.poll_one(Class::Posted));
}

#[test]
fn announces_output_of_other_class_after_poll() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        io.dma_write_counted(0, 64).await?;
        io.dma_read(0, 64).await
    }));
    assert!(!rig.poll_one(Class::NonPosted));
    rig.now = Time::from_ps(40);
    assert!(rig.poll_one(Class::Posted));
    assert_eq!(rig.device.poll_timeout(), Some(rig.now), "there is a read now, which nobody has asked for");
    rig.device.handle(rig.now, riser_device::Input::Timer);
    assert_eq!(rig.device.poll_timeout(), None, "whether it has room or not");
    assert!(rig.poll_one(Class::NonPosted));
}

#[test]
fn dma_results_reach_their_futures_in_any_order() {
    let results = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&results);
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        let sink = Rc::clone(&sink);
        async move {
            let reads = [0x10, 0x20, 0x30].map(|address| io.dma_read(address, 2));
            let outcomes = join_array(reads).await;
            sink.borrow_mut().extend(outcomes.map(|result| result.map(|bytes| bytes.to_vec())));
        }
    }));
    rig.poll_all();
    rig.answer(2);
    let second = rig.reads.remove(1).id;
    rig.done(second, Err(DmaError::CompletionTimeout));
    assert!(results.borrow().is_empty());
    rig.answer(0);
    let expected = [Ok(vec![0x10, 0x11]), Err(DmaError::CompletionTimeout), Ok(vec![0x30, 0x31])];
    assert_eq!(*results.borrow(), expected);
}

#[test]
fn options_and_counting_reach_the_endpoint() {
    let tc = TrafficClass::new(5).unwrap();
    let options = DmaOptions::tc(tc).with_attr(Attributes::RELAXED_ORDERING);
    let given = options.clone();
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        let options = given.clone();
        async move {
            io.dma_write_with(8, Data::Counted(3), options.clone()).await?;
            io.dma_read_with(16, 4, options.clone()).await?;
            io.dma_read_counted(32, 5).await?;
            let data = io.dma_read_data(64, 6, false, options).await?;
            io.dma_write(0, u64::from(data == Data::Counted(6))).await
        }
    }));
    rig.poll_all();
    let write = rig.last_write.take().unwrap();
    assert_eq!((write.options, write.data), (options.clone(), Data::Counted(3)));
    let expected = [(16, true, options.clone()), (32, false, DmaOptions::default()), (64, false, options)];
    for (address, carry, options) in expected {
        let read = &rig.reads[0];
        assert_eq!((read.address, read.carry, &read.options), (address, carry, &options));
        rig.answer(0);
    }
    assert_eq!(rig.last_write.take().unwrap().data, rig.carried(&1u64.to_le_bytes()));
}

#[test]
fn rejects_counted_answer_to_carried_read() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let result = io.dma_read(0, 4).await;
        io.interrupt(u16::from(result == Err(DmaError::Malformed))).await
    }));
    rig.poll_all();
    let id = rig.reads.remove(0).id;
    rig.done(id, Ok(Data::Counted(4)));
    assert_eq!(rig.take_log(), [Event::Read(0, 4), Event::Interrupt(1)]);
}

#[test]
fn dropped_future_withdraws_unaccepted_operations_and_abandons_others() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let late = select(io.dma_read(0x10, 4), io.sleep(Duration::from_ps(100))).await;
        assert!(matches!(late, Either::Right(())));
        let late = select(io.dma_write(0x20, [0u8; 4]), io.sleep(Duration::from_ps(100))).await;
        assert!(matches!(late, Either::Right(())));
        let answer = io.dma_read(0x30, 4).await?;
        io.interrupt(answer[0].into()).await
    }));
    rig.open = [false, true, true];
    rig.run_to(250);
    assert_eq!(rig.take_log(), [Event::Read(0x10, 4), Event::Read(0x30, 4)]);
    // The first read's result arrives late. The result must not reach the second read, and must not release the ID of
    // that read.
    rig.open = [true; 3];
    assert_ne!(rig.reads[0].id, rig.reads[1].id);
    rig.answer(0);
    assert_eq!(rig.take_log(), []);
    rig.answer(0);
    assert_eq!(rig.take_log(), [Event::Interrupt(0x30)]);
}

#[test]
fn read_dropped_before_acceptance_never_leaves() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let _ = select(io.dma_read(0x10, 4), io.sleep(Duration::from_ps(100))).await;
        io.dma_read(0x20, 4).await
    }));
    rig.open[Class::NonPosted.index()] = false;
    rig.run_to(150);
    rig.open[Class::NonPosted.index()] = true;
    rig.poll_all();
    assert_eq!(rig.take_log(), [Event::Read(0x20, 4)]);
}

#[test]
fn reset_restarts_device_and_drops_late_results() {
    let lives = Rc::new(Cell::new(0));
    let counter = Rc::clone(&lives);
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        counter.set(counter.get() + 1);
        let life = counter.get();
        async move {
            let bytes = io.dma_read(0x100 * life, 1).await?;
            io.interrupt(bytes[0].into()).await
        }
    }));
    rig.poll_all();
    let first = rig.reads.remove(0).id;
    rig.reset();
    assert_eq!(rig.take_log(), [Event::Read(0x100, 1), Event::Read(0x200, 1)]);
    let second = rig.reads.remove(0).id;
    let (stale, fresh) = (rig.carried(&[1]), rig.carried(&[2]));
    rig.done(first, Ok(stale));
    assert_eq!(rig.take_log(), [], "the result of the first life");
    rig.done(second, Ok(fresh));
    assert_eq!(rig.take_log(), [Event::Interrupt(2)]);
    assert_eq!(lives.get(), 2);
}

#[test]
fn reset_voids_queued_outputs_untaken_requests_and_tasks() {
    let dropped = Rc::new(Cell::new(0));
    let counter = Rc::clone(&dropped);
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        let guard = Rc::clone(&counter);
        async move {
            let _guard = scopeguard(move || guard.set(guard.get() + 1));
            let device = io.clone();
            io.spawn(async move { device.dma_read(1, 1).await });
            let _ = io.dma_write(2, [2u8]).await;
        }
    }));
    rig.open = [false; 3];
    rig.read(0, 4);
    rig.reset();
    assert_eq!(dropped.get(), 1);
    rig.open = [true; 3];
    rig.poll_all();
    let two = rig.carried(&[2]);
    assert_eq!(rig.take_log(), [Event::Write(2, two), Event::Read(1, 1)], "once each, from the second life");
    drop(rig);
    assert_eq!(dropped.get(), 2, "the device's end drops its tasks");
}

struct Guard<F: FnMut()>(F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn scopeguard<F: FnMut()>(f: F) -> Guard<F> {
    Guard(f)
}

#[test]
fn handles_from_before_a_reset_do_nothing() {
    let kept = Rc::new(RefCell::new(None));
    let keep = Rc::clone(&kept);
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        let old = keep.borrow_mut().replace(io.clone());
        async move {
            let Some(old) = old else { return };
            assert!(old.next_request().await.is_none());
            let _ = select(old.interrupt(9), io.sleep(Duration::from_ps(10))).await;
            assert!(old.spawn(async {}).await.is_err());
            let _ = io.interrupt(1).await;
        }
    }));
    rig.poll_all();
    rig.reset();
    rig.run_to(20);
    assert_eq!(rig.take_log(), [Event::Interrupt(1)]);
}

#[test]
fn answers_are_fitted_to_requested_length() {
    // Offset, bytes, answer on the wire; the register at 0 is 0x44332211, the QW at 8 is 0x8877665544332211.
    let rows: [(u64, u32, &[u8]); 7] = [
        (0, 4, &[0x11, 0x22, 0x33, 0x44]),
        (1, 2, &[0x22, 0x33]),
        (3, 1, &[0x44]),
        (0, 8, &[0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0]),
        (12, 4, &[0x55, 0x66, 0x77, 0x88]),
        (16, 2, b"ab"),
        (16, 5, b"abc\0\0"),
    ];
    for (offset, len, bytes) in rows {
        let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
            let Some(Request::Read(r)) = io.next_request().await else { return };
            match r.offset() {
                0..8 => r.complete(0x4433_2211u32),
                8..16 => r.complete(0x8877_6655_4433_2211u64),
                _ => r.complete(b"abc"),
            }
        }));
        rig.read(offset, len);
        let answer = rig.carried(bytes);
        assert_eq!(rig.take_log()[1], Event::Complete(0, Ok(answer)), "{len} bytes at {offset}");
    }
}

#[test]
fn reads_may_be_refused_counted_or_lost() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let mut n = 0;
        while let Some(Request::Read(r)) = io.next_request().await {
            match n {
                0 => r.fail(CompletionError::CompleterAbort),
                1 => r.complete_counted(),
                2 => r.complete(Err::<u32, _>(CompletionError::UnsupportedRequest)),
                _ => drop(r),
            }
            n += 1;
        }
    }));
    for len in 1..=4 {
        rig.read(0, len);
    }
    let answers: Vec<Event> = rig.take_log().into_iter().filter(|e| !matches!(e, Event::Taken(_))).collect();
    let expected = [
        Event::Complete(0, Err(CompletionError::CompleterAbort)),
        Event::Complete(1, Ok(Data::Counted(2))),
        Event::Complete(2, Err(CompletionError::UnsupportedRequest)),
    ];
    assert_eq!(answers, expected, "the fourth token is lost: a completion timeout at the requester");
}

#[test]
fn writes_change_only_enabled_bytes() {
    // First BE, last BE, DWs, offset of the first enabled byte, data, result for eight bytes of 0xee; PCIe 5.0 §2.2.5.
    type Row = (u8, u8, u32, u64, &'static [u8], [u8; 8], bool);
    let e = 0xee;
    let rows: [Row; 6] = [
        (0b1111, 0, 1, 0, &[1, 2, 3, 4], [1, 2, 3, 4, e, e, e, e], true),
        (0b0101, 0, 1, 0, &[1, 9, 3], [1, e, 3, e, e, e, e, e], true),
        (0b1000, 0b0001, 2, 3, &[1, 2], [e, e, e, 1, 2, e, e, e], true),
        (0b1001, 0b1010, 2, 0, &[1, 9, 9, 4, 9, 6, 9, 8], [1, e, e, 4, e, 6, e, 8], true),
        (0b0000, 0, 1, 0, &[9], [e; 8], true),
        (0b1111, 0, 1, 6, &[1, 2, 3, 4], [e, e, e, e, e, e, 1, 2], false),
    ];
    for (first, last, dw, offset, bytes, expected, whole) in rows {
        let span = Span::from_fields(0x1000, dw, first, last).unwrap();
        let result = Rc::new(Cell::new(None));
        let sink = Rc::clone(&result);
        let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
            let sink = Rc::clone(&sink);
            async move {
                let Some(Request::Write(w)) = io.next_request().await else { return };
                let mut file = [0xee; 8];
                let all = w.apply(&mut file);
                sink.set(Some((file, all)));
            }
        }));
        let data = rig.carried(bytes);
        rig.request(RequestOp::Write { bar: BAR, offset, span, data });
        assert_eq!(result.get(), Some((expected, whole)), "BE {first:04b} {last:04b} at {offset}");
    }
}

#[test]
fn reads_are_held_back_at_the_limit_and_writes_pass_them() {
    let mut rig = Rig::new(AsyncDevice::new(registers));
    rig.open[Class::Completion.index()] = false;
    for _ in 0..MAX_OPEN_READS + 2 {
        rig.read(0, 4);
    }
    assert_eq!(rig.take_log().len(), MAX_OPEN_READS, "the last two were not taken");
    let write = rig.write(0, &[0; 4]);
    assert_eq!(rig.take_log(), [Event::Taken(write)]);
    rig.open = [true; 3];
    rig.poll_all();
    let answered = rig.take_log().iter().filter(|e| matches!(e, Event::Complete(..))).count();
    assert_eq!(answered, MAX_OPEN_READS + 2);
}

#[test]
fn task_per_request_pushes_back_at_limit() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        while let Some(request) = io.next_request().await {
            let device = io.clone();
            io.spawn(async move {
                let _request = request;
                device.interrupt(0).await
            });
        }
    }));
    rig.open[Class::Posted.index()] = false;
    for _ in 0..MAX_TASKS + 10 {
        rig.write(0, &[0; 4]);
    }
    assert_eq!(rig.take_log().len(), MAX_TASKS - 1, "one task is the program itself");
    rig.open = [true; 3];
    rig.poll_all();
    let interrupts = rig.take_log().iter().filter(|e| matches!(e, Event::Interrupt(0))).count();
    assert_eq!(interrupts, MAX_TASKS + 10);
}

#[test]
fn writes_beyond_a_full_queue_wait_in_order() {
    let count = MAX_OUTPUTS + 500;
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| async move {
        for n in 0..count as u64 {
            let device = io.clone();
            io.spawn(async move { device.dma_write_counted(n, 1).await });
        }
    }));
    rig.open[Class::Posted.index()] = false;
    rig.poll_all();
    let line = rig.device.waits_for().unwrap();
    assert!(line.contains("1524 outputs not accepted"), "{line}");
    rig.open = [true; 3];
    rig.poll_all();
    let expected: Vec<Event> = (0..count as u64).map(|n| Event::Write(n, Data::Counted(1))).collect();
    assert_eq!(rig.take_log(), expected);
}

#[test]
fn abandoned_reads_count_until_they_end() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        for n in 0.. {
            let _ = select(io.dma_read(n, 1), io.sleep(Duration::from_ps(1))).await;
        }
    }));
    rig.run_to(MAX_CALLS as u64 + 100);
    assert_eq!(rig.take_log().len(), MAX_CALLS);
    rig.answer(7);
    assert!(matches!(rig.take_log()[..], [Event::Read(_, 1)]), "one ended, one leaves");
}

#[test]
fn dropped_request_waiter_passes_on_its_wake() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let device = io.clone();
        io.spawn(async move {
            // The first request and the timer wake it at the same time; the timer wins.
            let _ = select(device.sleep(Duration::from_ps(10)), device.next_request()).await;
        });
        let device = io.clone();
        io.spawn(async move {
            let request = device.next_request().await;
            let _ = device.interrupt(u16::from(request.is_some())).await;
        });
    }));
    rig.poll_all();
    rig.now = Time::from_ps(10);
    rig.write(0, &[0; 4]);
    assert_eq!(rig.take_log(), [Event::Taken(0), Event::Interrupt(1)]);
}

#[test]
fn combinators_of_the_futures_crate_work() {
    use futures::stream::{FuturesUnordered, StreamExt};
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let mut reads: FuturesUnordered<_> = (1..=3u64).map(|n| io.dma_read(n * 0x10, 1)).collect();
        while let Some(bytes) = reads.next().await {
            io.interrupt(bytes?[0].into()).await?;
        }
        let (a, b) = futures::join!(io.dma_read(0x40, 1), io.dma_read(0x50, 1));
        io.interrupt(u16::from(a?[0] + b?[0])).await?;
        futures::select_biased! {
            _ = io.sleep(Duration::from_ps(5)).fuse() => io.interrupt(0xaa).await,
            _ = io.dma_read(0x60, 1).fuse() => io.interrupt(0xbb).await,
        }
    }));
    rig.poll_all();
    for nth in [1, 1, 0] {
        rig.answer(nth);
    }
    rig.answer(1);
    rig.answer(0);
    rig.run_to(10);
    let log = rig.take_log();
    let interrupts = log.iter().filter_map(|e| if let Event::Interrupt(v) = e { Some(*v) } else { None });
    assert_eq!(interrupts.collect::<Vec<_>>(), [0x20, 0x30, 0x10, 0x90, 0xaa]);
}

#[test]
fn waits_for_lists_pending_operations() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let _ = io.dma_read(0, 4).await;
    }));
    rig.poll_all();
    rig.write(0, &[0; 4]);
    let expected = "1 tasks, 1 reads under way, 0 outputs not accepted, 1 requests not taken, \
                    0 reads not answered, 0 completions not accepted";
    assert_eq!(rig.device.waits_for().as_deref(), Some(expected));
}

/// `ready` announces queued outputs and outstanding reads, and nothing else.
#[test]
fn ready_reports_classes_of_pending_outputs() {
    let mut rig = Rig::new(AsyncDevice::new(async |io: Io| {
        let device = io.clone();
        io.spawn(async move { device.dma_read(0x1000, 4).await });
        registers(io).await;
    }));
    assert_eq!(rig.device.ready(), Ready::ALL, "not polled yet: tasks are ready");
    rig.open = [false; 3];
    rig.poll_all();
    assert_eq!(rig.device.ready(), Ready::output(Class::NonPosted));
    rig.read(0, 4);
    assert_eq!(rig.device.ready(), Ready::output(Class::NonPosted).or(Ready::output(Class::Completion)));
    rig.open = [true; 3];
    rig.poll_all();
    assert_eq!(rig.device.ready(), Ready::NONE);
}

/// A waker that outlives its task wakes a free slot, and later its next task. No wake of a live task is lost.
#[test]
fn waker_of_ended_task_is_harmless() {
    let kept: Rc<RefCell<Vec<Waker>>> = Rc::default();
    let keep = kept.clone();
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        let keep = keep.clone();
        async move {
            for vector in 0..3 {
                io.sleep(Duration::from_ps(10)).await;
                let (device, keep) = (io.clone(), keep.clone());
                io.spawn(async move {
                    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
                    keep.borrow_mut().push(waker);
                    device.interrupt(vector).await
                });
            }
        }
    }));
    for ps in [10, 20, 30] {
        rig.run_to(ps);
        kept.borrow().iter().for_each(Waker::wake_by_ref);
        rig.poll_all();
    }
    assert_eq!(rig.take_log(), [Event::Interrupt(0), Event::Interrupt(1), Event::Interrupt(2)]);
}

/// Tasks are polled in the order of their wakes, by events and through wakers, and once for several wakes.
#[test]
fn tasks_run_in_the_order_of_their_wakes() {
    let kept: Rc<RefCell<Vec<Waker>>> = Rc::default();
    let keep = kept.clone();
    let mut rig = Rig::new(AsyncDevice::new(move |io: Io| {
        let keep = keep.clone();
        async move {
            for vector in 0..3u16 {
                let (device, keep) = (io.clone(), keep.clone());
                io.spawn(async move {
                    let mut read = pin!(device.dma_read(u64::from(vector) * 0x100, 4));
                    let mut polls = 0;
                    poll_fn(|cx| {
                        polls += 1;
                        keep.borrow_mut().push(cx.waker().clone());
                        let _ = read.as_mut().poll(cx);
                        if polls < 2 { Poll::Pending } else { Poll::Ready(()) }
                    })
                    .await;
                    device.interrupt(vector).await
                });
            }
        }
    }));
    rig.poll_all();
    let first = kept.borrow()[2].clone();
    first.wake_by_ref();
    rig.answer(0);
    kept.borrow()[2].wake_by_ref();
    rig.answer(0);
    let interrupts: Vec<Event> =
        rig.take_log().into_iter().filter(|event| matches!(event, Event::Interrupt(_))).collect();
    assert_eq!(interrupts, [2, 0, 1].map(Event::Interrupt));
    assert_eq!(kept.borrow().len(), 6, "each was polled twice");
}
