// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The switch of `rtl/pcie_stack` under Verilator, below its root complex: a stock kernel uses both, and riser's devices are below them.

use crate::common::{masked_irqs, riser_ok};
use crate::guest::rig::Guest;
use std::path::Path;

/// Configuration of root port, switch and controllers as the kernel has left it. Reviewed by hand: all links are up at 8 GT/s and x8, payloads are
/// 256 B in all functions, and the windows of each bridge hold those below it and the controllers' BARs. All bridges have `pcieport`, both
/// controllers have `nvme` and MSI-X enabled. The only error status is Received Master Abort below the root port, because the kernel probes
/// functions that do not exist.
const LSPCI: &str = include_str!("lspci.txt");

/// The folder of the designs.
fn lab(file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/pcie_stack/lab");
    folder.join(file).to_str().unwrap().to_owned()
}

#[test]
#[ignore = "of .ci/long stack"]
fn kernel_enumerates_rtl_switch_and_does_dma_through_it() {
    let [root, switch] = ["root_link.toml", "switch_link.toml"].map(lab);
    for design in [&root, &switch] {
        riser_ok(&["rtl", "build", design]);
    }
    let lab = format!(
        "version = 1\n[host]\nroot_complex = 'rtl-root-complex'\n[host.rtl-root-complex]\ndesign = '{root}'\n\
         [link]\ngen = 3\nlanes = 8\nmps_bytes = 256\n\
         [[switch]]\nname = 'switch'\ndevice = 'rtl-switch'\nrtl-switch.design = '{switch}'\n\
         [[slot]]\nname = 'ssd0'\nparent = 'switch'\ndevice = 'nvme'\nnvme.namespaces = [{{ size_bytes = 67_108_864 }}]\n\
         [[slot]]\nname = 'ssd1'\nparent = 'switch'\ndevice = 'nvme'\nnvme.namespaces = [{{ size_bytes = 67_108_864 }}]\n"
    );
    let script = "until [ -b /dev/nvme0n1 -a -b /dev/nvme1n1 ]; do sleep 1; done\n\
        echo == lspci\nfor f in 00:00.0 01:00.0 02:00.0 02:01.0 03:00.0 04:00.0; do lspci -s 10000:$f -vv; done\n\
        echo == functions\nlspci -D -n | grep ^10000 | cut -d' ' -f1\n\
        echo == data\ndd if=/dev/urandom of=/tmp/data bs=4096 count=64\n\
        dd if=/tmp/data of=/dev/nvme0n1 bs=4096 oflag=direct\n\
        dd if=/dev/nvme0n1 of=/dev/nvme1n1 bs=4096 count=64 iflag=direct oflag=direct\n\
        dd if=/dev/nvme1n1 of=/tmp/back bs=4096 count=64 iflag=direct\n\
        cmp /tmp/data /tmp/back && echo equal\n\
        echo == end";
    let guest = Guest::run(&lab, script, &["--allow-native", "--module", "nvme"]);
    let functions = ["00:00.0", "01:00.0", "02:00.0", "02:01.0", "03:00.0", "04:00.0"];
    let functions: String = functions.iter().map(|function| format!("10000:{function}\n")).collect();
    assert_eq!(guest.said("functions"), functions);
    assert_eq!(guest.said("data"), "equal\n");
    assert_eq!(masked_irqs(guest.said("lspci")), masked_irqs(LSPCI));
}
