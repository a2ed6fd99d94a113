#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Shows a stock Linux kernel on riser's fabric step by step, in one boot: enumeration, virtual functions, reported errors, hot-plug, and the
# boot as packets. Uses the newest riser that is built, or builds one. Writes only to out/guest-demo.
set -euo pipefail
cd "$(dirname "$0")/.."

out=out/guest-demo
mkdir -p "$out/share"

title() { printf '\n== %s\n' "$*"; }

riser=$(scripts/riser.sh)

cat >"$out/lab.toml" <<'END'
version = 1
[[slot]]
name = "engine"
device = "dma-engine"
[slot.dma-engine]
vfs = 4
[[switch]]
name = "s"
[[slot]]
name = "ram"
device = "memory"
parent = "s"
[[slot]]
name = "card"
device = "memory"
parent = "s"
hot_plug = true
hot_plug_controls = false
END

# Shows the kernel's messages as the guest's output, without timestamps. Drops messages about I/O windows, which a VMD does not have.
cat >"$out/share/script" <<'END'
title() { printf '\n== %s\n' "$*"; }
show() { echo "# $*"; "$@"; }
kernel() { usleep "${1:-300000}"; dmesg -c | sed 's/^\[[ 0-9.]*\] //' | grep -v -e 'bridge window \[io' -e 'enabling device'; }
devices=/sys/bus/pci/devices
dmesg -c >/dev/null

title "$(uname -sr) has enumerated the lab: the hierarchy is PCI domain 10000, below an Intel VMD"
show lspci -tv | grep -e '^#' -e 10000 -A9
title "A function as the stock lspci shows it"
show lspci -s 10000:01:00.0 -vv | grep -v -e LnkSta2 -e LnkCtl2 -e Retimer -e Preset -e EqualizationPhase
title "Virtual functions with the stock driver pci-pf-stub"
echo 7269 0007 >/sys/bus/pci/drivers/pci-pf-stub/new_id
echo '# echo 4 >sriov_numvfs; lspci -d 7269:8'
echo 4 >$devices/10000:01:00.0/sriov_numvfs
lspci -d 7269:8
dmesg -c >/dev/null
title "A bit flips on the wire: the port detects a bad TLP and requests a replay, the kernel reports it"
fault='slot = "ram", direction = "upstream", frames = "tlp", nth = 1, action = "corrupt"'
echo "# lab fault '$fault'"
lab fault "$fault"
show setpci -s 10000:04:00.0 VENDOR_ID DEVICE_ID
kernel
show grep BadTLP $devices/10000:03:00.0/aer_dev_correctable
title "A link fails: Downstream Port Containment"
show lab cut ram 1000
kernel
title "A card is removed while the machine runs, then inserted again: pciehp"
show lab remove card
kernel 800000
show lab insert card
kernel 1500000
END

start=$SECONDS
title "Booting (the first time fetches QEMU and a kernel from Debian's packages)"
echo "\$ riser guest run $out/lab.toml --capture $out/boot.pcapng -- sh /share/script"
"$riser" guest run "$out/lab.toml" --module pci-pf-stub --share "$out/share" --capture "$out/boot.pcapng" --force --time-limit 120 \
    -- sh /share/script

title "The boot as packets: every kernel access that crossed the fabric"
echo "\$ riser trace $out/boot.pcapng --stats"
"$riser" trace "$out/boot.pcapng" --stats | head -30 || true
if command -v tshark >/dev/null; then
    title "How the kernel found the memory behind the switch, in tshark with riser's dissector"
    tshark -X lua_script:tools/wireshark/riser.lua -r "$out/boot.pcapng" -c 40000 2>/dev/null |
        grep -m 12 'completer 04:00.0' || true
fi

title "Output files ($((SECONDS - start)) s)"
cat <<END
  $out/boot.pcapng   all TLPs of the boot: Wireshark with tools/wireshark/riser.lua, riser trace
  $out/lab.toml      the lab: riser guest run $out/lab.toml opens a shell in it
END
