#!/vm/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# lab COMMAND: controls the links of the lab below this guest. `lab help` lists the commands.

if [ "$1" = help ] || [ $# = 0 ]; then
    echo "lab cut NAME [MICROSECONDS]   take the link above a slot or switch down; up again after that time"
    echo "lab restore NAME              bring the link up again"
    echo "lab remove NAME, insert NAME  pull the card out of a hot-plug capable slot, put it back"
    echo "lab attention NAME            press the slot's attention button"
    echo "lab speed NAME GEN LANES      retrain the link to this generation and number of lanes"
    echo "lab fault KEY = VALUE, ...    add a fault, as [[fault]] of a lab file; frames are counted from now on"
    echo "lab clear [NAME]              end the faults of one link or of all, including those of the lab file"
    echo "lab cable NAME down|up        pull the cable of a NIC (cable = outside), put it back"
    echo "lab time                      print the fabric's time in picoseconds"
    echo "lab start NAME, kill NAME     start or kill a guest that has virtual functions (--assign)"
    echo "lab wait NAME                 wait until such a guest ends; exit with its status"
    echo "lab state NAME                print its state: waits, runs, exited STATUS, or ended: WHY"
    exit
fi
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name" 2>/dev/null)" = riser.links ] && device=/dev/${port##*/}
done
[ "$device" ] || { echo "lab: no port riser.links" >&2; exit 1; }

# Sets $answer.
ask() {
    # Only one process can open the port at a time.
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
