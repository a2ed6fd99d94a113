// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A generator makes requests concurrently with its device's tasks, and gets its own results.

use crate::rig::{Event, Rig};
use riser_device::io::{Generator, generated_id};
use riser_device::{AsyncDevice, Device, DmaError, DmaRead, DmaWrite, Io, Output};
use std::cell::RefCell;
use std::rc::Rc;
use tlp::{Class, Data, Time};

/// Numbers and results of reads.
type Ended = Rc<RefCell<Vec<(u32, Result<usize, DmaError>)>>>;

/// Writes `left` times, and reads after each write. Records the numbers and results of its reads.
struct Copies {
    left: u32,
    unread: u32,
    under_way: u32,
    ended: Ended,
}

impl Generator for Copies {
    fn outputs(&self) -> u8 {
        u8::from(self.left > 0) << Class::Posted.index()
            | u8::from(self.unread > 0) << Class::NonPosted.index()
    }

    fn poll_output(&mut self, _: Time, class: Class) -> Option<Output> {
        match class {
            Class::Posted => {
                self.left = self.left.checked_sub(1)?;
                self.unread += 1;
                Some(Output::Write(DmaWrite::new(0x1000, Data::Counted(8))))
            }
            Class::NonPosted => {
                self.unread = self.unread.checked_sub(1)?;
                self.under_way += 1;
                Some(Output::Read(DmaRead::new(generated_id(self.under_way), 0x2000, 4)))
            }
            Class::Completion => None,
        }
    }

    fn handle_done(&mut self, _: Time, number: u32, result: Result<Data, DmaError>) {
        self.under_way -= 1;
        self.ended.borrow_mut().push((number, result.map(|data| data.len())));
    }

    fn is_done(&self) -> bool {
        (self.left, self.unread, self.under_way) == (0, 0, 0)
    }
}

/// A device whose generator writes and reads `count` times. Then the device sends the interrupt of vector 5. A task
/// reads concurrently.
fn device(count: u32, ended: &Ended) -> AsyncDevice {
    let ended = ended.clone();
    AsyncDevice::new(move |io: Io| {
        let ended = ended.clone();
        async move {
            let task = io.clone();
            io.spawn(async move { task.dma_read(0x3000, 16).await });
            io.generate(Box::new(Copies { left: count, unread: 0, under_way: 0, ended })).await;
            io.interrupt(5).await
        }
    })
}

#[test]
fn generator_ends_with_its_last_result() {
    let ended = Ended::default();
    let mut rig = Rig::new(device(2, &ended));
    rig.poll_all();
    let (write, read) = (Event::Write(0x1000, Data::Counted(8)), Event::Read(0x2000, 4));
    let log = rig.take_log();
    let count = |event: &Event| log.iter().filter(|e| *e == event).count();
    assert_eq!((count(&write), count(&read), count(&Event::Read(0x3000, 16))), (2, 2, 1), "{log:?}");

    let by_task = rig.reads.iter().position(|read| read.address == 0x3000).expect("the task's read");
    rig.answer(by_task);
    assert_eq!(*ended.borrow(), [], "the task's result is none of the generator's");
    let last = rig.reads[1].id;
    rig.answer(0);
    assert_eq!(rig.take_log(), [], "one read is under way");
    rig.done(last, Err(DmaError::CompletionTimeout));
    assert_eq!(*ended.borrow(), [(1, Ok(4)), (2, Err(DmaError::CompletionTimeout))]);
    assert_eq!(rig.take_log(), [Event::Interrupt(5)]);
}

#[test]
fn full_class_stops_only_its_own_requests() {
    let ended = Ended::default();
    let mut rig = Rig::new(device(1, &ended));
    rig.open[Class::NonPosted.index()] = false;
    rig.poll_all();
    assert_eq!(rig.take_log(), [Event::Write(0x1000, Data::Counted(8))]);
    rig.open[Class::NonPosted.index()] = true;
    rig.poll_all();
    assert_eq!(rig.take_log(), [Event::Read(0x2000, 4), Event::Read(0x3000, 16)], "before those of tasks");
}

#[test]
fn reset_drops_generator_with_tasks() {
    let ended = Ended::default();
    let mut rig = Rig::new(device(1, &ended));
    rig.poll_all();
    rig.take_log();
    rig.reset();
    let log = rig.take_log();
    assert!(log.contains(&Event::Write(0x1000, Data::Counted(8))), "the program began anew: {log:?}");
    assert_eq!(*ended.borrow(), []);
}

/// A generator that says it has completions, which devices do not request, has none.
#[test]
fn ignores_completions_of_a_generator() {
    struct Odd;
    impl Generator for Odd {
        fn outputs(&self) -> u8 {
            1 << Class::Completion.index()
        }
        fn poll_output(&mut self, _: Time, _: Class) -> Option<Output> {
            None
        }
        fn handle_done(&mut self, _: Time, _: u32, _: Result<Data, DmaError>) {}
        fn is_done(&self) -> bool {
            true
        }
    }
    let mut device = AsyncDevice::new(|io: Io| async move {
        io.generate(Box::new(Odd)).await;
        Ok::<(), DmaError>(())
    });
    for class in Class::ALL {
        assert!(device.poll_output(Time::ZERO, class).is_none());
    }
}
