// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resets, power states and links under the control of the kernel and its user: which state is kept, reset and restored.

use crate::guest::rig::Guest;

const LAB: &str = "version = 1\n[[slot]]\nname = 'near'\ndevice = 'memory'\n[[switch]]\nname = 's'\n\
    [[slot]]\nname = 'ram'\ndevice = 'memory'\nparent = 's'\n\
    [[slot]]\nname = 'dma'\ndevice = 'dma-engine'\nparent = 's'\n[slot.dma-engine]\nvfs = 12\n";

const SET_UP: &str = r#"
near=10000:01:00.0 above_near=10000:00:01.0 ram=10000:04:00.0 above_ram=10000:03:00.0 dma=10000:05:00.0
enable() { setpci -s $1 COMMAND=6:6; }
dump() { lspci -s $1 -xxxx >/tmp/$2; }
# kept FUNCTION COMMAND...: its registers are the same behind a command.
kept() { f=$1; shift; dump $f before; "$@"; echo "status $?"; dump $f behind; diff /tmp/before /tmp/behind && echo same; }
reset() { echo 1 >$d/$1/reset; }
renew() { echo 1 >$d/$1/remove; echo 1 >/sys/bus/pci/rescan; enable $1; }
for f in $near $ram $dma; do enable $f; done
"#;

/// Heading, commands of the guest, and their output.
const CASES: &[(&str, &str, &str)] = &[
    (
        "the kernel restores a function that it resets",
        "cat $d/$ram/reset_method; setpci -s $ram INTERRUPT_LINE=5a; memory $ram 0x10 32 0x77; kept $ram reset $ram; memory $ram 0x10",
        "flr bus\nstatus 0\nsame\n0x00000077\n",
    ),
    (
        "Function Level Reset keeps what is sticky",
        "setpci -s $ram ECAP_AER+8.l=00100000; setpci -s $ram CAP_EXP+8.w=8000:8000; usleep 100000; \
            setpci -s $ram COMMAND BASE_ADDRESS_0 INTERRUPT_LINE ECAP_AER+8.l; setpci -s $above_ram CAP_EXP+12.w; renew $ram",
        "0000\n00000000\n00\n00100000\n2083\n",
    ),
    (
        "a VF is reset alone",
        "modprobe pci-pf-stub; echo 7269 0007 >/sys/bus/pci/drivers/pci-pf-stub/new_id; echo 12 >$d/$dma/sriov_numvfs; \
            vf=10000:05:01.4 other=10000:05:01.3; cat $d/$vf/reset_method; setpci -s $vf COMMAND=4:4; \
            memory $vf 0x1010 32 8; memory $other 0x1010 32 16; kept $vf reset $vf; memory $vf 0x1010; memory $other 0x1010",
        "flr\nstatus 0\nsame\n0x00000000\n0x00000010\n",
    ),
    // Logged errors are not restored. Enumeration has already probed absent functions.
    (
        "the kernel restores all below a root port",
        "every() { lspci -d 7269: -xxxx >/tmp/$1; }; setpci -d 7269: CAP_EXP+a.w=f ECAP_AER+4.l=ffffffff ECAP_AER+10.l=ffffffff STATUS=ffff; \
            every before; echo 1 >$d/10000:00:02.0/reset_subordinate; every behind; diff /tmp/before /tmp/behind && echo same; \
            grep -c '^10000' /tmp/behind; memory 10000:05:01.4 0x1010",
        "same\n20\n0x00000000\n",
    ),
    (
        "a VF reports errors of its own",
        "vf=10000:05:01.4; setpci -s $vf CAP_EXP+8.w=f:f; setpci -s $dma CAP_EXP+8.w=f:f; \
            lab fault \"slot = 'dma', direction = 'downstream', frames = 'posted', nth = 1, action = 'poison'\"; \
            counts >/tmp/counted; memory $vf 0x1088 32 0; usleep 500000; counted /tmp/counted; dmesg | grep -c '10000:05:01.4:    \\[12\\] TLP'",
        "10000:05:01.4 nonfatal TLP +1\n10000:00:02.0 total_err_nonfatal +1\n1\n",
    ),
    (
        "the kernel restores a function behind a bus that it resets",
        "echo bus >$d/$near/reset_method; cat $d/$near/reset_method; memory $near 0x10 32 0x88; kept $near reset $near; memory $near 0x10",
        "bus\nstatus 0\nsame\n0x00000088\n",
    ),
    (
        "a link is down while Secondary Bus Reset is set",
        "setpci -s $above_near BRIDGE_CONTROL=40:40; ids $near; setpci -s $above_near CAP_EXP+12.w; usleep 2000; \
            setpci -s $above_near BRIDGE_CONTROL=0:40; usleep 100000; ids $near; setpci -s $near BASE_ADDRESS_0 COMMAND; renew $near; \
            memory $near 0x10",
        "ffffffff\n0083\n00017269\n00000000\n0000\n0x00000088\n",
    ),
    (
        "the kernel restores what is below a port",
        "kept $ram sh -c \"echo 1 >$d/$above_ram/reset_subordinate\"",
        "status 0\nsame\n",
    ),
    (
        "in D3hot memory does not answer, and registers do",
        "enable $ram; memory $ram 0x10 32 0x99; setpci -s $ram CAP_PM+4.w=3:3; setpci -s $ram CAP_PM+4.w BASE_ADDRESS_0; \
            memory $ram 0x10; setpci -s $ram CAP_PM+4.w=0:3; usleep 20000; setpci -s $ram CAP_PM+4.w COMMAND; memory $ram 0x10",
        "000b\nc0200000\n0xFFFFFFFF\n0008\n0006\n0x00000099\n",
    ),
    (
        "a link retrained by software is reported",
        "setpci -s $above_ram CAP_EXP+12.w; setpci -s $above_ram CAP_EXP+10.w=20:20; setpci -s $above_ram CAP_EXP+12.w; \
            setpci -s $above_ram CAP_EXP+12.w=4000; setpci -s $above_ram CAP_EXP+12.w; memory $ram 0x10",
        "2083\n6083\n2083\n0x00000099\n",
    ),
    (
        "a link retrains at the target speed",
        "setpci -s $above_ram CAP_EXP+30.w=1:f; setpci -s $above_ram CAP_EXP+10.w=20:20; setpci -s $above_ram CAP_EXP+12.w; \
            cat $d/$above_ram/current_link_speed $d/$ram/current_link_speed; setpci -s $above_ram CAP_EXP+30.w=3:f; \
            setpci -s $above_ram CAP_EXP+10.w=20:20; cat $d/$ram/current_link_speed; memory $ram 0x10",
        "6081\n2.5 GT/s PCIe\n2.5 GT/s PCIe\n8.0 GT/s PCIe\n0x00000099\n",
    ),
    (
        "a link that loses lanes is reported",
        "setpci -s $above_ram CAP_EXP+12.w=4000; lab speed ram 2 4; setpci -s $above_ram CAP_EXP+12.w; \
            cat $d/$ram/current_link_speed $d/$ram/current_link_width; lab speed ram 3 8; cat $d/$ram/current_link_width",
        "6042\n5.0 GT/s PCIe\n4\n8\n",
    ),
    (
        "a disabled link is down",
        "setpci -s $above_ram CAP_EXP+10.w=10:10; setpci -s $above_ram CAP_EXP+12.w; ids $ram; \
            setpci -s $above_ram CAP_EXP+10.w=0:10; usleep 20000; ids $ram",
        "4083\nffffffff\n00017269\n",
    ),
];

#[test]
#[ignore = "of .ci/long guest"]
fn resets_and_power_states_keep_specified_state() {
    let headed = |(heading, act, _): &(&str, &str, &str)| format!("echo '== {heading}'\n{act}\n");
    let script: String = CASES.iter().map(headed).collect();
    let guest = Guest::run(LAB, &format!("{SET_UP}{script}echo == end\n"), &["--module", "pci-pf-stub"]);
    let said: Vec<_> = CASES.iter().map(|(heading, ..)| (*heading, guest.said(heading))).collect();
    let expected: Vec<_> = CASES.iter().map(|(heading, _, says)| (*heading, *says)).collect();
    assert_eq!(said, expected);
}
