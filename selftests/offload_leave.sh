#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Devices that leave under traffic: unregistered, faulty, with their network device,
# with their module. Queue pairs are lost, nothing else is.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload
is_sim || skip_all "needs the simulated NIC"

# After the loss of A's device with $1 queue pairs: counted, and software goes on.
lost() {
	soak_breaks
	ofl_is "$DEV_A" faults -eq 1
	ofl_is "$DEV_A" qp_lost -ge 1
	ofl_settled
	ofl_mark
	policies prefer
	some_traffic || fail "no traffic afterwards"
	ofl_is "$DEV_A" qp_add -eq 0
	ofl_is "$DEV_A" add_fallback -ge 2
	ofl_settled
}

test_unregistered_under_traffic() {
	offload_up
	policies require
	ofl_mark
	offload_bg -q 4 -m 100000
	sim_remove "$SIM_A" || fail "cannot unregister"
	lost
	sim_add "$NS_A" p0 "$SIM_A"
	ofl_mark
	some_traffic || fail "no traffic with the new device"
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_settled
}

test_fault_under_traffic() {
	offload_up
	policies require
	ofl_mark
	offload_bg -q 4 -m 100000
	sim_set "$SIM_A" fault smoke
	lost
	# It is registered still, and of no use until it registers anew.
	sim_again "$NS_A" p0 "$SIM_A" || fail "cannot register again"
	ofl_mark
	some_traffic || fail "no traffic with the repaired device"
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_settled
}

test_fault_while_idle() {
	offload_up 1
	policies prefer
	some_traffic || fail "no traffic"
	ofl_mark
	sim_set "$SIM_A" fault smoke
	sim_set "$SIM_A" fault again
	some_traffic || fail "no traffic after the fault"
	ofl_is "$DEV_A" qp_add -eq 0
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_settled
}

test_registered_anew_under_traffic() {
	offload_up
	policies require
	ofl_mark
	offload_bg -q 4 -m 100000
	sim_again "$NS_A" p0 "$SIM_A" || fail "cannot register again"
	soak_breaks
	ofl_is "$DEV_A" qp_lost -ge 1
	ofl_settled
	ofl_mark
	some_traffic || fail "no traffic afterwards"
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_settled
}

test_netdev_removed_under_traffic() {
	offload_up
	policies require
	offload_bg -q 4 -m 100000
	# That of the device and first plane.
	ip -n "$NS_A" link del p0 || fail "cannot remove p0"
	soak_breaks
	! ip -n "$NS_A" link show p0 >/dev/null 2>&1 || fail "p0 is held"
	ofl_settled
	sim_remove "$SIM_A" || fail "cannot unregister"
	sim_remove "$SIM_B" || fail "cannot unregister"
}

# A network device that goes to another namespace is lost for the RDMA device, not for the NIC.
test_netdev_moved_under_traffic() {
	offload_up
	policies require
	offload_bg -q 4 -m 100000
	ip -n "$NS_A" link set p0 netns 1 name mrlent || fail "cannot move p0"
	soak_breaks
	ofl_settled
	ip link set mrlent netns "$NS_A" name p0 || fail "cannot move p0 back"
	plane_ready "$NS_A" 1 0
	links_down
	links_over 0
	policies require
	some_traffic || fail "no traffic after the move"
	ofl_settled
}

test_link_removed_under_traffic() {
	offload_up
	policies require
	offload_bg -q 4 -m 100000
	rdma link del "$DEV_A" || fail "rdma link del"
	soak_breaks
	# The device is free for another one.
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	link_new "$NS_A" "$DEV_A" p1 || fail "rdma link add"
	links_ready
	policies require
	some_traffic || fail "no traffic with the new link"
	[ "$(ofl "$DEV_A" qp_add)" -ge 2 ] || fail "the device was not used"
	ofl_settled
}

test_module_of_the_device_goes_under_traffic() {
	offload_up
	policies require
	ofl_mark
	offload_bg -q 4 -m 100000
	rmmod metaroce_sim || fail "rmmod metaroce_sim"
	lost
}

test_orders_of_unloading() {
	offload_up 1
	policies prefer
	some_traffic || fail "no traffic"
	! rmmod "$MODULE" 2>/dev/null || fail "rmmod $MODULE under its user"
	rmmod metaroce_sim || fail "rmmod metaroce_sim"
	some_traffic || fail "no traffic without devices"
	links_down
	rmmod "$MODULE" || fail "rmmod $MODULE"
	# Loading the one loads the other.
	modprobe metaroce_sim || fail "modprobe metaroce_sim"
	[ -e "/sys/module/$MODULE" ] || fail "$MODULE is not loaded"
	rmmod metaroce_sim || fail "rmmod metaroce_sim, idle"
}

test_killed_process() {
	offload_up
	policies require
	offload_bg -q 8 -m 60000
	kill -9 "$soak_pid"
	wait "$soak_pid" 2>/dev/null
	ofl_settled
	some_traffic || fail "no traffic afterwards"
	ofl_settled
}

ktap_run_all \
	test_unregistered_under_traffic \
	test_fault_under_traffic \
	test_fault_while_idle \
	test_registered_anew_under_traffic \
	test_netdev_removed_under_traffic \
	test_netdev_moved_under_traffic \
	test_link_removed_under_traffic \
	test_module_of_the_device_goes_under_traffic \
	test_orders_of_unloading \
	test_killed_process
ktap_exit
