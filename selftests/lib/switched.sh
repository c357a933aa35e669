# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# The planes go through a switch, a third namespace, where faults are: what gets
# there has been cut to single packets, so that netem takes these and not bursts
# of a dozen. The ports of plane 0 are a0 and b0: what is done on a0, is done on
# the way to A. To be sourced after lib.sh.

NS_SWITCH=mrs$$

# switched_hosts_up PLANES
switched_hosts_up() {
	defer "ip netns del $NS_SWITCH"
	ip netns add "$NS_SWITCH" || fail "cannot make a namespace"
	SWITCH=$NS_SWITCH hosts_up "$1"
	neighbours_known "$1"
}

# netem PLANES OPTION...: both directions of each plane
netem() {
	local planes=$1 i

	shift
	for ((i = 0; i < planes; i++)); do
		netem_plane "$i" "$@"
	done
}

# netem_plane PLANE OPTION...: both directions of one
netem_plane() {
	netem_to a "$@"
	netem_to b "$@"
}

# netem_to a|b PLANE OPTION...: on the way to that host
netem_to() {
	tc -n "$NS_SWITCH" qdisc replace dev "$1$2" root netem limit 10000 "${@:3}" ||
		fail "tc netem ${*:3}"
}

# What netem has dropped on the way to a host: dropped a|b
dropped() {
	local i sum=0 n

	for i in 0 1; do
		n=$(tc -n "$NS_SWITCH" -s qdisc show dev "$1$i" |
			sed -n 's/.*dropped \([0-9]*\).*/\1/p' | head -n 1)
		sum=$((sum + n))
	done
	echo $sum
}
