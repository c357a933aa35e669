#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# NVMe over RDMA: the kernel's own initiator and target, both over a device of
# this machine, in front of a disk in memory. It lives by fast registration,
# remote invalidation and the connection manager. The kernel has both ends in
# the initial network namespace; packets between them take the loopback device.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require tc dd cmp
modprobe -q rdma_cm 2>/dev/null
for module in null_blk nvmet nvmet_rdma nvme_rdma; do
	modinfo $module >/dev/null 2>&1 || skip_all "no module $module"
done

NQN=nqn.2026-11.test:mr$$
NAME=nv$$
ADDR=192.168.99.1
PORT=4420
SIZE_MB=64
CONFIG=/sys/kernel/config
MTU=9000

# A disk in memory.
disk_up() {
	local dir=$CONFIG/nullb/$NAME

	modprobe null_blk nr_devices=0 || fail "null_blk"
	mountpoint -q $CONFIG || mount -t configfs none $CONFIG
	mkdir "$dir" || fail "no disk"
	defer "rmdir $dir"
	echo $SIZE_MB >"$dir/size"
	echo 1 >"$dir/memory_backed"
	echo 4096 >"$dir/blocksize"
	echo 1 >"$dir/power" || fail "no disk"
	DISK=/dev/nullb$(cat "$dir/index")
	[ -b "$DISK" ] || DISK=/dev/$NAME
	[ -b "$DISK" ] || fail "no block device of the disk"
}

device_up() {
	ip link add nv0 mtu $MTU type veth peer name nv1 mtu $MTU || fail "veth"
	defer "ip link del nv0"
	ip link set nv0 up
	ip link set nv1 up
	ip link set lo up
	ip addr add $ADDR/24 dev nv0
	rdma link add "$NAME" type "$RDMA_TYPE" netdev nv0 || fail "rdma link add"
	defer "rdma link del $NAME"
	wait_for "a GID of $ADDR" has_gid "$NAME"
}

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
	echo $ADDR >"$dir/ports/1/addr_traddr"
	echo $PORT >"$dir/ports/1/addr_trsvcid"
	ln -s "$dir/subsystems/$NQN" "$dir/ports/1/subsystems/" || fail "cannot listen"
	defer "rm $dir/ports/1/subsystems/$NQN"
}

# Sets CTL and BLOCK.
connect() {
	modprobe nvme_rdma || fail "nvme_rdma"
	echo "transport=rdma,traddr=$ADDR,trsvcid=$PORT,nqn=$NQN,nr_io_queues=2,reconnect_delay=1" \
		>/dev/nvme-fabrics || fail "cannot connect"
	for CTL in /sys/class/nvme-fabrics/ctl/nvme*; do
		[ "$(cat "$CTL/subsysnqn")" != "$NQN" ] || break
	done
	[ -d "$CTL" ] || fail "no controller"
	defer "[ ! -e $CTL ] || echo 1 >$CTL/delete_controller"
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
	echo 1 >"$CTL/delete_controller" || fail "cannot disconnect"
	wait_for "the end of the controller" gone "$CTL"
}

gone() { [ ! -e "$1" ]; }

up() {
	disk_up
	device_up
	target_up
	connect
}

# pattern MB: as many megabytes that are all different
pattern() {
	seq -f "%.0f $RANDOM" 1 100000000 2>/dev/null | head -c "$1M"
}

# written_and_read MB BLOCK_SIZE: what is written comes back, and is on the disk
written_and_read() {
	local file=$SCRATCH/nvme.$$

	pattern "$1" >"$file"
	defer "rm -f $file"
	dd if="$file" of="$BLOCK" bs="$2" oflag=direct status=none || fail "write, blocks of $2"
	dd if="$BLOCK" bs="$2" count="${1}M" iflag=direct,count_bytes status=none |
		cmp - "$file" || fail "read, blocks of $2"
	dd if="$DISK" bs=1M count="${1}M" iflag=direct,count_bytes status=none |
		cmp - "$file" || fail "on the disk, blocks of $2"
}

test_every_block_size() {
	local bs

	up
	for bs in 4k 8k 64k 1M; do
		written_and_read "$([ $bs = 4k ] && echo 2 || echo 8)" $bs
	done
}

test_through_the_page_cache() {
	local file=$SCRATCH/nvme.$$

	up
	pattern 32 >"$file"
	defer "rm -f $file"
	dd if="$file" of="$BLOCK" bs=256k conv=fsync status=none || fail "write"
	echo 3 >/proc/sys/vm/drop_caches
	cmp -n "$(stat -c %s "$file")" "$file" "$BLOCK" || fail "read"
}

test_several_at_once() {
	local file=$SCRATCH/nvme.$$ i jobs=()

	up
	pattern 8 >"$file"
	defer "rm -f $file"
	for i in 0 1 2 3; do
		dd if="$file" of="$BLOCK" bs=128k seek=$((i * 64)) oflag=direct status=none &
		jobs+=($!)
	done
	for i in "${jobs[@]}"; do
		wait "$i" || fail "write"
	done
	for i in 0 1 2 3; do
		dd if="$BLOCK" bs=128k skip=$((i * 64)) count=64 iflag=direct status=none |
			cmp - "$file" || fail "read, part $i"
	done
}

# It is the loopback device that packets take.
test_loss() {
	up
	ethtool -K lo tso off gso off tx-udp-segmentation off >/dev/null 2>&1
	defer "ethtool -K lo tso on gso on tx-udp-segmentation on"
	tc qdisc add dev lo root netem limit 10000 loss 1% || skip "no netem"
	defer "tc qdisc del dev lo root"
	written_and_read 8 64k
}

test_many_connections() {
	local i

	up
	for ((i = 0; i < 10; i++)); do
		disconnect
		connect
	done
	written_and_read 1 64k
}

test_disconnect_under_load() {
	local i job

	up
	for ((i = 0; i < 3; i++)); do
		dd if=/dev/zero of="$BLOCK" bs=64k oflag=direct status=none 2>/dev/null &
		job=$!
		sleep 0.3
		disconnect
		wait $job
		connect
	done
	written_and_read 1 64k
}

# The device goes while it is used; the target and the initiator survive that.
test_device_removed_under_load() {
	local job

	up
	dd if=/dev/zero of="$BLOCK" bs=64k oflag=direct status=none 2>/dev/null &
	job=$!
	sleep 0.3
	rdma link del "$NAME" || fail "rdma link del"
	wait_for "the end of the controller" gone "$CTL"
	wait $job
	rdma link add "$NAME" type "$RDMA_TYPE" netdev nv0 || fail "rdma link add"
	wait_for "a GID of $ADDR" has_gid "$NAME"
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
