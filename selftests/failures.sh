#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Planes that fail under traffic in all the ways they can, and come back: no
# byte differs, no program notices, the others carry on and the plane is used
# again.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
. "$here/lib/switched.sh"
require tc ethtool
is_metaroce || skip_all "about metaroce only"
modprobe -q sch_netem || skip_all "no netem"

LAST=3

# Four planes that have all been used, and traffic in both directions.
traffic() {
	switched_hosts_up 4
	# Tries of a second each.
	soak_bg -p 120 -q 4 -m 100000 -t 18
	all_carry
}

all_carry() {
	local plane

	for ((plane = 0; plane <= LAST; plane++)); do
		more_packets "$DEV_A" $plane
		more_packets "$DEV_B" $plane
	done
}

# The other planes carry on.
others_carry() {
	local plane

	for ((plane = 0; plane < LAST; plane++)); do
		more_packets "$DEV_A" $plane
		more_packets "$DEV_B" $plane
	done
	soak_alive
}

# fails_and_returns FAILURE... -- MEND...: the last plane does
fails_and_returns() {
	local failure=()

	while [ "$1" != -- ]; do
		failure+=("$1")
		shift
	done
	shift
	traffic
	"${failure[@]}" || fail "${failure[*]}"
	others_carry
	"$@" || fail "$*"
	all_carry
	soak_end
	# What was lost with the plane did not end the connection.
	[ "$(counter "$DEV_A" connections)" -le 1 ] || fail "another connection was made"
}

port() { ip -n "$NS_SWITCH" link set "$1$LAST" "$2"; }
ports() { port a "$1" && port b "$1"; }

test_cable_of_the_other_host_pulled() {
	fails_and_returns port b down -- port b up
}

test_own_cable_pulled() {
	fails_and_returns ip -n "$NS_A" link set "p$LAST" down -- \
		ip -n "$NS_A" link set "p$LAST" up
}

test_both_cables_pulled() {
	fails_and_returns ports down -- ports up
}

test_plane_that_forwards_nothing() {
	fails_and_returns netem_plane $LAST loss 100% -- netem_plane $LAST delay 0
}

test_plane_that_forwards_nothing_in_one_direction() {
	fails_and_returns netem_to b $LAST loss 100% -- netem_to b $LAST delay 0
}

test_plane_that_loses_a_third() {
	fails_and_returns netem_plane $LAST loss 30% -- netem_plane $LAST delay 0
}

test_plane_that_gets_slow() {
	fails_and_returns netem_plane $LAST delay 50ms -- netem_plane $LAST delay 0
}

test_plane_that_flaps() {
	local i

	traffic
	for ((i = 0; i < 10; i++)); do
		port b down
		sleep 0.1
		port b up
		sleep 0.1
	done
	soak_alive
	all_carry
	soak_end
}

test_planes_that_fail_in_turn() {
	local plane

	traffic
	for ((plane = 0; plane <= LAST; plane++)); do
		netem_plane $plane loss 100%
		more_packets "$DEV_A" $(((plane + 1) % (LAST + 1)))
		more_packets "$DEV_B" $(((plane + 1) % (LAST + 1)))
		netem_plane $plane delay 0
	done
	soak_alive
	all_carry
	soak_end
}

# Shorter than the queue pairs' patience.
test_all_planes_gone_for_a_moment() {
	traffic
	netem $((LAST + 1)) loss 100%
	sleep 0.5
	netem $((LAST + 1)) delay 0
	all_carry
	soak_end
}

test_loss_on_acknowledgements_and_a_dead_plane() {
	local plane

	switched_hosts_up 4
	for ((plane = 0; plane < LAST; plane++)); do
		netem_to a $plane loss 5%
	done
	netem_plane $LAST loss 100%
	"$MRVERBS" soak -p 120 -1 -q 4 -d 16 -n 100 -m 60000 -o write,send "$DEV_A" "$DEV_B" ||
		fail "the traffic failed"
}

# Marks at the switch: counted, and no byte differs.
test_link_that_marks() {
	local plane

	modprobe -q sch_red || skip "no red"
	switched_hosts_up 2
	for plane in 0 1; do
		tc -n "$NS_SWITCH" qdisc replace dev "b$plane" root handle 1: \
			tbf rate 200mbit burst 20000 limit 4m || fail "tc tbf"
		tc -n "$NS_SWITCH" qdisc replace dev "b$plane" parent 1:1 handle 10: \
			red limit 2000000 min 30000 max 40000 avpkt 9000 burst 6 \
			bandwidth 200mbit probability 1 ecn || fail "tc red"
	done
	"$MRVERBS" soak -p 120 -1 -q 4 -d 16 -n 200 -s 65536 -o write "$DEV_A" "$DEV_B" ||
		fail "the traffic failed"
	[ "$(counter "$DEV_B" rx_ce_marks)" -gt 0 ] || fail "no mark was counted"
}

ktap_run_all \
	test_cable_of_the_other_host_pulled \
	test_own_cable_pulled \
	test_both_cables_pulled \
	test_plane_that_forwards_nothing \
	test_plane_that_forwards_nothing_in_one_direction \
	test_plane_that_loses_a_third \
	test_plane_that_gets_slow \
	test_plane_that_flaps \
	test_planes_that_fail_in_turn \
	test_all_planes_gone_for_a_moment \
	test_loss_on_acknowledgements_and_a_dead_plane \
	test_link_that_marks
ktap_exit
