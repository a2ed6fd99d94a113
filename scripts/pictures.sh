#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Makes all pictures of docs/pictures and gallery, with riser, scripts/pictures/draw.py and a headless Chromium.
#
#   scripts/pictures.sh                   makes them
#   scripts/pictures.sh --check RISER     makes them again elsewhere with this riser, and fails if one differs or is not made here
#
# A check needs no browser, no Verilator and no guest. Such a picture has a file .sha256 with the digests of its sources (the page of a
# screenshot, or the files of an example) and of the picture. An example that needs more than riser and a C compiler runs only if
# its digests have changed.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
made=$folder/made
mkdir -p "$made/docs/pictures" "$folder/shown"
if [ "${1:-}" = --check ]; then
    check=yes riser=$2
else
    check='' riser=$(scripts/built.sh riser --profile quick --quiet -p riser-cli)
    browser=$(command -v chromium || command -v chromium-browser) || { echo "pictures.sh: chromium is missing: run make setup" >&2; exit 1; }
fi

# Runs the command of example $1, with its output in the folder of that name.
run() { OUT=$folder/$1 RISER=$riser "gallery/$1/run" >"$folder/$1.log" 2>&1 || { cat "$folder/$1.log" >&2; exit 1; }; }

# Makes picture $1, a screenshot of page $2 with the fragment $3 at the size $4. A check takes the picture that there is.
screenshot() {
    mkdir -p "$(dirname "$made/$1")"
    if [ "$check" ]; then
        cp "$1" "$made/$1"
    else
        "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb --window-size="$4" \
            --user-data-dir="$folder/profile" --virtual-time-budget=10000 --screenshot="$made/$1" "file://$2#$3" 2>/dev/null
    fi
    cp "$2" "$made/${1%.png}.html"
    (cd "$made" && sha256sum "${1%.png}.html" "$1") >"$made/${1%.png}.sha256"
    rm "$made/${1%.png}.html"
}

# Makes the picture of example $1 by its command.
example() {
    run "$1"
    mkdir -p "$made/gallery/$1"
    cp "$folder/$1/picture.svg" "$made/gallery/$1/"
}

# The same for an example that needs more than riser and a C compiler. Its sources are its own files and $2... It runs if one of them, or
# the picture, has changed since the picture was made.
slow_example() {
    local to=gallery/$1 own
    own=$(find "gallery/$1" -type f ! -name README.md ! -name 'picture.*' ! -path '*/__pycache__/*' | LC_ALL=C sort)
    if [ ! "$check" ] && ! sha256sum --status --check "$to/picture.sha256" 2>/dev/null; then
        example "$1"
    else
        mkdir -p "$made/$to"
        cp "$to/picture.svg" "$made/$to/"
    fi
    (sha256sum $own "${@:2}"; cd "$made"; sha256sum "$to/picture.svg") >"$made/$to/picture.sha256"
}

# The trace page of a NIC that sends and receives frames, at its view of the throughput.
trace_page() {
    local nic=slot.nic.packet-nic
    "$riser" run labs/nic/simple.toml --set $nic.warm_up=100 --set $nic.frames=400 --capture "$folder/nic.pcapng" --dllps >"$folder/report"
    (cd "$folder" && "$riser" trace nic.pcapng --html trace-page.html)
    screenshot docs/pictures/trace-page.png "$folder/trace-page.html" 'theme=light&tab=throughput&select=worst' 1400,860
}

draw() { python3 scripts/pictures/draw.py "$@"; }

trace_page
"$riser" model nic --size 64..1500:4 --svg "$made/docs/pictures/nic-throughput.svg" >"$folder/table"
draw layers docs/architecture.md >"$made/docs/pictures/layers.svg"
for source in scripts/pictures/*.toml; do
    draw "$source" >"$made/docs/pictures/$(basename "$source" .toml).svg"
done

for name in simple-nic nvme peer-to-peer; do
    example "$name"
done
run sweep
screenshot gallery/sweep/picture.png "$folder/sweep/link/report.html" 'theme=light' 1100,760
mkdir -p "$made/gallery/driver-torture"
"$riser" check labs/guest/nvme.toml --set slot.ssd.hot_plug=true --svg "$made/gallery/driver-torture/picture.svg" >"$folder/table"
slow_example dma-engine-linux labs/sriov.toml
slow_example litepcie examples/litepcie/{dma.toml,litepcie.toml,litepcie.yml,requirements.txt}
slow_example nettlp-client labs/nettlp/host.toml crates/libtlp/examples/{dma_read,dma_write}.c
slow_example python-device
slow_example rtl-stream crates/rtl/examples/stream.{toml,v}

if [ "$check" ]; then
    find docs/pictures gallery -name '*.svg' -o -name '*.png' -o -name '*.sha256' | xargs cp --parents -t "$folder/shown"
    diff -rq "$folder/shown" "$made" >&2 || { echo "pictures.sh: docs/pictures and gallery are not what this script makes: run make pictures" >&2; exit 1; }
    exit
fi
cp -r "$made/." .
(cd "$made" && find . -type f) >&2
