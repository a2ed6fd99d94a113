// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State of one run of a lab, by type. Each run has its own context.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

/// Values of one run, at most one of each type. The caller of a run adds values that models read when they are plugged
/// in. Models also use the context to share values with each other.
#[derive(Default)]
pub struct RunContext(BTreeMap<TypeId, Box<dyn Any>>);

impl RunContext {
    /// Returns a context that holds only `value`.
    pub fn with<T: 'static>(value: T) -> RunContext {
        RunContext(BTreeMap::from([(TypeId::of::<T>(), Box::new(value) as Box<dyn Any>)]))
    }

    /// Returns the value of type `T`, if the caller or a model has put one in.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Returns the value of type `T`. Adds the default value first, if necessary.
    pub fn get_or_default<T: Default + 'static>(&mut self) -> &mut T {
        let any = self.0.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        any.downcast_mut().expect("the key is the type of the value")
    }
}
