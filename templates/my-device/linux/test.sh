#!/bin/sh
# Runs in the guest: uses the device, injects faults, and checks the reactions of kernel and driver.
set -u
job=$(dirname "$0")/job.sh
failed=0

say() {
    echo "$1: $2"
    [ "$1" = ok ] || failed=1
}

# Waits until the device exists and works again.
is_back() {
    for _ in $(seq 300); do
        [ -c /dev/my_device/0 ] && sh "$job" 1 >/dev/null 2>&1 && return
        sleep 0.1
    done
    return 1
}

# Waits up to 10 s for a line in the kernel log that matches $1, then clears the log.
log_has() {
    for _ in $(seq 100); do
        if dmesg | grep -q "$1"; then
            dmesg -c >/dev/null
            return
        fi
        sleep 0.1
    done
    dmesg -c >&2
    return 1
}

is_back && sh "$job" >/dev/null && say ok "copies are correct" || say FAILED "copies"
dmesg -c >/dev/null

lab fault 'slot = "card", direction = "upstream", frames = "tlp", nth = 1, action = "corrupt"'
sh "$job" >/dev/null && log_has 'AER: Correct' && say ok "a corrected error is logged and copies go on" || say FAILED "corrected error"

lab fault 'slot = "card", direction = "upstream", frames = "tlp", nth = 1, action = "uncorrectable-internal"'
sh "$job" >/dev/null 2>&1
log_has 'AER: Uncorrect' && is_back && say ok "the driver recovers from an uncorrectable error" || say FAILED "uncorrectable error"

lab fault 'slot = "card", direction = "downstream", frames = "completion", nth = 3, action = "set-requester", new_requester = "fe:1f.7"'
sh "$job" >/dev/null 2>&1 && say FAILED "a missing completion is not noticed"
is_back && say ok "a completion timeout fails a copy, and the next one works" || say FAILED "completion timeout"

dmesg -c >/dev/null
# The setting deaf_to selects a doorbell that the device ignores.
sh "$job" 60 >/dev/null 2>&1
log_has 'timed out after' && is_back && say ok "a lost doorbell times out, and the next copy works" ||
    say FAILED "lost doorbell; needs --set slot.card.my-device.deaf_to=60"

lab cut card 2000
log_has 'Link Down\|DPC: containment' && is_back && say ok "the driver recovers from a link down" || say FAILED "link"

sh "$job" 100000 >/dev/null 2>&1 &
sleep 0.5
lab remove card
wait $! && say FAILED "a removed device still copies"
log_has 'Card not present' && say ok "copies fail after removal of the device" || say FAILED "removal"
lab insert card
is_back && say ok "copies work again after insertion" || say FAILED "insertion"

dmesg | grep -E 'BUG:|WARNING:|Oops' && say FAILED "the kernel log has a BUG, WARNING or Oops"
exit $failed
