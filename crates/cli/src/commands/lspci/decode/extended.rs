// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended capabilities: which shows which, and the small ones.

use super::space::{Lines, Space, field, hex, signs};
use super::{Head, channels, errors, title, virtualization};
use config::ext;

/// What stands for a time whose scale is reserved.
const RESERVED: &str = "<error>";
/// T_POWER_ON Scale (`PCIe 5.0 §7.8.3.2`).
const POWER_ON_SCALES_US: [u32; 3] = [2, 10, 100];

/// Shows an extended capability; one that is not known by its ID.
pub(super) fn show(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let show = match head.id {
        ext::aer::ID => errors::reporting,
        ext::dpc::ID => errors::containment,
        ext::vc::ID => channels::show,
        ext::acs::ID => virtualization::access_control,
        ext::ari::ID => virtualization::alternative_routing,
        ext::ats::ID => virtualization::address_translation,
        ext::sriov::ID => virtualization::single_root,
        ext::pri::ID => virtualization::page_request,
        ext::pasid::ID => virtualization::process_address_space,
        ext::serial::ID => serial_number,
        ext::vendor::ID => vendor_specific,
        ext::resizable::ID => resizable,
        ext::ltr::ID => latency_tolerance,
        ext::secondary::ID => secondary,
        ext::l1ss::ID => substates,
        ext::ptm::ID => precision_time,
        ext::data_link_feature::ID => link_feature,
        ext::physical_16::ID => physical_16,
        ext::physical_32::ID => physical_32,
        _ => by_name,
    };
    show(space, head, lines);
}

fn by_name(_: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
}

fn serial_number(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let bytes = (4..12).rev().map(|i| space.byte(head.at + i));
    lines.capability(head, format!("{} {}", title(head), hex(bytes).replace(' ', "-")));
}

fn vendor_specific(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let own = space.dw(head.at + 4);
    let (id, revision, len) = (own & 0xffff, field(own, 19, 16), own >> 20);
    lines.capability(head, format!("{}: ID={id:04x} Rev={revision} Len={len:03x}", title(head)));
    if len > 8 {
        lines.line(
            2,
            format!("Data: {}", hex((8..len as u16).map(|i| space.byte(head.at.saturating_add(i))))),
        );
    }
}

/// Resizable BAR (`PCIe 5.0 §7.8.6`): bit n of the sizes is 2^n MB.
fn resizable(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let count = field(space.dw(head.at + 8), 7, 5).min(6) as u16;
    for n in 0..count {
        let (capability, control) = (space.dw(head.at + 4 + n * 8), space.dw(head.at + 8 + n * 8));
        let sizes = u64::from(field(control, 31, 16)) << 28 | u64::from(capability >> 4);
        let supported: Vec<String> =
            (0..44).filter(|bit| sizes >> bit & 1 == 1).map(|bit| megabytes(bit) + " ").collect();
        let (bar, size) = (control & 0b111, megabytes(field(control, 13, 8)));
        let text = format!("BAR {bar}: current size: {size}, supported: {}", supported.concat());
        lines.line(2, text.trim_end());
    }
}

/// 2^n MB.
fn megabytes(n: u32) -> String {
    let units = ["MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    format!("{}{}", 1 << (n % 10), units[(n / 10) as usize])
}

fn latency_tolerance(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    for (what, at) in [("Max snoop latency", 4), ("Max no snoop latency", 6)] {
        let value = u32::from(space.half(head.at + at));
        lines.line(2, format!("{what}: {}", scaled(field(value, 9, 0), field(value, 12, 10))));
    }
}

/// Latency as messages have it: `value` times 32^`scale` ns (`PCIe 5.0 §6.18`).
fn scaled(value: u32, scale: u32) -> String {
    match scale {
        0..=5 => format!("{}ns", u64::from(value) << (5 * scale)),
        _ => RESERVED.to_owned(),
    }
}

fn secondary(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let set = [("LnkEquIntrruptEn", 1), ("PerformEqu", 0)];
    lines.line(2, format!("LnkCtl3: {}", signs(space.dw(head.at + 4), &set)));
    let errors = space.dw(head.at + 8);
    let lanes: Vec<String> = (0..32).filter(|n| errors >> n & 1 == 1).map(|n| format!(" {n}")).collect();
    let text = if lanes.is_empty() { "0".to_owned() } else { format!("LaneErr at lane:{}", lanes.concat()) };
    lines.line(2, format!("LaneErrStat: {text}"));
}

/// L1 PM Substates (`PCIe 5.0 §7.8.3`).
fn substates(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let (capability, first, second) = (space.dw(head.at + 4), space.dw(head.at + 8), space.dw(head.at + 0xc));
    let states = [("PCI-PM_L1.2", 0), ("PCI-PM_L1.1", 1), ("ASPM_L1.2", 2), ("ASPM_L1.1", 3)];
    let able = signs(capability, &[("L1_PM_Substates", 4)]);
    lines.line(2, format!("L1SubCap: {} {able}", signs(capability, &states)));
    let has_l12 = capability & 0b101 != 0;
    let power_on = |value: u32, scale: u32| match scale {
        0..=2 => format!("{}us", value * POWER_ON_SCALES_US[scale as usize]),
        _ => RESERVED.to_owned(),
    };
    if has_l12 {
        let restore = field(capability, 15, 8);
        let power = power_on(field(capability, 23, 19), field(capability, 17, 16));
        lines.line(3, format!("  PortCommonModeRestoreTime={restore}us PortTPowerOnTime={power}"));
    }
    lines.line(2, format!("L1SubCtl1: {}", signs(first, &states)));
    if has_l12 {
        let (mode, threshold) = (field(first, 15, 8), scaled(field(first, 25, 16), field(first, 31, 29)));
        lines.line(3, format!("   T_CommonMode={mode}us LTR1.2_Threshold={threshold}"));
    }
    let power = power_on(field(second, 7, 3), field(second, 1, 0));
    lines.line(2, if has_l12 { format!("L1SubCtl2: T_PwrOn={power}") } else { "L1SubCtl2:".to_owned() });
}

/// Precision Time Measurement (`PCIe 5.0 §7.9.16`).
fn precision_time(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let (capability, control) = (space.dw(head.at + 4), space.dw(head.at + 8));
    let granularity = |value: u32| match field(value, 15, 8) {
        0 => "Unknown".to_owned(),
        0xff => "Greater than 254ns".to_owned(),
        ns => format!("{ns}ns"),
    };
    let able = [("Requester:", 0), ("Responder:", 1), ("Root:", 2)];
    lines.line(2, format!("PTMCap: {}", signs(capability, &able)));
    lines.line(2, format!("PTMClockGranularity: {}", granularity(capability)));
    lines.line(2, format!("PTMControl: {}", signs(control, &[("Enabled:", 0), ("RootSelected:", 1)])));
    lines.line(2, format!("PTMEffectiveGranularity: {}", granularity(control)));
}

/// Data Link Feature (`PCIe 5.0 §7.7.4`).
fn link_feature(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let (local, remote) = (space.dw(head.at + 4), space.dw(head.at + 8));
    lines.line(2, format!("Local: {}", signs(local, &[("ScaledFlowControl", 0), ("Exchange", 31)])));
    lines.line(2, format!("Remote: {}", signs(remote, &[("ScaledFlowControl", 0), ("Valid", 31)])));
}

const PHASES: [(&str, u32); 4] = [("EquComplete", 0), ("EquPhase1", 1), ("EquPhase2", 2), ("EquPhase3", 3)];

/// Physical Layer 16.0 GT/s (`PCIe 5.0 §7.7.5`).
fn physical_16(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let status = space.dw(head.at + 0xc);
    let request = signs(status, &[("LinkEquRequest", 4)]);
    lines.line(2, format!("Phy16Sta: {} {request}", signs(status, &PHASES)));
    let parity = space.dw(head.at + 0x10);
    lines.line(2, format!("LocalParityMismatch: {parity:08x}"));
}

/// Physical Layer 32.0 GT/s (`PCIe 5.0 §7.7.6`).
fn physical_32(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let able = signs(space.dw(head.at + 4), &[("EquBypass", 0), ("NoEquNeeded", 1), ("ModTS0", 8)]);
    lines.line(2, format!("Phy32Cap: {able}"));
    let status = space.dw(head.at + 0xc);
    let request = signs(status, &[("LinkEquRequest", 5)]);
    lines.line(2, format!("Phy32Sta: {} {request}", signs(status, &PHASES)));
}
