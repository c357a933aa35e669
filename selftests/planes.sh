#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# All planes carry traffic, evenly, and what one of them does not carry the
# others do. Judged by what the netdevs have counted, not the module.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ib_send_bw ethtool
is_metaroce || skip_all "about metaroce only"

# Bytes sent by A (or $3) over each plane during a run of mrverbs soak with
# these options: carried PLANES "OPTIONS" [NAMESPACE]
carried() {
	local planes=$1 options=$2 ns=${3:-$NS_A} before=() i now

	for ((i = 0; i < planes; i++)); do
		before+=("$(tx_bytes "$ns" "p$i")")
	done
	# shellcheck disable=SC2086
	"$MRVERBS" soak -1 $options "$DEV_A" "$DEV_B" >&2 || fail "the traffic failed"
	for ((i = 0; i < planes; i++)); do
		now=$(tx_bytes "$ns" "p$i")
		echo $((now - before[i]))
	done
}

# even PERCENT BYTES...: whether each is within so much of the mean
even() {
	local percent=$1 sum=0 bytes mean

	shift
	for bytes; do
		sum=$((sum + bytes))
	done
	mean=$((sum / $#))
	echo "bytes per plane: $*"
	for bytes; do
		[ $((bytes * 100)) -ge $((mean * (100 - percent))) ] &&
			[ $((bytes * 100)) -le $((mean * (100 + percent))) ] || return 1
	done
}

# Paths avoid a plane that is slow, or silent for some milliseconds. On a machine
# that is busy with other things that may be any of them, now and then; but none
# that is favoured always: balanced PERCENT COMMAND..., one run of several.
balanced() {
	local percent=$1 bytes _

	shift
	for _ in 1 2 3 4 5 6; do
		bytes=$("$@") || exit
		# shellcheck disable=SC2086
		! even "$percent" $bytes || return 0
	done
	fail "not even in six runs"
}

# Within 10 % of each other is within 5 % of the mean of two.
balanced_planes() {
	hosts_up "$1"
	# Congestion control would have each path take what it sees fit.
	law fixed
	balanced $(($1 == 2 ? 5 : 10)) carried "$@"
}

test_two_planes_balanced_writes() {
	balanced_planes 2 "-q 4 -d 16 -n 500 -s 65536 -o write"
}

test_two_planes_balanced_sends() {
	balanced_planes 2 "-q 4 -d 16 -n 500 -s 65536 -o send"
}

test_two_planes_balanced_one_QP() {
	balanced_planes 2 "-q 1 -d 16 -n 1500 -s 65536 -o write"
}

test_two_planes_balanced_reads() {
	# The data of reads comes from B.
	balanced_planes 2 "-q 4 -d 16 -n 500 -s 65536 -o read" "$NS_B"
}

test_four_planes_balanced() {
	balanced_planes 4 "-q 4 -d 16 -n 800 -s 65536 -o write"
}

test_eight_planes_balanced() {
	balanced_planes 8 "-q 8 -d 16 -n 600 -s 65536 -o write"
}

carried_by_perftest() {
	local a0 a1 b0 b1

	a0=$(tx_bytes "$NS_B" p0)
	a1=$(tx_bytes "$NS_B" p1)
	client_server "ib_send_bw" \
		ib_send_bw -F -e -n 2000 -s 65536 -d "$DEV_A" -x "$(gid_index "$DEV_A")" -- \
		ib_send_bw -F -e -n 2000 -s 65536 -d "$DEV_B" -x "$(gid_index "$DEV_B")" \
		"$(addr4 1 0)"
	b0=$(tx_bytes "$NS_B" p0)
	b1=$(tx_bytes "$NS_B" p1)
	echo $((b0 - a0)) $((b1 - a1))
}

test_perftest_uses_both_planes() {
	hosts_up 2
	law fixed
	balanced 5 carried_by_perftest
}

test_counters_of_the_planes_agree_with_the_netdevs() {
	local i bytes before after counted netdev

	hosts_up 2
	before=("$(counter "$DEV_A" plane0_tx_bytes)" "$(counter "$DEV_A" plane1_tx_bytes)")
	bytes=$(carried 2 "-q 4 -d 16 -n 200 -s 65536 -o write") || exit
	after=("$(counter "$DEV_A" plane0_tx_bytes)" "$(counter "$DEV_A" plane1_tx_bytes)")
	read -ra netdev -d '' <<<"$bytes"
	for i in 0 1; do
		counted=$((after[i] - before[i]))
		echo "plane $i: $counted counted by the module, ${netdev[i]} by the netdev"
		# The netdev counts headers, acknowledgements and retransmissions too.
		[ "$counted" -gt 0 ] || fail "nothing counted"
		[ "$counted" -le "${netdev[i]}" ] || fail "more counted than sent"
		[ $((counted * 10)) -ge $((netdev[i] * 9)) ] || fail "too little counted"
	done
}

test_plane_added_between_two_connections() {
	hosts_up 1
	check_traffic
	plane_new 1
	link_new "$NS_A" "$DEV_A" p1 || fail "rdma link add"
	link_new "$NS_B" "$DEV_B" p1 || fail "rdma link add"
	# The connection of the first traffic ends, after a while without QPs.
	wait_for_value "the idle connection ends" 0 counter "$DEV_A" connections
	balanced 10 carried 2 "-q 4 -d 16 -n 300 -s 65536 -o write"
}

test_plane_added_to_a_connection() {
	hosts_up 1
	soak_bg -q 4 -m 100000
	wait_for_value "a connection" 1 counter "$DEV_A" connections
	plane_new 1
	link_new "$NS_A" "$DEV_A" p1 || fail "rdma link add"
	soak_alive
	link_new "$NS_B" "$DEV_B" p1 || fail "rdma link add"
	more_packets "$DEV_A" 1
	more_packets "$DEV_B" 1
	more_packets "$DEV_A" 0
	[ "$(counter "$DEV_A" connections)" = 1 ] || fail "another connection"
	soak_end
}

test_plane_replaced_under_a_connection() {
	hosts_up 2
	soak_bg -q 4 -m 100000
	wait_for_value "a connection" 1 counter "$DEV_A" connections
	more_packets "$DEV_A" 1
	ip -n "$NS_A" link del p1
	plane_new 1
	link_new "$NS_A" "$DEV_A" p1 || fail "rdma link add"
	link_new "$NS_B" "$DEV_B" p1 || fail "rdma link add"
	more_packets "$DEV_A" 1
	more_packets "$DEV_B" 1
	soak_end
}

test_plane_gets_its_address_under_a_connection() {
	hosts_up 2
	soak_bg -q 4 -m 100000
	wait_for_value "a connection" 1 counter "$DEV_A" connections
	more_packets "$DEV_A" 1
	ip -n "$NS_A" addr flush dev p1
	more_packets "$DEV_A" 0
	ip -n "$NS_A" addr add "$(addr4 77 1)/24" dev p1
	more_packets "$DEV_A" 1
	more_packets "$DEV_B" 1
	soak_end
}

# Through a switch the peer does not see the link go: it has to be told, and that
# by another plane than the one by which they met.
test_peer_hears_of_a_plane_that_goes_down() {
	need_switch
	hosts_up 2
	soak_bg -q 4 -m 100000
	wait_for_value "a connection" 1 counter "$DEV_B" connections
	more_packets "$DEV_B" 0
	ip -n "$NS_A" link set p0 down
	# It is told, or has found out before the news came.
	# shellcheck disable=SC2317
	knows() {
		[ $(($(counter "$DEV_B" reroutes_plane) + $(counter "$DEV_B" planes_left))) -gt 0 ]
	}
	wait_for "B knows of it" knows
	more_packets "$DEV_B" 1
	ip -n "$NS_A" link set p0 up
	more_packets "$DEV_B" 0
	soak_end
}

# plane_name DEVICE NUMBER, and to remove: plane_remove DEVICE NETDEV
plane_name() { cat "/sys/class/infiniband/$1/planes/$2"; }
plane_remove() { echo "$2" >"/sys/class/infiniband/$1/planes/remove"; }

test_planes_are_listed_and_removed_one_by_one() {
	hosts_up 3
	[ "$(cat "/sys/class/infiniband/$DEV_A/planes/"[0-7])" = $'p0\np1\np2' ] ||
		fail "planes: $(grep . "/sys/class/infiniband/$DEV_A/planes/"[0-7])"
	! plane_remove "$DEV_A" p7 2>/dev/null || fail "a netdev that is no plane was removed"
	! plane_remove "$DEV_A" "" 2>/dev/null || fail "an empty name was taken"
	soak_bg -q 4 -m 100000
	wait_for_value "a connection" 1 counter "$DEV_A" connections
	# The primary one, under traffic.
	plane_remove "$DEV_A" p0 || fail "cannot remove p0"
	[ "$(plane_name "$DEV_A" 0)" = "" ] || fail "plane 0 is $(plane_name "$DEV_A" 0)"
	[ "$(plane_name "$DEV_A" 1)" = p1 ] || fail "plane 1 is $(plane_name "$DEV_A" 1)"
	wait_for_value "p1 is the primary plane" p1 link_netdev "$NS_A" "$DEV_A"
	more_packets "$DEV_A" 1
	more_packets "$DEV_A" 2
	# It can be a plane again, or another device's.
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add, plane 0 again"
	[ "$(plane_name "$DEV_A" 0)" = p0 ] || fail "plane 0 is $(plane_name "$DEV_A" 0)"
	more_packets "$DEV_A" 0
	plane_remove "$DEV_A" p2 || fail "cannot remove p2"
	plane_remove "$DEV_A" p0 || fail "cannot remove p0 again"
	! plane_remove "$DEV_A" p1 2>/dev/null || fail "the last plane was removed"
	more_packets "$DEV_A" 1
	soak_end
	ip -n "$NS_A" link show p0 >/dev/null || fail "the netdev went as well"
}

test_ordinary_user_removes_no_plane() {
	hosts_up 2
	! setpriv --reuid 65534 --clear-groups bash -c \
		"echo p1 >/sys/class/infiniband/$DEV_A/planes/remove" 2>/dev/null ||
		fail "an ordinary user removed a plane"
	[ "$(plane_name "$DEV_A" 1)" = p1 ] || fail "plane 1 is $(plane_name "$DEV_A" 1)"
}

need_switch() {
	SWITCH=mrs$$
	defer "ip netns del $SWITCH"
	ip netns add "$SWITCH" || fail "cannot make a namespace"
}

test_unequal_numbers_of_planes() {
	hosts_up 1
	plane_new 1
	plane_new 2
	link_new "$NS_A" "$DEV_A" p1 || fail "rdma link add"
	link_new "$NS_A" "$DEV_A" p2 || fail "rdma link add"
	check_traffic
}

ktap_run_all \
	test_two_planes_balanced_writes \
	test_two_planes_balanced_sends \
	test_two_planes_balanced_one_QP \
	test_two_planes_balanced_reads \
	test_four_planes_balanced \
	test_eight_planes_balanced \
	test_perftest_uses_both_planes \
	test_counters_of_the_planes_agree_with_the_netdevs \
	test_plane_added_between_two_connections \
	test_plane_added_to_a_connection \
	test_plane_replaced_under_a_connection \
	test_plane_gets_its_address_under_a_connection \
	test_peer_hears_of_a_plane_that_goes_down \
	test_planes_are_listed_and_removed_one_by_one \
	test_ordinary_user_removes_no_plane \
	test_unequal_numbers_of_planes
ktap_exit
