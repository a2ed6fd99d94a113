#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Shows riser's main features step by step. The demo needs only Rust, and writes only to out/demo. If RISER_SHARED_DATA
# names a folder with nettlp-captures, shows a real capture in place of statistics.
set -euo pipefail
cd "$(dirname "$0")/.."

out=out/demo
captures=${RISER_SHARED_DATA:+$RISER_SHARED_DATA/nettlp-captures}

title() { printf '\n== %s\n' "$*"; }

# Prints a command as a user would type it, then runs it.
show() {
    printf '$ riser %s\n' "$*"
    "$riser" "$@"
}

echo "building riser (the first time takes a few minutes)" >&2
riser=$(scripts/built.sh riser --profile quick --quiet -p riser-cli)

title "A device in software: the host pings through a simple NIC (labs/ping.toml)"
show run labs/ping.toml --capture "$out/ping.pcapng" --force
title "Its TLPs, one line each (without the host's enumeration): doorbells, descriptors, packets, interrupts"
echo "\$ riser trace $out/ping.pcapng | grep -E 'MWr|MRd|requester 01:00.0'"
"$riser" trace "$out/ping.pcapng" | grep -E 'MWr|MRd|requester 01:00.0'

title "How fast: the pcie-bench tests on a Gen3 x8 link, simulated and by the closed form"
show bench --size 64..2048 -o "$out/bench" --force

if [ -d "$captures" ]; then
    title "A real capture: a root complex reads 512 B in eight pieces and assembles the completions"
    show trace "$captures/root-complex/mrd-512byte-rc.pcap"
else
    title "Statistics of that capture"
    show trace "$out/ping.pcapng" --stats
fi

title "Output files"
cat <<END
  $out/ping.pcapng         the ping: Wireshark or tshark (UDP inside Ethernet), riser trace
  $out/bench/results.csv   the table with all settings: a spreadsheet, pandas, gnuplot, riser compare
  $out/bench/results.json  the same with the link's counters
  labs/                       the labs: riser run LAB.toml, riser check LAB.toml
END
