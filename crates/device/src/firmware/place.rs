// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives BARs their addresses: the fixed ones first, then the others, largest first, each naturally aligned at the
//! lowest free place. Never touches a register.

use super::{FixedBar, RootPortWindows, Window};
use tlp::Bdf;

/// A BAR that needs an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BarNeed {
    pub(super) bdf: Bdf,
    pub(super) index: u8,
    /// Bytes, a power of two.
    pub(super) size: u64,
    pub(super) is_64: bool,
    pub(super) is_io: bool,
    /// Where it was placed.
    pub(super) address: u64,
}

impl BarNeed {
    fn is(&self, fixed: &FixedBar) -> bool {
        self.bdf.function() == fixed.function && self.index == fixed.bar
    }
}

/// The windows of a root port while they fill.
pub(super) struct Placer<'a> {
    port: &'a RootPortWindows,
    /// In the order of addresses.
    taken: Vec<(Window, Bdf, u8)>,
    taken_io: Vec<(Window, Bdf, u8)>,
}

impl Window {
    pub(super) const fn holds(&self, address: u64, size: u64) -> bool {
        address >= self.base && size <= self.size && address - self.base <= self.size - size
    }

    const fn overlaps(&self, other: &Window) -> bool {
        self.base < other.base.saturating_add(other.size) && other.base < self.base.saturating_add(self.size)
    }
}

impl<'a> Placer<'a> {
    pub(super) const fn new(port: &'a RootPortWindows) -> Placer<'a> {
        Placer { port, taken: Vec::new(), taken_io: Vec::new() }
    }

    /// Sets `address` of all `needs`, which are those of the functions `found`.
    pub(super) fn place(&mut self, found: &[Bdf], needs: &mut [&mut BarNeed]) -> Result<(), String> {
        for fixed in &self.port.fixed {
            match needs.iter_mut().find(|need| need.is(fixed)) {
                Some(need) => self.place_fixed(need, fixed.address)?,
                None => return Err(absent(self.port.bus, found, fixed)),
            }
        }
        let fixed = &self.port.fixed;
        let mut rest: Vec<&mut BarNeed> = needs
            .iter_mut()
            .map(|need| &mut **need)
            .filter(|need| !fixed.iter().any(|f| need.is(f)))
            .collect();
        rest.sort_by_key(|need| std::cmp::Reverse(need.size));
        rest.into_iter().try_for_each(|need| self.place_free(need))
    }

    fn place_fixed(&mut self, need: &mut BarNeed, address: u64) -> Result<(), String> {
        let BarNeed { bdf, index, size, .. } = *need;
        let place = Window { base: address, size };
        let at = format!("function {bdf}, BAR {index} of {size:#x} bytes at {address:#x}");
        if !address.is_multiple_of(size) {
            return Err(format!("{at}: not a multiple of its size"));
        }
        let windows = self.windows(need);
        if !windows.iter().any(|w| w.holds(address, size)) {
            return Err(format!("{at}: outside the windows of its root port, {}", list(&windows)));
        }
        if let Some((_, other, bar)) = self.taken_beside(need).iter().find(|(w, ..)| w.overlaps(&place)) {
            return Err(format!("{at}: overlaps BAR {bar} of function {other}"));
        }
        self.take(need, address);
        Ok(())
    }

    fn place_free(&mut self, need: &mut BarNeed) -> Result<(), String> {
        let windows = self.windows(need);
        let place = windows.iter().find_map(|w| self.first_free(w, need));
        let address = place.ok_or_else(|| {
            let BarNeed { bdf, index, size, .. } = need;
            format!("function {bdf}, BAR {index} of {size:#x} bytes: no room in {}", list(&windows))
        })?;
        self.take(need, address);
        Ok(())
    }

    /// Where it may stand, best first: a 64-bit BAR above 4 GiB, or else below; an I/O BAR in I/O space.
    fn windows(&self, need: &BarNeed) -> Vec<Window> {
        if need.is_io {
            return [self.port.io].into_iter().filter(|w| w.size > 0).collect();
        }
        let both = [self.port.mmio64, self.port.mmio32];
        let usable = both.into_iter().skip(usize::from(!need.is_64)).filter(|w| w.size > 0);
        usable.collect()
    }

    fn first_free(&self, window: &Window, need: &BarNeed) -> Option<u64> {
        let size = need.size;
        let mut address = window.base.checked_next_multiple_of(size)?;
        for (taken, ..) in self.taken_beside(need) {
            if taken.overlaps(&Window { base: address, size }) {
                address = (taken.base + taken.size).checked_next_multiple_of(size)?;
            }
        }
        window.holds(address, size).then_some(address)
    }

    /// What is taken where `need` is to stand; I/O space and memory space have addresses of their own.
    fn taken_beside(&self, need: &BarNeed) -> &[(Window, Bdf, u8)] {
        if need.is_io { &self.taken_io } else { &self.taken }
    }

    fn take(&mut self, need: &mut BarNeed, address: u64) {
        need.address = address;
        let taken = if need.is_io { &mut self.taken_io } else { &mut self.taken };
        let at = taken.partition_point(|(w, ..)| w.base < address);
        taken.insert(at, (Window { base: address, size: need.size }, need.bdf, need.index));
    }
}

fn absent(bus: u8, found: &[Bdf], fixed: &FixedBar) -> String {
    let FixedBar { function, bar, address } = *fixed;
    let what = if found.iter().any(|bdf| bdf.function() == function) { "memory BAR" } else { "function" };
    format!(
        "function {bus:02x}:00.{function}, BAR {bar}: told to stand at {address:#x}, but there is no such {what}"
    )
}

fn list(windows: &[Window]) -> String {
    let one = |w: &Window| format!("{:#x} to {:#x}", w.base, w.base.saturating_add(w.size).saturating_sub(1));
    let all: Vec<String> = windows.iter().map(one).collect();
    if all.is_empty() { "any window: it has none".into() } else { all.join(" and ") }
}
