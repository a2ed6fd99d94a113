#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Packs a built lib_riser.so and the Python files of riser into a wheel, and checks that the wheel runs with glibc 2.17.
#
#   scripts/release/wheel.sh LIBRARY x86_64|aarch64 FOLDER [SHARE]     SHARE: a folder share, which pip puts next to the folder bin of riser
set -euo pipefail
# The same modes of folders for every user.
umask 022
library=$(realpath "$1") target=$2
mkdir -p "$3"
folder=$(realpath "$3")
share=${4:+$(realpath "$4")}
cd "$(dirname "$0")/../.."
python() { scripts/python.sh --with crates/python/requirements.txt "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
# The description of the package. `maturin build` would compile the library a second time.
python -m maturin pep517 write-dist-info --locked --interpreter python3 --target "$target-unknown-linux-gnu" --metadata-directory "$tree" >&2
(cd crates/python/python && git ls-files -z | xargs -0 cp --parents --target-directory "$tree")
cp "$library" "$tree/riser/_riser.abi3.so"
find "$tree" -type f -exec chmod 644 {} +
if [ -n "$share" ]; then
    info=$(echo "$tree"/riser-*.dist-info)
    mkdir -p "${info%.dist-info}.data/data"
    cp -r "$share" "${info%.dist-info}.data/data/share"
fi
python -m wheel pack "$tree" --dest-dir "$work" >&2
# Sets the tag manylinux_2_17, or fails if the library needs a newer glibc or other libraries.
python -m auditwheel repair --plat "manylinux_2_17_$target" --only-plat --wheel-dir "$folder" "$work"/riser-*.whl >&2
