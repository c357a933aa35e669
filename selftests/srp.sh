#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# SRP, SCSI over RDMA: the kernel's own initiator and target, connected by rdma_cm,
# both over a device of this machine, in front of a disk in memory.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
. "$here/lib/storage.sh"
. "$here/lib/lio.sh"
require tc dd cmp
for module in null_blk target_core_iblock ib_srpt ib_srp sd_mod; do
	modinfo $module >/dev/null 2>&1 || skip_all "no module $module"
done

PORT=5555

# The target calls a port by the device's first GID, which it looks up when it has
# changed, a bit later.
make_port() {
	port=$TARGET/srpt/$(cut -d : -f 5- "/sys/class/infiniband/$NAME/ports/1/gids/0")
	mkdir "$port" 2>/dev/null
}

target_up() {
	local port group

	store_up
	modprobe ib_srpt || fail "ib_srpt"
	mkdir -p "$TARGET/srpt" || fail "no target"
	defer "rmdir $TARGET/srpt"
	echo $PORT >"$TARGET/srpt/discovery_auth/rdma_cm_port" || fail "cannot listen"
	defer "echo 0 >$TARGET/srpt/discovery_auth/rdma_cm_port"
	wait_for "a port of the target" make_port
	defer "rmdir $port"
	group=$port/${port##*/}
	mkdir "$group" || fail "no group of portals"
	defer "rmdir $group"
	lun_up "$group"
	initiator_allowed "$group" "$ADDR"
	echo 1 >"$group/enable" || fail "cannot enable the target"
	defer "echo 0 >$group/enable"
}

# Sets SHOWN and BLOCK.
connect() {
	local guid

	modprobe ib_srp || fail "ib_srp"
	guid=$(cat /sys/module/ib_srpt/parameters/srpt_service_guid)
	guid=${guid#0x}
	echo "id_ext=$guid,ioc_guid=$guid,dest=$ADDR:$PORT" \
		>"/sys/class/infiniband_srp/srp-$NAME-1/add_target" || fail "cannot connect"
	for SHOWN in /sys/class/scsi_host/*; do
		[ "$(cat "$SHOWN/local_ib_device" 2>/dev/null)" != "$NAME" ] || break
	done
	[ -e "$SHOWN/local_ib_device" ] || fail "no SCSI host"
	defer "[ ! -e $SHOWN ] || disconnect"
	wait_for "a block device" find_block
}

disconnect() {
	local remote=/sys/class/srp_remote_ports/port-${SHOWN##*host}:1

	echo 1 >"$remote/delete" || fail "cannot disconnect"
	wait_for "the end of the SCSI host" gone "$SHOWN"
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
