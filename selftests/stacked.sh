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
put_into() {
	ip -n "$1" link set "$3" master "$4" || fail "$3 does not go into $4"
	ip -n "$1" link set "$3" up
}
set_down() { ip -n "$1" link set "$3" down; }

# Packets that a netdev of A has sent.
sent() { in_a cat "/sys/class/net/$1/statistics/tx_packets"; }

# An RDMA device has GIDs of the VLANs over its netdevs, as over any port: no device is
# made for them. vlans PLANES: one over each, in both hosts
vlans() {
	local i

	for ((i = 0; i < $1; i++)); do
		both over $((5 + i)) link "p$i" type vlan id 7
	done
}

# The index of the GID of an address, for RoCE v2: gid_of DEVICE ADDRESS
gid_of() {
	local port=/sys/class/infiniband/$1/ports/1 file

	grep -lsx "$(gid4 "$2")" "$port"/gids/* | sort -V | while read -r file; do
		! grep -q v2 "$port/gid_attrs/types/${file##*/}" || echo "${file##*/}"
	done | head -n 1
}
has_gid_of() { [ "$(gid_of "$@")" ]; }
no_gid_of() { ! has_gid_of "$@"; }

# Data between GIDs of the netdevs of this index: between INDEX MESSAGES
between() {
	wait_for "a GID of A" has_gid_of "$DEV_A" "$(addr4 1 "$1")"
	wait_for "a GID of B" has_gid_of "$DEV_B" "$(addr4 2 "$1")"
	client_server "ibv_rc_pingpong, p$1" \
		ibv_rc_pingpong -d "$DEV_A" -n "$2" -g "$(gid_of "$DEV_A" "$(addr4 1 "$1")")" -- \
		ibv_rc_pingpong -d "$DEV_B" -n "$2" -g "$(gid_of "$DEV_B" "$(addr4 2 "$1")")" \
		"$(addr4 1 "$1")"
}

test_vlan() {
	local untagged

	hosts_up 1
	vlans 1
	between 5 1000
	[ "$(sent p5)" -gt 1000 ] || fail "p5 has sent $(sent p5) packets"
	untagged=$(sent p5)
	between 0 1000
	[ "$(sent p5)" -lt $((untagged + 100)) ] || fail "what is for p0 went by p5"
}

test_vlan_of_two_planes() {
	need_metaroce
	hosts_up 2
	vlans 2
	between 5 4000
	[ "$(sent p5)" -gt 500 ] || fail "p5 has sent $(sent p5) packets"
	[ "$(sent p6)" -gt 500 ] || fail "p6 has sent $(sent p6) packets"
}

# The other plane has no such VLAN, and no packet goes untagged.
test_vlan_of_one_of_two_planes() {
	local before

	need_metaroce
	hosts_up 2
	vlans 1
	before=$(sent p1)
	between 5 1000
	[ "$(sent p1)" -lt $((before + 100)) ] || fail "the other plane was used"
}

test_vlan_of_datagrams() {
	hosts_up 1
	vlans 1
	wait_for "a GID of A" has_gid_of "$DEV_A" "$(addr4 1 5)"
	wait_for "a GID of B" has_gid_of "$DEV_B" "$(addr4 2 5)"
	client_server "ibv_ud_pingpong" \
		ibv_ud_pingpong -d "$DEV_A" -g "$(gid_of "$DEV_A" "$(addr4 1 5)")" -- \
		ibv_ud_pingpong -d "$DEV_B" -g "$(gid_of "$DEV_B" "$(addr4 2 5)")" "$(addr4 1 5)"
	[ "$(sent p5)" -gt 500 ] || fail "p5 has sent $(sent p5) packets"
}

test_connection_management_in_a_vlan() {
	command -v rping >/dev/null || skip "no rping"
	modprobe rdma_ucm 2>/dev/null || [ -e /dev/infiniband/rdma_cm ] || skip "no rdma_ucm"
	hosts_up 1
	vlans 1
	wait_for "a GID of A" has_gid_of "$DEV_A" "$(addr4 1 5)"
	wait_for "a GID of B" has_gid_of "$DEV_B" "$(addr4 2 5)"
	APP_TIMEOUT=$PATIENCE APP_LISTENS=cm_listens client_server "rping" \
		rping -s -a "$(addr4 1 5)" -C 100 -V -- rping -c -a "$(addr4 1 5)" -C 100 -V
	[ "$(sent p5)" -gt 200 ] || fail "p5 has sent $(sent p5) packets"
}

# What is left of it never goes untagged.
test_vlan_removed_under_traffic() {
	local before

	hosts_up 1
	vlans 1
	wait_for "a GID of A" has_gid_of "$DEV_A" "$(addr4 1 5)"
	wait_for "a GID of B" has_gid_of "$DEV_B" "$(addr4 2 5)"
	in_a timeout 60 ibv_rc_pingpong -d "$DEV_A" -n 100000000 \
		-g "$(gid_of "$DEV_A" "$(addr4 1 5)")" >/dev/null 2>&1 &
	defer "kill $! 2>/dev/null"
	sleep 1
	in_b timeout 60 ibv_rc_pingpong -d "$DEV_B" -n 100000000 \
		-g "$(gid_of "$DEV_B" "$(addr4 2 5)")" "$(addr4 1 5)" >/dev/null 2>&1 &
	wait_for "traffic" more_than 1000 sent p5
	ip -n "$NS_A" link del p5
	wait_for "no GID" no_gid_of "$DEV_A" "$(addr4 1 5)"
	before=$(sent p0)
	! wait $! || fail "the traffic went on"
	[ "$(sent p0)" -lt $((before + 500)) ] || fail "it went on untagged"
	check_traffic
}

test_no_device_over_a_vlan() {
	need_metaroce
	netns_up 1
	vlans 1
	! link_new "$NS_A" "$DEV_A" p5 2>/dev/null || fail "a device that has no GIDs"
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	defer "links_down"
	! link_new "$NS_A" "$DEV_A" p5 2>/dev/null || fail "a plane beside its own VLAN"
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
	# It takes its time to find its members good.
	wait_for "the peer" in_a ping -qc 1 -W 1 "$(addr4 2 5)"
	links_over 5
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
	both over 6 link p5 type vlan id 6
	between 6 1000
	[ "$(sent p6)" -gt 1000 ] || fail "p6 has sent $(sent p6) packets"
}

test_bridge() {
	netns_up 1
	both addressless p0
	both over 5 type bridge
	both put_into p0 p5
	links_over 5
	check_traffic
}

test_macvlan() {
	netns_up 1
	both over 5 link p0 type macvlan mode bridge
	links_over 5
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
	test_vlan_of_two_planes \
	test_vlan_of_one_of_two_planes \
	test_vlan_of_datagrams \
	test_connection_management_in_a_vlan \
	test_vlan_removed_under_traffic \
	test_no_device_over_a_vlan \
	test_bond \
	test_bond_member_fails_under_traffic \
	test_bond_member_removed_under_traffic \
	test_vlan_over_a_bond \
	test_bridge \
	test_macvlan \
	test_addresses_come_and_go_under_traffic
ktap_exit
