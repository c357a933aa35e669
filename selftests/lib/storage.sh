# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Disks over the network: what nvme.sh, iser.sh and srp.sh have in common. On the far
# side is a disk in memory, DISK; on the near side it is seen as BLOCK. To be sourced
# after lib.sh, by a program that has these functions:
#   target_up     exports DISK, at ADDR
#   connect       makes a connection to it, and sets BLOCK; for
#                 test_device_removed_under_load also SHOWN, which is there in sysfs as
#                 long as the connection
#   disconnect    ends the connection
# shellcheck source=onehost.sh
. "$here/lib/onehost.sh"

CONFIG=/sys/kernel/config
SIZE_MB=64

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

up() {
	disk_up
	device_up
	target_up
	connect
}

gone() { [ ! -e "$1" ]; }

# pattern MB: as many megabytes that are all different
pattern() {
	seq -f "%.0f $RANDOM" 1 100000000 2>/dev/null | head -c "$1M"
}

# written_and_read MB BLOCK_SIZE: what is written comes back, and is on the disk
written_and_read() {
	local file=$SCRATCH/storage.$$

	pattern "$1" >"$file"
	defer "rm -f $file"
	dd if="$file" of="$BLOCK" bs="$2" oflag=direct status=none || fail "write, blocks of $2"
	dd if="$BLOCK" bs="$2" count="${1}M" iflag=direct,count_bytes status=none |
		cmp - "$file" || fail "read, blocks of $2"
	dd if="$DISK" bs=1M count="${1}M" iflag=direct,count_bytes status=none |
		cmp - "$file" || fail "on the disk, blocks of $2"
}

# Writes in the background until the disk is full, or gone. Sets job.
load_begins() {
	dd if=/dev/zero of="$BLOCK" bs=64k oflag=direct status=none 2>/dev/null &
	job=$!
	defer "kill $job 2>/dev/null"
	sleep 0.3
}

test_every_block_size() {
	local bs

	up
	for bs in 4k 8k 64k 1M; do
		written_and_read "$([ $bs = 4k ] && echo 2 || echo 8)" $bs
	done
}

test_through_the_page_cache() {
	local file=$SCRATCH/storage.$$

	up
	pattern 32 >"$file"
	defer "rm -f $file"
	dd if="$file" of="$BLOCK" bs=256k conv=fsync status=none || fail "write"
	echo 3 >/proc/sys/vm/drop_caches
	cmp -n "$(stat -c %s "$file")" "$file" "$BLOCK" || fail "read"
}

test_several_at_once() {
	local file=$SCRATCH/storage.$$ i jobs=()

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

test_loss() {
	up
	loopback_loses 1
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
		load_begins
		disconnect
		wait "$job"
		connect
	done
	written_and_read 1 64k
}

# The device goes while it is used; the target and the initiator survive that.
test_device_removed_under_load() {
	local job

	up
	load_begins
	rdma link del "$NAME" || fail "rdma link del"
	wait_for "the end of the connection" gone "$SHOWN"
	wait "$job"
	device_new
}
