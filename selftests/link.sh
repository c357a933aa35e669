#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# rdma link add and del: one device, several planes, bad requests, open files.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

test_add_and_delete() {
	netns_up 1
	defer links_down
	link_gone "$DEV_A" || fail "$DEV_A is there already"
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	link_exists "$DEV_A" || fail "no link $DEV_A/1"
	wait_for "$DEV_A active" link_state_is "$DEV_A" ACTIVE
	[ "$(link_netdev "$NS_A" "$DEV_A")" = p0 ] || fail "netdev $(link_netdev "$NS_A" "$DEV_A")"
	rdma link show "$DEV_A/1" | grep -q 'physical_state LINK_UP' || fail "physical state"
	rdma link del "$DEV_A" || fail "rdma link del"
	link_gone "$DEV_A" || fail "$DEV_A is still there"
	ip -n "$NS_A" link show p0 >/dev/null || fail "the netdev went as well"
}

test_add_and_delete_fifty_times() {
	local i

	netns_up 1
	defer links_down
	for ((i = 0; i < 50; i++)); do
		link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add, round $i"
		rdma link del "$DEV_A" || fail "rdma link del, round $i"
	done
	link_gone "$DEV_A" || fail "$DEV_A is still there"
}

test_netdev_that_is_in_use() {
	netns_up 1
	defer "links_down"
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	! link_new "$NS_A" "$DEV_A" p0 2>/dev/null || fail "the same link twice"
	! link_new "$NS_A" "$DEV_B" p0 2>/dev/null || fail "a second link on the netdev"
	link_gone "$DEV_B" || fail "a link of a refused request"
	wait_for "$DEV_A active" link_state_is "$DEV_A" ACTIVE
}

test_netdev_that_is_no_ethernet() {
	need_metaroce
	netns_up 1
	defer "links_down"
	! link_new "$NS_A" "$DEV_A" lo 2>/dev/null || fail "loopback was accepted"
	link_gone "$DEV_A" || fail "a link of a refused request"
}

test_ordinary_user_is_refused() {
	netns_up 1
	defer links_down
	! in_a setpriv --reuid 65534 --clear-groups rdma link add "$DEV_A" type "$RDMA_TYPE" \
		netdev p0 2>/dev/null || fail "an ordinary user made a link"
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	! setpriv --reuid 65534 --clear-groups rdma link del "$DEV_A" 2>/dev/null ||
		fail "an ordinary user deleted a link"
	link_exists "$DEV_A" || fail "$DEV_A is gone"
}

test_long_names() {
	local netdev=abcdefghijklmno dev=metaroce-device-with-a-long-name-of-fifty-three$$

	netns_up 1
	defer "link_del $dev"
	ip -n "$NS_A" link set p0 down
	ip -n "$NS_A" link set p0 name $netdev
	ip -n "$NS_A" link set $netdev up
	link_new "$NS_A" "$dev" $netdev || fail "rdma link add"
	[ "$(link_netdev "$NS_A" "$dev")" = $netdev ] || fail "netdev $(link_netdev "$NS_A" "$dev")"
	wait_for "$dev active" link_state_is "$dev" ACTIVE
	ibv_devinfo -d "$dev" >/dev/null || fail "ibv_devinfo"
	rdma link del "$dev" || fail "rdma link del"
}

test_planes_are_added_by_the_same_name() {
	need_metaroce
	hosts_up 4
	[ "$(rdma link show | grep -c "^link $DEV_A/")" = 1 ] || fail "not one link"
	[ "$(link_netdev "$NS_A" "$DEV_A")" = p0 ] || fail "the first netdev is not the primary one"
	check_traffic
	! link_new "$NS_A" "$DEV_A" p3 2>/dev/null || fail "a plane twice"
	! link_new "$NS_A" other$$ p3 2>/dev/null || fail "a plane of two devices"
}

test_eight_planes_and_no_ninth() {
	need_metaroce
	hosts_up 8
	plane_new 8
	! link_new "$NS_A" "$DEV_A" p8 2>/dev/null || fail "a ninth plane"
	check_traffic
}

test_plane_of_another_namespace_is_refused() {
	need_metaroce
	hosts_up 1
	! link_new "$NS_B" "$DEV_A" p0 2>/dev/null || fail "a netdev of two devices"
	plane_new 1
	# The same name from another namespace may be another device or nothing.
	link_new "$NS_B" "$DEV_A" p1 2>/dev/null
	[ "$(link_netdev "$NS_A" "$DEV_A")" = p0 ] || fail "the device changed"
	check_traffic
}

test_two_devices_in_one_namespace() {
	netns_up 2
	defer "links_down; link_del ${DEV_A}x; link_del ${DEV_B}x"
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add $DEV_A"
	link_new "$NS_A" "${DEV_A}x" p1 || fail "a second link in one namespace"
	link_new "$NS_B" "$DEV_B" p0 || fail "rdma link add $DEV_B"
	link_new "$NS_B" "${DEV_B}x" p1 || fail "a second link in one namespace"
	links_ready
	wait_for "GIDs" has_gid "${DEV_A}x"
	wait_for "GIDs" has_gid "${DEV_B}x"
	check_traffic
	DEV_A=${DEV_A}x DEV_B=${DEV_B}x check_traffic
	rdma link del "$DEV_A" || fail "rdma link del"
	DEV_A=${DEV_A}x DEV_B=${DEV_B}x check_traffic
}

test_delete_under_an_open_file() {
	hosts_up 1
	hold "$DEV_A"
	timeout "$PATIENCE" rdma link del "$DEV_A" || fail "rdma link del: $?"
	link_gone "$DEV_A" || fail "$DEV_A is still there"
	hold_says "event local catastrophic error"
	hold_end
	# The name is free again.
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	links_ready
	check_traffic
}

test_delete_under_traffic() {
	local status=0

	hosts_up 2
	soak_bg -q 4 -m 60000 -p 30
	sleep 1
	soak_alive
	timeout "$PATIENCE" rdma link del "$DEV_A" || fail "rdma link del: $?"
	link_gone "$DEV_A" || fail "$DEV_A is still there"
	# The traffic cannot go on; how it ends is its own affair, but it ends.
	timeout "$PATIENCE" tail --pid="$soak_pid" -f /dev/null || fail "the traffic hangs"
	wait "$soak_pid" || status=$?
	[ $status -lt 128 ] || fail "the client died of signal $((status - 128))"
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	links_ready
	check_traffic
}

test_delete_under_a_killed_process() {
	hosts_up 1
	hold "$DEV_A"
	kill -9 "$hold_pid"
	timeout "$PATIENCE" rdma link del "$DEV_A" || fail "rdma link del: $?"
	link_gone "$DEV_A" || fail "$DEV_A is still there"
}

# The page never comes; what waits for it holds nothing up but itself.
test_delete_while_a_page_is_fetched() {
	local log=$SCRATCH/stall.$$ pid

	hosts_up 1
	"$MRVERBS" stall "$DEV_A" "$DEV_B" >"$log" 2>&1 &
	pid=$!
	defer "kill $pid 2>/dev/null; rm -f $log"
	log_says "$log" "ready\|userfaultfd\|on-demand"
	grep -q ready "$log" || skip "$(cat "$log")"
	rdma link del "$DEV_A" &
	# shellcheck disable=SC2317
	deleted() { ! kill -0 "$1" 2>/dev/null; }
	wait_for "the end of rdma link del" deleted $!
	link_gone "$DEV_A" || fail "the device is still there"
	kill -0 "$pid" 2>/dev/null || fail "the process has gone"
}

ktap_run_all \
	test_add_and_delete \
	test_add_and_delete_fifty_times \
	test_netdev_that_is_in_use \
	test_netdev_that_is_no_ethernet \
	test_ordinary_user_is_refused \
	test_long_names \
	test_planes_are_added_by_the_same_name \
	test_eight_planes_and_no_ninth \
	test_plane_of_another_namespace_is_refused \
	test_two_devices_in_one_namespace \
	test_delete_under_an_open_file \
	test_delete_under_traffic \
	test_delete_under_a_killed_process \
	test_delete_while_a_page_is_fetched
ktap_exit
