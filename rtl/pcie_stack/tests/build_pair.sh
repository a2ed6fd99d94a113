#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds two complete ports back to back: build_pair.sh TOP NAME PARAMETER=VALUE... makes build/tests/NAME/TOP. TOP is pair or figures. The harness gets
# the parameters as macros. CXXFLAGS and VERILATOR_X (--x-assign and --x-initial of Verilator) are for builds that measure speed.
set -eu
cd "$(dirname "$0")/.."
top=$1 name=$2
shift 2
out=build/tests/$name
sources="./pcie_phy*.sv ./pcie_dll*.sv ./pcie_ram.sv ./pcie_timing_model.sv ./*.svh"
[ "$top" = pair ] || sources="$sources ./pcie_tl*.sv ./pcie_port.sv"
if [ -e "$out/$top" ] && [ -z "$(find $sources tests/$top.* tests/build_pair.sh -newer "$out/$top")" ]; then exit 0; fi
rm -rf "$out" && mkdir -p "$out"
verilator --cc -O3 --x-assign ${VERILATOR_X:-unique} --x-initial ${VERILATOR_X:-unique} --noassert -Wno-fatal -y . -I. $(printf ' -G%s' "$@") --Mdir "$out" --top-module "$top" "tests/$top.sv"
root=$(verilator --getenv VERILATOR_ROOT)/include
flags="${CXXFLAGS:--O1} -std=c++17 -w -I$out -I$root -I$root/vltstd -DVM_TRACE=0 $(printf ' -D%s' "$@")"
for source in "$root/verilated.cpp" "$root/verilated_threads.cpp" "tests/$top.cpp" "$out"/*.cpp; do
    case $source in /*) echo "#include \"$source\"" ;; *) echo "#include \"$PWD/$source\"" ;; esac
done >"$out/all.cc"
g++ $flags -x c++ "$out/all.cc" -o "$out/$top" -lpthread -latomic
