#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tests of the verbs, as they are, with all their connected queue pairs at a
# device. OFFLOAD_GROUPS are the groups of "mrverbs test".
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload

# group NAME: fails with the tests of the group
group() {
	offload_up 2
	policies require
	# Memory windows are software's.
	"$MRVERBS" test -x window ${TEST_ONLY_VERBS:+-k "$TEST_ONLY_VERBS"} "$DEV_A" "$DEV_B" "$1" ||
		fail "tests of the group $1"
	[ "$(ofl "$DEV_A" qp_add)" -gt 0 ] || fail "the device was not used"
	[ "$(ofl "$DEV_A" add_fallback)" = 0 ] || fail "software was used"
	ofl_settled
}

fns=()
for name in ${OFFLOAD_GROUPS:-order data error qp mr atomic}; do
	eval "test_group_$name() { group $name; }"
	fns+=("test_group_$name")
done
ktap_run_all "${fns[@]}"
ktap_exit
