// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The executor of the `async` adapters, and functions that combine futures.
//!
//! The executor is single-threaded and deterministic: tasks are polled in the order in which they were woken, each
//! until it waits again. The adapter sets the time; the executor reads no clock, starts no thread and has no `unsafe`
//! code. In steady state (without new tasks) the executor allocates no memory: task slots and their wakers are reused.
//!
//! Every future takes its waker from its context. So combinators of other crates (such as `futures`) can be used here,
//! and wakers may be sent to other threads. A wake from outside takes effect when the adapter is called next; if the
//! adapter has a [`Notifier`], it notifies its driver.
//!
//! If a task yields for ever and never waits for anything, time does not advance. After [`MAX_POLLS_PER_INSTANT`] polls
//! at one instant, no task is polled any more, and the run ends with an error that names the task. A loop that never
//! yields cannot be detected.

mod calls;
mod combine;
mod core;
mod notifier;
mod queue;
mod timers;
mod wait;

pub use calls::{ID_BITS, MAX_CALLS};
pub use combine::{Either, YieldNow, join, join_array, select, yield_now};
pub use core::{Call, Core, Outgoing, Post, Sleep};
pub use notifier::{Notifier, Notifiers};
pub use queue::MAX_OUTPUTS;
pub use wait::{WaitList, wake};

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use thiserror::Error;

/// Maximum number of tasks of an adapter, including the program itself. At the limit [`spawn`](Executor::spawn) returns an
/// error, and a device gets no further request until a task has ended. So a program that spawns one task per request never
/// gets this error.
pub const MAX_TASKS: usize = 4096;

/// Maximum number of polls of all tasks of an adapter at one instant of virtual time. At the limit no task is polled until
/// time advances, which ends the run if nothing else happens. A program that polls memory must therefore
/// [`sleep`](Core::sleep_until) between two polls, or wait for an interrupt. Each of [`MAX_TASKS`] tasks can be woken 256
/// times.
pub const MAX_POLLS_PER_INSTANT: u32 = 1 << 20;

/// Means no task.
const NOBODY: u32 = u32::MAX;

type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Tasks that were woken through a [`Waker`], in the order of their wakes. Each task is in the queue at most once, so its
/// length is at most [`MAX_TASKS`].
#[derive(Default)]
struct Inbox {
    any: AtomicBool,
    queue: Mutex<Vec<u32>>,
    /// The adapter's notifier, used when the first task is added: its driver may not know yet that there is something to
    /// do.
    notifier: Mutex<Option<Notifier>>,
}

impl Inbox {
    fn push(&self, task: u32) {
        self.lock().push(task);
        if !self.any.swap(true, Ordering::AcqRel)
            && let Some(notifier) = &*self.notifier()
        {
            notifier.notify();
        }
    }

    fn notifier(&self) -> MutexGuard<'_, Option<Notifier>> {
        self.notifier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tasks in the order of their wakes, each at most once.
#[derive(Default)]
struct Ready {
    queue: VecDeque<u32>,
    /// For each task: whether it is in the queue.
    holds: Vec<bool>,
}

impl Ready {
    /// Adds `task` at the end, unless it is in the queue.
    #[inline]
    fn add(&mut self, task: u32) {
        if let Some(holds) = self.holds.get_mut(task as usize)
            && !std::mem::replace(holds, true)
        {
            self.queue.push_back(task);
        }
    }

    /// Takes the first task. A later wake adds the task again.
    fn pop(&mut self) -> Option<u32> {
        let task = self.queue.pop_front()?;
        self.holds[task as usize] = false;
        Some(task)
    }

    /// Returns a task to the front of the queue.
    fn put_back(&mut self, task: u32) {
        self.holds[task as usize] = true;
        self.queue.push_front(task);
    }
}

/// State that an executor shares with the wakers of its tasks.
struct Own {
    inbox: Arc<Inbox>,
    /// Woken tasks. Tasks woken from outside of the running executor wait in the inbox.
    ready: RefCell<Ready>,
    tasks: RefCell<Tasks>,
    /// The task that is being polled, or [`NOBODY`].
    current: Cell<u32>,
}

impl Own {
    /// Returns the sleeper that `waker` wakes.
    #[inline]
    fn sleeper(&self, waker: &Waker) -> Sleeper {
        let task = self.current.get();
        match self.tasks.borrow().slots.get(task as usize) {
            Some(slot) if slot.waker.will_wake(waker) => Sleeper::Task(task),
            _ => Sleeper::Waker(waker.clone()),
        }
    }

    /// Wakes a sleeper.
    #[inline]
    fn wake(&self, sleeper: Sleeper) {
        match sleeper {
            Sleeper::Task(task) => self.wake_task(task),
            Sleeper::Waker(waker) => waker.wake(),
        }
    }

    /// Adds `task` at the end of the ready tasks, unless it is already ready.
    #[inline]
    fn wake_task(&self, task: u32) {
        self.empty_inbox();
        self.ready.borrow_mut().add(task);
    }

    /// Moves the tasks woken from outside to the ready tasks, before any other task is woken or polled.
    fn empty_inbox(&self) {
        if self.inbox.any() {
            self.take_inbox();
        }
    }

    #[cold]
    fn take_inbox(&self) {
        let tasks = self.tasks.borrow();
        let mut inbox = self.inbox.lock();
        self.inbox.any.store(false, Ordering::Release);
        for task in inbox.drain(..) {
            let Some(slot) = tasks.slots.get(task as usize) else { continue };
            // The flag is cleared before the poll, so that a wake during the poll has an effect. It is cleared by a
            // swap, so that the effects before the wake are visible.
            slot.signal.in_inbox.swap(false, Ordering::AcqRel);
            self.ready.borrow_mut().add(task);
        }
    }
}

thread_local! {
    /// The executor that runs in this thread.
    static RUNNING: RefCell<Option<Rc<Own>>> = const { RefCell::new(None) };
}

/// The waker of a task slot. A waker of an earlier task in the slot may wake the later task without a reason, which
/// every future must tolerate.
struct TaskWaker {
    task: u32,
    in_inbox: AtomicBool,
    inbox: Arc<Inbox>,
}

impl Wake for TaskWaker {
    #[inline]
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let is_own = RUNNING.with_borrow(|running| {
            let own = running.as_ref().filter(|own| Arc::ptr_eq(&own.inbox, &self.inbox));
            own.inspect(|own| own.ready.borrow_mut().add(self.task)).is_some()
        });
        if !is_own && !self.in_inbox.swap(true, Ordering::AcqRel) {
            self.inbox.push(self.task);
        }
    }
}

/// Target of a wake: nearly always a task of the executor itself, which needs no atomic operation.
pub(crate) enum Sleeper {
    /// A task of the executor.
    Task(u32),
    /// Any other waker, for example of a combinator between a task and its future.
    Waker(Waker),
}

/// A slot for a task.
struct TaskSlot {
    /// The future is not here while the task is polled.
    future: Cell<Option<TaskFuture>>,
    waker: Waker,
    signal: Arc<TaskWaker>,
    /// Label of the task, if one was set.
    label: RefCell<Option<Rc<str>>>,
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Rc<TaskSlot>>,
    free: Vec<u32>,
}

impl Tasks {
    fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// A set of tasks. No method holds a borrow while a future or waker of the program runs, so these may call the executor.
pub struct Executor {
    own: Rc<Own>,
    /// Number of polls at this instant.
    polls: Cell<u32>,
    /// The task that was polled last when the polls of this instant were used up, or [`NOBODY`].
    spinning: Cell<u32>,
    refused: Cell<u64>,
    closed: Cell<bool>,
}

impl Default for Executor {
    fn default() -> Executor {
        let own = Own {
            inbox: Arc::default(),
            ready: RefCell::default(),
            tasks: RefCell::default(),
            current: Cell::new(NOBODY),
        };
        Executor {
            own: Rc::new(own),
            polls: Cell::new(0),
            spinning: Cell::new(NOBODY),
            refused: Cell::new(0),
            closed: Cell::new(false),
        }
    }
}

impl Executor {
    /// Sets the notifier to use when a task is woken through its waker.
    pub fn set_notifier(&self, notifier: Notifier) {
        *self.own.inbox.notifier() = Some(notifier);
    }

    /// True if [`run`](Self::run) would poll a task.
    #[inline]
    pub fn has_ready(&self) -> bool {
        (!self.own.ready.borrow().queue.is_empty() || self.own.inbox.any()) && !self.closed.get()
    }

    /// Polls woken tasks until no task is ready, or the polls of this instant are used up.
    #[inline]
    pub fn run(&self) {
        if self.has_ready() {
            self.run_woken();
        }
    }

    #[inline(never)]
    fn run_woken(&self) {
        let outer = RUNNING.replace(Some(Rc::clone(&self.own)));
        self.poll_woken();
        RUNNING.set(outer);
    }

    fn poll_woken(&self) {
        while let Some(task) = self.next_ready() {
            if self.polls.get() >= MAX_POLLS_PER_INSTANT {
                return self.stop_spinning(task);
            }
            self.polls.set(self.polls.get() + 1);
            self.poll_task(task);
        }
    }

    /// Leaves `task` unpolled. This task keeps its position until time advances.
    #[cold]
    fn stop_spinning(&self, task: u32) {
        self.own.ready.borrow_mut().put_back(task);
        self.spinning.set(task);
    }

    /// Starts a new instant, because time has advanced.
    pub fn begin_instant(&self) {
        self.polls.set(0);
    }

    /// True if tasks are ready but the polls of this instant are used up.
    pub fn is_spinning(&self) -> bool {
        self.polls.get() >= MAX_POLLS_PER_INSTANT && self.has_ready()
    }

    /// Returns an error that names the spinning task, if there is one.
    pub fn spinning(&self) -> Option<String> {
        if !self.is_spinning() {
            return None;
        }
        let label = self.label_of(self.spinning.get());
        let who = label.map_or_else(|| "a task".to_owned(), |label| format!("the host's task for {label}"));
        Some(format!(
            "{who} spins: {MAX_POLLS_PER_INSTANT} polls at one instant; yield_now lets no time pass, sleep or wait for an \
             interrupt"
        ))
    }

    fn label_of(&self, task: u32) -> Option<Rc<str>> {
        self.own.tasks.borrow().slots.get(task as usize)?.label.borrow().clone()
    }

    /// Labels the task that is being polled, and tasks that it spawns later.
    pub fn set_label(&self, label: &str) {
        if let Some(slot) = self.own.tasks.borrow().slots.get(self.own.current.get() as usize) {
            *slot.label.borrow_mut() = Some(label.into());
        }
    }

    /// Adds a task, which is polled after all tasks that are ready now.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
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

    /// True if there is room for another task.
    pub fn has_room(&self) -> bool {
        self.own.tasks.borrow().live() < MAX_TASKS
    }

    /// Number of tasks that have not ended.
    pub fn live(&self) -> usize {
        self.own.tasks.borrow().live()
    }

    /// Number of tasks that were refused because of [`MAX_TASKS`].
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// True after it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Drops every task, oldest slot first, and accepts no new ones.
    pub fn close(&self) {
        self.closed.set(true);
        let count = self.own.tasks.borrow().slots.len();
        for index in 0..count {
            let future = self.own.tasks.borrow().slots[index].future.take();
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
        let index = {
            let mut tasks = self.own.tasks.borrow_mut();
            let index = tasks.free.pop().unwrap_or_else(|| {
                let index = tasks.slots.len() as u32;
                tasks.slots.push(Rc::new(self.new_slot(index)));
                self.own.ready.borrow_mut().holds.push(false);
                index
            });
            let slot = &tasks.slots[index as usize];
            slot.future.set(Some(future));
            let label =
                tasks.slots.get(self.own.current.get() as usize).and_then(|s| s.label.borrow().clone());
            *slot.label.borrow_mut() = label;
            index
        };
        self.own.wake_task(index);
    }

    fn new_slot(&self, task: u32) -> TaskSlot {
        let inbox = Arc::clone(&self.own.inbox);
        let signal = Arc::new(TaskWaker { task, in_inbox: AtomicBool::new(false), inbox });
        TaskSlot {
            future: Cell::new(None),
            waker: Waker::from(signal.clone()),
            signal,
            label: RefCell::default(),
        }
    }

    fn next_ready(&self) -> Option<u32> {
        if self.closed.get() {
            return None;
        }
        self.own.empty_inbox();
        self.own.ready.borrow_mut().pop()
    }

    fn poll_task(&self, task: u32) {
        let Some(slot) = self.own.tasks.borrow().slots.get(task as usize).map(Rc::clone) else { return };
        let Some(mut future) = slot.future.take() else { return };
        self.own.current.set(task);
        let pending = future.as_mut().poll(&mut Context::from_waker(&slot.waker)).is_pending();
        self.own.current.set(NOBODY);
        if pending {
            slot.future.set(Some(future));
            return;
        }
        drop(future);
        self.own.tasks.borrow_mut().free.push(task);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // A sleeping task holds a reference to the executor's task slots.
        self.close();
    }
}

/// Reason why a future did not become a task. The task was dropped without a poll.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SpawnError {
    /// There are [`MAX_TASKS`] tasks already.
    #[error("task refused: the limit is {MAX_TASKS} tasks at once")]
    TooManyTasks,
    /// The program has ended or was reset.
    #[error("task refused: the program has ended or was reset")]
    Stopped,
}

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
        wake(waker);
    }
}

/// Future of a task's output. If the handle is dropped, the task continues.
pub struct JoinHandle<T> {
    join: Rc<JoinCell<T>>,
}

impl<T> JoinHandle<T> {
    /// True from the end or refusal of the task until its output is taken.
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
