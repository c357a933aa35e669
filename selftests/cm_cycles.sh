#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Many connections by rdma_cm, one after the other, with their time and what is
# left in memory. CYCLES sets how many there are in each of five rounds.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip
modprobe rdma_ucm 2>/dev/null || [ -e /dev/infiniband/rdma_cm ] || skip_all "no rdma_ucm"

CYCLES=${CYCLES:-200}

round() {
	local address=$1 server

	in_a timeout 1200 "$MRVERBS" cm_serve "$address" "$CYCLES" &
	server=$!
	wait_for "the server listens" cm_listens
	in_b timeout 1200 "$MRVERBS" cm_connect "$address" "$CYCLES" ||
		fail "the client's exit status $?"
	wait $server || fail "the server's exit status $?"
}

cycles() {
	local address=$1 i first last

	hosts_up 2
	# Both devices have the same clients in the kernel.
	res_remember "$DEV_A"
	# What the first connections set up for good does not count.
	round "$address"
	first=$(kernel_memory)
	for ((i = 0; i < 4; i++)); do
		round "$address"
		last=$(kernel_memory)
		echo "kernel memory: $last KiB, $((last - first)) more than after the first round"
	done
	echo "for each connection: $(((last - first) * 1024 / (4 * CYCLES))) bytes"
	# Nothing of a connection stays: the smallest object that could is an ib_qp
	# with its rings, more than this.
	[ $((last - first)) -lt $((4 * CYCLES * 8)) ] || fail "connections leave memory behind"
	for dev in "$DEV_A" "$DEV_B"; do
		wait_for "objects of $dev gone" res_empty "$dev"
	done
}

test_cycles() {
	cycles "$(addr4 1 0)"
}

test_cycles_over_IPv6() {
	CYCLES=$((CYCLES / 4))
	cycles "$(addr6 1 0)"
}

ktap_run_all test_cycles test_cycles_over_IPv6
ktap_exit
