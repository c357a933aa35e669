#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A failure in each operation of a device, one at a time: what may fall back does,
# what may not fails the verbs call, and nothing is left behind.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload
is_sim || skip_all "needs the simulated NIC"

EIO=5
ENOMEM=12
ENODEV=19
ENOSPC=28
EOPNOTSUPP=95

fails_next() { sim_set "$SIM_A" fail "$1 $2"; }
has_failed() { [ -z "$(cat "$SIM/$SIM_A/fail")" ] || fail "$1 was not called"; }

# The device works again, as if nothing had been.
works_again() {
	ofl_mark
	some_traffic || fail "$1: no traffic afterwards"
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_is "$DEV_A" add_fallback -eq 0
	ofl_settled
}

# Another registration, which knows no memory regions and no queues yet.
fresh() { sim_again "$NS_A" p0 "$SIM_A" || fail "cannot register"; }

test_refusals_of_each_operation_fall_back() {
	local op errno

	offload_up
	policies prefer
	for op in cq_add conn_add qp_add; do
		for errno in $EOPNOTSUPP $ENOSPC $ENODEV; do
			fresh
			fails_next $op "$errno"
			ofl_mark
			some_traffic || fail "$op $errno: no traffic"
			has_failed $op
			ofl_is "$DEV_A" add_fallback -eq 1
			ofl_is "$DEV_A" add_fail -eq 0
			ofl_settled
		done
		works_again $op
	done
}

test_failures_of_each_operation_fail() {
	local op errno

	offload_up
	policies prefer
	for op in cq_add conn_add qp_add; do
		for errno in $ENOMEM $EIO; do
			fresh
			fails_next $op "$errno"
			ofl_mark
			no_traffic
			has_failed $op
			ofl_is "$DEV_A" add_fail -eq 1
			ofl_is "$DEV_A" add_fallback -eq 0
			ofl_settled
		done
		works_again $op
	done
}

test_refusals_fail_with_require() {
	local op

	offload_up
	policies require
	for op in cq_add conn_add qp_add; do
		fresh
		fails_next $op $ENOSPC
		ofl_mark
		no_traffic
		has_failed $op
		ofl_is "$DEV_A" add_fail -eq 1
		ofl_settled
		works_again $op
	done
}

# Memory is registered when queue pairs are at the device: there is no way back.
test_memory_that_the_device_does_not_take() {
	local errno

	offload_up
	policies prefer
	for errno in $EOPNOTSUPP $ENOMEM; do
		fails_next mr_add "$errno"
		ofl_mark
		no_traffic
		has_failed mr_add
		ofl_is "$DEV_A" qp_add -ge 1
		ofl_settled
	done
	works_again mr_add
}

test_change_of_memory_that_the_device_does_not_take() {
	offload_up
	policies require
	MRVERBS_FAIL=$SIM/$SIM_B/fail "$MRVERBS" test "$DEV_A" "$DEV_B" refused >&2 ||
		fail "the region is not as before"
	[ -z "$(cat "$SIM/$SIM_B/fail")" ] || fail "mr_add was not called"
	ofl_settled
}

test_a_change_that_fails() {
	local errno

	offload_up
	policies prefer
	for errno in $EIO $EOPNOTSUPP; do
		fails_next qp_modify "$errno"
		ofl_mark
		# It was decided: there is no way back to software.
		no_traffic
		has_failed qp_modify
		ofl_is "$DEV_A" qp_add -ge 1
		ofl_is "$DEV_A" add_fallback -eq 0
		ofl_settled
	done
	works_again qp_modify
}

test_registration_that_fails() {
	offload_up
	policies prefer
	fails_next register $EIO
	! sim_again "$NS_A" p0 "$SIM_A" || fail "it was registered"
	fresh
	works_again register
}

test_slow_device() {
	offload_up
	policies require
	sim_set "$SIM_A" delay 2000
	ofl_mark
	some_traffic || fail "no traffic"
	ofl_is "$DEV_A" qp_add -ge 2
	ofl_settled
}

test_knobs_are_checked() {
	local bad

	offload_up 1
	for bad in "mr_del 5" "qp_add" "nothing 5" "qp_add x" "qp_add 5 6" ""; do
		! echo "$bad" >"$SIM/$SIM_A/fail" 2>/dev/null || fail "took the failure '$bad'"
	done
	for bad in "max_qp" "max_qp -1" "other 1" ""; do
		! echo "$bad" >"$SIM/$SIM_A/caps" 2>/dev/null || fail "took '$bad'"
	done
	! echo 1000001 >"$SIM/$SIM_A/delay" 2>/dev/null || fail "took a delay over a second"
	! echo other >"$SIM/unregister" 2>/dev/null || fail "removed what is not there"
	! sim_write "$NS_A" register "p7 other" || fail "registered for no network device"
	! sim_write "$NS_A" register "p0 ../x" || fail "took a name that is a path"
}

ktap_run_all \
	test_refusals_of_each_operation_fall_back \
	test_failures_of_each_operation_fail \
	test_refusals_fail_with_require \
	test_memory_that_the_device_does_not_take \
	test_change_of_memory_that_the_device_does_not_take \
	test_a_change_that_fails \
	test_registration_that_fails \
	test_slow_device \
	test_knobs_are_checked
ktap_exit
