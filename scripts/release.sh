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

triple=$machine-unknown-linux-gnu
dist=target/dist built=target/release-built notices=crates/python/python/riser/licences
unset CARGO_BUILD_TARGET
export CARGO_TARGET_DIR=$PWD/target
# Without symbols, as users install it.
export CARGO_PROFILE_RELEASE_STRIP=symbols CARGO_PROFILE_RELEASE_DEBUG=false
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
crates=${CARGO_HOME:-$HOME/.cargo}/registry/src
RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$crates=/crates --remap-path-prefix=$PWD=/riser"
export SOURCE_DATE_EPOCH RUSTFLAGS
rm -rf "$dist" "$built" "$notices"
mkdir -p "$dist" "$built"

say "building riser and libtlp"
scripts/python.sh --with crates/python/requirements.txt -c ''
# With zig's linker, as for the wheel: the programs run on every Linux with glibc 2.17, which is of 2012, or later.
PATH="$PWD/target/python/crates-python/bin:$PATH" cargo zigbuild --locked --release --target "$triple.2.17" -p riser-cli -p riser-libtlp
cp "target/$triple/release/riser" "target/$triple/release/libtlp.so" "$built/"
strip --strip-debug --enable-deterministic-archives -o "$built/libtlp.a" "target/$triple/release/libtlp.a"

say "packing"
scripts/release/package.py --built "$built" --out "$dist"
if scripts/python.sh --with scripts/release/requirements.txt -c ''; then
    scripts/python.sh --with scripts/release/requirements.txt scripts/release/validate.py "$dist"/*.cdx.json
else
    say "warning: the bill of materials is not validated, because scripts/release/requirements.txt cannot be installed"
fi

say "building the wheel"
# Deleted at the end, because only a release has it.
trap 'rm -rf "$notices"' EXIT
mkdir "$notices"
tar --extract --gzip --file "$dist"/riser-*.tar.gz --directory "$notices" --strip-components=4 --wildcards '*/third-party-licences.txt' '*/rust-library.html'
scripts/wheel.sh "$machine" "$dist"

(cd "$dist" && sha256sum -- * >SHA256SUMS)
say "$dist has"
cat "$dist/SHA256SUMS"
