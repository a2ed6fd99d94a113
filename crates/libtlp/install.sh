#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds libtlp.a and libtlp.so, and installs them with their headers and libtlp.pc below a prefix.
#   crates/libtlp/install.sh [PREFIX]                  builds; default prefix: /usr/local
#   crates/libtlp/install.sh --no-build FOLDER PREFIX  takes the libraries from a folder
# If DESTDIR is set, it is prepended to the prefix, for packages.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
if [ "${1:-}" = --no-build ]; then
    [ $# = 3 ] || { echo "usage: install.sh --no-build FOLDER PREFIX" >&2; exit 2; }
    built="$2" prefix="$3"
else
    [ $# -le 1 ] || { echo "usage: install.sh [PREFIX]" >&2; exit 2; }
    prefix="${1:-/usr/local}"
    built="$(dirname "$(cd "$here" && ../../scripts/built.sh libtlp.a --release --package riser-libtlp)")"
fi
case "$prefix" in
    /*) ;;
    *) echo "install.sh: prefix $prefix, expected an absolute path" >&2; exit 2 ;;
esac
version="$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -1)"
to="${DESTDIR:-}$prefix"

install -d "$to/include" "$to/lib/pkgconfig"
install -m 644 "$here/include/libtlp.h" "$here/include/tlp.h" "$to/include/"
install -m 644 "$built/libtlp.a" "$to/lib/"
# The name that the loader looks for is in the library: build.rs.
install -m 755 "$built/libtlp.so" "$to/lib/libtlp.so.0"
ln -sf libtlp.so.0 "$to/lib/libtlp.so"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/libtlp.pc.in" > "$to/lib/pkgconfig/libtlp.pc"
echo "libtlp $version is in $to" >&2
