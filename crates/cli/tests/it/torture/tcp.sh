#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# One round of TCP in each direction between two NICs, the other one in its own network namespace; `delivered` checks the data. With the kind
# of NIC that the test names, this is a workload for torture: NICs may have been replaced since the last round, and have no address.
far="/usr/sbin/ip netns exec far"

# of SUFFIX [COMMAND]: prints the interface whose MAC address ends in SUFFIX, here or in the other namespace.
of() {
    for i in $($2 ls /sys/class/net); do
        [ "$($2 cat "/sys/class/net/$i/address")" != "02:00:00:00:00:$1" ] || echo "$i"
    done
}

ready() {
    b=$(of 0b)
    [ -z "$b" ] || ip link set "$b" netns far
    a=$(of 0a) b=$(of 0b "$far")
    [ "$a" ] && [ "$b" ] || return 1
    ip addr replace 192.0.2.1/24 dev "$a" && ip link set "$a" up || return 1
    ip -n far addr replace 192.0.2.2/24 dev "$b" && ip -n far link set "$b" up && ping -q -c 1 -W 1 192.0.2.2 >/dev/null
}

[ -e /run/netns/far ] || ip netns add far
tries=0
until ready; do
    tries=$((tries + 1))
    [ $tries -lt 20 ] || { echo "no way there"; exit 1; }
    sleep 0.5
done
for way in out in; do
    if [ $way = out ]; then there=$far here='' to=192.0.2.2; else there='' here=$far to=192.0.2.1; fi
    $there /tmp/delivered serve &
    sleep 0.2
    $here /tmp/delivered send $to
    sent=$?
    wait $!
    came=$?
    [ $came != 65 ] || exit 65
    [ $sent = 0 ] && [ $came = 0 ] || exit 1
done
