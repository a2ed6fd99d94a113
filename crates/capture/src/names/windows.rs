// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose memory an address is in. Never holds more than the windows of the functions that are known.

use std::collections::BTreeMap;
use tlp::Bdf;

/// A BAR's window, or those of the same BAR of several virtual functions, one behind another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// Address of the first byte.
    pub(super) address: u64,
    /// Bytes of each function's.
    pub(super) size: u64,
    /// How many functions.
    pub(super) count: u16,
    /// Which BAR, 0 to 5.
    pub(super) bar: u8,
    /// The first function.
    pub(super) function: Bdf,
    /// From the ID of each function to the next.
    pub(super) stride: u16,
    /// The function whose registers say so.
    pub(super) physical: Bdf,
}

/// A place in a function's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At {
    pub(super) function: Bdf,
    pub(super) bar: u8,
    pub(super) offset: u64,
    /// The physical function, where it is a virtual one; else itself.
    pub(super) physical: Bdf,
}

/// All windows, by their first byte.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    by_address: BTreeMap<u64, Window>,
    /// By function: the addresses of its windows.
    of_function: BTreeMap<Bdf, Vec<u64>>,
}

impl Windows {
    pub(super) const fn new() -> Windows {
        Windows { by_address: BTreeMap::new(), of_function: BTreeMap::new() }
    }

    /// Replaces what a function claims.
    pub(super) fn set(&mut self, function: Bdf, windows: Vec<Window>) {
        for address in self.of_function.remove(&function).unwrap_or_default() {
            if self.by_address.get(&address).is_some_and(|window| window.physical == function) {
                self.by_address.remove(&address);
            }
        }
        self.of_function.insert(function, windows.iter().map(|window| window.address).collect());
        self.by_address.extend(windows.into_iter().map(|window| (window.address, window)));
    }

    /// The place of `len` bytes from `address` on, where they all lie in one window.
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
