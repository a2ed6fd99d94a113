#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# LitePCIe, a design for FPGAs that others wrote, in a slot: on the simulated host, and below a stock Linux kernel with its own driver and
# tools. Takes the newest riser that is built, or builds one. Writes to out/rtl-demo only.
# RTL_DEMO_SECONDS: for how long its tool sends data round; half a minute of it is not looked at.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/out/rtl-demo
example=$PWD/examples/litepcie
seconds=${RTL_DEMO_SECONDS:-100}
python() { scripts/python.sh --with "$example/requirements.txt" "$@"; }
title() { printf '\n== %s\n' "$*"; }
show() { echo "\$ $*"; "$@"; }

riser=$(scripts/riser.sh)
start=$SECONDS
mkdir -p "$out/share" "$out/driver"

title "LitePCIe 2024.12 writes a core of four lanes for a 7-series FPGA"
package=$(python -c 'import os, litepcie; print(os.path.dirname(litepcie.__file__))')
cp "$example"/*.toml "$example/litepcie.yml" "$out"
python -c "import os, sys; os.chdir('$out'); sys.argv = ['litepcie_gen', 'litepcie.yml']; from litepcie.gen import main; main()" \
    >"$out/litepcie_gen.log" 2>&1 || { tail -20 "$out/litepcie_gen.log" >&2; exit 1; }
cd "$out"
wc -l build/gateware/litepcie_core.v
title "Verilator makes a library of it, with riser's block in place of the vendor's"
show "$riser" rtl build litepcie.toml

title "On the simulated host: 64 KiB by its DMA, there and back, compared"
show "$riser" run dma.toml --allow-native

title "Its driver, built against the kernel's headers, and its tool"
cp "$package"/software/kernel/{main.c,litepcie.h,config.h,flags.h,litex.h} csr.h soc.h mem.h driver
# The generator leaves where its files lie to the build.
sed -i 's|<generated/soc.h>|"soc.h"|' driver/csr.h
printf 'obj-m = litepcie.o\nlitepcie-objs = main.o\n' >driver/Kbuild
show "$riser" guest build driver
cp driver/litepcie.ko share
user=$package/software/user
gcc -O2 -w -static -Idriver -I"$user/liblitepcie" "$user"/liblitepcie/*.c "$user/litepcie_util.c" -o share/litepcie_util
cp "$example/guest.sh" share/script

title "A stock kernel above it"
echo "\$ riser guest run guest.toml --allow-native --module share/litepcie.ko --share share -- sh /share/script $seconds"
"$riser" guest run guest.toml --allow-native --module share/litepcie.ko --share share --time-limit $((seconds + 300)) -- sh /share/script "$seconds"
title "Done in $((SECONDS - start)) s; all of it is in $out"
