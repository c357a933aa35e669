#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What ibv_asyncwatch shows of a port.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ibv_asyncwatch stdbuf

watch_up() {
	log=$SCRATCH/watch.$$
	defer "rm -f $log"
	stdbuf -oL ibv_asyncwatch -d "$DEV_A" >"$log" 2>&1 &
	defer "kill $! 2>/dev/null"
	log_says "$log" 'async event FD'
}

# says NUMBER EVENT: so many of them by now, or soon
says() {
	(wait_for "$1 times \"$2\"" says_now "$1" "$2") || {
		cat "$log"
		exit "$KSFT_FAIL"
	}
}

says_now() { [ "$(grep -c "event_type IBV_EVENT_$2 " "$log")" = "$1" ]; }

changed_since() { [ "$(grep -c GID_CHANGE "$log")" -gt "$1" ]; }

port_of() { ip -n "$1" link set "$2" "$3"; }

test_port_down_and_up() {
	hosts_up 1
	watch_up
	port_of "$NS_A" p0 down
	says 1 PORT_ERR
	wait_for "$DEV_A down" link_state_is "$DEV_A" DOWN
	port_of "$NS_A" p0 up
	says 1 PORT_ACTIVE
	wait_for "$DEV_A active" link_state_is "$DEV_A" ACTIVE
	port_of "$NS_B" p0 down
	says 2 PORT_ERR
	port_of "$NS_B" p0 up
	says 2 PORT_ACTIVE
}

# The port is up as long as any plane is.
test_port_of_two_planes() {
	need_metaroce
	hosts_up 2
	watch_up
	port_of "$NS_A" p1 down
	port_of "$NS_A" p1 up
	port_of "$NS_A" p0 down
	port_of "$NS_A" p1 down
	says 1 PORT_ERR
	port_of "$NS_A" p1 up
	says 1 PORT_ACTIVE
	port_of "$NS_A" p0 up
	port_of "$NS_A" p1 down
	port_of "$NS_A" p0 down
	says 2 PORT_ERR
	says_now 1 PORT_ACTIVE || fail "an event for a plane"
}

test_GIDs_change() {
	local before

	hosts_up 1
	watch_up
	before=$(grep -c GID_CHANGE "$log")
	ip -n "$NS_A" addr add 10.9.8.7/24 dev p0
	wait_for "an event for the new address" changed_since "$before"
	before=$(grep -c GID_CHANGE "$log")
	ip -n "$NS_A" addr del 10.9.8.7/24 dev p0
	wait_for "an event for the old address" changed_since "$before"
}

# With the primary plane's network device, its addresses go.
test_primary_plane_goes() {
	need_metaroce
	hosts_up 2
	watch_up
	ip -n "$NS_A" link del p0
	wait_for "an event for the GIDs" changed_since 0
	check_traffic
}

# migrations N: so many migrations were told, and the next one would be
migrations() {
	[ "$(grep -c migrated "$log")" = "$1" ] && [ "$(grep -c armed "$log")" = $(($1 + 1)) ]
}

# A queue pair that asks for it is told when its connection leaves a plane.
test_path_migrates() {
	need_metaroce
	hosts_up 2
	log=$SCRATCH/migrate.$$
	defer "rm -f $log $log.in"
	mkfifo "$log.in"
	"$MRVERBS" migrate "$DEV_A" "$DEV_B" <"$log.in" >"$log" 2>&1 &
	defer "kill $! 2>/dev/null"
	exec {migrate_fd}>"$log.in"
	log_says "$log" armed
	check_traffic
	migrations 0 || fail "an event without a cause"
	port_of "$NS_A" p1 down
	wait_for "an event for plane 1" migrations 1
	port_of "$NS_A" p1 up
	# Back home: not a flight from anything.
	check_traffic
	migrations 1 || fail "an event for the way back"
	# The peer's side of a plane.
	port_of "$NS_B" p0 down
	wait_for "an event for plane 0" migrations 2
	exec {migrate_fd}>&-
}

test_device_goes() {
	hosts_up 1
	watch_up
	rdma link del "$DEV_A"
	says 1 DEVICE_FATAL
}

ktap_run_all \
	test_port_down_and_up \
	test_port_of_two_planes \
	test_GIDs_change \
	test_primary_plane_goes \
	test_path_migrates \
	test_device_goes
ktap_exit
