// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions and their requests: rows of TLPs with the rules that they break. Layouts follow `PCIe 5.0 §2.2`, and
//! values follow §2.2.9 and §2.3.1.1.

use super::rules;

type Row = (&'static str, &'static str, &'static [(u64, &'static str)]);

fn check(rows: &[Row]) {
    for (what, trace, due) in rows {
        assert_eq!(rules(trace), *due, "{what}");
    }
}

#[test]
fn accepts_legal_completions() {
    check(&[
        ("one DW", "up 00000001 0100040f 00002000\ndown 4a000001 00000004 01000400", &[]),
        (
            "zero-length read: Byte Count 1, Lower Address bits 1:0 clear",
            "up 00000001 01000400 00002004\ndown 4a000001 00000001 01000404",
            &[],
        ),
        (
            "4 KiB, Length 0, in pieces of 2 KiB",
            "up 00000000 010004ff 00002000\ndown 4a000200 00000000 01000400\ndown 4a000200 00000800 01000400",
            &[],
        ),
        (
            "bytes 3 to 9: Byte Count 7, then 4 from the next DW on would be no boundary",
            "up 00000003 01000438 00002000\ndown 4a000003 00000007 01000403",
            &[],
        ),
        (
            "gaps in one DW: Byte Count from the first to the last enabled byte",
            "up 00000001 0100040a 00002000\ndown 4a000001 00000003 01000401",
            &[],
        ),
        (
            "127 bytes from 0x203e, in pieces of 2, 64 and 61",
            "up 00000021 0100041c 0000203c\ndown 4a000001 0000007f 0100043e\ndown 4a000010 0000007d 01000440\n\
             down 4a000010 0000003d 01000400",
            &[],
        ),
        (
            "two tags, answered out of order and interleaved",
            "up 00000020 010004ff 00002000\nup 00000020 010005ff 00003000\ndown 4a000010 00000080 01000500\n\
             down 4a000010 00000080 01000400\ndown 4a000010 00000040 01000440\ndown 4a000010 00000040 01000540",
            &[],
        ),
        (
            "a tag that is used again after its completion",
            "up 00000001 0100040f 00002000\ndown 4a000001 00000004 01000400\nup 00000001 0100040f 00003000\n\
             down 4a000001 00000004 01000400",
            &[],
        ),
        (
            "the same tag of two requesters",
            "up 00000001 0100040f 00002000\nup 00000001 0101040f 00002000\ndown 4a000001 00000004 01010400\n\
             down 4a000001 00000004 01000400",
            &[],
        ),
        (
            "10-bit tag 0x304",
            "up 00800001 0100040f 00002000\nup 00880001 0100040f 00003000\ndown 4a880001 00000004 01000400\n\
             down 4a800001 00000004 01000400",
            &[],
        ),
        (
            "UR after the first piece ends the read",
            "up 00000020 010004ff 00002000\ndown 4a000010 00000080 01000400\ndown 0a000000 00002040 01000440\n\
             up 00000001 0100040f 00002000\ndown 4a000001 00000004 01000400",
            &[],
        ),
        (
            "CA at once, and UR of a 64-bit FetchAdd",
            "up 00000020 010004ff 00002000\ndown 0a000000 00008080 01000400\n\
             up 4c000002 01000500 00002000\ndown 0a000000 00002008 01000500",
            &[],
        ),
        (
            "configuration read and write of a host, and CRS",
            "down 04000001 0000040f 01000000\nup 4a000001 01000004 00000400\ndown 44000001 0000050f 01000004 00000000\n\
             up 0a000000 01000004 00000500\ndown 04000001 0000060f 01000000\nup 0a000000 01004004 00000600",
            &[],
        ),
        (
            "I/O read and write",
            "down 02000001 0000040f 0000cfc0\nup 4a000001 01000004 00000400\ndown 42000001 0000050f 0000cfc0 00000000\n\
             up 0a000000 01000004 00000500",
            &[],
        ),
        (
            "FetchAdd of 32 and 64 bits, Swap of 64, CAS of 128: Byte Count is the operand's size",
            "up 4c000001 01000400 00002000\nup 4c000002 01000500 00002000\nup 4d000002 01000600 00002000\n\
             up 4e000008 01000700 00002000\ndown 4a000001 00000004 01000400\ndown 4a000002 00000008 01000500\n\
             down 4a000002 00000008 01000600\ndown 4a000004 00000010 01000700",
            &[],
        ),
        ("poisoned completion", "up 00000001 0100040f 00002000\ndown 4a004001 00000004 01000400", &[]),
        (
            "BCM: Byte Count is that of the first completion alone",
            "up 00000020 010004ff 00002000\ndown 4a000010 00001040 01000400\ndown 4a000010 00000040 01000440",
            &[],
        ),
        (
            "locked read",
            "down 01000001 0000040f 00002000\nup 4b000001 01000004 00000400\ndown 01000001 0000050f 00002000\n\
             up 0b000000 01002004 00000500",
            &[],
        ),
        (
            "TC 3 and both attributes are copied; IDO need not be",
            "up 00343001 0100040f 00002000\ndown 4a303001 00000004 01000400",
            &[],
        ),
        (
            "DMWr: a completion without data, Byte Count 4; CRS defers it",
            "up 5b000001 0100040f 00002000 00000000\ndown 0a000000 00000004 01000400\n\
             up 5b000001 0100050f 00002000 00000000\ndown 0a000000 00004004 01000500",
            &[],
        ),
        (
            "posted requests and messages",
            "up 40000001 0100000f 00002000 00000000\nup 34000000 01000020 00000000 00000000",
            &[],
        ),
        (
            "a device breaks at 128",
            "down 00000040 000004ff 00002040\nup 4a000010 01000100 00000440\nup 4a000020 010000c0 00000400\n\
             up 4a000010 01000040 00000400",
            &[],
        ),
    ]);
}

#[test]
fn finds_wrong_completions() {
    check(&[
        (
            "a device breaks at 64",
            "down 00000020 000004ff 00002000\nup 4a000010 01000080 00000400\nup 4a000010 01000040 00000440",
            &[(2, "completion-boundary")],
        ),
        (
            "a root complex with RCB 128 breaks at 64",
            "# rcb=128\nup 00000020 010004ff 00002000\ndown 4a000010 00000080 01000400\ndown 4a000010 00000040 01000440",
            &[(2, "completion-boundary")],
        ),
        (
            "Byte Count is not counted down",
            "up 00000020 010004ff 00002000\ndown 4a000010 00000080 01000400\ndown 4a000010 00000080 01000440",
            &[(3, "byte-count")],
        ),
        (
            "Byte Count is that of the completion",
            "up 00000020 010004ff 00002000\ndown 4a000010 00000040 01000400\ndown 4a000010 00000040 01000440",
            &[(2, "byte-count")],
        ),
        (
            "a piece is missing",
            "up 00000030 010004ff 00002000\ndown 4a000010 000000c0 01000400\ndown 4a000010 00000040 01000400\n\
             up 00000001 0100040f 00002000\ndown 4a000001 00000004 01000400",
            &[(3, "byte-count")],
        ),
        (
            "Byte Count and Lower Address of a zero-length read",
            "up 00000001 01000400 00002004\ndown 4a000001 00000004 01000400",
            &[(2, "byte-count"), (2, "lower-address")],
        ),
        (
            "Byte Count of all data of an AtomicOp; Lower Address is reserved",
            "up 4e000004 01000400 00002008\ndown 4a000002 00000010 01000408",
            &[(2, "byte-count")],
        ),
        (
            "AtomicOp with too much data",
            "up 4c000001 01000400 00002000\ndown 4a000002 00000008 01000400",
            &[(2, "byte-count"), (2, "completion-length")],
        ),
        (
            "AtomicOp without data",
            "up 4c000001 01000400 00002000\ndown 0a000000 00000004 01000400",
            &[(2, "completion-type")],
        ),
        (
            "configuration read: Lower Address of the register, Byte Count 1",
            "down 04000001 00000402 01000004\nup 4a000001 01000001 00000405",
            &[(2, "byte-count"), (2, "lower-address")],
        ),
        (
            "configuration write with data in its completion",
            "down 44000001 0000040f 01000004 00000000\nup 4a000001 01000004 00000400",
            &[(2, "completion-type")],
        ),
        (
            "I/O read without data",
            "down 02000001 0000040f 0000cfc0\nup 0a000000 01000004 00000400",
            &[(2, "completion-type")],
        ),
        (
            "Byte Count 4 of CA for a read, and of UR for a 64-bit FetchAdd",
            "up 00000020 010004ff 00002000\ndown 0a000000 00008004 01000400\n\
             up 4c000002 01000500 00002000\ndown 0a000000 00002004 01000500",
            &[(2, "byte-count"), (4, "byte-count")],
        ),
        (
            "UR after a piece, with the Byte Count of the whole request",
            "up 00000020 010004ff 00002000\ndown 4a000010 00000080 01000400\ndown 0a000000 00002080 01000440",
            &[(3, "byte-count")],
        ),
        (
            "a digest with a wrong bit, and the right one (§2.7.1)",
            "up 00008004 1b0003ff 2f001000 cbe0911b\nup 00008004 1b0004ff 2f001000 73d09407",
            &[(1, "ecrc")],
        ),
        (
            "UR with data",
            "up 00000001 0100040f 00002000\ndown 4a000001 00002004 01000400",
            &[(2, "completion-data")],
        ),
        (
            "TC and attributes of another request",
            "up 00101001 0100040f 00002000\ndown 4a002001 00000004 01000400",
            &[(2, "completion-tc"), (2, "completion-attr")],
        ),
        (
            "CplD for a locked read, and a CplDLk for a plain one",
            "down 01000001 0000040f 00002000\nup 4a000001 01000004 00000400\ndown 00000001 0000050f 00002000\n\
             up 4b000001 01000004 00000500",
            &[(2, "completion-locked"), (4, "completion-locked")],
        ),
        (
            "CRS for a memory read and for an I/O write",
            "up 00000001 0100040f 00002000\ndown 0a000000 00004004 01000400\ndown 42000001 0000050f 0000cfc0 00000000\n\
             up 0a000000 01004004 00000500",
            &[(2, "completion-retry"), (4, "completion-retry")],
        ),
        (
            "more data than was asked for",
            "up 00000002 010004ff 00002000\ndown 4a000003 00000008 01000400",
            &[(2, "completion-length")],
        ),
        (
            "Lower Address alone is wrong, with data up to the end of the request",
            "up 00000004 0100011e 0001003c\ndown 4a000004 0000000c 0100013c",
            &[(2, "lower-address")],
        ),
        (
            "a reserved status ends the request",
            "up 00000001 0100040f 00002000\ndown 0a000000 00006004 01000400\ndown 4a000001 00000004 01000400",
            &[(2, "reserved-status"), (3, "unexpected-completion")],
        ),
        (
            "a completion after UR",
            "up 00000020 010004ff 00002000\ndown 0a000000 00002080 01000400\ndown 4a000010 00000080 01000400",
            &[(3, "unexpected-completion")],
        ),
        (
            "a completion that goes the way of its request",
            "up 00000001 0100040f 00002000\nup 4a000001 00000004 01000400\ndown 4a000001 00000004 01000400",
            &[],
        ),
        (
            "tag 8 and its 10-bit neighbour 0x108",
            "up 00800001 0100080f 00002000\ndown 4a000001 00000004 01000800\ndown 4a800001 00000004 01000800",
            &[(2, "unexpected-completion")],
        ),
        (
            "a tag in use after one of two pieces",
            "up 00000020 010004ff 00002000\ndown 4a000010 00000080 01000400\nup 00000001 0100040f 00003000\n\
             down 4a000010 00000040 01000440\ndown 4a000001 00000004 01000400",
            &[(3, "tag-in-use")],
        ),
        (
            "a tag in use: a configuration request and a read of one requester",
            "down 04000001 0000040f 01000000\ndown 00000001 0000040f 80000000\nup 4a000001 01000004 00000400\n\
             up 4a000001 01000004 00000400",
            &[(2, "tag-in-use")],
        ),
    ]);
}

/// The trace may begin and end at any time.
#[test]
fn does_not_check_tlps_whose_request_is_not_in_trace() {
    check(&[
        (
            "it begins with the completion of an earlier request",
            "down 4a000001 00000004 01000400\nup 00000001 0100050f 00002000\ndown 4a000001 00000004 01000600\n\
             down 4a000001 00000004 01000500",
            &[],
        ),
        (
            "an earlier request has timed out 50 ms after the start",
            "@1000 down 4a000001 00000004 01000400\n@4000 up 00000001 0100050f 00002000\n\
             @50002000 down 4a000001 00000004 01000600\n@50003000 down 4a000001 00000004 01000500",
            &[(3, "unexpected-completion")],
        ),
        (
            "50 ms after the start, a Requester ID that has asked for nothing",
            "@1000 up 00000001 0100040f 00002000\n@2000 down 4a000001 00000004 01000400\n\
             @50002000 down 4a000001 00000004 07000400\n@50003000 up 4a000001 00000004 07000400",
            &[(3, "unexpected-completion")],
        ),
        (
            "a request waits for less than 50 ms",
            "@1 up 00000001 0100050f 00002000\n@49999999 up 40000001 0100000f 00002000 00000000",
            &[],
        ),
        (
            "a request waits for 50 ms",
            "@1 up 00000001 0100050f 00002000\n@50000001 up 40000001 0100000f 00002000 00000000",
            &[(1, "completion-timeout")],
        ),
        (
            "a tag is used again after the completion timeout",
            "@1 up 00000001 0100050f 00002000\n@50000001 up 00000001 0100050f 00002000\n\
             @50000002 down 4a000001 00000004 01000500",
            &[(1, "completion-timeout")],
        ),
        (
            "without times: completions of different tags may pass each other (§2.4.1)",
            "up 00000001 0100040f 00002000\nup 00000001 0100050f 00002000\ndown 4a000001 00000004 01000500\n\
             up 00000001 0100060f 00002000",
            &[],
        ),
        (
            "without times: a completion has the Requester ID of another function than the request",
            "up 00000001 0100040f 00002000\ndown 4a000001 00000004 02000400",
            &[(2, "unexpected-completion")],
        ),
        (
            "without times: the same Requester ID sends a request later",
            "up 00000001 0100040f 00002000\ndown 4a000001 00000004 02000400\nup 00000001 0200050f 00002000\n\
             down 4a000001 00000004 02000500",
            &[],
        ),
        (
            "without times: the request that has the tag is answered, so the completion may be from before the trace",
            "up 00000001 0100040f 00002000\ndown 4a000001 00000004 02000400\ndown 4a000001 00000004 01000400",
            &[],
        ),
        (
            "without times: no request before the completion has its tag",
            "up 00000001 0100050f 00002000\ndown 4a000001 00000004 02000400\nup 00000001 0100040f 00002000",
            &[],
        ),
        (
            "a completion after the completion timeout of its request",
            "0us up 00000001 0100010f 00010000\n60000us down 4a000001 00000004 01000100",
            &[(2, "late-completion")],
        ),
        (
            "a completion just before the completion timeout",
            "0us up 00000001 0100010f 00010000\n49999us down 4a000001 00000004 01000100",
            &[],
        ),
        (
            "a tag used again after a timeout: the new request gets the completion, and there is no second one",
            "0us up 00000001 0100010f 00010000\n60000us up 00000001 0100010f 00020000\n\
             60001us down 4a000001 00000004 01000100\n60002us down 4a000001 00000004 01000100",
            &[(1, "completion-timeout"), (4, "unexpected-completion")],
        ),
        (
            "three requests with one tag: the third completion may answer the one that is no longer tracked",
            "1us up 00000001 0100010f 00010000\n2us up 00000001 0100010f 00020000\n3us up 00000001 0100010f 00030000\n\
             4us down 4a000001 00000004 01000100\n5us down 4a000001 00000004 01000100\n6us down 4a000001 00000004 01000100",
            &[(2, "tag-in-use"), (3, "tag-in-use")],
        ),
        (
            "ATS translation requests with one translation each (§10.2.3), then a read",
            "up 00000402 010001ff 00010000\ndown 4a000002 00000008 01000178\nup 00000408 010001ff 00010000\n\
             down 4a000002 00000008 01000178\nup 00000001 0100020f 00010000\ndown 4a000001 00000004 01000200",
            &[],
        ),
        (
            "an ATS translation request with two completions, and one more",
            "up 00000408 010001ff 00010000\ndown 4a000002 00000020 01000160\ndown 4a000006 00000018 01000168\n\
             down 4a000006 00000018 01000168",
            &[],
        ),
        (
            "a completer answers a malformed request",
            "up 00000020 0100040f 00002000\nup 00000001 0100050f 00002000\ndown 4a000001 00000004 01000400",
            &[(1, "byte-enables")],
        ),
    ]);
}
