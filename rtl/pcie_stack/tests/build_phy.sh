#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds one parameter set of the physical layer for the tests: build_phy.sh NAME PARAMETER=VALUE... makes build/tests/NAME/libphy.so. The harness
# gets the parameters as macros.
set -eu
cd "$(dirname "$0")/.."
name=$1
shift
out=build/tests/$name
if [ -e "$out/libphy.so" ] && [ -z "$(find ./pcie_phy*.sv ./*.svh tests/phy_library.cpp tests/build_phy.sh -newer "$out/libphy.so")" ]; then exit 0; fi
rm -rf "$out" && mkdir -p "$out"
verilator --cc -O3 --x-assign unique --x-initial unique --noassert -y . -I. $(printf ' -G%s' "$@") --Mdir "$out" --top-module pcie_phy pcie_phy.sv
root=$(verilator --getenv VERILATOR_ROOT)/include
flags="${CXXFLAGS:--O0} -std=c++17 -fPIC -w -I$out -I$root -I$root/vltstd -DVM_TRACE=0 $(printf ' -D%s' "$@")"
# One compilation unit: it takes half the time.
for source in "$root/verilated.cpp" "$root/verilated_threads.cpp" tests/phy_library.cpp "$out"/*.cpp; do
    case $source in /*) echo "#include \"$source\"" ;; *) echo "#include \"$PWD/$source\"" ;; esac
done >"$out/all.cc"
g++ $flags -shared -x c++ "$out/all.cc" -o "$out/libphy.so" -lpthread
