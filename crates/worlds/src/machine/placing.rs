// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places functions of a lab that a virtual machine gets one by one. riser's firmware gives them and the bridges above
//! them bus numbers, windows and addresses, and then disables the functions. The firmware restores these settings after
//! a reset of a function.

use super::error::VmError;
use super::virtual_functions::{VfLocation, VirtualFunction};
use config::cap::{msi, msix, pcie, pm};
use config::ext::sriov;
use config::header::{self, type0};
use config::register::get;
use guest::function::{BarFacts, Facts};
use host::firmware::{Function, HostMap, Interrupt, Path, Policy, System, VfPolicy, enumerate_host};
use host::{Cpu, DriverError, HostError, Wire};
use lab::{HOT_PLUG_BUSES, Hierarchy, LabFile};
use std::collections::BTreeMap;
use tlp::{Bdf, Duration};

/// Time that a function may take for a reset (`PCIe 5.0 §6.6.2`).
const FLR_TIME: Duration = Duration::from_ms(100);
/// Time that a function may take to D3hot and back (`PCIe 5.0 §5.9`).
const POWER_TIME: Duration = Duration::from_ms(10);
const LOW_HALF: u8 = 0b0011;
const ALL_BYTES: u8 = 0b1111;

/// A placed function.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    /// The name of the slot, with `.N` appended for function N other than 0.
    pub(super) name: String,
    pub(super) facts: Facts,
    pub(super) recovery: Recovery,
}

/// How to reset a function and find it again.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    resets: Vec<ResetStep>,
    /// How a virtual function is found again.
    pub(super) site: Option<VfLocation>,
}

/// A write to the low half of a register, as part of a reset.
#[derive(Clone, Copy, Debug)]
struct ResetStep {
    /// DW number of the register.
    register: u16,
    clear: u32,
    set: u32,
    /// Time that the function may take for this step.
    time: Duration,
}

/// Returns how to reset a function: by FLR (`PCIe 5.0 §6.6.2`), or else by a return from D3hot if that does a soft reset (§5.3.1.4).
async fn reset_steps(cpu: &Cpu, function: &Function) -> Result<Vec<ResetStep>, HostError> {
    let able = pcie::device_capabilities::FUNCTION_LEVEL_RESET;
    if let Some(facts) = function.pcie.filter(|facts| facts.device_capabilities & able != 0) {
        let (register, set) = (facts.at + pcie::DEVICE_CONTROL, pcie::device_control::INITIATE_FLR);
        return Ok(vec![ResetStep { register, clear: 0, set, time: FLR_TIME }]);
    }
    let Some(at) = function.capability(pm::ID) else { return Ok(Vec::new()) };
    let register = at + pm::CONTROL;
    let control = cpu.config_read(function.bdf(), register).await?;
    let step = |set| ResetStep { register, clear: pm::POWER_STATE, set, time: POWER_TIME };
    let is_soft = control & pm::NO_SOFT_RESET == 0;
    Ok(if is_soft { [pm::POWER_STATE, 0].map(step).into() } else { Vec::new() })
}

/// Firmware that places the functions below a host for a machine.
pub(super) struct FunctionPlacement {
    map: HostMap,
    /// The slots of the host, by the path of function 0.
    slots: Vec<(Path, String)>,
    /// If not empty, only these virtual functions, with their names.
    virtual_functions: Vec<(String, VirtualFunction)>,
}

impl FunctionPlacement {
    /// Firmware for all functions below the host of this name: `host root` or `host NAME`.
    pub(super) fn new(file: &LabFile, place: &str) -> Result<FunctionPlacement, VmError> {
        let slots = Hierarchy::new(file, place)?.slots();
        let policy = Policy {
            mrrs: file.lab.link.mrrs_bytes.map_or_else(Default::default, |m| m.0),
            hot_plug_buses: HOT_PLUG_BUSES,
            vfs: VfPolicy::Off,
            // The machine sets up its interrupts, and takes no error messages.
            msi: false,
            msix: false,
            error_reporting: false,
            ..Policy::default()
        };
        let map = HostMap { policy, intx_lines: [0, 1, 2, 3], ..HostMap::default() };
        Ok(FunctionPlacement { map, slots, virtual_functions: Vec::new() })
    }

    /// Firmware only for the virtual functions of these names: `SLOT.virtfnN`, counted from 0 as in sysfs.
    pub(super) fn of_virtual_functions<'n>(
        file: &LabFile,
        place: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<FunctionPlacement, VmError> {
        let mut placement = FunctionPlacement::new(file, place)?;
        let mut counts = BTreeMap::<Path, u16>::new();
        for name in names {
            let function = VirtualFunction::named(file, &placement.slots, name)?;
            let count = counts.entry(function.pf.clone()).or_default();
            *count = (*count).max(function.index + 1);
            placement.virtual_functions.push((name.to_owned(), function));
        }
        placement.map.policy.vfs = VfPolicy::Listed(counts);
        Ok(placement)
    }

    /// Returns the firmware as host code.
    pub(super) fn code(&self) -> impl FnOnce(Cpu) -> Placing + use<> {
        let (map, slots) = (self.map.clone(), self.slots.clone());
        let virtual_functions = self.virtual_functions.clone();
        move |cpu| {
            Box::pin(async move {
                let system = enumerate_host(&cpu, &map).await?;
                match virtual_functions.is_empty() {
                    true => place(&cpu, &system, &slots).await,
                    false => place_virtual(&cpu, &system, virtual_functions).await,
                }
            })
        }
    }
}

pub(super) type Placing = std::pin::Pin<Box<dyn Future<Output = Result<Vec<Placed>, DriverError>>>>;

async fn place(cpu: &Cpu, system: &System, slots: &[(Path, String)]) -> Result<Vec<Placed>, DriverError> {
    let mut all = Vec::new();
    for function in system.functions().filter(|f| f.header_type == 0 && f.parent.is_some()) {
        let Some(name) = name(slots, &function.path) else { continue };
        let placed = look(cpu, system, function, name).await;
        all.push(placed.map_err(|e| DriverError::from(e).at(format!("function {}", function.bdf())))?);
    }
    Ok(all)
}

/// Returns the properties of virtual functions, in the order of their names.
async fn place_virtual(
    cpu: &Cpu,
    system: &System,
    all: Vec<(String, VirtualFunction)>,
) -> Result<Vec<Placed>, DriverError> {
    let mut placed = Vec::new();
    for (name, function) in all {
        let place = || format!("`{name}`");
        let wrong = || DriverError::from("not found by enumeration").at(place());
        let physical = system.at_path(&function.pf).ok_or_else(wrong)?;
        let found = physical.sriov.ok_or_else(wrong)?;
        let vf =
            found.vf(physical.bdf(), function.index).and_then(|bdf| system.get(bdf)).ok_or_else(wrong)?;
        let seen = look(cpu, system, vf, name.clone()).await;
        let mut seen = seen.map_err(|e| DriverError::from(e).at(place()))?;
        seen.recovery.site = Some(VfLocation { function, sriov: found.at });
        placed.push(seen);
    }
    Ok(placed)
}

/// Returns the name of the function at `path`.
fn name(slots: &[(Path, String)], path: &Path) -> Option<String> {
    let (number, above) = path.0.split_last()?;
    let (_, slot) = slots.iter().find(|(of, _)| of.0.split_last().is_some_and(|(_, of)| of == above))?;
    Some(if *number == 0 { slot.clone() } else { format!("{slot}.{number}") })
}

async fn look(cpu: &Cpu, system: &System, function: &Function, name: String) -> Result<Placed, HostError> {
    let (bdf, mut restore) = (function.bdf(), Vec::new());
    let physical = function.vf_of.and_then(|pf| Some((pf, system.get(pf)?.sriov?.at)));
    // Virtual functions have no BAR registers (`PCIe 5.0 §9.3.4.1`).
    let (of, bar0) = physical.map_or((bdf, type0::BAR0), |(pf, at)| (pf, at + sriov::VF_BAR0));
    let mut bars = [None; 6];
    for (n, bar) in bars.iter_mut().enumerate() {
        let found = function.found.bars[n].or(function.found.io_bars[n]);
        let Some(found) = found else { continue };
        let at = bar0 + n as u16;
        let value = cpu.config_read(of, at).await?;
        let is_io = value & 1 != 0;
        *bar = Some(BarFacts {
            address: found.address,
            size: found.size,
            kind: value & if is_io { 3 } else { 15 },
        });
        if of != bdf {
            continue;
        }
        restore.push((at, ALL_BYTES, found.address as u32));
        if !is_io && value & 0b100 != 0 {
            restore.push((at + 1, ALL_BYTES, (found.address >> 32) as u32));
        }
    }
    let mut of_pcie = None;
    if let Some(facts) = function.pcie {
        for register in [pcie::DEVICE_CONTROL, pcie::LINK_CONTROL, pcie::DEVICE_CONTROL_2] {
            let at = facts.at + register;
            let value = cpu.config_read(bdf, at).await?;
            if register == pcie::DEVICE_CONTROL {
                of_pcie = Some((facts.at, (value & pcie::device_control::MPS) as u8));
            }
            restore.push((at, LOW_HALF, value));
        }
    }
    let of_msi = match function.capability(msi::ID) {
        Some(at) => Some((at, 1 << get(cpu.config_read(bdf, at).await?, msi::MULTIPLE_CAPABLE).min(5))),
        None => None,
    };
    let of_msix = match function.capability(msix::ID) {
        Some(at) => msix_of(cpu, function, at).await?,
        None => None,
    };
    // The machine enables the function.
    cpu.config_write(bdf, header::COMMAND_STATUS, LOW_HALF, 0).await?;
    let facts = Facts {
        function: bdf,
        virtual_id: physical
            .map(|_| u32::from(function.found.device) << 16 | u32::from(function.found.vendor)),
        bars,
        wire: wire(system, function),
        pcie: of_pcie,
        msi: of_msi,
        msix: of_msix,
        restore,
    };
    let recovery = Recovery { resets: reset_steps(cpu, function).await?, site: None };
    Ok(Placed { name, facts, recovery })
}

/// Returns MSI-X of a function: the register of its capability, the number of vectors, and the address of its table.
async fn msix_of(cpu: &Cpu, function: &Function, at: u16) -> Result<Option<(u16, u16, u64)>, HostError> {
    let vectors = get(cpu.config_read(function.bdf(), at).await?, msix::TABLE_SIZE) as u16 + 1;
    let place = cpu.config_read(function.bdf(), at + msix::TABLE_PLACE).await?;
    let bar = get(place, msix::TABLE_BIR) as u8;
    let table = function.found.address(bar, u64::from(place & msix::TABLE_OFFSET));
    Ok(table.ok().map(|table| (at, vectors, table)))
}

/// Returns the root port above a function and the wire on which its INTx arrives there. Firmware also rotates lines by the device number of
/// the root port.
fn wire(system: &System, function: &Function) -> Option<(Bdf, Wire)> {
    let Interrupt::Intx { line, .. } = function.interrupt else { return None };
    let mut root_port = function;
    while let Some(above) = root_port.parent.and_then(|bdf| system.get(bdf)) {
        root_port = above;
    }
    let wire = Wire::ALL[usize::from(line.wrapping_sub(root_port.bdf().device()) % 4)];
    Some((root_port.bdf(), wire))
}

/// Returns host code that resets a function and places it again.
pub(super) fn reset(facts: &Facts, recovery: &Recovery) -> impl FnOnce(Cpu) -> Resetting + use<> {
    let (Facts { function: bdf, restore, .. }, resets) = (facts.clone(), recovery.resets.clone());
    move |cpu| {
        Box::pin(async move {
            let done = async {
                // Transactions in progress end before the reset (`PCIe 5.0 §6.6.2`).
                cpu.config_write(bdf, header::COMMAND_STATUS, LOW_HALF, 0).await?;
                for ResetStep { register, clear, set, time } in resets {
                    let value = cpu.config_read(bdf, register).await?;
                    cpu.config_write(bdf, register, LOW_HALF, value & !clear | set).await?;
                    cpu.sleep(time).await;
                }
                for (register, enables, value) in restore {
                    cpu.config_write(bdf, register, enables, value).await?;
                }
                Ok(())
            };
            done.await
                .map_err(|e: HostError| DriverError::from(e).at(format!("function {bdf}: reset failed")))
        })
    }
}

pub(super) type Resetting = std::pin::Pin<Box<dyn Future<Output = Result<(), DriverError>>>>;
