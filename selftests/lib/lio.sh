# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The kernel's SCSI target (LIO), for iser.sh and srp.sh. To be sourced after
# storage.sh.

TARGET=$CONFIG/target

# The disk as what a target can export: STORE.
store_up() {
	modprobe -a target_core_mod target_core_iblock sd_mod || fail "no target"
	STORE=$TARGET/core/iblock_0/$NAME
	mkdir -p "$STORE" || fail "no backstore"
	defer "rmdir $STORE ${STORE%/*}"
	echo "udev_path=$DISK" >"$STORE/control" || fail "the disk is not taken"
	echo 1 >"$STORE/enable" || fail "no backstore"
	echo "$NAME" >"$STORE/wwn/vpd_unit_serial" || fail "no serial number"
}

# lun_up GROUP: the disk as the first unit of a group of portals
lun_up() {
	mkdir "$1/lun/lun_0" || fail "no unit"
	defer "rmdir $1/lun/lun_0"
	ln -s "$STORE" "$1/lun/lun_0/disk" || fail "no unit"
	defer "rm $1/lun/lun_0/disk"
}

# initiator_allowed GROUP NAME: may use that unit
initiator_allowed() {
	local acl=$1/acls/$2

	mkdir "$acl" || fail "no ACL of $2"
	defer "rmdir $acl"
	mkdir "$acl/lun_0" || fail "no unit of $2"
	defer "rmdir $acl/lun_0"
	ln -s "$1/lun/lun_0" "$acl/lun_0/disk" || fail "no unit of $2"
	defer "rm $acl/lun_0/disk"
}

# What the disk is seen as, by its serial number: sets BLOCK.
find_block() {
	local dir

	for dir in /sys/class/scsi_device/*/device; do
		grep -aqs "$NAME" "$dir/vpd_pg80" || continue
		BLOCK=/dev/$(basename "$(echo "$dir"/block/*)")
		[ ! -b "$BLOCK" ] || return 0
	done
	return 1
}
