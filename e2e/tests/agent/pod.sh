#!/bin/bash
# pod.sh DIRECTORY NAME ADDRESS: makes a pod's namespaces and its way to the machine's bridge.
set -eu
directory=$1 name=$2 address=$3
mkdir -p "$directory"
touch "$directory/net" "$directory/uts"
unshare "--net=$directory/net" "--uts=$directory/uts" hostname "$name"
link=v${address##*.}
# The other end goes to the machine's own network, that of process 1.
nsenter "--net=$directory/net" ip link add eth0 type veth peer name "$link" netns 1
ip link set "$link" master eth0 up
nsenter "--net=$directory/net" sh -c "
    ip link set lo up && ip address add $address/24 dev eth0 && ip link set eth0 up"
