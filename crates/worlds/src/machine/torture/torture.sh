#!/vm/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# torture: injects a schedule of faults while a workload runs repeatedly, and reports the kernel's reaction. The environment has
# RISER_MODULE, RISER_WORKLOAD and RISER_FIRST (number of the first fault here). A fault is a line of the program torture-schedule:
# milliseconds to wait, the name, and the command.
#
# It prints lines for riser: "alive" at intervals; "begun" after the first run of the workload; "fault NUMBER NAME" before each fault;
# "round well" or "round failed" after each run; "rescue NUMBER NAME"; "found TEXT". The last line is "over", "unable TEXT" if there is
# no function to torture, or "gone TEXT" if this kernel stops working.

work=/tmp/torture
# Seconds until a driver counts as having given up, and until that counts as final.
back_s=15
rescued_s=180
# Seconds until a step and a workload count as hanging. A kernel waits for up to 65 s after an FLR, and as long after a reset of the link.
step_s=200
wait_s=300

say() {
    echo "$*"
}

found() {
    say "found $*"
}

gone() {
    say "gone $*"
    exit 1
}

# Runs a command for at most $1 seconds. Returns 124 if the time is over. A process that hangs in the kernel cannot be
# killed.
within() {
    limit=$1
    shift
    { "$@"; echo $? >&4; } &
    read -r -t "$limit" status <&4 || status=124
    return "$status"
}

# Lists the functions bound to the module's drivers.
functions() {
    for driver in /sys/module/"$RISER_MODULE"/drivers/pci:*; do
        ls "/sys/bus/pci/drivers/${driver##*pci:}" 2>/dev/null
    done | grep : | sort
}

# Prints one of these, selected by the number $1.
one_of_them() {
    count=$(functions | wc -l)
    [ "$count" -gt 0 ] && functions | sed -n "$(($1 % count + 1))p"
}

driver_of() {
    basename "$(readlink "/sys/bus/pci/devices/$1/driver")"
}

# Waits for up to $1 seconds until there are as many functions as at the start.
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

# Injects one fault.
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
        # The function may vanish during the step. The function must be back at the end.
        echo "$device" >"$driver/unbind" || true
        echo "$device" >"$driver/bind" || true
        ;;
    rescan)
        device=$(one_of_them "$1") && [ "$device" ] || return 0
        echo 1 >"/sys/bus/pci/devices/$device/remove" || true
        echo 1 >/sys/bus/pci/rescan
        ;;
    *) lab fault "$*" ;;
    esac
}

# A driver may give a device up permanently. After a rescan it must bind to the device again.
find_anew() {
    for device in $known; do
        [ -e "/sys/bus/pci/devices/$device/remove" ] && echo 1 >"/sys/bus/pci/devices/$device/remove"
    done
    echo 1 >/sys/bus/pci/rescan
}

# Follows the kernel's log. If a reader ends because messages came too fast, another one starts.
kernel_log() {
    while :; do
        cat /dev/kmsg 2>/dev/null
        sleep 1
    done
}

# Reports the kernel's own messages with the number of the latest fault. A shell reads single bytes, which /dev/kmsg
# does not provide.
watch_kernel() {
    last=-1
    kernel_log | while IFS=, read -r _ sequence line; do
        [ "$sequence" -gt $last ] 2>/dev/null || continue
        last=$sequence
        case $line in
        *BUG:* | *WARNING:* | *Oops* | *"general protection"* | *UBSAN* | *"INFO: task"* | *"soft lockup"* | *"hard LOCKUP"* | \
            *"self-detected stall"* | *"detected stalls"* | *"possible circular"* | *"possible recursive"* | *"list_add corruption"* | \
            *"list_del corruption"* | *"scheduling while atomic"* | *"new suspected memory leaks"*)
            found "kernel, after fault $(cat $work/at): ${line#*;}"
            ;;
        esac
    done
}

slabs() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sleep 2
    awk 'NR > 2 { print $1, $2 }' /proc/slabinfo | sort
}

# Runs the workload. Returns its exit status; 65 (EX_DATAERR) means lost data.
once() {
    timeout -s KILL "$wait_s" /usr/bin/sh -c "$RISER_WORKLOAD" >$work/said 2>&1
    status=$?
    if [ $status = 65 ]; then
        found "lost data, after fault $(cat $work/at): $(tail -n 3 $work/said | tr '\n' ' ')"
    fi
    return $status
}

again_and_again() {
    while [ ! -e $work/stop ]; do
        if once; then say round well; else say round failed; fi
        usleep 100000
    done
}

# Injects one fault, and waits until the driver has recovered.
endure() {
    # The mark orders faults and kernel messages in the log.
    echo "torture: fault $*" >/dev/kmsg
    say "fault $1 $2"
    number=$1 name=$2
    shift
    within $step_s step "$@" >$work/step 2>&1
    case $? in
    0) ;;
    124) gone "fault $number, $*: the step does not end" ;;
    *) found "fault $number, $*: $(tail -n 1 $work/step)" ;;
    esac
    are_back $back_s && return
    say "rescue $number $name"
    within $step_s find_anew >$work/step 2>&1
    [ $? != 124 ] || gone "fault $number, $*: rediscovery does not end"
    are_back $rescued_s || gone "fault $number, $*: no function is back"
}

mkdir -p $work
mkfifo $work/ends
exec 4<>$work/ends
at=$((RISER_FIRST - 1))
echo "$at" >$work/at
known=$(functions)
expected=$(echo "$known" | grep -c :)
[ "$expected" -gt 0 ] || { say "unable module $RISER_MODULE has no function here"; exit 2; }
[ -e /proc/sys/kernel/hung_task_timeout_secs ] && echo 150 >/proc/sys/kernel/hung_task_timeout_secs
watch_kernel &
watcher=$!
while say alive; do sleep 10; done &
pulse=$!
within $((wait_s + 30)) once || { say "unable the workload fails before any fault, with status $status: $(tail -n 3 $work/said | tr '\n' ' ')"; exit 2; }
slabs >$work/before
say begun
again_and_again &
load=$!
# Linux leaves Uncorrectable Internal Error masked, the default (PCIe 5.0 §7.8.4.3). A port that loses a write would not report it.
for port in /sys/bus/pci/devices/*; do
    case $(cat "$port/class") in
    0x0604*) setpci -s "${port##*/}" ECAP_AER+8.l=0:400000 2>/dev/null ;;
    esac
done

torture-schedule >$work/schedule
while read -r pause step; do
    at=$((at + 1))
    usleep $((pause * 1000))
    echo "$at, $step" >$work/at
    # shellcheck disable=SC2086 # The arguments of a step are words, those of a fault one text.
    endure $at $step
done <$work/schedule
touch $work/stop
for _ in $(seq $((wait_s + 30))); do
    kill -0 $load 2>/dev/null || break
    sleep 1
done
kill -0 $load 2>/dev/null && gone "the workload does not end"
are_back $rescued_s
within $((wait_s + 30)) once || found "the workload fails after all faults, with status $status: $(tail -n 1 $work/said)"
within $step_s slabs >$work/after || gone "after all faults, sync fails or does not end"
# A growth by one object or more per fault is a leak. Smaller changes are normal.
faults=$((at - RISER_FIRST + 1))
join $work/before $work/after 2>/dev/null | awk -v faults=$faults '$3 - $2 >= faults && $3 - $2 >= 100 { print }' >$work/grown
while read -r name before after; do found "slab $name: $before objects before, $after after $faults faults"; done <$work/grown
if [ -w /sys/kernel/debug/kmemleak ]; then
    echo scan >/sys/kernel/debug/kmemleak
    sleep 6
    echo scan >/sys/kernel/debug/kmemleak
    grep -A 4 '^unreferenced object' /sys/kernel/debug/kmemleak | tr '\n' ' ' | sed 's/--/\n/g' >$work/leaks
    while read -r line; do found "leak: $line"; done <$work/leaks
fi
kill $watcher $pulse 2>/dev/null
say over
