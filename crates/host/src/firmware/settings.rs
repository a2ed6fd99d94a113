// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets up functions by the policy of their host: sizes, tags, attributes, error reporting, ACS.

use super::error::FirmwareError;
use super::host_map::{AcsPolicy, HostMap, MpsPolicy, Policy};
use super::registers::{device, extended, type1};
use super::system::{Function, PcieFacts};
use super::{ALL_BYTES, Config, LOW_HALF};
use crate::cpu::Cpu;
use config::PortType;
use config::cap::pcie;
use config::cap::pcie::{device_control, device_control_2, link_control};
use config::ext::aer;
use config::header;
use config::register::put;
use std::collections::BTreeMap;
use tlp::{Bdf, Mps, Mrrs, Rcb};

/// Settings that all functions below a root port share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    mps: Mps,
    rcb: Rcb,
}

/// Chooses the shared settings below each root port, by the port's number.
pub(super) async fn common(
    cpu: &Cpu,
    map: &HostMap,
    functions: &BTreeMap<Bdf, Function>,
) -> Result<BTreeMap<usize, Common>, FirmwareError> {
    let mut least: BTreeMap<usize, Mps> = BTreeMap::new();
    for function in functions.values().filter(|f| f.vf_of.is_none()) {
        let Some(supported) = function.pcie.map(|p| mps_supported(&p)) else { continue };
        let entry = least.entry(function.found.port).or_insert(supported);
        *entry = (*entry).min(bound_of(function, supported));
        if let MpsPolicy::Fixed(mps) = map.policy.mps
            && mps > supported
        {
            return Err(beyond(function, mps, supported).into());
        }
    }
    let of_all = least.values().min().copied().unwrap_or_default();
    let mut commons = BTreeMap::new();
    for (port, least) in least {
        let mps = match map.policy.mps {
            MpsPolicy::Path => least,
            MpsPolicy::Peer => of_all,
            MpsPolicy::Fixed(mps) => mps,
        };
        let rcb = rcb(cpu, &map.policy, functions, port).await?;
        commons.insert(port, Common { mps, rcb });
    }
    Ok(commons)
}

/// Returns the shared settings below `bridge`, which new functions there must use. Below a root port, [`MpsPolicy::Path`]
/// chooses Max_Payload_Size again.
pub(super) async fn common_below(
    cpu: &Cpu,
    map: &HostMap,
    functions: &BTreeMap<Bdf, Function>,
    bridge: &Function,
    added: &[Bdf],
) -> Result<Common, FirmwareError> {
    let alone = bridge.parent.is_none() && map.policy.mps == MpsPolicy::Path;
    let mut mps = bridge.mps;
    if let Some(own) = bridge.pcie.filter(|_| alone) {
        // All functions that share the size are new, except for the port itself.
        let all = added.iter().filter_map(|bdf| functions.get(bdf));
        let bounds = all.filter_map(|f| Some(bound_of(f, mps_supported(&f.pcie?))));
        mps = bounds.fold(mps_supported(&own), Mps::min);
    }
    for function in added.iter().filter_map(|bdf| functions.get(bdf)) {
        let supported = function.pcie.map(|p| mps_supported(&p));
        if let Some(supported) = supported.filter(|s| *s < mps) {
            return Err(beyond(function, mps, supported).into());
        }
    }
    let rcb = rcb(cpu, &map.policy, functions, bridge.found.port).await?;
    Ok(Common { mps, rcb })
}

/// Returns the limit of a function that supports `supported` for its path's size. Any device may be inserted into a
/// switch's slot later, while the sizes of the other devices stay.
fn bound_of(function: &Function, supported: Mps) -> Mps {
    if function.hot_plug() && function.parent.is_some() { Mps::default() } else { supported }
}

fn beyond(function: &Function, mps: Mps, supported: Mps) -> String {
    format!("function {}: Max_Payload_Size of {mps}: it supports {supported}", function.bdf())
}

fn mps_supported(pcie: &PcieFacts) -> Mps {
    Mps::from_encoding((pcie.device_capabilities & 0b111) as u8).unwrap_or_default()
}

/// Read Completion Boundary of root port `port`, from its Link Control.
async fn rcb(
    cpu: &Cpu,
    policy: &Policy,
    functions: &BTreeMap<Bdf, Function>,
    port: usize,
) -> Result<Rcb, FirmwareError> {
    if let Some(rcb) = policy.rcb {
        return Ok(rcb);
    }
    let mut ports = functions.values().filter(|f| f.parent.is_none() && f.found.port == port);
    let Some(root) = ports.find(|f| f.port_type() == Some(PortType::RootPort)) else {
        return Ok(Rcb::default());
    };
    let at = root.pcie.map_or(0, |p| p.at);
    let control = Config { cpu, bdf: root.bdf() }.read(at + pcie::LINK_CONTROL).await?;
    Ok(Rcb::new(if control & link_control::RCB_128 == 0 { 64 } else { 128 }).unwrap_or_default())
}

/// Sets up one function.
pub(super) async fn apply(
    cpu: &Cpu,
    policy: &Policy,
    functions: &mut BTreeMap<Bdf, Function>,
    bdf: Bdf,
    common: Common,
) -> Result<(), FirmwareError> {
    let ten_bit = policy.ten_bit_tags && path_takes_ten_bits(functions, bdf);
    let Some(function) = functions.get_mut(&bdf) else { return Ok(()) };
    let config = Config { cpu, bdf };
    if let Some(pcie) = function.pcie {
        function.mps = common.mps;
        let mrrs = policy.mrrs_of.get(&function.path).copied().unwrap_or(policy.mrrs);
        config.device_control(policy, &pcie, common.mps, mrrs, ten_bit).await?;
        if pcie.port == Some(PortType::Endpoint) && function.parent.is_some() {
            let rcb = if common.rcb.bytes() == 128 { link_control::RCB_128 } else { 0 };
            config.change(pcie.at + pcie::LINK_CONTROL, link_control::RCB_128, rcb).await?;
        }
    }
    if policy.error_reporting {
        config.report_errors(function).await?;
    }
    config.access_control(policy, function).await?;
    config.digests(policy, function).await
}

/// True if requests of this function may have 10-bit tags up to the root complex, and completions on the way back
/// (`PCIe 5.0 §2.2.6.2`).
fn path_takes_ten_bits(functions: &BTreeMap<Bdf, Function>, bdf: Bdf) -> bool {
    let mut next = Some(bdf);
    while let Some(function) = next.and_then(|bdf| functions.get(&bdf)) {
        let takes = |p: PcieFacts| p.device_capabilities_2 & device::TEN_BIT_COMPLETER != 0;
        if !function.pcie.is_some_and(takes) {
            return false;
        }
        next = function.parent;
    }
    true
}

impl Config<'_> {
    async fn device_control(
        &self,
        policy: &Policy,
        pcie: &PcieFacts,
        mps: Mps,
        mrrs: Mrrs,
        ten_bit: bool,
    ) -> Result<(), FirmwareError> {
        let tags = policy.extended_tags && pcie.device_capabilities & device::EXTENDED_TAG_SUPPORTED != 0;
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        let control = bit(policy.error_reporting, device::ERROR_REPORTING)
            | bit(policy.relaxed_ordering, device_control::RELAXED_ORDERING)
            | bit(tags, device_control::EXTENDED_TAG)
            | bit(policy.no_snoop, device_control::NO_SNOOP)
            | put(device_control::MPS, mps.encoding().into())
            | put(device_control::MRRS, mrrs.encoding().into());
        self.write(pcie.at + pcie::DEVICE_CONTROL, LOW_HALF, control).await?;
        let ten_bit = ten_bit && pcie.device_capabilities_2 & device::TEN_BIT_REQUESTER != 0;
        let is_root = pcie.port == Some(PortType::RootPort);
        let control_2 =
            bit(ten_bit, device_control_2::TEN_BIT_TAG) | bit(is_root, device_control_2::ATOMIC_REQUESTER);
        if control_2 != 0 {
            self.change(pcie.at + pcie::DEVICE_CONTROL_2, 0, control_2).await?;
        }
        Ok(())
    }

    /// Enables a bridge to forward error messages, and a root port to send interrupts for them (`PCIe 5.0 §6.2.4`,
    /// `§6.2.6`). Device Control selects the errors to report; SERR# Enable is set with the other bits of Command.
    async fn report_errors(&self, function: &Function) -> Result<(), FirmwareError> {
        if function.bridge.is_some() {
            let control = self.read(header::INTERRUPT).await?;
            self.write(header::INTERRUPT, 0b0100, control | type1::SERR_ENABLE).await?;
        }
        let is_root = function.port_type() == Some(PortType::RootPort);
        let Some(at) = function.extended_capability(extended::AER).filter(|_| is_root) else { return Ok(()) };
        self.write(at + extended::ROOT_ERROR_COMMAND, ALL_BYTES, extended::ROOT_ERROR_ENABLES).await
    }

    /// Sets ECRC Generation Enable by the policy. A function without the capability ignores it.
    async fn digests(&self, policy: &Policy, function: &Function) -> Result<(), FirmwareError> {
        let wanted = match function.port_type() {
            Some(PortType::RootPort) => policy.ecrc.root_ports,
            _ => policy.ecrc.devices && function.bridge.is_none(),
        };
        match function.extended_capability(extended::AER).filter(|_| wanted) {
            Some(at) => self.change(at + aer::CONTROL, 0, aer::control::ECRC_GENERATION).await,
            None => Ok(()),
        }
    }

    async fn access_control(&self, policy: &Policy, function: &Function) -> Result<(), FirmwareError> {
        let Some(at) = function.extended_capability(extended::ACS) else { return Ok(()) };
        if function.bridge.is_none() {
            return Ok(());
        }
        let capability = self.read(at + 1).await?;
        let wanted = match policy.acs {
            AcsPolicy::Off => 0,
            AcsPolicy::Redirect => capability & extended::ACS_REDIRECT,
        };
        self.write(at + 1, 0b1100, wanted << 16).await
    }
}
