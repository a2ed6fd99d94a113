#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds with cargo, and prints the path of a built file. The path comes from cargo, since CARGO_BUILD_TARGET and cargo's configuration change it.
#
#   scripts/built.sh FILE [ARGUMENT...]     arguments of `cargo build`
set -euo pipefail
file=$1
shift
built=$(cargo build --locked --message-format=json-render-diagnostics "$@" | sed -n "s|.*\"\([^\"]*/$file\)\".*|\1|p" | tail -1)
[ -n "$built" ] || { echo "built.sh: cargo build $* makes no $file" >&2; exit 1; }
echo "$built"
