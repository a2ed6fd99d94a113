#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds one parameter set of a top module for the tests: build.sh TOP NAME PARAMETER=VALUE... makes build/tests/NAME. It contains
# libdll.so and soak for pcie_dll, libtl.so for pcie_tl, and port_soak for pcie_port. DATA_WIDTH and some other parameters are also told
# to the harness. CRCs have the structure that is synthesized.
set -eu
cd "$(dirname "$0")/.."
top=$1 name=$2
shift 2
width=256 longest=544 vcs=1 ecrc=0
for parameter; do
    case $parameter in
        DATA_WIDTH=*) width=${parameter#*=} ;;
        MAX_TLP_BYTES=*) longest=${parameter#*=} ;;
        NUM_VCS=*) vcs=${parameter#*=} ;;
        ECRC=*) ecrc=${parameter#*=} ;;
    esac
done
out=build/tests/$name
mkdir -p "$out"
# Skip the build if no source is newer.
if [ -e "$out/done" ] && [ -z "$(find ./*.sv ./*.svh tests/*.cpp tests/*.hpp tests/build.sh -newer "$out/done")" ]; then exit 0; fi
rm -rf "$out" && mkdir -p "$out"
verilator --cc -O3 --x-assign unique --x-initial unique --noassert -DLCRC_ROWS=4 -y . -I. $(printf ' -G%s' "$@") --Mdir "$out" --top-module "$top" "$top.sv"
root=$(verilator --getenv VERILATOR_ROOT)/include
flags="-O${OPTIMIZE:-2} -std=c++17 -fPIC -w -I$out -I$root -I$root/vltstd -DDATA_WIDTH=$width -DMAX_TLP=$longest -DNUM_VCS=$vcs -DECRC=$ecrc -DVM_TRACE=0"
g++ $flags -c "$root/verilated.cpp" -o "$out/verilated.o"
g++ $flags -c "$root/verilated_threads.cpp" -o "$out/verilated_threads.o"
for source in "$out"/*.cpp; do g++ $flags -c "$source" -o "${source%.cpp}.o"; done
case $top in
    pcie_dll)
        g++ $flags -shared tests/library.cpp "$out"/*.o -o "$out/libdll.so" -lpthread
        g++ $flags tests/soak.cpp "$out"/*.o -o "$out/soak" -lpthread -latomic
        ;;
    pcie_tl) g++ $flags -shared tests/tl_library.cpp "$out"/*.o -o "$out/libtl.so" -lpthread ;;
    pcie_port) g++ $flags tests/port_soak.cpp "$out"/*.o -o "$out/port_soak" -lpthread -latomic ;;
esac
touch "$out/done"
