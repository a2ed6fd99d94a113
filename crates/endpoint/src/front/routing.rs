// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the function of an address or an ID. These tables are rebuilt after each register write that may change them.
//!
//! Physical functions have the numbers 0 to n - 1. The ID of a virtual function is its physical function's ID plus
//! First VF Offset and a multiple of VF Stride, and may be on another bus (`PCIe 5.0 §9.2.1.2`). Both are looked up in
//! sorted tables with one entry for each BAR, not for each virtual function.

use super::requests::Question;
use super::settings::BarOffset;
use super::sriov::VfState;
use super::{Front, Function, FunctionBackend};
use config::BarKind;
use device::seam::BarIndex;
use tlp::{Bdf, Body, ConfigKind, ConfigRequest, Tlp};

/// Addresses claimed by one function, or in equal parts by all virtual functions of one.
#[derive(Clone, Copy, Debug)]
struct Window {
    first: u64,
    last: u64,
    /// The highest `last` of all windows up to this one.
    reach: u64,
    /// The function of the first part, and the size of a part in bytes.
    function: u16,
    part: u64,
    bar: u8,
}

/// The routing tables of a front.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    memory: Vec<Window>,
    io: Vec<Window>,
    /// The enabled virtual functions: for each, the distance from the first ID of the endpoint, and its index.
    virtual_functions: Vec<(u16, u16)>,
}

impl Routes {
    /// Returns the function and BAR that hold all `len` bytes from `address` on, and the offset in the BAR.
    pub(crate) fn memory(&self, address: u64, len: u64) -> Option<BarOffset> {
        find(&self.memory, address, len)
    }

    /// Like [`memory`](Self::memory), in I/O space.
    pub(crate) fn io(&self, address: u64, len: u64) -> Option<BarOffset> {
        find(&self.io, address, len)
    }

    /// Returns the virtual function at this distance from the first ID.
    pub(crate) fn virtual_function(&self, distance: u16) -> Option<usize> {
        let at = self.virtual_functions.binary_search_by_key(&distance, |(d, _)| *d).ok()?;
        Some(usize::from(self.virtual_functions[at].1))
    }

    fn clear(&mut self) {
        self.memory.clear();
        self.io.clear();
        self.virtual_functions.clear();
    }

    fn finish(&mut self) {
        for windows in [&mut self.memory, &mut self.io] {
            windows.sort_by_key(|w| (w.first, w.function, w.bar));
            let mut reach = 0;
            for window in windows {
                reach = window.last.max(reach);
                window.reach = reach;
            }
        }
        self.virtual_functions.sort_unstable();
    }

    fn add_function(&mut self, index: u16, function: &Function<impl FunctionBackend>) {
        for (bar, window) in (0..).zip(function.settings.enabled_windows()) {
            let Some(window) = window else { continue };
            let windows = if window.kind == BarKind::Io { &mut self.io } else { &mut self.memory };
            windows.extend(parts(window.address, window.size, 1, index, bar));
        }
    }

    fn add_virtual_functions(&mut self, distance: u16, first: u16, vfs: &VfState) {
        for (bar, window) in (0..).zip(vfs.bars).filter(|_| vfs.memory_enable) {
            let Some(window) = window else { continue };
            self.memory.extend(parts(window.address, window.size, vfs.count, first, bar));
        }
        for n in 0..vfs.count {
            self.virtual_functions.push((vfs.distance(distance, n), first + n));
        }
    }
}

/// Makes a window of `count` equal parts; `None` if it would end beyond 2^64.
fn parts(first: u64, part: u64, count: u16, function: u16, bar: u8) -> Option<Window> {
    let last = part.checked_mul(count.into())?.checked_sub(1)?.checked_add(first)?;
    Some(Window { first, last, reach: 0, function, part, bar })
}

fn find(windows: &[Window], address: u64, len: u64) -> Option<BarOffset> {
    let mut before = windows.partition_point(|w| w.first <= address);
    while let Some(window) = before.checked_sub(1).and_then(|at| windows.get(at)) {
        if address > window.reach {
            return None;
        }
        let offset = (address - window.first) % window.part;
        if address <= window.last && len <= window.part - offset {
            let n = (address - window.first) / window.part;
            let index = usize::from(window.function) + n as usize;
            return Some(BarOffset { index, bar: BarIndex(window.bar), offset });
        }
        before -= 1;
    }
    None
}

impl<B: FunctionBackend> Front<B> {
    /// Rebuilds the tables. To be called if a window, or the IDs of virtual functions, may have changed. A front of one function
    /// needs no tables.
    pub(crate) fn refresh_routes(&mut self) {
        self.routes.clear();
        if self.functions.len() == 1 {
            return;
        }
        for (index, function) in (0..).zip(&self.functions[..self.physical]) {
            self.routes.add_function(index, function);
        }
        for (&physical, vfs) in &self.virtual_functions {
            if let (Some(first), Some(state)) = (vfs.first, &vfs.state) {
                self.routes.add_virtual_functions(physical, first, state);
            }
        }
        self.routes.finish();
    }

    /// Returns the mask of the ID bits that select a function on the captured bus (`PCIe 5.0 §6.13`). An ARI device, or
    /// a device with virtual functions, has eight, because the function number replaces the device number. Others have
    /// three.
    fn function_bits(&self) -> u16 {
        let wide = self.alternative_routing || !self.virtual_functions.is_empty();
        if wide { 0xff } else { 0b111 }
    }

    /// Returns the first ID of the endpoint, if `id` belongs to a function on the captured bus.
    pub(crate) fn first_id(&self, id: Bdf) -> u16 {
        id.bits() & !self.function_bits()
    }

    /// Returns the function on the captured bus with this `id`; the bus number of `id` is not compared.
    pub(crate) fn function_on_bus(&self, id: Bdf) -> Option<usize> {
        self.function_at(id.bits() & self.function_bits())
    }

    /// Returns the virtual function with this `id` on a bus after the captured one (`PCIe 5.0 §9.2.1.2`).
    pub(crate) fn function_behind_bus(&self, id: Bdf) -> Option<usize> {
        let distance = id.bits().checked_sub(self.shared.bus_device)?;
        if distance > 0xff { self.routes.virtual_function(distance) } else { None }
    }

    /// Returns the function that a configuration request is for. A request of type 1 can only be for a virtual function
    /// on another bus, because an endpoint has no other bus below it.
    pub(crate) fn configured(&self, request: &ConfigRequest) -> Option<usize> {
        match request.kind {
            ConfigKind::Type0 => self.function_on_bus(request.completer),
            ConfigKind::Type1 => self.function_behind_bus(request.completer),
        }
    }

    /// Returns the function to which a TLP is addressed, if any.
    #[cold]
    pub(crate) fn addressee(&self, tlp: &Tlp) -> Option<usize> {
        let claimed = |decoded: Option<BarOffset>| Some(decoded?.index);
        match &tlp.repr.body {
            Body::Memory(m) => claimed(self.decode(m.span)),
            Body::Atomic(a) => claimed(self.decode(Question::of_atomic(tlp, a).span)),
            Body::Io(io) => claimed(self.decode_io(Question::of_io(tlp, io).span)),
            Body::Config(c) => self.configured(c),
            Body::Completion(c) => self.function_of(c.requester),
            Body::Message(m) => self.message_for(m),
        }
    }

    /// Returns the function with this `id`, on any bus.
    pub(crate) fn function_of(&self, id: Bdf) -> Option<usize> {
        self.function_at(id.bits().wrapping_sub(self.shared.bus_device))
    }

    /// Returns a disabled virtual function that had this ID, while completions may still arrive for it.
    #[cold]
    pub(crate) fn former_function(&self, id: Bdf) -> Option<usize> {
        let distance = id.bits().wrapping_sub(self.shared.bus_device);
        let former =
            |f: &Function<B>| f.physical.is_some() && f.distance == distance && f.behind.holds_tags();
        self.functions.iter().position(former)
    }

    fn function_at(&self, distance: u16) -> Option<usize> {
        if usize::from(distance) < self.physical {
            return Some(distance.into());
        }
        self.routes.virtual_function(distance)
    }
}
