// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the function that claims a memory address. Holds only the windows of known functions.

use std::collections::BTreeMap;
use tlp::Bdf;

/// The window of a BAR, or the adjacent windows of the same BAR of several virtual functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// Address of the first byte.
    pub(super) address: u64,
    /// Size of each function's window in bytes.
    pub(super) size: u64,
    /// Number of functions.
    pub(super) count: u16,
    /// The BAR, 0 to 5.
    pub(super) bar: u8,
    /// The function of the first window.
    pub(super) function: Bdf,
    /// Difference between the IDs of two adjacent functions.
    pub(super) stride: u16,
    /// The function whose registers define the window.
    pub(super) physical: Bdf,
}

/// A place in a function's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At {
    pub(super) function: Bdf,
    pub(super) bar: u8,
    pub(super) offset: u64,
    /// The physical function of a virtual function; otherwise the function itself.
    pub(super) physical: Bdf,
}

/// All windows, by their first address.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    by_address: BTreeMap<u64, Window>,
    /// The addresses of each function's windows.
    of_function: BTreeMap<Bdf, Vec<u64>>,
}

impl Windows {
    pub(super) const fn new() -> Windows {
        Windows { by_address: BTreeMap::new(), of_function: BTreeMap::new() }
    }

    /// Replaces the windows of a function.
    pub(super) fn set(&mut self, function: Bdf, windows: Vec<Window>) {
        for address in self.of_function.remove(&function).unwrap_or_default() {
            if self.by_address.get(&address).is_some_and(|window| window.physical == function) {
                self.by_address.remove(&address);
            }
        }
        self.of_function.insert(function, windows.iter().map(|window| window.address).collect());
        self.by_address.extend(windows.into_iter().map(|window| (window.address, window)));
    }

    /// The position of `len` bytes from `address` on; `None` unless all of them are in one window.
    pub(super) fn at(&self, address: u64, len: u64) -> Option<At> {
        let (_, window) = self.by_address.range(..=address).next_back()?;
        let distance = address - window.address;
        let (number, offset) = (distance / window.size, distance % window.size);
        if number >= u64::from(window.count) || len > window.size - offset {
            return None;
        }
        let steps = window.stride.wrapping_mul(number as u16);
        let function = Bdf::from_bits(window.function.bits().wrapping_add(steps));
        Some(At { function, bar: window.bar, offset, physical: window.physical })
    }
}
