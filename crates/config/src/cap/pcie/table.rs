// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of the PCI Express capability as tables (`PCIe 5.0 §7.5.3`), for every port type; a layout leaves out
//! what its port does not have. Never holds state.

use super::{
    device_control as dc, device_control_2 as dc2, link_control as lc, root_control as rc, slot_control as sc,
};
use crate::Effects;
use crate::register::{Field, Structure, Word};

const NO_ASPM: &str = "links have no low-power states here";
const NO_TRAINING: &str = "how links train is not modelled";
const ANY_CUT: &str = "tells an endpoint where its root port cuts completions, which it takes cut anywhere; root ports have it HwInit";
const NO_RATE_CHANGE: &str = "a link keeps the rate that its lab gives it";

const CAPABILITIES: Word = Word {
    dw: 0,
    name: "PCI Express Capabilities",
    fields: &[
        Field::hwinit(0xf << 16, "Capability Version"),
        Field::hwinit(0xf << 20, "Device/Port Type"),
        Field::hwinit(1 << 24, "Slot Implemented"),
        Field::hwinit(0x1f << 25, "Interrupt Message Number"),
    ],
};

const DEVICE_CAPABILITIES: Word = Word {
    dw: super::DEVICE_CAPABILITIES,
    name: "Device Capabilities",
    fields: &[
        Field::hwinit(0b111, "Max_Payload_Size Supported"),
        Field::ro(0b11 << 3, "Phantom Functions Supported"),
        Field::hwinit(1 << 5, "Extended Tag Field Supported"),
        Field::ro(0b111 << 6, "Endpoint L0s Acceptable Latency"),
        Field::ro(0b111 << 9, "Endpoint L1 Acceptable Latency"),
        Field::hwinit(1 << 15, "Role-Based Error Reporting"),
        Field::ro(1 << 16, "ERR_COR Subclass Capable"),
        Field::ro(super::SLOT_POWER, "Captured Slot Power Limit Value, Scale").kept_by_flr(),
        Field::hwinit(1 << 28, "Function Level Reset Capability"),
    ],
};

const fn control(bits: u32, name: &'static str, does: &'static str) -> Field {
    Field::rw(bits, name, does).tells(Effects::DEVICE_CONTROL)
}

const DEVICE_CONTROL: Word = Word {
    dw: super::DEVICE_CONTROL,
    name: "Device Control, Device Status",
    fields: &[
        control(dc::CORRECTABLE_REPORTING, "Correctable Error Reporting Enable", "ERR_COR is sent"),
        control(dc::NON_FATAL_REPORTING, "Non-Fatal Error Reporting Enable", "ERR_NONFATAL is sent"),
        control(dc::FATAL_REPORTING, "Fatal Error Reporting Enable", "ERR_FATAL is sent"),
        control(
            dc::UNSUPPORTED_REPORTING,
            "Unsupported Request Reporting Enable",
            "Unsupported Requests are reported",
        ),
        control(dc::RELAXED_ORDERING, "Enable Relaxed Ordering", "requests may have the attribute"),
        control(0b111 << dc::MPS_SHIFT, "Max_Payload_Size", "where writes and completions are cut")
            .kept_by_flr(),
        control(dc::EXTENDED_TAG, "Extended Tag Field Enable", "8-bit tags"),
        Field::ro(1 << 9, "Phantom Functions Enable"),
        Field::ro(1 << 10, "Aux Power PM Enable"),
        control(dc::NO_SNOOP, "Enable No Snoop", "requests may have the attribute"),
        control(0b111 << dc::MRRS_SHIFT, "Max_Read_Request_Size", "where reads are cut"),
        Field::trigger(dc::INITIATE_FLR, "Initiate Function Level Reset", "resets the function")
            .tells(Effects::FUNCTION_LEVEL_RESET),
        Field::rw1c(dc::CORRECTABLE_DETECTED, "Correctable Error Detected", "event"),
        Field::rw1c(dc::NON_FATAL_DETECTED, "Non-Fatal Error Detected", "event"),
        Field::rw1c(dc::FATAL_DETECTED, "Fatal Error Detected", "event"),
        Field::rw1c(dc::UNSUPPORTED_DETECTED, "Unsupported Request Detected", "event"),
        Field::ro(1 << 20, "AUX Power Detected"),
        Field::ro(dc::TRANSACTIONS_PENDING, "Transactions Pending"),
    ],
};

const LINK_CAPABILITIES: Word = Word {
    dw: super::LINK_CAPABILITIES,
    name: "Link Capabilities",
    fields: &[
        Field::hwinit(0xf, "Max Link Speed"),
        Field::hwinit(0x3f << 4, "Maximum Link Width"),
        Field::ro(0b11 << 10, "ASPM Support"),
        Field::ro(0b111 << 12, "L0s Exit Latency"),
        Field::ro(0b111 << 15, "L1 Exit Latency"),
        Field::ro(1 << 18, "Clock Power Management"),
        Field::hwinit(super::SURPRISE_DOWN_CAPABLE, "Surprise Down Error Reporting Capable"),
        Field::hwinit(super::LINK_ACTIVE_CAPABLE, "Data Link Layer Link Active Reporting Capable"),
        Field::ro(1 << 21, "Link Bandwidth Notification Capability"),
        Field::hwinit(1 << 22, "ASPM Optionality Compliance"),
        Field::hwinit(0xff << 24, "Port Number"),
    ],
};

const LINK_CONTROL: Word = Word {
    dw: super::LINK_CONTROL,
    name: "Link Control, Link Status",
    fields: &[
        Field::inert(lc::ASPM, "ASPM Control", NO_ASPM).tells(Effects::LINK_CONTROL).kept_by_flr(),
        Field::inert(super::RCB_128, "Read Completion Boundary", ANY_CUT)
            .tells(Effects::LINK_CONTROL)
            .kept_by_flr(),
        Field::rw(lc::LINK_DISABLE, "Link Disable", "takes the link below down")
            .tells(Effects::LINK_CONTROL.union(Effects::LINK_DISABLE)),
        Field::trigger(lc::RETRAIN_LINK, "Retrain Link", "sends the link below through Recovery")
            .tells(Effects::RETRAIN_LINK),
        Field::inert(lc::COMMON_CLOCK, "Common Clock Configuration", NO_TRAINING)
            .tells(Effects::LINK_CONTROL)
            .kept_by_flr(),
        Field::inert(lc::EXTENDED_SYNCH, "Extended Synch", NO_TRAINING)
            .tells(Effects::LINK_CONTROL)
            .kept_by_flr(),
        Field::ro(1 << 8, "Enable Clock Power Management"),
        Field::ro(1 << 9, "Hardware Autonomous Width Disable"),
        Field::ro(0b11 << 10, "Link Bandwidth Interrupt Enables"),
        Field::ro(0b11 << 14, "DRS Signaling Control"),
        Field::state(lc::SPEED, "Current Link Speed"),
        Field::state(lc::WIDTH, "Negotiated Link Width"),
        Field::state(lc::TRAINING, "Link Training"),
        Field::hwinit(1 << 28, "Slot Clock Configuration"),
        Field::state(lc::LINK_ACTIVE, "Data Link Layer Link Active"),
    ],
};

const SLOT_CAPABILITIES: Word = Word {
    dw: super::SLOT_CAPABILITIES,
    name: "Slot Capabilities",
    fields: &[
        Field::hwinit(1, "Attention Button Present"),
        Field::hwinit(1 << 1, "Power Controller Present"),
        Field::hwinit(1 << 2, "MRL Sensor Present"),
        Field::hwinit(1 << 3, "Attention Indicator Present"),
        Field::hwinit(1 << 4, "Power Indicator Present"),
        Field::hwinit(1 << 5, "Hot-Plug Surprise"),
        Field::hwinit(1 << 6, "Hot-Plug Capable"),
        Field::hwinit(0x3ff << 7, "Slot Power Limit Value, Scale"),
        Field::hwinit(1 << 17, "Electromechanical Interlock Present"),
        Field::hwinit(1 << 18, "No Command Completed Support"),
        Field::hwinit(0x1fff << 19, "Physical Slot Number"),
    ],
};

const fn slot(bits: u32, name: &'static str, does: &'static str) -> Field {
    Field::rw(bits, name, does).tells(Effects::SLOT_CONTROL)
}

const fn slot_event(bits: u32, name: &'static str) -> Field {
    Field::rw1c(bits, name, "event").tells(Effects::SLOT_STATUS)
}

const INDICATOR: &str = "a slot has no lights beside ConfigSpace::slot, which shows it";

const fn indicator(bits: u32, name: &'static str) -> Field {
    Field::inert(bits, name, INDICATOR).tells(Effects::SLOT_CONTROL)
}

const SLOT_CONTROL: Word = Word {
    dw: super::SLOT_CONTROL,
    name: "Slot Control, Slot Status",
    fields: &[
        slot(sc::ATTENTION_BUTTON_ENABLE, "Attention Button Pressed Enable", "the event interrupts"),
        slot(sc::POWER_FAULT_ENABLE, "Power Fault Detected Enable", "the event interrupts"),
        slot(sc::MRL_SENSOR_ENABLE, "MRL Sensor Changed Enable", "the event interrupts"),
        slot(sc::PRESENCE_ENABLE, "Presence Detect Changed Enable", "the event interrupts"),
        slot(sc::COMMAND_COMPLETED_ENABLE, "Command Completed Interrupt Enable", "the event interrupts"),
        slot(sc::HOT_PLUG_INTERRUPT_ENABLE, "Hot-Plug Interrupt Enable", "events interrupt"),
        indicator(sc::ATTENTION_INDICATOR, "Attention Indicator Control"),
        indicator(sc::POWER_INDICATOR, "Power Indicator Control"),
        slot(sc::POWER_OFF, "Power Controller Control", "set: the slot is without power"),
        Field::ro(1 << 11, "Electromechanical Interlock Control"),
        slot(sc::LINK_STATE_ENABLE, "Data Link Layer State Changed Enable", "the event interrupts"),
        Field::ro(1 << 13, "Auto Slot Power Limit Disable"),
        slot_event(sc::ATTENTION_BUTTON, "Attention Button Pressed"),
        slot_event(sc::POWER_FAULT, "Power Fault Detected"),
        slot_event(sc::MRL_SENSOR, "MRL Sensor Changed"),
        slot_event(sc::PRESENCE, "Presence Detect Changed"),
        slot_event(sc::COMMAND_COMPLETED, "Command Completed"),
        Field::state(sc::MRL_OPEN, "MRL Sensor State"),
        Field::state(sc::PRESENT, "Presence Detect State"),
        Field::ro(1 << 23, "Electromechanical Interlock Status"),
        slot_event(sc::LINK_STATE, "Data Link Layer State Changed"),
    ],
};

const fn root(bits: u32, name: &'static str, does: &'static str) -> Field {
    Field::rw(bits, name, does).tells(Effects::ROOT_CONTROL)
}

const SYSTEM_ERROR: &str = "the root complex has no system error line beside the interrupts of AER";

const fn system_error(bits: u32, name: &'static str) -> Field {
    Field::inert(bits, name, SYSTEM_ERROR).tells(Effects::ROOT_CONTROL)
}

const ROOT_CONTROL: Word = Word {
    dw: super::ROOT_CONTROL,
    name: "Root Control, Root Capabilities",
    fields: &[
        system_error(1, "System Error on Correctable Error Enable"),
        system_error(1 << 1, "System Error on Non-Fatal Error Enable"),
        system_error(1 << 2, "System Error on Fatal Error Enable"),
        root(rc::PME_INTERRUPT_ENABLE, "PME Interrupt Enable", "PME interrupts"),
        root(
            rc::CRS_VISIBILITY_ENABLE,
            "CRS Software Visibility Enable",
            "software sees Vendor ID 0001h for a CRS",
        ),
        Field::hwinit(rc::CRS_VISIBILITY, "CRS Software Visibility"),
    ],
};

const ROOT_STATUS: Word = Word {
    dw: super::ROOT_STATUS,
    name: "Root Status",
    fields: &[
        Field::ro(0xffff, "PME Requester ID"),
        Field::rw1c(rc::PME_STATUS, "PME Status", "event").tells(Effects::PME),
        Field::ro(rc::PME_PENDING, "PME Pending"),
    ],
};

const DEVICE_CAPABILITIES_2: Word = Word {
    dw: super::DEVICE_CAPABILITIES_2,
    name: "Device Capabilities 2",
    fields: &[
        Field::hwinit(0xf, "Completion Timeout Ranges Supported"),
        Field::hwinit(1 << 4, "Completion Timeout Disable Supported"),
        Field::hwinit(1 << 5, "ARI Forwarding Supported"),
        Field::hwinit(1 << 6, "AtomicOp Routing Supported"),
        Field::hwinit(0b111 << 7, "32-bit, 64-bit AtomicOp, 128-bit CAS Completer Supported"),
        Field::ro(1 << 10, "No RO-enabled PR-PR Passing"),
        Field::hwinit(1 << 11, "LTR Mechanism Supported"),
        Field::ro(0b11 << 12, "TPH Completer Supported"),
        Field::ro(0b11 << 14, "LN System CLS"),
        Field::hwinit(1 << 16, "10-Bit Tag Completer Supported"),
        Field::hwinit(1 << 17, "10-Bit Tag Requester Supported"),
        Field::ro(0b11 << 18, "OBFF Supported"),
        Field::hwinit(1 << 20, "Extended Fmt Field Supported"),
        Field::hwinit(1 << 21, "End-End TLP Prefix Supported"),
        Field::hwinit(0b11 << 22, "Max End-End TLP Prefixes"),
        Field::ro(0b111 << 24, "Emergency Power Reduction"),
        Field::hwinit(0b111 << 28, "DMWr Completer, Lengths Supported"),
        Field::ro(1 << 31, "FRS Supported"),
    ],
};

const DEVICE_CONTROL_2: Word = Word {
    dw: super::DEVICE_CONTROL_2,
    name: "Device Control 2, Device Status 2",
    fields: &[
        control(dc2::TIMEOUT_VALUE, "Completion Timeout Value", "how long a read waits"),
        control(dc2::TIMEOUT_DISABLE, "Completion Timeout Disable", "reads wait for ever"),
        Field::rw(
            dc2::ARI_FORWARDING,
            "ARI Forwarding Enable",
            "configuration requests reach 256 functions below",
        )
        .tells(Effects::DEVICE_CONTROL.union(Effects::ARI)),
        control(dc2::ATOMIC_REQUESTER, "AtomicOp Requester Enable", "issues AtomicOps"),
        control(
            dc2::ATOMIC_EGRESS_BLOCKING,
            "AtomicOp Egress Blocking",
            "AtomicOps do not leave by this port",
        ),
        control(dc2::IDO_REQUEST, "IDO Request Enable", "requests may have the attribute"),
        control(
            dc2::IDO_COMPLETION,
            "IDO Completion Enable",
            "completions have the attribute of their requests",
        ),
        Field::rw(
            dc2::LTR_ENABLE,
            "LTR Mechanism Enable",
            "a port takes LTR messages from below, to no effect",
        )
        .tells(Effects::DEVICE_CONTROL.union(Effects::LTR)),
        Field::ro(1 << 11, "Emergency Power Reduction Request"),
        control(dc2::TEN_BIT_TAG, "10-Bit Tag Requester Enable", "10-bit tags"),
        Field::ro(0b11 << 13, "OBFF Enable"),
        control(
            dc2::PREFIX_BLOCKING,
            "End-End TLP Prefix Blocking",
            "TLPs with such prefixes do not leave by this port",
        ),
    ],
};

const LINK_CAPABILITIES_2: Word = Word {
    dw: super::LINK_CAPABILITIES_2,
    name: "Link Capabilities 2",
    fields: &[
        Field::hwinit(0x7f << 1, "Supported Link Speeds Vector"),
        Field::ro(1 << 8, "Crosslink Supported"),
        Field::ro(0x7f << 9, "Lower SKP OS Generation Supported Speeds Vector"),
        Field::ro(0x7f << 16, "Lower SKP OS Reception Supported Speeds Vector"),
        Field::ro(0b11 << 23, "Retimer Presence Detect Supported"),
        Field::ro(1 << 31, "DRS Supported"),
    ],
};

const LINK_CONTROL_2: Word = Word {
    dw: super::LINK_CONTROL_2,
    name: "Link Control 2, Link Status 2",
    fields: &[
        Field::inert_sticky(0xf, "Target Link Speed", NO_RATE_CHANGE),
        Field::inert_sticky(1 << 4, "Enter Compliance", NO_TRAINING),
        Field::inert_sticky(1 << 5, "Hardware Autonomous Speed Disable", NO_RATE_CHANGE),
        Field::ro(1 << 6, "Selectable De-emphasis"),
        Field::inert_sticky(0b111 << 7, "Transmit Margin", NO_TRAINING),
        Field::inert_sticky(1 << 10, "Enter Modified Compliance", NO_TRAINING),
        Field::inert_sticky(1 << 11, "Compliance SOS", NO_TRAINING),
        Field::inert_sticky(0xf << 12, "Compliance Preset/De-emphasis", NO_TRAINING),
        Field::ro(1 << 16, "Current De-emphasis Level"),
        Field::ros(0xf << 17, "Equalization Complete, Phase 1 to 3 Successful"),
        Field::inert_event_sticky(1 << 21, "Link Equalization Request", "equalization is not modelled"),
        Field::ro(0b11 << 22, "Retimer Presence Detected"),
        Field::ro(0b11 << 24, "Crosslink Resolution"),
        Field::ro(0b111 << 28, "Downstream Component Presence"),
        Field::ro(1 << 31, "DRS Message Received"),
    ],
};

/// The registers of the capability.
pub const TABLE: Structure = Structure {
    name: "PCI Express",
    source: "PCIe 5.0 §7.5.3",
    words: &[
        CAPABILITIES,
        DEVICE_CAPABILITIES,
        DEVICE_CONTROL,
        LINK_CAPABILITIES,
        LINK_CONTROL,
        SLOT_CAPABILITIES,
        SLOT_CONTROL,
        ROOT_CONTROL,
        ROOT_STATUS,
        DEVICE_CAPABILITIES_2,
        DEVICE_CONTROL_2,
        LINK_CAPABILITIES_2,
        LINK_CONTROL_2,
        Word { dw: 13, name: "Slot Capabilities 2", fields: &[Field::ro(1, "In-Band PD Disable Supported")] },
        Word {
            dw: 14,
            name: "Slot Control 2, Slot Status 2",
            fields: &[Field::ro(!0, "In-Band PD Disable")],
        },
    ],
};
