#!/bin/sh
# Makes the device copy random bytes and compares the result. Exits with 65 if a copy differs: `riser guest torture` expects this code.
set -u
count=${1:-8}
cd "$(mktemp -d)"
for copy in $(seq "$count"); do
    dd if=/dev/urandom of=bytes bs=65536 count=1 status=none
    # Opens the device once, for writing and reading.
    [ -c /dev/my_device/0 ] && exec 3<>/dev/my_device/0 || exit 1
    dd if=bytes bs=65536 status=none >&3 || exit 1
    dd of=copied bs=65536 count=1 status=none <&3 || exit 1
    exec 3>&-
    cmp bytes copied || exit 65
done
echo "correct copies of 65536 B: $count"
