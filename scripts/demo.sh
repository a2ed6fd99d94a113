#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The main job, shown step by step. Needs nothing but Rust; writes to out/demo only.
set -euo pipefail
cd "$(dirname "$0")/.."

title() { printf '\n== %s\n' "$*"; }

# Prints a command as it is typed, then runs it.
show() {
    printf '$ %s\n' "riser $*"
    "$riser" "$@"
}

cargo build --release --quiet -p riser-cli
riser=${CARGO_TARGET_DIR:-target}/release/riser

title "What the wire lets writes and reads reach at Gen3 x8: counted, and as the pcie-bench paper has it"
show model bw --size 64..1024 --gen 3 --lanes 8
show model bw --size 64..1024 --gen 3 --lanes 8 --form published

captures=../shared/data/nettlp-captures
if [ -d "$captures" ]; then
    title "A real capture: a root complex reads 512 B in eight pieces and puts its completions together again"
    show trace "$captures/root-complex/mrd-512byte-rc.pcap"
fi
