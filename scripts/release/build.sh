#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds with cargo for a release, into target/TARGET-unknown-linux-gnu/release: without symbols, and without a path of this machine. zig's
# linker makes programs and libraries that run on every Linux with glibc 2.17, which is of 2012, or later.
#
#   scripts/release/build.sh x86_64|aarch64 [ARGUMENT...]     arguments of `cargo build`
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$1
shift

unset CARGO_BUILD_TARGET
export CARGO_TARGET_DIR=$PWD/target
export CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_DEBUG=false
# The library for Python uses the stable ABI, so it is the same for every installed Python.
export PYO3_NO_PYTHON=1
crates=${CARGO_HOME:-$HOME/.cargo}/registry/src
export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$crates=/crates --remap-path-prefix=$PWD=/riser"
scripts/python.sh --with crates/python/requirements.txt -c ''
PATH="$PWD/target/python/crates-python/bin:$PATH" cargo zigbuild --locked --release --target "$target-unknown-linux-gnu.2.17" "$@"
