# SPDX-License-Identifier: Apache-2.0 OR MIT
# Reads blocks of $@ MiB from the NVMe controller by dd, and prints for each block the size, and before and after: the fabric's time in ps,
# the kernel's time in ns, and how much of it the processor was idle. The size 0 is a dd that reads nothing.
set -e
rmmod nvme
# A queue of two entries has one command in flight, as the IDE disk of the paper.
modprobe nvme io_queue_depth=2
tries=0
until [ -b /dev/nvme0n1 ]; do
	usleep 10000
	tries=$((tries + 1))
	[ $tries -lt 1000 ]
done
for function in /sys/bus/pci/devices/*; do
	[ "$(cat $function/vendor) $(cat $function/device)" != "0x7269 0x000a" ] || clock=$function
done
echo 1 >$clock/enable
read -r address _ <$clock/resource
now() {
	printf ' %d' $(busybox devmem $address 64)
	awk '{ gsub(":", " ") } $1 == "now" { now = $3 } $1 == ".idle_sleeptime" || $1 == ".iowait_sleeptime" { idle += $2 } END { printf " %.0f %.0f", now, idle }' /proc/timer_list
}
for size in 0 "$@"; do
	before=$(now)
	dd if=/dev/nvme0n1 of=/dev/null bs=$((size > 0 ? size : 1))M count=$((size > 0)) iflag=direct 2>/dev/null
	echo "dd $size$before$(now)"
done
