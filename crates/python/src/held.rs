// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What belongs to one thread, in the hands of Python, which may carry it to any.
//!
//! A fabric and all that is plugged into it live on one thread and share by `Rc`. A [`Held`] is a key to such a value in a table
//! of its thread: elsewhere the key opens nothing, which is an exception.

use crate::error::RiserError;
use pyo3::prelude::*;
use slab::Slab;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::AccessError;

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static TABLE: Table = Table {
        thread: THREADS.fetch_add(1, Ordering::Relaxed),
        values: RefCell::default(),
        dropped: RefCell::default(),
        is_dropping: Cell::new(false),
    };
}

struct Table {
    /// Never that of another thread, not even of one that has ended.
    thread: u64,
    values: RefCell<Slab<Rc<dyn Any>>>,
    /// What is to be dropped, while something is: a value may hold the key to the next, and that to another, deeper than a stack.
    dropped: RefCell<Vec<Rc<dyn Any>>>,
    is_dropping: Cell<bool>,
}

impl Table {
    /// Drops a value, and what its drop takes out of the table.
    fn drop_value(&self, value: Rc<dyn Any>) {
        self.dropped.borrow_mut().push(value);
        if self.is_dropping.replace(true) {
            return;
        }
        loop {
            // The list is free again before Python runs in a drop.
            let next = self.dropped.borrow_mut().pop();
            if next.is_none() {
                break;
            }
        }
        self.is_dropping.set(false);
    }
}

impl Drop for Table {
    /// The thread ends, and Python code that runs in a drop finds no table any more. It is not let run: what is left is forgotten.
    fn drop(&mut self) {
        std::mem::forget(self.values.take());
        std::mem::forget(self.dropped.take());
    }
}

fn ended(_: AccessError) -> PyErr {
    RiserError::new_err("this thread ends: nothing can be made of what belonged to its runs")
}

/// The key to a value of one thread. Dropped there it drops the value; dropped elsewhere it leaves it for good.
pub(crate) struct Held<T: 'static> {
    thread: u64,
    key: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Held<T> {
    /// The key to `value`, which belongs to this thread from now on.
    pub(crate) fn new(value: T) -> Held<T> {
        TABLE.with(|table| Held {
            thread: table.thread,
            key: table.values.borrow_mut().insert(Rc::new(value)),
            of: PhantomData,
        })
    }

    /// The value.
    ///
    /// # Errors
    /// On another thread.
    pub(crate) fn get(&self) -> PyResult<Rc<T>> {
        let found = TABLE.try_with(|table| {
            if table.thread != self.thread {
                return None;
            }
            table.values.borrow().get(self.key).cloned()
        });
        found.map_err(ended)?.and_then(|value| value.downcast().ok()).ok_or_else(|| {
            RiserError::new_err("this belongs to the thread that runs its lab, and was used on another")
        })
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // Where the table is gone, so is the value.
        let _gone = TABLE.try_with(|table| {
            if table.thread != self.thread {
                return;
            }
            let value = table.values.borrow_mut().try_remove(self.key);
            if let Some(value) = value {
                table.drop_value(value);
            }
        });
    }
}
