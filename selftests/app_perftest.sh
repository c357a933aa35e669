#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perftest, as the distribution ships it. Events instead of spinning where the
# programs can: two spinning processes leave a small machine no time for its
# kernel.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_atomic_bw ib_atomic_lat

# perf PROGRAM OPTION...
perf() {
	local program=$1

	shift
	client_server "$program $*" \
		"$program" -F -d "$DEV_A" -x "$(gid_index "$DEV_A")" "$@" -- \
		"$program" -F -d "$DEV_B" -x "$(gid_index "$DEV_B")" "$@" "$(addr4 1 0)"
	grep -A 3 '#bytes' "$SCRATCH/client.$$"
}

test_ib_send_bw() {
	hosts_up 2
	perf ib_send_bw -e -n 1000 -s 65536
}

test_ib_send_bw_of_all_sizes() {
	hosts_up 2
	perf ib_send_bw -e -n 20 -a
}

test_ib_send_bw_in_both_directions() {
	hosts_up 2
	perf ib_send_bw -e -b -n 500 -s 65536
}

test_ib_send_bw_of_eight_QPs() {
	hosts_up 2
	perf ib_send_bw -e -q 8 -n 200 -s 32768
}

test_ib_write_bw() {
	hosts_up 2
	perf ib_write_bw -n 1000 -s 65536
}

test_ib_write_bw_in_both_directions() {
	hosts_up 2
	perf ib_write_bw -b -n 500 -s 65536
}

test_ib_write_bw_of_eight_QPs() {
	hosts_up 2
	perf ib_write_bw -q 8 -n 200 -s 32768
}

test_ib_read_bw() {
	hosts_up 2
	perf ib_read_bw -e -n 500 -s 65536
}

test_ib_read_bw_of_all_sizes() {
	hosts_up 2
	perf ib_read_bw -e -n 20 -a
}

test_ib_send_lat() {
	hosts_up 2
	perf ib_send_lat -e -n 500 -s 64
}

test_ib_write_lat() {
	hosts_up 2
	perf ib_write_lat -n 200 -s 2
}

test_ib_read_lat() {
	hosts_up 2
	perf ib_read_lat -e -n 200 -s 4096
}

test_ib_send_bw_with_a_shared_receive_queue() {
	hosts_up 2
	perf ib_send_bw -e --use-srq -q 4 -n 200 -s 32768
}

test_ib_send_lat_with_a_shared_receive_queue() {
	hosts_up 2
	perf ib_send_lat -e --use-srq -n 200 -s 64
}

test_ib_atomic_bw() {
	hosts_up 2
	perf ib_atomic_bw -e -n 1000
	perf ib_atomic_bw -e -n 1000 -A CMP_AND_SWAP
}

test_ib_atomic_lat() {
	hosts_up 2
	perf ib_atomic_lat -e -n 200
}

test_ib_send_lat_of_datagrams() {
	hosts_up 2
	perf ib_send_lat -c UD -n 500 -s 64
	perf ib_send_lat -c UD -n 500 -s 4096
}

# No more than there are receives: what comes faster than they are posted again
# is lost, and the program waits for it.
test_ib_send_bw_of_datagrams() {
	hosts_up 2
	perf ib_send_bw -c UD -n 500 -r 512 -s 1024
	perf ib_send_bw -c UD -n 500 -r 512 -s 4096
}

ktap_run_all \
	test_ib_send_bw \
	test_ib_send_bw_of_all_sizes \
	test_ib_send_bw_in_both_directions \
	test_ib_send_bw_of_eight_QPs \
	test_ib_write_bw \
	test_ib_write_bw_in_both_directions \
	test_ib_write_bw_of_eight_QPs \
	test_ib_read_bw \
	test_ib_read_bw_of_all_sizes \
	test_ib_send_lat \
	test_ib_send_lat_of_datagrams \
	test_ib_send_bw_of_datagrams \
	test_ib_write_lat \
	test_ib_read_lat \
	test_ib_send_bw_with_a_shared_receive_queue \
	test_ib_send_lat_with_a_shared_receive_queue \
	test_ib_atomic_bw \
	test_ib_atomic_lat
ktap_exit
