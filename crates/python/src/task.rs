// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Concurrent tasks of devices and drivers in Python: spawn, join and cancel.

use crate::author::Author;
use crate::coroutine::Coroutine;
use crate::error::{RiserError, TimedOut};
use crate::held::Held;
use crate::operation::{self, Operation, Value};
use exec::{Either, Sleep, select};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tlp::{Duration, Time};

/// A future without a result.
pub(crate) type Job = Pin<Box<dyn Future<Output = ()>>>;

/// An executor with the object whose tasks it runs.
pub(crate) trait Executor {
    fn now(&self) -> Time;
    fn sleep(&self, duration: Duration) -> Sleep;
    /// Starts a task. Returns false if there is no room for another task.
    fn start(&self, job: Job) -> bool;
    /// The object that the coroutines belong to. It receives the error of a task that has failed and is not awaited.
    fn author(&self) -> &Author;
}

/// Longest sleep in picoseconds: more than a hundred days.
const MOST_PS: u64 = 9_000_000_000_000_000_000;

/// Returns the duration from `ps`, `ns` or `us`, exactly one of which must be given.
fn span(ps: Option<u64>, ns: Option<f64>, us: Option<f64>) -> PyResult<Duration> {
    let of = |value: f64, in_ps: f64| {
        let ps = value * in_ps;
        let is_legal = ps.is_finite() && (0.0..MOST_PS as f64).contains(&ps);
        is_legal.then(|| Duration::from_ps(ps.round() as u64)).ok_or_else(|| {
            PyValueError::new_err(format!("a time of {value}: expected a finite number from 0 to 100 days"))
        })
    };
    match (ps, ns, us) {
        (Some(ps @ 0..MOST_PS), None, None) => Ok(Duration::from_ps(ps)),
        (Some(ps), None, None) => of(ps as f64, 1.0),
        (None, Some(ns), None) => of(ns, 1e3),
        (None, None, Some(us)) => of(us, 1e6),
        _ => Err(PyValueError::new_err("expected one of `ps`, `ns` and `us`")),
    }
}

/// Returns the future of any awaitable of riser, or of a coroutine, and its nesting depth.
fn future_of(executor: &dyn Executor, awaitable: &Bound<'_, PyAny>) -> PyResult<(operation::Future, u8)> {
    if let Ok(operation) = awaitable.cast::<Operation>() {
        return operation.get().take();
    }
    if let Ok(task) = awaitable.cast::<Task>() {
        return Ok((Box::pin(joined(task.get().0.get()?)), 0));
    }
    let coroutine = Coroutine::new(&executor.author().run, awaitable.clone(), "the awaitable")?;
    Ok((Box::pin(async move { coroutine.await.map(Value::Any) }), 0))
}

#[derive(Default)]
struct TaskState {
    result: Option<PyResult<Value>>,
    is_cancelled: bool,
    is_taken: bool,
    /// True if a task will take the result.
    is_awaited: bool,
    /// True while a task waits for the result.
    is_joined: bool,
    /// Wakers of the awaiting task, and of the task itself.
    awaiting: Option<Waker>,
    own: Option<Waker>,
}

/// A task started by `spawn`. `await` it for its result.
///
/// An exception in the task is raised where the task is awaited. If no task awaits it at that time, the exception ends
/// the run.
#[pyclass(frozen, module = "riser")]
pub(crate) struct Task(Held<RefCell<TaskState>>);

/// Marks a task as awaited until this is dropped.
struct Joined(Rc<RefCell<TaskState>>);

impl Joined {
    /// # Errors
    /// Another task awaits this task, or has its result.
    fn new(state: Rc<RefCell<TaskState>>) -> PyResult<Joined> {
        {
            let mut state = state.borrow_mut();
            if state.is_joined || state.is_taken {
                return Err(RiserError::new_err("a task was awaited twice"));
            }
            (state.is_joined, state.is_awaited) = (true, true);
        }
        Ok(Joined(state))
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.0.borrow_mut().is_joined = false;
    }
}

/// Waits for the result of a task.
async fn joined(state: Rc<RefCell<TaskState>>) -> PyResult<Value> {
    let joined = Joined::new(state)?;
    poll_fn(|cx| {
        let mut state = joined.0.borrow_mut();
        match state.result.take() {
            Some(result) => {
                state.is_taken = true;
                Poll::Ready(result)
            }
            None if state.is_cancelled => Poll::Ready(Err(RiserError::new_err("the task was cancelled"))),
            None => {
                state.awaiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    })
    .await
}

/// Runs `future` to its end, or until it is cancelled.
async fn run(state: Rc<RefCell<TaskState>>, executor: Rc<dyn Executor>, mut future: operation::Future) {
    let result = poll_fn(|cx| {
        if state.borrow().is_cancelled {
            return Poll::Ready(None);
        }
        state.borrow_mut().own = Some(cx.waker().clone());
        future.as_mut().poll(cx).map(Some)
    });
    let Some(result) = result.await else { return };
    let is_awaited = state.borrow().is_awaited;
    match result {
        Err(error) if !is_awaited => {
            state.borrow_mut().is_taken = true;
            executor.author().fail(error, executor.now());
        }
        result => state.borrow_mut().result = Some(result),
    }
    let waker = state.borrow_mut().awaiting.take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Task {
    /// Starts `awaitable` as a task.
    fn spawn(executor: &Rc<dyn Executor>, awaitable: &Bound<'_, PyAny>, is_awaited: bool) -> PyResult<Task> {
        let (future, _) = future_of(&**executor, awaitable)?;
        let held = Held::new(RefCell::new(TaskState { is_awaited, ..TaskState::default() }));
        let job = run(held.get()?, Rc::clone(executor), future);
        if !executor.start(Box::pin(job)) {
            let text = format!(
                "the task cannot start: there are {} already, or its owner has ended",
                exec::MAX_TASKS
            );
            return Err(RiserError::new_err(text));
        }
        Ok(Task(held))
    }
}

fn cancel(state: &RefCell<TaskState>) {
    let wakers = {
        let mut state = state.borrow_mut();
        if state.result.is_some() || state.is_taken {
            return;
        }
        state.is_cancelled = true;
        [state.own.take(), state.awaiting.take()]
    };
    wakers.into_iter().flatten().for_each(Waker::wake);
}

#[pymethods]
impl Task {
    fn __await__(&self) -> PyResult<Operation> {
        Ok(Operation::new(joined(self.0.get()?)))
    }

    /// Whether the task has ended and its result was not taken yet.
    #[getter]
    fn done(&self) -> PyResult<bool> {
        Ok(self.0.get()?.borrow().result.is_some())
    }

    /// Cancel the task at its `await`. Tasks that await this task get an error.
    fn cancel(&self) -> PyResult<()> {
        cancel(&*self.0.get()?);
        Ok(())
    }
}

/// Cancels unfinished tasks when dropped.
struct Group(Vec<Rc<RefCell<TaskState>>>);

impl Drop for Group {
    fn drop(&mut self) {
        self.0.iter().for_each(|state| cancel(state));
    }
}

/// Returns the results of all `awaitables`, which run concurrently, as a list. The first error cancels the other
/// awaitables.
fn gather(executor: &Rc<dyn Executor>, awaitables: &Bound<'_, PyTuple>) -> PyResult<Operation> {
    let mut group = Group(Vec::with_capacity(awaitables.len()));
    for awaitable in awaitables {
        group.0.push(Task::spawn(executor, &awaitable, true)?.0.get()?);
    }
    Ok(Operation::new(async move {
        let mut results = Vec::with_capacity(group.0.len());
        for state in &group.0 {
            results.push(joined(Rc::clone(state)).await?);
        }
        Python::attach(|py| {
            let list = PyList::empty(py);
            results.into_iter().try_for_each(|value| list.append(value.into_any(py)?))?;
            Ok(Value::Any(list.into_any().unbind()))
        })
    }))
}

/// Returns the result of `awaitable` if it ends within `duration`.
fn within(
    executor: &Rc<dyn Executor>,
    awaitable: &Bound<'_, PyAny>,
    duration: Duration,
) -> PyResult<Operation> {
    let ((future, nested), executor) = (future_of(&**executor, awaitable)?, Rc::clone(executor));
    Operation::around(nested, async move {
        match select(future, executor.sleep(duration)).await {
            Either::Left(result) => result,
            Either::Right(()) => {
                let ns = duration.as_ps() as f64 / 1e3;
                Err(TimedOut::new_err(format!("it did not end within {ns} ns")))
            }
        }
    })
}

/// Time and concurrent tasks, for devices and drivers.
#[pyclass(frozen, subclass, module = "riser")]
pub(crate) struct Tasks(Held<Rc<dyn Executor>>);

impl Tasks {
    pub(crate) fn of(executor: Rc<dyn Executor>) -> Tasks {
        Tasks(Held::new(executor))
    }
}

#[pymethods]
impl Tasks {
    /// Virtual time, in picoseconds.
    #[getter]
    fn now_ps(&self) -> PyResult<u64> {
        Ok(self.0.get()?.now().as_ps())
    }

    /// Virtual time, in nanoseconds.
    #[getter]
    fn now_ns(&self) -> PyResult<f64> {
        Ok(self.now_ps()? as f64 / 1e3)
    }

    /// Wait for a duration of virtual time: one of `ps`, `ns` and `us`.
    #[pyo3(signature = (*, ps = None, ns = None, us = None))]
    fn sleep(&self, ps: Option<u64>, ns: Option<f64>, us: Option<f64>) -> PyResult<Operation> {
        let sleep = self.0.get()?.sleep(span(ps, ns, us)?);
        Ok(Operation::new(async move {
            sleep.await;
            Ok(Value::Nothing)
        }))
    }

    /// Start a coroutine or an operation concurrently. `await` the task for its result.
    fn spawn(&self, awaitable: &Bound<'_, PyAny>) -> PyResult<Task> {
        Task::spawn(&*self.0.get()?, awaitable, false)
    }

    /// Run these concurrently, and return their results as a list. The first error cancels the others.
    #[pyo3(signature = (*awaitables))]
    fn gather(&self, awaitables: &Bound<'_, PyTuple>) -> PyResult<Operation> {
        gather(&*self.0.get()?, awaitables)
    }

    /// Return the result of `awaitable` if it ends within a duration of virtual time. Otherwise raise `TimedOut` and cancel it.
    #[pyo3(signature = (awaitable, *, ps = None, ns = None, us = None))]
    fn within(
        &self,
        awaitable: &Bound<'_, PyAny>,
        ps: Option<u64>,
        ns: Option<f64>,
        us: Option<f64>,
    ) -> PyResult<Operation> {
        within(&*self.0.get()?, awaitable, span(ps, ns, us)?)
    }
}
