#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a Python program with the wheels that it needs, which are put into target/python once: those of registers/requirements.txt, or of
# the file behind --with. Exit status 77: they cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=registers/requirements.txt
if [ "${1:-}" = --with ]; then
    wanted=$2
    shift 2
fi
venv=target/python/$(dirname "$wanted" | tr / -)
if ! cmp -s "$wanted" "$venv/installed"; then
    python3 -m venv "$venv" || exit 77
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" || exit 77
    cp "$wanted" "$venv/installed"
fi
PATH="$PWD/$venv/bin:$PATH" exec "$venv/bin/python" "$@"
