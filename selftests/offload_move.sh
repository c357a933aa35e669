#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Queue pairs that move between device and software in the middle of a transfer, of
# which every byte is compared.
# shellcheck source-path=SCRIPTDIR
# shellcheck disable=SC2119 # offload_up needs no number of planes.
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload

active() { ofl "$DEV_A" qp_active; }

test_software_goes_on() {
	need_sim
	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 4 -m 100000
	sim_remove "$SIM_A" || fail "cannot unregister"
	[ "$(active)" = 0 ] || fail "the device has queue pairs"
	[ "$(ofl "$DEV_A" export_ok)" -ge 4 ] || fail "$(ofl "$DEV_A" export_ok) have moved"
	sleep 1
	soak_alive
	soak_end
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_settled
}

# The cable of both NICs, who cannot know of each other; the other plane is software's alone.
test_network_devices_go() {
	need_sim
	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 4
	ip -n "$NS_A" link del p0 || fail "cannot remove p0"
	wait_for_value "no queue pairs at the device" 0 active
	sleep 1
	soak_alive
	soak_end
	[ "$(ofl "$DEV_A" export_ok)" -ge 4 ] || fail "$(ofl "$DEV_A" export_ok) have moved"
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_is "$DEV_B" qp_lost -eq 0
	ofl_settled
}

test_there_and_back() {
	local i

	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 4 -d 8
	for i in 1 2 3 4 5; do
		policy "$DEV_A" off
		[ "$(active)" = 0 ] || fail "$(active) stay at the device"
		sleep 0.4
		soak_alive
		policy "$DEV_A" prefer
		[ "$(active)" -ge 4 ] || fail "only $(active) are at the device"
		sleep 0.4
		soak_alive
	done
	soak_end
	[ "$(ofl "$DEV_A" export_ok)" -ge 20 ] || fail "$(ofl "$DEV_A" export_ok) left"
	[ "$(ofl "$DEV_A" import)" -ge 20 ] || fail "$(ofl "$DEV_A" import) came"
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_settled
}

# The numbers of A's connected queue pairs.
numbers() {
	rdma resource show qp link "$DEV_A/1" type RC | sed -n 's/.* lqpn \([0-9]*\) .*/\1/p'
}

# One queue pair has a policy of its own, the others keep that of the device.
test_one_of_many() {
	local qpn

	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 3
	wait_for "three queue pairs" more_than 2 active
	qpn=$(numbers | head -n 1)
	policy "$DEV_A" "$qpn off"
	[ "$(active)" = 2 ] || fail "$(active) are at the device, not 2"
	[ "$(policy_of "$DEV_A")" = "prefer $qpn off" ] || fail "policy: $(policy_of "$DEV_A")"
	policy "$DEV_A" off
	policy "$DEV_A" "$qpn prefer"
	[ "$(active)" = 1 ] || fail "$(active) are at the device, not 1"
	sleep 0.3
	soak_alive
	policy "$DEV_A" "$qpn default"
	[ "$(active)" = 0 ] || fail "$(active) stay at the device"
	[ "$(policy_of "$DEV_A")" = off ] || fail "policy: $(policy_of "$DEV_A")"
	policy "$DEV_A" prefer
	[ "$(active)" = 3 ] || fail "$(active) are at the device, not 3"
	soak_end
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_settled
}

test_both_ends_move() {
	local i

	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 2
	for i in 1 2 3; do
		policies off
		sleep 0.3
		soak_alive
		policies prefer
		sleep 0.3
		soak_alive
	done
	soak_end
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_is "$DEV_B" qp_lost -eq 0
	ofl_settled
}

test_device_refuses_to_take_over() {
	need_sim
	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 2
	policy "$DEV_A" off
	[ "$(active)" = 0 ] || fail "they stay at the device"
	sim_set "$SIM_A" fail "qp_add 5"
	policy "$DEV_A" prefer
	# The one that failed goes on in software, the other at the device.
	[ "$(active)" -ge 1 ] || fail "none has moved"
	sleep 0.5
	soak_alive
	soak_end
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_settled
}

test_device_refuses_to_give_back() {
	need_sim
	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 2
	sim_set "$SIM_A" fail "qp_export 95"
	policy "$DEV_A" off
	[ "$(ofl "$DEV_A" export_fail)" = 1 ] || fail "nothing was refused"
	[ "$(active)" -ge 1 ] || fail "none has stayed"
	sleep 0.5
	soak_alive
	soak_end
	ofl_is "$DEV_A" qp_lost -eq 0
	ofl_settled
}

test_device_leaves_without_a_state() {
	need_sim
	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 1
	sim_set "$SIM_A" fail "qp_export 95"
	sim_remove "$SIM_A" || fail "cannot unregister"
	soak_breaks
	ofl_is "$DEV_A" qp_lost -ge 1
	ofl_settled
}

test_faulty_device_is_not_asked() {
	need_sim
	offload_up
	policies prefer
	ofl_mark
	offload_bg -q 2
	sim_set "$SIM_A" fault smoke
	soak_breaks
	ofl_is "$DEV_A" qp_lost -ge 1
	[ "$(ofl "$DEV_A" export_ok)" = 0 ] || fail "a state of a faulty device was used"
	ofl_settled
}

ktap_run_all \
	test_software_goes_on \
	test_network_devices_go \
	test_there_and_back \
	test_one_of_many \
	test_both_ends_move \
	test_device_refuses_to_take_over \
	test_device_refuses_to_give_back \
	test_device_leaves_without_a_state \
	test_faulty_device_is_not_asked
ktap_exit
