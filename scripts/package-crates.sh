#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Packages the crates for publication into target/package, and compiles each from its package: those of which the manifest does not say
# `publish = false`. Cargo sorts them by their dependencies. Arguments go to `cargo package`, such as --no-verify.
set -euo pipefail
cd "$(dirname "$0")/.."
crates=$(cargo metadata --locked --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(*(p["name"] for p in json.load(sys.stdin)["packages"] if p["publish"] is None))')
# shellcheck disable=SC2086 # one argument each
cargo package --locked $(printf -- ' -p %s' $crates) "$@"
