#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds one parameter set for the tests: build.sh NAME PARAMETER=VALUE... makes build/tests/NAME/{libdll.so,soak}. DATA_WIDTH and MAX_TLP_BYTES
# are also told to the harness.
set -eu
cd "$(dirname "$0")/.."
name=$1
shift
width=256 longest=544
for parameter; do
    case $parameter in
        DATA_WIDTH=*) width=${parameter#*=} ;;
        MAX_TLP_BYTES=*) longest=${parameter#*=} ;;
    esac
done
out=build/tests/$name
mkdir -p "$out"
# Skip the build if no source is newer.
if [ -e "$out/soak" ] && [ -z "$(find ./*.sv ./*.svh tests/*.cpp tests/*.hpp tests/build.sh -newer "$out/soak")" ]; then exit 0; fi
rm -rf "$out" && mkdir -p "$out"
verilator --cc -O3 --x-assign unique --x-initial unique --noassert -y . -I. $(printf ' -G%s' "$@") --Mdir "$out" --top-module pcie_dll pcie_dll.sv
root=$(verilator --getenv VERILATOR_ROOT)/include
flags="-O2 -std=c++17 -fPIC -w -I$out -I$root -I$root/vltstd -DDATA_WIDTH=$width -DMAX_TLP=$longest -DVM_TRACE=0"
g++ $flags -c "$root/verilated.cpp" -o "$out/verilated.o"
g++ $flags -c "$root/verilated_threads.cpp" -o "$out/verilated_threads.o"
for source in "$out"/*.cpp; do g++ $flags -c "$source" -o "${source%.cpp}.o"; done
g++ $flags -shared tests/library.cpp "$out"/*.o -o "$out/libdll.so" -lpthread
g++ $flags tests/soak.cpp "$out"/*.o -o "$out/soak" -lpthread -latomic
