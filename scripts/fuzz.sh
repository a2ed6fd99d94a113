#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs each fuzz target for $1 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: needs cargo-fuzz and a nightly toolchain: cargo install cargo-fuzz && rustup toolchain install nightly" >&2
    exit 1
fi
targets=$(cargo +nightly fuzz list)
for target in $targets; do
    echo "fuzz: $target for $1 s" >&2
    mkdir -p "fuzz/corpus/$target"
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- -max_total_time="$1"
done
