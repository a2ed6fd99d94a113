// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Virtual Channel extended capability (`PCIe 5.0 §7.9.1`).

use super::space::{Lines, Space, field, signs};
use super::{Head, title};

/// Arbitration of ports, by its select; that of channels has the first four.
const SELECT: [&str; 6] = ["Fixed", "WRR32", "WRR64", "WRR128", "TWRR128", "WRR256"];
/// Bytes of the registers of one channel.
const CHANNEL_BYTES: u16 = 12;

/// Virtual Channels and how they are arbitrated.
pub(super) fn show(space: &Space<'_>, head: Head, lines: &mut Lines) {
    lines.capability(head, title(head));
    let dw = |offset: u16| space.dw(head.at + offset);
    let (first, second, control) = (dw(4), dw(8), dw(0xc));
    let clock = if field(first, 9, 8) == 0 { "100ns" } else { "??" };
    let (low, bits) = (field(first, 6, 4), 1 << field(first, 11, 10));
    lines.line(2, format!("Caps:\tLPEVC={low} RefClk={clock} PATEntryBits={bits}"));
    lines.line(
        2,
        format!("Arb:\t{}", signs(second, &[("Fixed", 0), ("WRR32", 1), ("WRR64", 2), ("WRR128", 3)])),
    );
    lines.line(2, format!("Ctrl:\tArbSelect={}", selected(&SELECT[..4], field(control, 3, 1))));
    lines.line(2, format!("Status:\t{}", signs(control, &[("InProgress", 16)])));
    let table = second >> 24;
    if table != 0 {
        lines.line(2, format!("VC Arbitration Table [{:x}]", u32::from(head.at) + table * 16));
    }
    for channel in 0..=field(first, 2, 0) as u16 {
        show_channel(space, head.at + 0x10 + channel * CHANNEL_BYTES, channel, lines);
    }
}

fn show_channel(space: &Space<'_>, at: u16, channel: u16, lines: &mut Lines) {
    let (capability, control, status) = (space.dw(at), space.dw(at + 4), space.dw(at + 8));
    let (table, slots) = (capability >> 24, field(capability, 22, 16) + 1);
    let snoop = signs(capability, &[("RejSnoopTrans", 15)]);
    lines.line(2, format!("VC{channel}:\tCaps:\tPATOffset={table:02x} MaxTimeSlots={slots} {snoop}"));
    let able = [("Fixed", 0), ("WRR32", 1), ("WRR64", 2), ("WRR128", 3), ("TWRR128", 4), ("WRR256", 5)];
    lines.line(3, format!("Arb:\t{}", signs(capability, &able)));
    let select = selected(&SELECT, field(control, 19, 17));
    lines.line(
        3,
        format!(
            "Ctrl:\t{} ID={} ArbSelect={select} TC/VC={:02x}",
            signs(control, &[("Enable", 31)]),
            field(control, 26, 24),
            control & 0xff
        ),
    );
    lines.line(3, format!("Status:\t{}", signs(status, &[("NegoPending", 17), ("InProgress", 16)])));
    if table != 0 {
        lines.line(3, "Port Arbitration Table");
    }
}

/// What is selected; one that the specification does not know by its number.
fn selected(names: &[&str], select: u32) -> String {
    names.get(select as usize).map_or_else(|| format!("??{select}"), |name| (*name).to_owned())
}
