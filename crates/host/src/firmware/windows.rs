// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assigns addresses: adds up sizes from the leaves up, then distributes ranges from the host's apertures down.
//!
//! On each bus the largest alignment comes first, so that no space is lost between ranges. A fixed address determines
//! all windows above it; the rest of such a window is placed after the fixed part, or before it if there is no room
//! after it.

use super::error::FirmwareError;
use super::need::{Class, Need, RangeOwner};
use super::system::Function;
use super::{Policy, Window};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tlp::Bdf;

/// Needs on each bus, by the bridge above the bus.
type Buses = BTreeMap<Option<Bdf>, Vec<Need>>;

/// The ranges that addresses are assigned from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Apertures {
    pub(super) io: Window,
    pub(super) memory: Window,
    pub(super) prefetchable: Window,
}

impl Apertures {
    const fn of(&self, class: Class) -> Window {
        match class {
            Class::Io => self.io,
            Class::Memory => self.memory,
            Class::Prefetchable => self.prefetchable,
        }
    }
}

/// Places `needs`, the needs of the functions below `top`, and the windows of the bridges in `functions` below it.
/// Returns the needs and the windows.
///
/// `policy` sets the minimum size of hot-plug slots' windows; with `None` they are as large as needed.
pub(super) fn place(
    functions: &BTreeMap<Bdf, Function>,
    needs: &[Need],
    top: Option<Bdf>,
    apertures: Apertures,
    policy: Option<&Policy>,
) -> Result<Vec<Need>, FirmwareError> {
    let mut placed = Vec::new();
    for class in Class::ALL {
        let of_class = needs.iter().filter(|n| n.class == class).copied().collect();
        let tree = Tree { functions, top, class, aperture: apertures.of(class), policy };
        placed.extend(tree.place(of_class)?);
    }
    Ok(placed)
}

/// The tree while one class of addresses is placed.
struct Tree<'a> {
    functions: &'a BTreeMap<Bdf, Function>,
    top: Option<Bdf>,
    class: Class,
    aperture: Window,
    policy: Option<&'a Policy>,
}

impl Tree<'_> {
    fn place(&self, needs: Vec<Need>) -> Result<Vec<Need>, FirmwareError> {
        let mut buses = Buses::new();
        for need in needs {
            buses.entry(self.above(need.bdf)).or_default().push(need);
        }
        // A bridge's ID is lower than the IDs below it: the descending order is bottom-up, the ascending order is
        // top-down.
        for (bdf, function) in self.functions.iter().rev() {
            if function.bridge.is_some() && Some(*bdf) != self.top {
                let contents = buses.entry(Some(*bdf)).or_default();
                if let Some(window) = self.window(function, contents)? {
                    buses.entry(function.parent).or_default().push(window);
                }
            }
        }
        let whole = buses.entry(self.top).or_default();
        pack(whole, self.aperture.base)?;
        self.check(&buses)?;
        Ok(self.hand_down(buses))
    }

    fn above(&self, bdf: Bdf) -> Option<Bdf> {
        self.functions.get(&bdf).and_then(|f| f.parent)
    }

    /// Returns the window around everything below a bridge. Its contents get addresses relative to it, or absolute
    /// addresses if the window is fixed.
    fn window(&self, bridge: &Function, contents: &mut [Need]) -> Result<Option<Need>, FirmwareError> {
        let bdf = bridge.bdf();
        let reserve = if bridge.hot_plug() { self.reserve_of(bridge) } else { 0 };
        if contents.is_empty() && reserve == 0 {
            return Ok(None);
        }
        if let Some(need) = contents.first().filter(|_| !self.forwards(bridge)) {
            return Err(format!("{need}: bridge {bdf} above it forwards no {}", self.class).into());
        }
        let granule = self.class.granularity();
        let align = contents.iter().map(|n| n.align).max().unwrap_or(granule).max(granule);
        let low = contents.iter().filter_map(|n| n.fixed).min();
        let fixed = low.map(|low| low / granule * granule);
        let (start, end) = match fixed {
            None => (0, pack(contents, 0)?),
            Some(start) => self.pack_around(contents, start)?,
        };
        let size = up((end - start).max(reserve), granule);
        let fixed = fixed.map(|_| start);
        let seat = RangeOwner::Window;
        let address = start;
        Ok(Some(Need { bdf, seat, class: self.class, size, align, is_64: false, fixed, address }))
    }

    fn forwards(&self, bridge: &Function) -> bool {
        bridge.bridge.is_some_and(|b| match self.class {
            Class::Io => b.has_io,
            Class::Memory => true,
            Class::Prefetchable => b.has_64_bit,
        })
    }

    fn reserve_of(&self, bridge: &Function) -> u64 {
        let room = self.class != Class::Io && self.aperture.size > 0 && self.forwards(bridge);
        let bytes = |policy: &Policy| policy.room(&bridge.path).bytes;
        self.policy.filter(|_| room).map_or(0, bytes)
    }

    /// Packs a bus with fixed addresses from `low`: free needs go after the fixed ones, or before them if the aperture
    /// has no room after them.
    fn pack_around(&self, contents: &mut [Need], low: u64) -> Result<(u64, u64), FirmwareError> {
        let end = pack(contents, low)?;
        let last = self.aperture.base.saturating_add(self.aperture.size);
        if end <= last {
            return Ok((low, end));
        }
        let mut free: Vec<Need> = contents.iter().filter(|n| n.fixed.is_none()).copied().collect();
        let align = free.iter().map(|n| n.align).max().unwrap_or(1).max(self.class.granularity());
        let size = pack(&mut free, 0)?;
        let start = low.checked_sub(size).map_or(low, |at| at / align * align);
        Ok((start, pack(contents, start)?))
    }

    /// Rejects needs on the uppermost bus that do not fit.
    fn check(&self, buses: &Buses) -> Result<(), FirmwareError> {
        let Window { base, size } = self.aperture;
        let whole = buses.get(&self.top).map_or(&[][..], Vec::as_slice);
        let Some(need) = whole.iter().find(|n| !self.aperture.holds(n.address, n.size)) else {
            return Ok(());
        };
        let room = match (size, self.top) {
            (0, None) => format!("the host has no {} addresses", self.class),
            (0, Some(bridge)) => format!("bridge {bridge} above it has no {} window", self.class),
            (_, top) => {
                let whose = top.map_or("the host".into(), |bridge| format!("bridge {bridge} above it"));
                format!("no room in {base:#x} to {:#x} of {whose}", base.saturating_add(size - 1))
            }
        };
        let at = need.fixed.map_or(String::new(), |address| format!(" at {address:#x}"));
        let inside =
            self.largest_below(need, buses).map_or(String::new(), |n| format!(" (the largest: {n})"));
        Err(format!("{need}{at}{inside}: {room}").into())
    }

    /// The largest need in a window, for an error message.
    fn largest_below(&self, window: &Need, buses: &Buses) -> Option<Need> {
        let buses_below =
            self.functions.get(&window.bdf)?.bridge.filter(|_| window.seat == RangeOwner::Window)?;
        let all = buses.values().flatten().filter(|n| {
            n.seat != RangeOwner::Window
                && (buses_below.secondary..=buses_below.subordinate).contains(&n.bdf.bus())
        });
        all.max_by_key(|n| n.size).copied()
    }

    /// Makes relative addresses absolute.
    fn hand_down(&self, mut buses: Buses) -> Vec<Need> {
        let mut placed = Vec::new();
        let mut bases: BTreeMap<Bdf, u64> = BTreeMap::new();
        let first = buses.remove(&self.top).unwrap_or_default();
        for (above, mut contents) in std::iter::once((self.top, first)).chain(buses) {
            // A fixed bus has absolute addresses from the start.
            let base = above.and_then(|bridge| bases.get(&bridge)).copied().unwrap_or(0);
            for need in &mut contents {
                need.address += base;
                if need.seat == RangeOwner::Window && need.fixed.is_none() {
                    bases.insert(need.bdf, need.address);
                }
            }
            placed.extend(contents);
        }
        placed
    }
}

/// Places the free needs from `start` around the fixed ones, the largest alignment first. Returns the end of all.
fn pack(needs: &mut [Need], start: u64) -> Result<u64, FirmwareError> {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|i| {
        let Need { bdf, seat, align, size, .. } = needs[*i];
        (Reverse(align), Reverse(size), bdf, seat)
    });
    let fixed = pin(needs)?;
    let (mut next, mut end) = (start, fixed.last().map_or(start, |f| f.0.saturating_add(f.1)));
    for i in order {
        let need = &mut needs[i];
        if need.fixed.is_some() {
            continue;
        }
        next = up(next, need.align);
        while let Some(taken) = fixed.iter().find(|f| overlaps((next, need.size), **f)) {
            next = up(taken.0.saturating_add(taken.1), need.align);
        }
        need.address = next;
        next = next.saturating_add(need.size);
        end = end.max(next);
    }
    Ok(end)
}

/// Places the fixed needs. Returns their addresses and sizes, in order.
fn pin(needs: &mut [Need]) -> Result<Vec<(u64, u64)>, FirmwareError> {
    let mut pinned: Vec<Need> = Vec::new();
    for need in needs.iter_mut() {
        let Some(address) = need.fixed else { continue };
        if need.seat != RangeOwner::Window && !address.is_multiple_of(need.align) {
            return Err(format!("{need} at {address:#x}: not a multiple of its size").into());
        }
        need.address = address;
        if let Some(other) = pinned.iter().find(|o| overlaps((o.address, o.size), (address, need.size))) {
            return Err(format!("{need} at {address:#x}: overlaps {other} at {:#x}", other.address).into());
        }
        pinned.push(*need);
    }
    let mut ranges: Vec<(u64, u64)> = pinned.iter().map(|n| (n.address, n.size)).collect();
    ranges.sort_unstable();
    Ok(ranges)
}

const fn overlaps(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
}

/// The next multiple of `align`; the highest address if there is none.
const fn up(address: u64, align: u64) -> u64 {
    match address.checked_next_multiple_of(align) {
        Some(next) => next,
        None => u64::MAX,
    }
}
