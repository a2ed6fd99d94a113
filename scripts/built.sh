#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds with cargo and prints the path of a built file. Cargo reports the path, because CARGO_BUILD_TARGET and cargo's configuration change it.
#
#   scripts/built.sh FILE [ARGUMENT...]     arguments of `cargo build`
set -euo pipefail
file=$1
shift
built=$(cargo build --locked --message-format=json-render-diagnostics "$@" | sed -n "s|.*\"\([^\"]*/$file\)\".*|\1|p" | tail -1)
[ -n "$built" ] || { echo "built.sh: cargo build $* built no file $file" >&2; exit 1; }
echo "$built"
