// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host is told without having asked for that very thing: asynchronous events (NVMe 1.4 §5.2). An event of a type is followed
//! by none until its log page was read.

use super::identify::ASYNC_EVENTS;
use super::log;
use super::spec::{Outcome, Status};
use device::Channel;
use std::cell::Cell;

/// The types that there are: errors, health.
const TYPES: usize = 2;

pub(super) struct Events {
    waiting: Channel<u32>,
    /// By type: one was told, and its log page was not read since.
    told: [Cell<bool>; TYPES],
    /// Requests that wait.
    requests: Cell<usize>,
}

impl Default for Events {
    fn default() -> Events {
        Events { waiting: Channel::new(TYPES), told: Default::default(), requests: Cell::new(0) }
    }
}

/// Counts a request that waits, for as long as it does.
struct Waits<'e>(&'e Cell<usize>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Events {
    /// Asynchronous Event Request: ends with the next event.
    pub(super) async fn next(&self) -> Outcome {
        if self.requests.get() == ASYNC_EVENTS {
            return Err(Status::ASYNC_EVENT_LIMIT);
        }
        self.requests.set(self.requests.get() + 1);
        let _waits = Waits(&self.requests);
        Ok(self.waiting.receive().await)
    }

    async fn tell(&self, kind: usize, information: u32, page: u8) {
        if !self.told[kind].replace(true) {
            self.waiting.send(kind as u32 | information << 8 | u32::from(page) << 16).await;
        }
    }

    pub(super) async fn invalid_doorbell_register(&self) {
        self.tell(0, 0, log::ERROR).await;
    }

    pub(super) async fn invalid_doorbell_value(&self) {
        self.tell(0, 1, log::ERROR).await;
    }

    /// The temperature is beyond a threshold.
    pub(super) async fn temperature(&self) {
        self.tell(1, 1, log::HEALTH).await;
    }

    /// A log page was read.
    pub(super) fn read(&self, page: u8) {
        match page {
            log::ERROR => self.told[0].set(false),
            log::HEALTH => self.told[1].set(false),
            _ => {}
        }
    }
}
