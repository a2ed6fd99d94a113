// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The test of each writable field in each kind of functions (endpoints, virtual functions, switch ports, root ports).
//! That test sees the effect of the field in TLPs and in what programs read. Fields that are inert in a kind need none.
//! Fails if a field is in no row or in several, if a row names a field that is not writable or inert, or if its test
//! does not exist. This file does not run these tests.

use config::{FunctionKind, structures};
use std::collections::BTreeMap;
use std::path::Path;

const TYPE_0: &str = "Type 0 configuration header";
const TYPE_1: &str = "Type 1 configuration header";
const VF: &str = "Type 0 configuration header of a Virtual Function";
const PM: &str = "Power Management";
const MSI: &str = "MSI";
const MSIX: &str = "MSI-X";
const PCIE: &str = "PCI Express";
const AER: &str = "Advanced Error Reporting";
const ACS: &str = "Access Control Services";
const SRIOV: &str = "Single Root I/O Virtualization";
const RESIZABLE: &str = "Resizable BAR";
const DPC: &str = "Downstream Port Containment";
const VC: &str = "Virtual Channel";

const COMMAND: &str = "Command, Status";
const DEVICE_CONTROL: &str = "Device Control, Device Status";
const DEVICE_CONTROL_2: &str = "Device Control 2, Device Status 2";
const LINK_CONTROL: &str = "Link Control, Link Status";
const LINK_CONTROL_2: &str = "Link Control 2, Link Status 2";
const SLOT_CONTROL: &str = "Slot Control, Slot Status";
const BRIDGE_CONTROL: &str = "Interrupt Line, Interrupt Pin, Bridge Control";
const IO: &str = "I/O Base, I/O Limit, Secondary Status";
const PREFETCHABLE: &str = "Prefetchable Memory Base, Limit";
const IO_UPPER: &str = "I/O Base Upper 16 Bits, I/O Limit Upper 16 Bits";
const AER_CONTROL: &str = "Advanced Error Capabilities and Control";
const SRIOV_CONTROL: &str = "SR-IOV Control, SR-IOV Status";
const ACS_CONTROL: &str = "ACS Capability, ACS Control";
const DPC_CONTROL: &str = "DPC Capability, DPC Control";
const DPC_STATUS: &str = "DPC Status, DPC Error Source ID";
const RP_PIO: &str = "Cfg, I/O, Mem: UR, CA, Completion Timeout";

/// Kind of functions, structure, register, fields, file below `crates`, test.
type Row = (FunctionKind, &'static str, &'static str, &'static [&'static str], &'static str, &'static str);

const E: FunctionKind = FunctionKind::Endpoint;
const V: FunctionKind = FunctionKind::VirtualFunction;
const S: FunctionKind = FunctionKind::SwitchPort;
const R: FunctionKind = FunctionKind::RootPort;

const REGISTERS: &str = "endpoint/tests/it/endpoint/registers.rs";
const KINDS: &str = "endpoint/tests/it/endpoint/kinds.rs";
const INBOUND: &str = "endpoint/tests/it/endpoint/inbound.rs";
const OUTBOUND: &str = "endpoint/tests/it/endpoint/outbound.rs";
const INTERRUPTS: &str = "endpoint/tests/it/endpoint/interrupts.rs";
const POWER: &str = "endpoint/tests/it/endpoint/power.rs";
const RESET: &str = "endpoint/tests/it/endpoint/reset.rs";
const ENDPOINT_ERRORS: &str = "endpoint/tests/it/endpoint/errors.rs";
const VFS: &str = "endpoint/tests/it/endpoint/virtual_functions.rs";
const ROUTING: &str = "fabric/tests/it/switch_routing.rs";
const LINKS: &str = "fabric/tests/it/switch_links.rs";
const SWITCH_ERRORS: &str = "fabric/tests/it/switch_errors.rs";
const BRIDGES: &str = "fabric/tests/it/switch_registers.rs";
const ROOT: &str = "fabric/tests/it/root_ports.rs";
const PEERS: &str = "fabric/tests/it/root_ports_peer.rs";
const ROOT_REGISTERS: &str = "fabric/tests/it/root_registers.rs";
const ROOT_BRIDGES: &str = "fabric/tests/it/root_bridges.rs";
const LAB_LINKS: &str = "lab/tests/it/switch_links.rs";
const ERRORS: &str = "lab/tests/it/errors_table.rs";
const CHANNELS: &str = "lab/tests/it/virtual_channels.rs";

const WINDOWS: &[(&str, &[&str])] = &[
    ("Bus Numbers", &["Secondary Bus Number", "Subordinate Bus Number"]),
    (IO, &["I/O Base", "I/O Limit"]),
    ("Memory Base, Memory Limit", &["Memory Base", "Memory Limit"]),
    (PREFETCHABLE, &["Prefetchable Memory Base", "Prefetchable Memory Limit"]),
    ("Prefetchable Base Upper 32 Bits", &["Prefetchable Base Upper 32 Bits"]),
    ("Prefetchable Limit Upper 32 Bits", &["Prefetchable Limit Upper 32 Bits"]),
    (IO_UPPER, &["I/O Base Upper 16 Bits", "I/O Limit Upper 16 Bits"]),
];

const REPORTING: &[&str] = &[
    "Correctable Error Reporting Enable",
    "Non-Fatal Error Reporting Enable",
    "Fatal Error Reporting Enable",
    "Unsupported Request Reporting Enable",
];
const DETECTED: &[&str] = &[
    "Correctable Error Detected",
    "Non-Fatal Error Detected",
    "Fatal Error Detected",
    "Unsupported Request Detected",
];
const MSI_ENABLE: &[&str] = &["MSI Enable"];
const MSI_REGISTERS: &[(&str, &str)] = &[
    ("Message Address", "Message Address"),
    ("Message Upper Address (64-bit only)", "Message Upper Address"),
    ("Message Data", "Message Data"),
];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (E, TYPE_0, COMMAND, &["I/O Space Enable"], KINDS, "unclaimed_io_is_refused"),
    (E, TYPE_0, COMMAND, &["Memory Space Enable"], INBOUND, "memory_enable_gates_requests_and_posted_refusals_are_counted"),
    (E, TYPE_0, COMMAND, &["Bus Master Enable"], OUTBOUND, "bus_master_enable_gates_every_request"),
    (E, TYPE_0, COMMAND, &["Parity Error Response", "Master Data Parity Error", "Signaled Target Abort",
        "Received Target Abort", "Received Master Abort", "Signaled System Error", "Detected Parity Error"],
        REGISTERS, "events_set_status_bits_and_writes_clear_them"),
    (E, TYPE_0, COMMAND, &["SERR# Enable"], REGISTERS, "each_error_message_depends_on_its_enable_bits"),
    (E, TYPE_0, COMMAND, &["Interrupt Disable"], INTERRUPTS, "interrupt_disable_gates_the_level_but_not_the_status"),
    (E, TYPE_0, "Base Address Registers (six)", &["Base Address"], REGISTERS, "moved_bar_moves_its_window"),

    (S, TYPE_1, COMMAND, &["I/O Space Enable", "Memory Space Enable", "Bus Master Enable"], ROUTING, "command_bits_gate_requests"),
    (S, TYPE_1, COMMAND, &["Parity Error Response", "Master Data Parity Error"],
        SWITCH_ERRORS, "forwarded_poisoned_request_is_logged"),
    (S, TYPE_1, COMMAND, &["SERR# Enable"], LINKS, "bridges_forward_error_messages"),
    (S, TYPE_1, COMMAND, &["Interrupt Disable"], BRIDGES, "interrupt_disable_deasserts_the_wire"),
    (S, TYPE_1, COMMAND, &["Signaled System Error", "Detected Parity Error"],
        BRIDGES, "events_set_primary_and_secondary_status"),
    (S, TYPE_1, IO, &["Secondary: Master Data Parity Error"], SWITCH_ERRORS, "forwarded_poisoned_request_is_logged"),
    (S, TYPE_1, IO, &["Secondary: Signaled Target Abort"], SWITCH_ERRORS, "a_blocked_request_signals_target_abort"),
    (S, TYPE_1, IO, &["Secondary: Received System Error", "Secondary: Detected Parity Error"],
        BRIDGES, "events_set_primary_and_secondary_status"),
    (S, TYPE_1, BRIDGE_CONTROL, &["Parity Error Response Enable"],
        SWITCH_ERRORS, "forwarded_poisoned_request_is_logged"),
    (S, TYPE_1, BRIDGE_CONTROL, &["SERR# Enable"], LINKS, "bridges_forward_error_messages"),
    (S, TYPE_1, BRIDGE_CONTROL, &["ISA Enable", "VGA Enable", "VGA 16-bit Decode"], BRIDGES, "isa_and_vga_enable_select_claimed_addresses"),
    (S, TYPE_1, BRIDGE_CONTROL, &["Secondary Bus Reset"], LINKS, "software_resets_disables_and_retrains_links"),

    (R, TYPE_1, COMMAND, &["I/O Space Enable", "Memory Space Enable"], ROOT, "windows_and_enables_route_requests"),
    (R, TYPE_1, COMMAND, &["Bus Master Enable"], ROOT, "bus_master_enable_gates_requests"),
    (R, TYPE_1, COMMAND, &["SERR# Enable", "Signaled System Error"], ROOT_BRIDGES, "own_errors_depend_on_their_enable_bits"),
    (R, TYPE_1, COMMAND, &["Interrupt Disable"], ROOT_BRIDGES, "interrupt_disable_deasserts_the_wire"),
    (R, TYPE_1, COMMAND, &["Detected Parity Error"], ROOT_BRIDGES, "events_set_primary_and_secondary_status"),
    (R, TYPE_1, IO, &["Secondary: Master Data Parity Error"], PEERS, "forwarded_poisoned_request_is_logged"),
    (R, TYPE_1, IO, &["Secondary: Received Target Abort", "Secondary: Received Master Abort"],
        ROOT, "refused_requests_set_secondary_status"),
    (R, TYPE_1, IO, &["Secondary: Signaled Target Abort", "Secondary: Received System Error",
        "Secondary: Detected Parity Error"], ROOT_BRIDGES, "events_set_primary_and_secondary_status"),
    (R, TYPE_1, BRIDGE_CONTROL, &["Parity Error Response Enable"], PEERS, "forwarded_poisoned_request_is_logged"),
    (R, TYPE_1, BRIDGE_CONTROL, &["SERR# Enable"], ROOT, "serr_enable_gates_error_messages"),
    (R, TYPE_1, BRIDGE_CONTROL, &["ISA Enable", "VGA Enable", "VGA 16-bit Decode"], ROOT_BRIDGES, "isa_and_vga_enable_select_claimed_addresses"),
    (R, TYPE_1, BRIDGE_CONTROL, &["Secondary Bus Reset"], ROOT, "reset_and_link_disable_take_the_link_down"),

    (V, VF, COMMAND, &["Bus Master Enable"], VFS, "each_virtual_function_has_its_own_bus_master_enable"),
    (V, VF, COMMAND, &["Signaled Target Abort", "Received Target Abort", "Received Master Abort", "Signaled System Error",
        "Detected Parity Error"], VFS, "status_events_set_bits_only_in_their_function"),

    (E, PM, PM_CONTROL, &["PowerState"], POWER, "d3hot_refuses_memory_and_answers_configuration_requests"),
    (E, PM, PM_CONTROL, &["PME_En", "PME_Status"], POWER, "pme_is_sent_if_enabled"),
    (S, PM, PM_CONTROL, &["PowerState"], BRIDGES, "a_port_in_d3hot_claims_and_forwards_no_memory_requests"),
    (R, PM, PM_CONTROL, &["PowerState"], ROOT_BRIDGES, "a_port_in_d3hot_claims_no_memory_requests"),

    (E, MSI, "Message Control", &["MSI Enable", "Multiple Message Enable"],
        REGISTERS, "msi_address_and_data_follow_its_registers"),
    (E, MSI, "Mask Bits (per-vector masking only)", &["Mask Bits"], INTERRUPTS, "masked_vectors_stay_pending"),
    (S, MSI, "Message Control", MSI_ENABLE, LINKS, "slot_events_interrupt"),
    (R, MSI, "Message Control", MSI_ENABLE, ROOT, "port_interrupts_may_use_intx"),
    (E, MSIX, "Message Control", &["Function Mask", "MSI-X Enable"],
        OUTBOUND, "endpoint_holds_msix_table_and_masked_vectors_pend"),
    (V, MSIX, "Message Control", &["Function Mask", "MSI-X Enable"], VFS, "each_virtual_function_has_its_own_msix"),

    (E, PCIE, DEVICE_CONTROL, REPORTING, REGISTERS, "each_error_message_depends_on_its_enable_bits"),
    (S, PCIE, DEVICE_CONTROL, REPORTING, BRIDGES, "own_errors_depend_on_their_enable_bits"),
    (R, PCIE, DEVICE_CONTROL, REPORTING, ROOT_BRIDGES, "own_errors_depend_on_their_enable_bits"),
    (E, PCIE, DEVICE_CONTROL, DETECTED, REGISTERS, "events_set_device_status_bits_and_writes_clear_them"),
    (V, PCIE, DEVICE_CONTROL, DETECTED, VFS, "each_error_sets_status_of_its_virtual_function"),
    (S, PCIE, DEVICE_CONTROL, DETECTED, BRIDGES, "own_errors_depend_on_their_enable_bits"),
    (R, PCIE, DEVICE_CONTROL, DETECTED, ROOT_BRIDGES, "own_errors_depend_on_their_enable_bits"),
    (E, PCIE, DEVICE_CONTROL, &["Enable Relaxed Ordering", "Enable No Snoop"], REGISTERS, "each_attribute_depends_on_its_enable_bit"),
    (R, PCIE, DEVICE_CONTROL, &["Enable Relaxed Ordering", "Enable No Snoop"],
        ROOT_REGISTERS, "host_messages_have_only_enabled_attributes"),
    (E, PCIE, DEVICE_CONTROL, &["Max_Payload_Size"], INBOUND, "answers_are_split_at_mps_and_rcb"),
    (S, PCIE, DEVICE_CONTROL, &["Max_Payload_Size"], ROUTING, "egress_port_blocks_atomics_and_prefixes"),
    (R, PCIE, DEVICE_CONTROL, &["Max_Payload_Size"], PEERS, "writes_above_mps_of_peer_port_are_split_or_malformed"),
    (E, PCIE, DEVICE_CONTROL, &["Extended Tag Field Enable"], KINDS, "only_enabled_tags_are_used"),
    (R, PCIE, DEVICE_CONTROL, &["Extended Tag Field Enable"], ROOT_REGISTERS, "host_has_32_tags_without_extended_tags"),
    (E, PCIE, DEVICE_CONTROL, &["Max_Read_Request_Size"], VFS, "virtual_functions_use_sizes_of_the_physical_function"),
    (R, PCIE, DEVICE_CONTROL, &["Max_Read_Request_Size"],
        ROOT_REGISTERS, "reads_of_the_host_are_cut_at_max_read_request_size"),
    (E, PCIE, DEVICE_CONTROL, &["Initiate Function Level Reset"],
        RESET, "flr_voids_outstanding_requests_and_keeps_tags_out_of_use"),
    (V, PCIE, DEVICE_CONTROL, &["Initiate Function Level Reset"], VFS, "flr_during_reads_affects_only_its_function"),

    (S, PCIE, LINK_CONTROL, &["Link Disable", "Retrain Link"], LINKS, "software_resets_disables_and_retrains_links"),
    (R, PCIE, LINK_CONTROL, &["Link Disable"], ROOT, "reset_and_link_disable_take_the_link_down"),
    (R, PCIE, LINK_CONTROL, &["Retrain Link"], ROOT, "a_link_retrains_at_the_target_link_speed"),
    (S, PCIE, LINK_CONTROL, &["Link Bandwidth Management Interrupt Enable", "Link Bandwidth Management Status"],
        BRIDGES, "retrained_link_interrupts_if_enabled"),
    (R, PCIE, LINK_CONTROL, &["Link Bandwidth Management Interrupt Enable", "Link Bandwidth Management Status"],
        ROOT_BRIDGES, "retrained_link_interrupts_if_enabled"),
    (S, PCIE, LINK_CONTROL_2, &["Target Link Speed"],
        LAB_LINKS, "a_link_below_a_switch_retrains_at_the_target_link_speed"),
    (R, PCIE, LINK_CONTROL_2, &["Target Link Speed"], ROOT, "a_link_retrains_at_the_target_link_speed"),

    (S, PCIE, SLOT_CONTROL, &["Attention Button Pressed Enable", "Power Fault Detected Enable", "MRL Sensor Changed Enable",
        "Presence Detect Changed Enable", "Command Completed Interrupt Enable", "Hot-Plug Interrupt Enable",
        "Data Link Layer State Changed Enable", "Attention Button Pressed", "Power Fault Detected", "MRL Sensor Changed",
        "Presence Detect Changed", "Command Completed", "Data Link Layer State Changed"],
        BRIDGES, "each_slot_event_depends_on_its_enable_bit"),
    (S, PCIE, SLOT_CONTROL, &["Power Controller Control"], LINKS, "software_switches_slot_power"),
    (R, PCIE, SLOT_CONTROL, &["Attention Button Pressed Enable", "Presence Detect Changed Enable",
        "Hot-Plug Interrupt Enable", "Data Link Layer State Changed Enable", "Attention Button Pressed",
        "Presence Detect Changed", "Data Link Layer State Changed"],
        ROOT_BRIDGES, "each_slot_event_depends_on_its_enable_bit"),
    (R, PCIE, SLOT_CONTROL, &["Command Completed Interrupt Enable", "Command Completed", "Power Controller Control"],
        ROOT_BRIDGES, "slot_commands_complete_and_switch_power"),
    (R, PCIE, "Root Control, Root Capabilities", &["PME Interrupt Enable"],
        ROOT_REGISTERS, "root_status_reports_one_pme_at_a_time"),
    (R, PCIE, "Root Control, Root Capabilities", &["CRS Software Visibility Enable"], ROOT, "crs_is_returned_to_software_or_retried"),
    (R, PCIE, "Root Status", &["PME Status"], ROOT_REGISTERS, "root_status_reports_one_pme_at_a_time"),

    (E, PCIE, DEVICE_CONTROL_2, TIMEOUT, REGISTERS, "read_timeout_follows_device_control_2"),
    (R, PCIE, DEVICE_CONTROL_2, TIMEOUT, ROOT_REGISTERS, "request_timeout_follows_device_control_2"),
    (S, PCIE, DEVICE_CONTROL_2, &["ARI Forwarding Enable"], ROUTING, "ari_forwarding_accepts_any_device_number"),
    (R, PCIE, DEVICE_CONTROL_2, &["ARI Forwarding Enable"], ROOT, "ari_forwarding_opens_the_secondary_bus"),
    (E, PCIE, DEVICE_CONTROL_2, &["AtomicOp Requester Enable"], KINDS, "disabled_atomics_fail"),
    (R, PCIE, DEVICE_CONTROL_2, &["AtomicOp Requester Enable"],
        ROOT_REGISTERS, "host_atomics_need_their_enable_bit"),
    (S, PCIE, DEVICE_CONTROL_2, EGRESS, ROUTING, "egress_port_blocks_atomics_and_prefixes"),
    (R, PCIE, DEVICE_CONTROL_2, EGRESS, ROOT_BRIDGES, "errors_follow_mask_and_severity"),
    (E, PCIE, DEVICE_CONTROL_2, &["IDO Request Enable"], REGISTERS, "each_attribute_depends_on_its_enable_bit"),
    (R, PCIE, DEVICE_CONTROL_2, &["IDO Request Enable"],
        ROOT_REGISTERS, "host_messages_have_only_enabled_attributes"),
    (E, PCIE, DEVICE_CONTROL_2, &["IDO Completion Enable"], REGISTERS, "completions_have_ido_if_enabled"),
    (R, PCIE, DEVICE_CONTROL_2, &["IDO Completion Enable"], ROOT_REGISTERS, "completions_have_ido_if_enabled"),
    (S, PCIE, DEVICE_CONTROL_2, &["LTR Mechanism Enable"], BRIDGES, "ltr_is_accepted_if_enabled"),
    (R, PCIE, DEVICE_CONTROL_2, &["LTR Mechanism Enable"], ROOT, "ltr_is_accepted_if_enabled"),
    (E, PCIE, DEVICE_CONTROL_2, &["10-Bit Tag Requester Enable"], KINDS, "only_enabled_tags_are_used"),

    (E, AER, AER_CONTROL, &["ECRC Generation Enable"], KINDS, "ecrc_is_generated_if_enabled"),
    (S, AER, AER_CONTROL, &["ECRC Generation Enable"], BRIDGES, "ecrc_is_generated_if_enabled"),
    (R, AER, AER_CONTROL, &["ECRC Generation Enable"], ROOT_REGISTERS, "ecrc_is_generated_if_enabled"),
    (E, AER, AER_CONTROL, &["ECRC Check Enable"], KINDS, "ecrc_is_checked_if_enabled"),
    (S, AER, AER_CONTROL, &["ECRC Check Enable"], SWITCH_ERRORS, "ecrc_is_checked_only_for_tlps_that_end_in_the_switch"),
    (R, AER, AER_CONTROL, &["ECRC Check Enable"], ROOT_BRIDGES, "ecrc_is_checked_if_enabled"),
    (E, AER, AER_CONTROL, &["Multiple Header Recording Enable"],
        REGISTERS, "multiple_headers_are_recorded_if_enabled"),
    (R, AER, "Root Error Command", &["Correctable Error Reporting Enable", "Non-Fatal Error Reporting Enable",
        "Fatal Error Reporting Enable"], ROOT, "error_messages_reach_the_root_registers"),
    (R, AER, "Root Error Status", &["ERR_COR Received", "Multiple ERR_COR Received", "ERR_FATAL/NONFATAL Received",
        "Multiple ERR_FATAL/NONFATAL Received", "First Uncorrectable Fatal", "Non-Fatal Error Messages Received",
        "Fatal Error Messages Received"], ROOT_REGISTERS, "root_error_status_separates_first_and_further_messages"),

    (S, ACS, ACS_CONTROL, &["ACS Source Validation Enable", "ACS Translation Blocking Enable",
        "ACS P2P Request Redirect Enable", "ACS P2P Completion Redirect Enable", "ACS Upstream Forwarding Enable",
        "ACS P2P Egress Control Enable", "ACS Direct Translated P2P Enable"], ROUTING, "acs_bits_select_path_of_peer_requests"),
    (S, ACS, "Egress Control Vector", &["Egress Control Vector"], ROUTING, "acs_bits_select_path_of_peer_requests"),
    (R, ACS, ACS_CONTROL, &["ACS Source Validation Enable", "ACS Translation Blocking Enable",
        "ACS P2P Request Redirect Enable", "ACS P2P Egress Control Enable", "ACS Direct Translated P2P Enable"],
        PEERS, "acs_bits_select_path_of_peer_requests"),
    (R, ACS, ACS_CONTROL, &["ACS Upstream Forwarding Enable"], PEERS, "upstream_forwarding_allows_return_to_the_same_port"),
    (R, ACS, "Egress Control Vector", &["Egress Control Vector"], PEERS, "acs_bits_select_path_of_peer_requests"),

    (E, SRIOV, SRIOV_CONTROL, &["VF Enable"], VFS, "clearing_vf_enable_removes_functions_and_drops_late_completions"),
    (E, SRIOV, SRIOV_CONTROL, &["VF MSE"], VFS, "vf_mse_gates_memory_of_all_virtual_functions"),
    (E, SRIOV, SRIOV_CONTROL, &["ARI Capable Hierarchy"],
        VFS, "virtual_functions_are_numbered_and_placed_by_the_capability"),
    (E, SRIOV, SRIOV_CONTROL, &["VF 10-Bit Tag Requester Enable"],
        VFS, "virtual_functions_use_long_tags_if_enabled"),
    (E, SRIOV, "NumVFs, Function Dependency Link", &["NumVFs"],
        VFS, "virtual_functions_are_numbered_and_placed_by_the_capability"),
    (E, SRIOV, "System Page Size", &["System Page Size"], VFS, "each_virtual_function_has_whole_system_pages"),
    (E, SRIOV, "VF BAR0 to VF BAR5", &["VF BAR"],
        VFS, "virtual_functions_are_numbered_and_placed_by_the_capability"),
    (E, RESIZABLE, "Resizable BAR Control", &["BAR Size"], REGISTERS, "bar_length_matches_its_size"),

    (S, DPC, DPC_CONTROL, &["DPC Trigger Enable"], ERRORS, "dpc_by_non_fatal_message"),
    (S, DPC, DPC_CONTROL, &["DPC Completion Control"], LINKS, "fatal_message_triggers_containment"),
    (S, DPC, DPC_CONTROL, &["DPC Interrupt Enable", "DPC ERR_COR Enable", "DPC Software Trigger"],
        LINKS, "port_errors_and_software_trigger_containment"),
    (S, DPC, DPC_CONTROL, &["Poisoned TLP Egress Blocking Enable"],
        SWITCH_ERRORS, "a_function_logs_one_error_of_a_poisoned_tlp"),
    (S, DPC, DPC_CONTROL, &["DL_Active ERR_COR Enable"],
        BRIDGES, "link_up_is_reported_if_enabled"),
    (S, DPC, DPC_STATUS, &["DPC Trigger Status", "DPC Interrupt Status"],
        BRIDGES, "each_containment_status_bit_clears_its_own_effect"),
    (R, DPC, DPC_CONTROL, &["DPC Trigger Enable", "DPC Completion Control", "DPC Interrupt Enable", "DPC ERR_COR Enable",
        "DL_Active ERR_COR Enable"], ROOT_BRIDGES, "containment_follows_its_enable_bits"),
    (R, DPC, DPC_CONTROL, &["DPC Software Trigger"], ROOT, "containment_is_busy_until_requests_complete"),
    (R, DPC, DPC_CONTROL, &["Poisoned TLP Egress Blocking Enable"], PEERS, "egress_port_blocks_atomics_and_poisoned_tlps"),
    (R, DPC, DPC_STATUS, &["DPC Trigger Status", "DPC Interrupt Status"], ROOT, "containment_lasts_until_released"),
    (R, DPC, "RP PIO Status", &[RP_PIO], ROOT_REGISTERS, "failed_requests_are_logged_and_may_trigger_containment"),
    (R, DPC, "RP PIO Mask", &[RP_PIO], ROOT_REGISTERS, "failed_requests_are_logged_and_may_trigger_containment"),
    (R, DPC, "RP PIO Severity", &[RP_PIO], ROOT_REGISTERS, "failed_requests_are_logged_and_may_trigger_containment"),

    (E, VC, "VC Resource Control", &["TC/VC Map", "VC ID", "VC Enable"],
        CHANNELS, "software_moves_a_traffic_class_to_another_channel"),
    (E, VC, "Port VC Control, Port VC Status", &["Load VC Arbitration Table", "VC Arbitration Select"],
        CHANNELS, "software_selects_and_loads_the_arbitration_of_channels"),
    (E, VC, "VC and Port Arbitration Tables", &["Arbitration Table Phases"],
        CHANNELS, "software_selects_and_loads_the_arbitration_of_channels"),
    (S, VC, "VC Resource Control", &["TC/VC Map", "VC ID", "VC Enable"],
        CHANNELS, "software_moves_a_traffic_class_to_another_channel"),
    (S, VC, "Port VC Control, Port VC Status", &["Load VC Arbitration Table", "VC Arbitration Select"],
        CHANNELS, "software_selects_and_loads_the_arbitration_of_channels"),
    (S, VC, "VC and Port Arbitration Tables", &["Arbitration Table Phases"],
        CHANNELS, "software_selects_and_loads_the_arbitration_of_channels"),
    (R, VC, "VC Resource Control", &["TC/VC Map", "VC ID", "VC Enable"],
        CHANNELS, "software_moves_a_traffic_class_to_another_channel"),
    (R, VC, "Port VC Control, Port VC Status", &["Load VC Arbitration Table", "VC Arbitration Select"],
        CHANNELS, "software_selects_and_loads_the_arbitration_of_channels"),
    (R, VC, "VC and Port Arbitration Tables", &["Arbitration Table Phases"],
        CHANNELS, "software_selects_and_loads_the_arbitration_of_channels"),
];

const TIMEOUT: &[&str] = &["Completion Timeout Value", "Completion Timeout Disable"];
const EGRESS: &[&str] = &["AtomicOp Egress Blocking", "End-End TLP Prefix Blocking"];
const PM_CONTROL: &str = "Power Management Control/Status";

/// Errors of AER that any port finds on its link.
const LINK_ERRORS: &[&str] = &[
    "Data Link Protocol Error",
    "Flow Control Protocol Error",
    "Uncorrectable Internal Error",
    "Receiver Error",
    "Bad TLP",
    "Bad DLLP",
    "REPLAY_NUM Rollover",
    "Replay Timer Timeout",
    "Corrected Internal Error",
];
/// A read that is refused has both.
const REFUSED: &[&str] = &["Unsupported Request Error", "Advisory Non-Fatal Error"];

/// Kind of functions, errors of AER, file, and the test that provokes each of them and sees its status, its mask and its
/// severity. Rows of `docs/reference/errors.md` are run with each of these.
#[rustfmt::skip]
const ERROR_ROWS: &[(FunctionKind, &[&str], &str, &str)] = &[
    (V, REFUSED, VFS, "each_error_sets_status_of_its_virtual_function"),
    (V, &["Poisoned TLP Received", "Completion Timeout", "Completer Abort", "Unexpected Completion"],
        VFS, "each_error_sets_status_of_its_virtual_function"),
    (V, &["Header Log Overflow"], VFS, "second_header_of_a_virtual_function_overflows"),

    (S, LINK_ERRORS, BRIDGES, "errors_follow_mask_and_severity"),
    (S, &["Receiver Overflow", "Malformed TLP", "ECRC Error"], BRIDGES, "errors_follow_mask_and_severity"),
    (S, &["Surprise Down Error"], ERRORS, "surprise_down"),
    (S, &["Poisoned TLP Received"], ERRORS, "poisoned_switch"),
    (S, &["Unexpected Completion"], ERRORS, "unexpected_completion_switch"),
    (S, REFUSED, ERRORS, "unsupported_request_switch"),
    (S, &["ACS Violation"], ERRORS, "acs_violation"),
    (S, &["AtomicOp Egress Blocked"], ERRORS, "atomic_egress_blocked"),
    (S, &["TLP Prefix Blocked Error"], ERRORS, "prefix_blocked"),
    (S, &["Poisoned TLP Egress Blocked"], ERRORS, "poisoned_egress_blocked"),
    (S, &["Header Log Overflow"], BRIDGES, "error_without_room_in_the_header_log_is_reported"),

    (R, LINK_ERRORS, ROOT_BRIDGES, "errors_follow_mask_and_severity"),
    (R, &["Surprise Down Error", "ACS Violation", "AtomicOp Egress Blocked", "TLP Prefix Blocked Error",
        "Poisoned TLP Egress Blocked"], ROOT_BRIDGES, "errors_follow_mask_and_severity"),
    (R, &["Receiver Overflow"], ROOT_BRIDGES, "tlp_beyond_the_credits_overflows"),
    (R, &["Poisoned TLP Received"], ERRORS, "poisoned_root"),
    (R, &["Completion Timeout"], ERRORS, "completion_timeout_root"),
    (R, &["Unexpected Completion"], ERRORS, "unexpected_completion_root"),
    (R, &["Malformed TLP"], ERRORS, "malformed_root"),
    (R, &["ECRC Error"], ERRORS, "ecrc"),
    (R, REFUSED, ERRORS, "unsupported_request_root"),
    (R, &["Header Log Overflow"], ROOT_BRIDGES, "error_without_room_in_the_header_log_is_reported"),
];

/// For endpoints: registers, and the tests that check all errors in them.
const ENDPOINT_ERROR_ROWS: &[(&str, &str)] = &[
    ("Uncorrectable Error Status", "each_error_is_logged_and_reported"),
    ("Correctable Error Status", "each_error_is_logged_and_reported"),
    ("Uncorrectable Error Mask", "masked_errors_are_not_reported"),
    ("Correctable Error Mask", "masked_errors_are_not_reported"),
    ("Uncorrectable Error Severity", "severity_makes_any_uncorrectable_error_fatal"),
];

/// Kind of functions, structure, register and field.
type Key = (FunctionKind, String, String, String);

fn key(kind: FunctionKind, structure: &str, register: &str, field: &str) -> Key {
    (kind, structure.to_owned(), register.to_owned(), field.to_owned())
}

/// The fields of those registers of AER that have a bit for each error.
fn error_fields() -> Vec<Key> {
    let table = structures().into_iter().find(|s| s.name == AER).unwrap();
    let registers: Vec<&str> =
        table.words.iter().filter(|w| (1..=5).contains(&w.dw)).map(|w| w.name).collect();
    let of_errors = |key: &Key| key.1 == AER && registers.contains(&key.2.as_str());
    live_fields().into_iter().filter(of_errors).collect()
}

type Witnesses = Vec<(Key, (&'static str, &'static str))>;

/// Returns every row, expanded: the observed effect, and the file and name of the test.
fn witnesses() -> Witnesses {
    let mut all = Vec::new();
    for (kind, structure, register, fields, file, test) in ROWS {
        let keys = fields.iter().map(|field| key(*kind, structure, register, field));
        all.extend(keys.map(|key| (key, (*file, *test))));
    }
    for (kind, file) in [(S, BRIDGES), (R, ROOT_BRIDGES)] {
        let windows = WINDOWS.iter().flat_map(|(register, fields)| fields.iter().map(move |f| (register, f)));
        let test = (file, "each_register_sets_one_end_of_a_window");
        all.extend(windows.map(|(register, field)| (key(kind, TYPE_1, register, field), test)));
    }
    let msi = [
        (E, REGISTERS, "msi_address_and_data_follow_its_registers"),
        (S, BRIDGES, "port_msi_follows_its_registers"),
        (R, ROOT_BRIDGES, "port_msi_follows_its_registers"),
    ];
    for (kind, file, test) in msi {
        let fields = MSI_REGISTERS.iter();
        all.extend(fields.map(|(register, field)| (key(kind, MSI, register, field), (file, test))));
    }
    all.extend(error_witnesses());
    all
}

fn error_witnesses() -> Witnesses {
    let (of_endpoints, others): (Vec<Key>, Vec<Key>) = error_fields().into_iter().partition(|key| key.0 == E);
    let mut all = Vec::new();
    for (kind, errors, file, test) in ERROR_ROWS {
        let fields = others.iter().filter(|key| key.0 == *kind && errors.contains(&key.3.as_str()));
        all.extend(fields.map(|key| (key.clone(), (*file, *test))));
    }
    for key in of_endpoints {
        let row = match key.3.as_str() {
            "Corrected Internal Error" => (ERRORS, "corrected_internal"),
            "Uncorrectable Internal Error" => (ERRORS, "uncorrectable_internal"),
            "Header Log Overflow" => (REGISTERS, "error_without_room_in_the_header_log_is_reported"),
            _ => {
                let row = ENDPOINT_ERROR_ROWS.iter().find(|row| row.0 == key.2);
                (ENDPOINT_ERRORS, row.unwrap_or_else(|| panic!("{key:?}")).1)
            }
        };
        all.push((key, row));
    }
    all
}

/// Returns every field that software may write in functions of each kind and that has an effect in them.
fn live_fields() -> Vec<Key> {
    let of_kind = |kind: FunctionKind| {
        let live = kind.writable().into_iter().filter(|field| field.inert.is_none());
        live.map(move |f| key(kind, f.structure, f.register, f.field))
    };
    FunctionKind::ALL.into_iter().flat_map(of_kind).collect()
}

#[test]
fn every_effective_field_has_one_behavior_test() {
    let mut seen: BTreeMap<Key, usize> = live_fields().into_iter().map(|key| (key, 0)).collect();
    for kind in FunctionKind::ALL {
        let count = seen.keys().filter(|key| key.0 == kind).count();
        assert!(count >= 20, "{kind:?}: {count} fields");
    }
    let mut unknown = Vec::new();
    for (key, _) in witnesses() {
        match seen.get_mut(&key) {
            Some(count) => *count += 1,
            None => unknown.push(key),
        }
    }
    assert!(unknown.is_empty(), "no writable fields that do something: {unknown:#?}");
    let wrong: Vec<_> = seen.into_iter().filter(|(_, count)| *count != 1).collect();
    assert!(wrong.is_empty(), "fields with no row, or several: {wrong:#?}");
}

/// Returns whether there is a function of this name after `#[test]`, or a row of a macro that makes such functions.
fn has_test(text: &str, name: &str) -> bool {
    let (function, row) = (format!("fn {name}("), format!("{name} => "));
    let mut attributes = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if line.starts_with(&row) || line.starts_with(&function) && attributes.contains(&"#[test]") {
            return true;
        }
        if line.starts_with('#') { attributes.push(line) } else { attributes.clear() }
    }
    false
}

#[test]
fn every_named_test_exists() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (key, (file, test)) in witnesses() {
        let text = std::fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(has_test(&text, test), "{file} has no test {test}, which is to see {key:?}");
    }
    let text = "#[test]\nfn one() {}\nfn two() {}\nrows! {\n    three => row(1),\n}";
    assert_eq!(["one", "two", "three", "four"].map(|name| has_test(text, name)), [true, false, true, false]);
}
