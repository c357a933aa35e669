#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The demonstration: two hosts joined by two planes, standard programs over
# metaroce, the same programs over rxe in the same machine, and a table.
# DEMO_ITERS, DEMO_SIZE: messages of each run (2000) and their size (65536).
# DEMO_ROUNDS: runs of each program, of which the table shows the median (3).
# shellcheck source-path=SCRIPTDIR
RDMA_TYPE=metaroce
. "$(dirname "$0")/lib/lib.sh"

iters=${DEMO_ITERS:-2000}
size=${DEMO_SIZE:-65536}
rounds=${DEMO_ROUNDS:-3}
trap cleanup EXIT

title() { printf '\n== %s\n' "$*"; }
run() {
	printf '$ %s\n' "$*"
	"$@"
}

# perf PROGRAM DEVICE-A DEVICE-B OPTION...: prints Gb/s
perf() {
	local program=$1 dev_a=$2 dev_b=$3

	shift 3
	client_server "$program" \
		"$program" -F -d "$dev_a" -x "$(gid_index "$dev_a")" "$@" -- \
		"$program" -F -d "$dev_b" -x "$(gid_index "$dev_b")" "$@" \
		"$(addr4 1 0)" >&2 || exit
	awk '/#bytes/ { getline; print $4 }' "$SCRATCH/client.$$"
}

# one TYPE PROGRAM OPTION...: a run; adds the figure to results[TYPE PROGRAM]
declare -A results
one() {
	local type=$1 program=$2 gbits dev_a=$DEV_A dev_b=$DEV_B

	shift 2
	[ "$type" = metaroce ] || dev_a=$RXE_A dev_b=$RXE_B
	printf '%-9s $ %s %s ' "$type" "$program" "$*"
	gbits=$(perf "$program" "$dev_a" "$dev_b" "$@") || exit
	echo "  -> $gbits Gb/s"
	results["$type $program"]+="$gbits "
}

median() { tr ' ' '\n' <<<"$1" | sed '/^$/d' | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

title "Two hosts (network namespaces), joined by two planes (veth pairs)"
netns_up 3
defer links_down
for plane in 0 1; do
	run ip netns exec "$NS_A" rdma link add "$DEV_A" type metaroce netdev "p$plane" || exit
	run ip netns exec "$NS_B" rdma link add "$DEV_B" type metaroce netdev "p$plane" || exit
done
links_ready
run rdma link show
run ibv_devinfo -d "$DEV_B"

title "Beside it, for comparison: Soft-RoCE (rxe) over a third veth pair"
RXE_A=rxea$$ RXE_B=rxeb$$
modprobe rdma_rxe || fail "no rxe in this kernel"
run ip netns exec "$NS_A" rdma link add "$RXE_A" type rxe netdev p2 || exit
run ip netns exec "$NS_B" rdma link add "$RXE_B" type rxe netdev p2 || exit
defer "rdma link del $RXE_A; rdma link del $RXE_B"
DEV_A=$RXE_A DEV_B=$RXE_B links_ready

title "Bandwidth: perftest, server on host A, client on host B, $rounds rounds"
for ((round = 0; round < rounds; round++)); do
	for type in metaroce rxe; do
		one $type ib_send_bw -e --report_gbits -n "$iters" -s "$size"
	done
	for type in metaroce rxe; do
		one $type ib_write_bw --report_gbits -n "$iters" -s "$size"
	done
done
# What B has sent: it was the client.
declare -A count
for name in plane0_tx_packets plane1_tx_packets retransmits_gap retransmits_probe \
	retransmits_timeout; do
	count[$name]=$(counter "$DEV_B" $name)
done
paths=$(cd "/sys/class/infiniband/$DEV_B/hw_counters" && grep -H . path*_tx_packets |
	sed 's/_tx_packets:/ /' | grep -v ' 0$' | sort -V)

title "Every operation, every byte compared"
run "$MRVERBS" soak -q 8 -d 16 -n 100 -m 200000 "$DEV_A" "$DEV_B" || fail "bytes differ"

title "Result ($iters messages of $size bytes, path MTU 4096, median of $rounds)"
row() { printf '%-34s %12s %12s\n' "$@"; }
row "" metaroce rxe
slower=
for program in ib_send_bw ib_write_bw; do
	ours=$(median "${results[metaroce $program]}")
	theirs=$(median "${results[rxe $program]}")
	row "$program, Gb/s" "$ours" "$theirs"
	awk -v a="$ours" -v b="$theirs" 'BEGIN { exit !(a > b) }' || slower+=" $program"
done
row "packets sent, plane 0" "${count[plane0_tx_packets]}" ""
row "packets sent, plane 1" "${count[plane1_tx_packets]}" ""
while read -r name value; do
	row "packets sent, $name" "$value" ""
done <<<"$paths"
row "retransmissions" $((count[retransmits_gap] + count[retransmits_probe] + \
	count[retransmits_timeout])) ""
row "bytes verified" yes ""
echo
[ -z "$slower" ] || { echo "metaroce is not the faster one in:$slower" >&2; exit 1; }
