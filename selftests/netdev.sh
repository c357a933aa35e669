#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What happens to the netdevs below a device.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

has_address() { grep -qs "$(gid4 "$2")" /sys/class/infiniband/"$1"/ports/1/gids/*; }
has_no_address() { ! has_address "$@"; }

test_removed() {
	hosts_up 1
	ip -n "$NS_A" link del p0
	wait_for "$DEV_A gone" link_gone "$DEV_A"
	wait_for "$DEV_B gone" link_gone "$DEV_B"
}

test_removed_plane_of_two() {
	need_metaroce
	hosts_up 2
	check_traffic
	ip -n "$NS_A" link del p1
	link_exists "$DEV_A" || fail "$DEV_A went with one of its planes"
	check_traffic
}

test_removed_primary_plane() {
	need_metaroce
	hosts_up 2
	ip -n "$NS_A" link del p0
	link_exists "$DEV_A" || fail "$DEV_A went with one of its planes"
	wait_for_value "p1 is the primary plane" p1 link_netdev "$NS_A" "$DEV_A"
	wait_for "GIDs of p1" has_address "$DEV_A" "$(addr4 1 1)"
	wait_for "no GIDs of p0" has_no_address "$DEV_A" "$(addr4 1 0)"
	links_ready
	check_traffic
}

test_removed_plane_under_traffic() {
	need_metaroce
	hosts_up 2
	soak_bg -q 4 -m 100000
	sleep 1
	ip -n "$NS_A" link del p1
	sleep 2
	soak_end
	check_traffic
}

test_renamed() {
	hosts_up 1
	ip -n "$NS_A" link set p0 down
	ip -n "$NS_A" link set p0 name quite-different || fail "ip link set name"
	ip -n "$NS_A" link set quite-different up
	wait_for "$DEV_A active" link_state_is "$DEV_A" ACTIVE
	[ "$(link_netdev "$NS_A" "$DEV_A")" = quite-different ] || fail "netdev $(link_netdev "$NS_A" "$DEV_A")"
	ip -n "$NS_A" addr replace "$(addr6 1 0)/64" dev quite-different nodad
	links_ready
	check_traffic
}

test_renamed_under_traffic() {
	hosts_up 1
	soak_bg -q 2 -m 60000
	sleep 0.5
	# Up, as newer kernels allow; else there is nothing to see.
	ip -n "$NS_A" link set p0 name quite-different 2>/dev/null ||
		skip "this kernel renames no netdev that is up"
	[ "$(link_netdev "$NS_A" "$DEV_A")" = quite-different ] || fail "netdev $(link_netdev "$NS_A" "$DEV_A")"
	sleep 0.5
	soak_end
}

test_down_and_up() {
	hosts_up 1
	ip -n "$NS_A" link set p0 down
	wait_for "$DEV_A down" link_state_is "$DEV_A" DOWN
	ibv_devinfo -d "$DEV_A" | grep -q 'PORT_DOWN' || fail "ibv_devinfo says otherwise"
	ip -n "$NS_A" link set p0 up
	ip -n "$NS_A" addr replace "$(addr6 1 0)/64" dev p0 nodad
	links_ready
	ibv_devinfo -d "$DEV_A" | grep -q 'PORT_ACTIVE' || fail "ibv_devinfo says otherwise"
	check_traffic
}

test_carrier_of_the_peer() {
	hosts_up 1
	ip -n "$NS_B" link set p0 down
	wait_for "$DEV_A down" link_state_is "$DEV_A" DOWN
	ip -n "$NS_B" link set p0 up
	ip -n "$NS_B" addr replace "$(addr6 2 0)/64" dev p0 nodad
	links_ready
	check_traffic
}

test_port_events() {
	hosts_up 1
	hold "$DEV_A"
	ip -n "$NS_A" link set p0 down
	hold_says "event port error"
	ip -n "$NS_A" link set p0 up
	hold_says "event port active"
	hold_end
}

test_one_plane_of_two_down() {
	need_metaroce
	hosts_up 2
	ip -n "$NS_A" link set p1 down
	[ "$(link_state "$DEV_A")" = ACTIVE ] || fail "state $(link_state "$DEV_A")"
	check_traffic
	ip -n "$NS_A" link set p1 up
	check_traffic
}

test_one_plane_of_two_down_under_traffic() {
	need_metaroce
	hosts_up 2
	soak_bg -q 4 -m 100000
	sleep 1
	ip -n "$NS_B" link set p1 down
	sleep 2
	soak_alive
	ip -n "$NS_B" link set p1 up
	sleep 1
	soak_end
	check_traffic
}

test_address_changed() {
	hosts_up 1
	has_address "$DEV_A" "$(addr4 1 0)" || fail "no GID of the address"
	ip -n "$NS_A" addr del "$(addr4 1 0)/24" dev p0
	wait_for "no GID of the old address" has_no_address "$DEV_A" "$(addr4 1 0)"
	ip -n "$NS_A" addr add "$(addr4 77 0)/24" dev p0
	wait_for "a GID of the new address" has_address "$DEV_A" "$(addr4 77 0)"
	links_ready
	check_traffic
}

test_second_address() {
	hosts_up 1
	ip -n "$NS_A" addr add "$(addr4 78 0)/24" dev p0
	wait_for "a GID of the second address" has_address "$DEV_A" "$(addr4 78 0)"
	has_address "$DEV_A" "$(addr4 1 0)" || fail "the GID of the first is gone"
	check_traffic
	ip -n "$NS_A" addr del "$(addr4 78 0)/24" dev p0
	wait_for "no GID of the second address" has_no_address "$DEV_A" "$(addr4 78 0)"
	check_traffic
}

test_address_of_a_second_plane_changed() {
	need_metaroce
	hosts_up 2
	check_traffic
	ip -n "$NS_A" addr flush dev p1
	ip -n "$NS_A" addr add "$(addr4 77 1)/24" dev p1
	ip -n "$NS_A" addr add "$(addr6 77 1)/64" dev p1 nodad
	check_traffic
}

test_mtu_changed() {
	hosts_up 1
	[ "$(info "$DEV_A" active_mtu)" = 4096 ] || fail "active_mtu $(info "$DEV_A" active_mtu)"
	ip -n "$NS_A" link set p0 mtu 1500
	ip -n "$NS_B" link set p0 mtu 1500
	wait_for_value "a smaller active_mtu" 1024 info "$DEV_A" active_mtu
	wait_for_value "a smaller active_mtu" 1024 info "$DEV_B" active_mtu
	check_traffic
	ip -n "$NS_A" link set p0 mtu 9000
	ip -n "$NS_B" link set p0 mtu 9000
	wait_for_value "a larger active_mtu" 4096 info "$DEV_A" active_mtu
	check_traffic
}

test_planes_of_different_mtu() {
	need_metaroce
	hosts_up 1
	plane_new 1 1500
	link_new "$NS_A" "$DEV_A" p1 || fail "rdma link add, plane 1"
	link_new "$NS_B" "$DEV_B" p1 || fail "rdma link add, plane 1"
	[ "$(info "$DEV_A" active_mtu)" = 1024 ] || fail "active_mtu $(info "$DEV_A" active_mtu)"
	check_traffic
	[ "$(tx_bytes "$NS_A" p1)" -gt 10000 ] || fail "nothing over the smaller plane"
}

test_moved_to_another_namespace() {
	hosts_up 1
	defer "ip netns del mra$$-x"
	ip netns add "mra$$-x"
	ip -n "$NS_A" link set p0 netns "mra$$-x" || fail "ip link set netns"
	if is_metaroce; then
		wait_for "$DEV_A gone" link_gone "$DEV_A"
	fi
	ip netns exec "mra$$-x" ip link show p0 >/dev/null || fail "the netdev is gone"
	link_del "$DEV_A"
}

test_plane_moved_to_another_namespace() {
	need_metaroce
	hosts_up 2
	defer "ip netns del mra$$-x"
	ip netns add "mra$$-x"
	ip -n "$NS_A" link set p1 netns "mra$$-x" || fail "ip link set netns"
	[ "$(link_netdev "$NS_A" "$DEV_A")" = p0 ] || fail "netdev $(link_netdev "$NS_A" "$DEV_A")"
	check_traffic
}

ktap_run_all \
	test_removed \
	test_removed_plane_of_two \
	test_removed_primary_plane \
	test_removed_plane_under_traffic \
	test_renamed \
	test_renamed_under_traffic \
	test_down_and_up \
	test_carrier_of_the_peer \
	test_port_events \
	test_one_plane_of_two_down \
	test_one_plane_of_two_down_under_traffic \
	test_address_changed \
	test_second_address \
	test_address_of_a_second_plane_changed \
	test_mtu_changed \
	test_planes_of_different_mtu \
	test_moved_to_another_namespace \
	test_plane_moved_to_another_namespace
ktap_exit
