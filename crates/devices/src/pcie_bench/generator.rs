// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The transfers of a card without costs, as a state machine. Its workers behave as tasks that await one transfer after
//! another. Workers whose write waits for the endpoint are in one queue, those whose read waits in another.

use super::{Card, Phase};
use device::DmaError;
use device::io::{Generator, generated_id};
use device::seam::{DmaRead, DmaWrite, Output};
use std::collections::VecDeque;
use std::rc::Rc;
use tlp::{Class, Data, Time};

/// The transfer of a worker.
#[derive(Clone, Copy)]
struct Transfer {
    address: u64,
    start: Time,
    writes: bool,
    reads: bool,
}

pub(super) struct CardGenerator {
    card: Rc<Card>,
    /// Current transfers, by worker.
    transfers: Vec<Transfer>,
    /// Workers whose write waits.
    writers: VecDeque<u32>,
    /// Workers whose read waits.
    readers: VecDeque<u32>,
    /// Number of workers with a transfer.
    active: u32,
}

impl CardGenerator {
    /// Creates the generator. All workers start at `now`.
    pub(super) fn new(card: Rc<Card>, now: Time) -> CardGenerator {
        let workers = u32::from(card.settings.workers());
        let none = Transfer { address: 0, start: now, writes: false, reads: false };
        let mut generator = CardGenerator {
            card,
            transfers: vec![none; workers as usize],
            writers: VecDeque::with_capacity(workers as usize),
            readers: VecDeque::with_capacity(workers as usize),
            active: workers,
        };
        (0..workers).for_each(|worker| generator.begin(worker, now));
        generator
    }

    #[inline(always)]
    fn begin(&mut self, worker: u32, now: Time) {
        if self.card.results.get().phase >= Phase::Done {
            self.active -= 1;
            return;
        }
        let (address, (writes, reads)) = self.card.next();
        self.transfers[worker as usize] = Transfer { address, start: now, writes, reads };
        // The read cannot pass the write on its way to memory (SIGCOMM'18, §4.1).
        if writes { self.writers.push_back(worker) } else { self.readers.push_back(worker) }
    }

    #[inline(always)]
    fn end(&mut self, worker: u32, now: Time) {
        let Transfer { start, writes, reads, .. } = self.transfers[worker as usize];
        self.card.end(start, writes, reads);
        self.begin(worker, now);
    }

    fn next_write(&mut self, now: Time) -> Option<Output> {
        let worker = self.writers.pop_front()?;
        let Transfer { address, reads, .. } = self.transfers[worker as usize];
        if reads {
            self.readers.push_back(worker)
        } else {
            self.end(worker, now)
        }
        Some(Output::Write(DmaWrite::new(address, self.card.data.clone())))
    }

    fn next_read(&mut self) -> Option<Output> {
        let worker = self.readers.pop_front()?;
        let settings = &self.card.settings;
        let address = self.transfers[worker as usize].address;
        let mut read = DmaRead::new(generated_id(worker), address, settings.size_bytes);
        read.carry = settings.carry;
        Some(Output::Read(read))
    }
}

impl Generator for CardGenerator {
    #[inline]
    fn outputs(&self) -> u8 {
        let bit = |queue: &VecDeque<u32>, class: Class| u8::from(!queue.is_empty()) << class.index();
        bit(&self.writers, Class::Posted) | bit(&self.readers, Class::NonPosted)
    }

    fn poll_output(&mut self, now: Time, class: Class) -> Option<Output> {
        match class {
            Class::Posted => self.next_write(now),
            Class::NonPosted => self.next_read(),
            Class::Completion => None,
        }
    }

    fn handle_done(&mut self, now: Time, worker: u32, result: Result<Data, DmaError>) {
        match result {
            Ok(_) => self.end(worker, now),
            Err(error) => {
                self.card.results.change(|r| r.fail(now, error));
                self.begin(worker, now);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.active == 0
    }
}
