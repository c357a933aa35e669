#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# One connection between two endpoints, whatever the number of QPs; what
# happens to it when its peer restarts.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip
is_metaroce || skip_all "about metaroce only"

connections() { counter "$1" connections; }

test_64_QPs_one_connection() {
	hosts_up 2
	[ "$(connections "$DEV_A")" = 0 ] || fail "connections before any QP"
	soak_bg -q 64 -d 4 -m 20000
	wait_for_value "one connection at A" 1 connections "$DEV_A"
	sleep 3
	soak_alive
	[ "$(res_count "$DEV_A" qp)" -ge 64 ] || fail "$(res_count "$DEV_A" qp) QPs"
	[ "$(connections "$DEV_A")" = 1 ] || fail "$(connections "$DEV_A") connections at A"
	[ "$(connections "$DEV_B")" = 1 ] || fail "$(connections "$DEV_B") connections at B"
	soak_end
}

test_idle_connection_ends() {
	hosts_up 2
	check_traffic
	wait_for_value "no connection at A" 0 connections "$DEV_A"
	wait_for_value "no connection at B" 0 connections "$DEV_B"
	check_traffic
}

test_peer_restarts() {
	local status=0

	hosts_up 2
	soak_bg -q 2 -m 60000 -p 30
	sleep 1
	soak_alive
	rdma link del "$DEV_B" || fail "rdma link del"
	link_new "$NS_B" "$DEV_B" p0 || fail "rdma link add"
	link_new "$NS_B" "$DEV_B" p1 || fail "rdma link add"
	timeout "$PATIENCE" tail --pid="$soak_pid" -f /dev/null || fail "the traffic hangs"
	wait "$soak_pid" || status=$?
	[ $status -lt 128 ] || fail "the client died of signal $((status - 128))"
	links_ready
	check_traffic
}

# Its address is resolved, but whoever gets the packets has no use for them.
test_peer_that_never_answers() {
	local mac

	hosts_up 1
	mac=$(ip -n "$NS_B" -o link show p0 | sed -n 's/.*link.ether \([^ ]*\).*/\1/p')
	ip -n "$NS_A" neigh replace "$(addr4 199 0)" lladdr "$mac" dev p0 nud permanent
	"$MRVERBS" test -k "address that nobody has" "$DEV_A" "$DEV_B" error ||
		fail "a queue pair waits for ever"
	check_traffic
}

test_first_packets_lost() {
	hosts_up 2
	modprobe -q sch_netem || skip "no netem"
	neighbours_known 2
	tc -n "$NS_A" qdisc replace dev p0 root netem loss 20%
	tc -n "$NS_B" qdisc replace dev p0 root netem loss 20%
	tc -n "$NS_A" qdisc replace dev p1 root netem loss 20%
	tc -n "$NS_B" qdisc replace dev p1 root netem loss 20%
	"$MRVERBS" soak -p 120 -q 2 -d 2 -n 5 -m 5000 "$DEV_A" "$DEV_B" ||
		fail "no connection through a lossy network"
}

ktap_run_all \
	test_64_QPs_one_connection \
	test_idle_connection_ends \
	test_peer_restarts \
	test_peer_that_never_answers \
	test_first_packets_lost
ktap_exit
