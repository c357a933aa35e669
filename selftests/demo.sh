#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The demonstration: two hosts joined by two planes, standard programs over
# metaroce, the same programs over rxe in the same machine, and a table.
# DEMO_ITERS, DEMO_SIZE: messages of each run (2000) and their size (65536).
# shellcheck source-path=SCRIPTDIR
RDMA_TYPE=metaroce
. "$(dirname "$0")/lib/lib.sh"

iters=${DEMO_ITERS:-2000}
size=${DEMO_SIZE:-65536}
trap cleanup EXIT

title() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
run() {
	printf '$ %s\n' "$*"
	"$@"
}

# Gb/s of the last run of perftest
goodput() { awk '/#bytes/ { getline; print $4 }' "$SCRATCH/client.$$"; }

# perf PROGRAM DEVICE-A DEVICE-B OPTION...
perf() {
	local program=$1 dev_a=$2 dev_b=$3

	shift 3
	echo "\$ $program ${*}   (server on host A, client on host B)" >&2
	client_server "$program" \
		"$program" -F -d "$dev_a" -x "$(gid_index "$dev_a")" "$@" -- \
		"$program" -F -d "$dev_b" -x "$(gid_index "$dev_b")" "$@" "$(addr4 1 0)"
	grep -A 1 '#bytes' "$SCRATCH/client.$$" >&2
	goodput
}

bench() {
	local dev_a=$1 dev_b=$2

	send=$(perf ib_send_bw "$dev_a" "$dev_b" -e --report_gbits -n "$iters" -s "$size") || exit
	write=$(perf ib_write_bw "$dev_a" "$dev_b" --report_gbits -n "$iters" -s "$size") || exit
}

title "Two hosts (network namespaces), joined by two planes (veth pairs)"
netns_up 2
defer links_down
for plane in 0 1; do
	run ip netns exec "$NS_A" rdma link add "$DEV_A" type metaroce netdev "p$plane" || exit
	run ip netns exec "$NS_B" rdma link add "$DEV_B" type metaroce netdev "p$plane" || exit
done
links_ready
run rdma link show
run ibv_devinfo -d "$DEV_B"

title "Bandwidth over metaroce, both planes"
bench "$DEV_A" "$DEV_B"
mr_send=$send mr_write=$write
# What B has sent: it was the client.
declare -A count
for name in plane0_tx_packets plane1_tx_packets retransmits_gap retransmits_probe \
	retransmits_timeout; do
	count[$name]=$(counter "$DEV_B" $name)
done
paths=$(cd "/sys/class/infiniband/$DEV_B/hw_counters" && grep -H . path*_tx_packets |
	sed 's/_tx_packets:/ /' | grep -v ' 0$' | sort -V)

title "The same bytes, compared one by one"
run "$MRVERBS" soak -q 8 -d 16 -n 100 -m 200000 "$DEV_A" "$DEV_B" || fail "bytes differ"
links_down

title "The same programs over rxe, in the same machine, on the first plane"
RDMA_TYPE=rxe
modprobe rdma_rxe || fail "no rxe in this kernel"
link_new "$NS_A" "rxea$$" p0 || fail "rdma link add (rxe)"
link_new "$NS_B" "rxeb$$" p0 || fail "rdma link add (rxe)"
defer "rdma link del rxea$$; rdma link del rxeb$$"
DEV_A=rxea$$ DEV_B=rxeb$$ links_ready
bench "rxea$$" "rxeb$$"

title "Result ($iters messages of $size bytes, path MTU 4096)"
row() { printf '%-34s %12s %12s\n' "$@"; }
row "" metaroce rxe
row "ib_send_bw, Gb/s" "$mr_send" "$send"
row "ib_write_bw, Gb/s" "$mr_write" "$write"
row "packets sent, plane 0" "${count[plane0_tx_packets]}" ""
row "packets sent, plane 1" "${count[plane1_tx_packets]}" ""
[ -z "$paths" ] || while read -r name value; do
	row "packets sent, $name" "$value" ""
done <<<"$paths"
row "retransmissions" $((count[retransmits_gap] + count[retransmits_probe] + \
	count[retransmits_timeout])) ""
row "bytes verified" yes ""
echo

better() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }'; }
better "$mr_send" "$send" || { echo "ib_send_bw is below rxe's" >&2; exit 1; }
better "$mr_write" "$write" || { echo "ib_write_bw is below rxe's" >&2; exit 1; }
