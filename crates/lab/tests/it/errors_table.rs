// SPDX-License-Identifier: Apache-2.0 OR MIT
//! End-to-end error tests, one for each row of `docs/reference/errors.md`. Each test injects a fault on a link of an
//! enumerated hierarchy. Then it checks the registers of the function that detects the error, the root port's registers
//! and interrupt, and the requester's result. Each test runs with the settings after reset, with masks cleared, with
//! all errors masked, and with the other severity.

use crate::errors_rig::*;
use config::ext::aer;
use device::io::OutMessage;
use fabric::{Alteration, Direction, FaultAction, FrameKind, InternalError, TlpFilter, TlpType};
use std::collections::{BTreeMap, BTreeSet};
use tlp::{Bdf, Duration, MessageRouting, Tag};

use Direction::{Downstream, Upstream};
use Kind::{Advisory, Correctable, Fatal, NonFatal};

/// Signalling of an error after reset (`PCIe 5.0 Table 6-3` to 6-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Bit of Correctable Error Status.
    Correctable,
    /// Bit of Uncorrectable Error Status; the error is fatal.
    Fatal,
    /// Bit of Uncorrectable Error Status; the error is not fatal.
    NonFatal,
    /// Bit of Uncorrectable Error Status; the error is not fatal, and is one of the cases of `§6.2.3.2.4`.
    Advisory,
}

/// A row of the table.
struct Row {
    /// The function that detects the error.
    at: Bdf,
    kind: Kind,
    /// Bit of the error.
    bit: u32,
    faults: Vec<Fault>,
    /// Settings that make the event an error.
    set_up: fn(Lab) -> Act,
    act: fn(Lab) -> Act,
    /// Result at the requester.
    answer: &'static str,
    /// The Header Log, without tags (bits 15:8 of the second DW).
    header: fn(&Lab) -> [u32; 4],
    /// The first DW of the TLP Prefix Log.
    prefix: u32,
    /// Status, or Secondary Status, without System Error.
    status: u32,
    /// Correctable errors that the fault also causes.
    also: u32,
    /// Masked after reset.
    masked: bool,
    /// A later message of another function caused by the fault.
    then: Option<(Bdf, Message)>,
    /// Further changes to the expected registers.
    fix: fn(Variant, &Lab, Seen) -> Seen,
    variants: &'static [Variant],
}

/// Settings of masks and severities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variant {
    /// As after reset.
    Default,
    /// All masks are clear.
    Unmasked,
    /// The error is masked, Advisory Non-Fatal is not.
    Masked,
    /// All masks are clear, and the error has the other severity.
    Turned,
}

const ALL_VARIANTS: &[Variant] = &[Variant::Default, Variant::Unmasked, Variant::Masked, Variant::Turned];

fn nothing(_: Lab) -> Act {
    Box::pin(async { String::new() })
}

fn no_header(_: &Lab) -> [u32; 4] {
    [0; 4]
}

fn row(at: Bdf, kind: Kind, bit: u32, act: fn(Lab) -> Act, answer: &'static str) -> Row {
    Row {
        at,
        kind,
        bit,
        faults: Vec::new(),
        set_up: nothing,
        act,
        answer,
        header: no_header,
        prefix: 0,
        status: 0,
        also: 0,
        masked: false,
        then: None,
        fix: |_, _, seen| seen,
        variants: ALL_VARIANTS,
    }
}

impl Row {
    fn fault(mut self, fault: Fault) -> Row {
        self.faults.push(fault);
        self
    }

    fn set_up(self, set_up: fn(Lab) -> Act) -> Row {
        Row { set_up, ..self }
    }

    fn header(self, header: fn(&Lab) -> [u32; 4]) -> Row {
        Row { header, ..self }
    }

    fn then(self, source: Bdf, message: Message) -> Row {
        Row { then: Some((source, message)), ..self }
    }

    fn also(self, also: u32) -> Row {
        Row { also, ..self }
    }

    fn status(self, status: u32) -> Row {
        Row { status, ..self }
    }

    fn expected(&self, variant: Variant, lab: &Lab) -> Seen {
        let seen = self.expected_alone(variant, lab);
        let seen = match self.then {
            Some((source, message)) => seen.heard(source, Some(message)),
            None => seen,
        };
        (self.fix)(variant, lab, seen)
    }

    fn expected_alone(&self, variant: Variant, lab: &Lab) -> Seen {
        let (bit, turned) = (1u32 << self.bit, variant == Variant::Turned);
        let status = self.status;
        if self.kind == Correctable {
            let sent = variant != Variant::Masked && !(self.masked && variant == Variant::Default);
            let seen = Seen { correctable: bit | self.also, device_status: 1, status, ..Seen::default() };
            let message = sent.then_some(Message::Correctable);
            let seen = seen.heard(self.at, message);
            return if self.also == 0 { seen } else { seen.heard(self.at, message) };
        }
        let fatal = (self.kind == Fatal) != turned;
        let advisory = self.kind == Advisory && !fatal;
        let unsupported = u32::from(self.bit == 20) << 3;
        let also = u32::from(self.also != 0);
        let base = Seen { correctable: self.also, status, ..Seen::default() };
        if advisory && variant == Variant::Default {
            return Seen { correctable: base.correctable | 1 << 13, device_status: 1 | unsupported, ..base };
        }
        let masked = variant == Variant::Masked || variant == Variant::Default && self.masked;
        let (header, first_error, prefix) =
            if masked { ([0; 4], 0, 0) } else { ((self.header)(lab), self.bit, self.prefix) };
        let detected = if advisory {
            1
        } else if fatal {
            4
        } else {
            2
        } | also
            | unsupported;
        let correctable = base.correctable | u32::from(advisory) << 13;
        let message = match (advisory, fatal) {
            (true, _) => Some(Message::Correctable),
            (_, true) => Some(Message::Fatal).filter(|_| !masked),
            (_, false) => Some(Message::NonFatal).filter(|_| !masked),
        };
        let seen = Seen {
            uncorrectable: bit,
            correctable,
            header,
            first_error,
            prefix,
            device_status: detected,
            ..base
        };
        let seen = seen.heard(self.at, message);
        if self.also == 0 { seen } else { seen.heard(self.at, Some(Message::Correctable)) }
    }
}

/// An error message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Message {
    Correctable,
    NonFatal,
    Fatal,
}

impl Seen {
    /// Registers of the root port after one more message, from `source` (`PCIe 5.0 §7.8.4.10`, `§7.8.4.11`). There is one
    /// interrupt for all messages until they are cleared.
    fn heard(self, source: Bdf, message: Option<Message>) -> Seen {
        let id = u32::from(source.bits());
        let Some(message) = message else { return self };
        let was = self.root_status;
        let (bits, named) = match (message, was & 0x01 != 0, was & 0x04 != 0) {
            (Message::Correctable, false, _) => (0x01, id),
            (Message::Correctable, true, _) => (0x02, 0),
            (Message::NonFatal, _, false) => (0x24, id << 16),
            (Message::NonFatal, _, true) => (0x28, 0),
            (Message::Fatal, _, false) => (0x54, id << 16),
            (Message::Fatal, _, true) => (0x48, 0),
        };
        Seen { root_status: was | bits, source: self.source | named, interrupts: 1, ..self }
    }

    /// Removes tags from the header: they depend on the number of requests.
    fn without_tags(mut self) -> Seen {
        // The tag of a completion is in the third DW (`PCIe 5.0 Figure 2-38`).
        let is_completion = self.header[0] >> 24 & 0x1f == 0x0a;
        self.header[if is_completion { 2 } else { 1 }] &= 0xffff_00ff;
        self
    }
}

async fn apply(lab: &Lab, row: &Row, variant: Variant) {
    let (unc, cor) = (lab.aer(row.at, aer::UNCORRECTABLE_MASK), lab.aer(row.at, aer::CORRECTABLE_MASK));
    if variant == Variant::Default {
        return;
    }
    let masked = variant == Variant::Masked;
    lab.write(row.at, unc, 0xf, if masked { !0 } else { 0 }).await;
    lab.write(row.at, cor, 0xf, if masked && row.kind == Correctable { !0 } else { 0 }).await;
    if variant == Variant::Turned {
        let at = lab.aer(row.at, aer::SEVERITY);
        let old = lab.read(row.at, at).await;
        lab.write(row.at, at, 0xf, old ^ 1 << row.bit).await;
    }
}

fn check(make: fn() -> Row) {
    let all = make();
    for &variant in all.variants {
        if variant == Variant::Turned && all.kind == Correctable {
            continue;
        }
        let row = make();
        let faults = row.faults.clone();
        run(&faults, move |lab| async move {
            apply(&lab, &row, variant).await;
            (row.set_up)(lab.clone()).await;
            lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
            let answer = (row.act)(lab.clone()).await;
            lab.settle().await;
            let seen = lab.seen(row.at).await.without_tags();
            let expected = row.expected(variant, &lab).without_tags();
            assert_eq!((variant, answer.as_str()), (variant, row.answer));
            assert_eq!((variant, seen), (variant, expected));
            Ok(())
        });
    }
}

/// Declares a test for each row, and a list of their names.
macro_rules! rows {
    ($($(#[$doc:meta])* $name:ident => $row:expr;)*) => {
        $($(#[$doc])* #[test] fn $name() { check(|| $row); })*
        const ROWS: &[(&str, fn() -> Row)] = &[$((stringify!($name), || $row)),*];
    };
}

/// The first matching frame.
const ONCE: (u64, u64) = (1, 0);
const EVERY: (u64, u64) = (1, 1);

fn of_type(ty: TlpType) -> FrameKind {
    FrameKind::Where(TlpFilter { ty: Some(ty), ..TlpFilter::default() })
}

fn completion_for(requester: Bdf) -> FrameKind {
    let ty = Some(TlpType::CompletionWithData);
    FrameKind::Where(TlpFilter { ty, requester: Some(requester), ..TlpFilter::default() })
}

const fn alter(alteration: Alteration) -> FaultAction {
    FaultAction::Alter(alteration)
}

const HOST: Bdf = Bdf::from_bits(0);

fn read_a(lab: Lab) -> Act {
    Box::pin(async move { lab.host_read(lab.bar(A, 0)).await })
}

fn write_a(lab: Lab) -> Act {
    Box::pin(async move {
        lab.cpu.write_u32(lab.bar(A, at::PLAIN), 5).await.unwrap();
        lab.cpu.sleep(Duration::from_us(20)).await;
        lab.log.borrow().last().cloned().unwrap_or_else(|| "lost".into())
    })
}

fn write_b(lab: Lab) -> Act {
    Box::pin(async move {
        lab.cpu.write_u32(lab.bar(B, at::PLAIN), 5).await.unwrap();
        lab.cpu.sleep(Duration::from_us(20)).await;
        lab.log.borrow().last().cloned().unwrap_or_else(|| "lost".into())
    })
}

/// The host reads offset `AT` of the BAR of A.
fn reads_a<const AT: u64>(lab: Lab) -> Act {
    Box::pin(async move { lab.host_read(lab.bar(A, AT)).await })
}

/// Starts an operation of A: writes an address in host memory to offset `AT` of its BAR.
fn asks_a<const AT: u64>(lab: Lab) -> Act {
    Box::pin(async move { lab.have_a(AT, lab.memory()).await })
}

/// Like [`asks_a`], with an address that nothing claims.
fn asks_a_to_nowhere<const AT: u64>(lab: Lab) -> Act {
    Box::pin(async move { lab.have_a(AT, NOWHERE).await })
}

fn dma_read(lab: Lab) -> Act {
    asks_a::<{ at::DMA_READ }>(lab)
}

fn dma_write(lab: Lab) -> Act {
    asks_a::<{ at::DMA_WRITE }>(lab)
}

/// AtomicOp Requester Enable of A.
fn enable_atomics(lab: Lab) -> Act {
    Box::pin(async move {
        lab.set(A, lab.pcie(A, 10), 0b0011, 1 << 6).await;
        String::new()
    })
}

/// ECRC Generation Enable of A, and ECRC Check Enable of the root port.
fn enable_ecrc(lab: Lab) -> Act {
    Box::pin(async move {
        lab.set(A, lab.aer(A, aer::CONTROL), 0xf, 1 << 6).await;
        lab.set(ROOT, lab.aer(ROOT, aer::CONTROL), 0xf, 1 << 8).await;
        String::new()
    })
}

/// A completion for the root port is missing.
fn times_out_at_root(variant: Variant, lab: &Lab, seen: Seen) -> Seen {
    let seen =
        Seen { uncorrectable: seen.uncorrectable | 1 << 14, device_status: seen.device_status | 2, ..seen };
    let seen = if variant == Variant::Masked { seen } else { seen.heard(ROOT, Some(Message::NonFatal)) };
    match variant {
        // The advisory error is not in the registers, so the timeout is the first error.
        Variant::Default => {
            Seen { first_error: 14, header: [0x0000_0001, 0x0000_000f, lab.bar(A, 0) as u32, 0], ..seen }
        }
        Variant::Masked => seen,
        // The only Header Log is occupied: Header Log Overflow.
        Variant::Unmasked | Variant::Turned => {
            let seen = seen.heard(ROOT, Some(Message::Correctable));
            let (correctable, device_status) = (seen.correctable | 1 << 15, seen.device_status | 1);
            Seen { correctable, device_status, ..seen }
        }
    }
}

/// The TLP reaches the root port, which drops it and receives this error before the error of the port below.
fn dropped_at_root(variant: Variant, _: &Lab, seen: Seen) -> Seen {
    let told = match variant {
        Variant::Default => None,
        Variant::Unmasked | Variant::Masked => Some(Message::Correctable),
        Variant::Turned => Some(Message::Fatal),
    };
    Seen { root_status: 0, source: 0, ..seen }.heard(ROOT, Some(Message::NonFatal)).heard(DOWN_A, told)
}

/// Not host memory, and in no window.
const NOWHERE: u64 = 0x10_0000_0000;

rows! {
    unsupported_request_endpoint => row(A, Advisory, 20, reads_a::<{ at::BEYOND }>, "UnsupportedRequest")
    // MRd of one DW; Requester ID 0, all bytes; the address.
    .header(|lab| [0x0000_0001, 0x0000_000f, lab.bar(A, at::BEYOND) as u32, 0]);

    unsupported_request_posted => row(
        A,
        NonFatal,
        20,
        |lab| Box::pin(async move {
            lab.cpu.write_u32(lab.bar(A, at::BEYOND), 5).await.unwrap();
            String::new()
        }),
        "",
    )
    .header(|lab| [0x4000_0001, 0x0000_000f, lab.bar(A, at::BEYOND) as u32, 0]);

    unsupported_request_switch => row(
        UP,
        Advisory,
        20,
        |lab| Box::pin(async move { lab.host_read(lab.bar(B, 0)).await }),
        "UnsupportedRequest",
    )
    // Memory Space Enable of the port above B is clear.
    .set_up(|lab| Box::pin(async move { lab.write(DOWN_B, 1, 0b0001, 0x04).await; String::new() }))
    .header(|lab| [0x0000_0001, 0x0000_000f, lab.bar(B, 0) as u32, 0]);

    unsupported_request_root => row(ROOT, Advisory, 20, asks_a_to_nowhere::<{ at::DMA_READ }>, "UnsupportedRequest")
    .header(|_| [0x2000_0001, 0x0300_000f, 0x10, 0]);

    completer_abort => row(A, Advisory, 15, reads_a::<{ at::ABORTS }>, "CompleterAbort")
    .header(|lab| [0x0000_0001, 0x0000_000f, lab.bar(A, at::ABORTS) as u32, 0])
    // Signaled Target Abort.
    .status(0x0800);

    completion_timeout_endpoint => row(A, NonFatal, 14, dma_read, "CompletionTimeout")
    // The completion goes to B, which does not expect it.
    .fault((LINK_UP, Downstream, completion_for(A), ONCE, alter(Alteration::Requester(B))))
    .header(|lab| [0x0000_0001, 0x0300_000f, lab.memory() as u32, 0]);

    completion_timeout_root => row(ROOT, NonFatal, 14, reads_a::<{ at::SILENT }>, "CompletionTimeout")
    .header(|lab| [0x0000_0001, 0x0000_000f, lab.bar(A, at::SILENT) as u32, 0]);

    unexpected_completion_endpoint => row(B, Advisory, 16, dma_read, "CompletionTimeout")
    .fault((LINK_UP, Downstream, completion_for(A), ONCE, alter(Alteration::Requester(B))))
    // CplD of one DW; Completer ID 0, SC, Byte Count 4; Requester ID.
    .header(|_| [0x4a00_0001, 0x0000_0004, 0x0400_0000, 0])
    .then(A, Message::NonFatal);

    unexpected_completion_switch => row(DOWN_A, Advisory, 16, read_a, "CompletionTimeout")
    .fault((LINK_A, Upstream, completion_for(HOST), ONCE, alter(Alteration::Requester(A))))
    .header(|_| [0x4a00_0001, 0x0300_0004, 0x0300_0000, 0])
    .then(ROOT, Message::NonFatal);

    unexpected_completion_root => Row { fix: times_out_at_root, ..row(ROOT, Advisory, 16, read_a, "CompletionTimeout") }
    .fault((LINK_A, Upstream, completion_for(HOST), ONCE, alter(Alteration::Tag(Tag::from_bits(0x3ff)))))
    // Tag bits 9 and 8 are bits 23 and 19 of the first DW.
    .header(|_| [0x4a88_0001, 0x0300_0004, 0, 0]);

    poisoned_request => row(A, NonFatal, 12, write_a, "lost")
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Poison)))
    .header(|lab| [0x4000_4001, 0x0000_000f, lab.bar(A, at::PLAIN) as u32, 0])
    // Detected Parity Error.
    .status(0x8000);

    poisoned_configuration => row(
        A,
        NonFatal,
        12,
        |lab| Box::pin(async move { lab.host_writes_register(A).await }),
        "UnsupportedRequest",
    )
    .fault((LINK_A, Downstream, of_type(TlpType::ConfigWrite), ONCE, alter(Alteration::Poison)))
    // CfgWr0 of one DW; Requester ID 0, all bytes; Completer ID, register 3.
    .header(|_| [0x4400_4001, 0x0000_000f, 0x0300_000c, 0])
    .status(0x8000);

    poisoned_configuration_switch => row(
        UP,
        NonFatal,
        12,
        |lab| Box::pin(async move { lab.host_writes_register(UP).await }),
        "UnsupportedRequest",
    )
    .fault((LINK_UP, Downstream, of_type(TlpType::ConfigWrite), ONCE, alter(Alteration::Poison)))
    .header(|_| [0x4400_4001, 0x0000_000f, 0x0100_000c, 0])
    .status(0x8000);

    poisoned_atomic_root => row(ROOT, NonFatal, 12, asks_a::<{ at::FETCH_ADD }>, "UnsupportedRequest")
    .set_up(enable_atomics)
    .fault((LINK_UP, Upstream, of_type(TlpType::Atomic), ONCE, alter(Alteration::Poison)))
    .header(|lab| [0x4c00_4001, 0x0300_0000, lab.memory() as u32, 0])
    .status(0x8000);

    poisoned_unsupported => row(ROOT, NonFatal, 20, asks_a_to_nowhere::<{ at::FETCH_ADD }>, "UnsupportedRequest")
    .set_up(enable_atomics)
    .fault((LINK_UP, Upstream, of_type(TlpType::Atomic), ONCE, alter(Alteration::Poison)))
    .header(|_| [0x6c00_4001, 0x0300_0000, 0x10, 0])
    .status(0x8000);

    unsupported_message_endpoint => row(
        A,
        NonFatal,
        20,
        |lab| Box::pin(async move {
            let mut message = OutMessage::new(MessageRouting::ById, 0x7e);
            message.header[..2].copy_from_slice(&A.bits().to_be_bytes());
            lab.cpu.send_message(A, message).await;
            String::new()
        }),
        "",
    )
    // Msg routed by ID: Requester ID 0, Vendor_Defined Type 0; the ID.
    .header(|_| [0x3200_0000, 0x0000_007e, 0x0300_0000, 0]);

    unsupported_message_switch => row(
        UP,
        NonFatal,
        20,
        |lab| Box::pin(async move {
            lab.cpu.send_message(UP, OutMessage::new(MessageRouting::Local, 0x7e)).await;
            String::new()
        }),
        "",
    )
    .header(|_| [0x3400_0000, 0x0000_007e, 0, 0]);

    unsupported_message_root => row(
        ROOT,
        NonFatal,
        20,
        |lab| Box::pin(async move { lab.have_a(at::MESSAGE, 0x7e).await }),
        "sent",
    )
    .header(|_| [0x3000_0000, 0x0300_007e, 0, 0]);

    poisoned_completion => row(A, Advisory, 12, dma_read, "Poisoned")
    .fault((LINK_A, Downstream, completion_for(A), ONCE, alter(Alteration::Poison)))
    .header(|_| [0x4a00_4001, 0x0000_0004, 0x0300_0000, 0])
    .status(0x8000);

    poisoned_switch => Row { fix: dropped_at_root, ..row(DOWN_A, Advisory, 12, dma_write, "sent") }
    .fault((LINK_A, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Poison)))
    .header(|lab| [0x4000_4001, 0x0300_000f, lab.memory() as u32, 0])
    .status(0x8000);

    poisoned_root => row(ROOT, NonFatal, 12, dma_write, "sent")
    .fault((LINK_UP, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Poison)))
    .header(|lab| [0x4000_4001, 0x0300_000f, lab.memory() as u32, 0])
    .status(0x8000);

    ecrc => row(ROOT, NonFatal, 19, dma_write, "sent")
    .set_up(enable_ecrc)
    .fault((LINK_A, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::WrongEcrc)))
    .header(|lab| [0x4000_8001, 0x0300_000f, lab.memory() as u32, 0]);

    malformed_endpoint => row(A, Fatal, 18, write_a, "lost")
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Length(9))))
    .header(|lab| [0x4000_0009, 0x0000_000f, lab.bar(A, at::PLAIN) as u32, 0]);

    malformed_switch => row(DOWN_A, Fatal, 18, dma_write, "sent")
    .fault((LINK_A, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Length(9))))
    .header(|lab| [0x4000_0009, 0x0300_000f, lab.memory() as u32, 0]);

    malformed_root => row(ROOT, Fatal, 18, dma_write, "sent")
    .fault((LINK_UP, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Length(9))))
    .header(|lab| [0x4000_0009, 0x0300_000f, lab.memory() as u32, 0]);

    malformed_before_ecrc => row(ROOT, Fatal, 18, dma_write, "sent")
    .set_up(enable_ecrc)
    .fault((LINK_A, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::WrongEcrc)))
    .fault((LINK_UP, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Length(9))))
    .header(|lab| [0x4000_8009, 0x0300_000f, lab.memory() as u32, 0]);

    receiver_overflow => row(
        A,
        Fatal,
        17,
        |lab| Box::pin(async move {
            // An UpdateFC with too many credits; then more TLPs than the buffer has room for.
            lab.cpu.write_u32(lab.bar(A, at::PLAIN), 5).await.unwrap();
            lab.cpu.sleep(Duration::from_us(60)).await;
            lab.cpu.write_u64(lab.bar(A, at::BUSY), 30_000).await.unwrap();
            for _ in 0..5 {
                lab.cpu.write_u32(lab.bar(A, at::PLAIN), 5).await.unwrap();
            }
            String::new()
        }),
        "",
    )
    .fault((LINK_A, Upstream, FrameKind::UpdateFc, EVERY, alter(Alteration::Credits { header: 2, data: 0 })));

    flow_control_protocol => row(DOWN_A, Fatal, 13, read_a, "0x12345678")
    .fault((LINK_A, Upstream, FrameKind::UpdateFc, ONCE, alter(Alteration::Credits { header: 128, data: 0 })));

    data_link_protocol => row(DOWN_A, Fatal, 4, read_a, "0x12345678")
    .fault((LINK_A, Upstream, FrameKind::Ack, ONCE, alter(Alteration::Sequence(100))))
    // The missing DLLP was an Ack.
    .also(1 << 12);

    surprise_down => row(DOWN_A, Fatal, 5, read_a, "CompletionTimeout")
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), ONCE, FaultAction::Cut { restore_after: None }))
    .then(ROOT, Message::NonFatal);

    replay_timeout => row(DOWN_A, Correctable, 12, read_a, "0x12345678")
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), ONCE, FaultAction::Drop));

    replay_rollover => row(DOWN_A, Correctable, 8, read_a, "0x12345678")
    .also(1 << 12)
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), (1, 0), FaultAction::Drop))
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), (2, 0), FaultAction::Drop))
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), (3, 0), FaultAction::Drop))
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), (4, 0), FaultAction::Drop));

    bad_tlp => row(A, Correctable, 6, read_a, "0x12345678")
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), ONCE, FaultAction::Corrupt));

    bad_dllp => row(DOWN_A, Correctable, 7, read_a, "0x12345678")
    .fault((LINK_A, Upstream, FrameKind::UpdateFc, ONCE, FaultAction::Corrupt));

    receiver_error => row(A, Correctable, 0, read_a, "0x12345678")
    .fault((LINK_A, Downstream, of_type(TlpType::MemoryRead), ONCE, FaultAction::BreakFraming));

    corrected_internal => Row { masked: true, ..row(A, Correctable, 14, read_a, "0x12345678") }
    .fault((
        LINK_A,
        Downstream,
        of_type(TlpType::MemoryRead),
        ONCE,
        FaultAction::InternalError(InternalError::Corrected),
    ));

    uncorrectable_internal => Row { masked: true, ..row(A, Fatal, 22, write_a, "lost") }
    .fault((
        LINK_A,
        Downstream,
        of_type(TlpType::MemoryWrite),
        ONCE,
        FaultAction::InternalError(InternalError::Uncorrectable),
    ));

    acs_violation => row(DOWN_A, NonFatal, 21, dma_write, "sent")
    // ACS Source Validation.
    .set_up(|lab| Box::pin(async move {
        lab.set(DOWN_A, lab.extended(DOWN_A, 0x0d, 1), 0b1100, 1 << 16).await;
        String::new()
    }))
    .fault((LINK_A, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Requester(B))))
    .header(|lab| [0x4000_0001, 0x0400_000f, lab.memory() as u32, 0]);

    atomic_egress_blocked => row(UP, Advisory, 24, asks_a::<{ at::FETCH_ADD }>, "UnsupportedRequest")
    // AtomicOp Egress Blocking; AtomicOp Requester Enable.
    .set_up(|lab| Box::pin(async move {
        lab.set(UP, lab.pcie(UP, 10), 0b0011, 1 << 7).await;
        lab.set(A, lab.pcie(A, 10), 0b0011, 1 << 6).await;
        String::new()
    }))
    .header(|lab| [0x4c00_0001, 0x0300_0000, lab.memory() as u32, 0]);

    prefix_blocked => Row {
        // End-End, PASID 77h.
        prefix: 0x9100_0077,
        ..row(UP, Advisory, 25, asks_a::<{ at::READ_WITH_PASID }>, "UnsupportedRequest")
    }
    // End-End TLP Prefix Blocking.
    .set_up(|lab| Box::pin(async move {
        lab.set(UP, lab.pcie(UP, 10), 0b0011, 1 << 15).await;
        String::new()
    }))
    .header(|lab| [0x0000_0001, 0x0300_000f, lab.memory() as u32, 0]);

    poisoned_egress_blocked => Row { masked: true, ..row(DOWN_B, NonFatal, 26, write_b, "lost") }
    // Poisoned TLP Egress Blocking Enable.
    .set_up(|lab| Box::pin(async move {
        lab.set(DOWN_B, lab.dpc(DOWN_B, 1), 0b1100, 1 << 21).await;
        String::new()
    }))
    .fault((LINK_UP, Downstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Poison)))
    .header(|lab| [0x4000_4001, 0x0000_000f, lab.bar(B, at::PLAIN) as u32, 0]);
}

// ---- forwarding of messages ----

/// SERR# Enable of Bridge Control is clear in the port that receives the message: the message is not forwarded (`PCIe 5.0
/// §6.2.6`). The function that sent it has still logged the error.
#[test]
fn messages_need_serr_enable() {
    let fault = (LINK_A, Downstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Poison));
    run(&[fault], |lab| async move {
        let control = lab.read(DOWN_A, 15).await;
        lab.write(DOWN_A, 15, 0b0100, control & !(1 << 17)).await;
        lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
        assert_eq!(write_a(lab.clone()).await, "lost");
        lab.settle().await;
        let seen = lab.seen(A).await;
        assert_eq!((seen.uncorrectable, seen.device_status), (1 << 12, 2));
        assert_eq!((seen.root_status, seen.source, seen.interrupts), (0, 0, 0));
        // Received System Error.
        assert_eq!(lab.read(DOWN_A, 7).await >> 30 & 1, 1);
        Ok(())
    });
}

/// DPC Control: Trigger Enable for fatal errors (1) or non-fatal ones too (2), with Interrupt Enable.
async fn enable_dpc(lab: &Lab, port: Bdf, trigger: u32) {
    lab.write(port, lab.dpc(port, 1), 0b1100, (trigger | 1 << 3) << 16).await;
}

/// While the link is down: CA (Completion Control is clear), and the port's registers answer. After the trigger is cleared,
/// the link comes up, the slot is set up again, and traffic continues (`PCIe 5.0 §6.2.10`).
async fn contained_and_released(lab: &Lab, status: u32) {
    let at = lab.dpc(DOWN_A, 2);
    // DPC Interrupt: the test cannot continue without it.
    lab.cpu.interrupt(lab.system.get(DOWN_A).unwrap().found.vector(0)).await;
    assert_eq!(lab.read(DOWN_A, at).await, status, "DPC Status");
    let link = lab.pcie(DOWN_A, 4);
    assert_eq!(lab.read(DOWN_A, link).await >> 29 & 1, 0, "Data Link Layer Link Active");
    assert_eq!(lab.host_read(lab.bar(A, 0)).await, "CompleterAbort");
    assert_eq!(lab.host_read(lab.bar(B, 0)).await, "0x12345678", "nothing else is disturbed");
    let bar = lab.bar(A, 0) as u32;
    lab.write(DOWN_A, at, 0b0001, 1 << 3 | 1).await;
    lab.cpu.sleep(Duration::from_us(100)).await;
    assert_eq!(lab.read(DOWN_A, link).await >> 29 & 1, 1);
    assert_eq!(lab.read(DOWN_A, at).await & 0b1001, 0);
    assert_eq!(lab.read(A, 4).await, 0, "a hot reset has cleared the BAR");
    lab.write(A, 4, 0xf, bar).await;
    lab.write(A, 1, 0b0011, 0x0006).await;
    assert_eq!(lab.host_read(lab.bar(A, 0)).await, "0x12345678");
}

/// ERR_FATAL from below triggers, and is not forwarded: Trigger Reason 10b, and the sender's ID.
#[test]
fn dpc_by_message() {
    let fault = (LINK_A, Downstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Length(9)));
    run(&[fault], |lab| async move {
        enable_dpc(&lab, DOWN_A, 1).await;
        lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
        assert_eq!(write_a(lab.clone()).await, "lost");
        lab.settle().await;
        assert_eq!(lab.read(ROOT, lab.aer(ROOT, aer::ROOT_STATUS)).await, 0);
        contained_and_released(&lab, 0x0300_000d).await;
        Ok(())
    });
}

/// An unmasked uncorrectable error of the port itself triggers, without a message: Trigger Reason 00b.
#[test]
fn dpc_by_own_error() {
    let fault = (LINK_A, Upstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Length(9)));
    run(&[fault], |lab| async move {
        enable_dpc(&lab, DOWN_A, 1).await;
        lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
        assert_eq!(dma_write(lab.clone()).await, "sent");
        lab.settle().await;
        let seen = lab.seen(DOWN_A).await;
        assert_eq!((seen.uncorrectable, seen.root_status), (1 << 18, 0));
        contained_and_released(&lab, 0x0000_0009).await;
        Ok(())
    });
}

/// ERR_NONFATAL triggers only if Trigger Enable is 10b: Trigger Reason 01b.
#[test]
fn dpc_by_non_fatal_message() {
    for trigger in [1, 2] {
        let fault = (LINK_A, Downstream, of_type(TlpType::MemoryWrite), ONCE, alter(Alteration::Poison));
        run(&[fault], move |lab| async move {
            enable_dpc(&lab, DOWN_A, trigger).await;
            lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
            assert_eq!(write_a(lab.clone()).await, "lost");
            lab.settle().await;
            if trigger == 2 {
                contained_and_released(&lab, 0x0300_000b).await;
            } else {
                assert_eq!(lab.read(DOWN_A, lab.dpc(DOWN_A, 2)).await, 0);
                assert_eq!(lab.host_read(lab.bar(A, 0)).await, "0x12345678");
                let heard = lab.read(ROOT, lab.aer(ROOT, aer::ROOT_STATUS)).await;
                assert_eq!(heard, 0x24);
            }
            Ok(())
        });
    }
}

/// DPC Software Trigger: Trigger Reason 11b, extension 01b.
#[test]
fn dpc_by_software() {
    run(&[], |lab| async move {
        enable_dpc(&lab, DOWN_A, 1).await;
        lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
        lab.set(DOWN_A, lab.dpc(DOWN_A, 1), 0b1100, 1 << 22).await;
        lab.settle().await;
        contained_and_released(&lab, 0x0000_002f).await;
        Ok(())
    });
}

/// Secondary Bus Reset of the port above A while A reads. A's read ends, its registers are reset except sticky ones, and B
/// continues (`PCIe 5.0 §6.6.1`, `§7.4`).
#[test]
fn secondary_bus_reset() {
    run(&[], |lab| async move {
        let (mask, bar) = (lab.aer(A, aer::UNCORRECTABLE_MASK), lab.bar(A, 0) as u32);
        lab.write(A, mask, 0xf, 1 << 12).await;
        lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
        let going_on = lab.clone();
        let other = lab.cpu.spawn(async move {
            for _ in 0..50 {
                assert_eq!(going_on.host_read(going_on.bar(B, 0)).await, "0x12345678");
            }
        });
        let control = lab.read(DOWN_A, 15).await;
        let before = (lab.read(A, 4).await, lab.read(A, 1).await & 7);
        assert_eq!(before, (bar, 6));
        let waiting = lab.clone();
        let outstanding = lab.cpu.spawn(async move { waiting.host_read(waiting.bar(A, at::SILENT)).await });
        lab.cpu.sleep(Duration::from_us(5)).await;
        lab.write(DOWN_A, 15, 0b0100, control | 1 << 22).await;
        assert_eq!(lab.host_read(lab.bar(A, 0)).await, "UnsupportedRequest", "the link is down");
        assert_eq!(outstanding.await.map_err(|e| e.to_string())?, "CompletionTimeout", "it was sent");
        lab.write(DOWN_A, 15, 0b0100, control).await;
        lab.cpu.sleep(Duration::from_us(100)).await;
        let after = (lab.read(A, 4).await, lab.read(A, 1).await & 7, lab.read(A, mask).await);
        assert_eq!(after, (0, 0, 1 << 12), "BAR, Command; the mask is sticky");
        // The reset is intended, so it is not reported as Surprise Down.
        assert_eq!(lab.read(DOWN_A, lab.aer(DOWN_A, aer::UNCORRECTABLE_STATUS)).await & 1 << 5, 0);
        lab.write(A, 4, 0xf, bar).await;
        lab.write(A, 1, 0b0011, 0x0006).await;
        assert_eq!(lab.host_read(lab.bar(A, 0)).await, "0x12345678");
        other.await.map_err(|e| e.to_string())
    });
}

/// Function Level Reset: registers are reset except sticky ones and the link's shared ones. The link stays up (`PCIe 5.0
/// §6.6.2`).
#[test]
fn function_level_reset() {
    run(&[], |lab| async move {
        let (mask, bar) = (lab.aer(A, aer::UNCORRECTABLE_MASK), lab.bar(A, 0) as u32);
        lab.write(A, mask, 0xf, 1 << 12).await;
        lab.cpu.sleep_until(GO + Duration::from_us(1)).await;
        let control = lab.read(A, lab.pcie(A, 2)).await;
        let mps = control >> 5 & 0b111;
        assert_eq!(mps, 1, "256 B, by firmware");
        let waiting = lab.clone();
        let outstanding = lab.cpu.spawn(async move { waiting.host_read(waiting.bar(A, at::SILENT)).await });
        lab.cpu.sleep(Duration::from_us(5)).await;
        lab.write(A, lab.pcie(A, 2), 0b0011, control & 0xffff | 1 << 15).await;
        lab.cpu.sleep(Duration::from_us(100)).await;
        assert_eq!(lab.host_read(lab.bar(B, 0)).await, "0x12345678", "nothing else is disturbed");
        assert_eq!(
            outstanding.await.map_err(|e| e.to_string())?,
            "CompletionTimeout",
            "the function has forgotten it"
        );
        let after = (lab.read(A, 4).await, lab.read(A, 1).await & 7, lab.read(A, mask).await);
        assert_eq!(after, (0, 0, 1 << 12), "BAR, Command; the mask is sticky");
        assert_eq!(lab.read(A, lab.pcie(A, 2)).await >> 5 & 0b111, 1, "Max_Payload_Size stays");
        assert_eq!(lab.read(DOWN_A, lab.aer(DOWN_A, aer::UNCORRECTABLE_STATUS)).await & 1 << 5, 0);
        lab.write(A, 4, 0xf, bar).await;
        lab.write(A, 1, 0b0011, 0x0006).await;
        assert_eq!(lab.host_read(lab.bar(A, 0)).await, "0x12345678");
        Ok(())
    });
}

// ---- the page ----

const PAGE: &str = include_str!("../../../../docs/reference/errors.md");

/// Rows of the page that name a test, as cells.
fn page_rows() -> BTreeMap<&'static str, Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let rows = PAGE.lines().filter(|line| line.starts_with("| `")).map(cells);
    rows.map(|cells| (cells[0].trim_matches('`'), cells)).collect()
}

/// Names of tests that are not rows.
fn other_tests() -> impl Iterator<Item = &'static str> {
    let source = include_str!("errors_table.rs").lines();
    let names = source.clone().zip(source.skip(1)).filter(|(first, _)| first.trim() == "#[test]");
    let names = names.filter_map(|(_, second)| second.strip_prefix("fn ")?.split_once('('));
    names.map(|(name, _)| name).filter(|name| !name.starts_with("page_"))
}

#[test]
fn page_has_a_row_for_each_test_and_a_test_for_each_row() {
    let tests: BTreeSet<&str> = ROWS.iter().map(|(name, _)| *name).chain(other_tests()).collect();
    assert!(tests.contains("dpc_by_message") && tests.contains("ecrc"));
    assert_eq!(page_rows().into_keys().collect::<BTreeSet<_>>(), tests);
}

/// Checks bit and severity of each row against the page.
#[test]
fn page_has_bit_and_severity_of_each_row() {
    let page = page_rows();
    for (name, make) in ROWS {
        let (row, cells) = (make(), &page[name]);
        let (logged, signalled) = match row.kind {
            Correctable if row.masked => (format!("correctable {}", row.bit), "masked; ERR_COR"),
            Correctable => (format!("correctable {}", row.bit), "ERR_COR"),
            Fatal if row.masked => (format!("uncorrectable {}", row.bit), "masked; ERR_FATAL"),
            Fatal => (format!("uncorrectable {}", row.bit), "ERR_FATAL"),
            NonFatal if row.masked => (format!("uncorrectable {}", row.bit), "masked; ERR_NONFATAL"),
            NonFatal => (format!("uncorrectable {}", row.bit), "ERR_NONFATAL"),
            Advisory => (format!("uncorrectable {}", row.bit), "advisory"),
        };
        assert_eq!(cells[4].split(',').next(), Some(logged.as_str()), "{name}");
        assert_eq!(cells[5].split(',').next(), Some(signalled), "{name}");
    }
}
