// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Error logging and reporting, row by row (`PCIe 5.0 §6.2`, Figure 6-2), root ports and containment.

use riser_config::ext::{aer, dpc};
use riser_config::header::{self, bridge_control, command, status, type1};
use riser_config::*;
use tlp::Bdf;

const AER: u16 = 0x100 / 4;
const UR: Uncorrectable = Uncorrectable::UnsupportedRequest;
const HEADER: [u32; 4] = [0x4000_0001, 0x0100_000f, 0x8000_0000, 0];

fn port(kind: PortType, layout: AerLayout) -> ConfigSpace {
    Builder::type1(Identity { vendor: 0x1234, class: 0x06_04_00, ..Identity::default() })
        .pcie(PcieLayout::port(kind))
        .advanced_error_reporting_with(layout)
        .downstream_port_containment(DpcLayout {
            interrupt_message: 5,
            root_port: kind == PortType::RootPort,
        })
        .build()
        .unwrap()
}

/// Every error except MC Blocked TLP exists here.
fn root_port() -> ConfigSpace {
    port(PortType::RootPort, AerLayout { interrupt_message: 9, ..AerLayout::new(AerRole::RootPort) })
}

fn endpoint(headers: u8) -> ConfigSpace {
    Builder::type0(Identity { vendor: 0x1234, ..Identity::default() })
        .pcie(PcieLayout::default())
        .advanced_error_reporting_with(AerLayout {
            headers,
            prefix_log: true,
            ..AerLayout::new(AerRole::Endpoint)
        })
        .build()
        .unwrap()
}

fn enable(space: &mut ConfigSpace, bits: u32) {
    let at = space.pcie_capability().unwrap() + 2;
    space.write(at, 0b0001, bits);
}

fn device_status(space: &ConfigSpace) -> u32 {
    space.read(space.pcie_capability().unwrap() + 2) >> 16 & 0xf
}

fn set(space: &mut ConfigSpace, dw: u16, value: u32) {
    space.write(AER + dw, 0xf, value);
}

/// Settings, and the expected result.
struct Row {
    masked: bool,
    fatal: bool,
    advisory: bool,
    advisory_masked: bool,
    /// Device Control 3:0: correctable, non-fatal, fatal, unsupported request.
    enables: u32,
    message: Option<ErrorMessage>,
    /// Device Status 2:0: correctable, non-fatal, fatal.
    detected: u32,
    /// Uncorrectable Error Status, Advisory Non-Fatal Error Status, header logged.
    logged: (bool, bool, bool),
}

const fn row(
    (masked, fatal, advisory, advisory_masked): (bool, bool, bool, bool),
    enables: u32,
    message: Option<ErrorMessage>,
    detected: u32,
    logged: (bool, bool, bool),
) -> Row {
    Row { masked, fatal, advisory, advisory_masked, enables, message, detected, logged }
}

/// The branches of Figure 6-2.
const ROWS: [Row; 14] = {
    use ErrorMessage::*;
    const T: bool = true;
    const F: bool = false;
    [
        row((F, F, F, F), 0xf, Some(NonFatal), 2, (T, F, T)),
        row((F, F, F, F), 0xd, None, 2, (T, F, T)),
        row((F, F, F, F), 0x0, None, 2, (T, F, T)),
        row((F, T, F, F), 0xf, Some(Fatal), 4, (T, F, T)),
        row((F, T, F, F), 0xb, None, 4, (T, F, T)),
        row((T, F, F, F), 0xf, None, 2, (T, F, F)),
        row((T, T, F, F), 0xf, None, 4, (T, F, F)),
        row((F, F, T, F), 0xf, Some(Correctable), 1, (T, T, T)),
        row((F, F, T, F), 0xe, None, 1, (T, T, T)),
        row((F, F, T, T), 0xf, None, 1, (F, T, F)),
        row((T, F, T, F), 0xf, Some(Correctable), 1, (T, T, F)),
        row((T, F, T, T), 0xf, None, 1, (F, T, F)),
        // An error with fatal severity is never advisory (§6.2.3.2.4).
        row((F, T, T, F), 0xf, Some(Fatal), 4, (T, F, T)),
        row((F, T, T, T), 0xf, Some(Fatal), 4, (T, F, T)),
    ]
};

#[test]
fn uncorrectable_errors_follow_severity_mask_and_enables() {
    // A port never aborts a request, and never blocks multicast.
    let others = [Uncorrectable::McBlockedTlp, Uncorrectable::CompleterAbort];
    let real = Uncorrectable::ALL.into_iter().filter(|e| !others.contains(e));
    for (error, row) in real.flat_map(|e| ROWS.iter().map(move |r| (e, r))) {
        let mut space = root_port();
        let bit = |on: bool| if on { error.mask() } else { 0 };
        set(&mut space, aer::UNCORRECTABLE_MASK, bit(row.masked));
        set(&mut space, aer::SEVERITY, bit(row.fatal));
        set(&mut space, aer::CORRECTABLE_MASK, if row.advisory_masked { 1 << 13 } else { 0 });
        enable(&mut space, row.enables);
        let message = space.log(ErrorReport::new(error).advisory(row.advisory).header(HEADER));
        let what = format!("{error:?} masked {} fatal {} advisory {}", row.masked, row.fatal, row.advisory);
        assert_eq!(message, row.message, "{what}");
        assert_eq!(device_status(&space), row.detected | if error == UR { 8 } else { 0 }, "{what}");
        let (uncorrectable, advisory, header) = row.logged;
        assert_eq!(space.read(AER + 1), bit(uncorrectable), "{what}");
        assert_eq!(space.read(AER + 4), if advisory { 1 << 13 } else { 0 }, "{what}");
        let first = if error.logs_header() { HEADER[0] } else { 0 };
        let (pointer, log) = if header { (error as u32, first) } else { (0, 0) };
        assert_eq!((space.read(AER + 6) & 0x1f, space.read(AER + 7)), (pointer, log), "{what}");
        assert_eq!(space.poll_error_message(), None);
    }
}

#[test]
fn unimplemented_errors_set_no_status() {
    let mut space = endpoint(1);
    for error in [Uncorrectable::SurpriseDown, Uncorrectable::McBlockedTlp, Uncorrectable::TlpPrefixBlocked] {
        let _ = space.log(ErrorReport::new(error));
        assert_eq!(space.read(AER + 1), 0, "{error:?}");
    }
}

/// Each correctable error: masked, Correctable Error Reporting Enable, message.
#[test]
fn each_correctable_error_follows_mask_and_enable() {
    for error in Correctable::ALL {
        for (masked, enables, message) in
            [(false, 1, Some(ErrorMessage::Correctable)), (false, 0xe, None), (true, 1, None)]
        {
            let mut space = root_port();
            set(&mut space, aer::CORRECTABLE_MASK, if masked { error.mask() } else { 0 });
            enable(&mut space, enables);
            assert_eq!(space.log(ErrorReport::new(error)), message, "{error:?}");
            assert_eq!((device_status(&space), space.read(AER + 4)), (1, error.mask()));
            set(&mut space, aer::CORRECTABLE_STATUS, error.mask());
            assert_eq!(space.read(AER + 4), 0, "RW1CS");
        }
    }
}

/// Unsupported Request Reporting Enable and SERR# Enable (`§6.2.6`): enables, SERR#, message, Signaled System Error.
#[test]
fn serr_enable_reports_unsupported_requests() {
    use ErrorMessage::NonFatal;
    for (error, enables, serr, message, signaled) in [
        (UR, 0xa, false, Some(NonFatal), false),
        (UR, 0x7, false, None, false),
        (UR, 0x0, true, Some(NonFatal), true),
        (UR, 0xa, true, Some(NonFatal), true),
        (Uncorrectable::CompletionTimeout, 0x0, true, Some(NonFatal), true),
        (Uncorrectable::CompletionTimeout, 0x2, false, Some(NonFatal), false),
    ] {
        let mut space = endpoint(1);
        enable(&mut space, enables);
        space.write(header::COMMAND_STATUS, 0b0011, if serr { command::SERR_ENABLE } else { 0 });
        assert_eq!(space.log(ErrorReport::new(error)), message);
        assert_eq!(space.read(1) & status::SIGNALED_SYSTEM_ERROR != 0, signaled);
    }
}

/// Without Advanced Error Reporting the default severities apply, and advisory errors send no message (`§6.2.3.2.4`).
#[test]
fn default_severities_apply_without_aer() {
    use Uncorrectable::*;
    for (error, advisory, message, detected) in [
        (MalformedTlp, false, Some(ErrorMessage::Fatal), 4),
        (CompletionTimeout, false, Some(ErrorMessage::NonFatal), 2),
        (UnexpectedCompletion, true, None, 1),
        (UnsupportedRequest, true, None, 9),
    ] {
        let mut space = Builder::type0(Identity::default()).pcie(PcieLayout::default()).build().unwrap();
        enable(&mut space, 0xf);
        assert_eq!(space.log(ErrorReport::new(error).advisory(advisory)), message, "{error:?}");
        assert_eq!(device_status(&space), detected, "{error:?}");
    }
}

/// Status bits that poisoned TLPs and aborts set (`§7.5.1.1.4, §7.5.1.3.7`): header, side, Parity Error Response.
#[test]
fn poisoned_tlps_and_aborts_set_status_bits() {
    use Uncorrectable::{
        AcsViolation, CompleterAbort, CompletionTimeout, Ecrc, MalformedTlp, PoisonedTlp,
        UnexpectedCompletion, UnsupportedRequest,
    };
    const READ: u32 = 0x2000_0001; // MRd, 4 DW header
    const ATOMIC: u32 = 0x4c00_0001; // FetchAdd
    const MESSAGE: u32 = 0x3000_0000; // Msg, routed to the root complex
    const WRITE: u32 = 0x6000_4001; // MWr, 4 DW header, EP
    const SOUND: u32 = 0x6000_0001; // MWr, 4 DW header
    const COMPLETION: u32 = 0x4a00_4001; // CplD, EP
    const LOCKED: u32 = 0x4b00_4001; // CplDLk, EP
    let (parity, master) = (status::DETECTED_PARITY_ERROR, status::MASTER_DATA_PARITY_ERROR);
    for (error, first, side, response, bits) in [
        (PoisonedTlp, WRITE, Side::Primary, true, parity),
        (PoisonedTlp, COMPLETION, Side::Primary, false, parity),
        (PoisonedTlp, COMPLETION, Side::Primary, true, parity | master),
        (PoisonedTlp, LOCKED, Side::Secondary, true, parity | master),
        (PoisonedTlp, WRITE, Side::Secondary, true, parity),
        (CompleterAbort, SOUND, Side::Primary, true, status::SIGNALED_TARGET_ABORT),
        (CompleterAbort, SOUND, Side::Secondary, false, status::SIGNALED_TARGET_ABORT),
        (AcsViolation, READ, Side::Secondary, false, status::SIGNALED_TARGET_ABORT),
        (AcsViolation, ATOMIC, Side::Primary, false, status::SIGNALED_TARGET_ABORT),
        (AcsViolation, SOUND, Side::Secondary, false, 0),
        (AcsViolation, MESSAGE, Side::Secondary, false, 0),
        // Poisoned, together with other errors, if this is known.
        (AcsViolation, COMPLETION, Side::Secondary, false, parity),
        (AcsViolation, WRITE, Side::Secondary, false, parity),
        (UnsupportedRequest, WRITE, Side::Primary, false, parity),
        (UnsupportedRequest, SOUND, Side::Primary, true, 0),
        (UnsupportedRequest, READ | 1 << 14, Side::Primary, true, 0),
        (UnexpectedCompletion, COMPLETION, Side::Secondary, true, parity),
        (MalformedTlp, WRITE, Side::Primary, true, 0),
        (Ecrc, WRITE, Side::Primary, true, 0),
        (CompletionTimeout, WRITE, Side::Primary, true, 0),
    ] {
        let mut space = root_port();
        if response {
            space.write(header::COMMAND_STATUS, 0b0011, command::PARITY_ERROR_RESPONSE);
            space.write(header::INTERRUPT, 0b1100, bridge_control::PARITY_ERROR_RESPONSE);
        }
        let _ = space.log(ErrorReport::new(error).header([first, 0, 0, 0]).on(side));
        let (here, there) = match side {
            Side::Primary => (header::COMMAND_STATUS, type1::IO_SECONDARY_STATUS),
            Side::Secondary => (type1::IO_SECONDARY_STATUS, header::COMMAND_STATUS),
        };
        assert_eq!(
            (space.read(here) & status::RW1C, space.read(there) & status::RW1C),
            (bits, 0),
            "{error:?} {side:?}"
        );
    }
    let mut space = endpoint(1);
    space.note_poisoned_sent(Side::Primary);
    assert_eq!(space.read(1) & master, 0);
    space.write(1, 0b0011, command::PARITY_ERROR_RESPONSE);
    space.note_poisoned_sent(Side::Primary);
    assert_eq!(space.read(1) & master, master);
}

/// The log of an endpoint: First Error Pointer, first header word, first prefix word, TLP Prefix Log Present.
fn log_of(space: &ConfigSpace) -> (u32, u32, u32, bool) {
    let control = space.read(AER + 6);
    (control & 0x1f, space.read(AER + 7), space.read(AER + 14), control >> 11 & 1 == 1)
}

#[test]
fn header_log_keeps_first_error_until_cleared() {
    let mut space = endpoint(1);
    set(&mut space, aer::CORRECTABLE_MASK, 0);
    enable(&mut space, 0xf);
    let report = |error, word| ErrorReport::new(error).header([word; 4]);
    let _ = space.log(report(UR, 1).prefixes([0x9100_0001, 0, 0, 0]));
    assert_eq!(log_of(&space), (20, 1, 0x9100_0001, true));
    let _ = space.log(report(Uncorrectable::MalformedTlp, 2));
    assert_eq!(log_of(&space), (20, 1, 0x9100_0001, true));
    assert_eq!(space.poll_error_message(), Some(ErrorMessage::Correctable), "Header Log Overflow (§6.2.4.2)");
    assert_eq!((space.poll_error_message(), space.read(AER + 4)), (None, 1 << 15));
    set(&mut space, aer::UNCORRECTABLE_STATUS, 1 << 18);
    let _ = space.log(report(Uncorrectable::Ecrc, 3));
    assert_eq!(log_of(&space).1, 1, "clearing another bit frees nothing");
    set(&mut space, aer::UNCORRECTABLE_STATUS, !0);
    let _ = space.log(report(Uncorrectable::CompletionTimeout, 4));
    let (pointer, header, _, present) = log_of(&space);
    assert_eq!((pointer, header, present), (14, 4, false));
}

/// A masked error only sets its status. If the First Error Pointer named it before, it must not become the first error again:
/// the next unmasked error gets pointer and header, without overflow.
#[test]
fn first_error_pointer_is_invalid_after_clear() {
    let mut space = endpoint(1);
    set(&mut space, aer::CORRECTABLE_MASK, 0);
    enable(&mut space, 0xf);
    let report = |error, word| ErrorReport::new(error).header([word; 4]);
    let _ = space.log(report(UR, 1).prefixes([0x9100_0001, 0, 0, 0]));
    set(&mut space, aer::UNCORRECTABLE_STATUS, UR.mask());
    let (pointer, _, _, present) = log_of(&space);
    assert_eq!((pointer, present), (0, false), "as after reset");
    set(&mut space, aer::UNCORRECTABLE_MASK, UR.mask());
    let _ = space.log(report(UR, 2));
    assert_eq!((space.read(AER + 1), log_of(&space).0), (UR.mask(), 0), "masked: status alone");
    let _ = space.log(report(Uncorrectable::MalformedTlp, 3));
    assert_eq!((log_of(&space).0, log_of(&space).1), (18, 3));
    assert_eq!((space.poll_error_message(), space.read(AER + 4)), (None, 0), "no Header Log Overflow");
}

/// Multiple Header Recording (`§6.2.4.2`): three headers are stored, and the fourth overflows. Each clear makes the
/// next one visible.
#[test]
fn records_several_headers_if_enabled() {
    use Uncorrectable::{CompletionTimeout, Ecrc, MalformedTlp};
    let mut space = endpoint(3);
    set(&mut space, aer::CONTROL, aer::control::MULTIPLE_HEADERS);
    for (error, word) in [(UR, 1), (MalformedTlp, 2), (UR, 3), (CompletionTimeout, 4)] {
        let _ = space.log(ErrorReport::new(error).header([word; 4]));
    }
    assert_eq!(space.read(AER + 4), 1 << 15, "Header Log Overflow");
    assert_eq!((log_of(&space).0, log_of(&space).1), (20, 1));
    set(&mut space, aer::UNCORRECTABLE_STATUS, UR.mask());
    assert_eq!((log_of(&space).0, log_of(&space).1), (18, 2));
    assert_eq!(
        space.read(AER + 1),
        UR.mask() | 1 << 18 | 1 << 14,
        "Unsupported Request is recorded once more"
    );
    set(&mut space, aer::UNCORRECTABLE_STATUS, !0);
    assert_eq!((log_of(&space).0, log_of(&space).1, space.read(AER + 1)), (20, 3, UR.mask()));
    set(&mut space, aer::UNCORRECTABLE_STATUS, !0);
    assert_eq!(space.read(AER + 1), 0);
    let _ = space.log(ErrorReport::new(Ecrc).header([5; 4]));
    assert_eq!((log_of(&space).0, log_of(&space).1), (19, 5));
}

/// A VF logs in its own registers, with its PF's masks, severities and enables (`§9.4.2`).
#[test]
fn virtual_functions_report_through_their_physical_function() {
    let vf = Builder::virtual_function(Identity::default())
        .pcie(PcieLayout::default())
        .advanced_error_reporting()
        .build()
        .unwrap();
    for (enables, mask, message) in
        [(0x0, 0, None), (0xf, 0, Some(ErrorMessage::NonFatal)), (0xf, UR.mask(), None)]
    {
        let (mut vf, mut pf) = (vf.clone(), endpoint(1));
        enable(&mut pf, enables);
        set(&mut pf, aer::UNCORRECTABLE_MASK, mask);
        assert_eq!(vf.log_virtual(&pf, ErrorReport::new(UR).header(HEADER)), message);
        assert_eq!((vf.read(AER + 1), device_status(&vf), pf.read(AER + 1)), (UR.mask(), 0xa, 0));
        assert_eq!(vf.read(AER + 7) == HEADER[0], mask == 0);
    }
}

/// Root Error Status and Error Source Identification (`§7.8.4.10, §7.8.4.11`), message by message.
#[test]
fn root_ports_collect_messages() {
    use ErrorMessage::*;
    let mut space = root_port();
    for (message, source, bits, sources) in [
        (Correctable, 0x0100, 0x01, 0x0000_0100),
        (Correctable, 0x0200, 0x03, 0x0000_0100),
        (NonFatal, 0x0300, 0x27, 0x0300_0100),
        (Fatal, 0x0400, 0x6f, 0x0300_0100),
    ] {
        assert_eq!(space.root_error(message, Bdf::from_bits(source)), None, "no interrupt is enabled");
        assert_eq!((space.read(AER + 12), space.read(AER + 13)), (9 << 27 | bits, sources), "{message:?}");
    }
    set(&mut space, aer::ROOT_STATUS, !0);
    space.root_error(Fatal, Bdf::from_bits(0x0500));
    assert_eq!((space.read(AER + 12), space.read(AER + 13)), (9 << 27 | 0x54, 0x0500_0100), "first is fatal");
    assert_eq!(endpoint(1).root_error(Fatal, Bdf::from_bits(1)), None);
}

/// An interrupt each time the condition becomes true (`§6.2.4.1.2`): enables, message, interrupt.
#[test]
fn root_ports_interrupt_on_edges() {
    use ErrorMessage::*;
    for (enables, message, interrupt) in [
        (1, Correctable, Some(9)),
        (6, Correctable, None),
        (2, NonFatal, Some(9)),
        (5, NonFatal, None),
        (4, Fatal, Some(9)),
        (3, Fatal, None),
    ] {
        let mut space = root_port();
        set(&mut space, aer::ROOT_COMMAND, enables);
        assert_eq!(space.root_error(message, Bdf::from_bits(0x100)), interrupt, "{enables} {message:?}");
        assert_eq!(space.root_interrupt(), interrupt.is_some());
        assert_eq!(space.root_error(message, Bdf::from_bits(0x100)), None, "it holds already");
        set(&mut space, aer::ROOT_STATUS, !0);
        assert_eq!((space.poll_root_interrupt(), space.root_interrupt()), (None, false));
        assert_eq!(space.root_error(message, Bdf::from_bits(0x100)), interrupt, "again");
    }
    let mut space = root_port();
    space.root_error(Fatal, Bdf::from_bits(0x100));
    set(&mut space, aer::ROOT_COMMAND, 4);
    assert_eq!((space.poll_root_interrupt(), space.poll_root_interrupt()), (Some(9), None), "enabled later");
}

/// Forwarding upstream (`§6.2.6`): Bridge Control SERR#, Command SERR#, Device Control, message: forwarded, Signaled System
/// Error. Every uncorrectable message sets Received System Error.
#[test]
fn switch_ports_forward_error_messages() {
    use ErrorMessage::*;
    for (bridge, serr, enables, message, passes, signaled) in [
        (false, true, 0xf, Correctable, false, false),
        (true, false, 0x0, Correctable, true, false),
        (true, false, 0x0, NonFatal, false, false),
        (true, false, 0x2, NonFatal, true, false),
        (true, false, 0x2, Fatal, false, false),
        (true, true, 0x0, Fatal, true, true),
        (false, true, 0xf, Fatal, false, false),
    ] {
        let mut space = port(PortType::Upstream, AerLayout::new(AerRole::UpstreamPort));
        space.write(header::COMMAND_STATUS, 0b0011, if serr { command::SERR_ENABLE } else { 0 });
        space.write(header::INTERRUPT, 0b1100, if bridge { bridge_control::SERR_ENABLE } else { 0 });
        enable(&mut space, enables);
        assert_eq!(space.forwards_error(message), passes, "{bridge} {serr} {enables} {message:?}");
        let received = space.read(type1::IO_SECONDARY_STATUS) & status::SIGNALED_SYSTEM_ERROR != 0;
        assert_eq!(received, message != Correctable);
        assert_eq!(space.read(1) & status::SIGNALED_SYSTEM_ERROR != 0, signaled);
    }
    let mut root = root_port();
    assert!(!root.forwards_error(Fatal));
    root.write(header::INTERRUPT, 0b1100, bridge_control::SERR_ENABLE);
    assert!(root.forwards_error(Fatal), "a root port's registers need no enable beside");
}

fn dpc_word(space: &ConfigSpace, dw: u16) -> u32 {
    space.read(space.extended_capability(dpc::ID).unwrap() + dw)
}

fn set_dpc(space: &mut ConfigSpace, dw: u16, byte_enables: u8, value: u32) -> Effects {
    let at = space.extended_capability(dpc::ID).unwrap() + dw;
    space.write(at, byte_enables, value)
}

/// DPC Trigger Enable (`§7.9.15.3`), reason, whether it triggers, DPC Status and Error Source ID (`§7.9.15.4`).
#[test]
fn containment_is_triggered_by_enabled_reasons() {
    let source = Bdf::from_bits(0x0310);
    for (trigger, reason, triggers, logged) in [
        (0b00, DpcReason::FatalMessage(source), false, 0),
        (0b01, DpcReason::FatalMessage(source), true, 0x0310_0005),
        (0b01, DpcReason::NonFatalMessage(source), false, 0),
        (0b10, DpcReason::NonFatalMessage(source), true, 0x0310_0003),
        (0b01, DpcReason::Uncorrectable, true, 0x1),
        (0b01, DpcReason::RpPio, true, 0x7),
        (0b10, DpcReason::Software, true, 0x27),
        (0b11, DpcReason::Software, false, 0),
    ] {
        let mut space = root_port();
        set_dpc(&mut space, 1, 0b0100, trigger << 16);
        assert_eq!(space.dpc_trigger(reason), triggers, "{trigger} {reason:?}");
        // RP PIO First Error Pointer is all ones.
        assert_eq!(dpc_word(&space, 2), logged | 0x1f00, "{trigger} {reason:?}");
        assert_eq!(space.dpc().unwrap().triggered, triggers);
        assert!(!space.dpc_trigger(reason), "not twice");
    }
}

#[test]
fn containment_replaces_the_error_message() {
    let mut space = root_port();
    enable(&mut space, 0xf);
    set_dpc(&mut space, 1, 0b0100, 0x0019_0000); // fatal, interrupt, ERR_COR
    assert_eq!(space.log(ErrorReport::new(Uncorrectable::SurpriseDown)), None);
    assert_eq!(space.read(AER + 1), 1 << 5, "logged all the same");
    assert_eq!(space.poll_dpc(), Some(DpcSignal { interrupt: Some(5), correctable: true }));
    assert_eq!((space.poll_dpc(), dpc_word(&space, 2) & 0xff), (None, 0x9));
    assert_eq!(set_dpc(&mut space, 2, 0b0001, 1), Effects::DPC);
    assert!(!space.dpc().unwrap().triggered, "released");
    assert!(space.dpc_message(ErrorMessage::Fatal, Bdf::from_bits(0x200)));
    assert_eq!(
        space.poll_dpc(),
        Some(DpcSignal { interrupt: None, correctable: true }),
        "its status is still set"
    );
    set_dpc(&mut space, 2, 0b0001, 9);
    assert_eq!(set_dpc(&mut space, 1, 0b0100, 0x0059_0000), Effects::DPC);
    assert_eq!(
        (dpc_word(&space, 2) & 0xff, dpc_word(&space, 1) >> 16),
        (0x2f, 0x19),
        "software trigger reads zero"
    );
    assert!(space.poll_dpc().is_some());
    space.reset(ResetScope::Hot);
    assert!(space.dpc().unwrap().triggered, "RW1CS");
    // Masked and advisory errors do not trigger.
    let mut space = root_port();
    set_dpc(&mut space, 1, 0b0100, 0x0001_0000);
    set(&mut space, aer::UNCORRECTABLE_MASK, UR.mask());
    let _ = space.log(ErrorReport::new(UR));
    let _ = space.log(ErrorReport::new(Uncorrectable::UnexpectedCompletion).advisory(true));
    assert!(!space.dpc().unwrap().triggered);
    assert!(!space.dpc_message(ErrorMessage::Correctable, Bdf::from_bits(1)));
}

/// RP PIO First Error Pointer (`§7.9.15.4`) is all ones after reset, and after the named error was cleared. So a masked
/// error, even with bit 0, does not count as the first error.
#[test]
fn masked_rp_pio_error_does_not_become_first_error() {
    use RpPioFailure::*;
    use RpPioRequest::*;
    let mut space = root_port();
    let pointer = |space: &ConfigSpace| dpc_word(space, 2) >> 8 & 0x1f;
    assert_eq!(pointer(&space), 0x1f);
    let _ = space.rp_pio(Configuration, UnsupportedRequest, [1; 4], [0; 4]);
    set_dpc(&mut space, 4, 0xf, 1);
    let _ = space.rp_pio(Memory, UnsupportedRequest, [2; 4], [0; 4]);
    assert_eq!((dpc_word(&space, 3), pointer(&space), dpc_word(&space, 8)), (1 << 16 | 1, 16, 2));
    set_dpc(&mut space, 3, 0xf, 1 << 16);
    assert_eq!(pointer(&space), 0x1f);
    set_dpc(&mut space, 4, 0xf, 1 << 16 | 1);
    let _ = space.rp_pio(Memory, UnsupportedRequest, [3; 4], [0; 4]);
    let _ = space.rp_pio(Memory, CompletionTimeout, [4; 4], [0; 4]);
    assert_eq!((pointer(&space), dpc_word(&space, 8)), (18, 4));
}

/// RP PIO (`§6.2.10.3`): request, failure, bit; masked after reset.
#[test]
fn failed_root_complex_requests_set_rp_pio_status() {
    use RpPioFailure::*;
    use RpPioRequest::*;
    for (request, failure, bit) in [
        (Configuration, UnsupportedRequest, 0),
        (Configuration, CompletionTimeout, 2),
        (Io, CompleterAbort, 9),
        (Memory, UnsupportedRequest, 16),
        (Memory, CompletionTimeout, 18),
    ] {
        let mut space = root_port();
        set_dpc(&mut space, 1, 0b0100, 0x0001_0000);
        assert_eq!(space.rp_pio(request, failure, HEADER, [0; 4]), RpPioOutcome::default());
        assert_eq!((dpc_word(&space, 3), dpc_word(&space, 8)), (1 << bit, 0), "masked: status alone");
        set_dpc(&mut space, 3, 0xf, !0);
        for (dw, value) in [(4, 0), (5, 1 << bit), (6, 1 << bit), (7, 1 << bit)] {
            set_dpc(&mut space, dw, 0xf, value);
        }
        let outcome = space.rp_pio(request, failure, HEADER, [0x9100_0000, 0, 0, 0]);
        assert_eq!(outcome, RpPioOutcome { triggered: true, system_error: true, exception: true });
        assert_eq!(dpc_word(&space, 2), bit << 8 | 0x7, "First Error Pointer, reason RP PIO");
        assert_eq!((dpc_word(&space, 8), dpc_word(&space, 13)), (HEADER[0], 0x9100_0000));
    }
}
