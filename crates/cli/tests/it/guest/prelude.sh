# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the scripts of guests have in common.

# Devices of the domain by their places in the tree.
d=/sys/bus/pci/devices

# What the kernel has counted of errors, a line each: function, counter, number.
counts() {
    # One line at least.
    awk 'BEGIN { print "function counter 0" } $NF > 0 && !/TOTAL/ { n = split(FILENAME, path, "/"); sub(/aer_(dev|rootport)_/, "", path[n]); print path[n - 1], path[n], $0 }' \
        $d/10000*/aer_dev_* $d/10000*/aer_rootport_*
}

# begin NAME: what happens from here on stands below this heading.
begin() {
    counts >/tmp/counted
    dmesg -c >/dev/null
    echo "== $1"
}

# end TEXT: until the kernel has said TEXT, four seconds at most; then all that it has said, and what it has counted meanwhile.
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

# counted FILE: what the kernel has counted since `counts` wrote that file.
counted() {
    counts | awk 'NR == FNR { n = $NF; $NF = ""; was[$0] = n; next } { n = $NF; $NF = ""; if (n > was[$0]) print $0 "+" n - was[$0] }' "$1" -
}

# Vendor ID and Device ID, by one CfgRd.
ids() { setpci -s "$1" 0.l; }

# memory DEVICE OFFSET [WIDTH [VALUE]]: reads or writes behind BAR 0.
memory() { devmem $(($(head -1 "$d/$1/resource" | cut -d' ' -f1) + $2)) "${3:-32}" $4; }

# Memory that the kernel leaves alone: `memmap` of its command line.
free=0x10000000
# rings DEVICE: the rings of a DMA engine, in that memory, from the beginning.
rings() {
    h2d=0 d2h=0
    echo 1 >"$d/$1/reset"
    ring "$1" 0x1000 $free
    ring "$1" 0x1080 $((free + 0x2000))
}
# ring DEVICE ENGINE ADDRESS: RING, ENTRIES, WRITE_BACK, and CONTROL with ENABLE and HOST_RING.
ring() { memory "$1" $(($2 + 8)) 32 "$3"; memory "$1" $(($2 + 0x10)) 32 16; memory "$1" $(($2 + 0x20)) 32 $(($3 + 0x1000)); memory "$1" "$2" 32 3; }

# descriptor PLACE ADDRESS BYTES
descriptor() { devmem "$1" 64 "$2"; devmem $(($1 + 8)) 64 "$3"; devmem $(($1 + 16)) 64 0; }
# dma_reads DEVICE ADDRESS BYTES, dma_writes DEVICE ADDRESS BYTES: the device does.
dma_reads() { descriptor $((free + h2d % 16 * 32)) "$2" "$3"; h2d=$((h2d + 1)); memory "$1" 0x1014 32 $h2d; }
dma_writes() { descriptor $((free + 0x2000 + d2h % 16 * 32)) "$2" "$3"; d2h=$((d2h + 1)); memory "$1" 0x1094 32 $d2h; }
