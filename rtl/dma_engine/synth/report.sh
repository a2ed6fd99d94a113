#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the core takes of a 7-series part, by `synth_xilinx -family xc7 -flatten` of Yosys: report.sh [FUNCTIONS...], the physical one among them.
# LUT are those of logic; LUT of memories are RAM32M and RAM64M (4 each), and single ones. BRAM is in units of RAMB36.
set -eu
cd "$(dirname "$0")/.."
OUT=${OUT:-build/synth}
PARAMETERS=${PARAMETERS:-}
mkdir -p "$OUT"
printf '| %s | %s | %s | %s | %s | %s |\n|---|---|---|---|---|---|\n' functions "LUT of logic" "LUT of memories" LUT FF BRAM
for functions in ${*:-2}; do
    yosys -q -p "read_verilog -sv -I. dma_engine_*.sv; chparam -set FUNCTIONS $functions $PARAMETERS dma_engine_core;
        synth_xilinx -family xc7 -flatten -top dma_engine_core; tee -o $OUT/$functions.txt stat" >"$OUT/$functions.log" 2>&1
    # Of several modules, the sum stands last.
    awk -v functions="1 PF + $((functions - 1)) VF" '
        /^===/ { logic = ff = ram = bram = 0 }
        $1 ~ /^LUT[1-6]$/ { logic += $2 }
        $1 ~ /^FD[RSCP]E$/ { ff += $2 }
        $1 ~ /^RAM(32|64)M$/ { ram += 4 * $2 }
        $1 ~ /^RAM64X1S$/ { ram += $2 }
        $1 ~ /^RAM(32|64)X1D$/ { ram += 2 * $2 }
        $1 ~ /^RAM128X1[SD]$/ { ram += ($1 ~ /D/ ? 4 : 2) * $2 }
        $1 == "RAM256X1S" { ram += 4 * $2 }
        $1 ~ /^RAMB36/ { bram += $2 }
        $1 ~ /^RAMB18/ { bram += $2 / 2 }
        END { printf "| %s | %d | %d | %d | %d | %g |\n", functions, logic, ram, logic + ram, ff, bram }' "$OUT/$functions.txt"
done
