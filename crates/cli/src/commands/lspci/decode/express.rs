// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI Express capability (`PCIe 5.0 §7.5.3`): device, link, slot and root registers, and the second ones.

use super::Head;
use super::space::{Lines, Space, field, name, sign, signs};

/// Device/Port Type (`PCIe 5.0 Table 7-17`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Endpoint,
    RootPort,
    Upstream,
    Downstream,
    Integrated,
    Other(u32),
}

impl Kind {
    const fn of(capabilities: u32) -> Kind {
        match field(capabilities, 7, 4) {
            0 | 1 => Kind::Endpoint,
            4 => Kind::RootPort,
            5 => Kind::Upstream,
            6 => Kind::Downstream,
            9 => Kind::Integrated,
            n => Kind::Other(n),
        }
    }

    const fn is_above_link(self) -> bool {
        matches!(self, Kind::RootPort | Kind::Downstream)
    }

    const fn is_device(self) -> bool {
        matches!(self, Kind::Endpoint | Kind::Integrated)
    }
}

const L0S: [&str; 8] = ["<64ns", "<128ns", "<256ns", "<512ns", "<1us", "<2us", "<4us", "unlimited"];
const L1: [&str; 8] = ["<1us", "<2us", "<4us", "<8us", "<16us", "<32us", "<64us", "unlimited"];
const SPEEDS: [&str; 7] = ["unknown", "2.5GT/s", "5GT/s", "8GT/s", "16GT/s", "32GT/s", "64GT/s"];
const ASPM: [&str; 4] = ["not supported", "L0s", "L1", "L0s L1"];
const ASPM_CONTROL: [&str; 4] = ["Disabled", "L0s Enabled", "L1 Enabled", "L0s L1 Enabled"];
const INDICATORS: [&str; 4] = ["Unknown", "On", "Blink", "Off"];
const TIMEOUT_RANGES: [(u32, &str); 8] = [
    (0, "Not Supported"),
    (1, "Range A"),
    (2, "Range B"),
    (3, "Range AB"),
    (6, "Range BC"),
    (7, "Range ABC"),
    (14, "Range BCD"),
    (15, "Range ABCD"),
];
const TIMEOUTS: [(u32, &str); 9] = [
    (0, "50us to 50ms"),
    (1, "50us to 100us"),
    (2, "1ms to 10ms"),
    (5, "16ms to 55ms"),
    (6, "65ms to 210ms"),
    (9, "260ms to 900ms"),
    (10, "1s to 3.5s"),
    (13, "4s to 13s"),
    (14, "17s to 64s"),
];
const OBFF: [&str; 4] = ["Not Supported", "Via message", "Via WAKE#", "Via message/WAKE#"];
const OBFF_CONTROL: [&str; 4] = ["Disabled", "Via message A", "Via message B", "Via WAKE#"];

/// De-emphasis and preshoot of each transmitter preset, in dB (`PCIe 5.0 Table 8-1`).
const PRESETS: [(&str, &str); 10] = [
    ("-6", "0"),
    ("-3.5", "0"),
    ("-4.4", "0"),
    ("-2.5", "0"),
    ("0", "0"),
    ("0", "1.9"),
    ("0", "2.5"),
    ("-6.0", "3.5"),
    ("-3.5", "3.5"),
    ("0", "3.5"),
];

/// What a link's registers say of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LinkFacts {
    /// Generation that the function is built for.
    pub(crate) max_generation: u32,
    /// Lanes that it is built for.
    pub(crate) max_lanes: u32,
    /// Generation that the link runs at.
    pub(crate) generation: u32,
    /// Lanes that it has.
    pub(crate) lanes: u32,
    /// Max_Payload_Size, in bytes.
    pub(crate) mps_bytes: u32,
    /// Max_Read_Request_Size, in bytes.
    pub(crate) mrrs_bytes: u32,
}

/// The same as numbers; `None` of a function without a link.
pub(crate) fn link(space: &Space<'_>, head: Head) -> Option<LinkFacts> {
    let (capabilities, status) = (space.dw(head.at + 0xc), space.dw(head.at + 0x10) >> 16);
    if Kind::of(u32::from(space.half(head.at + 2))) == Kind::Integrated {
        return None;
    }
    let control = space.dw(head.at + 8);
    Some(LinkFacts {
        max_generation: capabilities & 0xf,
        max_lanes: field(capabilities, 9, 4),
        generation: status & 0xf,
        lanes: field(status, 9, 4),
        mps_bytes: 128 << field(control, 7, 5),
        mrrs_bytes: 128 << field(control, 14, 12),
    })
}

/// Shows the capability.
pub(super) fn show(space: &Space<'_>, head: Head, lines: &mut Lines) {
    let capabilities = u32::from(space.half(head.at + 2));
    let kind = Kind::of(capabilities);
    let slot = capabilities >> 8 & 1 == 1;
    // A virtual function has no Vendor ID (`PCIe 5.0 §9.3.4.1.1`); what is its physical function's alone is left out.
    let is_virtual = space.half(0) == u16::MAX;
    let what = match kind {
        Kind::Endpoint if field(capabilities, 7, 4) == 1 => "Legacy Endpoint".to_owned(),
        Kind::Endpoint => "Endpoint".to_owned(),
        Kind::RootPort => format!("Root Port (Slot{})", sign(capabilities, 8)),
        Kind::Upstream => "Upstream Port".to_owned(),
        Kind::Downstream => format!("Downstream Port (Slot{})", sign(capabilities, 8)),
        Kind::Integrated => "Root Complex Integrated Endpoint".to_owned(),
        Kind::Other(n) => format!("Unknown type {n}"),
    };
    let (version, message) = (capabilities & 0xf, field(capabilities, 13, 9));
    lines.capability(head, format!("Express (v{version}) {what}, MSI {message:02x}"));
    let dw = |offset: u16| space.dw(head.at + offset);
    device_capabilities(kind, dw(4), lines);
    device_control(kind, dw(4), dw(8), lines);
    if kind != Kind::Integrated {
        link_registers(kind, dw(0xc), dw(0x10), lines);
    }
    if slot && kind.is_above_link() {
        slot_registers(dw(0x14), dw(0x18), lines);
    }
    if kind == Kind::RootPort {
        root(dw(0x1c), dw(0x20), lines);
    }
    if version >= 2 {
        device_capabilities_2(kind, dw(0x24), lines);
        if !is_virtual {
            atomics(kind, "Cap", dw(0x24), lines);
        }
        device_control_2(kind, dw(0x28), lines);
        if kind != Kind::Integrated {
            if !is_virtual {
                link_2(kind, dw(0x2c), dw(0x30), lines);
            }
            link_status_2(dw(0x30) >> 16, lines);
        }
    }
}

fn device_capabilities(kind: Kind, capabilities: u32, lines: &mut Lines) {
    let latency = match kind {
        Kind::Endpoint => format!(
            ", Latency L0s {}, L1 {}",
            L0S[field(capabilities, 8, 6) as usize],
            L1[field(capabilities, 11, 9) as usize]
        ),
        _ => String::new(),
    };
    let (payload, phantom) = (128 << (capabilities & 0b111), field(capabilities, 4, 3));
    lines.line(2, format!("DevCap:\tMaxPayload {payload} bytes, PhantFunc {phantom}{latency}"));
    let mut rest = vec![signs(capabilities, &[("ExtTag", 5)])];
    let has_power = matches!(kind, Kind::Endpoint | Kind::Upstream);
    if has_power {
        rest.push(signs(capabilities, &[("AttnBtn", 12), ("AttnInd", 13), ("PwrInd", 14)]));
    }
    rest.push(signs(capabilities, &[("RBE", 15)]));
    if kind.is_device() {
        rest.push(signs(capabilities, &[("FLReset", 28)]));
    }
    if has_power {
        rest.push(format!(
            "SlotPowerLimit {}W",
            watts(field(capabilities, 25, 18), field(capabilities, 27, 26))
        ));
    }
    lines.line(3, rest.join(" "));
}

fn device_control(kind: Kind, capabilities: u32, control: u32, lines: &mut Lines) {
    let reporting = [("CorrErr", 0), ("NonFatalErr", 1), ("FatalErr", 2), ("UnsupReq", 3)];
    lines.line(2, format!("DevCtl:\t{}", signs(control, &reporting)));
    let set = [("RlxdOrd", 4), ("ExtTag", 8), ("PhantFunc", 9), ("AuxPwr", 10), ("NoSnoop", 11)];
    let reset = kind.is_device() && capabilities >> 28 & 1 == 1;
    let reset = if reset { signs(control, &[(" FLReset", 15)]) } else { String::new() };
    lines.line(3, format!("{}{reset}", signs(control, &set)));
    let (payload, read) = (128 << field(control, 7, 5), 128 << field(control, 14, 12));
    lines.line(3, format!("MaxPayload {payload} bytes, MaxReadReq {read} bytes"));
    let status = [
        ("CorrErr", 16),
        ("NonFatalErr", 17),
        ("FatalErr", 18),
        ("UnsupReq", 19),
        ("AuxPwr", 20),
        ("TransPend", 21),
    ];
    lines.line(2, format!("DevSta:\t{}", signs(control, &status)));
}

/// Watts of a slot: value times 10^-scale (`PCIe 5.0 §7.5.3.9`), without zeros at the end.
fn watts(value: u32, scale: u32) -> String {
    let unit = 10_u32.pow(scale);
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{rest:0width$}", width = scale as usize);
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

fn link_registers(kind: Kind, capabilities: u32, control: u32, lines: &mut Lines) {
    let (port, width) = (capabilities >> 24, field(capabilities, 9, 4));
    let (speed, aspm) =
        (name(&SPEEDS, capabilities & 0xf, "unknown"), ASPM[field(capabilities, 11, 10) as usize]);
    lines.line(2, format!("LnkCap:\tPort #{port}, Speed {speed}, Width x{width}, ASPM {aspm}"));
    let capable = [("ClockPM", 18), ("Surprise", 19), ("LLActRep", 20), ("BwNot", 21), ("ASPMOptComp", 22)];
    lines.line(3, signs(capabilities, &capable));
    let rcb = match kind {
        Kind::Endpoint | Kind::RootPort => format!(" RCB {} bytes,", 64 << (control >> 3 & 1)),
        _ => String::new(),
    };
    let aspm = ASPM_CONTROL[(control & 0b11) as usize];
    lines.line(
        2,
        format!("LnkCtl:\tASPM {aspm};{rcb} {}", signs(control, &[("Disabled", 4), ("CommClk", 6)])),
    );
    let set = [("ExtSynch", 7), ("ClockPM", 8), ("AutWidDis", 9), ("BWInt", 10), ("AutBWInt", 11)];
    lines.line(3, signs(control, &set));
    let status = control >> 16;
    let (speed, width) = (name(&SPEEDS, status & 0xf, "unknown"), field(status, 9, 4));
    let slow = compared(kind, status & 0xf, capabilities & 0xf);
    let narrow = compared(kind, width, field(capabilities, 9, 4));
    lines.line(2, format!("LnkSta:\tSpeed {speed}{slow}, Width x{width}{narrow}"));
    let events =
        [("TrErr", 10), ("Train", 11), ("SlotClk", 12), ("DLActive", 13), ("BWMgmt", 14), ("ABWMgmt", 15)];
    lines.line(3, signs(status, &events));
}

/// What a link has beside what it is built for. A port above a link says nothing where it has less: so may the other end.
fn compared(kind: Kind, now: u32, most: u32) -> &'static str {
    match now.cmp(&most) {
        std::cmp::Ordering::Greater => " (overdriven)",
        std::cmp::Ordering::Less if !kind.is_above_link() => " (downgraded)",
        _ => "",
    }
}

fn slot_registers(capabilities: u32, control: u32, lines: &mut Lines) {
    let has = [
        ("AttnBtn", 0),
        ("PwrCtrl", 1),
        ("MRL", 2),
        ("AttnInd", 3),
        ("PwrInd", 4),
        ("HotPlug", 6),
        ("Surprise", 5),
    ];
    lines.line(2, format!("SltCap:\t{}", signs(capabilities, &has)));
    let (number, watts) =
        (capabilities >> 19, watts(field(capabilities, 14, 7), field(capabilities, 16, 15)));
    let rest = signs(capabilities, &[("Interlock", 17), ("NoCompl", 18)]);
    lines.line(3, format!("Slot #{number}, PowerLimit {watts}W; {rest}"));
    let enables = [
        ("AttnBtn", 0),
        ("PwrFlt", 1),
        ("MRL", 2),
        ("PresDet", 3),
        ("CmdCplt", 4),
        ("HPIrq", 5),
        ("LinkChg", 12),
    ];
    lines.line(2, format!("SltCtl:\tEnable: {}", signs(control, &enables)));
    let attention = INDICATORS[field(control, 7, 6) as usize];
    let power = INDICATORS[field(control, 9, 8) as usize];
    let rest = signs(control, &[("Power", 10), ("Interlock", 11)]);
    lines.line(3, format!("Control: AttnInd {attention}, PwrInd {power}, {rest}"));
    let states =
        [("AttnBtn", 16), ("PowerFlt", 17), ("MRL", 21), ("CmdCplt", 20), ("PresDet", 22), ("Interlock", 23)];
    lines.line(2, format!("SltSta:\tStatus: {}", signs(control, &states)));
    let changes = [("MRL", 18), ("PresDet", 19), ("LinkState", 24)];
    lines.line(3, format!("Changed: {}", signs(control, &changes)));
}

fn root(control: u32, status: u32, lines: &mut Lines) {
    lines.line(2, format!("RootCap: {}", signs(control, &[("CRSVisible", 16)])));
    let set =
        [("ErrCorrectable", 0), ("ErrNon-Fatal", 1), ("ErrFatal", 2), ("PMEIntEna", 3), ("CRSVisible", 4)];
    lines.line(2, format!("RootCtl: {}", signs(control, &set)));
    let events = signs(status, &[("PMEStatus", 16), ("PMEPending", 17)]);
    lines.line(2, format!("RootSta: PME ReqID {:04x}, {events}", status & 0xffff));
}

fn named(names: &[(u32, &'static str)], value: u32) -> &'static str {
    names.iter().find(|(n, _)| *n == value).map_or("Unknown", |(_, name)| name)
}

fn device_capabilities_2(kind: Kind, capabilities: u32, lines: &mut Lines) {
    let range = named(&TIMEOUT_RANGES, capabilities & 0xf);
    let first = signs(capabilities, &[("TimeoutDis", 4), ("NROPrPrP", 10), ("LTR", 11)]);
    lines.line(2, format!("DevCap2: Completion Timeout: {range}, {first}"));
    let tags = signs(capabilities, &[("10BitTagComp", 16), ("10BitTagReq", 17)]);
    let prefixes = match (capabilities >> 21 & 1, field(capabilities, 23, 22)) {
        (0, _) => String::new(),
        (_, 0) => ", MaxEETLPPrefixes 4".to_owned(),
        (_, n) => format!(", MaxEETLPPrefixes {n}"),
    };
    let obff = OBFF[field(capabilities, 19, 18) as usize];
    let formats = signs(capabilities, &[("ExtFmt", 20), ("EETLPPrefix", 21)]);
    lines.line(3, format!(" {tags} OBFF {obff}, {formats}{prefixes}"));
    let reduction = ["Not Supported", "Supported", "Supported, with Form Factor", "Reserved"];
    let reduction = reduction[field(capabilities, 25, 24) as usize];
    let init = signs(capabilities, &[("EmergencyPowerReductionInit", 26)]);
    lines.line(3, format!(" EmergencyPowerReduction {reduction}, {init}"));
    let mut rest = vec![signs(capabilities, &[("FRS", 31)])];
    if kind == Kind::RootPort {
        let sizes = ["Not Supported", "64byte cachelines", "128byte cachelines", "Reserved"];
        rest.push(format!("LN System CLS {},", sizes[field(capabilities, 15, 14) as usize]));
    }
    if matches!(kind, Kind::RootPort | Kind::Endpoint) {
        rest.push(signs(capabilities, &[("TPHComp", 12), ("ExtTPHComp", 13)]));
    }
    if kind.is_above_link() {
        rest.push(signs(capabilities, &[("ARIFwd", 5)]));
    }
    lines.line(3, format!(" {}", rest.join(" ")));
}

fn device_control_2(kind: Kind, control: u32, lines: &mut Lines) {
    let timeout = named(&TIMEOUTS, control & 0xf);
    let first = signs(control, &[("TimeoutDis", 4), ("LTR", 10), ("10BitTagReq", 12)]);
    let ari = if kind.is_above_link() { signs(control, &[(" ARIFwd", 5)]) } else { String::new() };
    let obff = OBFF_CONTROL[field(control, 14, 13) as usize];
    lines.line(2, format!("DevCtl2: Completion Timeout: {timeout}, {first} OBFF {obff},{ari}"));
    atomics(kind, "Ctl", control, lines);
}

fn atomics(kind: Kind, what: &str, value: u32, lines: &mut Lines) {
    let is_port = kind.is_above_link() || kind == Kind::Upstream;
    let is_user = kind.is_device() || kind == Kind::RootPort;
    let mut parts = Vec::new();
    if what == "Cap" {
        if is_port {
            parts.push(signs(value, &[("Routing", 6)]));
        }
        if is_user {
            parts.push(signs(value, &[("32bit", 7), ("64bit", 8), ("128bitCAS", 9)]));
        }
    } else {
        if is_user {
            parts.push(signs(value, &[("ReqEn", 6)]));
        }
        if is_port {
            parts.push(signs(value, &[("EgressBlck", 7)]));
        }
    }
    lines.line(3, format!(" AtomicOps{what}: {}", parts.join(" ")));
}

fn link_2(kind: Kind, capabilities: u32, control: u32, lines: &mut Lines) {
    if let Some(speeds) = supported(field(capabilities, 7, 1)) {
        let rest = signs(capabilities, &[("Crosslink", 8), ("Retimer", 23), ("2Retimers", 24), ("DRS", 31)]);
        lines.line(2, format!("LnkCap2: Supported Link Speeds: {speeds}, {rest}"));
    }
    let target = match control & 0xf {
        // None set: the lowest.
        0 => SPEEDS[1],
        n @ 1..=6 => SPEEDS[n as usize],
        _ => "Unknown",
    };
    let set = signs(control, &[("EnterCompliance", 4), ("SpeedDis", 5)]);
    let emphasis = match (kind, control >> 6 & 1) {
        (Kind::Downstream, 0) => ", Selectable De-emphasis: -6dB",
        (Kind::Downstream, _) => ", Selectable De-emphasis: -3.5dB",
        _ => "",
    };
    lines.line(2, format!("LnkCtl2: Target Link Speed: {target}, {set}{emphasis}"));
    let margin = match field(control, 9, 7) {
        0 => "Normal Operating Range",
        1 => "800-1200mV(full-swing)/400-700mV(half-swing)",
        2..=5 => "200-400mV(full-swing)/100-200mV(half-swing)",
        _ => "Unknown",
    };
    let set = signs(control, &[("EnterModifiedCompliance", 10), ("ComplianceSOS", 11)]);
    lines.line(3, format!(" Transmit Margin: {margin}, {set}"));
    let preset = match PRESETS.get(field(control, 15, 12) as usize) {
        Some((emphasis, preshoot)) => format!("{emphasis}dB de-emphasis, {preshoot}dB preshoot"),
        None => "Unknown".to_owned(),
    };
    lines.line(3, format!(" Compliance Preset/De-emphasis: {preset}"));
}

fn link_status_2(status: u32, lines: &mut Lines) {
    let level = if status & 1 == 1 { "-3.5dB" } else { "-6dB" };
    let phases = signs(status, &[("EqualizationComplete", 1), ("EqualizationPhase1", 2)]);
    lines.line(2, format!("LnkSta2: Current De-emphasis Level: {level}, {phases}"));
    let phases = [("EqualizationPhase2", 3), ("EqualizationPhase3", 4), ("LinkEqualizationRequest", 5)];
    lines.line(3, format!(" {}", signs(status, &phases)));
    let crosslink = ["unsupported", "Upstream Port", "Downstream Port", "incomplete"];
    let crosslink = crosslink[field(status, 9, 8) as usize];
    lines.line(
        3,
        format!(" {} CrosslinkRes: {crosslink}", signs(status, &[("Retimer", 6), ("2Retimers", 7)])),
    );
}

/// Supported Link Speeds Vector as a range; `None` where it is empty.
fn supported(vector: u32) -> Option<String> {
    let highest = 32 - vector.leading_zeros();
    let speed = name(&SPEEDS, highest, "RsvdP");
    match vector {
        0 => None,
        1 => Some(speed.to_owned()),
        _ => Some(format!("2.5-{speed}")),
    }
}
