#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds two complete ports back to back: build_pair.sh NAME PARAMETER=VALUE... makes build/tests/NAME/pair. The harness gets the
# parameters as macros.
set -eu
cd "$(dirname "$0")/.."
name=$1
shift
out=build/tests/$name
if [ -e "$out/pair" ] && [ -z "$(find ./pcie_phy*.sv ./pcie_dll*.sv ./pcie_timing_model.sv ./*.svh tests/pair.* tests/build_pair.sh -newer "$out/pair")" ]; then exit 0; fi
rm -rf "$out" && mkdir -p "$out"
verilator --cc -O3 --x-assign unique --x-initial unique --noassert -Wno-fatal -y . -I. $(printf ' -G%s' "$@") --Mdir "$out" --top-module pair tests/pair.sv
root=$(verilator --getenv VERILATOR_ROOT)/include
flags="${CXXFLAGS:--O1} -std=c++17 -w -I$out -I$root -I$root/vltstd -DVM_TRACE=0 $(printf ' -D%s' "$@")"
for source in "$root/verilated.cpp" "$root/verilated_threads.cpp" tests/pair.cpp "$out"/*.cpp; do
    case $source in /*) echo "#include \"$source\"" ;; *) echo "#include \"$PWD/$source\"" ;; esac
done >"$out/all.cc"
g++ $flags -x c++ "$out/all.cc" -o "$out/pair" -lpthread -latomic
