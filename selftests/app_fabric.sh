#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# libfabric, as the distribution ships it: fi_info and fi_pingpong, which checks
# every byte, over the verbs provider.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require fi_info fi_pingpong
modprobe rdma_ucm 2>/dev/null || [ -e /dev/infiniband/rdma_cm ] || skip_all "no rdma_ucm"

fabric_listens() { server_listens 47592; }

# pingpong PROVIDER OPTION...; the domain is the device, that of datagrams has a
# name of its own
pingpong() {
	local program=(fi_pingpong -c -p "$1" "${@:2}") suffix=

	[[ " $* " != *" dgram "* ]] || suffix=-dgram
	APP_TIMEOUT=300 APP_LISTENS=fabric_listens client_server "${program[*]}" \
		"${program[@]}" -d "$DEV_A$suffix" -- \
		"${program[@]}" -d "$DEV_B$suffix" "$(addr4 1 0)"
	cat "$SCRATCH/client.$$"
	grep -qE '^[0-9.]+[kmg]? ' "$SCRATCH/client.$$" || fail "no result"
}

# Endpoints of each type, on the device and no other.
test_listed() {
	local type

	hosts_up 2
	for type in FI_EP_MSG FI_EP_RDM FI_EP_DGRAM; do
		in_a fi_info -p verbs -t $type >"$SCRATCH/client.$$" 2>&1 ||
			fail "$type: fi_info's exit status is $?"
		defer "rm -f $SCRATCH/client.$$"
		cat "$SCRATCH/client.$$"
		grep -q "domain: $DEV_A" "$SCRATCH/client.$$" || fail "no $type"
	done
}

test_messages() {
	hosts_up 2
	pingpong verbs -e msg -I 20
}

test_large_messages() {
	hosts_up 2
	pingpong verbs -e msg -I 5 -S 4000001
}

test_reliable_datagrams() {
	hosts_up 2
	pingpong "verbs;ofi_rxm" -e rdm -I 20
}

test_tagged_reliable_datagrams() {
	hosts_up 2
	pingpong "verbs;ofi_rxm" -e rdm -m tagged -I 20
}

test_datagrams() {
	hosts_up 2
	pingpong verbs -e dgram -I 20 -S 1024
}

test_loss() {
	hosts_up 2
	planes_lose 1
	pingpong "verbs;ofi_rxm" -e rdm -I 50 -S 65536
}

ktap_run_all \
	test_listed \
	test_messages \
	test_large_messages \
	test_reliable_datagrams \
	test_tagged_reliable_datagrams \
	test_datagrams \
	test_loss
ktap_exit
