#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Counts the LUT of the core (1 PF + 1 VF) by several methods, because the count depends on the mapper: methods.sh. The
# rows with `-abc9` and `-nowidelut` are options of synth_xilinx. `uniform cost` maps with `abc -lut 6`: each LUT costs
# the same, as in an FPGA with only LUT6. Yosys' default prefers two LUT2 to one LUT6. The last two rows estimate the LUT
# of a vendor's tool: pack.py puts two small LUT into one LUT6 with two outputs.
set -eu
cd "$(dirname "$0")/.."
OUT=${OUT:-build/synth}
PYTHON=${PYTHON:-python3}
mkdir -p "$OUT"
printf '| %s | %s | %s |\n|---|---|---|\n' method LUT FF
for options in "" -abc9 -nowidelut "-abc9 -nowidelut"; do
    OPTIONS=$options OUT="$OUT/methods" synth/report.sh 2 2>"$OUT/methods.log" |
        awk -F '|' -v method="synth_xilinx${options:+ $options}" '$2 ~ /PF/ { printf "| `%s` |%s|%s|\n", method, $5, $6 }'
done
xilinx="synth_xilinx -family xc7 -flatten -nowidelut -top dma_engine_core"
yosys -q -p "read_verilog -sv -I. dma_engine_*.sv; $xilinx -run begin:map_luts;
    opt_expr -mux_undef -noclkinv; abc -lut 6; clean; techmap -map +/xilinx/ff_map.v; xilinx_srl -fixed -minlen 3;
    techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6; xilinx_dffopt; opt_lut_ins -tech xilinx;
    $xilinx -run finalize:check; setattr -mod -unset keep_hierarchy *; flatten; clean; write_json $OUT/uniform.json" >"$OUT/uniform.log" 2>&1
"$PYTHON" synth/pack.py "$OUT/uniform.json"
