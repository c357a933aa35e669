#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the tools say of a device is true.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ibv_devices ibv_devinfo jq

test_ibv_devices() {
	hosts_up 2
	ibv_devices | grep -qw "$DEV_A" || fail "ibv_devices does not list $DEV_A"
	ibv_devices | grep -qw "$DEV_B" || fail "ibv_devices does not list $DEV_B"
}

test_ibv_devinfo() {
	local info

	hosts_up 2
	info=$(ibv_devinfo -v -d "$DEV_A") || fail "ibv_devinfo"
	expect() {
		grep -qE "^\s*$1\s*$" <<<"$info" || {
			echo "$info"
			fail "no \"$1\" in ibv_devinfo"
		}
	}
	expect 'transport:\s+InfiniBand \(0\)'
	expect 'phys_port_cnt:\s+1'
	expect 'state:\s+PORT_ACTIVE \(4\)'
	expect 'link_layer:\s+Ethernet'
	expect 'active_mtu:\s+4096 \(5\)'
	expect 'max_mtu:\s+4096 \(5\)'
	expect 'phys_state:\s+LINK_UP \(5\)'
	expect "GID\[ *[0-9]+\]:\s+::ffff:$(addr4 1 0), RoCE v2"
	expect "GID\[ *[0-9]+\]:\s+fd00:6d52::1, RoCE v2"
	if is_metaroce; then
		! grep -qE 'GID.*RoCE v1' <<<"$info" || fail "a GID of RoCE v1, which it does not speak"
		! grep -q "$(addr4 1 1)" <<<"$info" || fail "a GID of the second plane"
	fi
}

test_ordinary_user() {
	hosts_up 1
	setpriv --reuid 65534 --regid 65534 --clear-groups ibv_devinfo -d "$DEV_A" >/dev/null ||
		fail "ibv_devinfo as an ordinary user"
}

test_rdma_link_and_dev() {
	hosts_up 2
	in_a rdma -j link show "$DEV_A/1" | jq -e '.[0] | .state == "ACTIVE" and
		.physical_state == "LINK_UP" and .netdev == "p0"' >/dev/null ||
		fail "rdma link: $(rdma -j link show "$DEV_A/1")"
	rdma -j dev show "$DEV_A" | jq -e '.[0] | .node_type == "ca" and
		(.node_guid | test("^0+:") | not)' >/dev/null ||
		fail "rdma dev: $(rdma -j dev show "$DEV_A")"
}

test_guids_differ() {
	hosts_up 1
	[ "$(rdma -j dev show "$DEV_A" | jq -r '.[0].node_guid')" != \
		"$(rdma -j dev show "$DEV_B" | jq -r '.[0].node_guid')" ] ||
		fail "two devices of one node GUID"
}

test_resources() {
	local pid res

	hosts_up 1
	res_remember "$DEV_A"
	hold "$DEV_A"
	pid=$hold_pid
	more() {
		local now

		now=$(res_count "$DEV_A" "$1")
		[ $((now - res_idle[$1])) = "$2" ] || fail "$1: $now, $2 more than ${res_idle[$1]} expected"
	}
	more pd 1
	more cq 2
	more qp 1
	# One of them is of a dma-buf, where there are any.
	more mr "$(sed -n 's/^regions //p' "$hold_log")"
	more ctx 1
	res=$(rdma -j res show qp link "$DEV_A/1" | jq -c ".[] | select(.pid == $pid)")
	jq -e '.state == "INIT" and .type == "RC" and .comm == "mrverbs"' <<<"$res" >/dev/null ||
		fail "rdma res show qp: $res"
	rdma -j res show mr dev "$DEV_A" |
		jq -e "any(.[]; .pid == $pid and .mrlen >= 100000)" >/dev/null ||
		fail "rdma res show mr"
	hold_end
	res_empty "$DEV_A" || fail "left: $(rdma res show "$DEV_A")"
}

test_speed() {
	local info

	need_metaroce
	hosts_up 1
	# veth says 10 Gb/s: four lanes of 2.5, or one of 10.
	info=$(ibv_devinfo -v -d "$DEV_A" | grep -E 'active_(width|speed)')
	echo "$info"
	case $(tr -s ' \t\n' ' ' <<<"$info") in
	*1X*10.0\ Gbps* | *4X*2.5\ Gbps*) ;;
	*) fail "width and speed do not give 10 Gb/s" ;;
	esac
}

test_counters() {
	local before after

	need_metaroce
	hosts_up 2
	rdma statistic show link "$DEV_A/1" >/dev/null || fail "rdma statistic"
	before=$(counter "$DEV_A" tx_packets)
	check_traffic
	after=$(counter "$DEV_A" tx_packets)
	[ "$after" -gt "$before" ] || fail "tx_packets: $before, then $after"
	[ "$(counter "$DEV_B" rx_packets)" -gt 0 ] || fail "rx_packets is 0"
	[ "$(counter "$DEV_A" plane0_tx_packets)" -gt 0 ] || fail "plane0_tx_packets is 0"
	[ "$(counter "$DEV_A" plane1_tx_packets)" -gt 0 ] || fail "plane1_tx_packets is 0"
	[ "$(cat "/sys/class/infiniband/$DEV_A/hw_counters/path0_tx_packets")" -gt 0 ] ||
		fail "path0_tx_packets is 0"
}

test_counters_agree_without_loss() {
	local sent received

	need_metaroce
	hosts_up 2
	check_traffic
	sent=$(counter "$DEV_A" tx_packets)
	received=$(counter "$DEV_B" rx_packets)
	[ "$(counter "$DEV_A" retransmits_gap)" = 0 ] || fail "retransmissions without a loss"
	[ "$sent" = "$received" ] || fail "$sent sent, $received received"
}

ktap_run_all \
	test_ibv_devices \
	test_ibv_devinfo \
	test_ordinary_user \
	test_rdma_link_and_dev \
	test_guids_differ \
	test_resources \
	test_speed \
	test_counters \
	test_counters_agree_without_loss
ktap_exit
