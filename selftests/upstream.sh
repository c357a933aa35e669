#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the kernel's own tools/testing/selftests/rdma looks at with Soft-RoCE, for
# this device: sockets, bytes sent and received, names. rping between namespaces,
# the remaining one, is in app_cm.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require rping ss

# The UDP port that devices have by default.
PORT=$(is_metaroce && echo 24791 || echo 4791)

# Whether something listens: bound NAMESPACE FAMILY
bound() { [ -n "$(ip netns exec "$1" ss -Hln"$2"u "sport = :$PORT")" ]; }
unbound() { ! bound "$@"; }

# host_with NETDEV...: the namespace A, with network devices that lead nowhere
host_with() {
	local name i=0

	netns_up 0
	for name; do
		ip -n "$NS_A" link add "$name" type dummy || skip "no dummy devices"
		plane_address "$name" $((i++))
	done
	defer links_down
}

plane_address() {
	ip -n "$NS_A" addr add "$(addr4 1 "$2")/24" dev "$1"
	ip -n "$NS_A" addr add "$(addr6 1 "$2")/64" dev "$1" nodad
	ip -n "$NS_A" link set "$1" up
}

# rxe_ipv6
test_socket_of_IPv6_alone() {
	host_with d0
	ip -n "$NS_A" addr del "$(addr4 1 0)/24" dev d0
	unbound "$NS_A" 6 || fail "the port is in use"
	link_new "$NS_A" "$DEV_A" d0 || fail "rdma link add"
	bound "$NS_A" 6 || fail "nobody listens"
	rdma link del "$DEV_A" || fail "rdma link del"
	wait_for "the port free" unbound "$NS_A" 6
}

# rxe_socket_with_netns
test_socket_goes_with_the_last_device() {
	host_with d0 d1
	link_new "$NS_A" "$DEV_A" d0 || fail "rdma link add $DEV_A"
	bound "$NS_A" 4 || fail "nobody listens"
	link_new "$NS_A" "$DEV_A-2" d1 || fail "rdma link add $DEV_A-2"
	defer "link_del $DEV_A-2"
	bound "$NS_A" 4 || fail "nobody listens for two devices"
	unbound "$NS_B" 4 || fail "the other namespace has a socket, too"
	rdma link del "$DEV_A-2" || fail "rdma link del $DEV_A-2"
	bound "$NS_A" 4 || fail "the socket went with the wrong device"
	rdma link del "$DEV_A" || fail "rdma link del $DEV_A"
	wait_for "the port free" unbound "$NS_A" 4
}

# rxe_test_NETDEV_UNREGISTER
test_socket_of_a_network_device_that_is_removed() {
	host_with d0
	link_new "$NS_A" "$DEV_A" d0 || fail "rdma link add"
	bound "$NS_A" 4 || fail "nobody listens"
	ip -n "$NS_A" link del d0 || fail "ip link del"
	wait_for "$DEV_A gone" link_gone "$DEV_A"
	wait_for "the port free" unbound "$NS_A" 4
}

# The counters that perfquery and monitoring have, in units of four bytes
standard() { cat "/sys/class/infiniband/$1/ports/1/counters/$2"; }

# Whether B has received what A has sent: arrived A B. What comes when its connection
# is not there yet, or any more, belongs to no device: a few packets of a hundred bytes.
arrived() {
	local missing=$(($(standard "$1" port_xmit_data) - $(standard "$2" port_rcv_data)))

	[ $missing -ge 0 ] && [ $missing -lt 200 ]
}

# rxe_sent_rcvd_bytes
test_as_much_is_received_as_is_sent() {
	local before

	hosts_up 2
	before=$(standard "$DEV_B" port_xmit_data)
	APP_LISTENS=cm_listens client_server rping \
		rping -s -a "$(addr4 1 0)" -C 20 -S 60000 -- rping -c -a "$(addr4 1 0)" -C 20 -S 60000
	# The client's data goes to the server and comes back.
	[ $(($(standard "$DEV_B" port_xmit_data) - before)) -gt $((20 * 60000 / 4)) ] ||
		fail "not all data are counted"
	wait_for "all bytes at A" arrived "$DEV_B" "$DEV_A"
	wait_for "all bytes at B" arrived "$DEV_A" "$DEV_B"
	[ "$(standard "$DEV_A" port_rcv_packets)" -gt 0 ] || fail "no packets are counted"
	[ "$(standard "$DEV_A" port_xmit_discards)" = 0 ] || fail "packets that were not sent"
	[ "$(standard "$DEV_A" port_rcv_errors)" = 0 ] || fail "packets with errors"
}

# rxe_netns_names: two devices of network devices that stay outside
names_up() {
	local i

	modprobe dummy 2>/dev/null
	netns_exclusive 0
	for i in 0 1; do
		ip link add "mrd$i" type dummy || skip "no dummy devices"
		defer "ip link del mrd$i 2>/dev/null"
		ip link set "mrd$i" up
		rdma link add "mrn$i" type "$RDMA_TYPE" netdev "mrd$i" || fail "rdma link add mrn$i"
	done
}

name_exists() { rdma dev show "$1" >/dev/null 2>&1; }
name_in() { ip netns exec "$1" rdma dev show "$2" >/dev/null 2>&1; }

# One device to each namespace, both called "same"
same_names() {
	{ rdma dev set mrn0 netns "$NS_A" && in_a rdma dev set mrn0 name same; } || fail "mrn0 to A"
	{ rdma dev set mrn1 netns "$NS_B" && in_b rdma dev set mrn1 name same; } || fail "mrn1 to B"
}

test_same_name_in_two_namespaces() {
	names_up
	same_names
	{ name_in "$NS_A" same && name_in "$NS_B" same; } || fail "one is not there"
}

test_no_move_to_where_the_name_is_taken() {
	names_up
	same_names
	! in_a rdma dev set same netns "$NS_B" 2>/dev/null || fail "it moved"
	{ name_in "$NS_A" same && name_in "$NS_B" same; } || fail "one is not there any more"
}

test_moved_then_renamed() {
	names_up
	{ rdma dev set mrn0 netns "$NS_B" && in_b rdma dev set mrn0 name other; } || fail "rdma dev set"
	name_in "$NS_B" other || fail "it has not come"
	! name_exists mrn0 || fail "it has not gone"
}

test_no_name_twice_in_one_namespace() {
	names_up
	rdma dev set mrn0 name same || fail "rdma dev set name"
	! rdma dev set mrn1 name same 2>/dev/null || fail "two devices of one name"
	{ name_exists same && name_exists mrn1; } || fail "one is not there any more"
}

name_of() { rdma link show | sed -n "s,^link \([^/]*\)/.* netdev $1\( .*\)\?\$,\1,p"; }
has_name() { [ -n "$(name_of "$1")" ]; }

# A device of a namespace that ends comes back, by another name if need be.
test_back_from_a_namespace_that_ends() {
	names_up
	rdma dev set mrn0 name same || fail "rdma dev set name"
	{ rdma dev set mrn1 netns "$NS_B" && in_b rdma dev set mrn1 name same; } || fail "mrn1 to B"
	ip netns del "$NS_B"
	wait_for "the device back" has_name mrd1
	[ "$(name_of mrd0)" = same ] || fail "the one that stayed: $(name_of mrd0)"
	[[ $(name_of mrd1) == ibdev* ]] || fail "the one that came: $(name_of mrd1)"
}

# Not among the kernel's: what else rxe lets be set of a device
test_description() {
	local file

	host_with d0
	link_new "$NS_A" "$DEV_A" d0 || fail "rdma link add"
	file=/sys/class/infiniband/$DEV_A/node_desc
	echo "rack 7" >"$file" || fail "it cannot be set"
	[ "$(cat "$file")" = "rack 7" ] || fail "it is $(cat "$file")"
}

ktap_run_all \
	test_socket_of_IPv6_alone \
	test_socket_goes_with_the_last_device \
	test_socket_of_a_network_device_that_is_removed \
	test_as_much_is_received_as_is_sent \
	test_same_name_in_two_namespaces \
	test_no_move_to_where_the_name_is_taken \
	test_moved_then_renamed \
	test_no_name_twice_in_one_namespace \
	test_back_from_a_namespace_that_ends \
	test_description
ktap_exit
