// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys to values of one thread. Python may move the keys to other threads.
//!
//! A fabric and everything plugged into it live on one thread and share data by `Rc`. A [`Held`] is a key to such a value in a
//! table of its thread. On another thread the key raises an exception.

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
    /// Unique number of the thread. Numbers of ended threads are not reused.
    thread: u64,
    values: RefCell<Slab<Rc<dyn Any>>>,
    /// Values to drop, collected during a drop: a value may hold the key to the next one, and recursion could exceed the stack.
    dropped: RefCell<Vec<Rc<dyn Any>>>,
    is_dropping: Cell<bool>,
}

impl Table {
    /// Drops a value, and values that its drop removes from the table.
    fn drop_value(&self, value: Rc<dyn Any>) {
        self.dropped.borrow_mut().push(value);
        if self.is_dropping.replace(true) {
            return;
        }
        loop {
            // Release the list before a drop runs Python code.
            let next = self.dropped.borrow_mut().pop();
            if next.is_none() {
                break;
            }
        }
        self.is_dropping.set(false);
    }
}

impl Drop for Table {
    /// The thread ends. Python code in a drop would find no table, so the remaining values are leaked.
    fn drop(&mut self) {
        std::mem::forget(self.values.take());
        std::mem::forget(self.dropped.take());
    }
}

fn ended(_: AccessError) -> PyErr {
    RiserError::new_err("this thread ends: objects of its runs cannot be used any more")
}

/// The key to a value of one thread. If the key is dropped on that thread, the value is dropped. If it is dropped on
/// another thread, the value is leaked.
pub(crate) struct Held<T: 'static> {
    thread: u64,
    key: usize,
    of: PhantomData<fn() -> T>,
}

impl<T> Held<T> {
    /// Stores `value` in this thread's table, and returns its key.
    pub(crate) fn new(value: T) -> Held<T> {
        TABLE.with(|table| Held {
            thread: table.thread,
            key: table.values.borrow_mut().insert(Rc::new(value)),
            of: PhantomData,
        })
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The value belongs to another thread.
    pub(crate) fn get(&self) -> PyResult<Rc<T>> {
        let found = TABLE.try_with(|table| {
            if table.thread != self.thread {
                return None;
            }
            table.values.borrow().get(self.key).cloned()
        });
        found.map_err(ended)?.and_then(|value| value.downcast().ok()).ok_or_else(|| {
            RiserError::new_err("this belongs to the thread that runs its lab, but was used on another")
        })
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // If the table no longer exists, the value does not exist either.
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
