#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Devices and software talk with each other, every byte compared; planes fail.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload

test_device_and_software() {
	offload_up
	ofl_mark
	policy "$DEV_A" require
	policy "$DEV_B" off
	check_traffic
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_is "$DEV_B" qp_add -eq 0
	ofl_settled
}

test_software_and_device() {
	offload_up
	ofl_mark
	policy "$DEV_A" off
	policy "$DEV_B" require
	check_traffic
	ofl_is "$DEV_A" qp_add -eq 0
	ofl_is "$DEV_B" qp_add -ge 2
	ofl_settled
}

test_two_devices() {
	offload_up
	ofl_mark
	policies require
	check_traffic
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_is "$DEV_B" qp_add -ge 2
	ofl_settled
}

test_queue_pairs_of_both_kinds_at_once() {
	need_sim
	offload_up
	sim_set "$SIM_A" caps "max_qp 3"
	sim_set "$SIM_B" caps "max_qp 2"
	sim_again "$NS_A" p0 "$SIM_A" || fail "cannot register"
	sim_again "$NS_B" p0 "$SIM_B" || fail "cannot register"
	ofl_mark
	policies prefer
	timeout "$PATIENCE" "$MRVERBS" soak -q 6 -d 8 -n 24 -m 100000 "$DEV_A" "$DEV_B" ||
		fail "no traffic"
	ofl_is "$DEV_A" qp_add -eq 3
	ofl_is "$DEV_A" add_fallback -eq 3
	ofl_is "$DEV_B" qp_add -eq 2
	ofl_settled
}

# first_device_goes DEV_A DEV_B: these are used, and lose A's NIC
first_device_goes() {
	local DEV_A=$1 DEV_B=$2

	ofl_mark
	check_traffic
	ofl_is "$DEV_A" qp_add -ge 2
	sim_remove "$SIM_A" || fail "cannot unregister"
	no_traffic
}

# Two RDMA devices of a host, each with a NIC of its own: what becomes of one is nothing to
# the other.
test_two_devices_of_a_host() {
	local first_a=$DEV_A first_b=$DEV_B

	need_sim
	offload_up 1
	policies require
	plane_new 1
	DEV_A=${first_a}x DEV_B=${first_b}x
	defer "link_del $DEV_A; link_del $DEV_B"
	links_over 1
	sim_add "$NS_A" p1 "${SIM_A}x"
	sim_add "$NS_B" p1 "${SIM_B}x"
	policies require
	offload_bg -q 2 -d 8
	first_device_goes "$first_a" "$first_b"
	soak_alive
	soak_end
	[ "$(sim_ops "${SIM_A}x" qp_add)" -ge 2 ] || fail "the second NIC was not used"
	ofl_settled
}

# The paths of A's device that are on a plane: on_plane NUMBER
on_plane() { grep '"type":"path"' "$SIM/$SIM_A/paths" | grep -c "\"plane\":$1,"; }

test_a_plane_fails() {
	local told

	need_planes 2
	offload_up
	policies require
	offload_bg -q 2 -d 8
	if is_sim; then
		[ "$(on_plane 1)" -gt 0 ] || fail "plane 1 has no path"
		told=$(sim_ops "$SIM_A" conn_set_planes)
	fi
	ip -n "$NS_A" link set p1 down
	if is_sim; then
		wait_for "the device is told" more_than "$told" sim_ops "$SIM_A" conn_set_planes
		wait_for_value "plane 1 is left" 0 on_plane 1
	fi
	sleep 0.5
	soak_alive
	ip -n "$NS_A" link set p1 up
	if is_sim; then
		wait_for "paths are back" more_than 0 on_plane 1
	fi
	soak_end
	ofl_settled
}

test_a_plane_comes() {
	need_planes 2
	offload_up 1
	policies require
	offload_bg -q 2 -d 8
	plane_new 1
	link_new "$NS_A" "$DEV_A" p1 || fail "rdma link add"
	link_new "$NS_B" "$DEV_B" p1 || fail "rdma link add"
	! is_sim || wait_for "the device is told" more_than 0 sim_ops "$SIM_A" conn_set_planes
	sleep 0.5
	soak_alive
	soak_end
	ofl_settled
}

ktap_run_all \
	test_device_and_software \
	test_software_and_device \
	test_two_devices \
	test_two_devices_of_a_host \
	test_queue_pairs_of_both_kinds_at_once \
	test_a_plane_fails \
	test_a_plane_comes
ktap_exit
