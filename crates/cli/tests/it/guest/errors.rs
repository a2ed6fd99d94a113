// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel reports, counts and recovers from errors: Advanced Error Reporting, and Downstream Port Containment.

use crate::guest::rig::Guest;

/// An error, and the kernel's reaction.
struct Case {
    name: &'static str,
    /// Commands of the guest.
    act: &'static str,
    /// Messages of the kernel, in this order. The test waits for the last report.
    says: &'static [&'static str],
    /// Error counters that increase.
    counts: &'static [&'static str],
}

/// Lab with three devices below a switch.
const LAB: &str = "version = 1\n[[switch]]\nname = 's'\n[[slot]]\nname = 'ram'\ndevice = 'memory'\nparent = 's'\n\
    [[slot]]\nname = 'dma'\ndevice = 'dma-engine'\nparent = 's'\n\
    [[slot]]\nname = 'counter'\ndevice = 'counter'\nparent = 's'\n";

/// Enables all error reports, masks none, and gives AER control of errors that ports would contain (DPC). Defines `again`, which finds
/// endpoints again after a reset of their link, since no driver sets them up, and `fault LINK DIRECTION FRAMES ACTION`.
const SET_UP: &str = r#"
root=10000:00:01.0 up=10000:01:00.0
above_ram=10000:02:00.0 above_dma=10000:02:01.0 above_counter=10000:02:02.0
ram=10000:03:00.0 dma=10000:04:00.0 counter=10000:05:00.0
for port in /sys/bus/pci_express/drivers/dpc/10000*; do echo ${port##*/} >/sys/bus/pci_express/drivers/dpc/unbind; done
groups() {
    for f in $root $up $above_ram $above_dma $above_counter $ram $dma $counter; do
        echo "-s $f ECAP_AER+8.l=0 ECAP_AER+14.l=0 ECAP_AER+4.l=ffffffff ECAP_AER+10.l=ffffffff"
    done
}
# Root Error Status last: an error that came between the kernel's look and its clearing would hold back all later interrupts.
clear() { setpci $(groups) -s $root ECAP_AER+30.l=7f; }
ready() { setpci $(for f in $ram $dma $counter; do echo "-s $f COMMAND=6:6 CAP_EXP+8.w=f:f"; done); rings $dma; clear; }
# What enumeration asks of absent functions is no error to be told of.
again() { setpci $(groups | sed 's/14.l=0/14.l=ffffffff/'); for f in $ram $dma $counter; do echo 1 >$d/$f/remove; done; echo 1 >/sys/bus/pci/rescan; ready; }
fault() { lab fault "slot = '$1', direction = '$2', frames = '$3', nth = ${5:-1}, action = $4"; }
ready
"#;

impl Case {
    fn script(&self) -> String {
        format!("begin '{}'; {}; end '{}'; clear\n", self.name, self.act, self.says.last().unwrap())
    }

    fn check(&self, guest: &Guest) {
        let said: String =
            guest.said(self.name).lines().map(|line| without_tag(line.to_owned()) + "\n").collect();
        let mut rest = said.as_str();
        for text in self.says {
            let at = rest.find(text);
            rest =
                &rest[at.unwrap_or_else(|| panic!("{}: no `{text}` in its place in:\n{said}", self.name))..];
        }
        for count in self.counts {
            assert!(said.contains(&format!("10000:{count}\n")), "{}: no `{count}` in:\n{said}", self.name);
        }
    }
}

/// Removes the tag (bits 15:8 of the second DW) from a line that shows a request header.
fn without_tag(mut line: String) -> String {
    const HEADER: &str = "TLP Header: ";
    let Some(at) = line.find(HEADER) else { return line };
    let second = line[at + HEADER.len()..].find(' ').unwrap() + at + HEADER.len() + 1;
    let digits = if line[second..].starts_with("0x") { second + 2 } else { second };
    line.replace_range(digits + 4..digits + 6, "00");
    line
}

/// The stock kernel names each error of a port or device by its bit in the status registers of AER. It counts the error
/// at the function and at the root port, and recovers from it.
#[test]
#[ignore = "of .ci/long guest"]
fn kernel_names_counts_and_recovers_from_each_error() {
    let all = || [CORRECTABLE, NON_FATAL, FATAL].into_iter().flatten();
    let cases: String = all().map(Case::script).collect();
    let script = format!("{SET_UP}{cases}echo == end\n");
    let guest = Guest::run(LAB, &script, &["--append", "memmap=1M$0x10000000"]);
    all().for_each(|case| case.check(&guest));
}

const CORRECTABLE: &[Case] = &[
    Case {
        name: "receiver error of a device",
        act: "fault ram downstream tlp \"'break-framing'\"; ids $ram >/dev/null",
        says: &[
            "10000:00:01.0: AER: Corrected error message received from 10000:03:00.0",
            "10000:03:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            "[ 0] RxErr",
        ],
        counts: &["03:00.0 correctable RxErr +1", "00:01.0 total_err_cor +1"],
    },
    Case {
        name: "receiver error of a port",
        act: "fault ram upstream tlp \"'break-framing'\"; ids $ram >/dev/null",
        says: &["10000:02:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "[ 0] RxErr"],
        counts: &["02:00.0 correctable RxErr +1", "00:01.0 total_err_cor +1"],
    },
    Case {
        name: "bad TLP",
        act: "fault ram downstream tlp \"'corrupt'\"; ids $ram >/dev/null",
        says: &["10000:03:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer", "[ 6] BadTLP"],
        counts: &["03:00.0 correctable BadTLP +1"],
    },
    Case {
        name: "bad DLLP",
        act: "fault ram upstream dllp \"'corrupt'\"; ids $ram >/dev/null",
        says: &["10000:02:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer", "[ 7] BadDLLP"],
        counts: &["02:00.0 correctable BadDLLP +1"],
    },
    Case {
        name: "timeout",
        act: "fault ram downstream tlp \"'drop'\"; ids $ram >/dev/null",
        says: &[
            "10000:02:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
            "[12] Timeout",
        ],
        counts: &["02:00.0 correctable Timeout +1"],
    },
    Case {
        name: "rollover",
        act: "for i in 1 2 3 4; do fault ram downstream tlp \"'drop'\" $i; done; ids $ram >/dev/null",
        says: &[
            "Multiple Corrected error message received from 10000:02:00.0",
            "[ 8] Rollover",
            "[12] Timeout",
        ],
        counts: &["02:00.0 correctable Rollover +1"],
    },
    Case {
        name: "corrected internal error",
        act: "fault ram downstream tlp \"'corrected-internal'\"; ids $ram >/dev/null",
        says: &[
            "10000:03:00.0: PCIe Bus Error: severity=Corrected, type=Transaction Layer",
            "[14] CorrIntErr",
        ],
        counts: &["03:00.0 correctable CorrIntErr +1"],
    },
    Case {
        name: "advisory error",
        act: "memory $ram 0x20000",
        says: &[
            "10000:03:00.0: PCIe Bus Error: severity=Corrected, type=Transaction Layer",
            "[13] NonFatalErr",
        ],
        counts: &["03:00.0 correctable NonFatalErr +1"],
    },
    Case {
        name: "several headers",
        act: "memory $ram 0x20000; fault ram downstream posted \"'poison'\"; memory $ram 0 32 5",
        says: &["[15] HeaderOF", "[12] TLP", "TLP Header: 00000001 0000000f", "recovery failed"],
        counts: &[
            "03:00.0 correctable HeaderOF +1",
            "03:00.0 nonfatal TLP +1",
            "03:00.0 nonfatal UnsupReq +1",
        ],
    },
];

const NON_FATAL: &[Case] = &[
    Case {
        name: "unsupported request",
        act: "memory $ram 0x20000 32 5",
        says: &[
            "10000:00:01.0: AER: Uncorrected (Non-Fatal) error message received from 10000:03:00.0",
            "10000:03:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
            "[20] UnsupReq               (First)",
            "TLP Header: 40000001 0000000f c0",
            "10000:03:00.0: AER: can't recover (no error_detected callback)",
            "10000:02:00.0: AER: device recovery failed",
        ],
        counts: &["03:00.0 nonfatal UnsupReq +1", "00:01.0 total_err_nonfatal +1"],
    },
    Case {
        name: "poisoned write",
        act: "fault ram downstream posted \"'poison'\"; memory $ram 0 32 5",
        says: &["[12] TLP                    (First)", "TLP Header: 40004001 0000000f c0", "recovery failed"],
        counts: &["03:00.0 nonfatal TLP +1", "00:01.0 total_err_nonfatal +1"],
    },
    Case {
        name: "poisoned write to memory",
        act: "fault dma upstream posted \"'poison'\"; dma_writes $dma $((free + 0x9000)) 64",
        says: &[
            "10000:02:01.0:    [13] NonFatalErr",
            "10000:00:01.0:    [12] TLP                    (First)",
            "TLP Header: 40004010 040000ff 10009000",
            "recovery failed",
        ],
        counts: &["02:01.0 correctable NonFatalErr +1", "00:01.0 nonfatal TLP +1"],
    },
    Case {
        name: "write to no memory",
        act: "dma_writes $dma 0x8000000000 64",
        says: &[
            "10000:00:01.0:    [20] UnsupReq               (First)",
            "TLP Header: 60000010 040000ff 00000080 00000000",
            "recovery failed",
        ],
        counts: &["00:01.0 nonfatal UnsupReq +1"],
    },
    Case {
        name: "unexpected completion at a device",
        act: "fault dma downstream completion \"'set-tag', new_tag = 200\"; dma_reads $dma $((free + 0x8000)) 64",
        says: &[
            "10000:04:00.0:    [14] CmpltTO",
            "10000:04:00.0:    [16] UnxCmplt               (First)",
            "recovery failed",
        ],
        counts: &["04:00.0 nonfatal CmpltTO +1", "04:00.0 nonfatal UnxCmplt +1"],
    },
    Case {
        name: "unexpected completion at the root",
        act: "fault ram upstream completion \"'set-tag', new_tag = 200\"; memory $ram 0",
        says: &[
            "10000:00:01.0:    [14] CmpltTO",
            "10000:00:01.0:    [16] UnxCmplt               (First)",
            "recovery failed",
        ],
        counts: &[
            "00:01.0 nonfatal CmpltTO +1",
            "00:01.0 nonfatal UnxCmplt +1",
            "00:01.0 total_err_nonfatal +1",
        ],
    },
    Case {
        name: "requester ID of another",
        act: "setpci -s $above_dma ECAP_ACS+6.w=1; fault dma upstream posted \"'set-requester', new_requester = '07:00.0'\"; \
            dma_writes $dma $((free + 0x9000)) 64; setpci -s $above_dma ECAP_ACS+6.w=0",
        says: &["10000:02:01.0:    [21] ACSViol                (First)", "recovery failed"],
        counts: &["02:01.0 nonfatal ACSViol +1"],
    },
    Case {
        name: "wrong ECRC",
        act: "setpci -s $dma ECAP_AER+18.l=40:40; setpci -s $root ECAP_AER+18.l=100:100; \
            fault dma upstream posted \"'wrong-ecrc'\"; dma_writes $dma $((free + 0x9000)) 64; setpci -s $dma ECAP_AER+18.l=0:40",
        says: &[
            "10000:00:01.0:    [19] ECRC                   (First)",
            "TLP Header: 40008010 040000ff",
            "recovery failed",
        ],
        counts: &["00:01.0 nonfatal ECRC +1"],
    },
    Case {
        name: "blocked AtomicOp",
        act: "setpci -s $counter CAP_EXP+28.w=40:40; setpci -s $up CAP_EXP+28.w=80:80; memory $counter 0 32 $free; \
            memory $counter 4 32 0; memory $counter 8 32 1",
        says: &["10000:01:00.0:    [13] NonFatalErr"],
        counts: &["01:00.0 correctable NonFatalErr +1"],
    },
    Case {
        name: "blocked poison",
        act: "setpci -s $above_ram ECAP_DPC+6.w=20:20; fault s downstream posted \"'poison'\"; memory $ram 0 32 5; \
            setpci -s $above_ram ECAP_DPC+6.w=0:20",
        says: &["10000:02:00.0:    [26] PoisonTLPBlocked       (First)", "recovery failed"],
        counts: &["02:00.0 nonfatal PoisonTLPBlocked +1"],
    },
];

/// The kernel does not read the status of a device whose link it considers broken. The status survives the reset of the
/// link.
const FATAL: &[Case] = &[
    Case {
        name: "malformed TLP",
        act: "fault ram downstream posted \"'set-length', length_dw = 9\"; memory $ram 0 32 5",
        says: &[
            "10000:00:01.0: AER: Uncorrected (Fatal) error message received from 10000:03:00.0",
            "10000:03:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Inaccessible",
            "10000:02:00.0: AER: Downstream Port link has been reset (0)",
            "10000:02:00.0: AER: device recovery failed",
        ],
        counts: &["00:01.0 total_err_fatal +1"],
    },
    Case {
        name: "malformed TLP at a port",
        act: "again; fault dma upstream posted \"'set-length', length_dw = 9\"; \
            dma_writes $dma $((free + 0x9000)) 64",
        says: &[
            "10000:02:01.0:    [18] MalfTLP                (First)",
            "TLP Header: 40000009 040000ff 10009000",
            "link has been reset (0)",
            "recovery failed",
        ],
        counts: &["02:01.0 fatal MalfTLP +1", "00:01.0 total_err_fatal +1"],
    },
    Case {
        name: "protocol error of flow control",
        act: "again; fault ram upstream update-fc \"'shift-credits', header_credits = 128\"; ids $ram >/dev/null",
        says: &[
            "10000:02:00.0:    [13] FCP                    (First)",
            "link has been reset (0)",
            "recovery failed",
        ],
        counts: &["02:00.0 fatal FCP +1"],
    },
    Case {
        name: "internal error of a port",
        act: "again; fault ram upstream dllp \"'uncorrectable-internal'\"; ids $ram >/dev/null",
        says: &[
            "10000:02:00.0:    [22] UncorrIntErr           (First)",
            "link has been reset (0)",
            "recovery failed",
        ],
        counts: &["02:00.0 fatal UncorrIntErr +1"],
    },
    // Ports have all error callbacks. The kernel recovers if there is no device below without callbacks.
    Case {
        name: "surprise down",
        act: "for f in $ram $dma $counter; do echo 1 >$d/$f/remove; done; ram= dma= counter=; clear; \
            lab cut ram 100",
        says: &[
            "10000:02:00.0:    [ 5] SDES                   (First)",
            "link has been reset (0)",
            "recovery successful",
        ],
        counts: &["02:00.0 fatal SDES +1"],
    },
    // The kernel restores the saved state of ports, including containment.
    Case {
        name: "protocol error of the data link",
        act: "for f in err aer; do echo \"file drivers/pci/pcie/$f.c +p\" >/sys/kernel/debug/dynamic_debug/control; done; \
            fault s upstream ack \"'shift-sequence', sequence_ahead = 100\"; ids $above_ram >/dev/null",
        says: &[
            "10000:00:01.0:    [ 4] DLP                    (First)",
            "broadcast error_detected message",
            "Root Port link has been reset (0)",
            "broadcast slot_reset message",
            "broadcast resume message",
            "10000:00:01.0: AER: device recovery successful",
        ],
        counts: &["00:01.0 fatal DLP +1", "00:01.0 total_err_fatal +1"],
    },
];

/// Lab with devices at a root port, at a switch port, and in a hot-plug slot.
const CONTAINED: &str = "version = 1\n[[slot]]\nname = 'near'\ndevice = 'memory'\n[[switch]]\nname = 's'\n\
    [[slot]]\nname = 'far'\ndevice = 'memory'\nparent = 's'\n\
    [[slot]]\nname = 'card'\ndevice = 'memory'\nparent = 's'\nhot_plug = true\nhot_plug_controls = false\n";

const CONTAINED_SET_UP: &str = r#"
near=10000:01:00.0 above_near=10000:00:01.0 far=10000:04:00.0 above_far=10000:03:00.0 card=10000:05:00.0
clear() { :; }
ready() { setpci -s $1 COMMAND=6:6 CAP_EXP+8.w=f:f; }
found() { echo 1 >/sys/bus/pci/rescan; ready $1; memory $1 0 32 0x5eed; memory $1 0; }
malformed() { lab fault "slot = '$2', direction = 'downstream', frames = 'posted', nth = 1, action = 'set-length', length_dw = 9"; memory $1 0 32 5; }
for f in $near $far $card; do ready $f; done
"#;

/// Errors that the ports above contain. After each error, `found` finds the device again, and uses it.
const CONTAINMENTS: &[Case] = &[
    Case {
        name: "fatal message at a root port",
        act: "malformed $near near",
        says: &[
            "10000:00:01.0: DPC: containment event, status:0x1f05, ERR_FATAL received from 10000:01:00.0",
            "10000:00:01.0: AER: device recovery failed",
        ],
        counts: &[],
    },
    Case {
        name: "fatal message at a switch",
        act: "malformed $far far",
        says: &[
            "10000:03:00.0: DPC: containment event, status:0x0005, ERR_FATAL received from 10000:04:00.0",
            "10000:03:00.0: AER: device recovery failed",
        ],
        counts: &[],
    },
    Case {
        name: "no device below",
        act: "echo 1 >$d/$near/remove; echo 1 >$d/$far/remove; setpci -s $above_near ECAP_DPC+6.w=40:40",
        says: &[
            "10000:00:01.0: DPC: containment event, status:0x1f27: software trigger detected",
            "10000:00:01.0: AER: device recovery successful",
        ],
        counts: &[],
    },
    Case {
        name: "surprise down at a root port",
        act: "found $near; echo 1 >$d/$near/remove; lab cut near 100",
        says: &[
            "10000:00:01.0: DPC: containment event, status:0x1f01: unmasked uncorrectable error detected",
            "[ 5] SDES                   (First)",
            "10000:00:01.0: AER: device recovery successful",
        ],
        counts: &["00:01.0 fatal SDES +1"],
    },
    Case {
        name: "surprise down at a switch",
        act: "found $near; found $far; echo 1 >$d/$far/remove; lab cut far 100",
        says: &[
            "10000:03:00.0: DPC: containment event, status:0x0001: unmasked uncorrectable error detected",
            "[ 5] SDES                   (First)",
            "10000:03:00.0: AER: device recovery successful",
        ],
        counts: &["03:00.0 fatal SDES +1"],
    },
    Case {
        name: "software at a switch",
        act: "found $far; echo 1 >$d/$far/remove; setpci -s $above_far ECAP_DPC+6.w=40:40",
        says: &[
            "10000:03:00.0: DPC: containment event, status:0x0027: software trigger detected",
            "10000:03:00.0: AER: device recovery successful",
        ],
        counts: &[],
    },
    Case {
        name: "fatal message in a slot",
        act: "found $far; malformed $card card",
        says: &[
            "DPC: containment event, status:0x0005, ERR_FATAL received from 10000:05:00.0",
            "10000:05:00.0: BAR 0 [mem 0xc",
        ],
        counts: &[],
    },
    Case {
        name: "programmed I/O",
        act: "setpci -s $above_near ECAP_DPC+10.l=0 ECAP_DPC+14.l=00070707; memory $near 0x20000",
        says: &[
            "10000:00:01.0: DPC: containment event, status:0x",
            "rp_pio_status: 0x00010000, rp_pio_mask: 0x00000000",
            "Memory Request received UR Completion",
            "TLP Header: 0x00000001 0x0000000f 0xc0",
        ],
        counts: &[],
    },
];

/// Downstream Port Containment of root ports and switch ports triggers repeatedly, and the link recovers each time. Until software ends the
/// containment, devices below the port read as all ones.
#[test]
#[ignore = "of .ci/long guest"]
fn kernel_contains_errors_and_recovers() {
    let cases: String = CONTAINMENTS.iter().map(Case::script).collect();
    let by_hand = "echo == by hand\necho 10000:03:00.0:pcie208 >/sys/bus/pci_express/drivers/dpc/unbind\n\
        setpci -s $above_far ECAP_DPC+6.w=1:3 && setpci -s $above_far ECAP_DPC+6.w=40:40\n\
        ids $far; setpci -s $above_far ECAP_DPC+8.w CAP_EXP+12.w; setpci -s $above_far ECAP_DPC+8.w=1; usleep 20000\n\
        ids $far; setpci -s $above_far ECAP_DPC+8.w CAP_EXP+12.w\n";
    let script = format!("{CONTAINED_SET_UP}{cases}{by_hand}echo == end\n");
    let guest = Guest::run(CONTAINED, &script, &["--kernel", "6.12", "--append", "pcie_ports=dpc-native"]);
    CONTAINMENTS.iter().for_each(|case| case.check(&guest));
    for name in ["surprise down at a root port", "surprise down at a switch", "software at a switch"] {
        assert!(guest.said(name).starts_with("0x00005EED\n"), "{}", guest.said(name));
    }
    guest.has("fatal message in a slot", "0x00005EED\n");
    assert_eq!(guest.said("by hand"), "ffffffff\n0027\n0083\n00017269\n0026\n2083\n");
}
