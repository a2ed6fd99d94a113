// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of the PCI Express capability (`PCIe 5.0 §7.5.3`), for every port type. A layout omits the registers
//! that its port does not have.

use crate::register::structure;

const NO_ASPM: &str = "riser's links have no low-power states";
const NO_TRAINING: &str = "link training is not modelled";
const ANY_CUT: &str = "informs an endpoint where its root port splits completions; riser's endpoints accept any split; HwInit in root ports";
const NO_AUTONOMY: &str = "no device changes its link's bandwidth autonomously";
const INDICATOR: &str = "a simulated slot has no lights; only ConfigSpace::slot shows the value";
const SYSTEM_ERROR: &str = "the root complex signals errors only by AER interrupts, not by a system error";

structure! {
    capability 0x10, "PCI Express", "PCIe 5.0 §7.5.3";

    0x00 CAPABILITIES in capabilities "PCI Express Capabilities" {
        19:16 hwinit VERSION "Capability Version";
        23:20 hwinit PORT_TYPE "Device/Port Type";
        24    hwinit SLOT_IMPLEMENTED "Slot Implemented";
        29:25 hwinit MESSAGE_NUMBER "Interrupt Message Number";
    }
    0x04 DEVICE_CAPABILITIES in device_capabilities "Device Capabilities" {
        2:0   hwinit         MPS_SUPPORTED "Max_Payload_Size Supported";
        4:3   ro             PHANTOM_FUNCTIONS "Phantom Functions Supported";
        5     hwinit         EXTENDED_TAG_SUPPORTED "Extended Tag Field Supported";
        8:6   ro             L0S_LATENCY "Endpoint L0s Acceptable Latency";
        11:9  ro             L1_LATENCY "Endpoint L1 Acceptable Latency";
        15    hwinit         ROLE_BASED_ERROR_REPORTING "Role-Based Error Reporting";
        16    ro             ERR_COR_SUBCLASS "ERR_COR Subclass Capable";
        27:18 ro.kept_by_flr SLOT_POWER_LIMIT "Captured Slot Power Limit Value, Scale";
        28    hwinit         FUNCTION_LEVEL_RESET "Function Level Reset Capability";
    }
    0x08 DEVICE_CONTROL in device_control "Device Control, Device Status" {
        0     rw             CORRECTABLE_REPORTING "Correctable Error Reporting Enable",
            "ERR_COR is sent" => DEVICE_CONTROL;
        1     rw             NON_FATAL_REPORTING "Non-Fatal Error Reporting Enable",
            "ERR_NONFATAL is sent" => DEVICE_CONTROL;
        2     rw             FATAL_REPORTING "Fatal Error Reporting Enable",
            "ERR_FATAL is sent" => DEVICE_CONTROL;
        3     rw             UNSUPPORTED_REPORTING "Unsupported Request Reporting Enable",
            "Unsupported Requests are reported" => DEVICE_CONTROL;
        4     rw             RELAXED_ORDERING "Enable Relaxed Ordering",
            "requests may have the attribute" => DEVICE_CONTROL;
        7:5   rw.kept_by_flr MPS "Max_Payload_Size", "maximum payload of writes and completions" => DEVICE_CONTROL;
        8     rw             EXTENDED_TAG "Extended Tag Field Enable", "8-bit tags" => DEVICE_CONTROL;
        9     ro             PHANTOM_FUNCTIONS "Phantom Functions Enable";
        10    ro             AUX_POWER_PM "Aux Power PM Enable";
        11    rw             NO_SNOOP "Enable No Snoop", "requests may have the attribute" => DEVICE_CONTROL;
        14:12 rw             MRRS "Max_Read_Request_Size", "maximum size of read requests" => DEVICE_CONTROL;
        15    trigger        INITIATE_FLR "Initiate Function Level Reset",
            "resets the function" => FUNCTION_LEVEL_RESET;
        16    rw1c           CORRECTABLE_DETECTED "Correctable Error Detected", "event";
        17    rw1c           NON_FATAL_DETECTED "Non-Fatal Error Detected", "event";
        18    rw1c           FATAL_DETECTED "Fatal Error Detected", "event";
        19    rw1c           UNSUPPORTED_DETECTED "Unsupported Request Detected", "event";
        20    ro             AUX_POWER_DETECTED "AUX Power Detected";
        21    ro             TRANSACTIONS_PENDING "Transactions Pending";
    }
    0x0c LINK_CAPABILITIES in link_capabilities "Link Capabilities" {
        3:0   hwinit MAX_SPEED "Max Link Speed";
        9:4   hwinit MAX_WIDTH "Maximum Link Width";
        11:10 ro     ASPM_SUPPORT "ASPM Support";
        14:12 ro     L0S_EXIT_LATENCY "L0s Exit Latency";
        17:15 ro     L1_EXIT_LATENCY "L1 Exit Latency";
        18    ro     CLOCK_POWER_MANAGEMENT "Clock Power Management";
        19    hwinit SURPRISE_DOWN_CAPABLE "Surprise Down Error Reporting Capable";
        20    hwinit LINK_ACTIVE_CAPABLE "Data Link Layer Link Active Reporting Capable";
        21    hwinit BANDWIDTH_NOTIFICATION "Link Bandwidth Notification Capability";
        22    hwinit ASPM_OPTIONALITY "ASPM Optionality Compliance";
        31:24 hwinit PORT_NUMBER "Port Number";
    }
    0x10 LINK_CONTROL in link_control "Link Control, Link Status" {
        1:0   rw.inert.kept_by_flr ASPM "ASPM Control", NO_ASPM => LINK_CONTROL;
        3     rw.inert.kept_by_flr RCB_128 "Read Completion Boundary", ANY_CUT => LINK_CONTROL;
        4     rw                   LINK_DISABLE "Link Disable",
            "disables the link below" => LINK_CONTROL | LINK_DISABLE;
        5     trigger              RETRAIN_LINK "Retrain Link",
            "the link below goes through Recovery" => RETRAIN_LINK;
        6     rw.inert.kept_by_flr COMMON_CLOCK "Common Clock Configuration", NO_TRAINING => LINK_CONTROL;
        7     rw.inert.kept_by_flr EXTENDED_SYNCH "Extended Synch", NO_TRAINING => LINK_CONTROL;
        8     ro                   CLOCK_POWER_MANAGEMENT "Enable Clock Power Management";
        9     ro                   AUTONOMOUS_WIDTH_DISABLE "Hardware Autonomous Width Disable";
        10    rw                   BANDWIDTH_MANAGEMENT_ENABLE "Link Bandwidth Management Interrupt Enable",
            "the event interrupts" => LINK_CONTROL;
        11    rw.inert             AUTONOMOUS_BANDWIDTH_ENABLE "Link Autonomous Bandwidth Interrupt Enable",
            NO_AUTONOMY => LINK_CONTROL;
        15:14 ro                   DRS_SIGNALING_CONTROL "DRS Signaling Control";
        19:16 state                SPEED "Current Link Speed";
        25:20 state                WIDTH "Negotiated Link Width";
        27    state                TRAINING "Link Training";
        28    hwinit               SLOT_CLOCK "Slot Clock Configuration";
        29    state                LINK_ACTIVE "Data Link Layer Link Active";
        30    rw1c                 BANDWIDTH_MANAGEMENT "Link Bandwidth Management Status", "event" => LINK_CONTROL;
        31    rw1c.inert           AUTONOMOUS_BANDWIDTH "Link Autonomous Bandwidth Status", NO_AUTONOMY;
    }
    0x14 SLOT_CAPABILITIES in slot_capabilities "Slot Capabilities" {
        0     hwinit ATTENTION_BUTTON_PRESENT "Attention Button Present";
        1     hwinit POWER_CONTROLLER_PRESENT "Power Controller Present";
        2     hwinit MRL_SENSOR_PRESENT "MRL Sensor Present";
        3     hwinit ATTENTION_INDICATOR_PRESENT "Attention Indicator Present";
        4     hwinit POWER_INDICATOR_PRESENT "Power Indicator Present";
        5     hwinit SURPRISE "Hot-Plug Surprise";
        6     hwinit HOT_PLUG "Hot-Plug Capable";
        16:7  hwinit POWER_LIMIT "Slot Power Limit Value, Scale";
        17    hwinit INTERLOCK_PRESENT "Electromechanical Interlock Present";
        18    hwinit NO_COMMAND_COMPLETED "No Command Completed Support";
        31:19 hwinit PHYSICAL_SLOT_NUMBER "Physical Slot Number";
    }
    0x18 SLOT_CONTROL in slot_control "Slot Control, Slot Status" {
        0   rw       ATTENTION_BUTTON_ENABLE "Attention Button Pressed Enable",
            "the event interrupts" => SLOT_CONTROL;
        1   rw       POWER_FAULT_ENABLE "Power Fault Detected Enable", "the event interrupts" => SLOT_CONTROL;
        2   rw       MRL_SENSOR_ENABLE "MRL Sensor Changed Enable", "the event interrupts" => SLOT_CONTROL;
        3   rw       PRESENCE_ENABLE "Presence Detect Changed Enable", "the event interrupts" => SLOT_CONTROL;
        4   rw       COMMAND_COMPLETED_ENABLE "Command Completed Interrupt Enable",
            "the event interrupts" => SLOT_CONTROL;
        5   rw       HOT_PLUG_INTERRUPT_ENABLE "Hot-Plug Interrupt Enable", "events interrupt" => SLOT_CONTROL;
        7:6 rw.inert ATTENTION_INDICATOR "Attention Indicator Control", INDICATOR => SLOT_CONTROL;
        9:8 rw.inert POWER_INDICATOR "Power Indicator Control", INDICATOR => SLOT_CONTROL;
        10  rw       POWER_OFF "Power Controller Control", "set: the slot is without power" => SLOT_CONTROL;
        11  ro       INTERLOCK_CONTROL "Electromechanical Interlock Control";
        12  rw       LINK_STATE_ENABLE "Data Link Layer State Changed Enable",
            "the event interrupts" => SLOT_CONTROL;
        13  ro       AUTO_POWER_LIMIT_DISABLE "Auto Slot Power Limit Disable";
        16  rw1c     ATTENTION_BUTTON "Attention Button Pressed", "event" => SLOT_STATUS;
        17  rw1c     POWER_FAULT "Power Fault Detected", "event" => SLOT_STATUS;
        18  rw1c     MRL_SENSOR "MRL Sensor Changed", "event" => SLOT_STATUS;
        19  rw1c     PRESENCE "Presence Detect Changed", "event" => SLOT_STATUS;
        20  rw1c     COMMAND_COMPLETED "Command Completed", "event" => SLOT_STATUS;
        21  state    MRL_OPEN "MRL Sensor State";
        22  state    PRESENT "Presence Detect State";
        23  ro       INTERLOCK "Electromechanical Interlock Status";
        24  rw1c     LINK_STATE "Data Link Layer State Changed", "event" => SLOT_STATUS;
    }
    0x1c ROOT_CONTROL in root_control "Root Control, Root Capabilities" {
        0  rw.inert SYSTEM_ERROR_CORRECTABLE "System Error on Correctable Error Enable",
            SYSTEM_ERROR => ROOT_CONTROL;
        1  rw.inert SYSTEM_ERROR_NON_FATAL "System Error on Non-Fatal Error Enable",
            SYSTEM_ERROR => ROOT_CONTROL;
        2  rw.inert SYSTEM_ERROR_FATAL "System Error on Fatal Error Enable", SYSTEM_ERROR => ROOT_CONTROL;
        3  rw       PME_INTERRUPT_ENABLE "PME Interrupt Enable", "PME interrupts" => ROOT_CONTROL;
        4  rw       CRS_VISIBILITY_ENABLE "CRS Software Visibility Enable",
            "software sees Vendor ID 0001h for a CRS" => ROOT_CONTROL;
        16 hwinit   CRS_VISIBILITY "CRS Software Visibility";
    }
    0x20 ROOT_STATUS in root_status "Root Status" {
        15:0 ro   PME_REQUESTER_ID "PME Requester ID";
        16   rw1c PME_STATUS "PME Status", "event" => PME;
        17   ro   PME_PENDING "PME Pending";
    }
    0x24 DEVICE_CAPABILITIES_2 in device_capabilities_2 "Device Capabilities 2" {
        3:0   hwinit TIMEOUT_RANGES "Completion Timeout Ranges Supported";
        4     hwinit TIMEOUT_DISABLE_SUPPORTED "Completion Timeout Disable Supported";
        5     hwinit ARI_FORWARDING_SUPPORTED "ARI Forwarding Supported";
        6     hwinit ATOMIC_ROUTING "AtomicOp Routing Supported";
        9:7   hwinit ATOMIC_COMPLETER "32-bit, 64-bit AtomicOp, 128-bit CAS Completer Supported";
        10    ro     NO_RO_PASSING "No RO-enabled PR-PR Passing";
        11    hwinit LTR_SUPPORTED "LTR Mechanism Supported";
        13:12 ro     TPH_COMPLETER "TPH Completer Supported";
        15:14 ro     LN_SYSTEM_CLS "LN System CLS";
        16    hwinit TEN_BIT_TAG_COMPLETER "10-Bit Tag Completer Supported";
        17    hwinit TEN_BIT_TAG_REQUESTER "10-Bit Tag Requester Supported";
        19:18 ro     OBFF "OBFF Supported";
        20    hwinit EXTENDED_FMT "Extended Fmt Field Supported";
        21    hwinit END_END_PREFIX "End-End TLP Prefix Supported";
        23:22 hwinit MAX_END_END_PREFIXES "Max End-End TLP Prefixes";
        26:24 ro     EMERGENCY_POWER_REDUCTION "Emergency Power Reduction";
        30:28 hwinit DEFERRABLE_WRITE "DMWr Completer, Lengths Supported";
        31    ro     FRS "FRS Supported";
    }
    0x28 DEVICE_CONTROL_2 in device_control_2 "Device Control 2, Device Status 2" {
        3:0   rw TIMEOUT_VALUE "Completion Timeout Value", "time until a read times out" => DEVICE_CONTROL;
        4     rw TIMEOUT_DISABLE "Completion Timeout Disable", "reads never time out" => DEVICE_CONTROL;
        5     rw ARI_FORWARDING "ARI Forwarding Enable",
            "configuration requests reach 256 functions below" => DEVICE_CONTROL | ARI;
        6     rw ATOMIC_REQUESTER "AtomicOp Requester Enable", "issues AtomicOps" => DEVICE_CONTROL;
        7     rw ATOMIC_EGRESS_BLOCKING "AtomicOp Egress Blocking",
            "AtomicOps are not sent from this port" => DEVICE_CONTROL;
        8     rw IDO_REQUEST "IDO Request Enable", "requests may have the attribute" => DEVICE_CONTROL;
        9     rw IDO_COMPLETION "IDO Completion Enable",
            "completions have the attribute of their requests" => DEVICE_CONTROL;
        10    rw LTR_ENABLE "LTR Mechanism Enable",
            "a port accepts LTR messages from below, without effect" => DEVICE_CONTROL | LTR;
        11    ro EMERGENCY_POWER_REDUCTION "Emergency Power Reduction Request";
        12    rw TEN_BIT_TAG "10-Bit Tag Requester Enable", "10-bit tags" => DEVICE_CONTROL;
        14:13 ro OBFF "OBFF Enable";
        15    rw PREFIX_BLOCKING "End-End TLP Prefix Blocking",
            "TLPs with such prefixes are not sent from this port" => DEVICE_CONTROL;
    }
    0x2c LINK_CAPABILITIES_2 in link_capabilities_2 "Link Capabilities 2" {
        7:1   hwinit SPEEDS "Supported Link Speeds Vector";
        8     ro     CROSSLINK "Crosslink Supported";
        15:9  ro     LOWER_SKP_GENERATION "Lower SKP OS Generation Supported Speeds Vector";
        22:16 ro     LOWER_SKP_RECEPTION "Lower SKP OS Reception Supported Speeds Vector";
        24:23 ro     RETIMER_PRESENCE_DETECT "Retimer Presence Detect Supported";
        31    ro     DRS "DRS Supported";
    }
    0x30 LINK_CONTROL_2 in link_control_2 "Link Control 2, Link Status 2" {
        3:0   rws         TARGET_SPEED "Target Link Speed", "the highest rate at which the link below retrains";
        4     rws.inert   ENTER_COMPLIANCE "Enter Compliance", NO_TRAINING;
        5     rws.inert   AUTONOMOUS_SPEED_DISABLE "Hardware Autonomous Speed Disable", NO_AUTONOMY;
        6     ro          SELECTABLE_DE_EMPHASIS "Selectable De-emphasis";
        9:7   rws.inert   TRANSMIT_MARGIN "Transmit Margin", NO_TRAINING;
        10    rws.inert   ENTER_MODIFIED_COMPLIANCE "Enter Modified Compliance", NO_TRAINING;
        11    rws.inert   COMPLIANCE_SOS "Compliance SOS", NO_TRAINING;
        15:12 rws.inert   COMPLIANCE_PRESET "Compliance Preset/De-emphasis", NO_TRAINING;
        16    ro          DE_EMPHASIS_LEVEL "Current De-emphasis Level";
        20:17 ros         EQUALIZATION_COMPLETE "Equalization Complete, Phase 1 to 3 Successful";
        21    rw1cs.inert LINK_EQUALIZATION_REQUEST "Link Equalization Request",
            "equalization is not modelled";
        23:22 ro          RETIMER_PRESENCE "Retimer Presence Detected";
        25:24 ro          CROSSLINK_RESOLUTION "Crosslink Resolution";
        30:28 ro          COMPONENT_PRESENCE "Downstream Component Presence";
        31    ro          DRS_RECEIVED "DRS Message Received";
    }
    0x34 _ in slot_capabilities_2 "Slot Capabilities 2" {
        0 ro IN_BAND_PD_DISABLE "In-Band PD Disable Supported";
    }
    0x38 _ in slot_control_2 "Slot Control 2, Slot Status 2" {
        31:0 ro IN_BAND_PD_DISABLE "In-Band PD Disable";
    }
}
