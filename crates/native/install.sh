#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Installs riser_device.h and riser-device.pc below PREFIX, by default /usr/local. If DESTDIR is set, it is put before
# this path.
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
[ $# -le 1 ] || { echo "usage: install.sh [PREFIX]" >&2; exit 2; }
prefix="${1:-/usr/local}"
case "$prefix" in
    /*) ;;
    *) echo "install.sh: prefix $prefix, expected an absolute path" >&2; exit 2 ;;
esac
version="$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -1)"
to="${DESTDIR:-}$prefix"

install -d "$to/include" "$to/lib/pkgconfig"
install -m 644 "$here/include/riser_device.h" "$to/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/riser-device.pc.in" > "$to/lib/pkgconfig/riser-device.pc"
echo "riser_device.h $version installed in $to" >&2
