#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Writes a new version into every file that has riser's version: Cargo.toml, CITATION.cff and Cargo.lock. Cargo.toml repeats it for each
# published crate, because [workspace.dependencies] cannot inherit [workspace.package].
#
#   scripts/set-version.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/.."

new=${1:-}
[[ $new =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "set-version: version \"$new\"; expected three numbers, such as 0.2.0" >&2; exit 2; }
old=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
sed -i "s/^\(version = \|.* path = \"crates\/.* version = \)\"${old//./\\.}\"/\1\"$new\"/" Cargo.toml
sed -i "s/^version: .*/version: $new/" CITATION.cff
# Cargo updates the lock file, and leaves the versions of all other crates.
cargo metadata --offline --format-version 1 >/dev/null
