# SPDX-License-Identifier: Apache-2.0 OR MIT
# Functions that the scripts of guests share.

# Devices of the domain, by their addresses.
d=/sys/bus/pci/devices

# counts: prints the kernel's error counters, one per line: function, counter, number.
counts() {
    # Print at least one line.
    awk 'BEGIN { print "function counter 0" } $NF > 0 && !/TOTAL/ { n = split(FILENAME, path, "/"); sub(/aer_(dev|rootport)_/, "", path[n]); print path[n - 1], path[n], $0 }' \
        $d/10000*/aer_dev_* $d/10000*/aer_rootport_*
}

# begin NAME: starts a section of the output with this heading.
begin() {
    counts >/tmp/counted
    dmesg -c >/dev/null
    echo "== $1"
}

# end TEXT: waits at most four seconds until the kernel log contains TEXT, then prints the new log and the counted errors.
end() {
    tries=0
    until dmesg | grep -qF -e "$1" || [ $tries = 40 ]; do
        tries=$((tries + 1))
        usleep 100000
    done
    usleep 50000
    dmesg -c | sed 's/^\[ *[0-9.]*\] //'
    counted /tmp/counted
}

# counted FILE: prints the errors that the kernel has counted since `counts` wrote FILE.
counted() {
    counts | awk 'NR == FNR { n = $NF; $NF = ""; was[$0] = n; next } { n = $NF; $NF = ""; if (n > was[$0]) print $0 "+" n - was[$0] }' "$1" -
}

# ids DEVICE: reads Vendor ID and Device ID by one CfgRd.
ids() { setpci -s "$1" 0.l; }

# memory DEVICE OFFSET [WIDTH [VALUE]]: reads or writes BAR 0.
memory() { devmem $(($(head -1 "$d/$1/resource" | cut -d' ' -f1) + $2)) "${3:-32}" $4; }

# Memory that the kernel does not use, because of `memmap` on its command line.
free=0x10000000
# rings DEVICE: sets up the rings of a DMA engine at the start of that memory.
rings() {
    h2d=0 d2h=0
    echo 1 >"$d/$1/reset"
    ring "$1" 0x1000 $free
    ring "$1" 0x1080 $((free + 0x2000))
}
# ring DEVICE ENGINE ADDRESS: sets RING, ENTRIES, WRITE_BACK, and CONTROL with ENABLE and HOST_RING.
ring() { memory "$1" $(($2 + 8)) 32 "$3"; memory "$1" $(($2 + 0x10)) 32 16; memory "$1" $(($2 + 0x20)) 32 $(($3 + 0x1000)); memory "$1" "$2" 32 3; }

# descriptor PLACE ADDRESS BYTES: writes a descriptor.
descriptor() { devmem "$1" 64 "$2"; devmem $(($1 + 8)) 64 "$3"; devmem $(($1 + 16)) 64 0; }
# dma_reads DEVICE ADDRESS BYTES, dma_writes DEVICE ADDRESS BYTES: let the device read or write memory.
dma_reads() { descriptor $((free + h2d % 16 * 32)) "$2" "$3"; h2d=$((h2d + 1)); memory "$1" 0x1014 32 $h2d; }
dma_writes() { descriptor $((free + 0x2000 + d2h % 16 * 32)) "$2" "$3"; d2h=$((d2h + 1)); memory "$1" 0x1094 32 $d2h; }
