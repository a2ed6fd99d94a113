#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds a release of this commit for this machine's processor, x86-64 or aarch64, into target/dist: a wheel that carries the command, Debian
# packages, a tarball, the bill of materials, the licences of all components, and SHA256SUMS. The same commit gives the same bytes if the
# toolchain is the same: no file contains a time other than the commit's, or a path of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'release: %s\n' "$*" >&2; }

machine=$(uname -m)
case $machine in
    x86_64 | aarch64) ;;
    *)
        say "processor $machine; expected x86_64 or aarch64"
        exit 2
        ;;
esac
[ -z "$(git status --porcelain)" ] || say "warning: uncommitted changes are built, but the version names the commit"

dist=target/dist built=target/release-built release=target/$machine-unknown-linux-gnu/release
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf "$dist" "$built"
mkdir -p "$dist" "$built"

# One command for all, so that cargo compiles each dependency once.
say "building riser, libtlp and the library for Python"
scripts/release/build.sh "$machine" -p riser-cli -p riser-libtlp -p riser-python
cp "$release/riser" "$release/libtlp.so" "$built/"
strip --strip-debug --enable-deterministic-archives -o "$built/libtlp.a" "$release/libtlp.a"

say "packing"
scripts/release/package.py --built "$built" --out "$dist"
if scripts/python.sh --with scripts/release/requirements.txt -c ''; then
    scripts/python.sh --with scripts/release/requirements.txt scripts/release/validate.py "$dist"/*.cdx.json
else
    say "warning: the bill of materials is not validated, because scripts/release/requirements.txt cannot be installed"
fi

say "packing the wheel"
# With the examples, manual pages, completions and licences of the tarball.
rm -rf target/release-tarball
mkdir target/release-tarball
tar --extract --gzip --file "$dist"/riser-*.tar.gz --directory target/release-tarball --strip-components=1
scripts/release/wheel.sh "$release/lib_riser.so" "$machine" "$dist" target/release-tarball/share

(cd "$dist" && sha256sum -- * >SHA256SUMS)
say "$dist has"
cat "$dist/SHA256SUMS"
