#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The driver for AMD Pensando NICs on a machine that has none: it comes and goes, and
# whatever is to be offloaded is software's.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
require_offload
modprobe metaroce_ionic 2>/dev/null || skip_all "no module metaroce_ionic"
rmmod metaroce_ionic

load() {
	modprobe metaroce_ionic "$@" || fail "modprobe metaroce_ionic $*"
	defer "rmmod metaroce_ionic 2>/dev/null"
}

unload() {
	rmmod metaroce_ionic || fail "rmmod metaroce_ionic"
}

# The bus takes a driver's name for that of its module as well.
drivers() { (cd /sys/bus/auxiliary/drivers && echo metaroce_ionic*); }
ALONE=metaroce_ionic.metaroce_ionic

test_comes_and_goes() {
	local i

	for ((i = 0; i < 5; i++)); do
		load
		[ "$(drivers)" = $ALONE ] || fail "drivers: $(drivers)"
		unload
	done
}

test_takes_the_rdma_function_if_told_to() {
	load take_rdma=1
	[ "$(drivers)" = "$ALONE metaroce_ionic_rdma.metaroce_ionic_rdma" ] ||
		fail "drivers: $(drivers)"
	unload
	[ "$(drivers)" = "metaroce_ionic*" ] || fail "left: $(drivers)"
}

test_holds_the_core() {
	load
	! rmmod "$MODULE" 2>/dev/null || fail "rmmod $MODULE under its user"
	unload
}

test_software_carries() {
	load
	hosts_up 1
	ofl_mark
	policies prefer
	some_traffic || fail "no traffic"
	ofl_is "$DEV_A" add_fallback -ge 2
	ofl_is "$DEV_A" qp_add -eq 0
	policies require
	no_traffic
	# Network devices come and go under it.
	plane_new 1
	ip -n "$NS_A" link del p1
	unload
	ofl_settled
}

ktap_run_all \
	test_comes_and_goes \
	test_takes_the_rdma_function_if_told_to \
	test_holds_the_core \
	test_software_carries
ktap_exit
