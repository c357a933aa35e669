#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Many queue pairs between two hosts, and many connections: that they work, how long
# it takes to make them, and what the kernel keeps for each. QPS is the largest
# number of queue pairs, GIDS the square root of that of connections.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip

QPS=${QPS:-4000}
GIDS=${GIDS:-16}

# scale GIDS COUNT...: see verbs/scale.c. Sets memory[] to KiB of the kernel at each
# number of queue pairs, and at 0 before and at "end" after all.
scale() {
	local gids=$1 n line
	declare -gA memory

	shift
	memory[0]=$(kernel_memory)
	coproc "$MRVERBS" scale -g "$gids" "$DEV_A" "$DEV_B" "$@"
	defer "kill $COPROC_PID 2>/dev/null"
	pid=$COPROC_PID
	for n; do
		read -r line <&"${COPROC[0]}" || fail "no $n queue pairs"
		[[ $line = "$n queue pairs: "* ]] || fail "$line"
		echo "$line"
		memory[$n]=$(kernel_memory)
		echo "$n queue pairs: kernel $((memory[$n] - memory[0])) KiB, process" \
			"$(sed -n 's/^VmRSS:[[:space:]]*//p' "/proc/$pid/status")"
		[ "$n" = "${*: -1}" ] || echo >&"${COPROC[1]}"
	done
}

# The process ends, and all that it had with it.
scale_end() {
	local line

	echo >&"${COPROC[1]}"
	read -r line <&"${COPROC[0]}" || fail "not destroyed"
	echo "$line"
	wait "$pid" || fail "exit status $?"
	# Connections outlive their last queue pair by a while.
	wait_for_value "connections of $DEV_A" 0 counter "$DEV_A" connections
	wait_for_value "connections of $DEV_B" 0 counter "$DEV_B" connections
	memory[end]=$(kernel_memory)
	echo "afterwards: kernel $((memory[end] - memory[0])) KiB"
}

# rounds GIDS COUNT...: twice, as what the first ones set up for good does not count.
# Sets memory[] of the second round, and checks that nothing is left of it.
rounds() {
	scale "$@"
	scale_end
	scale "$@"
}

# nothing_stays NUMBER GIDS COUNT...: scale_end, and what is left is less than a few KiB
# for each of NUMBER. Slabs that are used in part look like that as well, once or
# twice; a leak does in every round.
nothing_stays() {
	local limit=$((2 * $1)) round

	shift
	scale_end
	for round in 1 2 3; do
		[ $((memory[end] - memory[0])) -ge "$limit" ] || return 0
		scale "$@"
		scale_end
	done
	[ $((memory[end] - memory[0])) -lt "$limit" ] || fail "$round more rounds leave memory behind"
}

test_queue_pairs() {
	local counts=(1 1 $((QPS / 4)) $((QPS / 2)) "$QPS")

	need_metaroce
	hosts_up 2
	neighbours_known 2
	rounds "${counts[@]}"
	[ "$(counter "$DEV_A" connections)" = 1 ] || fail "more than one connection"
	echo "for each queue pair: $(((memory[$QPS] - memory[$((QPS / 4))]) * 1024 / 2 /
		(QPS - QPS / 4))) bytes in the kernel"
	nothing_stays "$QPS" "${counts[@]}"
}

test_connections() {
	local i n=$((GIDS * GIDS)) of_qps counts

	need_metaroce
	hosts_up 2
	neighbours_known 2
	for ((i = 1; i < GIDS; i++)); do
		another_address "$NS_A" "$NS_B" $((10 + i))
		another_address "$NS_B" "$NS_A" $((110 + i))
	done
	wait_for "GIDs of $DEV_A" has_gids "$DEV_A"
	wait_for "GIDs of $DEV_B" has_gids "$DEV_B"
	counts=("$GIDS" 1 "$n" $((2 * n)))
	rounds "${counts[@]}"
	[ "$(counter "$DEV_A" connections)" = "$n" ] ||
		fail "$(counter "$DEV_A" connections) connections, not $n"
	# The second half had no new connection.
	of_qps=$((memory[$((2 * n))] - memory[$n]))
	echo "for each connection: $(((memory[$n] - memory[1] - of_qps) * 1024 / 2 / (n - 1)))" \
		"bytes in the kernel"
	nothing_stays $((2 * n)) "${counts[@]}"
}

# The other host knows it, as its look-up takes ib_core a second: another_address NAMESPACE PEER HOST
another_address() {
	local mac

	ip -n "$1" addr add "$(addr4 "$3" 0)/24" dev p0 || fail "ip addr"
	mac=$(ip netns exec "$1" cat /sys/class/net/p0/address)
	ip -n "$2" neigh replace "$(addr4 "$3" 0)" lladdr "$mac" dev p0 nud permanent ||
		fail "ip neigh"
}

has_gids() {
	[ "$(cat "/sys/class/infiniband/$1/ports/1/gids/"* | grep -c '0000:ffff:c0a8:64')" -ge "$GIDS" ]
}

ktap_run_all test_queue_pairs test_connections
ktap_exit
