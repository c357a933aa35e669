#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# iSER, iSCSI over RDMA: the kernel's own initiator, with the daemon and the tool that
# the distribution has for it, and the kernel's target, both over a device of this
# machine, in front of a disk in memory.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
. "$here/lib/storage.sh"
. "$here/lib/lio.sh"
require tc dd cmp iscsid iscsiadm setsid pidof
for module in null_blk target_core_iblock iscsi_target_mod ib_isert ib_iser sd_mod; do
	modinfo $module >/dev/null 2>&1 || skip_all "no module $module"
done

PORT=3260
TARGET_NAME=iqn.2026-11.test:target$$
INITIATOR_NAME=iqn.2026-11.test:initiator$$

target_up() {
	local iscsi group portal

	store_up
	modprobe -a iscsi_target_mod ib_isert || fail "no target"
	mkdir -p "$TARGET/iscsi" || fail "no target"
	defer "rmdir $TARGET/iscsi"
	iscsi=$TARGET/iscsi/$TARGET_NAME
	group=$iscsi/tpgt_1
	portal=$group/np/$ADDR:$PORT
	mkdir "$iscsi" "$group" || fail "no target"
	defer "rmdir $group $iscsi"
	echo 0 >"$group/attrib/authentication"
	lun_up "$group"
	initiator_allowed "$group" $INITIATOR_NAME
	mkdir "$portal" || fail "no portal"
	defer "rmdir $portal"
	echo 1 >"$portal/iser" || fail "cannot listen"
	defer "echo 0 >$portal/iser"
	echo 1 >"$group/enable" || fail "cannot enable the target"
	defer "echo 0 >$group/enable"
	daemon_up
}

daemon_up() {
	modprobe ib_iser || fail "ib_iser"
	mkdir -p /run/lock
	echo "InitiatorName=$INITIATOR_NAME" >"$SCRATCH/iscsi.$$"
	defer "rm -f $SCRATCH/iscsi.$$"
	# A group of its own, all of which it ends with itself.
	setsid iscsid -f -n -i "$SCRATCH/iscsi.$$" >"$SCRATCH/iscsid.$$" 2>&1 &
	defer "kill $! 2>/dev/null; wait $! 2>/dev/null; cat $SCRATCH/iscsid.$$; rm $SCRATCH/iscsid.$$"
	wait_for "the daemon" pidof iscsid
	node -o new || fail "cannot make a node"
	defer "node -o delete >/dev/null"
}

node() { iscsiadm -m node -T $TARGET_NAME -p "$ADDR:$PORT" -I iser "$@"; }
session_gone() { ! iscsiadm -m session 2>/dev/null | grep -q "$TARGET_NAME"; }

# Sets BLOCK.
connect() {
	node --login || fail "cannot connect"
	defer "session_gone || node --logout"
	iscsiadm -m session | grep "^iser: .*$TARGET_NAME" || fail "not by RDMA"
	wait_for "a block device" find_block
}

disconnect() {
	node --logout || fail "cannot disconnect"
	session_gone || fail "still connected"
}

ktap_run_all \
	test_every_block_size \
	test_through_the_page_cache \
	test_several_at_once \
	test_loss \
	test_many_connections \
	test_disconnect_under_load
ktap_exit
