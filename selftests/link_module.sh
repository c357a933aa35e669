#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The module: loaded by alias, refused to go while in use, clean when it goes.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

loaded() { [ -e "/sys/module/$MODULE" ]; }

unload() {
	! loaded || rmmod "$MODULE" || fail "rmmod $MODULE"
	! loaded || fail "$MODULE is still loaded"
}

test_loaded_by_alias() {
	netns_up 1
	defer links_down
	unload
	link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add"
	loaded || fail "$MODULE is not loaded"
}

test_unloaded_and_loaded_ten_times() {
	local i

	netns_up 1
	defer links_down
	for ((i = 0; i < 10; i++)); do
		unload
		link_new "$NS_A" "$DEV_A" p0 || fail "rdma link add, round $i"
		rdma link del "$DEV_A" || fail "rdma link del, round $i"
	done
	unload
}

test_unload_takes_idle_links_along() {
	hosts_up 2
	unload
	link_gone "$DEV_A" || fail "$DEV_A is still there"
	link_gone "$DEV_B" || fail "$DEV_B is still there"
	ip -n "$NS_A" link del p0 || fail "the netdev is held"
}

test_unload_after_traffic() {
	hosts_up 2
	check_traffic
	unload
	link_gone "$DEV_A" || fail "$DEV_A is still there"
}

test_unload_right_after_a_kill() {
	hosts_up 2
	soak_bg -q 8 -m 60000
	sleep 1
	soak_alive
	kill -9 "$soak_pid"
	wait "$soak_pid" 2>/dev/null
	wait_for_value "no user of the module" 0 module_refs
	unload
}

test_refused_while_in_use() {
	# Other drivers let go, and the process is told that the device is gone.
	need_metaroce
	hosts_up 1
	hold "$DEV_A"
	! rmmod "$MODULE" 2>/dev/null || fail "rmmod although a process uses a device"
	link_exists "$DEV_A" || fail "$DEV_A is gone"
	hold_end
	wait_for_value "no user of the module" 0 module_refs
	unload
}

test_unload_without_ever_a_link() {
	unload
	modprobe "$MODULE" || fail "modprobe $MODULE"
	unload
}

ktap_run_all \
	test_loaded_by_alias \
	test_unloaded_and_loaded_ten_times \
	test_unload_takes_idle_links_along \
	test_unload_after_traffic \
	test_unload_right_after_a_kill \
	test_refused_while_in_use \
	test_unload_without_ever_a_link
ktap_exit
