#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds the SoC in Verilator: build.sh ROCKET NAME PARAMETER=VALUE... makes build/soc/NAME/soc. ROCKET is the folder of Rocket's Verilog. CXXFLAGS sets the optimization.
set -eu
cd "$(dirname "$0")/.."
rocket=$1 name=$2
shift 2
out=build/soc/$name
if [ -e "$out/soc" ] && [ -z "$(find ./*.sv ./*.svh soc/*.sv soc/*.cpp soc/*.hpp soc/build.sh "$rocket" -newer "$out/soc")" ]; then exit 0; fi
rm -rf "$out" && mkdir -p "$out"
# SYNTHESIS leaves out Rocket's trace of each instruction.
verilator --cc -O3 --x-assign fast --x-initial fast --noassert -Wno-fatal -Wno-lint +define+SYNTHESIS -y . -y soc -I. $(printf ' -G%s' "$@") --Mdir "$out" \
    --output-split 20000 --top-module soc_test soc/soc_test.sv "$rocket"/*.v
root=$(verilator --getenv VERILATOR_ROOT)/include
export TMPDIR="$PWD/$out"  # of the compiler
export FLAGS="${CXXFLAGS:--O2} -std=c++17 -w -I$out -Isoc -I$root -I$root/vltstd -DVM_TRACE=0 -DDATA_WIDTH=128"
ls "$root/verilated.cpp" "$root/verilated_threads.cpp" soc/soc.cpp "$out"/*.cpp |
    xargs -P "$(nproc)" -I{} sh -c 'g++ $FLAGS -c "$1" -o "$2/$(basename "$1").o"' - {} "$out"
g++ "$out"/*.o -o "$out/soc" -lpthread -latomic
