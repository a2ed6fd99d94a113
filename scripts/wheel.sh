#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds the manylinux wheel of riser for Python, which carries the riser command, for this machine's processor or for
# TARGET. aarch64 builds on any machine, because zig's linker can also link against its glibc of 2014.
#
#   scripts/wheel.sh [x86_64|aarch64 [FOLDER]]     default folder: target/wheels
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-$(uname -m)}
folder=${2:-target/wheels}
case $target in
    x86_64 | aarch64) ;;
    *)
        echo "wheel: unknown TARGET $target; expected x86_64 or aarch64" >&2
        exit 2
        ;;
esac
triple=$target-unknown-linux-gnu
if ! rustup target list --installed 2>/dev/null | grep -q "^$triple$"; then
    rustup target add "$triple"
fi
scripts/release/build.sh "$target" -p riser-python
scripts/release/wheel.sh "target/$triple/release/lib_riser.so" "$target" "$folder"
ls -l "$folder"
