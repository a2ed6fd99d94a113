// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows of the table of rules. The functions that check TLPs are in `checks`.
//!
//! A row holds in this order: name, section, and the side that must follow the rule; the field, the unit of its
//! values, and the legal values; the rule as a sentence; an example that breaks it; the check.

use super::checks::*;
use super::{Check, Rule, Side, Unit};
use crate::format::Family;
use Check::{Component, FirstByte, Header, MessageTc, Parser, Prefixes, Received, Size, Tolerated, Trace};
use Side::{Receiver, Sender, Switch};
use Unit::{Binary, Bytes, Count, Dw, DwCount, Function, Hex, Transaction};

const MEMORY: Family = Family::Memory;
const IO: Family = Family::Io;
const ATOMIC: Family = Family::Atomic;
const CONFIG: Family = Family::Config;
const MESSAGE: Family = Family::Message;

/// Generates the IDs and, in the same order, the rows from one list.
macro_rules! rules {
    ($( $id:ident: $name:literal, $section:literal, $side:expr, $field:literal in $unit:expr, $legal:literal,
        $text:literal, $example:literal, $check:expr; )*) => {
        /// The ID of a row of [`RULES`](super::RULES); its number is the row's index.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum RuleId { $( #[doc = $text] $id, )* }

        pub(super) const TABLE: [Rule; COUNT] = [$( Rule {
            id: RuleId::$id,
            name: $name,
            section: $section,
            side: $side,
            field: $field,
            unit: $unit,
            legal: $legal,
            text: $text,
            example: $example,
            check: $check,
        }, )*];
        pub(super) const COUNT: usize = [$( RuleId::$id, )*].len();
    };
}

// The rules of each family are adjacent.
rules! {
    ReservedFmt: "reserved-fmt", "§2.2.1", Sender,
        "Fmt" in Binary(3), "000b to 100b",
        "Fmt is 000b to 100b.",
        "e0000001 0100070f 00001000",
        FirstByte(reserved_fmt);
    ReservedType: "reserved-type", "§2.3", Sender,
        "Fmt and Type" in Hex, "a value of Table 2-3",
        "Fmt and Type are those of a defined TLP.",
        "1b000001 0100070f 00001000",
        Parser;
    PrefixedHeader: "prefixed-header", "§2.2.10", Sender,
        "size of the TLP" in Bytes, "a header after the prefixes",
        "A header follows the prefixes.",
        "91000001",
        Parser;
    Length: "length", "§2.2.2", Sender,
        "size of the TLP" in Bytes, "header, Length DWs of data and, if TD is set, a digest",
        "A TLP consists of its header, Length DWs of data and, if TD is set, a digest.",
        "00000001 0100070f 00001000 00000000 00000000",
        Size(excess);
    Digest: "digest", "§2.2.3", Sender,
        "size of the TLP" in Bytes, "TD set if and only if a digest follows",
        "TD is set if and only if a digest follows.",
        "40000001 0100070f 00001000 00000000 00000000",
        Size(digest_without_td);
    PrefixCount: "prefix-count", "§2.2.10", Sender,
        "number of prefixes" in Count, "at most 8",
        "A TLP has at most 8 prefixes. This is a limit of riser; the specification limits only end-to-end prefixes.",
        "8e000000 8e000000 8e000000 8e000000 8e000000 8e000000 8e000000 8e000000 8e000000 00000001 0100070f 00001000",
        Parser;
    PrefixOrder: "prefix-order", "§2.2.10", Sender,
        "prefix" in Dw, "local prefixes before end-to-end prefixes",
        "Local prefixes precede end-to-end prefixes.",
        "91000001 8e000001 00000001 0100070f 00001000",
        Prefixes(prefix_order);
    LocalPrefix: "local-prefix", "§2.2.10.1", Sender,
        "prefix" in Dw, "an MR-IOV or vendor-defined local prefix",
        "A local prefix is MR-IOV or vendor-defined.",
        "81000000 00000001 0100070f 00001000",
        Prefixes(local_prefix);
    EndToEndCount: "end-to-end-count", "§2.2.10.2", Sender,
        "number of end-to-end prefixes" in Count, "0 to 4",
        "A TLP has at most 4 end-to-end prefixes.",
        "9e000000 9e000000 9f000000 9f000000 9e000000 00000001 0100070f 00001000",
        Prefixes(end_to_end_count);
    ByteEnables: "byte-enables", "§2.2.5", Sender,
        "Last and First DW BE" in Binary(8), "Last BE 0000b only if Length is 1; First BE not 0000b if longer; no gaps except in one DW or one aligned QW",
        "Last DW BE is 0000b if and only if Length is 1. First DW BE is not 0000b if Length is more than 1. Gaps are legal only in one DW, or in two that form an aligned QW. The rule does not apply to a read with TH, whose byte enable fields hold the Steering Tag.",
        "00000001 010007ff 00001000",
        Header(MEMORY, byte_enables);
    Crosses4K: "crosses-4k", "§2.2.7", Sender,
        "Address" in Hex, "a request within one naturally aligned 4 KiB block",
        "A memory request does not cross a 4 KiB boundary.",
        "00000002 010007ff 00001ffc",
        Header(MEMORY, crosses_4k);
    DeferrableLength: "deferrable-length", "§2.2.7", Sender,
        "Length" in DwCount, "1 to 32 DW",
        "A DMWr has at most 32 DW (ECN Deferrable Memory Write).",
        "5b000021 000000ff 00000000",
        Header(MEMORY, deferrable_length);
    IoTc: "io-tc", "§2.2.7", Sender,
        "TC" in Count, "0",
        "An I/O request has TC 0.",
        "02200001 0000010f 0000cfc0",
        Header(IO, tc_not_0);
    IoAttr: "io-attr", "§2.2.7", Sender,
        "Attr[1:0]" in Binary(2), "00b",
        "An I/O request has Attr[1:0] 00b.",
        "42001001 0000010f 0000cfc0 00000000",
        Header(IO, attr_not_0);
    IoAt: "io-at", "§2.2.7", Sender,
        "AT" in Binary(2), "00b",
        "An I/O request has AT 00b.",
        "02000401 0000010f 0000cfc0",
        Header(IO, at_not_0);
    IoLength: "io-length", "§2.2.7", Sender,
        "Length" in DwCount, "1 DW",
        "An I/O request has Length 1.",
        "02000000 0000010f 0000cfc0",
        Header(IO, length_not_1);
    IoLastBe: "io-last-be", "§2.2.7", Sender,
        "Last DW BE" in Binary(4), "0000b",
        "An I/O request has Last DW BE 0000b.",
        "02000001 0000011f 0000cfc0",
        Header(IO, last_be_not_0);
    ConfigTc: "config-tc", "§2.2.7", Sender,
        "TC" in Count, "0",
        "A configuration request has TC 0.",
        "04100001 0000010f 01000000",
        Header(CONFIG, tc_not_0);
    ConfigAttr: "config-attr", "§2.2.7", Sender,
        "Attr[1:0]" in Binary(2), "00b",
        "A configuration request has Attr[1:0] 00b.",
        "04002001 0000010f 01000000",
        Header(CONFIG, attr_not_0);
    ConfigAt: "config-at", "§2.2.7", Sender,
        "AT" in Binary(2), "00b",
        "A configuration request has AT 00b.",
        "05000801 0000010f 01000000",
        Header(CONFIG, at_not_0);
    ConfigLength: "config-length", "§2.2.7", Sender,
        "Length" in DwCount, "1 DW",
        "A configuration request has Length 1.",
        "44000002 0000010f 01000000 00000000 00000000",
        Header(CONFIG, length_not_1);
    ConfigLastBe: "config-last-be", "§2.2.7", Sender,
        "Last DW BE" in Binary(4), "0000b",
        "A configuration request has Last DW BE 0000b.",
        "04000001 000001ff 01000000",
        Header(CONFIG, last_be_not_0);
    AtomicLength: "atomic-length", "§2.2.7", Sender,
        "Length" in DwCount, "1 or 2 DW (FetchAdd, Swap); 2, 4 or 8 DW (CAS)",
        "An AtomicOp has Length 1 or 2 (FetchAdd, Swap), or 2, 4 or 8 (CAS).",
        "4c000004 01000700 00001000 00000000 00000000 00000000 00000000",
        Header(ATOMIC, atomic_length);
    AtomicAddress: "atomic-address", "§2.2.7", Sender,
        "Address" in Hex, "a multiple of the operand's size",
        "The address of an AtomicOp is a multiple of its operand's size.",
        "4d000002 01000700 00001004 00000000 00000000",
        Header(ATOMIC, atomic_address);
    InterruptTc: "interrupt-tc", "§2.2.8.1", Sender,
        "TC" in Count, "0",
        "Assert_INTx and Deassert_INTx have TC 0.",
        "34300000 01000027 00000000 00000000",
        MessageTc;
    PowerTc: "power-tc", "§2.2.8.2", Sender,
        "TC" in Count, "0",
        "Power management messages have TC 0.",
        "30100000 01000018 00000000 00000000",
        MessageTc;
    ErrorTc: "error-tc", "§2.2.8.3", Sender,
        "TC" in Count, "0",
        "Error messages have TC 0.",
        "30700000 01000033 00000000 00000000",
        MessageTc;
    UnlockTc: "unlock-tc", "§2.2.8.4", Sender,
        "TC" in Count, "0",
        "Unlock has TC 0.",
        "33100000 01000000 00000000 00000000",
        MessageTc;
    SlotPowerTc: "slot-power-tc", "§2.2.8.5", Sender,
        "TC" in Count, "0",
        "Set_Slot_Power_Limit has TC 0.",
        "74100001 01000050 00000000 00000000 00000000",
        MessageTc;
    SlotPowerLength: "slot-power-length", "§2.2.8.5", Sender,
        "Length" in DwCount, "1 DW",
        "Set_Slot_Power_Limit has Length 1.",
        "34000000 01000050 00000000 00000000",
        Header(MESSAGE, slot_power_length);
    PciSigTc: "pci-sig-tc", "§2.2.8.6.1", Sender,
        "TC" in Count, "0",
        "LN, DRS, FRS and Hierarchy_ID messages have TC 0.",
        "34100000 0100007f 00000001 08000000",
        MessageTc;
    LtrTc: "ltr-tc", "§2.2.8.8", Sender,
        "TC" in Count, "0",
        "LTR has TC 0.",
        "34100000 01000010 00000000 00000000",
        MessageTc;
    ObffTc: "obff-tc", "§2.2.8.9", Sender,
        "TC" in Count, "0",
        "OBFF has TC 0.",
        "34100000 01000012 00000000 00000000",
        MessageTc;
    PtmTc: "ptm-tc", "§2.2.8.10", Sender,
        "TC" in Count, "0",
        "PTM messages have TC 0.",
        "74100001 01000053 00000000 00000000 00000000",
        MessageTc;
    MaxPayloadSize: "max-payload-size", "§2.2.2", Sender,
        "data" in Bytes, "at most Max_Payload_Size",
        "The data of a TLP is not longer than Max_Payload_Size.",
        "# mps=128\n40000021 000000ff 00000000",
        Received(beyond_mps);
    TcMapped: "tc-mapped", "§2.5.3", Sender,
        "TC" in Count, "a TC that is mapped to an enabled virtual channel",
        "The TC is mapped to an enabled virtual channel.",
        "00300001 0100070f 00001000",
        Received(tc_not_mapped);
    LocalSupported: "local-supported", "§2.2.10.1", Sender,
        "number of local prefixes" in Count, "0 if the receiver does not support local prefixes",
        "Local prefixes are sent only to a receiver that supports them.",
        "80000000 00000001 0100070f 00001000",
        Received(local_not_taken);
    EndToEndSupported: "end-to-end-supported", "§2.2.10.2", Sender,
        "number of end-to-end prefixes" in Count, "at most Max End-End TLP Prefixes of the receiver",
        "A TLP has at most as many end-to-end prefixes as the receiver supports.",
        "9e000000 9e000000 9e000000 9e000000 00000001 0100070f 00001000",
        Received(end_to_end_not_taken);
    AddressFormat: "address-format", "§2.2.4.1", Sender,
        "Address" in Hex, "a 3-DW header below 4 GiB",
        "A memory request below 4 GiB has a 3-DW header.",
        "20000001 0100070f 00000000 00001000",
        Tolerated(long_for_low_address);
    ReservedAt: "reserved-at", "§10.2.1", Sender,
        "AT" in Binary(2), "00b, 01b or 10b",
        "AT is 00b, 01b or 10b.",
        "00000c01 0100070f 00001000",
        Tolerated(reserved_at);
    TranslationRequest: "translation-request", "§10.2.1", Sender,
        "AT" in Binary(2), "00b or 10b; 01b only in an MRd",
        "AT is 01b only in an MRd.",
        "40000401 0100070f 00001000 00000000",
        Tolerated(translation_of_no_read);
    LockedTc: "locked-tc", "§6.5.2", Sender,
        "TC" in Count, "0",
        "A locked read has TC 0.",
        "01100001 0100070f 00001000",
        Tolerated(locked_tc);
    ReservedTh: "reserved-th", "§2.2.7.1", Sender,
        "TH" in Count, "0 except in memory requests and AtomicOps",
        "TH is clear except in memory requests and AtomicOps.",
        "02010001 0000010f 0000cfc0",
        Tolerated(reserved_th);
    ReservedLn: "reserved-ln", "§6.21", Sender,
        "LN" in Count, "0 except in MRd, MWr, Cpl and CplD",
        "LN is clear except in MRd, MWr, Cpl and CplD.",
        "01020001 0100070f 00001000",
        Tolerated(reserved_ln);
    ReservedIdo: "reserved-ido", "§2.2.7", Sender,
        "Attr[2]" in Count, "0 in I/O and configuration requests",
        "Attr[2] (ID-Based Ordering) is clear in I/O and configuration requests. A receiver ignores it there.",
        "04040001 0000010f 01000000",
        Tolerated(reserved_ido);
    ExtendedTph: "extended-tph", "§2.2.7.1", Sender,
        "prefix" in Dw, "a request with TH after an Extended TPH prefix",
        "An Extended TPH prefix precedes only a request with TH.",
        "90120000 00000001 0100070f 00001000",
        Tolerated(extended_tph);
    Pasid: "pasid", "§6.20", Sender,
        "PASID" in Hex, "no PASID except on untranslated memory requests and AtomicOps, translation requests, Invalidate_Request, Page_Request and PRG_Response",
        "A PASID prefix precedes only untranslated memory requests and AtomicOps, translation requests, Invalidate_Request, Page_Request and PRG_Response.",
        "91012345 0a000000 02000004 01000700",
        Tolerated(pasid);
    PasidOnce: "pasid-once", "§6.20", Sender,
        "number of PASID prefixes" in Count, "at most 1",
        "A TLP has at most one PASID prefix.",
        "91000001 91000002 00000001 0100070f 00001000",
        Tolerated(pasid_once);
    ReservedEndToEnd: "reserved-end-to-end", "§2.2.10.2", Sender,
        "prefix" in Dw, "Extended TPH, PASID or vendor-defined",
        "An end-to-end prefix is Extended TPH, PASID or vendor-defined. A completer answers a request with any other prefix with UR.",
        "92000000 00000001 0100070f 00001000",
        Tolerated(reserved_end_to_end);
    ReservedStatus: "reserved-status", "§2.2.9.1", Sender,
        "Completion Status" in Binary(3), "000b, 001b, 010b or 100b",
        "Completion Status is 000b, 001b, 010b or 100b. A requester treats another value as 001b (UR).",
        "0a000000 0200e004 01000700",
        Tolerated(reserved_status);
    CompletionData: "completion-data", "§2.2.9.1", Sender,
        "Completion Status" in Binary(3), "000b in a completion with data",
        "A completion with data has Completion Status 000b.",
        "4a000001 02002004 01000700 01020304",
        Tolerated(completion_data);
    CompletionByteCount: "completion-byte-count", "§2.3.1.1", Sender,
        "data" in Bytes, "at most Byte Count",
        "A completion has no more data than its Byte Count.",
        "4a000002 02000004 01000700 01020304 05060708",
        Tolerated(completion_byte_count);
    LockedCompletion: "locked-completion", "§2.2.1", Sender,
        "Completion Status" in Binary(3), "not 000b",
        "A CplLk reports an error: its Completion Status is not 000b.",
        "0b000000 02000004 01000700",
        Tolerated(locked_completion);
    ReservedRouting: "reserved-routing", "§2.2.8", Sender,
        "routing" in Binary(3), "000b to 101b",
        "The routing of a message is 000b to 101b. A message with another value ends at the receiver.",
        "36000000 0100007f 00000000 00000000",
        Tolerated(reserved_routing);
    MessageCode: "message-code", "§2.3.1", Sender,
        "Message Code" in Hex, "a defined code",
        "The Message Code is defined. A receiver treats a message with another code as an Unsupported Request.",
        "30000000 01000032 00000000 00000000",
        Tolerated(message_code);
    MessageRouting: "message-routing", "§2.2.8", Sender,
        "routing" in Binary(3), "a routing that the Message Code allows",
        "A message is routed as its Message Code allows.",
        "30000000 01000020 00000000 00000000",
        Tolerated(message_routing);
    MessageData: "message-data", "§2.2.8", Sender,
        "Length" in DwCount, "the length that the Message Code defines",
        "A message has the data that its Message Code defines.",
        "74000001 01000020 00000000 00000000 00000000",
        Tolerated(message_data);
    MessageAttr: "message-attr", "§2.2.8", Sender,
        "Attr[1:0]" in Binary(2), "00b except in messages of vendors, of ATS, and Ignored Messages",
        "Attr[1:0] (Relaxed Ordering, No Snoop) is 00b in messages of interrupts, power management, errors, Unlock, slot power, LTR, OBFF and PTM. A receiver ignores it there.",
        "34001000 01000010 00000000 88468846",
        Tolerated(message_attr);
    TagInUse: "tag-in-use", "§2.2.6.2", Sender,
        "Tag" in Hex, "a tag that no outstanding request of the requester has",
        "A request has a tag that no outstanding request of its requester has.",
        "up 00000001 0100040f 00002000\nup 00000001 0100040f 00003000",
        Trace;
    TagRange: "tag-range", "§2.2.6.2", Sender,
        "Tag" in Hex, "0 to 31, 0 to 255 with Extended Tag Field Enable, 256 to 1023 for 10-bit tags",
        "A tag is 0 to 31, 0 to 255 with Extended Tag Field Enable, and also 256 to 1023 with 10-Bit Tag Requester Enable.",
        "# tags=32\nup 00000001 0100400f 00002000",
        Trace;
    MaxReadRequestSize: "max-read-request-size", "§2.2.7", Sender,
        "Length" in DwCount, "at most Max_Read_Request_Size",
        "A read asks for at most Max_Read_Request_Size bytes.",
        "# mrrs=512\nup 00000100 010004ff 00002000",
        Trace;
    UnexpectedCompletion: "unexpected-completion", "§2.3.2", Sender,
        "Requester ID and Tag" in Transaction, "those of an outstanding request",
        "A completion has the Requester ID and the tag of an outstanding request.",
        "up 00000001 0100050f 00002000\ndown 4a000001 00000004 01000500\ndown 4a000001 00000004 01000500",
        Trace;
    CompletionTimeout: "completion-timeout", "§2.8", Sender,
        "completions received" in Count, "completions for all requested bytes",
        "Every non-posted request is completed.",
        "0us up 00000001 0100040f 00002000\n60000us up 00000001 0100050f 00003000",
        Trace;
    LowerAddress: "lower-address", "§2.2.9.1", Sender,
        "Lower Address" in Hex, "bits 6:0 of the address of the first byte in the completion",
        "Lower Address of a completion of a memory read is bits 6:0 of the address of its first byte. It is reserved in completions of AtomicOps, and 0 in others.",
        "up 00000001 0100050f 00001004\ndown 4a000001 00000004 01000500",
        Trace;
    ByteCount: "byte-count", "§2.2.9.1", Sender,
        "Byte Count" in Bytes, "the number of bytes that remain, with those of this completion",
        "Byte Count of a completion of a memory read is the number of bytes that remain, with those of the completion itself. It is the size of the operand for an AtomicOp, and 4 for other requests.",
        "up 00000020 010004ff 00002000\ndown 4a000010 00000080 01000400\ndown 4a000010 00000080 01000440",
        Trace;
    CompletionBoundary: "completion-boundary", "§2.3.1.1", Sender,
        "Address after the last byte" in Hex, "a multiple of the Read Completion Boundary",
        "A completion that does not end its request ends at a multiple of the Read Completion Boundary.",
        "up 00000010 010008ff 00005000\ndown 4a000008 00000040 01000800\ndown 4a000008 00000020 01000820",
        Trace;
    CompletionLength: "completion-length", "§2.3.1.1", Sender,
        "Length" in DwCount, "no more than the request asks for",
        "The completions of a request have no more data than the request asks for.",
        "up 00000001 0100040f 00002000\ndown 4a000002 00000004 01000400",
        Trace;
    CompletionType: "completion-type", "§2.2.9", Sender,
        "Fmt" in Binary(3), "with data if and only if the request reads",
        "A successful completion has data if and only if its request reads (MRd, IORd, CfgRd, AtomicOp).",
        "up 00000001 0100040f 00002000\ndown 0a000000 00000004 01000400",
        Trace;
    CompletionTc: "completion-tc", "§2.2.9", Sender,
        "TC" in Count, "the TC of the request",
        "A completion has the TC of its request.",
        "up 00000001 0100040f 00002000\ndown 4a300001 00000004 01000400",
        Trace;
    CompletionAttr: "completion-attr", "§2.2.9", Sender,
        "Attr[1:0]" in Binary(2), "Attr[1:0] of the request",
        "A completion copies Relaxed Ordering and No Snoop from its request.",
        "up 00000001 0100040f 00002000\ndown 4a002001 00000004 01000400",
        Trace;
    CompletionLocked: "completion-locked", "§2.2.9", Sender,
        "Type" in Hex, "CplLk or CplDLk if and only if the request is MRdLk",
        "A completion is CplLk or CplDLk if and only if its request is MRdLk.",
        "up 00000001 0100040f 00002000\ndown 4b000001 00000004 01000400",
        Trace;
    CompletionRetry: "completion-retry", "§2.3.2", Sender,
        "Completion Status" in Binary(3), "010b only for a configuration request or a DMWr",
        "Completion Status 010b (Configuration Request Retry Status; Request Retry Status in 6.0) answers only configuration requests and DMWr.",
        "up 00000001 0100040f 00002000\ndown 0a000000 00004004 01000400",
        Trace;
    PostedOrder: "posted-order", "§2.4.1", Switch,
        "position among posted requests" in Count, "the order on the ingress link",
        "A posted request without Relaxed Ordering and ID-Based Ordering does not pass another posted request.",
        "Two writes enter a switch in one order and leave it in the other.",
        Trace;
    Credits: "credits", "§2.6.1.2", Sender,
        "credits" in Count, "at most the credits that the receiver granted",
        "A TLP is sent only if its receiver has granted enough credits of its kind.",
        "A write of 64 bytes needs one posted header credit and four posted data credits. The receiver has granted three data credits.",
        Trace;
    UnclaimedAddress: "unclaimed-address", "§2.3.1", Sender,
        "Address" in Hex, "an address in an enabled BAR, a bridge window or memory",
        "The address of a request is in an enabled BAR of a function in D0, in a bridge window or in memory. A completer answers a request to any other address with UR, or drops it if it is posted.",
        "A driver writes to a BAR while Memory Space Enable is clear.",
        Component;
    UnclaimedId: "unclaimed-id", "§2.3.1", Sender,
        "function" in Function, "the ID of a function that exists",
        "A TLP that is routed by ID names a function that exists. A configuration request for any other function is answered with UR.",
        "Software reads the Vendor ID of a function that the device does not have.",
        Component;
    RequestType: "request-type", "§2.3.1", Sender,
        "Fmt and Type" in Hex, "a request that the receiver supports",
        "A completer supports the type and the size of a request. It answers any other request with UR.",
        "A device that completes no AtomicOps gets a FetchAdd.",
        Component;
    MessageSupported: "message-supported", "§2.3.1", Sender,
        "Message Code" in Hex, "a Message Code that the receiver supports",
        "A message has a Message Code that its receiver supports. The receiver treats any other message as an Unsupported Request.",
        "A device that takes no vendor-defined messages gets a Vendor_Defined Type 0.",
        Component;
    UnsupportedRequest: "unsupported-request", "§2.3.1", Receiver,
        "Completion Status" in Binary(3), "000b (Successful Completion)",
        "A completer carries out a request. It answers UR (001b) if it does not support the request.",
        "A device answers a read of a register that it does not have with UR.",
        Component;
    CompleterAbort: "completer-abort", "§2.3.1", Receiver,
        "Completion Status" in Binary(3), "000b (Successful Completion)",
        "A completer carries out a request. It answers CA (100b) if the request violates its programming model or if it has failed.",
        "A device answers a read of a register that may only be written with CA.",
        Component;
    AnswerLength: "answer-length", "§2.3.1", Receiver,
        "data of the answer" in Bytes, "the number of bytes that the request asks for",
        "A device answers a request with as many bytes as it asks for. Otherwise its endpoint answers CA.",
        "A device answers a read of 8 bytes with 4 bytes.",
        Component;
    RequestLimit: "request-limit", "§2.3.1", Receiver,
        "requests under way in the receiver" in Count, "at most the receiver's limit",
        "A receiver of riser with no room for a request answers CA, or drops the request if it is posted. The specification has no such limit.",
        "A device takes 65,536 reads without answering one.",
        Component;
    Poisoned: "poisoned", "§2.7.2", Receiver,
        "EP" in Count, "0",
        "A receiver does not use the data of a TLP with EP set. It is legal to send such a TLP.",
        "A bridge forwards a write whose data it has received with an error.",
        Component;
    Ecrc: "ecrc", "§2.7.1", Sender,
        "ECRC" in Dw, "the CRC of the TLP",
        "The digest of a TLP is its ECRC. A receiver that checks ECRC reports an ECRC Error; a receiver of riser also drops the TLP.",
        "up 40008001 0100000f 00002000 11223344 00000000",
        Trace;
    LateCompletion: "late-completion", "§2.8", Sender,
        "Requester ID and Tag" in Transaction, "a completion before its request times out",
        "A completion arrives before the Completion Timeout of its request.",
        "0us up 00000001 0100040f 00002000\n60000us down 4a000001 00000004 01000400",
        Trace;
    BusMasterEnable: "bus-master-enable", "§7.5.1.1.3", Sender,
        "Bus Master Enable" in Count, "1",
        "A function sends memory and I/O requests, and a bridge forwards them upstream, only with Bus Master Enable.",
        "A driver starts a DMA read before it sets Bus Master Enable of the switch port above the device.",
        Component;
    PowerState: "power-state", "§5.3.1", Sender,
        "power state (D0 to D3)" in Count, "0",
        "A function sends memory and I/O requests only in D0.",
        "A device writes to memory after its driver has put it into D3.",
        Component;
    AtomicRequesterEnable: "atomic-requester-enable", "§7.5.3.16", Sender,
        "AtomicOp Requester Enable" in Count, "1",
        "A function sends AtomicOps only with AtomicOp Requester Enable.",
        "A device sends a FetchAdd before its driver has enabled AtomicOps.",
        Component;
    EndpointRequest: "endpoint-request", "§1.3.2.2", Sender,
        "Fmt and Type" in Hex, "MRd, MWr, an AtomicOp or a message",
        "An endpoint sends no configuration requests, I/O requests or locked reads. riser refuses its DMWr too.",
        "An FPGA design sends a CfgRd on its requester request interface.",
        Component;
    AcsSourceValidation: "acs-source-validation", "§6.12.1.1", Sender,
        "Requester ID" in Function, "a bus number from Secondary to Subordinate Bus Number",
        "With ACS Source Validation, the bus number of a Requester ID from below is one of the port's buses.",
        "A device sends a PTM Request before it has captured its bus number.",
        Component;
    AcsTranslationBlocking: "acs-translation-blocking", "§6.12.1.1", Sender,
        "AT" in Binary(2), "00b",
        "With ACS Translation Blocking, a request from below has AT 00b.",
        "A device sends a translated request through a port with ACS Translation Blocking.",
        Component;
    AcsEgressControl: "acs-egress-control", "§6.12.1.1", Sender,
        "Address" in Hex, "an address for a port that P2P Egress Control allows",
        "With ACS P2P Egress Control, a request to another port goes only to a port that the Egress Control Vector allows.",
        "A device writes to a peer whose bit in the Egress Control Vector is set.",
        Component;
    AtomicEgressBlocking: "atomic-egress-blocking", "§6.15", Switch,
        "Fmt and Type" in Hex, "no AtomicOp",
        "A port with AtomicOp Egress Blocking sends no AtomicOps.",
        "A host sends a FetchAdd through a port with AtomicOp Egress Blocking.",
        Component;
    PrefixEgressBlocking: "prefix-egress-blocking", "§2.2.10.2", Switch,
        "number of end-to-end prefixes" in Count, "0",
        "A port with End-End TLP Prefix Blocking sends no TLP with an end-to-end prefix.",
        "A device sends a read with a PASID through a port with End-End TLP Prefix Blocking.",
        Component;
    PoisonedEgressBlocking: "poisoned-egress-blocking", "§2.7.2.2", Switch,
        "EP" in Count, "0",
        "A port with Poisoned TLP Egress Blocking sends no poisoned TLP.",
        "A device sends a poisoned write through a port with Poisoned TLP Egress Blocking.",
        Component;
    LinkUp: "link-up", "§2.9.1", Switch,
        "links that are up" in Count, "1",
        "The link of the egress port is up. A port answers requests to a link that is down with UR.",
        "A host reads a device that was pulled from its slot.",
        Component;
    Containment: "containment", "§2.9.3", Switch,
        "DPC Trigger Status" in Count, "0",
        "Downstream Port Containment of the port has not been triggered. A contained port drops TLPs from below, and answers requests from above.",
        "A host reads a device below a port that containment has taken down after a fatal error.",
        Component;
    IommuMapping: "iommu-mapping", "§10.1.1", Sender,
        "Address" in Hex, "an address that the IOMMU maps for the requester",
        "The IOMMU maps the address of a request for its requester.",
        "A device writes to an address whose mapping its driver has removed.",
        Component;
    CompletionRepeated: "completion-repeated", "§2.3.1.1", Sender,
        "Byte Count" in Bytes, "the Byte Count of bytes that have not arrived yet",
        "The completions of a request return each byte exactly once.",
        "A network between a completer and a requester of NetTLP delivers a completion twice.",
        Component;
    CompletionOrder: "completion-order", "§2.3.1.1", Sender,
        "Byte Count" in Bytes, "the Byte Count of the next byte",
        "The completions of a request arrive in the order of addresses. A NetTLP requester buffers only a limited number of early completions.",
        "A network between a completer and a requester of NetTLP delivers completions in random order.",
        Component;
    Lcrc: "lcrc", "§3.6.3.1", Sender,
        "wrong bits" in Count, "0",
        "The LCRC of a TLP matches its bits. Otherwise the receiver drops the TLP and sends a Nak, and the sender retransmits it.",
        "A bit of a TLP is flipped on the wire.",
        Component;
    SequenceNumber: "sequence-number", "§3.6.3.1", Sender,
        "TLP Sequence Number" in Count, "the next sequence number",
        "TLPs arrive in the order of their sequence numbers. The receiver drops a TLP whose sequence number is too high, and sends a Nak.",
        "The first of two TLPs is lost on the wire.",
        Component;
    ReceiveBuffer: "receive-buffer", "§2.6", Receiver,
        "TLPs in the receive buffer" in Count, "less than its capacity",
        "The receive buffer of a link without flow control has room for a TLP. The receiver drops a TLP that does not fit.",
        "A link of a lab has flow_control off, and its sender is faster than its receiver.",
        Component;
    AcknowledgedSequence: "acknowledged-sequence", "§3.6.2.2", Receiver,
        "AckNak_Seq_Num" in Count, "at most the sequence number of the last TLP sent, modulo 4096",
        "An Ack or Nak names a TLP that was sent. Otherwise its receiver ignores it and reports a Data Link Protocol Error.",
        "An Ack has AckNak_Seq_Num 700, and the last TLP sent has sequence number 12.",
        Component;
    UnusedCredits: "unused-credits", "§2.6.1", Receiver,
        "unused credits after an UpdateFC" in Count, "at most 127 header credits and 2047 data credits without scaling, and 0 if the credits are infinite",
        "An UpdateFC leaves at most half of a field's range as unused credits, and is 0 for infinite credits. Otherwise its receiver ignores it and reports a Flow Control Protocol Error.",
        "An UpdateFC grants 200 header credits, of which none is used yet.",
        Component;
    BufferError: "buffer-error", "§6.2.9", Receiver,
        "errors in the receive buffer" in Count, "0",
        "The buffer of a receiver keeps a frame without an error. Otherwise the receiver loses the frame and reports an Uncorrectable Internal Error.",
        "Two bits of a receive buffer flip, and ECC cannot correct them.",
        Component;
}
