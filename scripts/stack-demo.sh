#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Shows the PCI Express stack in RTL. Its root complex below a host: the simulated one, with RTL at both ends of the link, and a stock Linux kernel; an NVMe
# controller is at the link. Then below a RISC-V core in RTL: a bare-metal program that enumerates and tests DMA and MSIs. Last, Figures 6, 7, 9 and 10 of the
# Chipyard study, counted in cycles. Uses the riser that RISER names, the newest one that is built, or builds one. Writes to out/stack-demo and
# rtl/pcie_stack/build. Takes 330 s of CPU time, and 365 s more the first time, to build the simulators of the core.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/out/stack-demo
lab=rtl/pcie_stack/lab/nvme.toml
title() { printf '\n== %s\n' "$*"; }
show() { echo "\$ $*"; "$@"; }

riser=${RISER:-$(scripts/riser.sh)}
start=$SECONDS
mkdir -p "$out"

title "Verilator builds a library from root complex, transaction layer and data link layer"
show "$riser" rtl build rtl/pcie_stack/lab/root_link.toml

title "On the simulated host: firmware enumerates the RTL's root port and the controller, and the driver compares what it reads"
show "$riser" run "$lab" --allow-native

title "RTL at both ends of the link: the controller's DMA crosses a second data link layer in RTL"
show "$riser" rtl build rtl/pcie_stack/lab/frame_link.toml
show "$riser" run rtl/pcie_stack/lab/both_ends.toml --allow-native

title "Under a stock kernel: its nvme driver writes 256 KiB by DMA, reads them back and compares"
cat >"$out/script" <<'GUEST'
until [ -b /dev/nvme0n1 ]; do sleep 1; done
lspci -D | grep ^10000
lspci -s 10000:00:00.0 -vv | grep -E 'Bus:|Memory behind|LnkSta:|Kernel driver'

dd if=/dev/urandom of=/tmp/data bs=4096 count=64 2>/dev/null
dd if=/tmp/data of=/dev/nvme0n1 bs=4096 oflag=direct 2>/dev/null
dd if=/dev/nvme0n1 of=/tmp/back bs=4096 count=64 iflag=direct 2>/dev/null
cmp /tmp/data /tmp/back && echo "262144 bytes written and read back through the RTL: equal"
GUEST
echo "\$ riser guest run $lab --allow-native --module nvme --share $out -- sh /share/script"
"$riser" guest run "$lab" --allow-native --module nvme --share "$out" --time-limit 600 -- sh /share/script

title "Below a RISC-V core in RTL: a bare-metal program reads ECAM, sizes BARs, moves data by DMA and takes MSIs"
show make -s -C rtl/pcie_stack soc

title "Figures 6 and 7 of the Chipyard study: two ports of the stack with their physical layers"
show "$riser" paper chipyard-rtl-figure6
show "$riser" paper chipyard-rtl-figure7

title "Figures 9 and 10: a NIC on the core's bus, and behind root complex, link and endpoint"
show "$riser" paper chipyard-rtl-figure9
show "$riser" paper chipyard-rtl-figure10
title "Done in $((SECONDS - start)) s; all output is in $out"
