#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Queue pairs that move between device and software in the middle of a transfer, of
# which every byte is compared.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload
is_sim || skip_all "needs the simulated NIC"

active() { ofl "$DEV_A" qp_active; }

test_software_goes_on() {
	offload_up 2
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

test_there_and_back() {
	local i

	offload_up 2
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

test_both_ends_move() {
	local i

	offload_up 2
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
	offload_up 2
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
	offload_up 2
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
	offload_up 2
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
	offload_up 2
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
	test_there_and_back \
	test_both_ends_move \
	test_device_refuses_to_take_over \
	test_device_refuses_to_give_back \
	test_device_leaves_without_a_state \
	test_faulty_device_is_not_asked
ktap_exit
