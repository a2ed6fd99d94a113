#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Uses an installed riser as an ordinary user does on a machine without Rust, QEMU, Verilator and network. Prints what fails.
#
#   check-installed.sh RISER LABS     the command, and the folder of the example labs
set -eu
riser=$1 labs=$2

fail() {
    echo "check-installed: $*" >&2
    exit 1
}

[ "$(id -u)" != 0 ] || fail "runs as root; expected an ordinary user"
for tool in cargo rustc cc qemu-system-x86_64 verilator; do
    ! command -v "$tool" >/dev/null || fail "$tool is installed; expected a machine without it"
done

# Runs a command; prints its output and fails if it fails or its output lacks the text $1.
prints() {
    text=$1
    shift
    output=$("$@" 2>&1) || fail "$*: exit status $?: $output"
    case $output in
        *"$text"*) ;;
        *) fail "$*: expected \"$text\" in: $output" ;;
    esac
}

# The same for a command that must fail with a message.
refuses() {
    text=$1
    shift
    ! output=$("$@" 2>&1) || fail "$*: expected it to fail: $output"
    case $output in
        "riser: "*"$text"*) ;;
        *) fail "$*: expected \"riser: \" and \"$text\" in: $output" ;;
    esac
}

work=$(mktemp -d)
cd "$work"
prints "riser 0." "$riser" --version
prints "simple-nic" "$riser" check "$labs/ping.toml"
prints "pings_answered 1" "$riser" run "$labs/ping.toml" --capture ping.pcapng
prints "MSI of 01:00.0" "$riser" trace ping.pcapng --filter "type=MWr and dir=up"
"$riser" trace ping.pcapng --html ping.html
[ -s ping.html ] || fail "riser trace wrote no page"
prints "BW_WR" "$riser" bench --suite BW_WR --size 64
prints "BW_WR" "$riser" bench --suite BW_WR --size 64 --host xeon-e5-2637v3
# Each message names the next step.
refuses "--qemu FILE" "$riser" guest run "$labs/ping.toml" -- true
cat >design.toml <<'END'
version = 1
top = "top"
sources = ["top.v"]

[block]
kind = "tlp-stream"
data_width_bits = 64
user_clock_hz = 125_000_000
END
echo "module top; riser_tlp_stream pcie(); endmodule" >top.v
refuses "apt-get install verilator" "$riser" rtl build design.toml
rm -r "$work"
