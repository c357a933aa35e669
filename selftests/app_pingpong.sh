#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# ibv_rc_pingpong and ibv_ud_pingpong, as the distribution ships them.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ibv_rc_pingpong ibv_ud_pingpong

# pingpong OPTION...
pingpong() {
	client_server "ibv_rc_pingpong $*" \
		ibv_rc_pingpong -d "$DEV_A" -g "$(gid_index "$DEV_A")" "$@" -- \
		ibv_rc_pingpong -d "$DEV_B" -g "$(gid_index "$DEV_B")" "$@" "$(addr4 1 0)"
	grep -E 'bytes in|iters in' "$SCRATCH/client.$$"
}

test_default() {
	hosts_up 2
	pingpong
}

test_sizes_validated() {
	local size

	hosts_up 2
	for size in 1 1023 4096 4097 65536 1000001; do
		pingpong -c -n 20 -s $size
	done
}

test_every_mtu() {
	local mtu

	hosts_up 1
	for mtu in 256 512 1024 2048 4096; do
		pingpong -c -n 50 -s 20000 -m $mtu
	done
}

test_completion_events() {
	hosts_up 2
	pingpong -c -e -n 200 -s 30000
}

test_deep_receive_queue() {
	hosts_up 2
	pingpong -c -e -n 500 -r 1000
}

test_ipv6() {
	local a b

	# The GID of the IPv6 address, whatever its place.
	gid6() {
		local g

		for g in /sys/class/infiniband/"$1"/ports/1/gids/*; do
			grep -qs '^fd00:' "$g" && grep -qs v2 "${g/gids/gid_attrs\/types}" &&
				basename "$g" && return
		done
		fail "$1 has no GID of an IPv6 address"
	}
	hosts_up 2
	a=$(gid6 "$DEV_A")
	b=$(gid6 "$DEV_B")
	client_server "ibv_rc_pingpong over IPv6" \
		ibv_rc_pingpong -d "$DEV_A" -g "$a" -c -s 50000 -n 50 -- \
		ibv_rc_pingpong -d "$DEV_B" -g "$b" -c -s 50000 -n 50 "$(addr4 1 0)"
}

test_small_netdev_mtu() {
	hosts_up 2 1500
	pingpong -c -n 50 -s 50000
}

# 16 QPs on one SRQ
test_shared_receive_queue() {
	hosts_up 2
	client_server "ibv_srq_pingpong" \
		ibv_srq_pingpong -d "$DEV_A" -g "$(gid_index "$DEV_A")" -s 20000 -n 100 -- \
		ibv_srq_pingpong -d "$DEV_B" -g "$(gid_index "$DEV_B")" -s 20000 -n 100 \
		"$(addr4 1 0)"
}

test_shared_receive_queue_with_events() {
	hosts_up 2
	client_server "ibv_srq_pingpong -e" \
		ibv_srq_pingpong -e -q 4 -d "$DEV_A" -g "$(gid_index "$DEV_A")" -n 100 -- \
		ibv_srq_pingpong -e -q 4 -d "$DEV_B" -g "$(gid_index "$DEV_B")" -n 100 \
		"$(addr4 1 0)"
}

test_same_host() {
	hosts_up 1
	client_server "ibv_rc_pingpong on one host" \
		ibv_rc_pingpong -d "$DEV_A" -g "$(gid_index "$DEV_A")" -c -n 50 -s 50000 -- \
		ip netns exec "$NS_A" ibv_rc_pingpong -d "$DEV_A" -g "$(gid_index "$DEV_A")" \
		-c -n 50 -s 50000 127.0.0.1
}

test_datagrams() {
	hosts_up 2
	ud_pingpong -n 200
	ud_pingpong -n 200 -s 4000
	ud_pingpong -n 200 -e
}

ud_pingpong() {
	client_server "ibv_ud_pingpong $*" \
		ibv_ud_pingpong -d "$DEV_A" -g "$(gid_index "$DEV_A")" "$@" -- \
		ibv_ud_pingpong -d "$DEV_B" -g "$(gid_index "$DEV_B")" "$@" "$(addr4 1 0)"
	grep -E 'bytes in|iters in' "$SCRATCH/client.$$"
}

ktap_run_all \
	test_default \
	test_sizes_validated \
	test_every_mtu \
	test_completion_events \
	test_deep_receive_queue \
	test_ipv6 \
	test_small_netdev_mtu \
	test_shared_receive_queue \
	test_shared_receive_queue_with_events \
	test_same_host \
	test_datagrams
ktap_exit
