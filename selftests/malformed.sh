#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Malformed and random datagrams to the port: counted, dropped, and nothing of
# it in the kernel's log (run.sh looks at that).
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require python3 ethtool
is_metaroce || skip_all "about metaroce only"

all_drops() {
	rdma statistic show link "$1/1" | tr ' ' '\n' |
		awk '/^drop_/ { getline n; sum += n } END { print sum + 0 }'
}

# Packets that the machine lost before anybody looked at them: the backlogs of its
# CPUs were full, as happens where CPUs are slow.
lost_before() {
	local dropped sum=0

	while read -r _ dropped _; do
		sum=$((sum + 16#$dropped))
	done </proc/net/softnet_stat
	echo $sum
}

send_bad() {
	in_a "$here/malformed.py" "$@" || fail "malformed.py"
}

# Each of them is dropped and counted, none disturbs the traffic.
counted_beside_traffic() {
	local mode=$1 before lost sent

	hosts_up 2
	# Whatever is damaged was on a link.
	tx_checksums off
	soak_bg -q 2 -d 4 -m 20000
	wait_for_value "a connection" 1 counter "$DEV_B" connections
	before=$(all_drops "$DEV_B")
	lost=$(lost_before)
	sent=$(send_bad "${@:2}" "$mode" "$(addr4 2 0)") || exit
	# shellcheck disable=SC2317
	dropped_all() {
		[ $(($(all_drops "$DEV_B") - before + $(lost_before) - lost)) -ge "$sent" ]
	}
	(wait_for "$sent datagrams counted as dropped" dropped_all) || {
		counters "$DEV_B"
		fail "$sent sent, $(($(all_drops "$DEV_B") - before)) dropped," \
			"$(($(lost_before) - lost)) lost before"
	}
	echo "$sent sent, $(($(all_drops "$DEV_B") - before)) dropped"
	soak_alive
	soak_end
	check_traffic
}

test_random_bytes() {
	counted_beside_traffic random --count 3000
}

test_random_bytes_over_IPv6() {
	local before

	hosts_up 2
	before=$(all_drops "$DEV_B")
	send_bad random --count 1000 "$(addr6 2 0)"
	[ "$(all_drops "$DEV_B")" -gt "$before" ] || fail "none counted"
	check_traffic
}

test_random_headers() {
	counted_beside_traffic headers --count 3000 --seed 2
}

test_damaged_packets() {
	counted_beside_traffic damage --count 2000 --seed 3 --netdev p0
}

# Packets that only a listener on the path could make: they may break the
# connection that they name, not the machine, and not the next connection.
test_forged_packets() {
	local seed

	hosts_up 2
	for seed in 4 5 6 7; do
		soak_bg -q 4 -d 4 -m 20000 -p 20
		wait_for_value "a connection" 1 counter "$DEV_B" connections
		send_bad forge --count 1500 --seed $seed --netdev p0 "$(addr4 2 0)"
		kill -TERM "$soak_pid" 2>/dev/null
		wait "$soak_pid"
		[ $? -lt 128 ] || fail "the client died of a signal"
		cat "$SCRATCH/soak.$$"
	done
	wait_for_value "the connection ends" 0 counter "$DEV_B" connections
	check_traffic
}

# Nothing is connected: no datagram can make a connection.
test_no_state_by_strangers() {
	hosts_up 2
	send_bad headers --count 2000 --seed 8 "$(addr4 2 0)"
	send_bad random --count 500 --seed 9 "$(addr4 2 0)"
	[ "$(counter "$DEV_B" connections)" = 0 ] || fail "a stranger made a connection"
	check_traffic
}

# Not all of them are dropped: general services take what looks like one of
# theirs, and ib_core makes of it what it can.
test_datagrams() {
	local before address

	hosts_up 2
	soak_bg -q 2 -d 4 -m 20000
	for address in "$(addr4 2 0)" "$(addr6 2 0)"; do
		before=$(all_drops "$DEV_B")
		send_bad datagrams --count 600 --seed 10 "$address"
		[ "$(all_drops "$DEV_B")" -gt "$before" ] || fail "none dropped"
	done
	[ "$(counter "$DEV_B" rx_datagrams)" != 0 ] || fail "none taken"
	counters "$DEV_B"
	soak_alive
	soak_end
	check_traffic
}

ktap_run_all \
	test_random_bytes \
	test_random_bytes_over_IPv6 \
	test_random_headers \
	test_damaged_packets \
	test_forged_packets \
	test_no_state_by_strangers \
	test_datagrams
ktap_exit
