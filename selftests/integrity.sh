#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Data that never leave the host need no CRC; as soon as they may have been on a
# link, they have it. Veth hands memory on like the loopback device, unless it
# is told to compute checksums: then what comes looks as if from a link.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ethtool
is_metaroce || skip_all "about metaroce only"

# received DEVICE: packets in all, and those that were on no link
received() { echo "$(counter "$1" rx_packets) $(counter "$1" rx_local)"; }

test_data_in_memory_need_no_CRC() {
	local all links

	hosts_up 2
	check_traffic
	read -r all links <<<"$(received "$DEV_B")"
	[ "$all" -gt 0 ] || fail "nothing was received"
	[ "$all" = "$links" ] || fail "$links of $all packets are said to come from memory"
}

test_data_from_links_have_it() {
	local local_packets

	hosts_up 2
	tx_checksums off
	check_traffic
	local_packets=$(counter "$DEV_B" rx_local)
	[ "$local_packets" = 0 ] || fail "$local_packets packets are said to come from memory"
	[ "$(counter "$DEV_B" drop_crc)" = 0 ] || fail "packets without CRC"
}

# What is under way without CRC when the route becomes a link is refused, and
# comes again with it.
test_memory_becomes_a_link_under_way() {
	local before

	hosts_up 2
	soak_bg -q 4 -d 8 -m 100000
	for _ in 1 2 3; do
		before=$(counter "$DEV_B" rx_local)
		wait_for "packets from memory" more_than "$before" counter "$DEV_B" rx_local
		tx_checksums off
		before=$(($(counter "$DEV_B" rx_packets) + 500))
		wait_for "packets from a link" more_than "$before" counter "$DEV_B" rx_packets
		soak_alive
		tx_checksums on
	done
	soak_end
}

# changing NAME: traffic from and to memory that changes all the time
changing() {
	"$MRVERBS" test -k "$1" "$DEV_A" "$DEV_B" changing >"$SCRATCH/changing.$$" ||
		fail "$(grep -v "^ok" "$SCRATCH/changing.$$")"
	rm -f "$SCRATCH/changing.$$"
}

dropped() { echo $(($(counter "$DEV_A" drop_crc) + $(counter "$DEV_B" drop_crc))); }

# With a CRC over what they are no more when they leave the host, data would never get through.
test_data_that_change_arrive() {
	local ns plane

	hosts_up 2
	tx_checksums off
	for ns in "$NS_A" "$NS_B"; do
		for plane in p0 p1; do
			tc -n "$ns" qdisc add dev $plane root netem limit 10000 delay 5ms ||
				skip "no netem"
		done
	done
	changing "a word"
	changing datagrams
	[ "$(dropped)" = 0 ] || fail "$(dropped) packets that were copied were wrong"
	changing much
	[ "$(dropped)" -gt 0 ] || fail "nothing has changed on its way"
}

ktap_run_all \
	test_data_in_memory_need_no_CRC \
	test_data_from_links_have_it \
	test_memory_becomes_a_link_under_way \
	test_data_that_change_arrive
ktap_exit
