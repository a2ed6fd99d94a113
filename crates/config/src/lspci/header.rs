// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header of a function: Command and Status, BARs, and a bridge's bus numbers and windows (`PCIe
//! 5.0 §7.5.1`).

use super::own::{Own, when};
use super::space::{Lines, Space, size};
use crate::header::{self, TYPE_0_HEADER, TYPE_1_HEADER, command, type0, type1};
use crate::register::get;

const ROM: usize = 6;

/// Shows the header; `sizes` as in [`super::function`].
pub(super) fn show(space: &Space<'_>, sizes: &[u64; 7], lines: &mut Lines) {
    if let Some(at) = subsystem(space) {
        lines.line(1, format!("Subsystem: {:04x}:{:04x}", space.half(at), space.half(at + 2)));
    }
    let mut own = Own::header(space, TYPE_0_HEADER, lines);
    own.at(header::COMMAND_STATUS).show(&[
        "\tControl: I/O{IO_SPACE+} Mem{MEMORY_SPACE+} BusMaster{BUS_MASTER+} SpecCycle{3+} MemWINV{4+} VGASnoop{5+} ",
        "ParErr{PARITY_ERROR_RESPONSE+} Stepping{7+} SERR{SERR_ENABLE+} FastB2B{9+} DisINTx{INTERRUPT_DISABLE+}",
        "\tStatus: Cap{CAPABILITIES_LIST+} 66MHz{21+} UDF{22+} FastB2B{23+} ParErr{MASTER_DATA_PARITY_ERROR+} ",
        "DEVSEL={26-25|fast|medium|slow|??} >TAbort{SIGNALED_TARGET_ABORT+} <TAbort{RECEIVED_TARGET_ABORT+} ",
        "<MAbort{RECEIVED_MASTER_ABORT+} >SERR{SIGNALED_SYSTEM_ERROR+} <PERR{DETECTED_PARITY_ERROR+} ",
        "INTx{INTERRUPT_STATUS+}",
    ]);
    let command = own.dw(header::COMMAND_STATUS);
    if command & command::BUS_MASTER != 0 {
        // Cache Line Size counts DWs.
        let bytes = get(own.dw(header::MISC), type0::CACHE_LINE_SIZE) * 4;
        let line = format!(", Cache Line Size: {bytes} bytes");
        own.at(header::MISC).show(&["\tLatency: {LATENCY_TIMER}", when(bytes != 0, &line)]);
    }
    let [line, pin, ..] = own.dw(header::INTERRUPT).to_le_bytes();
    if pin != 0 || line != 0 {
        let pin = if (1..=26).contains(&pin) { char::from(b'@' + pin) } else { '?' };
        own.lines.line(1, format!("Interrupt: pin {pin} routed to IRQ {line}"));
    }
    show_bars(space, sizes, command, own.lines);
    let mut own = Own::header(space, TYPE_1_HEADER, own.lines);
    if space.is_bridge() {
        show_bridge(&mut own);
    }
    show_rom(space, sizes[ROM], command, own.lines);
    if space.is_bridge() {
        own.at(header::INTERRUPT).show(&[
            "\tBridgeCtl: Parity{PARITY_ERROR_RESPONSE+} SERR{SERR_ENABLE+} NoISA{ISA_ENABLE+} VGA{VGA_ENABLE+} ",
            "VGA16{VGA_16_BIT+} MAbort{21+} >Reset{SECONDARY_BUS_RESET+} FastB2B{23+}",
            "\t\tPriDiscTmr{24+} SecDiscTmr{25+} DiscTmrStat{26+} DiscTmrSERREn{27+}",
        ]);
    }
}

/// Offset of the subsystem's IDs; for a bridge, in a capability.
fn subsystem(space: &Space<'_>) -> Option<u16> {
    if !space.is_bridge() {
        return Some(type0::SUBSYSTEM * 4).filter(|at| space.dw(*at) != 0);
    }
    let own = |h: &super::Head| h.version.is_none() && h.id == u16::from(crate::cap::ssid::ID);
    super::heads(space).into_iter().find(own).map(|h| h.at + 4)
}

fn show_bars(space: &Space<'_>, sizes: &[u64; 7], command: u32, lines: &mut Lines) {
    let count = u16::from(if space.is_bridge() { type1::BARS } else { type0::BARS });
    let mut index = 0;
    while index < count {
        let at = (type0::BAR0 + index) * 4;
        let low = space.dw(at);
        let is_64 = low & 0b111 == 0b100 && index + 1 < count;
        let bytes = sizes[usize::from(index)];
        if low != 0 || bytes != 0 {
            let high = if is_64 { space.dw(at + 4) } else { 0 };
            let off = if command >> u32::from(low & 1 == 0) & 1 == 0 { " [disabled]" } else { "" };
            let what = region(u64::from(high) << 32 | u64::from(low));
            let bytes = if bytes == 0 { String::new() } else { format!(" [size={}]", size(bytes)) };
            lines.line(1, format!("Region {index}: {what}{off}{bytes}"));
        }
        index += if is_64 { 2 } else { 1 };
    }
}

/// Describes the window in a BAR's value.
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
    let at = if space.is_bridge() { type1::EXPANSION_ROM } else { type0::EXPANSION_ROM };
    let rom = space.dw(at * 4);
    let address = rom & type0::ROM_ADDRESS;
    if address == 0 && bytes == 0 {
        return;
    }
    let off = match (rom & type0::ROM_ENABLE, command & command::MEMORY_SPACE) {
        (0, _) => " [disabled]",
        (_, 0) => " [disabled by cmd]",
        _ => "",
    };
    let bytes = if bytes == 0 { String::new() } else { format!(" [size={}]", size(bytes)) };
    let address = if address == 0 { "<unassigned>".to_owned() } else { format!("{address:08x}") };
    lines.line(1, format!("Expansion ROM at {address}{off}{bytes}"));
}

/// Bus numbers and windows (`PCIe 5.0 §7.5.1.3`).
fn show_bridge(own: &mut Own<'_>) {
    own.at(type1::BUS_NUMBERS).show(&[
        "\tBus: primary={PRIMARY_BUS:02x}, secondary={SECONDARY_BUS:02x}, subordinate={SUBORDINATE_BUS:02x}, ",
        "sec-latency={SECONDARY_LATENCY_TIMER}",
    ]);
    for window in windows(own) {
        own.lines.line(1, window.text());
    }
    own.at(type1::IO_SECONDARY_STATUS).show(&[
        "\tSecondary status: 66MHz{21+} FastB2B{23+} ParErr{MASTER_DATA_PARITY_ERROR+} ",
        "DEVSEL={26-25|fast|medium|slow|??} >TAbort{SIGNALED_TARGET_ABORT+} <TAbort{RECEIVED_TARGET_ABORT+} ",
        "<MAbort{RECEIVED_MASTER_ABORT+} <SERR{RECEIVED_SYSTEM_ERROR+} <PERR{DETECTED_PARITY_ERROR+}",
    ]);
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

fn windows(own: &Own<'_>) -> Vec<Forwarded> {
    use type1::{io_secondary_status as io, memory, prefetchable};
    let mut all = Vec::new();
    let word = own.dw(type1::IO_SECONDARY_STATUS);
    if word & 0xffff != 0 {
        let is_wide = word & 0xf == 1;
        let upper = if is_wide { own.dw(type1::IO_UPPER) } else { 0 };
        let first = get(word, io::BASE) << 12 | upper << 16;
        let last = get(word, io::LIMIT) << 12 | upper & type1::IO_LIMIT_UPPER | 0xfff;
        let bits = if is_wide { 32 } else { 16 };
        all.push(Forwarded { what: "I/O", first: first.into(), last: last.into(), bits });
    }
    let window = |what, word, [base, limit]: [u32; 2], bits| Forwarded {
        what,
        first: u64::from(get(word, memory::BASE)) << 20 | u64::from(base) << 32,
        last: u64::from(get(word, memory::LIMIT)) << 20 | u64::from(limit) << 32 | 0xf_ffff,
        bits,
    };
    all.push(window("Memory", own.dw(type1::MEMORY), [0; 2], 32));
    let word = own.dw(type1::PREFETCHABLE);
    if word != 0 {
        let is_wide = word & prefetchable::ADDRESSING & 0xffff == 1;
        let upper = [type1::PREFETCHABLE_BASE_UPPER, type1::PREFETCHABLE_LIMIT_UPPER].map(|dw| own.dw(dw));
        let (upper, bits) = if is_wide { (upper, 64) } else { ([0; 2], 32) };
        all.push(window("Prefetchable memory", word, upper, bits));
    }
    all
}
