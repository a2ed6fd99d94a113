#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Shows LitePCIe, a third-party FPGA design, in a slot: on the simulated host, and under a stock Linux kernel with its
# own driver and tools. Uses the riser that RISER names, the newest one that is built, or builds one. Writes only to out/rtl-demo.
# RTL_DEMO_SECONDS: how long LitePCIe's tool sends data in a loop. The tool does not check the first half minute of the
# data.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/out/rtl-demo
example=$PWD/examples/litepcie
seconds=${RTL_DEMO_SECONDS:-100}
python() { scripts/python.sh --with "$example/requirements.txt" "$@"; }
title() { printf '\n== %s\n' "$*"; }
show() { echo "\$ $*"; "$@"; }

riser=${RISER:-$(scripts/riser.sh)}
start=$SECONDS
mkdir -p "$out/share" "$out/driver"

title "LitePCIe 2024.12 generates a four-lane core for a 7-series FPGA"
package=$(python -c 'import os, litepcie; print(os.path.dirname(litepcie.__file__))')
cp "$example"/*.toml "$example/litepcie.yml" "$out"
python -c "import os, sys; os.chdir('$out'); sys.argv = ['litepcie_gen', 'litepcie.yml']; from litepcie.gen import main; main()" \
    >"$out/litepcie_gen.log" 2>&1 || { tail -20 "$out/litepcie_gen.log" >&2; exit 1; }
cd "$out"
wc -l build/gateware/litepcie_core.v
title "Verilator builds a library from it, with riser's block in place of the vendor's"
show "$riser" rtl build litepcie.toml

title "On the simulated host: its DMA loops 64 KiB back, and the data is compared"
show "$riser" run dma.toml --allow-native

title "Its driver, built against the kernel's headers, and its tool"
cp "$package"/software/kernel/{main.c,litepcie.h,config.h,flags.h,litex.h} csr.h soc.h mem.h driver
# The generator leaves include paths to the build.
sed -i 's|<generated/soc.h>|"soc.h"|' driver/csr.h
printf 'obj-m = litepcie.o\nlitepcie-objs = main.o\n' >driver/Kbuild
show "$riser" guest build driver
cp driver/litepcie.ko share
user=$package/software/user
gcc -O2 -w -static -Idriver -I"$user/liblitepcie" "$user"/liblitepcie/*.c "$user/litepcie_util.c" -o share/litepcie_util
cp "$example/guest.sh" share/script

title "Under a stock kernel"
echo "\$ riser guest run guest.toml --allow-native --module share/litepcie.ko --share share -- sh /share/script $seconds"
"$riser" guest run guest.toml --allow-native --module share/litepcie.ko --share share --time-limit $((seconds + 300)) -- sh /share/script "$seconds"
title "Done in $((SECONDS - start)) s; all output is in $out"
