#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A process killed in mid-transfer leaves nothing behind, and its peer learns
# what has happened.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

# Starts a flood between two processes; sets pid_a, pid_b.
flood() {
	flood_log=$SCRATCH/flood.$$
	"$MRVERBS" flood "$@" "$DEV_A" "$DEV_B" >"$flood_log" 2>&1 &
	defer "kill -9 $! 2>/dev/null; rm -f $flood_log"
	flood_says "^pids "
	read -r _ pid_a pid_b < <(grep '^pids ' "$flood_log")
	defer "kill -9 $pid_a $pid_b 2>/dev/null"
	flood_says traffic
	sleep 0.5
}

flood_says() {
	log_says "$flood_log" "$1"
}

nothing_left() {
	wait_for "no resources of $DEV_A" res_empty "$DEV_A"
	wait_for "no resources of $DEV_B" res_empty "$DEV_B"
	wait_for_value "no reference to the module" 0 module_refs
	check_traffic
}

sender() {
	hosts_up 2
	res_remember "$DEV_A"
	flood -o "$1"
	kill -9 "$pid_a"
	flood_says "a killed 9"
	# A target of writes and reads sees nothing; it goes with its peer.
	flood_says "b exit"
	nothing_left
}

target() {
	hosts_up 2
	res_remember "$DEV_A"
	flood -o "$1"
	kill -9 "$pid_b"
	# The sender gets an error completion, and says so by 10.
	flood_says "a exit 10"
	nothing_left
}

test_sender_of_writes_killed() {
	sender write
}

test_reader_killed() {
	sender read
}

test_target_of_writes_killed() {
	target write
}

test_target_of_reads_killed() {
	target read
}

test_receiver_of_sends_killed() {
	target send
}

both_killed() {
	hosts_up 2
	res_remember "$DEV_A"
	flood -o "$1"
	kill -9 "$pid_a" "$pid_b"
	flood_says "a killed 9"
	flood_says "b killed 9"
	nothing_left
}

test_both_ends_of_writes_killed() {
	both_killed write
}

test_both_ends_of_sends_killed() {
	both_killed send
}

test_sender_of_sends_killed_receiver_ends() {
	hosts_up 2
	res_remember "$DEV_A"
	flood -o send
	kill -9 "$pid_a"
	flood_says "a killed 9"
	# Nothing tells a receiver that its peer is gone: it waits. Kill it too.
	kill -9 "$pid_b"
	flood_says "b killed 9"
	nothing_left
}

test_many_QPs_killed_ten_times() {
	local i

	hosts_up 2
	res_remember "$DEV_A"
	for ((i = 0; i < 10; i++)); do
		soak_bg -q 16 -d 16 -m 60000
		sleep "0.$((i % 5 + 3))"
		soak_alive
		kill -9 "$soak_pid"
		wait "$soak_pid" 2>/dev/null
	done
	nothing_left
}

test_killed_beside_traffic_of_others() {
	hosts_up 2
	res_remember "$DEV_A"
	soak_bg -q 4 -m 60000
	flood -o write
	kill -9 "$pid_b"
	flood_says "a exit 10"
	soak_alive
	soak_end
	nothing_left
}

test_killed_with_a_dead_link() {
	hosts_up 2
	res_remember "$DEV_A"
	soak_bg -q 8 -m 60000
	sleep 0.5
	ip -n "$NS_B" link set p0 down
	ip -n "$NS_B" link set p1 down
	kill -9 "$soak_pid"
	wait "$soak_pid" 2>/dev/null
	wait_for "no resources of $DEV_A" res_empty "$DEV_A"
	wait_for "no resources of $DEV_B" res_empty "$DEV_B"
}

ktap_run_all \
	test_sender_of_writes_killed \
	test_reader_killed \
	test_target_of_writes_killed \
	test_target_of_reads_killed \
	test_receiver_of_sends_killed \
	test_both_ends_of_writes_killed \
	test_both_ends_of_sends_killed \
	test_sender_of_sends_killed_receiver_ends \
	test_many_QPs_killed_ten_times \
	test_killed_beside_traffic_of_others \
	test_killed_with_a_dead_link
ktap_exit
