// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended capabilities of functions that are shared: ACS, ARI, SR-IOV, ATS, PRI, PASID.

use super::header::region;
use super::space::{Lines, Space, field, sign, signs};
use super::{Head, title};

const ACS: [(&str, u32); 7] = [
    ("SrcValid", 0),
    ("TransBlk", 1),
    ("ReqRedir", 2),
    ("CmpltRedir", 3),
    ("UpstreamFwd", 4),
    ("EgressCtrl", 5),
    ("DirectTrans", 6),
];

/// Access Control Services (`PCIe 5.0 §7.7.8`).
pub(super) fn access_control(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let both = space.dw(head.at + 4);
    lines.line(2, format!("ACSCap:\t{}", signs(both, &ACS)));
    lines.line(2, format!("ACSCtl:\t{}", signs(both >> 16, &ACS)));
}

/// Alternative Routing-ID Interpretation (`PCIe 5.0 §7.8.7`).
pub(super) fn alternative_routing(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let both = space.dw(head.at + 4);
    let bits = [("MFVC", 0), ("ACS", 1)];
    lines.line(2, format!("ARICap:\t{}, Next Function: {}", signs(both, &bits), field(both, 15, 8)));
    lines.line(2, format!("ARICtl:\t{}, Function Group: {}", signs(both >> 16, &bits), field(both, 22, 20)));
}

/// Address Translation Service (`PCIe 5.0 §10.5.1`).
pub(super) fn address_translation(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let both = space.dw(head.at + 4);
    lines.line(2, format!("ATSCap:\tInvalidate Queue Depth: {:02x}", both & 0x1f));
    let unit = field(both, 20, 16);
    lines.line(2, format!("ATSCtl:\tEnable{}, Smallest Translation Unit: {unit:02x}", sign(both, 31)));
}

/// Page Request Interface (`PCIe 5.0 §10.5.2`).
pub(super) fn page_request(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let both = space.dw(head.at + 4);
    lines.line(2, format!("PRICtl: {}", signs(both, &[("Enable", 0), ("Reset", 1)])));
    lines.line(2, format!("PRISta: {}", signs(both, &[("RF", 16), ("UPRGI", 17), ("Stopped", 24)])));
    let (capacity, allocation) = (space.dw(head.at + 8), space.dw(head.at + 0xc));
    lines
        .line(2, format!("Page Request Capacity: {capacity:08x}, Page Request Allocation: {allocation:08x}"));
}

/// Process Address Space ID (`PCIe 5.0 §7.8.8`).
pub(super) fn process_address_space(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let both = space.dw(head.at + 4);
    let able = signs(both, &[("Exec", 1), ("Priv", 2)]);
    lines.line(2, format!("PASIDCap: {able}, Max PASID Width: {:02x}", field(both, 12, 8)));
    let set = signs(both, &[("Enable", 16), ("Exec", 17), ("Priv", 18)]);
    lines.line(2, format!("PASIDCtl: {set}"));
}

/// Single Root I/O Virtualization (`PCIe 5.0 §9.3.3`).
pub(super) fn single_root(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let dw = |offset: u16| space.dw(head.at + offset);
    let able = signs(dw(4), &[("Migration", 0), ("10BitTagReq", 2)]);
    lines.line(2, format!("IOVCap:\t{able} Interrupt Message Number: {:03x}", dw(4) >> 21));
    let set = [
        ("Enable", 0),
        ("Migration", 1),
        ("Interrupt", 2),
        ("MSE", 3),
        ("ARIHierarchy", 4),
        ("10BitTagReq", 5),
    ];
    lines.line(2, format!("IOVCtl:\t{}", signs(dw(8), &set)));
    lines.line(2, format!("IOVSta:\t{}", signs(dw(8), &[("Migration", 16)])));
    let (initial, total) = (dw(0xc) & 0xffff, dw(0xc) >> 16);
    let (number, dependency) = (dw(0x10) & 0xffff, field(dw(0x10), 23, 16));
    lines.line(
        2,
        format!(
            "Initial VFs: {initial}, Total VFs: {total}, Number of VFs: {number}, Function Dependency Link: {dependency:02x}"
        ),
    );
    let (offset, stride, id) = (dw(0x14) & 0xffff, dw(0x14) >> 16, dw(0x18) >> 16);
    lines.line(2, format!("VF offset: {offset}, stride: {stride}, Device ID: {id:04x}"));
    lines.line(2, format!("Supported Page Size: {:08x}, System Page Size: {:08x}", dw(0x1c), dw(0x20)));
    show_vf_bars(space, head, lines);
    let migration = dw(0x3c);
    lines.line(2, format!("VF Migration: offset: {:08x}, BIR: {:x}", migration & !0b111, migration & 0b111));
}

fn show_vf_bars(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let mut index = 0;
    while index < 6 {
        let at = head.at + 0x24 + index * 4;
        let low = space.dw(at);
        let is_64 = low & 0b100 != 0 && index < 5;
        if low != 0 {
            let high = if is_64 { space.dw(at + 4) } else { 0 };
            let address = u64::from(high) << 32 | u64::from(low & !0xf);
            let digits = if is_64 { 16 } else { 8 };
            // The kind as for any BAR; the address with all its digits, and where it is zero too.
            let kind = region(u64::from(low));
            let kind = kind.split_once('(').map_or("", |(_, kind)| kind);
            lines.line(2, format!("Region {index}: Memory at {address:0digits$x} ({kind}"));
        }
        index += if is_64 { 2 } else { 1 };
    }
}
