// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds assigned virtual functions. Another machine has the hierarchy: its kernel numbers buses, assigns addresses and
//! enables virtual functions. riser therefore reads the place of a function each time a machine connects to the
//! function.

use super::error::VmError;
use config::ext::sriov;
use config::header::type1;
use config::register::get;
use guest::function::Facts;
use host::firmware::Path;
use host::{Cpu, DriverError, HostError};
use lab::LabFile;
use tlp::Bdf;

/// Separates the name of a slot from the number of a virtual function, as in sysfs.
const VIRTUAL: &str = ".virtfn";

/// A virtual function, by properties that no kernel changes.
#[derive(Clone, Debug)]
pub(super) struct VirtualFunction {
    /// The path of its physical function.
    pub(super) pf: Path,
    /// Its number, from 0 on.
    pub(super) index: u16,
}

/// A virtual function with the DW number of the SR-IOV capability.
#[derive(Clone, Debug)]
pub(super) struct VfLocation {
    pub(super) function: VirtualFunction,
    pub(super) sriov: u16,
}

impl VfLocation {
    /// Returns whether a register belongs to the capability.
    pub(super) fn covers(&self, register_dw: u16) -> bool {
        (self.sriov..self.sriov + sriov::VF_BAR0 + 6).contains(&register_dw)
    }
}

impl VirtualFunction {
    /// Returns the virtual function of this name, in one of these slots.
    pub(super) fn named(
        file: &LabFile,
        slots: &[(Path, String)],
        name: &str,
    ) -> Result<VirtualFunction, VmError> {
        let of = |slot: &str| file.lab.slot.iter().find(|known| known.name.get_ref() == slot);
        let count = |slot: &str| of(slot).map_or(0, |slot| slot.needs().virtual_functions);
        let found = name.rsplit_once(VIRTUAL).and_then(|(slot, index)| {
            let (pf, _) = slots.iter().find(|(_, known)| known == slot)?;
            let number = index.parse().ok().filter(|number: &u16| *number < count(slot))?;
            // A function must have only one name. Otherwise two machines could get it.
            (number.to_string() == index).then(|| VirtualFunction { pf: pf.clone(), index: number })
        });
        found.ok_or_else(|| {
            let all = slots.iter().filter_map(|(_, slot)| match count(slot) {
                0 => None,
                1 => Some(format!("{slot}{VIRTUAL}0")),
                count => Some(format!("{slot}{VIRTUAL}0 to {}", count - 1)),
            });
            let all = all.collect::<Vec<_>>().join(", ");
            let legal = if all.is_empty() {
                "the lab has no virtual functions".to_owned()
            } else {
                format!("expected {all}")
            };
            VmError::Assign(format!("host has no virtual function `{name}`; {legal}"))
        })
    }
}

/// Finds a virtual function that may have moved since `facts` were read.
pub(super) async fn find(cpu: Cpu, site: VfLocation, mut facts: Facts) -> Result<Facts, DriverError> {
    let VfLocation { function: VirtualFunction { pf, index }, sriov: at } = site;
    let pf = descend(&cpu, &pf, &mut Vec::new()).await?;
    let absent = |e: HostError| DriverError::from(e).at("its physical function does not answer");
    let control = cpu.config_read(pf, at + sriov::CONTROL).await.map_err(absent)?;
    let enabled = sriov::control::VF_ENABLE | sriov::control::VF_MEMORY_ENABLE;
    let count = match control & enabled == enabled {
        true => get(cpu.config_read(pf, at + sriov::NUM_VFS).await.map_err(absent)?, sriov::num_vfs::NUMBER),
        false => 0,
    };
    if u32::from(index) >= count {
        return Err(format!(
            "{count} virtual functions are enabled; enable more with sriov_numvfs in the guest that has the physical function"
        )
        .into());
    }
    let numbering = cpu.config_read(pf, at + sriov::NUMBERING).await.map_err(absent)?;
    let (first, stride) =
        (get(numbering, sriov::numbering::FIRST_OFFSET), get(numbering, sriov::numbering::STRIDE));
    let bdf = u32::from(pf.bits()) + first + stride * u32::from(index);
    facts.function = u16::try_from(bdf).map(Bdf::from_bits).map_err(|_| "its number is beyond bus 255")?;
    let before = facts.bars;
    for (n, bar) in (0..).zip(&mut facts.bars) {
        let Some(bar) = bar else { continue };
        let low = cpu.config_read(pf, at + sriov::VF_BAR0 + n).await.map_err(absent)?;
        let high = match bar.is_64_bit() {
            true => cpu.config_read(pf, at + sriov::VF_BAR0 + n + 1).await.map_err(absent)?,
            false => 0,
        };
        let base = u64::from(high) << 32 | u64::from(low & !0xf);
        bar.address = base + u64::from(index) * bar.size;
    }
    if let Some((.., table)) = &mut facts.msix {
        let within = before.iter().zip(&facts.bars).find_map(|(was, is)| {
            let offset = table.checked_sub(was.as_ref()?.address)?;
            (offset < was.as_ref()?.size).then_some(is.as_ref()?.address + offset)
        });
        *table = within.ok_or("its MSI-X table is in no BAR of the function")?;
    }
    Ok(facts)
}

/// A write to a register of configuration space. `mask` selects the written bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Written {
    pub(super) function: Bdf,
    pub(super) register_dw: u16,
    pub(super) value: u32,
    pub(super) mask: u32,
}

/// Returns whether one of these writes moves a virtual function: it changes a bus number above it, or the SR-IOV capability. A register that
/// cannot be read counts as changed.
pub(super) async fn moves(cpu: Cpu, site: VfLocation, written: Vec<Written>) -> Result<bool, DriverError> {
    let mut above = Vec::new();
    let Ok(pf) = descend(&cpu, &site.function.pf, &mut above).await else { return Ok(true) };
    for Written { function, register_dw, value, mask } in written {
        let is_number = register_dw == type1::BUS_NUMBERS && above.contains(&function);
        let matters = is_number || function == pf && site.covers(register_dw);
        let stays =
            async || cpu.config_read(function, register_dw).await.is_ok_and(|is| is & mask == value & mask);
        if matters && !stays().await {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the function at a path, by the current bus numbers of the bridges above it. Adds the bridges to `above`.
async fn descend(cpu: &Cpu, path: &Path, above: &mut Vec<Bdf>) -> Result<Bdf, DriverError> {
    let (function, bridges) = path.0.split_last().ok_or("function without a path")?;
    let at = |bus: u32, step: u8| Bdf::from_bits((bus as u16) << 8 | u16::from(step));
    let mut bus = 0;
    for step in bridges {
        let bridge = at(bus, *step);
        above.push(bridge);
        let numbers = cpu.config_read(bridge, type1::BUS_NUMBERS).await;
        let numbers = numbers
            .map_err(|e| DriverError::from(e).at(format!("the bridge {bridge} above it does not answer")))?;
        bus = get(numbers, type1::SECONDARY_BUS);
        if bus == 0 {
            return Err(format!(
                "the bridge {bridge} above it has no bus number; no kernel has enumerated it"
            )
            .into());
        }
    }
    Ok(at(bus, *function))
}
