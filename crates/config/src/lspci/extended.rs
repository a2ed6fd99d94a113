// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Extended capabilities: the dispatch by ID, and all of them except those about errors.

use super::own::{Own, when};
use super::space::hex;
use super::{Head, errors, header};
use crate::ext::{self, l1ss, physical_16, physical_32, pri, ptm, sriov, vc};
use crate::register::get;

/// Text for a time whose scale is reserved.
const RESERVED: &str = "<error>";
/// T_POWER_ON Scale (`PCIe 5.0 §7.8.3.2`).
const POWER_ON_SCALES_US: [u32; 3] = [2, 10, 100];

/// Shows the contents of an extended capability after its title.
pub(super) fn show(own: &mut Own<'_>, head: Head) {
    let show = match head.id {
        ext::aer::ID => errors::reporting,
        ext::dpc::ID => errors::containment,
        ext::vc::ID => virtual_channels,
        ext::acs::ID => access_control,
        ext::ari::ID => alternative_routing,
        ext::ats::ID => address_translation,
        ext::sriov::ID => single_root,
        ext::pri::ID => page_request,
        ext::pasid::ID => process_address_space,
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
        _ => |_: &mut Own<'_>| (),
    };
    show(own);
}

/// Virtual Channels and how they are arbitrated (`PCIe 5.0 §7.9.1`).
fn virtual_channels(own: &mut Own<'_>) {
    own.at(vc::CAPABILITY_1).show(&[
        "\t\tCaps:\tLPEVC={LOW_PRIORITY_VCS} RefClk={9-8|100ns|??} PATEntryBits={TABLE_ENTRY_SIZE^1}",
    ]);
    own.at(vc::CAPABILITY_2).show(&["\t\tArb:\tFixed{0+} WRR32{1+} WRR64{2+} WRR128{3+}"]);
    own.at(vc::CONTROL).show(&[
        "\t\tCtrl:\tArbSelect={SELECT|Fixed|WRR32|WRR64|WRR128|??4|??5|??6|??7}",
        "\t\tStatus:\tInProgress{TABLE_STATUS+}",
    ]);
    let table = get(own.dw(vc::CAPABILITY_2), vc::capability_2::TABLE_OFFSET);
    if table != 0 {
        own.lines.line(2, format!("VC Arbitration Table [{:x}]", u32::from(own.at) + table * 16));
    }
    for channel in 0..=get(own.dw(vc::CAPABILITY_1), vc::capability_1::EXTENDED_VCS) as u16 {
        virtual_channel(own, channel);
    }
}

fn virtual_channel(own: &mut Own<'_>, channel: u16) {
    let at = |first: u16| first + 3 * channel;
    let capability = own.dw(at(vc::RESOURCE));
    let slots = get(capability, 0x7f << 16) + 1;
    let caps = format!("\t\tVC{channel}:\tCaps:\tPATOffset={{TABLE_OFFSET:02x}} MaxTimeSlots={slots} ");
    own.like(at(vc::RESOURCE), vc::RESOURCE).show(&[
        &caps,
        "RejSnoopTrans{15+}",
        "\t\t\tArb:\tFixed{0+} WRR32{1+} WRR64{2+} WRR128{3+} TWRR128{4+} WRR256{5+}",
    ]);
    own.like(at(vc::RESOURCE_CONTROL), vc::RESOURCE_CONTROL).show(&[
        "\t\t\tCtrl:\tEnable{ENABLE+} ID={ID} ",
        "ArbSelect={SELECT|Fixed|WRR32|WRR64|WRR128|TWRR128|WRR256|??6|??7} TC/VC={7-0:02x}",
    ]);
    own.like(at(vc::RESOURCE_STATUS), vc::RESOURCE_STATUS).show(&[
        "\t\t\tStatus:\tNegoPending{NEGOTIATION_PENDING+} InProgress{TABLE_STATUS+}",
        when(get(capability, vc::resource_capability::TABLE_OFFSET) != 0, "\t\t\tPort Arbitration Table"),
    ]);
}

/// Access Control Services (`PCIe 5.0 §7.7.8`).
fn access_control(own: &mut Own<'_>) {
    own.at(ext::acs::CONTROL).show(&[
        "\t\tACSCap:\tSrcValid{0+} TransBlk{1+} ReqRedir{2+} CmpltRedir{3+} UpstreamFwd{4+} EgressCtrl{5+} ",
        "DirectTrans{6+}",
        "\t\tACSCtl:\tSrcValid{SOURCE_VALIDATION+} TransBlk{TRANSLATION_BLOCKING+} ",
        "ReqRedir{REQUEST_REDIRECT+} CmpltRedir{COMPLETION_REDIRECT+} UpstreamFwd{UPSTREAM_FORWARDING+} ",
        "EgressCtrl{EGRESS_CONTROL+} DirectTrans{DIRECT_TRANSLATED+}",
    ]);
}

/// Alternative Routing-ID Interpretation (`PCIe 5.0 §7.8.7`).
fn alternative_routing(own: &mut Own<'_>) {
    own.at(ext::ari::CAPABILITY).show(&[
        "\t\tARICap:\tMFVC{0+} ACS{1+}, Next Function: {NEXT_FUNCTION}",
        "\t\tARICtl:\tMFVC{16+} ACS{17+}, Function Group: {22-20}",
    ]);
}

/// Address Translation Service (`PCIe 5.0 §10.5.1`).
fn address_translation(own: &mut Own<'_>) {
    own.at(ext::ats::CONTROL).show(&[
        "\t\tATSCap:\tInvalidate Queue Depth: {QUEUE_DEPTH:02x}",
        "\t\tATSCtl:\tEnable{ENABLE+}, Smallest Translation Unit: {SMALLEST_UNIT:02x}",
    ]);
}

/// Page Request Interface (`PCIe 5.0 §10.5.2`).
fn page_request(own: &mut Own<'_>) {
    own.at(pri::CONTROL).show(&[
        "\t\tPRICtl: Enable{ENABLE+} Reset{RESET+}",
        "\t\tPRISta: RF{RESPONSE_FAILURE+} UPRGI{UNEXPECTED_GROUP+} Stopped{STOPPED+}",
    ]);
    own.at(pri::CAPACITY).show(&["\t\tPage Request Capacity: {MOST_OUTSTANDING:08x}"]);
    own.at(pri::ALLOCATION).show(&[", Page Request Allocation: {ALLOCATED:08x}"]);
}

/// Process Address Space ID (`PCIe 5.0 §7.8.8`).
fn process_address_space(own: &mut Own<'_>) {
    own.at(ext::pasid::CONTROL).show(&[
        "\t\tPASIDCap: Exec{EXECUTE_SUPPORTED+} Priv{PRIVILEGED_SUPPORTED+}, Max PASID Width: {MAX_WIDTH:02x}",
        "\t\tPASIDCtl: Enable{ENABLE+} Exec{EXECUTE+} Priv{PRIVILEGED+}",
    ]);
}

/// Single Root I/O Virtualization (`PCIe 5.0 §9.3.3`).
fn single_root(own: &mut Own<'_>) {
    own.at(sriov::CAPABILITIES).show(&[
        "\t\tIOVCap:\tMigration{0+} 10BitTagReq{TEN_BIT_TAG_SUPPORTED+} Interrupt Message Number: {31-21:03x}",
    ]);
    own.at(sriov::CONTROL).show(&[
        "\t\tIOVCtl:\tEnable{VF_ENABLE+} Migration{1+} Interrupt{2+} MSE{VF_MEMORY_ENABLE+} ",
        "ARIHierarchy{ARI_HIERARCHY+} 10BitTagReq{TEN_BIT_TAG+}",
        "\t\tIOVSta:\tMigration{16+}",
    ]);
    own.at(sriov::TOTAL_VFS).show(&["\t\tInitial VFs: {INITIAL}, Total VFs: {TOTAL}, "]);
    own.at(sriov::NUM_VFS)
        .show(&["Number of VFs: {NUMBER}, Function Dependency Link: {DEPENDENCY_LINK:02x}"]);
    own.at(sriov::NUMBERING).show(&["\t\tVF offset: {FIRST_OFFSET}, stride: {STRIDE}, "]);
    own.at(sriov::VF_DEVICE_ID).show(&["Device ID: {DEVICE_ID:04x}"]);
    own.at(sriov::SUPPORTED_PAGE_SIZES).show(&["\t\tSupported Page Size: {SIZES:08x}, "]);
    own.at(sriov::SYSTEM_PAGE_SIZE).show(&["System Page Size: {SIZE:08x}"]);
    virtual_bars(own);
    let migration = own.dw(sriov::VF_BAR0 + 6);
    let (offset, bar) = (migration & !0b111, migration & 0b111);
    own.lines.line(2, format!("VF Migration: offset: {offset:08x}, BIR: {bar:x}"));
}

fn virtual_bars(own: &mut Own<'_>) {
    let mut index = 0;
    while index < 6 {
        let low = own.dw(sriov::VF_BAR0 + index);
        let is_64 = low & 0b100 != 0 && index < 5;
        if low != 0 {
            let high = if is_64 { own.dw(sriov::VF_BAR0 + index + 1) } else { 0 };
            let address = u64::from(high) << 32 | u64::from(low & !0xf);
            let digits = if is_64 { 16 } else { 8 };
            // The kind is like for any BAR. The address has full width, even if it is zero.
            let kind = header::region(u64::from(low));
            let kind = kind.split_once('(').map_or("", |(_, kind)| kind);
            own.lines.line(2, format!("Region {index}: Memory at {address:0digits$x} ({kind}"));
        }
        index += if is_64 { 2 } else { 1 };
    }
}

fn serial_number(own: &mut Own<'_>) {
    let bytes = (4..12).rev().map(|i| own.space.byte(own.at + i));
    own.lines.add(&format!(" {}", hex(bytes).replace(' ', "-")));
}

fn vendor_specific(own: &mut Own<'_>) {
    own.at(ext::vendor::HEADER).show(&[": ID={VSEC_ID:04x} Rev={VSEC_REVISION} Len={VSEC_LENGTH:03x}"]);
    let len = get(own.dw(ext::vendor::HEADER), ext::vendor::VSEC_LENGTH) as u16;
    if len > 8 {
        let data = hex((8..len).map(|i| own.space.byte(own.at.saturating_add(i))));
        own.lines.line(2, format!("Data: {data}"));
    }
}

/// Resizable BAR (`PCIe 5.0 §7.8.6`): bit n of the sizes is 2^n MB.
fn resizable(own: &mut Own<'_>) {
    use ext::resizable::{BAR, BARS, CAPABILITY, CONTROL, LARGE_SIZES, SIZE, SMALL_SIZES};
    for n in 0..get(own.dw(CONTROL), BARS).min(6) as u16 {
        let (capability, control) = (own.dw(CAPABILITY + n * 2), own.dw(CONTROL + n * 2));
        let sizes = u64::from(get(control, LARGE_SIZES)) << 28 | u64::from(get(capability, SMALL_SIZES));
        let supported: Vec<String> =
            (0..44).filter(|bit| sizes >> bit & 1 == 1).map(|bit| megabytes(bit) + " ").collect();
        let (bar, size) = (get(control, BAR), megabytes(get(control, SIZE)));
        let text = format!("BAR {bar}: current size: {size}, supported: {}", supported.concat());
        own.lines.line(2, text.trim_end());
    }
}

/// 2^n MB.
fn megabytes(n: u32) -> String {
    let units = ["MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    format!("{}{}", 1 << (n % 10), units[(n / 10) as usize])
}

fn latency_tolerance(own: &mut Own<'_>) {
    use ext::ltr::{LATENCY, NO_SNOOP_SCALE, NO_SNOOP_VALUE, SNOOP_SCALE, SNOOP_VALUE};
    let word = own.dw(LATENCY);
    let (snoop, no_snoop) =
        (scaled(word, SNOOP_VALUE, SNOOP_SCALE), scaled(word, NO_SNOOP_VALUE, NO_SNOOP_SCALE));
    own.lines.line(2, format!("Max snoop latency: {snoop}"));
    own.lines.line(2, format!("Max no snoop latency: {no_snoop}"));
}

/// Latency in the format of LTR messages: value times 32^scale ns (`PCIe 5.0 §6.18`).
fn scaled(word: u32, value: u32, scale: u32) -> String {
    match get(word, scale) {
        scale @ 0..=5 => format!("{}ns", u64::from(get(word, value)) << (5 * scale)),
        _ => RESERVED.to_owned(),
    }
}

fn secondary(own: &mut Own<'_>) {
    own.at(ext::secondary::LINK_CONTROL_3)
        .show(&["\t\tLnkCtl3: LnkEquIntrruptEn{INTERRUPT+} PerformEqu{PERFORM_EQUALIZATION+}"]);
    let errors = own.dw(ext::secondary::LANE_ERROR_STATUS);
    let lanes: Vec<String> = (0..32).filter(|n| errors >> n & 1 == 1).map(|n| format!(" {n}")).collect();
    let text = if lanes.is_empty() { "0".to_owned() } else { format!("LaneErr at lane:{}", lanes.concat()) };
    own.lines.line(2, format!("LaneErrStat: {text}"));
}

/// L1 PM Substates (`PCIe 5.0 §7.8.3`).
fn substates(own: &mut Own<'_>) {
    use l1ss::{capabilities as able, control_1, control_2};
    const STATES: &str = "PCI-PM_L1.2{0+} PCI-PM_L1.1{1+} ASPM_L1.2{2+} ASPM_L1.1{3+}";
    let word = own.dw(l1ss::CAPABILITIES);
    let has_l12 = word & 0b101 != 0;
    let power = power_on(word, able::T_POWER_ON_VALUE, able::T_POWER_ON_SCALE);
    own.at(l1ss::CAPABILITIES).show(&[
        "\t\tL1SubCap: ",
        STATES,
        " L1_PM_Substates{4+}",
        when(has_l12, "\t\t\t  PortCommonModeRestoreTime={COMMON_MODE_RESTORE_TIME}us PortTPowerOnTime="),
        when(has_l12, &power),
    ]);
    let first = own.dw(l1ss::CONTROL_1);
    let threshold = scaled(first, control_1::LTR_THRESHOLD_VALUE, control_1::LTR_THRESHOLD_SCALE);
    own.at(l1ss::CONTROL_1).show(&[
        "\t\tL1SubCtl1: ",
        STATES,
        when(has_l12, "\t\t\t   T_CommonMode={COMMON_MODE_RESTORE_TIME}us LTR1.2_Threshold="),
        when(has_l12, &threshold),
    ]);
    let power = power_on(own.dw(l1ss::CONTROL_2), control_2::T_POWER_ON_VALUE, control_2::T_POWER_ON_SCALE);
    own.lines.line(2, format!("L1SubCtl2:{}{}", when(has_l12, " T_PwrOn="), when(has_l12, &power)));
}

fn power_on(word: u32, value: u32, scale: u32) -> String {
    let scale = POWER_ON_SCALES_US.get(get(word, scale) as usize);
    scale.map_or_else(|| RESERVED.to_owned(), |us| format!("{}us", get(word, value) * us))
}

/// Precision Time Measurement (`PCIe 5.0 §7.9.16`).
fn precision_time(own: &mut Own<'_>) {
    let granularity = |word: u32| match get(word, ptm::LOCAL_GRANULARITY) {
        0 => "Unknown".to_owned(),
        0xff => "Greater than 254ns".to_owned(),
        ns => format!("{ns}ns"),
    };
    let (local, effective) = (granularity(own.dw(ptm::CAPABILITY)), granularity(own.dw(ptm::CONTROL)));
    own.at(ptm::CAPABILITY).show(&[
        "\t\tPTMCap: Requester:{REQUESTER+} Responder:{RESPONDER+} Root:{ROOT+}",
        "\t\tPTMClockGranularity: ",
        &local,
    ]);
    own.at(ptm::CONTROL).show(&[
        "\t\tPTMControl: Enabled:{ENABLE+} RootSelected:{ROOT_SELECT+}",
        "\t\tPTMEffectiveGranularity: ",
        &effective,
    ]);
}

/// Data Link Feature (`PCIe 5.0 §7.7.4`).
fn link_feature(own: &mut Own<'_>) {
    use ext::data_link_feature::{CAPABILITIES, STATUS};
    own.at(CAPABILITIES)
        .show(&["\t\tLocal: ScaledFlowControl{SCALED_FLOW_CONTROL+} Exchange{EXCHANGE_ENABLE+}"]);
    own.at(STATUS).show(&["\t\tRemote: ScaledFlowControl{0+} Valid{REMOTE_VALID+}"]);
}

/// Fields of both physical layers' status registers.
const EQUALIZATION: &str = "EquComplete{0+} EquPhase1{1+} EquPhase2{2+} EquPhase3{3+} \
    LinkEquRequest{EQUALIZATION_REQUEST+}";

/// Physical Layer 16.0 GT/s (`PCIe 5.0 §7.7.5`).
fn physical_16(own: &mut Own<'_>) {
    own.at(physical_16::STATUS).show(&["\t\tPhy16Sta: ", EQUALIZATION]);
    own.at(physical_16::LOCAL_PARITY).show(&["\t\tLocalParityMismatch: {31-0:08x}"]);
}

/// Physical Layer 32.0 GT/s (`PCIe 5.0 §7.7.6`).
fn physical_32(own: &mut Own<'_>) {
    own.at(physical_32::CAPABILITIES).show(&[
        "\t\tPhy32Cap: EquBypass{BYPASS_SUPPORTED+} NoEquNeeded{NO_EQUALIZATION_NEEDED+} ",
        "ModTS0{MODIFIED_TS_0_SUPPORTED+}",
    ]);
    own.at(physical_32::STATUS).show(&["\t\tPhy32Sta: ", EQUALIZATION]);
}
