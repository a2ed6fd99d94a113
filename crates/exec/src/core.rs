// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The common part of both adapters: tasks, time, queued outputs, and operations with a result.
//!
//! All futures here follow one rule: an operation is issued in order when its future is first polled. If a future is
//! dropped before the host has accepted the operation, the operation is withdrawn and has no effect. If a future is
//! dropped later, only its result is lost.

use super::calls::Calls;
use super::queue::OutQueue;
use super::timers::{TimerKey, Timers};
use super::wait::wake;
use super::{Executor, Own};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tlp::{Data, Duration, PayloadPool, Time};

/// An output that may contain the ID of an operation.
pub trait Outgoing: Unpin {
    /// Sets the ID of the operation.
    fn set_id(&mut self, id: u32);
}

/// Virtual time as last set, and the sleeping tasks.
struct Clock {
    now: Cell<Time>,
    timers: RefCell<Timers>,
    tasks: Rc<Own>,
}

struct CoreState<O, E> {
    queues: [OutQueue<O>; 2],
    calls: Calls<E>,
}

/// One life of a program, from its start to its end or reset. `O` is the type of its outputs, which are in independent
/// queues; `E` is the error of an operation.
pub struct Core<O, E> {
    /// Tasks of the program.
    pub exec: Executor,
    /// Pool of the payloads of its outputs.
    pub pool: PayloadPool,
    clock: Rc<Clock>,
    state: RefCell<CoreState<O, E>>,
    news: Cell<u8>,
    filled: Cell<u8>,
}

impl<O: Outgoing, E> Core<O, E> {
    /// Returns the first life, at time zero.
    pub fn new(pool: PayloadPool) -> Core<O, E> {
        Core::with_calls(pool, Time::ZERO, Calls::default())
    }

    /// Returns a new life. No result of this life will be delivered to it.
    pub fn next_life(&self) -> Core<O, E> {
        Core::with_calls(self.pool.clone(), self.now(), self.state.borrow().calls.next_life())
    }

    fn with_calls(pool: PayloadPool, now: Time, calls: Calls<E>) -> Core<O, E> {
        let exec = Executor::default();
        let clock = Clock { now: Cell::new(now), timers: RefCell::default(), tasks: Rc::clone(&exec.own) };
        let state = RefCell::new(CoreState { queues: Default::default(), calls });
        Core { exec, pool, clock: Rc::new(clock), state, news: Cell::default(), filled: Cell::default() }
    }

    /// Returns virtual time as last set.
    pub fn now(&self) -> Time {
        self.clock.now.get()
    }

    /// Sets virtual time to `now`. Only [`advance`](Self::advance) wakes sleepers.
    pub fn set_now(&self, now: Time) {
        if self.clock.now.replace(now) != now {
            self.exec.begin_instant();
        }
    }

    /// Advances time to `now` and wakes the sleepers that are due.
    pub fn advance(&self, now: Time) {
        self.set_now(now);
        loop {
            let due = self.clock.timers.borrow_mut().pop_due(now);
            let Some(sleeper) = due else { return };
            self.exec.own.wake(sleeper);
        }
    }

    /// Returns the time of the next call: now if a task is ready.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.exec.has_ready() { Some(self.now()) } else { self.clock.timers.borrow().next() }
    }

    /// True if [`pop`](Self::pop) would return `None`.
    pub fn is_empty(&self, queue: usize) -> bool {
        self.state.borrow().queues[queue].is_empty()
    }

    /// Accepts the next output of `queue`.
    pub fn pop(&self, queue: usize) -> Option<O> {
        let (item, sleeper, next) = {
            let queue = &mut self.state.borrow_mut().queues[queue];
            let (item, sleeper) = queue.pop()?;
            (item, sleeper, queue.room.first())
        };
        if let Some(sleeper) = sleeper {
            self.exec.own.wake(sleeper);
        }
        wake(next);
        Some(item)
    }

    /// Returns the queues with new outputs since the last [`forget_news`](Self::forget_news), one bit per queue,
    /// together with the bits that [`tell`](Self::tell) has set.
    pub fn news(&self) -> u8 {
        self.news.get()
    }

    /// Clears the news.
    pub fn forget_news(&self) {
        self.news.set(0);
    }

    /// Returns the queues that may have outputs. Like [`news`](Self::news), but a bit stays until [`see`](Self::see)
    /// reports an empty queue.
    pub fn filled(&self) -> u8 {
        self.filled.get()
    }

    /// Records output at `index`.
    pub fn tell(&self, index: usize) {
        self.news.set(self.news.get() | 1 << index);
        self.filled.set(self.filled.get() | 1 << index);
    }

    /// Records a poll of queue `index`; `empty` is true if no output is left there.
    pub fn see(&self, index: usize, empty: bool) {
        self.news.set(self.news.get() & !(1 << index));
        if empty {
            self.filled.set(self.filled.get() & !(1 << index));
        }
    }

    /// Ends operation `id` with its result.
    pub fn finish(&self, id: u32, result: Result<Data, E>) {
        let (sleeper, next) = {
            let CoreState { queues, calls } = &mut *self.state.borrow_mut();
            let sleeper = calls.finish(id, result);
            // Other operations may wait for the slot of an abandoned operation.
            let next =
                if sleeper.is_none() { queues.each_ref().map(|q| q.room.first()) } else { [None, None] };
            (sleeper, next)
        };
        if let Some(sleeper) = sleeper {
            self.exec.own.wake(sleeper);
        }
        next.into_iter().for_each(wake);
    }

    /// Returns a future that ends at `deadline`.
    pub fn sleep_until(&self, deadline: Time) -> Sleep {
        Sleep { clock: Rc::clone(&self.clock), deadline, key: None }
    }

    /// Describes in one line what the program waits for.
    pub fn describe(&self) -> String {
        let state = self.state.borrow();
        let timers = self.clock.timers.borrow();
        let waiting: usize = state.queues.iter().map(|q| q.len() + q.room.len()).sum();
        let mut line = format!(
            "{} tasks, {} reads under way, {waiting} outputs not accepted",
            self.exec.live(),
            state.calls.under_way(),
        );
        if let Some(time) = timers.next() {
            line += &format!(", {} sleeping, the first until {time}", timers.len());
        }
        if let Some(who) = self.exec.spinning() {
            line = format!("{who}; {line}");
        }
        if self.exec.refused() > 0 {
            line += &format!(", {} tasks refused", self.exec.refused());
        }
        line
    }

    /// Adds the item of `turn` to queue `index` if there is room and no earlier item waits; otherwise waits.
    fn enter(&self, index: usize, turn: &mut Turn<O>, called: bool, waker: &Waker) -> Option<(u64, u32)> {
        let (entered, next) = {
            let CoreState { queues, calls } = &mut *self.state.borrow_mut();
            let queue = &mut queues[index];
            let room = queue.has_room() && (!called || calls.has_room());
            if !room || !queue.room.is_turn(turn.ticket) {
                queue.room.wait(&mut turn.ticket, waker);
                return None;
            }
            queue.room.leave(&mut turn.ticket);
            let item = turn.item.as_mut()?;
            let sleeper = self.exec.own.sleeper(waker);
            let (id, sleeper) = if called { (calls.begin(sleeper), None) } else { (0, Some(sleeper)) };
            item.set_id(id);
            let number = queue.push(turn.item.take(), sleeper);
            self.tell(index);
            (Some((number, id)), queue.room.first())
        };
        wake(next);
        entered
    }

    fn leave(&self, queue: usize, turn: &mut Turn<O>) {
        let next = {
            let queue = &mut self.state.borrow_mut().queues[queue];
            queue.room.leave(&mut turn.ticket);
            queue.room.first()
        };
        wake(next);
    }

    fn poll_accepted(&self, queue: usize, number: u64, waker: &Waker) -> Poll<()> {
        let queue = &mut self.state.borrow_mut().queues[queue];
        if queue.is_accepted(number) {
            return Poll::Ready(());
        }
        queue.set_sleeper(number, self.exec.own.sleeper(waker));
        Poll::Pending
    }

    fn poll_call(&self, queue: usize, id: u32, waker: &Waker) -> Poll<Result<Data, E>> {
        let (result, next) = {
            let CoreState { queues, calls } = &mut *self.state.borrow_mut();
            let result = calls.poll(id, || self.exec.own.sleeper(waker));
            (result, queues[queue].room.first())
        };
        wake(next.filter(|_| result.is_ready()));
        result
    }

    fn withdraw(&self, queue: usize, number: u64, id: Option<u32>) {
        let next = {
            let CoreState { queues, calls } = &mut *self.state.borrow_mut();
            let withdrawn = queues[queue].withdraw(number);
            if let Some(id) = id {
                calls.abandon(id, !withdrawn);
            }
            queues[queue].room.first()
        };
        wake(next);
    }
}

/// An output that is not in its queue yet, and its position among the waiters for room.
struct Turn<O> {
    item: Option<O>,
    ticket: Option<u64>,
}

enum Stage<O> {
    /// The operation is not issued yet.
    New(Turn<O>),
    /// The operation is in its queue, or has left the queue: number of the entry, and ID of the operation.
    Issued(u64, u32),
    Ended,
}

/// An output that is being issued. The operation is withdrawn if this value is dropped.
struct Issue<O: Outgoing, E> {
    core: Rc<Core<O, E>>,
    queue: usize,
    /// Whether the operation has a result.
    called: bool,
    stage: Stage<O>,
}

impl<O: Outgoing, E> Issue<O, E> {
    fn new(core: &Rc<Core<O, E>>, queue: usize, called: bool, item: O) -> Issue<O, E> {
        let turn = Turn { item: Some(item), ticket: None };
        Issue { core: Rc::clone(core), queue, called, stage: Stage::New(turn) }
    }

    /// Issues the output at the first call. Further calls check with `end` whether the operation has ended.
    fn poll<T>(&mut self, waker: &Waker, end: impl FnOnce(&Self, u64, u32) -> Poll<T>) -> Poll<T> {
        match &mut self.stage {
            Stage::New(turn) => {
                if let Some((number, id)) = self.core.enter(self.queue, turn, self.called, waker) {
                    self.stage = Stage::Issued(number, id);
                }
                Poll::Pending
            }
            &mut Stage::Issued(number, id) => {
                let ended = end(self, number, id);
                if ended.is_ready() {
                    self.stage = Stage::Ended;
                }
                ended
            }
            Stage::Ended => Poll::Pending,
        }
    }
}

impl<O: Outgoing, E> Drop for Issue<O, E> {
    fn drop(&mut self) {
        match &mut self.stage {
            Stage::New(turn) if turn.ticket.is_some() => self.core.leave(self.queue, turn),
            Stage::Issued(number, id) => self.core.withdraw(self.queue, *number, self.called.then_some(*id)),
            _ => {}
        }
    }
}

/// Future of an output. It ends when the output is accepted.
#[must_use = "futures do nothing unless awaited"]
pub struct Post<O: Outgoing, E>(Issue<O, E>);

impl<O: Outgoing, E> Post<O, E> {
    /// Returns the post of `item` to this queue.
    pub fn new(core: &Rc<Core<O, E>>, queue: usize, item: O) -> Post<O, E> {
        Post(Issue::new(core, queue, false, item))
    }
}

impl<O: Outgoing, E> Future for Post<O, E> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker();
        self.0.poll(waker, |issue, number, _| issue.core.poll_accepted(issue.queue, number, waker))
    }
}

/// Future of an output that ends with a result.
#[must_use = "futures do nothing unless awaited"]
pub struct Call<O: Outgoing, E>(Issue<O, E>);

impl<O: Outgoing, E> Call<O, E> {
    /// Returns the call of `item` by this queue.
    pub fn new(core: &Rc<Core<O, E>>, queue: usize, item: O) -> Call<O, E> {
        Call(Issue::new(core, queue, true, item))
    }

    /// Returns `Ready` after the operation has entered its queue, even if the operation has left the queue since then.
    /// The future needs no further poll until its result is needed.
    pub fn poll_issued(&mut self, waker: &Waker) -> Poll<()> {
        if matches!(self.0.stage, Stage::New(_)) {
            let _: Poll<()> = self.0.poll(waker, |_, _, _| Poll::Pending);
        }
        if matches!(self.0.stage, Stage::New(_)) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl<O: Outgoing, E> Future for Call<O, E> {
    type Output = Result<Data, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = cx.waker();
        self.0.poll(waker, |issue, _, id| issue.core.poll_call(issue.queue, id, waker))
    }
}

/// Future that ends when virtual time has reached its deadline.
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    clock: Rc<Clock>,
    deadline: Time,
    key: Option<TimerKey>,
}

impl Sleep {
    /// Returns the deadline.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Returns the time until the deadline.
    pub fn remaining(&self) -> Duration {
        self.deadline.since(self.clock.now.get())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut timers = this.clock.timers.borrow_mut();
        if this.clock.now.get() >= this.deadline {
            timers.cancel(&mut this.key);
            return Poll::Ready(());
        }
        // `Time::MAX` means never.
        if this.deadline < Time::MAX {
            timers.sleep(&mut this.key, this.deadline, this.clock.tasks.sleeper(cx.waker()));
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.clock.timers.borrow_mut().cancel(&mut self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Outgoing for Nothing {
        fn set_id(&mut self, _: u32) {}
    }

    #[test]
    fn sleeping_task_is_dropped_with_core() {
        let (core, held) = (Core::<Nothing, ()>::new(PayloadPool::new()), Rc::new(()));
        let (sleep, kept) = (core.sleep_until(Time::from_ps(5)), Rc::clone(&held));
        core.exec.spawn(async move {
            sleep.await;
            drop(kept);
        });
        core.exec.run();
        assert_eq!((Rc::strong_count(&held), core.poll_timeout()), (2, Some(Time::from_ps(5))));
        drop(core);
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
