#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Counters of single queue pairs: "rdma statistic qp".
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require jq ibv_ud_pingpong
is_metaroce || skip_all "about metaroce only"

# Number of the first queue pair of a type that is connected: qp_of DEVICE TYPE
qp_of() {
	rdma -j res show qp link "$1/1" |
		jq -r "[.[] | select(.type == \"$2\" and .state == \"RTS\" and .pid != null)][0].lqpn // empty"
}
has_qp() { [ -n "$(qp_of "$1" "$2")" ]; }

# The counters of queue pairs of a device, as an array.
of_qps() { rdma -j statistic qp show link "$1/1"; }
# bound DEVICE: how many there are
bound() { of_qps "$1" | jq length; }
# The first one's value, 0 if there is none: of_qp DEVICE NAME
of_qp() { of_qps "$1" | jq ".[0].$2 // 0"; }
qp_above() { [ "$(of_qp "$1" "$2")" -gt "$3" ]; }

# Traffic over one queue pair, whose number is lqpn
one_queue_pair() {
	soak_bg -q 1 -d 8 -m 100000
	wait_for "a queue pair" has_qp "$DEV_A" RC
	lqpn=$(qp_of "$DEV_A" RC)
}

test_bound_and_counted() {
	local name names

	hosts_up 2
	one_queue_pair
	rdma statistic qp bind link "$DEV_A/1" lqpn "$lqpn" || fail "bind"
	[ "$(bound "$DEV_A")" = 1 ] || fail "not one counter: $(of_qps "$DEV_A")"
	wait_for "packets sent" qp_above "$DEV_A" tx_packets 1000
	wait_for "packets received" qp_above "$DEV_A" rx_packets 1000
	[ "$(of_qps "$DEV_A" | jq ".[0].lqpn[0]")" = "$lqpn" ] || fail "not of $lqpn"
	# Each name is one of the device's.
	names=$(of_qps "$DEV_A" | jq -r '.[0] | keys[]' |
		grep -vxE 'ifindex|ifname|port|cntn|pid|comm|lqpn|mode|qp-type')
	for name in $names; do
		[ -e "/sys/class/infiniband/$DEV_A/ports/1/hw_counters/$name" ] ||
			fail "the device has no $name"
	done
	soak_end
	# With its queue pair the counter goes.
	[ "$(bound "$DEV_A")" = 0 ] || fail "left: $(of_qps "$DEV_A")"
}

test_planes_make_up_the_whole() {
	local now

	hosts_up 2
	one_queue_pair
	rdma statistic qp bind link "$DEV_A/1" lqpn "$lqpn" || fail "bind"
	wait_for "packets sent" qp_above "$DEV_A" tx_packets 1000
	kill -STOP "$soak_pid"
	sleep 0.3
	now=$(of_qps "$DEV_A")
	kill -CONT "$soak_pid"
	jq -e '.[0] | .plane0_tx_packets > 0 and .plane1_tx_packets > 0 and
		.plane0_tx_packets + .plane1_tx_packets == .tx_packets and
		.plane0_tx_bytes + .plane1_tx_bytes == .tx_bytes' <<<"$now" ||
		fail "planes: $now"
	soak_end
}

# Bound or not, before and after: no packet is counted twice or not at all.
test_the_device_counts_on() {
	local cntn sent received i

	hosts_up 2
	one_queue_pair
	for i in 1 2 3; do
		rdma statistic qp bind link "$DEV_A/1" lqpn "$lqpn" || fail "bind $i"
		wait_for "packets sent" qp_above "$DEV_A" tx_packets 300
		cntn=$(of_qp "$DEV_A" cntn)
		rdma statistic qp unbind link "$DEV_A/1" cntn "$cntn" lqpn "$lqpn" || fail "unbind $i"
		[ "$(bound "$DEV_A")" = 0 ] || fail "still bound"
	done
	rdma statistic qp bind link "$DEV_A/1" lqpn "$lqpn" || fail "bind"
	wait_for "packets sent" qp_above "$DEV_A" tx_packets 300
	soak_end
	sent=$(counter "$DEV_A" tx_packets)
	received=$(counter "$DEV_B" rx_packets)
	[ "$(counter "$DEV_A" retransmits_gap)" = 0 ] || fail "retransmissions without a loss"
	[ "$sent" = "$received" ] || fail "$sent sent, $received received"
	[ "$sent" = "$(cat "/sys/class/infiniband/$DEV_A/ports/1/hw_counters/tx_packets")" ] ||
		fail "sysfs has another number"
}

test_by_type() {
	local mode

	hosts_up 2
	rdma statistic qp set link "$DEV_A/1" auto type on || fail "auto type on"
	mode=$(rdma -j statistic qp mode link "$DEV_A/1")
	jq -e ".[0].mode | startswith(\"qp auto type on\")" <<<"$mode" >/dev/null ||
		fail "mode: $mode"
	soak_bg -q 4 -d 8 -m 100000
	wait_for "packets sent" qp_above "$DEV_A" tx_packets 1000
	of_qps "$DEV_A" | jq -e 'length == 1 and .[0]["qp-type"] == "RC" and (.[0].lqpn | length) == 4' \
		>/dev/null || fail "not four of one type: $(of_qps "$DEV_A")"
	# Not while that is so.
	! rdma statistic qp bind link "$DEV_A/1" lqpn "$(qp_of "$DEV_A" RC)" 2>/dev/null ||
		fail "bound one by one as well"
	soak_end
	rdma statistic qp set link "$DEV_A/1" auto off || fail "auto off"
	[ "$(bound "$DEV_A")" = 0 ] || fail "left: $(of_qps "$DEV_A")"
}

test_retransmissions() {
	local again

	hosts_up 2
	planes_lose 2
	rdma statistic qp set link "$DEV_A/1" auto type on || fail "auto type on"
	soak_bg -q 2 -d 8 -m 100000
	wait_for "retransmissions" qp_above "$DEV_A" retransmits_gap 20
	again=$(of_qp "$DEV_A" retransmits_gap)
	[ "$(counter "$DEV_A" retransmits_gap)" -ge "$again" ] || fail "more than the device's"
	soak_end
	# What queue pairs that are gone have counted stays in the device's.
	[ "$(counter "$DEV_A" retransmits_gap)" -ge "$again" ] || fail "lost with the queue pairs"
}

test_datagrams() {
	hosts_up 1
	rdma statistic qp set link "$DEV_A/1" auto type on || fail "auto type on"
	# Not by in_a: of a function in the background, the shell is what kill would end.
	ip netns exec "$NS_A" ibv_ud_pingpong -d "$DEV_A" -g "$(gid_index "$DEV_A")" -n 100000000 \
		>/dev/null 2>&1 &
	defer "kill -9 $! 2>/dev/null"
	wait_for "the server" server_listens 18515
	ip netns exec "$NS_B" ibv_ud_pingpong -d "$DEV_B" -g "$(gid_index "$DEV_B")" -n 100000000 \
		"$(addr4 1 0)" >/dev/null 2>&1 &
	defer "kill -9 $! 2>/dev/null"
	wait_for "datagrams sent" qp_above "$DEV_A" tx_datagrams 100
	wait_for "datagrams received" qp_above "$DEV_A" rx_datagrams 100
	[ "$(of_qp "$DEV_A" tx_packets)" = 0 ] || fail "packets of connections"
}

test_receivers_that_are_not_ready() {
	local dir=/sys/class/infiniband

	hosts_up 1
	timeout "$PATIENCE" "$MRVERBS" test -k "RNR retry exceeded" "$DEV_A" "$DEV_B" error >/dev/null ||
		fail "the test of RNR"
	[ "$(cat "$dir/$DEV_A/ports/1/hw_counters/rnr_naks_received")" -gt 0 ] || fail "none received"
	[ "$(cat "$dir/$DEV_B/ports/1/hw_counters/rnr_naks_sent")" -gt 0 ] || fail "none sent"
}

# refused WORDS…: this says no
refused() { ! rdma statistic qp "$@" 2>/dev/null || fail "allowed: $*"; }

test_refused() {
	hosts_up 1
	one_queue_pair
	refused bind link "$DEV_A/1" lqpn 77777
	refused bind link "$DEV_A/2" lqpn "$lqpn"
	refused bind link "$DEV_A/1" lqpn "$lqpn" cntn 4711
	refused unbind link "$DEV_A/1" cntn 1 lqpn "$lqpn"
	rdma statistic qp bind link "$DEV_A/1" lqpn "$lqpn" || fail "bind"
	refused bind link "$DEV_A/1" lqpn "$lqpn"
	refused set link "$DEV_A/1" auto type on
	refused unbind link "$DEV_A/1" cntn 4711 lqpn "$lqpn"
	wait_for "packets sent" qp_above "$DEV_A" tx_packets 10
	soak_end
}

ktap_run_all \
	test_bound_and_counted \
	test_planes_make_up_the_whole \
	test_the_device_counts_on \
	test_by_type \
	test_retransmissions \
	test_datagrams \
	test_receivers_that_are_not_ready \
	test_refused
ktap_exit
