// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is next, of functions that want the same: by their weights, and by the bytes that each has had (stride scheduling). Knows
//! neither reads nor writes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The weight of a function of which nothing is said.
const WEIGHT: u8 = 1;
/// What one byte costs a function of weight 1: divisible by most weights, so that little is lost in rounding.
const BYTE: u64 = 2 * 2 * 2 * 3 * 3 * 5 * 7;

/// One task that waits.
struct Waiting {
    /// What its function has had, in its own measure.
    had: u64,
    /// The function, and which of its engines.
    who: (u16, u16),
    waker: Waker,
}

#[derive(Default)]
struct State {
    free: usize,
    /// Whoever is next comes last: who has had least, of these the first.
    waiting: Vec<Waiting>,
    /// What functions have had, in their own measure.
    had: Vec<u64>,
    /// What the function had that was served last: nobody who comes has had less.
    now: u64,
    weights: Vec<u8>,
}

impl State {
    /// Whose turn it is, while there is a place.
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
        // Its other engines, which wait on, come behind those that have had less.
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

/// Places, for which functions take turns; clones are handles on the same.
#[derive(Clone)]
pub(super) struct Turns(Rc<RefCell<State>>);

impl Turns {
    pub(super) fn new(places: u16) -> Turns {
        Turns(Rc::new(RefCell::new(State { free: places.into(), ..State::default() })))
    }

    /// From now on a function has this weight; zero is one.
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

    /// A place for so many bytes, when it is the turn of this function, and of its engine.
    pub(super) async fn place(&self, function: u16, engine: u16, bytes: u32) -> Place {
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
        Place(self.clone())
    }

    /// A place where nobody waits for one.
    fn place_at_once(&self, who: (u16, u16), bytes: u32) -> Option<Place> {
        let mut state = self.0.borrow_mut();
        let is_free = state.free > 0 && state.waiting.is_empty();
        is_free.then(|| {
            state.serve(who, bytes);
            Place(self.clone())
        })
    }

    /// From now on there are so many places more.
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

/// Leaves the line wherever its task stops waiting: with a place, or because it is no more.
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

/// A place, until it is dropped.
pub(super) struct Place(Turns);

impl Drop for Place {
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
    fn functions_take_turns_and_who_leaves_misses_his() {
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

    /// Whoever wants all there is gets his weight of it, in bytes, whatever the sizes; who was away has saved up nothing.
    #[test]
    fn shares_are_as_weights() {
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
        // Alone for a while, the first has no debt, and the others no savings.
        serve(1000, &weights[..1]);
        let had = serve(200, &weights[..2]);
        assert!(had[0] > 0 && had[1] > 0, "{had:?}");
        assert!(had[0] < had[1], "{had:?}");
    }
}
