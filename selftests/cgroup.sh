#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The rdma controller of control groups: what a group may have of a device.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

# The shell is in a group with its own limits until the test ends.
in_group() {
	local root=$SCRATCH/cgroup.$$

	mkdir -p "$root"
	mount -t cgroup2 none "$root" || skip "no cgroup2"
	defer "umount $root; rmdir $root"
	echo +rdma >"$root/cgroup.subtree_control" || skip "no rdma controller"
	group=$root/mr$$
	mkdir "$group" || fail "mkdir of a control group"
	defer "rmdir $group"
	echo "$BASHPID" >"$group/cgroup.procs" || fail "cannot enter the group"
	defer "echo $BASHPID >$root/cgroup.procs"
}

# limit DEVICE RESOURCE=NUMBER...
limit() { echo "$*" >"$group/rdma.max" || fail "cannot set '$*'"; }

# used DEVICE: its objects that the group has
used() { sed -n "s/^$1 .*hca_object=\([0-9]*\).*/\1/p" "$group/rdma.current"; }

test_handles() {
	hosts_up 1
	in_group
	limit "$DEV_A" hca_handle=0
	"$MRVERBS" info "$DEV_A" >/dev/null 2>&1 && fail "opened beyond the limit"
	"$MRVERBS" info "$DEV_B" >/dev/null || fail "a limit that is not this device's"
	limit "$DEV_A" hca_handle=1
	"$MRVERBS" info "$DEV_A" >/dev/null || fail "not opened within the limit"
}

test_objects() {
	local objects

	hosts_up 1
	in_group
	hold "$DEV_A"
	objects=$(used "$DEV_A")
	# A domain, two completion queues, a queue pair, a region at least.
	[ "${objects:-0}" -ge 5 ] || fail "in use: $(cat "$group/rdma.current")"
	hold_end
	[ "$(used "$DEV_A")" = 0 ] || fail "left: $(cat "$group/rdma.current")"
	limit "$DEV_A" "hca_object=$((objects - 1))"
	"$MRVERBS" hold "$DEV_A" </dev/null >/dev/null 2>&1 && fail "beyond the limit"
	[ "$(used "$DEV_A")" = 0 ] || fail "left: $(cat "$group/rdma.current")"
	limit "$DEV_A" "hca_object=$objects"
	hold "$DEV_A"
	hold_end
}

ktap_run_all test_handles test_objects
ktap_exit
