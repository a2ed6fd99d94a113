#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a Python program of this project with the wheels that it needs, which are put into target/python once. Exit status 77: they
# cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/python
wanted=registers/requirements.txt
if ! cmp -s "$wanted" "$venv/installed"; then
    python3 -m venv "$venv" || exit 77
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" || exit 77
    cp "$wanted" "$venv/installed"
fi
exec "$venv/bin/python" "$@"
