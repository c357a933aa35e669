#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A network that loses, reorders, duplicates, delays and damages packets does
# not change a byte.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
. "$here/lib/switched.sh"
require tc ethtool
modprobe -q sch_netem || skip_all "no netem"

# under NETEM-OPTIONS [SOAK-OPTIONS]
under() {
	switched_hosts_up 2
	# shellcheck disable=SC2086
	netem 2 $1
	# shellcheck disable=SC2086
	"$MRVERBS" soak -p 120 ${2:--q 4 -d 16 -n 150 -m 100000} "$DEV_A" "$DEV_B" ||
		fail "the traffic failed under netem $1"
	! is_metaroce || counters "$DEV_A"
}

retransmits() {
	echo $(($(counter "$1" retransmits_gap) + $(counter "$1" retransmits_probe) +
		$(counter "$1" retransmits_timeout)))
}

test_loss_of_1_percent() {
	local lost

	under "loss 1%"
	lost=$(dropped b)
	[ "$lost" -gt 10 ] || fail "netem has lost $lost packets only"
	! is_metaroce || [ "$(retransmits "$DEV_A")" -gt 0 ] ||
		fail "$lost packets lost, nothing retransmitted"
}

test_loss_of_1_percent_of_bursts() {
	local ns plane

	hosts_up 2
	neighbours_known 2
	# At the sender, where a burst is still one packet.
	for ns in "$NS_A" "$NS_B"; do
		for plane in p0 p1; do
			tc -n "$ns" qdisc replace dev $plane root netem limit 10000 loss 1% ||
				fail "tc netem"
		done
	done
	"$MRVERBS" soak -p 120 -q 4 -d 16 -n 150 -m 200000 "$DEV_A" "$DEV_B" ||
		fail "the traffic failed"
}

test_loss_of_10_percent() {
	need_metaroce
	under "loss 10%" "-q 4 -d 16 -n 60 -m 60000"
}

test_correlated_loss() {
	need_metaroce
	under "loss gemodel 1% 20% 80% 0.1%"
}

test_loss_of_small_messages() {
	under "loss 2%" "-q 2 -d 32 -n 500 -m 200"
}

test_loss_of_late_receives() {
	under "loss 1%" "-q 4 -d 8 -n 80 -m 30000 -l"
}

test_reorder() {
	under "delay 1ms reorder 25% 50%"
}

test_jitter() {
	under "delay 1ms 800us"
}

test_duplicate() {
	under "duplicate 5%"
	! is_metaroce || [ "$(counter "$DEV_B" rx_duplicates)" -gt 0 ] ||
		fail "no duplicate counted"
}

test_damaged_packets() {
	under "corrupt 1%"
	! is_metaroce || [ $(($(counter "$DEV_B" drop_crc) +
		$(counter "$DEV_B" rx_checksum_errors))) -gt 0 ] || fail "no damage counted"
}

test_everything_at_once() {
	need_metaroce
	under "delay 500us 300us reorder 10% loss 1% duplicate 1% corrupt 0.5%" \
		"-q 8 -d 8 -n 60 -m 60000"
}

# Each atomic is executed once: a word that several queue pairs count up.
atomics_under() {
	switched_hosts_up 2
	# shellcheck disable=SC2086
	netem 2 $1
	"$MRVERBS" test -k "each once" "$DEV_A" "$DEV_B" atomic ||
		fail "the count is wrong under netem $1"
}

test_atomics_under_loss() {
	atomics_under "loss 3%"
}

test_atomics_under_duplication_and_reordering() {
	atomics_under "delay 500us reorder 20% duplicate 5%"
}

test_atomics_under_everything() {
	need_metaroce
	atomics_under "delay 500us 300us reorder 10% loss 2% duplicate 2% corrupt 1%"
}

test_slow_link() {
	under "rate 50mbit delay 200us" "-q 4 -d 4 -n 20 -m 60000"
}

test_long_link() {
	under "delay 20ms" "-q 4 -d 8 -n 20 -m 60000"
}

test_loss_in_one_direction_only() {
	switched_hosts_up 2
	netem_to a 0 loss 20%
	netem_to a 1 loss 20%
	# Acknowledgements suffer, the data do not.
	"$MRVERBS" soak -p 120 -1 -q 4 -d 16 -n 100 -m 60000 -o write,send "$DEV_A" "$DEV_B" ||
		fail "the traffic failed"
}

test_one_plane_loses_everything() {
	need_metaroce
	switched_hosts_up 2
	check_traffic
	netem_plane 1 loss 100%
	"$MRVERBS" soak -p 120 -q 4 -d 16 -n 50 -m 60000 "$DEV_A" "$DEV_B" ||
		fail "the traffic failed"
}

test_unequal_planes() {
	need_metaroce
	switched_hosts_up 2
	netem 2 delay 100us
	netem_plane 1 delay 5ms loss 1%
	"$MRVERBS" soak -p 120 -q 4 -d 16 -n 80 -m 60000 "$DEV_A" "$DEV_B" ||
		fail "the traffic failed"
}

ktap_run_all \
	test_loss_of_1_percent \
	test_loss_of_1_percent_of_bursts \
	test_loss_of_10_percent \
	test_correlated_loss \
	test_loss_of_small_messages \
	test_loss_of_late_receives \
	test_reorder \
	test_jitter \
	test_duplicate \
	test_damaged_packets \
	test_everything_at_once \
	test_atomics_under_loss \
	test_atomics_under_duplication_and_reordering \
	test_atomics_under_everything \
	test_slow_link \
	test_long_link \
	test_loss_in_one_direction_only \
	test_one_plane_loses_everything \
	test_unequal_planes
ktap_exit
