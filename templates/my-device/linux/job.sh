#!/bin/sh
# Has the device copy random bytes, and compares. Exits with 65 where the copy is not what was written, as `riser guest torture` has it.
set -u
count=${1:-8}
cd "$(mktemp -d)"
for copy in $(seq "$count"); do
    dd if=/dev/urandom of=bytes bs=65536 count=1 status=none
    # Both ends of one open file.
    [ -c /dev/my_device/0 ] && exec 3<>/dev/my_device/0 || exit 1
    dd if=bytes bs=65536 status=none >&3 || exit 1
    dd of=copied bs=65536 count=1 status=none <&3 || exit 1
    exec 3>&-
    cmp bytes copied || exit 65
done
echo "copies of 65536 B that are what was written: $count"
