#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Builds the documentation site in target/book with mdBook and checks its links; --serve PORT also serves it on loopback. With --optional, a
# missing mdBook is not an error: only the links of docs/ are checked.
set -euo pipefail
cd "$(dirname "$0")/.."

optional=
if [ "${1:-}" = --optional ]; then
    optional=yes
    shift
fi
with_mdbook=(scripts/python.sh --with docs/requirements.txt)
if ! "${with_mdbook[@]}" -c ''; then
    rm -rf target/book
    echo "site.sh: the site is skipped: mdBook (docs/requirements.txt) cannot be installed" >&2
    [ -n "$optional" ] || exit 1
    exec python3 scripts/links.py
fi
"${with_mdbook[@]}" scripts/build-site.py
python3 scripts/links.py
echo "site.sh: the site is target/book/index.html" >&2
[ "${1:-}" != --serve ] || exec "${with_mdbook[@]}" scripts/build-site.py --serve "$2"
