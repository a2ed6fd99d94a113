// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The root complex of `rtl/pcie_stack` under Verilator: a stock kernel uses it, and riser's NVMe controller is below it.

use crate::common::{masked_irqs, riser_ok};
use crate::guest::rig::Guest;
use std::path::Path;

/// Configuration of the root port and the controller as the kernel has left it. Reviewed by hand: the link is up at 8 GT/s and x8, payloads are
/// 256 B in both functions, the windows hold the controller's BAR, the root port's MSI and the controller's MSI-X are enabled, the kernel
/// has set Root Error Command, and no error status is set.
const LSPCI: &str = include_str!("lspci.txt");

#[test]
#[ignore = "of .ci/long stack"]
fn kernel_enumerates_rtl_root_port_and_does_dma_through_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/pcie_stack/lab/root_link.toml");
    let root = root.to_str().unwrap();
    riser_ok(&["rtl", "build", root]);
    let lab = format!(
        "version = 1\n[host]\nroot_complex = 'rtl-root-complex'\n[host.rtl-root-complex]\ndesign = '{root}'\n\
         [link]\ngen = 3\nlanes = 8\nmps_bytes = 256\n\
         [[slot]]\nname = 'ssd'\ndevice = 'nvme'\nnvme.namespaces = [{{ size_bytes = 67_108_864 }}]\n"
    );
    let script = "until [ -b /dev/nvme0n1 ]; do sleep 1; done\n\
        echo == lspci\nlspci -s 10000:00:00.0 -vv; lspci -s 10000:01:00.0 -vv\n\
        echo == functions\nlspci -D -n | grep ^10000 | cut -d' ' -f1\n\
        echo == data\ndd if=/dev/urandom of=/tmp/data bs=4096 count=64\n\
        dd if=/tmp/data of=/dev/nvme0n1 bs=4096 oflag=direct\n\
        dd if=/dev/nvme0n1 of=/tmp/back bs=4096 count=64 iflag=direct\n\
        cmp /tmp/data /tmp/back && echo equal\n\
        echo == end";
    let guest = Guest::run(&lab, script, &["--allow-native", "--module", "nvme"]);
    assert_eq!(guest.said("functions"), "10000:00:00.0\n10000:01:00.0\n");
    assert_eq!(guest.said("data"), "equal\n");
    assert_eq!(masked_irqs(guest.said("lspci")), masked_irqs(LSPCI));
}
