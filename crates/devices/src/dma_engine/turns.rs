// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schedules functions that compete for places, by weights and by the bytes that each has had (stride scheduling). Independent
//! of reads and writes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The default weight.
const WEIGHT: u8 = 1;
/// Cost of one byte for a function of weight 1: divisible by most weights, for small rounding errors.
const BYTE: u64 = 2 * 2 * 2 * 3 * 3 * 5 * 7;

/// A waiting task.
struct Waiting {
    /// Weighted bytes that its function has had.
    had: u64,
    /// Function and engine.
    who: (u16, u16),
    waker: Waker,
}

#[derive(Default)]
struct TurnsState {
    free: usize,
    /// Sorted by priority, the next one last. The function with the least share so far is next; among equals, the
    /// lowest number.
    waiting: Vec<Waiting>,
    /// Weighted bytes that functions have had.
    had: Vec<u64>,
    /// Weighted bytes of the function served last. New functions start at least here.
    now: u64,
    weights: Vec<u8>,
}

impl TurnsState {
    /// Returns the next task, if there is a free place.
    fn turn(&self) -> Option<&Waiting> {
        self.waiting.last().filter(|_| self.free > 0)
    }

    fn place_of(&self, who: (u16, u16)) -> Option<usize> {
        self.waiting.iter().rposition(|waiting| waiting.who == who)
    }

    fn enter(&mut self, waiting: Waiting) {
        let key = (waiting.had, waiting.who);
        let place = self.waiting.partition_point(|other| (other.had, other.who) > key);
        self.waiting.insert(place, waiting);
    }

    fn leave(&mut self, who: (u16, u16)) {
        if let Some(place) = self.place_of(who) {
            self.waiting.remove(place);
        }
    }

    fn had_by(&self, function: u16) -> u64 {
        self.had.get(usize::from(function)).map_or(self.now, |had| (*had).max(self.now))
    }

    fn serve(&mut self, (function, _): (u16, u16), bytes: u32) {
        let (weight, index) = (self.weight(function), usize::from(function));
        let before = self.had_by(function);
        self.free -= 1;
        self.now = before;
        if self.had.len() <= index {
            self.had.resize(index + 1, 0);
        }
        let had = before + u64::from(bytes) * BYTE / u64::from(weight);
        self.had[index] = had;
        // Moves its other waiting engines after functions that have had less.
        let is_early = |waiting: &Waiting| waiting.who.0 == function && waiting.had < had;
        while let Some(place) = self.waiting.iter().rposition(is_early) {
            let waiting = self.waiting.remove(place);
            self.enter(Waiting { had, ..waiting });
        }
    }

    fn weight(&self, function: u16) -> u8 {
        self.weights.get(usize::from(function)).copied().unwrap_or(WEIGHT)
    }
}

/// Places, for which functions compete. Clones are handles to the same places.
#[derive(Clone)]
pub(super) struct Turns(Rc<RefCell<TurnsState>>);

impl Turns {
    pub(super) fn new(places: u16) -> Turns {
        Turns(Rc::new(RefCell::new(TurnsState { free: places.into(), ..TurnsState::default() })))
    }

    /// Sets the weight of a function; zero counts as one.
    pub(super) fn set_weight(&self, function: u16, weight: u8) {
        let (weights, index) = (&mut self.0.borrow_mut().weights, usize::from(function));
        if weights.len() <= index {
            weights.resize(index + 1, WEIGHT);
        }
        weights[index] = weight.max(1);
    }

    pub(super) fn weight(&self, function: u16) -> u8 {
        self.0.borrow().weight(function)
    }

    /// Waits until this function and engine are next, and returns a place for this number of bytes.
    pub(super) async fn place(&self, function: u16, engine: u16, bytes: u32) -> TurnPermit {
        let who = (function, engine);
        if let Some(place) = self.place_at_once(who, bytes) {
            return place;
        }
        let waits = Waits { turns: self, who };
        poll_fn(|cx| {
            let state = &mut *self.0.borrow_mut();
            match state.place_of(who) {
                Some(place) => state.waiting[place].waker.clone_from(cx.waker()),
                None => state.enter(Waiting { had: state.had_by(who.0), who, waker: cx.waker().clone() }),
            }
            if state.turn().is_none_or(|next| next.who != who) {
                return Poll::Pending;
            }
            state.waiting.pop();
            state.serve(who, bytes);
            Poll::Ready(())
        })
        .await;
        drop(waits);
        TurnPermit(self.clone())
    }

    /// Takes a place if no task is waiting.
    fn place_at_once(&self, who: (u16, u16), bytes: u32) -> Option<TurnPermit> {
        let mut state = self.0.borrow_mut();
        let is_free = state.free > 0 && state.waiting.is_empty();
        is_free.then(|| {
            state.serve(who, bytes);
            TurnPermit(self.clone())
        })
    }

    /// Adds places.
    pub(super) fn add(&self, places: u16) {
        self.0.borrow_mut().free += usize::from(places);
        self.wake_next();
    }

    fn wake_next(&self) {
        let state = self.0.borrow();
        let next = state.turn().map(|waiting| waiting.waker.clone());
        drop(state);
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// Removes the task from the queue when it stops waiting: with a place, or because it was dropped.
struct Waits<'a> {
    turns: &'a Turns,
    who: (u16, u16),
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.turns.0.borrow_mut().leave(self.who);
        self.turns.wake_next();
    }
}

/// A place, which is free again after a drop.
pub(super) struct TurnPermit(Turns);

impl Drop for TurnPermit {
    fn drop(&mut self) {
        self.0.add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::{Pin, pin};
    use std::task::Context;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn task_that_leaves_loses_its_turn() {
        let turns = Turns::new(2);
        let (Poll::Ready(first), Poll::Ready(second)) =
            (poll(pin!(turns.place(5, 0, 64))), poll(pin!(turns.place(5, 0, 64))))
        else {
            panic!("nobody else waits");
        };
        let (mut two, mut five) = (pin!(turns.place(2, 0, 64)), pin!(turns.place(5, 0, 64)));
        let mut one = Box::pin(turns.place(1, 0, 64));
        assert!(poll(five.as_mut()).is_pending());
        assert!(poll(two.as_mut()).is_pending());
        assert!(poll(one.as_mut()).is_pending());
        drop(first);
        assert!(poll(five.as_mut()).is_pending(), "5 has had most");
        assert!(poll(two.as_mut()).is_pending(), "1 is before it");
        drop(one);
        let Poll::Ready(place) = poll(two.as_mut()) else { panic!("1 has left") };
        assert!(poll(five.as_mut()).is_pending(), "none is free");
        drop((second, place));
        assert!(poll(five.as_mut()).is_ready());
        assert_eq!(turns.0.borrow().free, 2);
    }

    /// Functions that always want more get bytes in proportion to their weights, for any sizes. An idle function saves up no
    /// credit.
    #[test]
    fn shares_match_weights() {
        let turns = Turns::new(1);
        let weights = [(0, 1, 512), (1, 3, 64), (2, 4, 4096)];
        weights.iter().for_each(|(function, weight, _)| turns.set_weight(*function, *weight));
        let mut had = [0u64; 3];
        let serve = |count: u32, who: &[(u16, u8, u32)]| {
            let mut had = [0u64; 3];
            for _ in 0..count {
                let busy = turns.0.borrow_mut().free;
                turns.0.borrow_mut().free = 0;
                let mut all: Vec<_> = who
                    .iter()
                    .map(|(f, _, bytes)| (*f, *bytes, Box::pin(turns.place(*f, 0, *bytes))))
                    .collect();
                all.iter_mut().for_each(|(.., place)| assert!(poll(place.as_mut()).is_pending()));
                turns.0.borrow_mut().free = busy;
                let next = turns.0.borrow().turn().unwrap().who.0;
                let (_, bytes, place) = all.iter_mut().find(|(f, ..)| *f == next).unwrap();
                assert!(poll(place.as_mut()).is_ready());
                had[usize::from(next)] += u64::from(*bytes);
            }
            had
        };
        for (sum, part) in had.iter_mut().zip(serve(50_000, &weights)) {
            *sum += part;
        }
        let all: u64 = had.iter().sum();
        for (function, weight, _) in weights {
            let share = had[usize::from(function)] as f64 / all as f64;
            assert!((share - f64::from(weight) / 8.0).abs() < 0.002, "{had:?}");
        }
        // If the first function was active alone for some time, later shares do not depend on that time.
        serve(1000, &weights[..1]);
        let had = serve(200, &weights[..2]);
        assert!(had[0] > 0 && had[1] > 0, "{had:?}");
        assert!(had[0] < had[1], "{had:?}");
    }
}
