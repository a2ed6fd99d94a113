#!/vm/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The first program of the guest: prepares the file system, loads modules, runs the command and reports its status. It sends
# lines to the host through the port vm.control: "ready", "failed TEXT", "exit STATUS", "done".

/vm/busybox mkdir -p /proc /sys /dev /run/lock /run/sshd /tmp /root /share /mnt /home/user /usr/sbin /var/log /var/tmp /var/lib /var/cache
# The kernel makes the root world-writable, which sshd and others reject.
/vm/busybox chmod 755 / /run
/vm/busybox chmod 700 /root
/vm/busybox chmod 1777 /tmp /var/tmp /run/lock
/vm/busybox chown 1000:1000 /home/user
# Files from packages are kept.
/vm/busybox --install -s /usr/bin 2>/dev/null
export PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
ip link set lo up
hostname guest
. /vm/settings

# Prints the device of the port named $1, or nothing.
port() {
    for port in /sys/class/virtio-ports/*; do
        [ "$(cat "$port/name" 2>/dev/null)" = "$1" ] && echo "/dev/${port##*/}" && return
    done
}

# Before the control port exists, the last lines of the console are the only output.
failed() {
    [ "$control" ] && echo "failed $*" >&3 && sleep 3600
    echo "vm: failed $*" >/dev/console
    poweroff -f
}

# Loads the modules of a list. A line is a file and its parameters.
load() {
    while read -r file parameters; do
        # shellcheck disable=SC2086 # Parameters are words.
        said=$(insmod "$file" $parameters 2>&1) || failed "module ${file##*/}: $said"
    done <"$1"
}

# busybox's shell prefers its own programs to those in the path, so programs of packages are called by their path.
if [ -d "/lib/modules/$(uname -r)" ]; then
    [ -e /usr/sbin/modprobe ] || ln -s /vm/busybox /usr/sbin/modprobe
    if [ -e /usr/sbin/depmod ]; then /usr/sbin/depmod; else depmod; fi
fi
load /vm/ports
# A port appears a moment after its driver was loaded.
tries=0
until control=$(port vm.control) && [ "$control" ]; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || break
    usleep 10000
done
[ "$control" ] || failed "no port vm.control; the kernel needs virtio_pci and virtio_console"
exec 3>"$control"
load /vm/modules
# shellcheck disable=SC2154 # From /vm/settings.
for file in $expected; do
    [ -e "$file" ] || failed "no $file after all modules were loaded"
done
if [ "$share" ]; then
    said=$(mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share 2>&1) || failed "share: $said"
fi
echo ready >&3

# Programs may open /dev/stdout again, but a port can be open only once. So the programs get pipes.
mkfifo /vm/stdin /vm/stdout /vm/stderr
in= out= err=
if [ "$terminal" ]; then
    # A terminal loses its size when its last user closes it.
    setsid -c /usr/bin/sh -c "stty rows $rows columns $columns; . /vm/command" </dev/hvc0 >/dev/hvc0 2>&1 3>&-
    status=$?
else
    # The port is opened for reading and writing, so that open does not block: the end of a child would interrupt open.
    exec 5<>/vm/stdout 6<>/vm/stderr
    # Resolve all ports first: no other process may run while these process IDs are recorded.
    stdout=$(port vm.stdout) stderr=$(port vm.stderr) stdin=$(port vm.stdin)
    cat /vm/stdout >"$stdout" 5>&- 6>&- & out=$!
    cat /vm/stderr >"$stderr" 5>&- 6>&- & err=$!
    if [ "$input" ]; then
        cat "$stdin" >/vm/stdin 5>&- 6>&- & in=$!
        /usr/bin/sh /vm/command </vm/stdin >&5 2>&6 3>&- 5>&- 6>&-
    else
        /usr/bin/sh /vm/command </dev/null >&5 2>&6 3>&- 5>&- 6>&-
    fi
    status=$?
    exec 5>&- 6>&-
fi
echo "exit $status" >&3

# Kill processes that the command has left running, so that their pipes close and all output is read.
for process in /proc/[0-9]*; do
    case ${process#/proc/} in
    1 | "$out" | "$err") ;;
    *) kill -9 "${process#/proc/}" 2>/dev/null ;;
    esac
done
[ "$out" ] && wait "$out" "$err"
[ "$share" ] && umount /share
sync
echo "done" >&3
sleep 3600
