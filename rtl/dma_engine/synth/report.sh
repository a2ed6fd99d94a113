#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Prints the resources of the core on a 7-series part, from `synth_xilinx -family xc7 -flatten` of Yosys: report.sh
# [FUNCTIONS...], which includes the physical function. LUT of logic are counted one by one. LUT of memories are RAM32M
# and RAM64M (4 LUT each), and single memory LUT. BRAM is in units of RAMB36. Fails if a limit in limits.txt is
# exceeded. The limits apply to one version of Yosys; with another version, and with PARAMETERS or OPTIONS of
# synth_xilinx in the environment, they are ignored.
set -eu
cd "$(dirname "$0")/.."
OUT=${OUT:-build/synth}
PARAMETERS=${PARAMETERS:-}
OPTIONS=${OPTIONS:-}
mkdir -p "$OUT"
version=$(yosys -V | cut -d ' ' -f 2)
limits=$(sed -n 's/.* with Yosys \([0-9.]*\):.*/\1/p' synth/limits.txt)
[ "$version" = "$limits" ] || echo "Yosys $version: the limits are for $limits and are ignored" >&2
over=0
printf '| %s | %s | %s | %s | %s | %s |\n|---|---|---|---|---|---|\n' functions "LUT of logic" "LUT of memories" LUT FF BRAM
for functions in ${*:-2}; do
    yosys -q -p "read_verilog -sv -I. dma_engine_*.sv; chparam -set FUNCTIONS $functions $PARAMETERS dma_engine_core;
        synth_xilinx -family xc7 -flatten $OPTIONS -top dma_engine_core; tee -o $OUT/$functions.txt stat" >"$OUT/$functions.log" 2>&1
    # With several modules, the sum comes last.
    row=$(awk -v functions="1 PF + $((functions - 1)) VF" '
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
        END { printf "| %s | %d | %d | %d | %d | %g |\n", functions, logic, ram, logic + ram, ff, bram }' "$OUT/$functions.txt")
    echo "$row"
    [ -z "$PARAMETERS$OPTIONS" ] && [ "$version" = "$limits" ] || continue
    # Columns of the row: functions, LUT of logic, LUT of memories, LUT, FF, BRAM.
    echo "$row" | awk -F '|' -v functions="$functions" '
        NR == FNR { lut = $5; ff = $6; bram = $7; next }
        $0 !~ /^#/ { split($0, most, " "); if (most[1] == functions && (lut > most[2] || ff > most[3] || bram > most[4])) exit 1 }
    ' - synth/limits.txt || { echo "$functions functions: more than limits.txt allows" >&2; over=1; }
done
exit $over
