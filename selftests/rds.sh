#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# RDS, the kernel's reliable datagrams over RDMA. It knows the initial network
# namespace only, so both ends have one address; packets take the loopback device.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
. "$here/lib/onehost.sh"
require python3 tc
modinfo rds_rdma >/dev/null 2>&1 || skip_all "no module rds_rdma"

up() {
	# RDS keeps its connections, without the device. It is not unloaded: it may
	# stumble over the connections that it is taking down itself.
	device_up
	modprobe rds_rdma || fail "rds_rdma"
}

messages() {
	timeout 300 python3 "$here/rds.py" "$ADDR" "$1" || fail "messages: $?"
	[ "$(counter "$NAME" rx_packets)" -gt "$1" ] || fail "not over $NAME"
}

test_messages() {
	up
	messages 100
	rdma res show qp link "$NAME"
}

test_loss() {
	up
	loopback_loses 1
	messages 50
}

ktap_run_all test_messages test_loss
ktap_exit
