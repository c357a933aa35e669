#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The files of a device in debugfs: what its paths do, as JSON, and what can be
# set while it runs.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require python3
is_metaroce || skip_all "about metaroce only"
ROOT=/sys/kernel/debug/metaroce
[ -d /sys/kernel/debug/bdi ] || mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
[ -d /sys/kernel/debug/bdi ] || skip_all "no debugfs"

# The directory of a device: it is in a namespace of its own.
files() {
	local dir

	for dir in "$ROOT/$1".*; do
		[ -d "$dir" ] || fail "no directory for $1 in $ROOT"
		echo "$dir"
	done
}

# look DEVICE: takes down what its paths do; a connection that is idle goes away
# after a while, sooner than Python gets going in an emulated machine.
look() {
	local dir

	dir=$(files "$1") || exit
	cat "$dir/paths" >"$SCRATCH/paths.$$" || fail "cannot read $dir/paths"
}

# evaluate EXPRESSION: of Python, over the connections, planes and paths seen last
evaluate() {
	python3 - "$SCRATCH/paths.$$" "$1" <<-'END' || fail "not so: $1"
		import json, sys
		lines = [json.loads(line) for line in open(sys.argv[1])]
		of = lambda kind: [l for l in lines if l["type"] == kind]
		connections, planes, paths = map(of, ("connection", "plane", "path"))
		value = eval(sys.argv[2])
		print(sys.argv[2], "=", value)
		if not value:
		    print(*connections, *planes, *paths[:2], sep="\n")
		sys.exit(not value)
	END
}

# Two hosts whose second planes have all their addresses when connections are made.
two_planes() {
	local ns

	hosts_up 2
	defer "rm -f $SCRATCH/paths.$$"
	for ns in "$NS_A" "$NS_B"; do
		wait_for "addresses of p1" \
			eval "ip -n $ns -6 addr show dev p1 scope link -tentative | grep -q inet6"
	done
}

test_paths_add_up() {
	two_planes
	look "$DEV_A"
	evaluate "not connections and not planes and not paths"
	check_traffic
	look "$DEV_A"
	evaluate "len(connections) == 1 and connections[0]['state'] == 'established'"
	evaluate "len(planes) == 2 and all(p['up'] and p['paths'] == 8 for p in planes)"
	evaluate "len(paths) == connections[0]['paths'] == 16"
	evaluate "sum(p['packets'] for p in paths) == sum(p['packets'] for p in planes) > 0"
	evaluate "any(0 < p['rtt_min_ns'] <= p['srtt_ns'] * 2 for p in paths)"
	evaluate "all(p['window_milli'] > 0 for p in paths)"
	# What the one has sent the other has got.
	evaluate "sum(p['rx_packets'] for p in paths) > 0"
}

plane_1_is_left() {
	look "$DEV_A"
	evaluate "not planes[1]['up'] and all(p['plane'] == 0 for p in paths)" >/dev/null 2>&1
}

traffic_is_seen() {
	look "$DEV_A"
	[ -s "$SCRATCH/paths.$$" ]
}

test_a_plane_that_is_down_is_shown() {
	two_planes
	soak_bg -q 2 -d 8
	wait_for "traffic" traffic_is_seen
	ip -n "$NS_A" link set p1 down
	wait_for "plane 1 is left" eval '(plane_1_is_left)'
	look "$DEV_A"
	evaluate "planes[1]['paths'] == 0 and planes[1]['downs'] == 1"
	evaluate "connections[0]['reroutes_plane'] >= 8"
	soak_end
}

test_the_law_changes_under_traffic() {
	local law dir

	hosts_up 2
	defer "rm -f $SCRATCH/paths.$$"
	dir=$(files "$DEV_A") || exit
	[ "$(cat "$dir/cc")" = ecn ] || fail "the default is $(cat "$dir/cc")"
	soak_bg -q 2 -d 8
	for law in delay fixed ecn; do
		echo "$law" >"$dir/cc" || fail "cannot choose $law"
		[ "$(cat "$dir/cc")" = "$law" ] || fail "$law was not taken"
		sleep 0.5
		soak_alive
		look "$DEV_A"
		evaluate "all(p['cc'] == '$law' for p in paths + connections)"
	done
	soak_end
}

both_are_used() {
	look "$DEV_A"
	evaluate "len(planes) == 2 and all(p['paths'] > 0 for p in planes)" >/dev/null 2>&1
}

test_planes_are_taken_out_of_use_under_traffic() {
	local dir

	hosts_up 2
	defer "rm -f $SCRATCH/paths.$$"
	dir=$(files "$DEV_A") || exit
	soak_bg -q 2 -d 8
	wait_for "both planes are used" eval '(both_are_used)'
	echo 0 >"$dir/planes" || fail "cannot choose plane 0"
	look "$DEV_A"
	evaluate "planes[1]['paths'] == 0 and planes[0]['paths'] == 16"
	soak_alive
	echo all >"$dir/planes" || fail "cannot choose all planes"
	wait_for "plane 1 is used again" eval '(both_are_used)'
	soak_end
}

test_paths_of_new_connections() {
	local dir

	hosts_up 2
	defer "rm -f $SCRATCH/paths.$$"
	dir=$(files "$DEV_A") || exit
	echo 2 >"$dir/paths_per_plane" || fail "cannot choose 2 paths"
	soak_bg -q 2 -d 8
	wait_for "both planes are used" eval '(both_are_used)'
	evaluate "connections[0]['paths'] == 4"
	soak_end
}

test_settings_are_checked() {
	local dir bad

	hosts_up 1
	dir=$(files "$DEV_A") || exit
	for bad in cubic "" ecnx "$(printf '%0100d' 0)"; do
		! echo "$bad" >"$dir/cc" 2>/dev/null || fail "took the law '$bad'"
	done
	[ "$(cat "$dir/cc")" = ecn ] || fail "the law has changed"
	for bad in x -1 4294967296 1.5 ""; do
		! echo "$bad" >"$dir/inbound" 2>/dev/null || fail "took the capacity '$bad'"
	done
	for bad in 0 17 256 x ""; do
		! echo "$bad" >"$dir/paths_per_plane" 2>/dev/null || fail "took '$bad' paths"
	done
	[ "$(cat "$dir/paths_per_plane")" = 8 ] || fail "$(cat "$dir/paths_per_plane") paths"
	for bad in 1 8 -1 x "0 x" "0,1" ""; do
		! echo "$bad" >"$dir/planes" 2>/dev/null || fail "took the planes '$bad'"
	done
	[ "$(cat "$dir/planes")" = all ] || fail "the planes are $(cat "$dir/planes")"
	echo "3 0" >"$dir/planes" || fail "cannot set the planes"
	[ "$(cat "$dir/planes")" = "0 3" ] || fail "the planes are $(cat "$dir/planes")"
	echo 100 >"$dir/inbound" || fail "cannot set the capacity"
	[ "$(cat "$dir/inbound")" = 100 ] || fail "the capacity is $(cat "$dir/inbound")"
	check_traffic
}

test_files_go_with_the_device() {
	local dir

	hosts_up 1
	dir=$(files "$DEV_A") || exit
	check_traffic
	exec {fd}<"$dir/paths"
	link_del "$DEV_A"
	[ ! -e "$dir" ] || fail "$dir is still there"
	# A file that is open ends.
	! cat <&"$fd" >/dev/null 2>&1 || fail "could read on"
	exec {fd}<&-
}

ktap_run_all \
	test_paths_add_up \
	test_a_plane_that_is_down_is_shown \
	test_the_law_changes_under_traffic \
	test_planes_are_taken_out_of_use_under_traffic \
	test_paths_of_new_connections \
	test_settings_are_checked \
	test_files_go_with_the_device
ktap_exit
