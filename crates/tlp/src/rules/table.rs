// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of rules: name, section, text and check of each. Nothing here looks at a TLP.

use super::checks::*;
use super::{Check, Rule};
use crate::format::Family;
use Check::{FirstByte, Header, MessageTc, Parser, Prefixes, Received, Size, Tolerated};

const MEMORY: Family = Family::Memory;
const IO: Family = Family::Io;
const ATOMIC: Family = Family::Atomic;
const CONFIG: Family = Family::Config;
const MESSAGE: Family = Family::Message;

/// Makes of one list the IDs and, in the same order, the rows.
macro_rules! rules {
    ($( $(#[$doc:meta])* $id:ident: $section:literal, $text:literal, $check:expr; )*) => {
        /// The ID of a row of [`RULES`](super::RULES); its number is the row's index.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum RuleId { $( $(#[$doc])* $id, )* }

        pub(super) const TABLE: [Rule; COUNT] =
            [$( Rule { id: RuleId::$id, section: $section, text: $text, check: $check }, )*];
        pub(super) const COUNT: usize = [$( RuleId::$id, )*].len();
    };
}

// The rules of each family stand together.
rules! {
    /// Fmt is no reserved value.
    ReservedFmt: "§2.2.1", "Fmt is 000b to 100b", FirstByte(reserved_fmt);
    /// Fmt and Type are those of a TLP.
    ReservedType: "§2.3", "Fmt and Type are those of a TLP", Parser;
    /// A header stands behind prefixes.
    PrefixedHeader: "§2.2.10", "a header stands behind the prefixes", Parser;
    /// Length is what follows.
    Length: "§2.2.2", "the TLP's bytes are header, Length DWs of data, and digest", Size(excess);
    /// TD says whether a digest follows.
    Digest: "§2.2.3", "TD is set where a digest follows", Size(digest_without_td);
    /// Local prefixes stand before end-to-end ones.
    PrefixOrder: "§2.2.10", "local prefixes stand before end-to-end ones", Prefixes(prefix_order);
    /// Type of a local prefix.
    LocalPrefix: "§2.2.10.1",
        "a local prefix is MR-IOV or vendor-defined, and there are at most 8", Prefixes(local_prefix);
    /// Number of end-to-end prefixes.
    EndToEndCount: "§2.2.10.2", "there are at most 4 end-to-end prefixes", Prefixes(end_to_end_count);
    /// Byte Enables of a memory request.
    ByteEnables: "§2.2.5",
        "Byte Enables: last is 0000b with one DW and else neither is; holes only in one DW or in one aligned QW",
        Header(MEMORY, byte_enables);
    /// Memory requests stay within 4 KiB.
    Crosses4K: "§2.2.7", "a memory request does not cross a 4 KiB boundary", Header(MEMORY, crosses_4k);
    /// Length of a DMWr.
    DeferrableLength: "§2.2.7",
        "a DMWr has at most 32 DW (ECN Deferrable Memory Write)", Header(MEMORY, deferrable_length);
    /// TC of an I/O request.
    IoTc: "§2.2.7", "an I/O request has TC 0", Header(IO, tc_not_0);
    /// Attributes of an I/O request.
    IoAttr: "§2.2.7", "an I/O request has Attr[1:0] 00b", Header(IO, attr_not_0);
    /// Address Type of an I/O request.
    IoAt: "§2.2.7", "an I/O request has AT 00b", Header(IO, at_not_0);
    /// Length of an I/O request.
    IoLength: "§2.2.7", "an I/O request has Length 1", Header(IO, length_not_1);
    /// Last DW Byte Enables of an I/O request.
    IoLastBe: "§2.2.7", "an I/O request has Last DW Byte Enables 0000b", Header(IO, last_be_not_0);
    /// TC of a configuration request.
    ConfigTc: "§2.2.7", "a configuration request has TC 0", Header(CONFIG, tc_not_0);
    /// Attributes of a configuration request.
    ConfigAttr: "§2.2.7", "a configuration request has Attr[1:0] 00b", Header(CONFIG, attr_not_0);
    /// Address Type of a configuration request.
    ConfigAt: "§2.2.7", "a configuration request has AT 00b", Header(CONFIG, at_not_0);
    /// Length of a configuration request.
    ConfigLength: "§2.2.7", "a configuration request has Length 1", Header(CONFIG, length_not_1);
    /// Last DW Byte Enables of a configuration request.
    ConfigLastBe: "§2.2.7",
        "a configuration request has Last DW Byte Enables 0000b", Header(CONFIG, last_be_not_0);
    /// Length of an AtomicOp.
    AtomicLength: "§2.2.7",
        "an AtomicOp has Length 1 or 2 (FetchAdd, Swap), or 2, 4 or 8 (CAS)", Header(ATOMIC, atomic_length);
    /// Address of an AtomicOp.
    AtomicAddress: "§2.2.7",
        "the address of an AtomicOp is a multiple of its operand's size", Header(ATOMIC, atomic_address);
    /// TC of an interrupt message.
    InterruptTc: "§2.2.8.1", "Assert_INTx and Deassert_INTx have TC 0", MessageTc;
    /// TC of a power management message.
    PowerTc: "§2.2.8.2", "power management messages have TC 0", MessageTc;
    /// TC of an error message.
    ErrorTc: "§2.2.8.3", "error messages have TC 0", MessageTc;
    /// TC of an Unlock message.
    UnlockTc: "§2.2.8.4", "Unlock has TC 0", MessageTc;
    /// TC of Set_Slot_Power_Limit.
    SlotPowerTc: "§2.2.8.5", "Set_Slot_Power_Limit has TC 0", MessageTc;
    /// Length of Set_Slot_Power_Limit.
    SlotPowerLength: "§2.2.8.5", "Set_Slot_Power_Limit has Length 1", Header(MESSAGE, slot_power_length);
    /// TC of the PCI-SIG's Vendor_Defined messages.
    PciSigTc: "§2.2.8.6.1", "LN, DRS, FRS and Hierarchy_ID have TC 0", MessageTc;
    /// TC of an LTR message.
    LtrTc: "§2.2.8.8", "LTR has TC 0", MessageTc;
    /// TC of an OBFF message.
    ObffTc: "§2.2.8.9", "OBFF has TC 0", MessageTc;
    /// TC of a PTM message.
    PtmTc: "§2.2.8.10", "PTM messages have TC 0", MessageTc;
    /// Data within Max_Payload_Size.
    MaxPayloadSize: "§2.2.2", "the data is not longer than Max_Payload_Size", Received(beyond_mps);
    /// TC mapped to a virtual channel.
    TcMapped: "§2.5.3", "the TC is mapped to an enabled virtual channel", Received(tc_not_mapped);
    /// Local prefixes only where the receiver takes them.
    LocalSupported: "§2.2.10.1", "the receiver takes local prefixes", Received(local_not_taken);
    /// No more end-to-end prefixes than the receiver takes.
    EndToEndSupported: "§2.2.10.2",
        "the receiver takes so many end-to-end prefixes", Received(end_to_end_not_taken);
    /// Four DW of header from 4 GiB on only.
    AddressFormat: "§2.2.4.1",
        "a memory request below 4 GiB has three DW of header", Tolerated(long_for_low_address);
    /// Address Type is no reserved value.
    ReservedAt: "§10.2.1", "AT is 00b, 01b or 10b", Tolerated(reserved_at);
    /// Address Type of a translation request, in reads only.
    TranslationRequest: "§10.2.1", "AT is 01b in an MRd only", Tolerated(translation_of_no_read);
    /// TC of a locked read.
    LockedTc: "§6.5.2", "a locked read has TC 0", Tolerated(locked_tc);
    /// TH is clear where there are no hints.
    ReservedTh: "§2.2.7.1", "TH is clear but in memory requests and AtomicOps", Tolerated(reserved_th);
    /// LN is clear where there is no notification.
    ReservedLn: "§6.21", "LN is clear but in MRd, MWr, Cpl and CplD", Tolerated(reserved_ln);
    /// Extended TPH prefixes, with TH only.
    ExtendedTph: "§2.2.7.1",
        "an Extended TPH prefix stands before a request with TH", Tolerated(extended_tph);
    /// PASID prefixes, before what may have one only.
    Pasid: "§6.20",
        "PASID stands before memory requests, AtomicOps, Invalidate_Request, Page_Request and PRG_Response",
        Tolerated(pasid);
    /// Number of PASID prefixes.
    PasidOnce: "§6.20", "there is at most one PASID prefix", Tolerated(pasid_once);
    /// Type of an end-to-end prefix.
    ReservedEndToEnd: "§2.2.10.2",
        "an end-to-end prefix is Extended TPH, PASID or vendor-defined; whom it is addressed to answers UR to others",
        Tolerated(reserved_end_to_end);
    /// Completion Status is no reserved value.
    ReservedStatus: "§2.2.9.1",
        "Completion Status is 000b, 001b, 010b or 100b; others count as 001b, Unsupported Request",
        Tolerated(reserved_status);
    /// Completions with data are successful.
    CompletionData: "§2.2.9.1",
        "a completion with data has Completion Status 000b", Tolerated(completion_data);
    /// Byte Count covers the data.
    CompletionByteCount: "§2.3.1.1",
        "a completion has no more data than its Byte Count; who asked answers for the rest",
        Tolerated(completion_byte_count);
    /// CplLk is no success.
    LockedCompletion: "§2.2.1",
        "a CplLk has another Completion Status than 000b", Tolerated(locked_completion);
    /// Routing is no reserved value.
    ReservedRouting: "§2.2.8",
        "routing is 000b to 101b; others end at the receiver", Tolerated(reserved_routing);
    /// Message Code is defined.
    MessageCode: "§2.3.1",
        "the Message Code is defined; the receiver counts others as Unsupported Request", Tolerated(message_code);
    /// Routing of a message is one of its code's.
    MessageRouting: "§2.2.8", "a message is routed as its code allows", Tolerated(message_routing);
    /// Data of a message are those of its code.
    MessageData: "§2.2.8", "a message has the data of its code", Tolerated(message_data);
}
