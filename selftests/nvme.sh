#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# NVMe over RDMA: the kernel's own initiator and target, both over a device of
# this machine, in front of a disk in memory. It lives by fast registration,
# remote invalidation and the connection manager. The kernel has both ends in
# the initial network namespace; packets between them take the loopback device.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
. "$here/lib/storage.sh"
require tc dd cmp
modprobe -q rdma_cm 2>/dev/null
for module in null_blk nvmet nvmet_rdma nvme_rdma; do
	modinfo $module >/dev/null 2>&1 || skip_all "no module $module"
done

NQN=nqn.2026-11.test:mr$$
PORT=4420

target_up() {
	local dir=$CONFIG/nvmet

	modprobe nvmet_rdma || fail "nvmet_rdma"
	mkdir "$dir/subsystems/$NQN" || fail "subsystem"
	defer "rmdir $dir/subsystems/$NQN"
	echo 1 >"$dir/subsystems/$NQN/attr_allow_any_host"
	mkdir "$dir/subsystems/$NQN/namespaces/1"
	defer "rmdir $dir/subsystems/$NQN/namespaces/1"
	echo -n "$DISK" >"$dir/subsystems/$NQN/namespaces/1/device_path"
	echo 1 >"$dir/subsystems/$NQN/namespaces/1/enable" || fail "namespace"
	mkdir "$dir/ports/1" || fail "port"
	defer "rmdir $dir/ports/1"
	echo rdma >"$dir/ports/1/addr_trtype"
	echo ipv4 >"$dir/ports/1/addr_adrfam"
	echo "$ADDR" >"$dir/ports/1/addr_traddr"
	echo $PORT >"$dir/ports/1/addr_trsvcid"
	ln -s "$dir/subsystems/$NQN" "$dir/ports/1/subsystems/" || fail "cannot listen"
	defer "rm $dir/ports/1/subsystems/$NQN"
}

# Sets SHOWN and BLOCK.
connect() {
	modprobe nvme_rdma || fail "nvme_rdma"
	echo "transport=rdma,traddr=$ADDR,trsvcid=$PORT,nqn=$NQN,nr_io_queues=2,reconnect_delay=1" \
		>/dev/nvme-fabrics || fail "cannot connect"
	for SHOWN in /sys/class/nvme-fabrics/ctl/nvme*; do
		[ "$(cat "$SHOWN/subsysnqn")" != "$NQN" ] || break
	done
	[ -d "$SHOWN" ] || fail "no controller"
	defer "[ ! -e $SHOWN ] || echo 1 >$SHOWN/delete_controller"
	wait_for "a block device" find_block
}

find_block() {
	local dir

	for dir in /sys/class/nvme-subsystem/*; do
		[ "$(cat "$dir/subsysnqn" 2>/dev/null)" = "$NQN" ] || continue
		BLOCK=/dev/$(basename "$(echo "$dir"/nvme*n1)")
		[ ! -b "$BLOCK" ] || return 0
	done
	return 1
}

disconnect() {
	echo 1 >"$SHOWN/delete_controller" || fail "cannot disconnect"
	wait_for "the end of the controller" gone "$SHOWN"
}

ktap_run_all \
	test_every_block_size \
	test_through_the_page_cache \
	test_several_at_once \
	test_loss \
	test_many_connections \
	test_disconnect_under_load \
	test_device_removed_under_load
ktap_exit
