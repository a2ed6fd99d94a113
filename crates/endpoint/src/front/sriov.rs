// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Virtual functions (`PCIe 5.0 §9`): made when VF Enable is set, void when it is cleared. A factory makes their
//! devices, which define their behaviour.
//!
//! A virtual function that is no longer enabled remains as a shell, which drops late completions of its reads. Its tags
//! stay unused for a time, in case it is enabled again.

use super::settings::FunctionSettings;
use super::{EndpointError, Front, Function, FunctionBackend};
use config::ext::sriov;
use config::{ConfigSpace, PowerState, VfBarWindow, VfNumbering};
use device::seam::ResetKind;
use std::collections::BTreeSet;
use tlp::{Bdf, Time};

/// Maximum number of virtual functions of one endpoint.
pub const MAX_VIRTUAL_FUNCTIONS: u16 = 4096;

/// Makes the device of virtual function n, counted from zero. Called each time that VF Enable creates the function.
pub(crate) type MakeDevice<D> = Box<dyn FnMut(u16) -> D>;

/// The virtual functions of one physical function.
pub(super) struct VfSet<D> {
    /// The configuration space of each virtual function after a reset.
    config: ConfigSpace,
    make: MakeDevice<D>,
    /// TotalVFs: the maximum number of virtual functions.
    total: u16,
    /// Numbering without and with ARI Capable Hierarchy.
    numberings: [VfNumbering; 2],
    /// Index of the first virtual function, after they have been made.
    pub(super) first: Option<u16>,
    /// The registers as last read; `None` while VF Enable is clear.
    pub(super) state: Option<VfState>,
}

/// The state of the SR-IOV capability while VF Enable is set (`PCIe 5.0 §9.3.3`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct VfState {
    /// NumVFs.
    pub(super) count: u16,
    /// VF MSE.
    pub(super) memory_enable: bool,
    /// First VF Offset and VF Stride.
    pub(super) numbering: VfNumbering,
    /// VF 10-Bit Tag Requester Enable.
    pub(super) ten_bit_tag: bool,
    /// The windows of the first virtual function. The windows of the others follow, each of the same size.
    pub(super) bars: [Option<VfBarWindow>; 6],
}

impl VfState {
    /// Returns the ID of virtual function n minus the first ID of the endpoint. `physical` is the ID of its physical
    /// function minus the first ID.
    pub(super) fn distance(&self, physical: u16, n: u16) -> u16 {
        distance(physical, self.numbering, n)
    }
}

fn distance(physical: u16, numbering: VfNumbering, n: u16) -> u16 {
    physical.wrapping_add(numbering.first_offset).wrapping_add(numbering.stride.wrapping_mul(n))
}

/// Returns the state in the registers of a physical function; `None` while VF Enable is clear.
fn state(config: &ConfigSpace, total: u16) -> Option<VfState> {
    let state = config.sriov().filter(|s| s.enabled)?;
    Some(VfState {
        count: state.vfs().min(total),
        memory_enable: state.memory_enable && config.power_state() == PowerState::D0,
        numbering: state.numbering,
        ten_bit_tag: state.ten_bit_tag,
        bars: std::array::from_fn(|i| config.vf_bar(i as u8)),
    })
}

impl<B: FunctionBackend> Front<B> {
    /// Adds virtual functions to function `physical`, whose configuration space must have the SR-IOV capability. They
    /// appear when software sets VF Enable.
    ///
    /// # Errors
    /// Fails if there is no such function, it has no such capability, there would be more than
    /// [`MAX_VIRTUAL_FUNCTIONS`], or one would have the ID of another function.
    pub(crate) fn add_virtual_functions(
        &mut self,
        physical: u16,
        config: ConfigSpace,
        make: MakeDevice<B::Device>,
    ) -> Result<(), EndpointError> {
        let function = self.functions.get(usize::from(physical)).filter(|f| f.is_physical());
        let total = function.and_then(|f| total(&f.config)).ok_or(EndpointError::NoSriov(physical))?;
        let others: u16 = self.virtual_functions.values().map(|v| v.total).sum();
        if others.saturating_add(total) > MAX_VIRTUAL_FUNCTIONS {
            return Err(EndpointError::VirtualFunctions(others.saturating_add(total)));
        }
        let numberings = numberings(&self.functions[usize::from(physical)].config);
        self.check_ids(physical, total, numberings)?;
        let set = VfSet { config, make, total, numberings, first: None, state: None };
        self.virtual_functions.insert(physical, set);
        Ok(())
    }

    /// Checks that each function has its own ID, with either numbering.
    fn check_ids(
        &self,
        physical: u16,
        total: u16,
        numberings: [VfNumbering; 2],
    ) -> Result<(), EndpointError> {
        for (way, numbering) in numberings.into_iter().enumerate() {
            let mut ids: BTreeSet<u16> = (0..self.physical as u16).collect();
            for (&other, vfs) in self.virtual_functions.iter().filter(|(other, _)| **other != physical) {
                ids.extend((0..vfs.total).map(|n| distance(other, vfs.numberings[way], n)));
            }
            if let Some(index) = (0..total).find(|&n| !ids.insert(distance(physical, numbering, n))) {
                return Err(EndpointError::Numbering { physical, index, numbering });
            }
        }
        Ok(())
    }

    /// Returns the ID of virtual function n of a physical function while it is enabled.
    pub(crate) fn virtual_function_id(&self, physical: u16, n: u16) -> Option<Bdf> {
        let vfs = self.virtual_functions.get(&physical)?;
        let state = vfs.state.filter(|s| n < s.count)?;
        Some(Bdf::from_bits(self.shared.bus_device.wrapping_add(state.distance(physical, n))))
    }

    /// Returns n if this is the ID of enabled virtual function n of a physical function.
    pub(crate) fn virtual_function_number(&self, physical: u16, id: Bdf) -> Option<u16> {
        let set = self.virtual_functions.get(&physical)?;
        let number = (self.function_of(id)? as u16).checked_sub(set.first?)?;
        (number < set.total).then_some(number)
    }

    /// Follows the SR-IOV registers of a physical function. Must be called if they may have changed.
    pub(super) fn refresh_virtual_functions(&mut self, now: Time, physical: u16) {
        let Some(function) = self.functions.get(usize::from(physical)) else { return };
        let Some(vfs) = self.virtual_functions.get_mut(&physical) else { return };
        let state = state(&function.config, vfs.total);
        let before = std::mem::replace(&mut vfs.state, state);
        let count = |state: Option<VfState>| state.map_or(0, |s| s.count);
        for n in count(state)..count(before) {
            self.end_virtual_function(now, physical, n);
        }
        if count(state) > 0 {
            self.make_room(physical);
        }
        for n in count(before)..count(state) {
            self.begin_virtual_function(physical, n);
        }
        for n in 0..count(state) {
            self.inherit(physical, n);
        }
    }

    /// Makes the entries of the virtual functions of a physical function.
    fn make_room(&mut self, physical: u16) {
        let Some(vfs) = self.virtual_functions.get_mut(&physical).filter(|v| v.first.is_none()) else {
            return;
        };
        let first = self.functions.len() as u16;
        vfs.first = Some(first);
        let shared = &self.shared;
        let shell = |number| Function::new(number, vfs.config.clone(), None, shared);
        self.functions.extend((first..first + vfs.total).map(|number| shell(number).of_physical(physical)));
    }

    fn begin_virtual_function(&mut self, physical: u16, n: u16) {
        let Some(vfs) = self.virtual_functions.get_mut(&physical) else { return };
        let Some(first) = vfs.first else { return };
        let device = (vfs.make)(n);
        let function = &mut self.functions[usize::from(first + n)];
        function.behind.replace(Some(device));
        function.behind.set_vectors(function.config.interrupt_vectors());
        self.changed.push(usize::from(first + n));
        self.shared.counters.virtual_functions_enabled += 1;
    }

    fn end_virtual_function(&mut self, now: Time, physical: u16, n: u16) {
        let Some(first) = self.virtual_functions.get(&physical).and_then(|v| v.first) else { return };
        let function = &mut self.functions[usize::from(first + n)];
        function.reset(now, &mut self.shared, ResetKind::FunctionLevel);
        function.behind.replace(None);
        self.changed.push(usize::from(first + n));
    }

    /// Gives a virtual function its inherited settings. It has no registers for the settings that its physical function
    /// makes for all (`PCIe 5.0 §9.3.5`), and the physical function's registers determine its ID.
    fn inherit(&mut self, physical: u16, n: u16) {
        let Some(vfs) = self.virtual_functions.get(&physical) else { return };
        let (Some(first), Some(state)) = (vfs.first, vfs.state) else { return };
        let (physicals, virtuals) = self.functions.split_at_mut(self.physical);
        let Some(function) = virtuals.get_mut(usize::from(first + n) - self.physical) else { return };
        function.distance = state.distance(physical, n);
        let own = FunctionSettings::read(&function.config, &self.shared.limits);
        function.apply(own.inherited(&physicals[usize::from(physical)].settings, state.ten_bit_tag));
        self.changed.push(usize::from(first + n));
    }

    /// Reads the settings of a function and of its virtual functions again.
    pub(super) fn refresh_function(&mut self, now: Time, index: usize) {
        let Some(function) = self.functions.get_mut(index) else { return };
        match function.physical {
            None => {
                function.refresh(&self.shared);
                function.refresh_intx(now, &mut self.shared);
                self.refresh_virtual_functions(now, index as u16);
            }
            Some(physical) => {
                let first = self.virtual_functions.get(&physical).and_then(|v| v.first);
                if let Some(first) = first {
                    self.inherit(physical, index as u16 - first);
                }
            }
        }
        self.changed.push(index);
    }
}

/// Returns the numbering without and with ARI Capable Hierarchy, read from the registers as software reads it.
fn numberings(config: &ConfigSpace) -> [VfNumbering; 2] {
    let mut config = config.clone();
    [0, sriov::control::ARI_HIERARCHY].map(|control| {
        if let Some(at) = config.extended_capability(sriov::ID) {
            let _ = config.write(at + sriov::CONTROL, 0xf, control);
        }
        config.sriov().map_or(VfNumbering { first_offset: 0, stride: 0 }, |s| s.numbering)
    })
}

/// Returns TotalVFs if there is an SR-IOV capability.
fn total(config: &ConfigSpace) -> Option<u16> {
    config.sriov().map(|s| s.total_vfs)
}
