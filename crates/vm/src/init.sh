#!/vm/busybox sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# The first program of the guest: mounts what programs expect, loads modules, runs the command, tells how it ended. It speaks with
# the machine by lines through the port vm.control: "ready", "failed TEXT", "exit STATUS", "done".

/vm/busybox mkdir -p /proc /sys /dev /run/lock /run/sshd /tmp /root /share /mnt /home/user /usr/sbin /var/log /var/tmp /var/lib /var/cache
# The kernel's own root is open to all, which sshd and others refuse.
/vm/busybox chmod 755 / /run
/vm/busybox chmod 700 /root
/vm/busybox chmod 1777 /tmp /var/tmp /run/lock
/vm/busybox chown 1000:1000 /home/user
# What a package has stays.
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

# The port of a name; nothing where there is none.
port() {
    for port in /sys/class/virtio-ports/*; do
        [ "$(cat "$port/name" 2>/dev/null)" = "$1" ] && echo "/dev/${port##*/}" && return
    done
}

# Before there is a port to say it by, the console's last lines are all that anybody sees.
failed() {
    [ "$control" ] && echo "failed $*" >&3 && sleep 3600
    echo "vm: failed $*" >/dev/console
    poweroff -f
}

# Loads the modules of a list: a file, then parameters.
load() {
    while read -r file parameters; do
        # shellcheck disable=SC2086 # Parameters are words.
        said=$(insmod "$file" $parameters 2>&1) || failed "module ${file##*/}: $said"
    done <"$1"
}

# This shell takes some of busybox's programs before those of the path: where a package's shall do it, the path is said.
if [ -d "/lib/modules/$(uname -r)" ]; then
    [ -e /usr/sbin/modprobe ] || ln -s /vm/busybox /usr/sbin/modprobe
    if [ -e /usr/sbin/depmod ]; then /usr/sbin/depmod; else depmod; fi
fi
load /vm/ports
# The kernel hears of it a moment after its driver is there.
tries=0
until control=$(port vm.control) && [ "$control" ]; do
    tries=$((tries + 1))
    [ $tries -lt 500 ] || break
    usleep 10000
done
[ "$control" ] || failed "no port vm.control: has the kernel virtio_pci and virtio_console?"
exec 3>"$control"
load /vm/modules
# shellcheck disable=SC2154 # Of /vm/settings.
for file in $expected; do
    [ -e "$file" ] || failed "$file is not there when all modules are loaded"
done
if [ "$share" ]; then
    said=$(mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /share 2>&1) || failed "share: $said"
fi
echo ready >&3

# Programs open /dev/stdout anew, which a port allows once: they get pipes.
mkfifo /vm/stdin /vm/stdout /vm/stderr
in= out= err=
if [ "$terminal" ]; then
    # A terminal forgets its size when nobody has it open.
    setsid -c /usr/bin/sh -c "stty rows $rows columns $columns; . /vm/command" </dev/hvc0 >/dev/hvc0 2>&1 3>&-
    status=$?
else
    # Opened both ways, which waits for nobody: a child that ends would interrupt the wait.
    exec 5<>/vm/stdout 6<>/vm/stderr
    # The ports are looked for first: nothing may run under the numbers of these but they themselves.
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

# What the command has left running ends with it, so that its pipes end and all that was written is read.
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
