#!/vm/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# lab COMMAND: does something to the links of the lab below which this guest runs. `lab help` lists the commands.

if [ "$1" = help ] || [ $# = 0 ]; then
    echo "lab cut NAME [MICROSECONDS]   the link above a slot or switch goes down; up again after that time"
    echo "lab restore NAME              and up again"
    echo "lab remove NAME, insert NAME  what stands in a hot-plug capable slot is pulled out, put back"
    echo "lab attention NAME            the slot's attention button is pressed"
    echo "lab speed NAME GEN LANES      the link retrains, and has that generation and as many lanes from then on"
    echo "lab fault KEY = VALUE, ...    a fault, as [[fault]] of a lab file; frames are counted from now on"
    echo "lab clear [NAME]              faults end, those of the lab's file too: of one link, or all"
    echo "lab cable NAME down|up        the cable of a NIC (cable = outside) is pulled out, put back"
    echo "lab time                      the fabric's time in picoseconds"
    echo "lab start NAME, kill NAME     a guest that has virtual functions (--assign) begins, ends at once"
    echo "lab wait NAME                 until such a guest has ended, with its exit status"
    echo "lab state NAME                waits, runs, exited STATUS, or ended: WHY"
    exit
fi
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name" 2>/dev/null)" = riser.links ] && device=/dev/${port##*/}
done
[ "$device" ] || { echo "lab: no port riser.links" >&2; exit 1; }

# Sets $answer.
ask() {
    # The port can be open once.
    tries=0
    until exec 3<>"$device"; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || exit 1
        usleep 10000
    done 2>/dev/null
    echo "$*" >&3
    read -r answer <&3
    exec 3>&-
    case $answer in
    error:*) echo "lab: ${answer#error: }" >&2; exit 1 ;;
    esac
}

if [ "$1" = wait ]; then
    ask state "$2"
    while [ "$answer" = "ok runs" ]; do
        usleep 100000
        ask state "$2"
    done
    case $answer in
    "ok exited "*) exit "${answer#ok exited }" ;;
    *) echo "lab: $2 ${answer#ok }" >&2; exit 1 ;;
    esac
fi
ask "$*"
[ "$answer" = ok ] || echo "${answer#ok }"
