#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Devices over netdevs that are made of others: VLANs, bonds, bridges, macvlans; and what
# happens to those below.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

# both FUNCTION ARGUMENT...: FUNCTION NAMESPACE HOST ARGUMENT... for each host
both() {
	"$1" "$NS_A" 1 "${@:2}"
	"$1" "$NS_B" 2 "${@:2}"
}

# A netdev pINDEX with options of "ip link add", and addresses: over NAMESPACE HOST INDEX OPTION...
over() {
	ip -n "$1" link add name "p$3" "${@:4}" || fail "ip link add ${*:4}"
	plane_ready "$1" "$2" "$3"
}

# addressless NAMESPACE HOST NETDEV: it has a part in another one only
addressless() { ip -n "$1" addr flush dev "$3"; }
put_into() { ip -n "$1" link set "$3" master "$4" up || fail "$3 does not go into $4"; }
set_down() { ip -n "$1" link set "$3" down; }

# devices_over INDEX...: an RDMA device in each host over these netdevs
devices_over() {
	local i

	defer "links_down"
	for i; do
		link_new "$NS_A" "$DEV_A" "p$i" || fail "rdma link add, p$i"
		link_new "$NS_B" "$DEV_B" "p$i" || fail "rdma link add, p$i"
		is_metaroce || break
	done
	links_ready
}

# Packets that a netdev of A has sent.
sent() { in_a cat "/sys/class/net/$1/statistics/tx_packets"; }

test_vlan() {
	netns_up 1
	both over 5 link p0 type vlan id 5
	devices_over 5
	[ "$(link_netdev "$NS_A" "$DEV_A")" = p5 ] ||
		fail "the netdev is $(link_netdev "$NS_A" "$DEV_A")"
	check_traffic
}

test_two_vlans_as_planes() {
	need_metaroce
	netns_up 1
	both over 5 link p0 type vlan id 5
	both over 6 link p0 type vlan id 6
	devices_over 5 6
	check_traffic
	[ "$(sent p5)" -gt 100 ] || fail "p5 has sent $(sent p5) packets"
	[ "$(sent p6)" -gt 100 ] || fail "p6 has sent $(sent p6) packets"
}

test_vlan_removed_under_traffic() {
	netns_up 1
	both over 5 link p0 type vlan id 5
	devices_over 5
	soak_bg -q 2
	sleep 1
	ip -n "$NS_A" link del p5
	wait_for "$DEV_A gone" link_gone "$DEV_A"
}

# The VLAN goes with it.
test_netdev_below_a_vlan_removed_under_traffic() {
	netns_up 1
	both over 5 link p0 type vlan id 5
	devices_over 5
	soak_bg -q 2
	sleep 1
	ip -n "$NS_A" link del p0
	wait_for "$DEV_A gone" link_gone "$DEV_A"
	wait_for "$DEV_B gone" link_gone "$DEV_B"
}

bonded() {
	netns_up 2
	both over 5 type bond mode active-backup miimon 20
	both addressless p0
	both addressless p1
	both set_down p0
	both set_down p1
	both put_into p0 p5
	both put_into p1 p5
	devices_over 5
}

active_member() { in_a cat /sys/class/net/p5/bonding/active_slave; }

test_bond() {
	bonded
	check_traffic
}

# What the bond does when a member fails is the bond's, and no error for us.
test_bond_member_fails_under_traffic() {
	bonded
	soak_bg -q 2
	sleep 1
	both set_down p0
	wait_for_value "the other member" p1 active_member
	sleep 1
	soak_alive
	soak_end
	check_traffic
}

test_bond_member_removed_under_traffic() {
	bonded
	soak_bg -q 2
	sleep 1
	ip -n "$NS_A" link del p0
	wait_for_value "the other member" p1 active_member
	sleep 1
	soak_alive
	soak_end
	link_exists "$DEV_A" || fail "$DEV_A went with a member"
}

test_vlan_over_a_bond() {
	bonded
	links_down
	both over 6 link p5 type vlan id 6
	devices_over 6
	check_traffic
}

test_bridge() {
	netns_up 1
	both addressless p0
	both over 5 type bridge
	both put_into p0 p5
	devices_over 5
	check_traffic
}

test_macvlan() {
	netns_up 1
	both over 5 link p0 type macvlan mode bridge
	devices_over 5
	check_traffic
}

# Of the GIDs, those of the addresses in use stay, others come and go.
test_addresses_come_and_go_under_traffic() {
	local i gid

	hosts_up 1
	gid=$(gid_index "$DEV_A")
	soak_bg -q 2
	for ((i = 0; i < 50; i++)); do
		ip -n "$NS_A" addr add "$(addr4 $((100 + i)) 0)/24" dev p0
		ip -n "$NS_A" addr add "$(addr6 $((100 + i)) 0)/64" dev p0 nodad
		ip -n "$NS_B" addr add "$(addr4 $((160 + i)) 0)/24" dev p0
		[ $((i % 3)) = 0 ] || ip -n "$NS_A" addr del "$(addr4 $((100 + i)) 0)/24" dev p0
		[ $((i % 3)) = 1 ] || ip -n "$NS_A" addr del "$(addr6 $((100 + i)) 0)/64" dev p0
		ip -n "$NS_B" addr del "$(addr4 $((160 + i)) 0)/24" dev p0
	done
	soak_alive
	soak_end
	[ "$(gid_index "$DEV_A")" = "$gid" ] || fail "GID $gid is $(gid_index "$DEV_A") now"
	check_traffic
}

ktap_run_all \
	test_vlan \
	test_two_vlans_as_planes \
	test_vlan_removed_under_traffic \
	test_netdev_below_a_vlan_removed_under_traffic \
	test_bond \
	test_bond_member_fails_under_traffic \
	test_bond_member_removed_under_traffic \
	test_vlan_over_a_bond \
	test_bridge \
	test_macvlan \
	test_addresses_come_and_go_under_traffic
ktap_exit
