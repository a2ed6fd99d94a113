#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds riser with profile-guided optimization: an instrumented build, the runs below to collect profiles, and an optimized
# build. Prints its path. Needs llvm-profdata of the compiler's own LLVM (`rustup component add llvm-tools`).
set -eu
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
profdata=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$profdata" ] || { echo "pgo: rustc has no llvm-profdata; install it with: rustup component add llvm-tools" >&2; exit 1; }
pgo=$PWD/target/pgo
rm -rf "$pgo/counts"
mkdir -p "$pgo"

# Build scripts are not instrumented: they are built for the host, and the flags apply to the target only.
build() {
    RUSTFLAGS="$1" CARGO_TARGET_DIR="$pgo/$2" cargo build --locked --release --target "$host" -p riser-cli
}

build "-Cprofile-generate=$pgo/counts" counting
riser=$pgo/counting/$host/release/riser
run() {
    "$riser" run "$@" >"$pgo/run.log"
}
for lab in write read; do
    for carry in true false; do
        run labs/speed/$lab.toml --set slot.card.pcie-bench.transfers=200000 --set slot.card.pcie-bench.carry=$carry
    done
    run labs/speed/$lab.toml --set slot.card.pcie-bench.transfers=100000 --capture "$pgo/$lab.pcapng" --dllps --force
    "$riser" trace "$pgo/$lab.pcapng" --stats >"$pgo/run.log"
done
run labs/speed/read.toml --set slot.card.pcie-bench.transfers=100000 --set 'host.profile="xeon-e5-2637v3"'
run labs/speed/tree.toml --set limit_us=2000
"$profdata" merge -o "$pgo/riser.profdata" "$pgo/counts"

build "-Cprofile-use=$pgo/riser.profdata" built
echo "$pgo/built/$host/release/riser"
