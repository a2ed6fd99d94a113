#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The compiler of riser's own crates in `make test`: clippy, which lints while it compiles. Tests are not optimized, though their crate may be: a test of
# riser-fabric then compiles in a quarter of the time, and runs half as long again. Cargo has no key that tells a crate from its tests.
set -euo pipefail
arguments=("$@")
for argument in "$@"; do
    if [ "$argument" = --test ]; then
        arguments=("${arguments[@]/#opt-level=*/opt-level=0}")
        break
    fi
done
exec clippy-driver "${arguments[@]}"
