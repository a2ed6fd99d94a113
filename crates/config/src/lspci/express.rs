// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The PCI Express capability (`PCIe 5.0 §7.5.3`): device, link, slot and root registers, and the second set (Device
//! Control 2 and others).

use super::own::{Own, when};
use super::space::Space;
use super::{Head, heads};
use crate::PortType::{self, *};
use crate::cap::pcie::*;
use crate::register::get;

const SPEEDS: [&str; 7] = ["unknown", "2.5GT/s", "5GT/s", "8GT/s", "16GT/s", "32GT/s", "64GT/s"];
const RANGES: &str = "{TIMEOUT_RANGES|Not Supported|Range A|Range B|Range AB|Unknown|Unknown|Range BC|Range ABC|\
    Unknown|Unknown|Unknown|Unknown|Unknown|Unknown|Range BCD|Range ABCD}";
const TIMEOUT: &str = "{TIMEOUT_VALUE|50us to 50ms|50us to 100us|1ms to 10ms|Unknown|Unknown|16ms to 55ms|\
    65ms to 210ms|Unknown|Unknown|260ms to 900ms|1s to 3.5s|Unknown|Unknown|4s to 13s|17s to 64s|Unknown}";
const MARGIN: &str = "{TRANSMIT_MARGIN|Normal Operating Range|800-1200mV(full-swing)/400-700mV(half-swing)|\
    200-400mV(full-swing)/100-200mV(half-swing)|200-400mV(full-swing)/100-200mV(half-swing)|\
    200-400mV(full-swing)/100-200mV(half-swing)|200-400mV(full-swing)/100-200mV(half-swing)|Unknown}";
/// De-emphasis and preshoot of each transmitter preset (`PCIe 5.0 Table 8-1`).
const PRESET: &str = "{COMPLIANCE_PRESET|-6dB de-emphasis, 0dB preshoot|-3.5dB de-emphasis, 0dB preshoot|\
    -4.4dB de-emphasis, 0dB preshoot|-2.5dB de-emphasis, 0dB preshoot|0dB de-emphasis, 0dB preshoot|\
    0dB de-emphasis, 1.9dB preshoot|0dB de-emphasis, 2.5dB preshoot|-6.0dB de-emphasis, 3.5dB preshoot|\
    -3.5dB de-emphasis, 3.5dB preshoot|0dB de-emphasis, 3.5dB preshoot|Unknown}";

/// Link fields of a function's PCI Express capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkRegisters {
    /// Generation that the function supports.
    pub max_gen: u32,
    /// Lanes that the function supports.
    pub max_lanes: u32,
    /// Current generation of the link.
    pub r#gen: u32,
    /// Current lanes of the link.
    pub lanes: u32,
    /// Max_Payload_Size, in bytes.
    pub mps_bytes: u32,
    /// Max_Read_Request_Size, in bytes.
    pub mrrs_bytes: u32,
}

/// Reads the link fields from the PCI Express capability; `None` if the function has no such capability, or no link.
pub fn link(space: &Space<'_>) -> Option<LinkRegisters> {
    let head = heads(space).into_iter().find(Head::is_express)?;
    let word = |dw: u16| space.dw(head.at + dw * 4);
    let (built, link, control) = (word(LINK_CAPABILITIES), word(LINK_CONTROL), word(DEVICE_CONTROL));
    let has_link = PortType::decode(word(CAPABILITIES)) != Some(RootComplexIntegrated);
    has_link.then(|| LinkRegisters {
        max_gen: get(built, link_capabilities::MAX_SPEED),
        max_lanes: get(built, link_capabilities::MAX_WIDTH),
        r#gen: get(link, link_control::SPEED),
        lanes: get(link, link_control::WIDTH),
        mps_bytes: 128 << get(control, device_control::MPS),
        mrrs_bytes: 128 << get(control, device_control::MRRS),
    })
}

/// Shows the capability.
pub(super) fn show(own: &mut Own<'_>) {
    let word = own.dw(CAPABILITIES);
    let port = PortType::decode(word);
    // A virtual function has no Vendor ID (`PCIe 5.0 §9.3.4.1.1`). Registers that only its physical function has are left out.
    let is_virtual = own.space.half(0) == u16::MAX;
    let is_above_link = port.is_some_and(PortType::is_above_link);
    let what = match port {
        Some(Endpoint) if get(word, capabilities::PORT_TYPE) == 1 => "Legacy Endpoint",
        Some(Endpoint) => "Endpoint",
        Some(RootPort) => "Root Port (Slot{SLOT_IMPLEMENTED+})",
        Some(Upstream) => "Upstream Port",
        Some(Downstream) => "Downstream Port (Slot{SLOT_IMPLEMENTED+})",
        Some(RootComplexIntegrated) => "Root Complex Integrated Endpoint",
        None => "Unknown type {PORT_TYPE}",
    };
    own.at(CAPABILITIES).show(&[" (v{VERSION}) ", what, ", MSI {MESSAGE_NUMBER:02x}"]);
    device(own, port);
    if port != Some(RootComplexIntegrated) {
        link_registers(own, port);
    }
    if word & capabilities::SLOT_IMPLEMENTED != 0 && is_above_link {
        slot(own);
    }
    if port == Some(RootPort) {
        own.at(ROOT_CONTROL).show(&[
            "\t\tRootCap: CRSVisible{CRS_VISIBILITY+}",
            "\t\tRootCtl: ErrCorrectable{SYSTEM_ERROR_CORRECTABLE+} ErrNon-Fatal{SYSTEM_ERROR_NON_FATAL+} ",
            "ErrFatal{SYSTEM_ERROR_FATAL+} PMEIntEna{PME_INTERRUPT_ENABLE+} CRSVisible{CRS_VISIBILITY_ENABLE+}",
        ]);
        own.at(ROOT_STATUS).show(&[
            "\t\tRootSta: PME ReqID {PME_REQUESTER_ID:04x}, PMEStatus{PME_STATUS+} PMEPending{PME_PENDING+}",
        ]);
    }
    if get(word, capabilities::VERSION) >= 2 {
        device_2(own, port, is_virtual);
        if port != Some(RootComplexIntegrated) {
            link_2(own, port, is_virtual);
        }
    }
}

/// Device registers.
fn device(own: &mut Own<'_>, port: Option<PortType>) {
    let is_endpoint = port == Some(Endpoint);
    let is_device = is_endpoint || port == Some(RootComplexIntegrated);
    let has_power = is_endpoint || port == Some(Upstream);
    let able = own.dw(DEVICE_CAPABILITIES);
    let limit = format!(" SlotPowerLimit {}W", watts(get(able, device_capabilities::SLOT_POWER_LIMIT)));
    own.at(DEVICE_CAPABILITIES).show(&[
        "\t\tDevCap:\tMaxPayload {MPS_SUPPORTED^128} bytes, PhantFunc {PHANTOM_FUNCTIONS}",
        when(is_endpoint, ", Latency L0s {L0S_LATENCY|<64ns|<128ns|<256ns|<512ns|<1us|<2us|<4us|unlimited}"),
        when(is_endpoint, ", L1 {L1_LATENCY|<1us|<2us|<4us|<8us|<16us|<32us|<64us|unlimited}"),
        "\t\t\tExtTag{EXTENDED_TAG_SUPPORTED+}",
        when(has_power, " AttnBtn{12+} AttnInd{13+} PwrInd{14+}"),
        " RBE{ROLE_BASED_ERROR_REPORTING+}",
        when(is_device, " FLReset{FUNCTION_LEVEL_RESET+}"),
        when(has_power, &limit),
    ]);
    let resets = is_device && able & device_capabilities::FUNCTION_LEVEL_RESET != 0;
    own.at(DEVICE_CONTROL).show(&[
        "\t\tDevCtl:\tCorrErr{CORRECTABLE_REPORTING+} NonFatalErr{NON_FATAL_REPORTING+} ",
        "FatalErr{FATAL_REPORTING+} UnsupReq{UNSUPPORTED_REPORTING+}",
        "\t\t\tRlxdOrd{RELAXED_ORDERING+} ExtTag{EXTENDED_TAG+} PhantFunc{PHANTOM_FUNCTIONS+} ",
        "AuxPwr{AUX_POWER_PM+} NoSnoop{NO_SNOOP+}",
        when(resets, " FLReset{INITIATE_FLR+}"),
        "\t\t\tMaxPayload {MPS^128} bytes, MaxReadReq {MRRS^128} bytes",
        "\t\tDevSta:\tCorrErr{CORRECTABLE_DETECTED+} NonFatalErr{NON_FATAL_DETECTED+} FatalErr{FATAL_DETECTED+} ",
        "UnsupReq{UNSUPPORTED_DETECTED+} AuxPwr{AUX_POWER_DETECTED+} TransPend{TRANSACTIONS_PENDING+}",
    ]);
}

/// Watts of a slot's power limit, by value (7:0) and scale (9:8): value times 10^-scale (`PCIe 5.0 §7.5.3.9`), without
/// trailing zeros.
fn watts(limit: u32) -> String {
    let (value, scale) = (limit & 0xff, limit >> 8);
    let unit = 10_u32.pow(scale);
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{rest:0width$}", width = scale as usize);
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

fn link_registers(own: &mut Own<'_>, port: Option<PortType>) {
    let (built, link) = (own.dw(LINK_CAPABILITIES), own.dw(LINK_CONTROL));
    let most = get(built, link_capabilities::MAX_SPEED);
    let (now, lanes) = (get(link, link_control::SPEED), get(link, link_control::WIDTH));
    own.at(LINK_CAPABILITIES).show(&[
        "\t\tLnkCap:\tPort #{PORT_NUMBER}, Speed ",
        speed(most),
        ", Width x{MAX_WIDTH}, ASPM {ASPM_SUPPORT|not supported|L0s|L1|L0s L1}",
        "\t\t\tClockPM{CLOCK_POWER_MANAGEMENT+} Surprise{SURPRISE_DOWN_CAPABLE+} ",
        "LLActRep{LINK_ACTIVE_CAPABLE+} BwNot{BANDWIDTH_NOTIFICATION+} ASPMOptComp{ASPM_OPTIONALITY+}",
    ]);
    own.at(LINK_CONTROL).show(&[
        "\t\tLnkCtl:\tASPM {ASPM|Disabled|L0s Enabled|L1 Enabled|L0s L1 Enabled};",
        when(matches!(port, Some(Endpoint | RootPort)), " RCB {RCB_128^64} bytes,"),
        " Disabled{LINK_DISABLE+} CommClk{COMMON_CLOCK+}",
        "\t\t\tExtSynch{EXTENDED_SYNCH+} ClockPM{CLOCK_POWER_MANAGEMENT+} ",
        "AutWidDis{AUTONOMOUS_WIDTH_DISABLE+} BWInt{10+} AutBWInt{11+}",
        "\t\tLnkSta:\tSpeed ",
        speed(now),
        compared(port, now, most),
        ", Width x{WIDTH}",
        compared(port, lanes, get(built, link_capabilities::MAX_WIDTH)),
        "\t\t\tTrErr{26+} Train{TRAINING+} SlotClk{SLOT_CLOCK+} DLActive{LINK_ACTIVE+} BWMgmt{30+} ABWMgmt{31+}",
    ]);
}

fn speed(generation: u32) -> &'static str {
    SPEEDS.get(generation as usize).unwrap_or(&"unknown")
}

/// Compares the link's current value with the supported one. A port above a link prints no note for a lower value,
/// because the other end may support less.
fn compared(port: Option<PortType>, now: u32, most: u32) -> &'static str {
    match now.cmp(&most) {
        std::cmp::Ordering::Greater => " (overdriven)",
        std::cmp::Ordering::Less if !port.is_some_and(PortType::is_above_link) => " (downgraded)",
        _ => "",
    }
}

fn slot(own: &mut Own<'_>) {
    let limit = watts(get(own.dw(SLOT_CAPABILITIES), slot_capabilities::POWER_LIMIT));
    own.at(SLOT_CAPABILITIES).show(&[
        "\t\tSltCap:\tAttnBtn{ATTENTION_BUTTON_PRESENT+} PwrCtrl{POWER_CONTROLLER_PRESENT+} ",
        "MRL{MRL_SENSOR_PRESENT+} AttnInd{ATTENTION_INDICATOR_PRESENT+} PwrInd{POWER_INDICATOR_PRESENT+} ",
        "HotPlug{HOT_PLUG+} Surprise{SURPRISE+}",
        "\t\t\tSlot #{PHYSICAL_SLOT_NUMBER}, PowerLimit ",
        &limit,
        "W; Interlock{INTERLOCK_PRESENT+} NoCompl{NO_COMMAND_COMPLETED+}",
    ]);
    own.at(SLOT_CONTROL).show(&[
        "\t\tSltCtl:\tEnable: AttnBtn{ATTENTION_BUTTON_ENABLE+} PwrFlt{POWER_FAULT_ENABLE+} ",
        "MRL{MRL_SENSOR_ENABLE+} PresDet{PRESENCE_ENABLE+} CmdCplt{COMMAND_COMPLETED_ENABLE+} ",
        "HPIrq{HOT_PLUG_INTERRUPT_ENABLE+} LinkChg{LINK_STATE_ENABLE+}",
        "\t\t\tControl: AttnInd {ATTENTION_INDICATOR|Unknown|On|Blink|Off}, ",
        "PwrInd {POWER_INDICATOR|Unknown|On|Blink|Off}, Power{POWER_OFF+} Interlock{INTERLOCK_CONTROL+}",
        "\t\tSltSta:\tStatus: AttnBtn{ATTENTION_BUTTON+} PowerFlt{POWER_FAULT+} MRL{MRL_OPEN+} ",
        "CmdCplt{COMMAND_COMPLETED+} PresDet{PRESENT+} Interlock{INTERLOCK+}",
        "\t\t\tChanged: MRL{MRL_SENSOR+} PresDet{PRESENCE+} LinkState{LINK_STATE+}",
    ]);
}

/// The second device registers. Bridges route and block AtomicOps; endpoints and root ports issue and complete them.
fn device_2(own: &mut Own<'_>, port: Option<PortType>, is_virtual: bool) {
    let is_above_link = port.is_some_and(PortType::is_above_link);
    let is_bridge = port.is_some_and(PortType::is_bridge);
    let is_user = matches!(port, Some(Endpoint | RootComplexIntegrated | RootPort));
    let both = if is_bridge && is_user { " " } else { "" };
    let has_prefixes = own.dw(DEVICE_CAPABILITIES_2) & device_capabilities_2::END_END_PREFIX != 0;
    own.at(DEVICE_CAPABILITIES_2).show(&[
        "\t\tDevCap2: Completion Timeout: ",
        RANGES,
        ", TimeoutDis{TIMEOUT_DISABLE_SUPPORTED+} NROPrPrP{NO_RO_PASSING+} LTR{LTR_SUPPORTED+}",
        "\t\t\t 10BitTagComp{TEN_BIT_TAG_COMPLETER+} 10BitTagReq{TEN_BIT_TAG_REQUESTER+} ",
        "OBFF {OBFF|Not Supported|Via message|Via WAKE#|Via message/WAKE#}, ",
        "ExtFmt{EXTENDED_FMT+} EETLPPrefix{END_END_PREFIX+}",
        when(has_prefixes, ", MaxEETLPPrefixes {MAX_END_END_PREFIXES|4|1|2|3}"),
        "\t\t\t EmergencyPowerReduction {25-24|Not Supported|Supported|Supported, with Form Factor|Reserved}, ",
        "EmergencyPowerReductionInit{26+}",
        "\t\t\t FRS{FRS+}",
        when(port == Some(RootPort), " LN System CLS "),
        when(port == Some(RootPort), "{LN_SYSTEM_CLS|Not Supported|64byte cachelines|128byte cachelines|Reserved},"),
        when(matches!(port, Some(RootPort | Endpoint)), " TPHComp{12+} ExtTPHComp{13+}"),
        when(is_above_link, " ARIFwd{ARI_FORWARDING_SUPPORTED+}"),
        when(!is_virtual, "\t\t\t AtomicOpsCap: "),
        when(!is_virtual && is_bridge, "Routing{ATOMIC_ROUTING+}"),
        when(!is_virtual, both),
        when(!is_virtual && is_user, "32bit{7+} 64bit{8+} 128bitCAS{9+}"),
    ]);
    own.at(DEVICE_CONTROL_2).show(&[
        "\t\tDevCtl2: Completion Timeout: ",
        TIMEOUT,
        ", TimeoutDis{TIMEOUT_DISABLE+} LTR{LTR_ENABLE+} 10BitTagReq{TEN_BIT_TAG+} ",
        "OBFF {OBFF|Disabled|Via message A|Via message B|Via WAKE#},",
        when(is_above_link, " ARIFwd{ARI_FORWARDING+}"),
        "\t\t\t AtomicOpsCtl: ",
        when(is_user, "ReqEn{ATOMIC_REQUESTER+}"),
        both,
        when(is_bridge, "EgressBlck{ATOMIC_EGRESS_BLOCKING+}"),
    ]);
}

/// The second link registers.
fn link_2(own: &mut Own<'_>, port: Option<PortType>, is_virtual: bool) {
    if !is_virtual {
        link_settings_2(own, port);
    }
    own.at(LINK_CONTROL_2).show(&[
        "\t\tLnkSta2: Current De-emphasis Level: {DE_EMPHASIS_LEVEL|-6dB|-3.5dB}, ",
        "EqualizationComplete{17+} EqualizationPhase1{18+}",
        "\t\t\t EqualizationPhase2{19+} EqualizationPhase3{20+} ",
        "LinkEqualizationRequest{LINK_EQUALIZATION_REQUEST+}",
        "\t\t\t Retimer{22+} 2Retimers{23+} ",
        "CrosslinkRes: {CROSSLINK_RESOLUTION|unsupported|Upstream Port|Downstream Port|incomplete}",
    ]);
}

fn link_settings_2(own: &mut Own<'_>, port: Option<PortType>) {
    if let Some(speeds) = supported(get(own.dw(LINK_CAPABILITIES_2), link_capabilities_2::SPEEDS)) {
        own.at(LINK_CAPABILITIES_2).show(&[
            "\t\tLnkCap2: Supported Link Speeds: ",
            &speeds,
            ", Crosslink{CROSSLINK+} Retimer{23+} 2Retimers{24+} DRS{DRS+}",
        ]);
    }
    // A target speed of 0 counts as the lowest speed.
    own.at(LINK_CONTROL_2).show(&[
        "\t\tLnkCtl2: Target Link Speed: {TARGET_SPEED|2.5GT/s|2.5GT/s|5GT/s|8GT/s|16GT/s|32GT/s|64GT/s|Unknown}, ",
        "EnterCompliance{ENTER_COMPLIANCE+} SpeedDis{AUTONOMOUS_SPEED_DISABLE+}",
        when(port == Some(Downstream), ", Selectable De-emphasis: {SELECTABLE_DE_EMPHASIS|-6dB|-3.5dB}"),
        "\t\t\t Transmit Margin: ",
        MARGIN,
        ", EnterModifiedCompliance{ENTER_MODIFIED_COMPLIANCE+} ComplianceSOS{COMPLIANCE_SOS+}",
        "\t\t\t Compliance Preset/De-emphasis: ",
        PRESET,
    ]);
}

/// Supported Link Speeds Vector as a range; `None` if it is empty.
fn supported(vector: u32) -> Option<String> {
    let highest = 32 - vector.leading_zeros();
    let speed = SPEEDS.get(highest as usize).unwrap_or(&"RsvdP");
    match vector {
        0 => None,
        1 => Some((*speed).to_owned()),
        _ => Some(format!("2.5-{speed}")),
    }
}
