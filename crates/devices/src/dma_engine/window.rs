// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The window of the engine: places for reads under way, for which functions take turns. Knows no reads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

struct State {
    free: u16,
    /// Who waits, one task of each function at most.
    waiting: BTreeMap<u16, Waker>,
    /// Who had the last turn.
    last: u16,
}

impl State {
    /// Whose turn it is, while there is a place.
    fn turn(&self) -> Option<(u16, &Waker)> {
        let after = || self.waiting.range(self.last.saturating_add(1)..).next();
        let next = if self.free > 0 { after().or_else(|| self.waiting.first_key_value()) } else { None };
        next.map(|(function, waker)| (*function, waker))
    }
}

/// A window; clones are handles on the same one.
#[derive(Clone)]
pub(super) struct Window(Rc<RefCell<State>>);

impl Window {
    pub(super) fn new(places: u16) -> Window {
        Window(Rc::new(RefCell::new(State { free: places, waiting: BTreeMap::new(), last: u16::MAX })))
    }

    /// A place, when it is this function's turn for one.
    pub(super) async fn place(&self, function: u16) -> Place {
        let waiting = Waiting { window: self, function };
        poll_fn(|cx| {
            let mut state = self.0.borrow_mut();
            state.waiting.insert(function, cx.waker().clone());
            if state.turn().is_none_or(|(turn, _)| turn != function) {
                return Poll::Pending;
            }
            state.free -= 1;
            state.last = function;
            Poll::Ready(())
        })
        .await;
        drop(waiting);
        Place(self.clone())
    }

    fn wake_next(&self) {
        let next = self.0.borrow().turn().map(|(_, waker)| waker.clone());
        if let Some(waker) = next {
            waker.wake();
        }
    }
}

/// Leaves the line wherever its task stops waiting: with a place, or because it is no more.
struct Waiting<'a> {
    window: &'a Window,
    function: u16,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.window.0.borrow_mut().waiting.remove(&self.function);
        self.window.wake_next();
    }
}

/// A place in the window, until it is dropped.
pub(super) struct Place(Window);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.borrow_mut().free += 1;
        self.0.wake_next();
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
        let window = Window::new(2);
        let (Poll::Ready(first), Poll::Ready(second)) =
            (poll(pin!(window.place(5))), poll(pin!(window.place(5))))
        else {
            panic!("nobody else waits");
        };
        let (mut two, mut nine) = (pin!(window.place(2)), pin!(window.place(9)));
        let mut seven = Box::pin(window.place(7));
        assert!(poll(two.as_mut()).is_pending());
        assert!(poll(nine.as_mut()).is_pending());
        assert!(poll(seven.as_mut()).is_pending());
        drop(first);
        assert!(poll(two.as_mut()).is_pending(), "7 comes behind 5");
        assert!(poll(nine.as_mut()).is_pending());
        drop(seven);
        let Poll::Ready(place) = poll(nine.as_mut()) else { panic!("7 has left") };
        assert!(poll(two.as_mut()).is_pending(), "none is free");
        drop((second, place));
        assert!(poll(two.as_mut()).is_ready());
        assert_eq!(window.0.borrow().free, 2);
    }
}
