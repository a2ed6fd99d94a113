#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs a Python program with the wheels that it needs, which are installed into target/python once. The wheels are
# listed in registers/requirements.txt, or in the file given with --with. --path adds a folder with further packages.
# Exit status 77: the wheels cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=registers/requirements.txt
if [ "${1:-}" = --with ]; then
    wanted=$2
    shift 2
fi
path=
if [ "${1:-}" = --path ]; then
    path=$2
    shift 2
fi
# Ignores packages and folders that the user's environment adds.
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX
export PIP_USER=0
venv=target/python/$(dirname "$wanted" | tr / -)
# Packages are installed for one specific version of Python.
state=$(python3 --version && cat "$wanted") || exit 77
installed() { [ "$(cat "$venv/installed" 2>/dev/null)" = "$state" ]; }
if ! installed; then
    # Tests run at the same time. One of them installs, and the others wait for it; without `flock` nothing protects the folder.
    mkdir -p target/python
    exec 9>"$venv.lock"
    ! command -v flock >/dev/null || flock --timeout 600 9 || exit 77
fi
if ! installed; then
    echo "python.sh: installing the wheels of $wanted" >&2
    python3 -m venv --clear "$venv" || exit 77
    "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" || exit 77
    echo "$state" >"$venv/installed"
fi
exec 9>&-
[ -z "$path" ] || export PYTHONPATH=$path
PATH="$PWD/$venv/bin:$PATH" exec "$venv/bin/python" "$@"
