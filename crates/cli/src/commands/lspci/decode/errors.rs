// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended capabilities that are about errors: Advanced Error Reporting, Downstream Port Containment (`PCIe 5.0 §7.8.4`,
//! `§7.9.15`).

use super::space::{Lines, Space, field, sign, signs};
use super::{Head, title};

const UNCORRECTABLE: [(&str, u32); 12] = [
    ("DLP", 4),
    ("SDES", 5),
    ("TLP", 12),
    ("FCP", 13),
    ("CmpltTO", 14),
    ("CmpltAbrt", 15),
    ("UnxCmplt", 16),
    ("RxOF", 17),
    ("MalfTLP", 18),
    ("ECRC", 19),
    ("UnsupReq", 20),
    ("ACSViol", 21),
];
const CORRECTABLE: [(&str, u32); 6] =
    [("RxErr", 0), ("BadTLP", 6), ("BadDLLP", 7), ("Rollover", 8), ("Timeout", 12), ("AdvNonFatalErr", 13)];
/// Device/Port Type of a root port, and of a Root Complex Event Collector.
const ROOTS: [u32; 2] = [4, 10];

/// Advanced Error Reporting; the root registers where the PCI Express capability says that the function is a root port.
pub(super) fn reporting(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let dw = |offset: u16| space.dw(head.at + offset);
    for (what, at) in [("UESta", 4), ("UEMsk", 8), ("UESvrt", 0xc)] {
        lines.line(2, format!("{what}:\t{}", signs(dw(at), &UNCORRECTABLE)));
    }
    for (what, at) in [("CESta", 0x10), ("CEMsk", 0x14)] {
        lines.line(2, format!("{what}:\t{}", signs(dw(at), &CORRECTABLE)));
    }
    let control = dw(0x18);
    let ecrc = [("ECRCGenCap", 5), ("ECRCGenEn", 6), ("ECRCChkCap", 7), ("ECRCChkEn", 8)];
    lines.line(2, format!("AERCap:\tFirst Error Pointer: {:02x}, {}", control & 0x1f, signs(control, &ecrc)));
    let logs = [("MultHdrRecCap", 9), ("MultHdrRecEn", 10), ("TLPPfxPres", 11), ("HdrLogCap", 12)];
    lines.line(3, signs(control, &logs));
    let log = [0x1c, 0x20, 0x24, 0x28].map(|at| format!("{:08x}", dw(at)));
    lines.line(2, format!("HeaderLog: {}", log.join(" ")));
    if control >> 11 & 1 == 1 {
        let log = [0x38, 0x3c, 0x40, 0x44].map(|at| format!("{:08x}", dw(at)));
        lines.line(2, format!("PrefixLog: {}", log.join(" ")));
    }
    if is_root(space) {
        root(dw(0x2c), dw(0x30), dw(0x34), lines);
    }
}

/// True where the PCI Express capability says that the function is a root port, or collects events of such.
pub(super) fn is_root(space: &Space<'_>) -> bool {
    let express = |h: &Head| h.version.is_none() && h.id == u16::from(config::cap::pcie::ID);
    let head = super::heads(space).into_iter().find(express);
    head.is_some_and(|h| ROOTS.contains(&field(u32::from(space.half(h.at + 2)), 7, 4)))
}

fn root(command: u32, status: u32, sources: u32, lines: &mut Lines) {
    let enables = [("CERptEn", 0), ("NFERptEn", 1), ("FERptEn", 2)];
    lines.line(2, format!("RootCmd: {}", signs(command, &enables)));
    let received = [("CERcvd", 0), ("MultCERcvd", 1), ("UERcvd", 2), ("MultUERcvd", 3)];
    lines.line(2, format!("RootSta: {}", signs(status, &received)));
    let rest = signs(status, &[("FirstFatal", 4), ("NonFatalMsg", 5), ("FatalMsg", 6)]);
    lines.line(3, format!(" {rest} IntMsg {}", status >> 27));
    let (correctable, other) = (sources & 0xffff, sources >> 16);
    lines.line(2, format!("ErrorSrc: ERR_COR: {correctable:04x} ERR_FATAL/NONFATAL: {other:04x}"));
}

/// Downstream Port Containment.
pub(super) fn containment(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let (first, second) = (space.dw(head.at + 4), space.dw(head.at + 8));
    let (capability, control) = (first & 0xffff, first >> 16);
    let able = signs(capability, &[("RPExt", 5), ("PoisonedTLP", 6), ("SwTrigger", 7)]);
    lines.line(
        2,
        format!(
            "DpcCap:\tINT Msg #{}, {able} RP PIO Log {}, DL_ActiveErr{}",
            capability & 0x1f,
            field(capability, 11, 8),
            sign(capability, 12)
        ),
    );
    let set =
        [("Cmpl", 2), ("INT", 3), ("ErrCor", 4), ("PoisonedTLP", 5), ("SwTrigger", 6), ("DL_ActiveErr", 7)];
    lines.line(2, format!("DpcCtl:\tTrigger:{:x} {}", control & 0b11, signs(control, &set)));
    let (status, source) = (second & 0xffff, second >> 16);
    lines.line(
        2,
        format!(
            "DpcSta:\tTrigger{} Reason:{:02x} {} TriggerExt:{:02x} RP PIO ErrPtr:{:02x}",
            sign(status, 0),
            field(status, 2, 1),
            signs(status, &[("INT", 3), ("RPBusy", 4)]),
            field(status, 6, 5),
            field(status, 12, 8)
        ),
    );
    lines.line(2, format!("Source:\t{source:04x}"));
}
