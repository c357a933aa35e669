#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Who carries a queue pair: policies, capabilities, and what is counted.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload

test_off_asks_no_device() {
	offload_up
	ofl_mark
	policies off
	some_traffic || fail "no traffic"
	ofl_is "$DEV_A" qp_add -eq 0
	ofl_is "$DEV_A" add_fallback -eq 0
	ofl_settled
}

test_prefer_and_require_use_the_device() {
	local policy

	offload_up
	for policy in prefer require; do
		ofl_mark
		policies $policy
		some_traffic || fail "$policy: no traffic"
		ofl_is "$DEV_A" qp_add -ge 2
		ofl_is "$DEV_B" qp_add -ge 2
		ofl_is "$DEV_A" add_fallback -eq 0
		ofl_is "$DEV_A" add_fail -eq 0
		ofl_settled
	done
	[ "$(ofl "$DEV_A" tx_packets)" -gt 0 ] || fail "the device has sent nothing"
	[ "$(ofl "$DEV_A" rx_packets)" -gt 0 ] || fail "the device has received nothing"
	[ "$(ofl "$DEV_A" rx_errors)" = 0 ] || fail "the device has dropped packets"
}

test_without_a_device() {
	need_sim
	hosts_up 1
	ofl_mark
	policies prefer
	some_traffic || fail "no traffic"
	ofl_is "$DEV_A" add_fallback -ge 2
	policies require
	no_traffic
	ofl_is "$DEV_A" add_fail -gt 0
	ofl_is "$DEV_A" qp_add -eq 0
	ofl_settled
}

test_direct_verbs() {
	offload_up
	ofl_mark
	policies prefer
	"$MRVERBS" test "$DEV_A" "$DEV_B" dv_offload >"$SCRATCH/dv.$$" ||
		fail "$(grep -v "^ok" "$SCRATCH/dv.$$")"
	rm -f "$SCRATCH/dv.$$"
	ofl_settled
}

carried_by() { rdma resource show qp link "$DEV_A/1" -dd | grep -q "offload $1"; }

test_resources_tell_who_carries() {
	offload_up 1
	policies prefer
	offload_bg -q 2
	carried_by p0 || fail "$(rdma resource show qp link "$DEV_A/1" -dd)"
	soak_end
	policies off
	soak_bg -q 2
	wait_for "it is software's" carried_by software
	soak_end
	ofl_settled
}

# Each capability, one at a time too small: prefer falls back, require fails.
test_each_capability() {
	local cap was

	need_sim
	offload_up
	for cap in "flags 0" "send_ops 1" "cc 0" "mtus 0" "psn_window 1" "max_qp 0" \
		"max_cq 0" "max_conn 0" "max_wr 1" "max_sge 0" \
		"max_rd_atomic 0" "max_planes 1" "max_paths 1"; do
		was=$(grep "^${cap% *} " "$SIM/$SIM_A/caps")
		sim_set "$SIM_A" caps "$cap"
		sim_again "$NS_A" p0 "$SIM_A" || fail "$cap: cannot register"
		ofl_mark
		policies prefer
		some_traffic || fail "$cap: no traffic"
		ofl_is "$DEV_A" qp_add -eq 0
		ofl_is "$DEV_A" add_fallback -ge 2
		ofl_is "$DEV_B" qp_add -ge 2
		policies require
		no_traffic
		ofl_is "$DEV_A" add_fail -gt 0
		ofl_is "$DEV_A" qp_add -eq 0
		ofl_settled
		sim_set "$SIM_A" caps "$was"
		echo "$cap: fell back, was refused"
	done
	sim_again "$NS_A" p0 "$SIM_A" || fail "cannot register again"
	ofl_mark
	some_traffic || fail "no traffic"
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_settled
}

# Queue pairs at the device need their memory there: there is no way back for them.
test_no_room_for_memory() {
	need_sim
	offload_up
	sim_set "$SIM_A" caps "max_mr 0"
	sim_again "$NS_A" p0 "$SIM_A" || fail "cannot register"
	ofl_mark
	policies prefer
	no_traffic
	ofl_is "$DEV_A" qp_add -ge 1
	ofl_settled
	policies off
	some_traffic || fail "no traffic in software"
}

test_another_wire_version_is_refused() {
	need_sim
	offload_up 1
	sim_set "$SIM_A" caps "wire_version 99"
	! sim_again "$NS_A" p0 "$SIM_A" || fail "it was registered"
	sim_set "$SIM_A" caps "wire_version 1"
	sim_again "$NS_A" p0 "$SIM_A" || fail "it was not registered"
	! sim_write "$NS_A" register "p0 other" || fail "two devices for one network device"
}

test_room_for_some_queue_pairs() {
	need_sim
	offload_up
	sim_set "$SIM_A" caps "max_qp 2"
	sim_again "$NS_A" p0 "$SIM_A" || fail "cannot register"
	ofl_mark
	policies prefer
	QPS=6 some_traffic || fail "no traffic"
	ofl_is "$DEV_A" qp_add -eq 2
	ofl_is "$DEV_A" add_fallback -ge 4
	ofl_is "$DEV_B" qp_add -ge 6
	ofl_settled
}

# All queue pairs of a domain can name its regions, and a dma-buf is not for a device to have.
test_memory_of_a_dma_buf() {
	[ -e /dev/udmabuf ] || skip "no udmabuf"
	offload_up
	hold "$DEV_A"
	ofl_mark
	policies prefer
	some_traffic || fail "no traffic"
	ofl_is "$DEV_A" qp_add -eq 0
	ofl_is "$DEV_A" add_fallback -ge 2
	ofl_is "$DEV_B" qp_add -ge 2
	policies require
	no_traffic
	hold_end
	ofl_mark
	some_traffic || fail "no traffic after the region is gone"
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_settled
}

test_policies_are_checked() {
	local file bad

	offload_up 1
	for file in $(settings "$DEV_A" offload); do
		for bad in maybe "" requires "1 maybe" "x off" "-1 off" "16777215 off" "1 off off"; do
			! echo "$bad" >"$file" 2>/dev/null || fail "took the policy '$bad'"
		done
	done
}

ktap_run_all \
	test_off_asks_no_device \
	test_prefer_and_require_use_the_device \
	test_direct_verbs \
	test_without_a_device \
	test_resources_tell_who_carries \
	test_each_capability \
	test_no_room_for_memory \
	test_another_wire_version_is_refused \
	test_room_for_some_queue_pairs \
	test_memory_of_a_dma_buf \
	test_policies_are_checked
ktap_exit
