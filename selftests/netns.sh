#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Network namespaces: same names and ports side by side, exclusive mode, the
# end of a namespace.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

links_in() { ip netns exec "$1" rdma link show | grep -c '^link'; }

# Data between the devices mr0 of both namespaces.
pingpong() {
	wait_for "GIDs of A" in_a "$MRVERBS" info mr0
	wait_for "GIDs of B" in_b "$MRVERBS" info mr0
	client_server "ibv_rc_pingpong" \
		ibv_rc_pingpong -d mr0 -g "$(in_a "$MRVERBS" info mr0 | sed -n 's/gid_index //p')" -- \
		ibv_rc_pingpong -d mr0 -g "$(in_b "$MRVERBS" info mr0 | sed -n 's/gid_index //p')" \
		"$(addr4 1 0)"
}

test_same_name_in_two_namespaces() {
	need_metaroce
	netns_exclusive 2
	in_a rdma link add mr0 type "$RDMA_TYPE" netdev p0 || fail "rdma link add in A"
	in_b rdma link add mr0 type "$RDMA_TYPE" netdev p0 || fail "rdma link add in B"
	in_a rdma link add mr0 type "$RDMA_TYPE" netdev p1 || fail "plane 1 in A"
	in_b rdma link add mr0 type "$RDMA_TYPE" netdev p1 || fail "plane 1 in B"
	[ "$(links_in "$NS_A")" = 1 ] || fail "links in A: $(in_a rdma link show)"
	[ "$(links_in "$NS_B")" = 1 ] || fail "links in B: $(in_b rdma link show)"
	[ "$(rdma link show | wc -l)" = 0 ] || fail "links outside: $(rdma link show)"
	pingpong
	in_a rdma link del mr0 || fail "rdma link del in A"
	[ "$(links_in "$NS_B")" = 1 ] || fail "the link of B went with that of A"
}

# Its netdevs stay behind, so it is of no use there; back again, it is as before.
test_device_moved_to_another_namespace() {
	netns_exclusive 1
	in_a rdma link add mr0 type "$RDMA_TYPE" netdev p0 || fail "rdma link add in A"
	in_b rdma link add mr0 type "$RDMA_TYPE" netdev p0 || fail "rdma link add in B"
	pingpong
	ip netns add "mra$$-x" || fail "cannot make a namespace"
	defer "ip netns del mra$$-x 2>/dev/null"
	in_a rdma dev set mr0 netns "mra$$-x" || fail "rdma dev set netns"
	[ "$(links_in "$NS_A")" = 0 ] || fail "links in A: $(in_a rdma link show)"
	[ "$(links_in "mra$$-x")" = 1 ] || fail "it has not come"
	! in_a timeout 5 ibv_devinfo -d mr0 >/dev/null 2>&1 || fail "A opens it still"
	ip netns exec "mra$$-x" rdma dev set mr0 netns "$NS_A" || fail "rdma dev set netns, back"
	[ "$(links_in "$NS_A")" = 1 ] || fail "it is not back"
	pingpong
}

test_namespace_ends_with_its_device() {
	hosts_up 2
	check_traffic
	ip netns del "$NS_A"
	wait_for "$DEV_A gone" link_gone "$DEV_A"
}

test_exclusive_namespace_ends_with_its_device() {
	need_metaroce
	netns_exclusive 2
	in_a rdma link add mr0 type "$RDMA_TYPE" netdev p0 || fail "rdma link add"
	ip netns del "$NS_A"
	# ib_core moves devices of a dying namespace to the first one; veth dies,
	# and a device without planes goes.
	wait_for_value "the device gone" "" rdma dev show
}

test_namespace_ends_under_traffic() {
	local status=0

	hosts_up 2
	soak_bg -q 4 -m 60000 -p 20
	sleep 1
	soak_alive
	ip netns del "$NS_A"
	wait_for "$DEV_A gone" link_gone "$DEV_A"
	timeout "$PATIENCE" tail --pid="$soak_pid" -f /dev/null || fail "the traffic hangs"
	wait "$soak_pid" || status=$?
	[ $status -lt 128 ] || fail "the client died of signal $((status - 128))"
}

# members N OPTION...: processes of A that are in a multicast group
members() {
	local i log=$SCRATCH/member.$$

	defer "rm -f $log.*"
	for ((i = 0; i < $1; i++)); do
		rm -f "$log.$i"
		"$MRVERBS" member "${@:2}" "$DEV_A" >"$log.$i" 2>&1 &
		defer "kill $! 2>/dev/null"
		log_says "$log.$i" ready
	done
}

# Groups are left and joined under a lock that is held while the planes go.
test_namespace_ends_with_members_of_groups() {
	hosts_up 2
	members 1
	ip netns del "$NS_A"
	wait_for "$DEV_A gone" link_gone "$DEV_A"
}

test_namespace_ends_while_groups_are_joined() {
	hosts_up 1
	members 4 -l
	ip netns del "$NS_A"
	wait_for "$DEV_A gone" link_gone "$DEV_A"
}

test_netdev_removed_while_groups_are_joined() {
	local planes

	for planes in 1 2; do
		hosts_up "$planes"
		members 4 -l
		in_a ip link del p0 || fail "ip link del"
		[ "$planes" = 1 ] || in_a ip link del p1 || fail "ip link del"
		wait_for "$DEV_A gone" link_gone "$DEV_A"
		links_down
		netns_down
	done
}

test_many_namespaces() {
	local i

	many_down() {
		for ((i = 0; i < 20; i++)); do
			ip netns del "mra$$-$i" 2>/dev/null
		done
	}
	defer many_down
	for ((i = 0; i < 20; i++)); do
		ip netns add "mra$$-$i"
		ip link add p0 mtu 9000 netns "mra$$-$i" type veth peer name p1 mtu 9000 \
			netns "mra$$-$i"
		ip -n "mra$$-$i" addr add 10.0.0.1/24 dev p0
		ip -n "mra$$-$i" link set p0 up
		ip -n "mra$$-$i" link set p1 up
		ip netns exec "mra$$-$i" rdma link add "mr$$-$i" type "$RDMA_TYPE" netdev p0 ||
			fail "rdma link add in namespace $i"
	done
	[ "$(rdma link show | grep -c "^link mr$$-")" = 20 ] || fail "not 20 links"
	for ((i = 0; i < 20; i += 2)); do
		rdma link del "mr$$-$i" || fail "rdma link del"
	done
	many_down
	wait_for_value "all gone" "" rdma link show
}

ktap_run_all \
	test_same_name_in_two_namespaces \
	test_device_moved_to_another_namespace \
	test_namespace_ends_with_its_device \
	test_exclusive_namespace_ends_with_its_device \
	test_namespace_ends_under_traffic \
	test_namespace_ends_with_members_of_groups \
	test_namespace_ends_while_groups_are_joined \
	test_netdev_removed_while_groups_are_joined \
	test_many_namespaces
ktap_exit
