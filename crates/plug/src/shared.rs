// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a device or driver tells whoever runs it, besides its packets.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

/// A handle on a value that one side fills and the other reads; clones are handles on the same value.
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
    /// A handle on `value`.
    pub fn new(value: T) -> Shared<T> {
        Shared { value: Rc::new(RefCell::new(value)) }
    }

    /// Takes the value and leaves the default: for when the device or driver has ended.
    pub fn take(&self) -> T
    where
        T: Default,
    {
        self.value.take()
    }

    /// The value as it is now. Not to be held while the device or driver runs.
    pub fn get(&self) -> Ref<'_, T> {
        self.value.borrow()
    }

    /// Changes the value. Panics where somebody holds it.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.value.borrow_mut())
    }
}
