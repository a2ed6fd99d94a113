// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data of a device or driver for the caller of a run, in addition to its packets.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

/// A handle of a value that one side fills and the other reads. Clones are handles of the same value.
#[derive(Debug, Default)]
pub struct Shared<T> {
    value: Rc<RefCell<T>>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared { value: Rc::clone(&self.value) }
    }
}

impl<T> Shared<T> {
    /// Returns a handle of `value`.
    pub fn new(value: T) -> Shared<T> {
        Shared { value: Rc::new(RefCell::new(value)) }
    }

    /// Takes the value and leaves the default. For use after the device or driver has ended.
    pub fn take(&self) -> T
    where
        T: Default,
    {
        self.value.take()
    }

    /// Borrows the current value. The borrow must end before the device or driver runs again.
    pub fn get(&self) -> Ref<'_, T> {
        self.value.borrow()
    }

    /// Changes the value. Panics if the value is borrowed.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.value.borrow_mut())
    }
}
