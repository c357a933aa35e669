#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RDS, the kernel's reliable datagrams over RDMA. It knows the initial network
# namespace only, so both ends have one address; packets take the loopback device.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require python3 tc
modinfo rds_rdma >/dev/null 2>&1 || skip_all "no module rds_rdma"

NAME=rds$$
ADDR=192.168.98.1

up() {
	ip link add rds0 mtu 9000 type veth peer name rds1 mtu 9000 || fail "veth"
	defer "ip link del rds0"
	ip link set rds0 up
	ip link set rds1 up
	ip link set lo up
	ip addr add $ADDR/24 dev rds0
	rdma link add "$NAME" type "$RDMA_TYPE" netdev rds0 || fail "rdma link add"
	# RDS keeps its connections, without the device. It is not unloaded: it may
	# stumble over the connections that it is taking down itself.
	defer "rdma link del $NAME"
	wait_for "a GID of $ADDR" has_gid "$NAME"
	modprobe rds_rdma || fail "rds_rdma"
}

messages() {
	timeout 300 python3 "$here/rds.py" $ADDR "$1" || fail "messages: $?"
	[ "$(counter "$NAME" rx_packets)" -gt "$1" ] || fail "not over $NAME"
}

test_messages() {
	up
	messages 100
	rdma res show qp link "$NAME"
}

test_loss() {
	up
	ethtool -K lo tso off gso off tx-udp-segmentation off >/dev/null 2>&1
	defer "ethtool -K lo tso on gso on tx-udp-segmentation on"
	tc qdisc add dev lo root netem limit 10000 loss 1% || skip "no netem"
	defer "tc qdisc del dev lo root"
	messages 50
}

ktap_run_all test_messages test_loss
ktap_exit
