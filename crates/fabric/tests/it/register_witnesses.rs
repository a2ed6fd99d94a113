// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For every bit that software may write and that is not inert: the test that sees what it changes, at the owner of the
//! registers, in TLPs and in what programs read. A writable field that is in no row, a row of no such field, and a row whose test
//! there is not, fail. Runs none of these tests.

use config::reference::structures;
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

const COMMAND: &str = "Command, Status";
const DEVICE_CONTROL: &str = "Device Control, Device Status";
const DEVICE_CONTROL_2: &str = "Device Control 2, Device Status 2";
const LINK_CONTROL: &str = "Link Control, Link Status";
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

/// Structure, register, fields, file below `crates`, test.
type Row = (&'static str, &'static str, &'static [&'static str], &'static str, &'static str);

const REGISTERS: &str = "endpoint/tests/it/endpoint/registers.rs";
const KINDS: &str = "endpoint/tests/it/endpoint/kinds.rs";
const INBOUND: &str = "endpoint/tests/it/endpoint/inbound.rs";
const OUTBOUND: &str = "endpoint/tests/it/endpoint/outbound.rs";
const INTERRUPTS: &str = "endpoint/tests/it/endpoint/interrupts.rs";
const POWER: &str = "endpoint/tests/it/endpoint/power.rs";
const RESET: &str = "endpoint/tests/it/endpoint/reset.rs";
const VFS: &str = "endpoint/tests/it/endpoint/virtual_functions.rs";
const ROUTING: &str = "fabric/tests/it/switch_routing.rs";
const LINKS: &str = "fabric/tests/it/switch_links.rs";
const SWITCH_ERRORS: &str = "fabric/tests/it/switch_errors.rs";
const BRIDGES: &str = "fabric/tests/it/switch_registers.rs";
const ROOT: &str = "fabric/tests/it/root_ports.rs";
const ROOT_REGISTERS: &str = "fabric/tests/it/root_registers.rs";
const ERRORS: &str = "lab/tests/it/errors_table.rs";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    (TYPE_0, COMMAND, &["I/O Space Enable"], KINDS, "io_that_is_nobodys_is_refused"),
    (TYPE_0, COMMAND, &["Memory Space Enable"], INBOUND, "memory_enable_gates_and_posted_ones_are_counted"),
    (TYPE_0, COMMAND, &["Bus Master Enable"], OUTBOUND, "bus_master_enable_gates_every_request"),
    (TYPE_0, COMMAND, &["Parity Error Response", "Master Data Parity Error", "Signaled Target Abort", "Received Target Abort",
        "Received Master Abort", "Signaled System Error", "Detected Parity Error"],
        REGISTERS, "events_of_status_are_set_and_cleared"),
    (TYPE_0, COMMAND, &["SERR# Enable"], REGISTERS, "each_message_has_its_enables"),
    (TYPE_0, COMMAND, &["Interrupt Disable"], INTERRUPTS, "interrupt_disable_gates_the_level_and_not_the_status"),
    (TYPE_0, "Base Address Registers (six)", &["Base Address"], REGISTERS, "a_bar_that_moves_takes_its_window_along"),

    (TYPE_1, COMMAND, &["I/O Space Enable", "Memory Space Enable", "Bus Master Enable"], ROUTING, "command_bits"),
    (TYPE_1, COMMAND, &["Parity Error Response", "Master Data Parity Error"],
        SWITCH_ERRORS, "a_poisoned_request_that_leaves_is_noted"),
    (TYPE_1, COMMAND, &["SERR# Enable"], LINKS, "bridges_forward_error_messages"),
    (TYPE_1, COMMAND, &["Interrupt Disable"], BRIDGES, "interrupt_disable_takes_the_wire_of_a_bridge"),
    (TYPE_1, COMMAND, &["Signaled System Error", "Detected Parity Error"],
        BRIDGES, "events_of_both_statuses_are_set_and_cleared"),
    (TYPE_1, "Bus Numbers", &["Secondary Bus Number", "Subordinate Bus Number"],
        BRIDGES, "each_register_moves_its_end_of_a_window"),
    (TYPE_1, IO, &["I/O Base", "I/O Limit"], BRIDGES, "each_register_moves_its_end_of_a_window"),
    (TYPE_1, IO, &["Secondary: Master Data Parity Error"], SWITCH_ERRORS, "a_poisoned_request_that_leaves_is_noted"),
    (TYPE_1, IO, &["Secondary: Signaled Target Abort"], SWITCH_ERRORS, "a_blocked_request_signals_target_abort"),
    (TYPE_1, IO, &["Secondary: Received Target Abort", "Secondary: Received Master Abort"],
        ROOT, "refused_requests_show_in_secondary_status"),
    (TYPE_1, IO, &["Secondary: Received System Error", "Secondary: Detected Parity Error"],
        BRIDGES, "events_of_both_statuses_are_set_and_cleared"),
    (TYPE_1, "Memory Base, Memory Limit", &["Memory Base", "Memory Limit"],
        BRIDGES, "each_register_moves_its_end_of_a_window"),
    (TYPE_1, PREFETCHABLE, &["Prefetchable Memory Base", "Prefetchable Memory Limit"],
        BRIDGES, "each_register_moves_its_end_of_a_window"),
    (TYPE_1, "Prefetchable Base Upper 32 Bits", &["Prefetchable Base Upper 32 Bits"],
        BRIDGES, "each_register_moves_its_end_of_a_window"),
    (TYPE_1, "Prefetchable Limit Upper 32 Bits", &["Prefetchable Limit Upper 32 Bits"],
        BRIDGES, "each_register_moves_its_end_of_a_window"),
    (TYPE_1, IO_UPPER, &["I/O Base Upper 16 Bits", "I/O Limit Upper 16 Bits"],
        BRIDGES, "each_register_moves_its_end_of_a_window"),
    (TYPE_1, BRIDGE_CONTROL, &["Parity Error Response Enable"], SWITCH_ERRORS, "a_poisoned_request_that_leaves_is_noted"),
    (TYPE_1, BRIDGE_CONTROL, &["SERR# Enable"], LINKS, "bridges_forward_error_messages"),
    (TYPE_1, BRIDGE_CONTROL, &["ISA Enable", "VGA Enable", "VGA 16-bit Decode"], BRIDGES, "isa_and_vga"),
    (TYPE_1, BRIDGE_CONTROL, &["Secondary Bus Reset"], ROOT, "resets_and_disabled_links"),

    (VF, COMMAND, &["Bus Master Enable"], VFS, "bus_master_enable_is_each_ones_own"),
    (VF, COMMAND, &["Signaled Target Abort", "Received Target Abort", "Received Master Abort", "Signaled System Error",
        "Detected Parity Error"], VFS, "events_of_status_are_each_ones_own"),

    (PM, "Power Management Control/Status", &["PowerState"], POWER, "memory_is_refused_and_configuration_answered"),
    (PM, "Power Management Control/Status", &["PME_En", "PME_Status"], POWER, "a_pme_is_sent_where_it_is_enabled"),

    (MSI, "Message Control", &["MSI Enable", "Multiple Message Enable"],
        REGISTERS, "an_msi_is_written_where_and_what_its_registers_say"),
    (MSI, "Message Address", &["Message Address"], REGISTERS, "an_msi_is_written_where_and_what_its_registers_say"),
    (MSI, "Message Upper Address (64-bit only)", &["Message Upper Address"],
        REGISTERS, "an_msi_is_written_where_and_what_its_registers_say"),
    (MSI, "Message Data", &["Message Data"], REGISTERS, "an_msi_is_written_where_and_what_its_registers_say"),
    (MSI, "Mask Bits (per-vector masking only)", &["Mask Bits"], INTERRUPTS, "masked_vectors_wait"),
    (MSIX, "Message Control", &["Function Mask", "MSI-X Enable"],
        OUTBOUND, "msix_table_is_the_endpoints_and_masked_vectors_pend"),

    (PCIE, DEVICE_CONTROL, &["Correctable Error Reporting Enable", "Non-Fatal Error Reporting Enable",
        "Fatal Error Reporting Enable", "Unsupported Request Reporting Enable"], REGISTERS, "each_message_has_its_enables"),
    (PCIE, DEVICE_CONTROL, &["Enable Relaxed Ordering", "Enable No Snoop"], REGISTERS, "each_attribute_has_its_enable"),
    (PCIE, DEVICE_CONTROL, &["Max_Payload_Size"], INBOUND, "answers_are_split_at_mps_and_rcb"),
    (PCIE, DEVICE_CONTROL, &["Extended Tag Field Enable"], KINDS, "tags_are_those_that_are_enabled"),
    (PCIE, DEVICE_CONTROL, &["Max_Read_Request_Size"], VFS, "sizes_follow_the_physical_function"),
    (PCIE, DEVICE_CONTROL, &["Initiate Function Level Reset"], RESET, "flr_voids_all_under_way_and_keeps_tags_out_of_use"),
    (PCIE, DEVICE_CONTROL, &["Correctable Error Detected", "Non-Fatal Error Detected", "Fatal Error Detected",
        "Unsupported Request Detected"], REGISTERS, "events_of_device_status_are_set_and_cleared"),
    (PCIE, DEVICE_CONTROL_2, &["LTR Mechanism Enable"], ROOT, "ltr_is_taken_where_it_is_enabled"),
    (PCIE, LINK_CONTROL, &["Link Disable"], ROOT, "resets_and_disabled_links"),
    (PCIE, LINK_CONTROL, &["Retrain Link"], LINKS, "software_resets_disables_and_retrains_links"),
    (PCIE, LINK_CONTROL, &["Link Bandwidth Management Interrupt Enable", "Link Bandwidth Management Status"],
        BRIDGES, "a_link_that_has_retrained_interrupts_where_that_is_enabled"),
    (PCIE, "Link Control 2, Link Status 2", &["Target Link Speed"], ROOT, "a_link_retrains_at_the_target_link_speed"),
    (PCIE, SLOT_CONTROL, &["Attention Button Pressed Enable", "Power Fault Detected Enable", "MRL Sensor Changed Enable",
        "Presence Detect Changed Enable", "Command Completed Interrupt Enable", "Hot-Plug Interrupt Enable",
        "Data Link Layer State Changed Enable", "Attention Button Pressed", "Power Fault Detected", "MRL Sensor Changed",
        "Presence Detect Changed", "Command Completed", "Data Link Layer State Changed"],
        BRIDGES, "each_event_of_a_slot_has_its_enable"),
    (PCIE, SLOT_CONTROL, &["Power Controller Control"], LINKS, "software_takes_and_gives_the_power_of_slots"),
    (PCIE, "Root Control, Root Capabilities", &["PME Interrupt Enable"],
        ROOT_REGISTERS, "pmes_are_shown_one_after_the_other"),
    (PCIE, "Root Control, Root Capabilities", &["CRS Software Visibility Enable"], ROOT, "crs_is_shown_or_asked_again"),
    (PCIE, "Root Status", &["PME Status"], ROOT_REGISTERS, "pmes_are_shown_one_after_the_other"),
    (PCIE, DEVICE_CONTROL_2, &["Completion Timeout Value", "Completion Timeout Disable"],
        REGISTERS, "a_read_waits_as_long_as_device_control_2_says"),
    (PCIE, DEVICE_CONTROL_2, &["ARI Forwarding Enable"], ROUTING, "any_device_number_with_ari_forwarding"),
    (PCIE, DEVICE_CONTROL_2, &["AtomicOp Requester Enable"], KINDS, "atomics_that_may_not_be_sent_fail"),
    (PCIE, DEVICE_CONTROL_2, &["AtomicOp Egress Blocking", "End-End TLP Prefix Blocking"], ROUTING, "egress_blocking"),
    (PCIE, DEVICE_CONTROL_2, &["IDO Request Enable"], REGISTERS, "each_attribute_has_its_enable"),
    (PCIE, DEVICE_CONTROL_2, &["IDO Completion Enable"], REGISTERS, "completions_have_ido_where_that_is_enabled"),
    (PCIE, DEVICE_CONTROL_2, &["10-Bit Tag Requester Enable"], KINDS, "tags_are_those_that_are_enabled"),

    (AER, AER_CONTROL, &["ECRC Generation Enable"], KINDS, "ecrc_is_generated_where_enabled"),
    (AER, AER_CONTROL, &["ECRC Check Enable"], KINDS, "ecrc_is_checked_where_enabled"),
    (AER, AER_CONTROL, &["Multiple Header Recording Enable"],
        REGISTERS, "further_headers_are_recorded_where_that_is_enabled"),
    (AER, "Root Error Command", &["Correctable Error Reporting Enable", "Non-Fatal Error Reporting Enable",
        "Fatal Error Reporting Enable"], ROOT, "error_messages_reach_the_root_registers"),
    (AER, "Root Error Status", &["ERR_COR Received", "Multiple ERR_COR Received", "ERR_FATAL/NONFATAL Received",
        "Multiple ERR_FATAL/NONFATAL Received", "First Uncorrectable Fatal", "Non-Fatal Error Messages Received",
        "Fatal Error Messages Received"], ROOT_REGISTERS, "root_error_status_tells_first_and_further_messages"),

    (ACS, ACS_CONTROL, &["ACS Source Validation Enable", "ACS Translation Blocking Enable",
        "ACS P2P Request Redirect Enable", "ACS P2P Completion Redirect Enable", "ACS Upstream Forwarding Enable",
        "ACS P2P Egress Control Enable", "ACS Direct Translated P2P Enable"], ROUTING, "access_control_services"),
    (ACS, "Egress Control Vector", &["Egress Control Vector"], ROUTING, "access_control_services"),

    (SRIOV, SRIOV_CONTROL, &["VF Enable"], VFS, "clearing_vf_enable_ends_them_and_late_completions_are_swallowed"),
    (SRIOV, SRIOV_CONTROL, &["VF MSE"], VFS, "vf_mse_gates_the_memory_of_all"),
    (SRIOV, SRIOV_CONTROL, &["ARI Capable Hierarchy"],
        VFS, "virtual_functions_are_numbered_and_placed_as_the_capability_says"),
    (SRIOV, SRIOV_CONTROL, &["VF 10-Bit Tag Requester Enable"],
        VFS, "virtual_functions_use_long_tags_where_that_is_enabled"),
    (SRIOV, "NumVFs, Function Dependency Link", &["NumVFs"],
        VFS, "virtual_functions_are_numbered_and_placed_as_the_capability_says"),
    (SRIOV, "System Page Size", &["System Page Size"], VFS, "the_memory_of_each_is_whole_system_pages"),
    (SRIOV, "VF BAR0 to VF BAR5", &["VF BAR"],
        VFS, "virtual_functions_are_numbered_and_placed_as_the_capability_says"),
    (RESIZABLE, "Resizable BAR Control", &["BAR Size"], REGISTERS, "a_bar_is_as_long_as_its_size_says"),

    (DPC, DPC_CONTROL, &["DPC Trigger Enable"], ERRORS, "dpc_by_non_fatal_message"),
    (DPC, DPC_CONTROL, &["DPC Completion Control"], LINKS, "containment"),
    (DPC, DPC_CONTROL, &["DPC Interrupt Enable", "DPC ERR_COR Enable", "DPC Software Trigger"],
        LINKS, "containment_by_the_port_itself"),
    (DPC, DPC_CONTROL, &["Poisoned TLP Egress Blocking Enable"],
        SWITCH_ERRORS, "a_function_logs_one_error_of_a_poisoned_tlp"),
    (DPC, DPC_CONTROL, &["DL_Active ERR_COR Enable"],
        BRIDGES, "a_link_that_comes_up_is_told_of_where_that_is_enabled"),
    (DPC, DPC_STATUS, &["DPC Trigger Status", "DPC Interrupt Status"],
        BRIDGES, "each_status_of_containment_ends_its_own"),
    (DPC, "RP PIO Status", &[RP_PIO], ROOT_REGISTERS, "requests_that_fail_are_logged_and_may_contain"),
    (DPC, "RP PIO Mask", &[RP_PIO], ROOT_REGISTERS, "requests_that_fail_are_logged_and_may_contain"),
    (DPC, "RP PIO Severity", &[RP_PIO], ROOT_REGISTERS, "requests_that_fail_are_logged_and_may_contain"),
];

/// Each error of AER has a row of `docs/reference/errors.md`, which is run as registers are after reset, unmasked, masked and with
/// the other severity: it sees the status, the mask and the severity of that error.
const ERROR_ROWS: &[(&str, &str)] = &[
    ("Data Link Protocol Error", "data_link_protocol"),
    ("Surprise Down Error", "surprise_down"),
    ("Poisoned TLP Received", "poisoned_request"),
    ("Flow Control Protocol Error", "flow_control_protocol"),
    ("Completion Timeout", "completion_timeout_endpoint"),
    ("Completer Abort", "completer_abort"),
    ("Unexpected Completion", "unexpected_completion_endpoint"),
    ("Receiver Overflow", "receiver_overflow"),
    ("Malformed TLP", "malformed_endpoint"),
    ("ECRC Error", "ecrc"),
    ("Unsupported Request Error", "unsupported_request_posted"),
    ("ACS Violation", "acs_violation"),
    ("AtomicOp Egress Blocked", "atomic_egress_blocked"),
    ("TLP Prefix Blocked Error", "prefix_blocked"),
    ("Poisoned TLP Egress Blocked", "poisoned_egress_blocked"),
    ("Receiver Error", "receiver_error"),
    ("Bad TLP", "bad_tlp"),
    ("Bad DLLP", "bad_dllp"),
    ("REPLAY_NUM Rollover", "replay_rollover"),
    ("Replay Timer Timeout", "replay_timeout"),
    ("Advisory Non-Fatal Error", "unsupported_request_endpoint"),
    ("Corrected Internal Error", "corrected_internal"),
    ("Uncorrectable Internal Error", "uncorrectable_internal"),
];

/// Correctable, too, and of no TLP of its own.
const OVERFLOW: (&str, &str, &str) =
    ("Header Log Overflow", BRIDGES, "a_header_that_finds_the_log_taken_is_told_of");

/// Structure, register and field.
type Key = (String, String, String);

fn key(structure: &str, register: &str, field: &str) -> Key {
    (structure.to_owned(), register.to_owned(), field.to_owned())
}

/// The registers of AER with a bit for each error.
fn error_registers(field: &str) -> Vec<&'static str> {
    let table = structures().into_iter().find(|s| s.name == AER).unwrap();
    let words = table.words.iter().filter(|w| (1..=5).contains(&w.dw));
    words.filter(|w| w.fields.iter().any(|f| f.name == field)).map(|w| w.name).collect()
}

/// Every row, spread out: what is seen, and the file and name of the test.
fn witnesses() -> Vec<(Key, (&'static str, &'static str))> {
    let mut all = Vec::new();
    for (structure, register, fields, file, test) in ROWS {
        all.extend(fields.iter().map(|field| (key(structure, register, field), (*file, *test))));
    }
    let errors = ERROR_ROWS.iter().map(|(field, test)| (*field, ERRORS, *test)).chain([OVERFLOW]);
    for (field, file, test) in errors {
        all.extend(error_registers(field).into_iter().map(|r| (key(AER, r, field), (file, test))));
    }
    all
}

/// Every field that software may write and that is not inert.
fn live_fields() -> Vec<Key> {
    let mut all = Vec::new();
    for structure in structures() {
        for word in structure.words {
            let live = word.fields.iter().filter(|f| f.attribute.is_writable() && f.inert.is_none());
            all.extend(live.map(|field| key(structure.name, word.name, field.name)));
        }
    }
    all
}

#[test]
fn every_live_field_has_one_witness() {
    let mut seen: BTreeMap<Key, usize> = live_fields().into_iter().map(|key| (key, 0)).collect();
    assert!(seen.len() > 150, "{} fields", seen.len());
    for (key, _) in witnesses() {
        let count =
            seen.get_mut(&key).unwrap_or_else(|| panic!("no writable field that does something: {key:?}"));
        *count += 1;
    }
    let wrong: Vec<_> = seen.into_iter().filter(|(_, count)| *count != 1).collect();
    assert!(wrong.is_empty(), "fields with no row, or several: {wrong:#?}");
}

/// A function of this name behind `#[test]`, or a row of a macro that makes such functions.
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
fn every_witness_is_a_test() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (key, (file, test)) in witnesses() {
        let text = std::fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(has_test(&text, test), "{file} has no test {test}, which is to see {key:?}");
    }
    let text = "#[test]\nfn one() {}\nfn two() {}\nrows! {\n    three => row(1),\n}";
    assert_eq!(["one", "two", "three", "four"].map(|name| has_test(text, name)), [true, false, true, false]);
}
