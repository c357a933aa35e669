#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# Lets the distribution's libibverbs find, load and match the provider, with a
# made-up sysfs in place of a device: no kernel module is needed. "make test"
# builds what is needed and calls this.
# Then all verbs, with a kernel made up inside the process.
# usage: test-load.sh DIRECTORY-OF-THE-PROVIDER
set -u

out=$(cd "${1:?directory of the provider}" && pwd)
sys=$(mktemp -d)
trap 'rm -rf "$sys"' EXIT
failed=0
n=0

# fake NAME ABI: one RDMA device in sysfs
fake() {
	rm -rf "${sys:?}/class"
	mkdir -p "$sys/class/infiniband_verbs/uverbs0" "$sys/class/infiniband/$1"
	echo 6 >"$sys/class/infiniband_verbs/abi_version"
	echo "$1" >"$sys/class/infiniband_verbs/uverbs0/ibdev"
	echo "$2" >"$sys/class/infiniband_verbs/uverbs0/abi_version"
	echo 1:3 >"$sys/class/infiniband_verbs/uverbs0/dev"
	echo "1: CA" >"$sys/class/infiniband/$1/node_type"
	echo "0200:00ff:fe00:0001" >"$sys/class/infiniband/$1/node_guid"
}

# devices: the names that libibverbs lists with the provider
devices() {
	SYSFS_PATH=$sys RDMAV_DRIVERS=$out/libmetaroce IBV_SHOW_WARNINGS=1 \
		"$out/list-devices" 2>"$sys/stderr"
}

# check DESCRIPTION EXPECTED FOUND
check() {
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $n $1"
	else
		echo "not ok $n $1"
		echo "# expected '$2', found '$3'"
		sed 's/^/# /' "$sys/stderr"
		failed=1
	fi
}

echo "TAP version 13"
echo "1..5"

fake metaroce0 1
check "a device of the ABI is listed" metaroce0 "$(devices)"
check "the provider loads" "" "$(grep -F metaroce-rdmav "$sys/stderr")"

fake metaroce0 2
check "another ABI is refused" "" "$(devices)"

fake other0 1
check "another driver's device is left alone" "" "$(devices)"

fake metaroce0 1
n=$((n + 1))
echo "# Subtest: verbs"
SYSFS_PATH=$sys RDMAV_DRIVERS=$out/libmetaroce "$out/fake-verbs" 2>"$sys/stderr" >"$sys/tap"
rc=$?
sed 's/^/    /' "$sys/tap"
if [ $rc = 0 ]; then
	echo "ok $n verbs"
else
	echo "not ok $n verbs"
	sed 's/^/# /' "$sys/stderr"
	failed=1
fi

exit $failed
