# SPDX-License-Identifier: Apache-2.0 OR MIT
# Read by each gallery/NAME/run. Goes to the folder of the checkout, and sets `riser` and `out`, the folder of all output.
#
#   RISER=PROGRAM   the riser to run (default: the installed one, or else the newest one built in this checkout)
#   OUT=DIR         folder of all output (default: out/gallery/NAME)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."

# Ends with a message if program $1 is missing; $2 is the next step.
need() {
    command -v "$1" >/dev/null || { echo "gallery: $1 is missing: $2, then run this command again" >&2; exit 1; }
}

riser=${RISER:-$(command -v riser || true)}
if [ -z "$riser" ]; then
    need cargo "install riser (docs/start/install.md)"
    riser=$(scripts/riser.sh)
fi
out=${OUT:-$PWD/out/gallery/$(basename "$here")}
mkdir -p "$out"

# Prints a command of riser as one would type it, then runs it.
show() {
    local word line='$ riser'
    for word; do
        [[ $word =~ ^[A-Za-z0-9./_=:,-]+$ ]] && line+=" $word" || line+=" '$word'"
    done
    echo "$line"
    "$riser" "$@"
}

# Draws the transactions of capture $1 in the output folder that match filter $2, as picture.svg there.
draw() {
    (cd "$out" && show trace "$1" --sequence --filter "$2" --svg picture.svg --force)
}
