// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Asynchronous events (NVMe 1.4 §5.2). After an event of a type, no other follows until its log page has been read.

use super::identify::ASYNC_EVENTS;
use super::log;
use super::spec::{Outcome, Status};
use device::Channel;
use std::cell::Cell;

/// Number of event types: errors, health.
const TYPES: usize = 2;

/// State of an event type.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum EventState {
    #[default]
    None,
    /// No request has taken the event.
    Waits,
    /// The event was reported; its log page has not been read since.
    Told,
}

pub(super) struct Events {
    waiting: Channel<u32>,
    states: [Cell<EventState>; TYPES],
    /// Number of waiting requests.
    requests: Cell<usize>,
}

impl Default for Events {
    fn default() -> Events {
        Events { waiting: Channel::new(TYPES), states: Default::default(), requests: Cell::new(0) }
    }
}

/// Counts a waiting request, until it is dropped.
struct Waits<'e>(&'e Cell<usize>);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Events {
    /// Asynchronous Event Request: completes with the next event.
    pub(super) async fn next(&self) -> Outcome {
        if self.requests.get() == ASYNC_EVENTS {
            return Err(Status::ASYNC_EVENT_LIMIT);
        }
        self.requests.set(self.requests.get() + 1);
        let _waits = Waits(&self.requests);
        let event = self.waiting.receive().await;
        if let Some(state) = self.states.get((event & 0b111) as usize) {
            state.set(EventState::Told);
        }
        Ok(event)
    }

    /// Never blocks: the channel has at most one event of each type.
    async fn tell(&self, kind: usize, information: u32, page: u8) {
        if self.states[kind].get() == EventState::None {
            self.states[kind].set(EventState::Waits);
            self.waiting.send(kind as u32 | information << 8 | u32::from(page) << 16).await;
        }
    }

    pub(super) async fn invalid_doorbell_register(&self) {
        self.tell(0, 0, log::ERROR).await;
    }

    pub(super) async fn invalid_doorbell_value(&self) {
        self.tell(0, 1, log::ERROR).await;
    }

    /// The temperature has passed a threshold.
    pub(super) async fn temperature(&self) {
        self.tell(1, 1, log::HEALTH).await;
    }

    /// Handles the read of a log page.
    pub(super) fn read(&self, page: u8) {
        let state = match page {
            log::ERROR => &self.states[0],
            log::HEALTH => &self.states[1],
            _ => return,
        };
        if state.get() == EventState::Told {
            state.set(EventState::None);
        }
    }
}
