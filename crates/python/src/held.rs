// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What belongs to one thread, in the hands of Python, which may carry it to any.
//!
//! A fabric and all that is plugged into it live on one thread and share by `Rc`. A [`Held`] is a key to such a value in a table
//! of its thread: elsewhere the key opens nothing, which is an exception.

use crate::error::RiserError;
use pyo3::prelude::*;
use slab::Slab;
use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static TABLE: Table = Table {
        thread: THREADS.fetch_add(1, Ordering::Relaxed),
        values: RefCell::default(),
    };
}

struct Table {
    /// Never that of another thread, not even of one that has ended.
    thread: u64,
    values: RefCell<Slab<Rc<dyn Any>>>,
}

/// The key to a value of one thread. Dropped there it drops the value; dropped elsewhere it leaves it until its thread ends.
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
        let found = TABLE.with(|table| {
            if table.thread != self.thread {
                return None;
            }
            table.values.borrow().get(self.key).cloned()
        });
        found.and_then(|value| value.downcast().ok()).ok_or_else(|| {
            RiserError::new_err("this belongs to the thread that runs its lab, and was used on another")
        })
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // What is dropped may hold further keys: the table is free by then.
        let _value = TABLE.try_with(|table| {
            let mut values = table.values.borrow_mut();
            (table.thread == self.thread).then(|| values.try_remove(self.key)).flatten()
        });
    }
}
