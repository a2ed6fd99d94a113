// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resets, power states and links under the control of the kernel and its user: which state is kept, reset and restored.

use crate::guest::rig::Guest;
use testkit::cases;

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

#[test]
#[ignore = "of .ci/long guest"]
fn resets_and_power_states_keep_specified_state() {
    let all = || cases(include_str!("../../cases/kernel-resets.txt"));
    let script: String = all().map(|case| format!("echo '== {}'\n{}", case.name(), case.input())).collect();
    let guest = Guest::run(LAB, &format!("{SET_UP}{script}echo == end\n"), &["--module", "pci-pf-stub"]);
    for case in all() {
        let said: Vec<&str> = guest.said(case.name()).lines().collect();
        assert_eq!(said, case.expected(), "{}", case.name());
    }
}
