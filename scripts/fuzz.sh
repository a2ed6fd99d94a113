#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs each fuzz target for $1 seconds. Installs the nightly toolchain and cargo-fuzz if they are
# missing.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! rustup run nightly cargo --version >/dev/null 2>&1; then
    echo "fuzz: adding a nightly toolchain, which the sanitizers need" >&2
    rustup toolchain install nightly --profile minimal
fi
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzz: installing cargo-fuzz" >&2
    cargo install --locked --quiet cargo-fuzz
fi
targets=$(cargo +nightly fuzz list)
for target in $targets; do
    echo "fuzz: $target for $1 s" >&2
    mkdir -p "fuzz/corpus/$target"
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- -max_total_time="$1"
done
