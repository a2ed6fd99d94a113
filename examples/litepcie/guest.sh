# SPDX-License-Identifier: Apache-2.0 OR MIT
# Runs in the guest: LitePCIe's own tools on its own driver, then shows how tools and driver handle faults. The first
# argument is the number of seconds for which data circulates. The tool does not check the first 268 MB.
dmesg -n 1
function=10000:03:00.0
at=/sys/bus/pci/devices/$function
number=0

title() { printf '\n== %s\n' "$*"; }
kernel() { dmesg -c | grep -v -e IRQs -e 'too late' | sed 's/^\[[ 0-9.]*\] //' | tail -6; }

# Runs dma_test, during which a fault happens. Prints the last line of the tool and the kernel's messages.
round_trip() {
    dmesg -c >/dev/null
    /share/litepcie_util -c $number -t 4 dma_test | tail -1
    kernel
}

# Resets the function with a hot reset, then removes and rescans it.
renew() {
    echo $function >/sys/bus/pci/drivers/litepcie/unbind
    echo 1 >$at/reset
    echo 1 >$at/remove
    echo 1 >/sys/bus/pci/rescan
    number=$(ls /dev/litepcie* | tail -1)
    number=${number#/dev/litepcie}
}

title "$(uname -sr): the driver has found the function"
dmesg -c | grep litepcie
lspci -s $function
/share/litepcie_util info
/share/litepcie_util scratch_test
title "litepcie_util -t $1 dma_test: through host memory and back by rings, then compared"
/share/litepcie_util -t "$1" dma_test >/tmp/dma
head -4 /tmp/dma
tail -3 /tmp/dma
echo "wrong words: $(awk 'NF == 5 && $5 ~ /^[0-9]+$/ { wrong += $5 } END { print wrong + 0 }' /tmp/dma)"
kernel
grep litepcie /proc/interrupts

fault='slot = "fpga", direction = "downstream", frames = "completion", nth = 1000'
title "A completion is withheld: the core has no timeout"
(sleep 2; lab fault "$fault, action = \"set-tag\", new_tag = 31") &
round_trip
renew
echo "after a hot reset:"
round_trip
title "A completion says Unsupported Request"
(sleep 2; lab fault "$fault, action = \"set-status\", status = \"unsupported-request\"") &
round_trip
renew
echo "after a hot reset:"
round_trip
title "The link retrains to 2.5 GT/s x1, and back"
(sleep 1; lab speed fpga 1 1; sleep 1; lab speed fpga 2 4) &
round_trip
title "A hot reset during the test"
(sleep 2; echo 1 >$at/reset) &
round_trip
renew
echo "after another:"
round_trip
title "The link is cut for a millisecond"
(sleep 1; lab cut fpga 1000) &
round_trip
renew
echo "after a hot reset:"
round_trip
