#!/vm/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# torture: goes through a schedule of faults while a workload runs again and again, and says what the kernel made of it. Its arguments are
# in the environment: RISER_MODULE, RISER_WORKLOAD, RISER_SEED, RISER_JSON. A fault is a line of the program torture-schedule: milliseconds to
# wait, its name, and what it is done with.

work=/tmp/torture
# Until a driver is taken to have given up; and until that is taken to be for good.
back_s=15
rescued_s=60
wait_s=300

# The functions that the module's drivers have.
functions() {
    for driver in /sys/module/"$RISER_MODULE"/drivers/pci:*; do
        ls "/sys/bus/pci/drivers/${driver##*pci:}" 2>/dev/null
    done | grep : | sort
}

# One of them, by a number that was drawn.
one_of_them() {
    count=$(functions | wc -l)
    [ "$count" -gt 0 ] && functions | sed -n "$(($1 % count + 1))p"
}

driver_of() {
    basename "$(readlink "/sys/bus/pci/devices/$1/driver")"
}

# Waits until there are as many functions as in the beginning, for so many seconds.
are_back() {
    for _ in $(seq $(($1 * 10))); do
        [ "$(functions | wc -l)" -ge "$expected" ] && return
        usleep 100000
    done
    return 1
}

are_gone() {
    for _ in $(seq 100); do
        [ "$(functions | wc -l)" -lt "$expected" ] && return
        usleep 100000
    done
}

# One fault.
step() {
    name=$1
    shift
    case $name in
    cut) lab cut "$1" "$2" ;;
    removal)
        lab remove "$1"
        are_gone
        lab insert "$1"
        ;;
    speed) lab speed "$1" "$2" "$3" ;;
    flr)
        device=$(one_of_them "$1") && [ "$device" ] || return 0
        # A function whose link is down cannot be reset.
        echo 1 >"/sys/bus/pci/devices/$device/reset" 2>/dev/null || true
        ;;
    rebind)
        device=$(one_of_them "$1") && [ "$device" ] || return 0
        driver=/sys/bus/pci/drivers/$(driver_of "$device")
        echo "$device" >"$driver/unbind"
        echo "$device" >"$driver/bind"
        ;;
    rescan)
        device=$(one_of_them "$1") && [ "$device" ] || return 0
        echo 1 >"/sys/bus/pci/devices/$device/remove"
        echo 1 >/sys/bus/pci/rescan
        ;;
    *) lab fault "$*" ;;
    esac
}

# A driver may give a device up for good; found anew, it is to take it again.
rescue() {
    echo "$1 $2" >>$work/rescues
    for device in $known; do
        [ -e "/sys/bus/pci/devices/$device/remove" ] && echo 1 >"/sys/bus/pci/devices/$device/remove"
    done
    echo 1 >/sys/bus/pci/rescan
}

found() {
    echo "$*" >>$work/findings
}

# What the kernel says of itself, with the number of the fault before it.
watch_kernel() {
    while IFS= read -r line; do
        case $line in
        *BUG:* | *WARNING:* | *Oops* | *"general protection"* | *UBSAN* | *"INFO: task"* | *"soft lockup"* | *"hard LOCKUP"* | \
            *"self-detected stall"* | *"detected stalls"* | *"possible circular"* | *"possible recursive"* | *DMA-API* | *"list_add corruption"* | \
            *"list_del corruption"* | *"scheduling while atomic"* | *"new suspected memory leaks"*)
            found "kernel, after fault $(cat $work/at): ${line#*;}"
            ;;
        esac
    done </dev/kmsg
}

slabs() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sleep 2
    awk 'NR > 2 { print $1, $2 }' /proc/slabinfo | sort
}

# A workload's exit status; 65 says that it has found data lost (EX_DATAERR).
once() {
    timeout -s KILL "$wait_s" sh -c "$RISER_WORKLOAD" >$work/said 2>&1
    status=$?
    if [ $status = 65 ]; then
        found "lost data, after fault $(cat $work/at): $(tail -n 3 $work/said | tr "\n" " ")"
    fi
    return $status
}

again_and_again() {
    while [ ! -e $work/stop ]; do
        if once; then echo well; else echo failed; fi >>$work/rounds
        usleep 100000
    done
}

count() {
    grep -c "$1" "$2" 2>/dev/null || true
}

if [ "$1" = step ]; then
    expected=$(cat $work/expected)
    shift
    step "$@"
    exit
fi

mkdir -p $work
echo 0 >$work/at
: >$work/findings
: >$work/rescues
: >$work/rounds
: >$work/kinds
expected=$(functions | wc -l)
known=$(functions)
echo "$expected" >$work/expected
[ "$expected" -gt 0 ] || { echo "torture: module $RISER_MODULE has no function here" >&2; exit 2; }
[ -e /proc/sys/kernel/hung_task_timeout_secs ] && echo 60 >/proc/sys/kernel/hung_task_timeout_secs
watch_kernel &
watcher=$!
once || { echo "torture: the workload fails before any fault: $(tail -n 3 $work/said)" >&2; exit 2; }
slabs >$work/before
again_and_again &
load=$!
begin=$(cut -d. -f1 /proc/uptime)
at=0
# Linux leaves Uncorrectable Internal Error masked, as it is by default (PCIe 5.0 §7.8.4.3): a port that loses a write would tell nobody.
for port in /sys/bus/pci/devices/*; do
    case $(cat "$port/class") in
    0x0604*) setpci -s "${port##*/}" ECAP_AER+8.l=0:400000 2>/dev/null ;;
    esac
done

torture-schedule >$work/schedule
while read -r pause name arguments; do
    at=$((at + 1))
    echo $at >$work/at
    usleep $((pause * 1000))
    # So that the kernel's log tells what came before what.
    echo "torture: fault $at, $name $arguments" >/dev/kmsg
    echo "$name" >>$work/kinds
    # shellcheck disable=SC2086 # What a step is done with are words, but for a fault's, which are one text.
    timeout -s KILL 120 "$0" step "$name" $arguments >$work/step 2>&1 || found "fault $at, $name $arguments: $(tail -n 1 $work/step)"
    if ! are_back $back_s; then
        rescue $at "$name"
        are_back $rescued_s || { found "fault $at, $name $arguments: no function is back"; break; }
    fi
    [ $((at % 25)) = 0 ] && echo "torture: fault $at, $(count well $work/rounds) rounds ended well, $(count failed $work/rounds) failed" >&2
done <$work/schedule
seconds=$(($(cut -d. -f1 /proc/uptime) - begin))
touch $work/stop
for _ in $(seq $((wait_s + 30))); do
    kill -0 $load 2>/dev/null || break
    sleep 1
done
kill -0 $load 2>/dev/null && found "the workload does not end"
are_back $rescued_s
once || found "the workload fails when all faults are over: $(tail -n 1 $work/said)"
slabs >$work/after
# An object for each fault is more than what comes and goes.
join $work/before $work/after 2>/dev/null | awk -v faults=$at '$3 - $2 >= faults && $3 - $2 >= 100 { print }' >$work/grown
while read -r name before after; do found "slab $name: $before objects before, $after after $at faults"; done <$work/grown
if [ -w /sys/kernel/debug/kmemleak ]; then
    echo scan >/sys/kernel/debug/kmemleak
    sleep 6
    echo scan >/sys/kernel/debug/kmemleak
    grep -A 4 '^unreferenced object' /sys/kernel/debug/kmemleak | tr '\n' ' ' | sed 's/--/\n/g' >$work/leaks
    while read -r line; do found "leak: $line"; done <$work/leaks
fi
kill $watcher 2>/dev/null
kinds=$(sort $work/kinds | uniq -c | awk '{ print $2 ": " $1 }')
if [ "$RISER_JSON" ]; then
    list() { sed 's/\\/\\\\/g; s/"/\\"/g; s/[[:cntrl:]]/ /g; s/.*/"&"/' "$1" | paste -sd, -; }
    echo "{\"seed\": $RISER_SEED, \"faults\": $at, \"seconds\": $seconds, \"kinds\": {$(echo "$kinds" | sed 's/^\(.*\):/"\1":/' | paste -sd, -)}," \
        "\"rounds_well\": $(count well $work/rounds), \"rounds_failed\": $(count failed $work/rounds)," \
        "\"rescues\": [$(list $work/rescues)], \"findings\": [$(list $work/findings)]}"
else
    echo "seed $RISER_SEED: $at faults in $seconds s ($(echo "$kinds" | paste -sd, - | sed 's/,/, /g'))"
    echo "workload: $(count well $work/rounds) rounds ended well, $(count failed $work/rounds) failed under faults"
    echo "found anew, since the driver had given up: $(grep -c . $work/rescues)"
    sed 's/^/  after fault /' $work/rescues
    echo "findings: $(grep -c . $work/findings)"
    sed 's/^/  /' $work/findings
fi
[ ! -s $work/findings ]
