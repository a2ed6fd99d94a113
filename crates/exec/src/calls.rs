// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outstanding operations that have a result, and the tasks that wait for them.

use super::Sleeper;
use std::task::Poll;
use tlp::Data;

/// Maximum number of outstanding reads of a program (for a host, configuration writes too). Reads whose future was
/// dropped are counted until they end. Further futures wait in order.
pub const MAX_CALLS: usize = 4096;

const INDEX_BITS: u32 = MAX_CALLS.trailing_zeros();
/// Bits of the ID of an operation. The highest bit of a DMA ID belongs to generated requests.
pub const ID_BITS: u32 = 31;
const GENERATIONS: u32 = 1 << (ID_BITS - INDEX_BITS);

enum CallState<E> {
    Free,
    Waiting(Option<Sleeper>),
    Done(Result<Data, E>),
    /// The future was dropped. The slot is kept until the result arrives, so that its ID stays unique.
    Abandoned,
}

struct CallSlot<E> {
    generation: u32,
    state: CallState<E>,
}

/// Operations by ID. An ID has a slot index and a generation, so that a late result never reaches a later read in
/// the same slot.
pub(crate) struct Calls<E> {
    first_generation: u32,
    slots: Vec<CallSlot<E>>,
    free: Vec<u32>,
}

impl<E> Default for Calls<E> {
    fn default() -> Calls<E> {
        Calls { first_generation: 0, slots: Vec::new(), free: Vec::new() }
    }
}

impl<E> Calls<E> {
    /// Returns an empty table that does not soon reuse IDs of `self`.
    pub(crate) fn next_life(&self) -> Calls<E> {
        let newest = self.slots.iter().map(|slot| slot.generation).max();
        let first_generation = newest.map_or(self.first_generation, |g| g + 1) % GENERATIONS;
        Calls { first_generation, slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.under_way() < MAX_CALLS
    }

    /// Number of slots in use, including those whose future was dropped.
    pub(crate) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the ID of a new operation. The table must have room.
    pub(crate) fn begin(&mut self, sleeper: Sleeper) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(CallSlot { generation: self.first_generation, state: CallState::Free });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.state = CallState::Waiting(Some(sleeper));
        slot.generation << INDEX_BITS | index
    }

    /// Stores the result of operation `id`, if the operation is outstanding. Returns the sleeper to wake.
    pub(crate) fn finish(&mut self, id: u32, result: Result<Data, E>) -> Option<Sleeper> {
        let slot = self.slot(id)?;
        match &mut slot.state {
            CallState::Waiting(sleeper) => {
                let sleeper = sleeper.take();
                slot.state = CallState::Done(result);
                sleeper
            }
            CallState::Abandoned => {
                self.release(id);
                None
            }
            // The operation was already answered, or never issued: the first answer counts.
            CallState::Done(_) | CallState::Free => None,
        }
    }

    /// Returns the result if it has arrived; otherwise registers the caller to be woken.
    pub(crate) fn poll(&mut self, id: u32, sleeper: impl FnOnce() -> Sleeper) -> Poll<Result<Data, E>> {
        let Some(slot) = self.slot(id) else { return Poll::Pending };
        if let CallState::Waiting(kept) = &mut slot.state {
            *kept = Some(sleeper());
            return Poll::Pending;
        }
        match std::mem::replace(&mut slot.state, CallState::Free) {
            CallState::Done(result) => {
                self.release(id);
                Poll::Ready(result)
            }
            other => {
                slot.state = other;
                Poll::Pending
            }
        }
    }

    /// Abandons operation `id`. If `issued`, its result may still arrive.
    pub(crate) fn abandon(&mut self, id: u32, issued: bool) {
        let Some(slot) = self.slot(id) else { return };
        if issued && matches!(slot.state, CallState::Waiting(_)) {
            slot.state = CallState::Abandoned;
        } else {
            self.release(id);
        }
    }

    fn slot(&mut self, id: u32) -> Option<&mut CallSlot<E>> {
        let slot = self.slots.get_mut((id % MAX_CALLS as u32) as usize)?;
        (slot.generation == id >> INDEX_BITS).then_some(slot)
    }

    fn release(&mut self, id: u32) {
        let index = id % MAX_CALLS as u32;
        let slot = &mut self.slots[index as usize];
        slot.state = CallState::Free;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bit above the IDs belongs to generated requests, so the ID of a place that is used often must not reach this
    /// bit.
    #[test]
    fn id_generations_wrap_within_id_bits() {
        let mut calls = Calls::<()> { first_generation: GENERATIONS - 2, ..Calls::default() };
        let ids: Vec<u32> = (0..4)
            .map(|_| {
                let id = calls.begin(Sleeper::Task(0));
                calls.abandon(id, false);
                id
            })
            .collect();
        assert!(ids.iter().all(|id| id >> ID_BITS == 0), "{ids:x?}");
        assert_eq!(ids[2..], [0, 1 << INDEX_BITS], "generations start again");
    }
}
