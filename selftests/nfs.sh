#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# NFS over RDMA: the kernel's server in one network namespace, its client in the
# other. A tree of files is copied there and back, and compared by checksums.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
. "$here/lib/switched.sh"
require mount.nfs rpc.mountd exportfs sha256sum unshare nsenter tc
for module in nfsd nfsv4 rpcrdma; do
	modinfo $module >/dev/null 2>&1 || skip_all "no module $module"
done

PORT=20049
SHARED=$SCRATCH/nfs.$$
MOUNTED=$SCRATCH/mnt.$$
TREE=$SCRATCH/tree.$$
options=vers=4.2,proto=rdma,port=$PORT,hard

# Each host has mounts of its own, kept by a process that sleeps.
host_new() {
	ip netns exec "$1" unshare -m --propagation private sleep infinity &
	host_pid=$!
	defer "kill $host_pid 2>/dev/null; wait $host_pid 2>/dev/null"
	wait_for "a host of its own" in_namespace "$host_pid"
}

server() { nsenter -t "$server_pid" -n -m "$@"; }
client() { nsenter -t "$client_pid" -n -m "$@"; }

# ip has both namespaces made when it has become unshare, and that sleep.
in_namespace() { [ "$(cat "/proc/$1/comm")" = sleep ]; }

server_up() {
	modprobe -a nfsd rpcrdma || fail "no nfsd"
	host_new "$NS_A"
	server_pid=$host_pid
	mkdir -p "$SHARED" /var/lib/nfs
	defer "rmdir $SHARED"
	server mount -t tmpfs none /var/lib/nfs
	server mkdir -p /var/lib/nfs/v4recovery
	server touch /var/lib/nfs/etab /var/lib/nfs/rmtab
	server mount -t nfsd nfsd /proc/fs/nfsd || fail "no /proc/fs/nfsd"
	server mount -t tmpfs -o size=256m none "$SHARED" || fail "tmpfs"
	nsenter -t "$server_pid" -n -m rpc.mountd -F -N 2 -N 3 &
	defer "kill $! 2>/dev/null; wait $! 2>/dev/null"
	server exportfs -i -o rw,no_root_squash,insecure,no_subtree_check,fsid=0 "*:$SHARED" ||
		fail "exportfs"
	# Version 4 needs no rpcbind.
	server sh -c 'echo -2 -3 +4 >/proc/fs/nfsd/versions' || fail "versions"
	# The server's first business is to wait for clients that knew it before.
	server sh -c 'cd /proc/fs/nfsd && echo 10 >nfsv4leasetime && echo 10 >nfsv4gracetime' ||
		fail "time of grace"
	server sh -c "echo rdma $PORT >/proc/fs/nfsd/portlist" || fail "nfsd does not listen"
	server sh -c 'echo 8 >/proc/fs/nfsd/threads' || fail "no threads"
	defer "server sh -c 'echo 0 >/proc/fs/nfsd/threads; exportfs -au'"
}

client_up() {
	mkdir -p "$MOUNTED"
	defer "rmdir $MOUNTED"
	host_new "$NS_B"
	client_pid=$host_pid
	defer "client umount -f $MOUNTED 2>/dev/null"
	mount_it
}

mount_it() {
	client timeout "$PATIENCE" mount.nfs "$(addr4 1 0):/" "$MOUNTED" -o "$options" ||
		fail "mount"
	client grep " $MOUNTED nfs4 .*proto=rdma" /proc/mounts || fail "not by RDMA"
}

# Files of all sizes around pages, and some large ones; a name for each.
tree_new() {
	local size i=0

	mkdir -p "$TREE/a/b c" "$TREE/empty"
	defer "rm -rf $TREE"
	for size in 0 1 511 4095 4096 4097 8193 65535 65536 100001 1048577 5000000; do
		for dir in "$TREE" "$TREE/a" "$TREE/a/b c"; do
			i=$((i + 1))
			seq -f "%.0f $i" 1 1000000 2>/dev/null | head -c $size >"$dir/$size"
		done
	done
	ln -s a/4096 "$TREE/link"
}

sums() { find . -type f -print0 | sort -z | xargs -0 sha256sum; }
export -f sums

# What the client writes is on the server, and is read again by a new mount.
copied() {
	client cp -a "$TREE/." "$MOUNTED/" || fail "cp"
	server bash -c "cd $SHARED && sums" >"$SCRATCH/sums.$$" || fail "cannot read"
	defer "rm -f $SCRATCH/sums.$$"
	(cd "$TREE" && sums) | diff - "$SCRATCH/sums.$$" || fail "other data on the server"
	client umount "$MOUNTED" || fail "umount"
	mount_it
	client bash -c "cd $MOUNTED && sums" >"$SCRATCH/sums.$$" || fail "cannot read"
	(cd "$TREE" && sums) | diff - "$SCRATCH/sums.$$" || fail "other data at the client"
	[ "$(client readlink "$MOUNTED/link")" = a/4096 ] || fail "no link"
	client rm -r "$MOUNTED/a" || fail "rm"
	server test ! -e "$SHARED/a" || fail "still there"
}

up() {
	hosts_up 2
	nfs_up
}

switched_up() {
	switched_hosts_up 2
	nfs_up
}

nfs_up() {
	server_up
	client_up
	tree_new
}

test_a_tree_is_copied() {
	up
	copied
	counters "$DEV_B"
}

test_small_transfers() {
	options=$options,rsize=4096,wsize=4096
	up
	copied
}

test_loss() {
	switched_up
	netem 2 loss 1%
	copied
	[ "$(($(dropped a) + $(dropped b)))" -gt 0 ] || fail "nothing was lost"
}

# In the middle of it, and the other plane loses packets meanwhile.
test_plane_fails() {
	local i job

	switched_up
	netem 2 loss 1%
	client bash -c "for i in 1 2 3 4 5 6; do cp -a $TREE $MOUNTED/\$i || exit 1; done" &
	job=$!
	wait_for "the third copy" server test -e "$SHARED/3"
	ip -n "$NS_A" link set p1 down
	kill -0 $job || fail "it was copied before the plane failed"
	wait $job || fail "cp"
	for i in 1 2 3 4 5 6; do
		server bash -c "cd $SHARED/$i && sums" >"$SCRATCH/sums.$$" || fail "cannot read"
		(cd "$TREE" && sums) | diff - "$SCRATCH/sums.$$" || fail "copy $i differs"
		client rm -r "$MOUNTED/$i" || fail "rm"
	done
	copied
}

test_mounted_many_times() {
	local i

	up
	for ((i = 0; i < 10; i++)); do
		client umount "$MOUNTED" || fail "umount"
		mount_it
	done
	copied
}

ktap_run_all \
	test_a_tree_is_copied \
	test_small_transfers \
	test_loss \
	test_plane_fails \
	test_mounted_many_times
ktap_exit
