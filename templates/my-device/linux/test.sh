#!/bin/sh
# In the guest: has the device do its job, breaks something, and looks at what kernel and driver make of it.
set -u
job=$(dirname "$0")/job.sh
failed=0

say() {
    echo "$1: $2"
    [ "$1" = ok ] || failed=1
}

# Waits until the device is there and does its job again.
is_back() {
    for _ in $(seq 300); do
        [ -c /dev/my_device/0 ] && sh "$job" 1 >/dev/null 2>&1 && return
        sleep 0.1
    done
    return 1
}

# Whether the kernel says so, from now until in 10 s, or has said so since the last of these.
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

is_back && sh "$job" >/dev/null && say ok "copies are what was written" || say FAILED "copies"
dmesg -c >/dev/null

lab fault 'slot = "card", direction = "upstream", frames = "tlp", nth = 1, action = "corrupt"'
sh "$job" >/dev/null && log_has 'AER: Correct' && say ok "a corrected error is logged, and copies go on" || say FAILED "corrected error"

lab fault 'slot = "card", direction = "upstream", frames = "tlp", nth = 1, action = "uncorrectable-internal"'
sh "$job" >/dev/null 2>&1
log_has 'AER: Uncorrect' && is_back && say ok "an uncorrectable error is recovered from" || say FAILED "uncorrectable error"

lab fault 'slot = "card", direction = "downstream", frames = "completion", nth = 3, action = "set-requester", new_requester = "fe:1f.7"'
sh "$job" >/dev/null 2>&1 && say FAILED "a completion that does not come is not noticed"
is_back && say ok "a completion timeout fails a copy, and the next one works" || say FAILED "completion timeout"

dmesg -c >/dev/null
# A doorbell that the device does not hear: its setting deaf_to says which.
sh "$job" 60 >/dev/null 2>&1
log_has 'has not ended in' && is_back && say ok "a stuck doorbell times out, and the next copy works" ||
    say FAILED "stuck doorbell; the device is deaf to one with --set slot.card.my-device.deaf_to=60"

lab cut card 2000
log_has 'Link Down\|DPC: containment' && is_back && say ok "a link that goes down and comes back is recovered from" || say FAILED "link"

sh "$job" 100000 >/dev/null 2>&1 &
sleep 0.5
lab remove card
wait $! && say FAILED "a device that is pulled out still copies"
log_has 'Card not present' && say ok "a device that is pulled out fails its copies" || say FAILED "removal"
lab insert card
is_back && say ok "and works when it is back" || say FAILED "insertion"

dmesg | grep -E 'BUG:|WARNING:|Oops' && say FAILED "the kernel complains"
exit $failed
