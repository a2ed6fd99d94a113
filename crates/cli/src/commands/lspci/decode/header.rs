// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header of a function: Command and Status, BARs, and what a bridge forwards (`PCIe 5.0 §7.5.1`).

use super::space::{Lines, Space, field, sign, signs, size};

const COMMAND: [(&str, u32); 11] = [
    ("I/O", 0),
    ("Mem", 1),
    ("BusMaster", 2),
    ("SpecCycle", 3),
    ("MemWINV", 4),
    ("VGASnoop", 5),
    ("ParErr", 6),
    ("Stepping", 7),
    ("SERR", 8),
    ("FastB2B", 9),
    ("DisINTx", 10),
];
const BRIDGE_CONTROL: [(&str, u32); 8] = [
    ("Parity", 0),
    ("SERR", 1),
    ("NoISA", 2),
    ("VGA", 3),
    ("VGA16", 4),
    ("MAbort", 5),
    (">Reset", 6),
    ("FastB2B", 7),
];
const BRIDGE_TIMERS: [(&str, u32); 4] =
    [("PriDiscTmr", 8), ("SecDiscTmr", 9), ("DiscTmrStat", 10), ("DiscTmrSERREn", 11)];
const DEVSEL: [&str; 4] = ["fast", "medium", "slow", "??"];
const ROM: usize = 6;

/// Shows the header; `sizes` as in [`super::function`].
pub(super) fn show(space: &Space<'_>, sizes: &[u64; 7], lines: &mut Lines) {
    let command = u32::from(space.half(4));
    if let Some(at) = subsystem(space) {
        lines.line(1, format!("Subsystem: {:04x}:{:04x}", space.half(at), space.half(at + 2)));
    }
    lines.line(1, format!("Control: {}", signs(command, &COMMAND)));
    let status = u32::from(space.half(6));
    let first = signs(status, &[("Cap", 4), ("66MHz", 5), ("UDF", 6), ("FastB2B", 7), ("ParErr", 8)]);
    let (devsel, serr, intx) = (DEVSEL[field(status, 10, 9) as usize], sign(status, 14), sign(status, 3));
    let aborts = aborts(status);
    lines.line(
        1,
        format!("Status: {first} DEVSEL={devsel} {aborts} >SERR{serr} <PERR{} INTx{intx}", sign(status, 15)),
    );
    if command >> 2 & 1 == 1 {
        lines.line(1, latency(space));
    }
    let (line, pin) = (space.byte(0x3c), space.byte(0x3d));
    if pin != 0 || line != 0 {
        let pin = if (1..=26).contains(&pin) { char::from(b'@' + pin) } else { '?' };
        lines.line(1, format!("Interrupt: pin {pin} routed to IRQ {line}"));
    }
    show_bars(space, sizes, command, lines);
    if space.is_bridge() {
        show_bridge(space, lines);
    }
    show_rom(space, sizes[ROM], command, lines);
    if space.is_bridge() {
        let control = u32::from(space.half(0x3e));
        lines.line(1, format!("BridgeCtl: {}", signs(control, &BRIDGE_CONTROL)));
        lines.line(2, signs(control, &BRIDGE_TIMERS));
    }
}

/// Where the subsystem's ids stand: of a bridge in a capability.
fn subsystem(space: &Space<'_>) -> Option<u16> {
    if !space.is_bridge() {
        return Some(0x2c).filter(|at| space.dw(*at) != 0);
    }
    let own = |h: &super::Head| h.version.is_none() && h.id == u16::from(config::cap::ssid::ID);
    super::heads(space).into_iter().find(own).map(|h| h.at + 4)
}

/// Target and master aborts of Status or Secondary Status.
fn aborts(status: u32) -> String {
    signs(status, &[(">TAbort", 11), ("<TAbort", 12), ("<MAbort", 13)])
}

fn latency(space: &Space<'_>) -> String {
    // Cache Line Size counts DWs.
    let line = match u32::from(space.byte(0x0c)) * 4 {
        0 => String::new(),
        bytes => format!(", Cache Line Size: {bytes} bytes"),
    };
    format!("Latency: {}{line}", space.byte(0x0d))
}

fn show_bars(space: &Space<'_>, sizes: &[u64; 7], command: u32, lines: &mut Lines) {
    let count = if space.is_bridge() { 2 } else { 6 };
    let mut index = 0;
    while index < count {
        let low = space.dw(0x10 + index * 4);
        let is_64 = low & 0b111 == 0b100 && index + 1 < count;
        let bytes = sizes[usize::from(index)];
        if low != 0 || bytes != 0 {
            let high = if is_64 { space.dw(0x14 + index * 4) } else { 0 };
            let off = if command >> u32::from(low & 1 == 0) & 1 == 0 { " [disabled]" } else { "" };
            let what = region(u64::from(high) << 32 | u64::from(low));
            let bytes = if bytes == 0 { String::new() } else { format!(" [size={}]", size(bytes)) };
            lines.line(1, format!("Region {index}: {what}{off}{bytes}"));
        }
        index += if is_64 { 2 } else { 1 };
    }
}

/// What a BAR says of its window.
pub(super) fn region(bar: u64) -> String {
    let at = |address: u64, digits: usize| match address {
        0 => "<unassigned>".to_owned(),
        address => format!("{address:0digits$x}"),
    };
    if bar & 1 == 1 {
        return format!("I/O ports at {}", at(bar & !0b11, 4));
    }
    let (width, digits) = if bar & 0b100 == 0 { ("32-bit", 8) } else { ("64-bit", 1) };
    let prefetchable = if bar & 0b1000 == 0 { "non-prefetchable" } else { "prefetchable" };
    format!("Memory at {} ({width}, {prefetchable})", at(bar & !0xf, digits))
}

fn show_rom(space: &Space<'_>, bytes: u64, command: u32, lines: &mut Lines) {
    let rom = space.dw(if space.is_bridge() { 0x38 } else { 0x30 });
    let address = rom & !0x7ff;
    if address == 0 && bytes == 0 {
        return;
    }
    let off = match (rom & 1, command >> 1 & 1) {
        (0, _) => " [disabled]",
        (_, 0) => " [disabled by cmd]",
        _ => "",
    };
    let bytes = if bytes == 0 { String::new() } else { format!(" [size={}]", size(bytes)) };
    let address = if address == 0 { "<unassigned>".to_owned() } else { format!("{address:08x}") };
    lines.line(1, format!("Expansion ROM at {address}{off}{bytes}"));
}

/// Bus numbers and windows (`PCIe 5.0 §7.5.1.3`).
fn show_bridge(space: &Space<'_>, lines: &mut Lines) {
    let [primary, secondary, subordinate, timer] = space.dw(0x18).to_le_bytes();
    lines.line(
        1,
        format!(
            "Bus: primary={primary:02x}, secondary={secondary:02x}, subordinate={subordinate:02x}, sec-latency={timer}"
        ),
    );
    for window in windows(space) {
        lines.line(1, window.text());
    }
    let status = u32::from(space.half(0x1e));
    let first = signs(status, &[("66MHz", 5), ("FastB2B", 7), ("ParErr", 8)]);
    let devsel = DEVSEL[field(status, 10, 9) as usize];
    let (serr, perr) = (sign(status, 14), sign(status, 15));
    lines.line(
        1,
        format!("Secondary status: {first} DEVSEL={devsel} {} <SERR{serr} <PERR{perr}", aborts(status)),
    );
}

/// A range that a bridge forwards.
struct Forwarded {
    what: &'static str,
    first: u64,
    last: u64,
    bits: u8,
}

impl Forwarded {
    fn text(&self) -> String {
        let Forwarded { what, first, last, bits } = self;
        let digits = if *bits == 64 { 16 } else { 8 };
        let state = match first <= last {
            true => format!("[size={}]", size(last - first + 1)),
            false => "[disabled]".to_owned(),
        };
        format!("{what} behind bridge: {first:0digits$x}-{last:0digits$x} {state} [{bits}-bit]")
    }
}

fn windows(space: &Space<'_>) -> Vec<Forwarded> {
    let mut all = Vec::new();
    let (base, limit) = (u64::from(space.byte(0x1c)), u64::from(space.byte(0x1d)));
    if base | limit != 0 {
        let wide = base & 0xf == 1;
        let upper = |at| if wide { u64::from(space.half(at)) << 16 } else { 0 };
        let first = (base & 0xf0) << 8 | upper(0x30);
        let last = (limit & 0xf0) << 8 | upper(0x32) | 0xfff;
        all.push(Forwarded { what: "I/O", first, last, bits: if wide { 32 } else { 16 } });
    }
    let memory = |at: u16| u64::from(space.half(at) & 0xfff0) << 16;
    all.push(Forwarded { what: "Memory", first: memory(0x20), last: memory(0x22) | 0xf_ffff, bits: 32 });
    if space.dw(0x24) != 0 {
        let wide = space.half(0x24) & 0xf == 1;
        let upper = |at| if wide { u64::from(space.dw(at)) << 32 } else { 0 };
        let first = memory(0x24) | upper(0x28);
        let last = memory(0x26) | upper(0x2c) | 0xf_ffff;
        all.push(Forwarded { what: "Prefetchable memory", first, last, bits: if wide { 64 } else { 32 } });
    }
    all
}
