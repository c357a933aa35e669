# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# One host, the machine itself, with a device that talks to itself: for clients in
# the kernel that know the initial network namespace only. Packets take the loopback
# device. To be sourced after lib.sh.

NAME=own$$
ADDR=192.168.99.1
MTU=9000

device_up() {
	ip link add own0 mtu $MTU type veth peer name own1 mtu $MTU || fail "veth"
	defer "ip link del own0"
	ip link set own0 up
	ip link set own1 up
	ip link set lo up
	ip addr add $ADDR/24 dev own0
	defer "link_del $NAME"
	device_new
}

# The device, over the network device that is there.
device_new() {
	rdma link add "$NAME" type "$RDMA_TYPE" netdev own0 || fail "rdma link add"
	wait_for "a GID of $ADDR" has_gid "$NAME"
}

# Single packets are lost, not bursts: loopback_loses PERCENT
loopback_loses() {
	ethtool -K lo tso off gso off tx-udp-segmentation off >/dev/null 2>&1
	defer "ethtool -K lo tso on gso on tx-udp-segmentation on"
	tc qdisc add dev lo root netem limit 10000 loss "$1%" || skip "no netem"
	defer "tc qdisc del dev lo root"
}
