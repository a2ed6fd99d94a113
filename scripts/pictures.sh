#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Makes all pictures of docs/pictures, with riser, scripts/pictures/draw.py and a headless Chromium.
#
#   scripts/pictures.sh                   makes them
#   scripts/pictures.sh --check RISER     makes them again elsewhere with this riser, and fails if one differs or is not made here
#
# A check needs no browser: a file .sha256 has the digests of the page that a screenshot shows, and of the screenshot.
set -euo pipefail
cd "$(dirname "$0")/.."

pictures=docs/pictures
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
if [ "${1:-}" = --check ]; then
    riser=$2
else
    riser=$(scripts/built.sh riser --profile quick --quiet -p riser-cli)
fi

# The trace page of a NIC that sends and receives frames, at its view of the throughput.
trace_page() {
    local nic=slot.nic.packet-nic
    "$riser" run labs/nic/simple.toml --set $nic.warm_up=100 --set $nic.frames=400 --capture "$made/nic.pcapng" --dllps >"$made/report"
    (cd "$made" && "$riser" trace nic.pcapng --html trace-page.html)
    rm "$made/nic.pcapng" "$made/report"
}

draw() { python3 scripts/pictures/draw.py "$@"; }

trace_page
"$riser" model nic --size 64..1500:4 --svg "$made/nic-throughput.svg" >"$made/table"
rm "$made/table"
draw layers docs/architecture.md >"$made/layers.svg"
for source in scripts/pictures/*.toml; do
    draw "$source" >"$made/$(basename "$source" .toml).svg"
done

# Digests of the page of a screenshot, and of the screenshot in docs/pictures.
digests() {
    (cd "$made" && sha256sum "$1.html")
    (cd "$pictures" && sha256sum "$1.png")
}

if [ "${1:-}" = --check ]; then
    cp "$pictures/trace-page.png" "$made/"
    digests trace-page >"$made/trace-page.sha256"
    rm "$made/trace-page.html"
    diff -rq "$pictures" "$made" >&2 || { echo "pictures.sh: docs/pictures is not what this script makes: run make pictures" >&2; exit 1; }
    exit
fi

browser=$(command -v chromium || command -v chromium-browser) || { echo "pictures.sh: chromium is missing: run make setup" >&2; exit 1; }
mkdir -p "$pictures"
"$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb --window-size=1400,860 \
    --user-data-dir="$made/profile" --virtual-time-budget=10000 --screenshot="$PWD/$pictures/trace-page.png" \
    "file://$made/trace-page.html#theme=light&tab=throughput&select=worst" 2>/dev/null
digests trace-page >"$pictures/trace-page.sha256"
mv "$made"/*.svg "$pictures/"
ls "$pictures" >&2
