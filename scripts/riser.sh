#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Prints the path of the newest riser that is built in this checkout, or builds one.
set -euo pipefail
target=$(cargo metadata --locked --no-deps --format-version 1 | sed -n 's|.*"target_directory":"\([^"]*\)".*|\1|p')
# With a build target set, cargo writes to a folder of that name, such as x86_64-unknown-linux-gnu.
newest=$(ls -t "$target"/{release,quick,debug}/riser "$target"/*-*-*/{release,quick,debug}/riser 2>/dev/null | head -1 || true)
if [ -z "$newest" ]; then
    echo "building riser (the first time takes a few minutes)" >&2
    newest=$("$(dirname "$0")/built.sh" riser --profile quick --quiet -p riser-cli)
fi
echo "$newest"
