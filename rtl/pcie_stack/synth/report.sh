#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Reports resources per module and in all, and the longest path: report.sh TOP [PARAMETER=VALUE...]. TOP is a module of this directory.
# Runs the steps of `synth_xilinx -nowidelut -family FAMILY` of Yosys, but maps to LUTs by `abc LUTS`. FAMILY is xcup and LUTS is `-lut 6` unless they are
# set: each LUT counts as one, as in the report. The command's own weights, LUTS="-luts 2:2,3,6:5", prefer many small LUTs, and wide multiplexers
# (MUXF7 and up) cost LUTs in the XORs of the CRCs. Modules are counted without those in them. The last row is the flattened design, in which Yosys
# shares logic across modules. LUT of memories are distributed RAM and shift registers. The path is the number of cells between registers by `ltp`: LUTs and carry
# chains, 8 bits a cell; memories end a path.
set -eu
cd "$(dirname "$0")/.."
OUT=${OUT:-build/synth}
FAMILY=${FAMILY:-xcup}
LUTS=${LUTS:--lut 6}
mkdir -p "$OUT"
top=$1
shift
set_all=$(for parameter; do printf ' -set %s %s' "${parameter%=*}" "${parameter#*=}"; done)
[ -z "$set_all" ] || set_all="chparam$set_all $top;"
read_all="read_verilog -sv -I. pcie_*.sv; $set_all hierarchy -check -top $top"

# map [-flatten]: reads the design and maps it to cells of the family
map() {
    echo "$read_all; synth_xilinx -nowidelut -family $FAMILY $* -top $top -run begin:map_luts; opt_expr -mux_undef -noclkinv; abc $LUTS; clean;
        techmap -map +/xilinx/ff_map.v; xilinx_srl -fixed -minlen 3; techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6;
        xilinx_dffopt; opt_lut_ins -tech xilinx; clean"
}

row() { # NAME FILE: the cells of the last module in FILE
    awk -v name="$1" '
        /^===/ { logic = ff = ram = bram = 0 }
        $1 ~ /^LUT[1-6]$/ || $1 == "INV" { logic += $2 }
        $1 ~ /^FD[RSCP]E$/ { ff += $2 }
        $1 ~ /^RAM(32|64)M$/ { ram += 4 * $2 }
        $1 ~ /^RAM(32|64)M16$/ { ram += 8 * $2 }
        $1 ~ /^RAM64(X8SW|M8)$/ { ram += 8 * $2 }
        $1 ~ /^RAM(32|64)X1S$/ { ram += $2 }
        $1 ~ /^RAM(32|64)X1D$/ { ram += 2 * $2 }
        $1 ~ /^RAM128X1[SD]$/ { ram += ($1 ~ /D/ ? 4 : 2) * $2 }
        $1 ~ /^RAM256X1[SD]$/ { ram += ($1 ~ /D/ ? 8 : 4) * $2 }
        $1 ~ /^RAM512X1S$/ { ram += 8 * $2 }
        $1 ~ /^SRL(16|C32)E$/ { ram += $2 }
        $1 ~ /^RAMB36/ { bram += $2 }
        $1 ~ /^RAMB18/ { bram += $2 / 2 }
        END { printf "| %s | %d | %d | %d | %g |\n", name, logic, ram, ff, bram }' "$2"
}

printf '| %s | %s | %s | %s | %s |\n|---|---|---|---|---|\n' module "LUT of logic" "LUT of memories" FF BRAM
yosys -q -p "$(map); tee -o $OUT/modules.txt stat" >"$OUT/modules.log" 2>&1
# One file for each module of the hierarchical report.
rm -f "$OUT"/part_*.txt
awk -v out="$OUT" '/^=== / { name = $2; sub(/^\$paramod(\$[0-9a-f]*)?\\/, "", name); sub(/\\.*/, "", name); if (name == "design") exit; file = out "/part_" name ".txt" } file { print > file }' "$OUT/modules.txt"
for part in "$OUT"/part_*.txt; do
    name=${part##*/part_}
    row "${name%.txt}" "$part"
done
yosys -q -p "$(map -flatten); tee -o $OUT/flat.txt stat; delete t:FD*E t:RAM*; tee -o $OUT/path.txt ltp" >"$OUT/flat.log" 2>&1
row "all, flattened" "$OUT/flat.txt"
sed -n 's/^Longest topological path in .*(length=\([0-9]*\)).*/Longest path: \1 cells/p' "$OUT/path.txt"
