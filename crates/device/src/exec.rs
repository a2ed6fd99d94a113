// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The executor below the `async` adapters, and what programs combine futures with.
//!
//! Single-threaded and deterministic: woken tasks are polled first in, first out, each until it waits again. Time is
//! what the adapter was last told; nothing here reads a clock, starts a thread or is `unsafe`. In steady state (no new
//! tasks) nothing is allocated: task slots and their wakers are kept and used again.
//!
//! Every future takes its waker from its context, so combinators of other crates (`futures`, say) work here, and the
//! wakers may be sent anywhere. A wake from outside is noticed when the adapter is called next.
//!
//! A task that yields for ever without waiting for anything keeps the clock from moving on, as an endless loop would.

mod calls;
mod combine;
mod core;
mod queue;
mod timers;
mod wait;

pub use calls::MAX_CALLS;
pub use combine::{Either, YieldNow, join, join_array, select, yield_now};
pub use core::Sleep;
pub(crate) use core::{Call, Core, Outgoing, Post};
pub use queue::MAX_OUTPUTS;
pub(crate) use wait::WaitList;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Tasks that an adapter holds at once, the program itself among them. At the limit [`spawn`](crate::io::Io::spawn)
/// refuses, and a device is handed no further request until a task has ended, so that a program which spawns one task
/// for each request never meets the refusal.
pub const MAX_TASKS: usize = 4096;

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Woken tasks in the order of their wakes. Each task stands here at most once, so that it holds at most
/// [`MAX_TASKS`] entries.
#[derive(Default)]
struct ReadyQueue {
    any: AtomicBool,
    queue: Mutex<VecDeque<u32>>,
}

impl ReadyQueue {
    fn push(&self, task: u32) {
        self.lock().push_back(task);
        self.any.store(true, Ordering::Release);
    }

    /// Moves what is ready into `batch`, which is empty.
    fn take_into(&self, batch: &mut VecDeque<u32>) {
        if self.any() {
            let mut queue = self.lock();
            std::mem::swap(&mut *queue, batch);
            self.any.store(false, Ordering::Release);
        }
    }

    fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u32>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker of a task slot. A waker of an earlier task in the same slot wakes the later one for nothing, which every
/// future must bear.
struct TaskWaker {
    task: u32,
    queued: AtomicBool,
    ready: Arc<ReadyQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.push(self.task);
        }
    }
}

/// A place for a task. Future and waker are out of it while the task is polled.
struct Slot {
    future: Option<TaskFuture>,
    waker: Option<Waker>,
    signal: Arc<TaskWaker>,
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Tasks {
    fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// A set of tasks. No method holds a borrow while a future or waker of the program runs, so these may call back.
#[derive(Default)]
pub(crate) struct Executor {
    ready: Arc<ReadyQueue>,
    batch: RefCell<VecDeque<u32>>,
    tasks: RefCell<Tasks>,
    refused: Cell<u64>,
    closed: Cell<bool>,
}

impl Executor {
    /// True where [`run`](Self::run) would poll a task.
    pub(crate) fn has_ready(&self) -> bool {
        !self.closed.get() && (self.ready.any() || !self.batch.borrow().is_empty())
    }

    /// Polls woken tasks until none is.
    pub(crate) fn run(&self) {
        while let Some(task) = self.next_ready() {
            self.poll_task(task);
        }
    }

    /// Adds a task, which is polled after all that are ready now.
    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let join = Rc::new(JoinCell::default());
        match self.room() {
            Err(error) => {
                self.refused.set(self.refused.get() + 1);
                join.finish(Err(error));
            }
            Ok(()) => {
                let cell = Rc::clone(&join);
                self.insert(Box::pin(async move { cell.finish(Ok(future.await)) }));
            }
        }
        JoinHandle { join }
    }

    /// True where a further task has room.
    pub(crate) fn has_room(&self) -> bool {
        self.tasks.borrow().live() < MAX_TASKS
    }

    /// Tasks that have not ended.
    pub(crate) fn live(&self) -> usize {
        self.tasks.borrow().live()
    }

    /// Tasks that were refused for want of room.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.get()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Drops every task, oldest slot first, and takes no new ones.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let count = self.tasks.borrow().slots.len();
        for index in 0..count {
            let future = self.tasks.borrow_mut().slots[index].future.take();
            drop(future);
        }
    }

    fn room(&self) -> Result<(), SpawnError> {
        match (self.closed.get(), self.has_room()) {
            (true, _) => Err(SpawnError::Stopped),
            (false, false) => Err(SpawnError::TooManyTasks),
            (false, true) => Ok(()),
        }
    }

    fn insert(&self, future: TaskFuture) {
        let mut tasks = self.tasks.borrow_mut();
        let index = tasks.free.pop().unwrap_or_else(|| {
            let index = tasks.slots.len() as u32;
            tasks.slots.push(self.new_slot(index));
            index
        });
        let slot = &mut tasks.slots[index as usize];
        slot.future = Some(future);
        slot.signal.wake_by_ref();
    }

    fn new_slot(&self, task: u32) -> Slot {
        let signal = Arc::new(TaskWaker { task, queued: AtomicBool::new(false), ready: self.ready.clone() });
        Slot { future: None, waker: Some(Waker::from(signal.clone())), signal }
    }

    fn next_ready(&self) -> Option<u32> {
        if self.closed.get() {
            return None;
        }
        let mut batch = self.batch.borrow_mut();
        if batch.is_empty() {
            self.ready.take_into(&mut batch);
        }
        batch.pop_front()
    }

    fn poll_task(&self, task: u32) {
        let Some((mut future, waker)) = self.take(task) else { return };
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(future);
            self.put_back(task, None, waker);
        } else {
            self.put_back(task, Some(future), waker);
        }
    }

    fn take(&self, task: u32) -> Option<(TaskFuture, Waker)> {
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.slots.get_mut(task as usize)?;
        // Before the poll, so that a wake during it counts.
        slot.signal.queued.store(false, Ordering::Release);
        slot.future.take().zip(slot.waker.take())
    }

    fn put_back(&self, task: u32, future: Option<TaskFuture>, waker: Waker) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = &mut tasks.slots[task as usize];
        let ended = future.is_none();
        slot.future = future;
        slot.waker = Some(waker);
        if ended {
            tasks.free.push(task);
        }
    }
}

/// Why a future was not made a task; it was dropped unpolled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnError {
    /// There are [`MAX_TASKS`] tasks already.
    TooManyTasks,
    /// The program that it belongs to has ended or was reset.
    Stopped,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::TooManyTasks => write!(f, "task refused: the limit is {MAX_TASKS} tasks at once"),
            SpawnError::Stopped => f.write_str("task refused: the program has ended or was reset"),
        }
    }
}

impl std::error::Error for SpawnError {}

struct JoinState<T> {
    outcome: Option<Result<T, SpawnError>>,
    waker: Option<Waker>,
}

struct JoinCell<T> {
    state: RefCell<JoinState<T>>,
}

impl<T> Default for JoinCell<T> {
    fn default() -> JoinCell<T> {
        JoinCell { state: RefCell::new(JoinState { outcome: None, waker: None }) }
    }
}

impl<T> JoinCell<T> {
    fn finish(&self, outcome: Result<T, SpawnError>) {
        let waker = {
            let mut state = self.state.borrow_mut();
            state.outcome = Some(outcome);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Waits for a task: a future of its output. Dropping it lets the task run on by itself.
pub struct JoinHandle<T> {
    join: Rc<JoinCell<T>>,
}

impl<T> JoinHandle<T> {
    /// True once the task has ended or was refused, and its output was not yet taken.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.join.state.borrow().outcome.is_some()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, SpawnError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.join.state.borrow_mut();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                wait::keep_waker(&mut state.waker, cx.waker());
                Poll::Pending
            }
        }
    }
}
