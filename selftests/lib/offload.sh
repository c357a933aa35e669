# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Offload to NICs: policy, counters, and the simulated NIC. Sourced after lib.sh.
#
# OFFLOAD_NIC is what carries queue pairs: "sim" if unset, a simulated NIC that is
# registered for p0 of each host. With the name of another driver that registers by
# itself, NETDEVS_A and NETDEVS_B name its network devices, which are the planes
# then, by number; tests that need the simulated NIC are skipped.

OFFLOAD_NIC=${OFFLOAD_NIC:-sim}
SIM=/sys/kernel/debug/metaroce_sim
SIM_A=sima
SIM_B=simb

is_sim() { [ "$OFFLOAD_NIC" = sim ]; }
need_sim() { is_sim || skip "needs the simulated NIC"; }

# What an offload test begins with, instead of require.
require_offload() {
	require nsenter
	is_metaroce || skip_all "about metaroce only"
	[ -d /sys/kernel/debug/bdi ] || mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
	[ -d /sys/kernel/debug/bdi ] || skip_all "no debugfs"
	if is_sim; then
		modprobe metaroce_sim 2>/dev/null || skip_all "no module metaroce_sim"
		rmmod metaroce_sim
	else
		[ "${NETDEVS_A:-}" ] && [ "${NETDEVS_B:-}" ] || skip_all "NETDEVS_A, NETDEVS_B"
	fi
}

sim_loaded() { [ -e /sys/module/metaroce_sim ]; }

sim_load() {
	sim_loaded || modprobe metaroce_sim || fail "modprobe metaroce_sim"
	defer "sim_unload"
}

sim_unload() { ! sim_loaded || rmmod metaroce_sim; }

# A write that names a network device of a namespace: sim_write NAMESPACE FILE TEXT
sim_write() {
	nsenter --net="/run/netns/$1" bash -c 'echo "$1" >"$2"' - "$3" "$SIM/$2" 2>/dev/null
}

# sim_add NAMESPACE NETDEV NAME
sim_add() {
	sim_write "$1" register "$2 $3" || fail "cannot register $3 for $2"
}

sim_remove() { echo "$1" >"$SIM/unregister"; }

# With the capabilities that were set: sim_again NAMESPACE NETDEV NAME
sim_again() {
	sim_write "$1" "$3/reregister" "$2"
}

# sim_set NAME FILE TEXT
sim_set() {
	echo "$3" >"$SIM/$1/$2" || fail "$1: cannot write '$3' to $2"
}

# How often an operation has succeeded: sim_ops NAME OPERATION
sim_ops() { sed -n "s/^$2 //p" "$SIM/$1/ops"; }

# Skips if there are not as many cables.
need_planes() {
	is_sim || [ "$(wc -w <<<"$NETDEVS_A")" -ge "$1" ] || skip "needs $1 planes"
}

# Both hosts with a device each that can carry queue pairs, over PLANES, else two or as
# many as there are cables: offload_up [PLANES]
offload_up() {
	local planes=${1:-2}

	if is_sim; then
		sim_load
		hosts_up "$planes"
		sim_add "$NS_A" p0 "$SIM_A"
		sim_add "$NS_B" p0 "$SIM_B"
	else
		[ "${1:-}" ] || [ "$(wc -w <<<"$NETDEVS_A")" -ge 2 ] || planes=1
		hosts_up "$planes"
	fi
}

# policy DEVICE "[QPN] off|prefer|require"
policy() { choose "$1" offload "$2"; }

# What is set, in one line: policy_of DEVICE
policy_of() { settings "$1" offload | xargs cat | paste -sd ' '; }

policies() {
	policy "$DEV_A" "$1"
	policy "$DEV_B" "$1"
}

# A counter of offload: ofl DEVICE NAME
ofl() { counter "$1" "ofl_$2"; }

# Takes down a counter's value, to see later how it has changed.
declare -A ofl_before
ofl_mark() {
	local dev name

	for dev in "$DEV_A" "$DEV_B"; do
		for name in qp_add qp_del add_fallback add_fail faults qp_lost; do
			ofl_before[$dev.$name]=$(ofl "$dev" $name)
		done
	done
}

# What has come to a counter since: ofl_more DEVICE NAME
ofl_more() { echo $(($(ofl "$1" "$2") - ${ofl_before[$1.$2]})); }

# Of what has come since: ofl_is DEVICE NAME -eq|-ge|-gt NUMBER
ofl_is() {
	test "$(ofl_more "$1" "$2")" "$3" "$4" ||
		fail "ofl_$2 of $1 has gone up by $(ofl_more "$1" "$2"), not $3 $4"
}

# What must be so when nobody uses the devices.
ofl_settled() {
	local dev

	for dev in "$DEV_A" "$DEV_B"; do
		! link_gone "$dev" || continue
		wait_for_value "queue pairs of $dev" 0 ofl "$dev" qp_active
		[ "$(ofl "$dev" qp_add)" = "$(ofl "$dev" qp_del)" ] ||
			fail "$dev: $(ofl "$dev" qp_add) added, $(ofl "$dev" qp_del) deleted"
	done
}

# Bytes verified between the two devices, by two queue pairs or QPS
some_traffic() {
	timeout "$PATIENCE" "$MRVERBS" soak -q "${QPS:-2}" -d 4 -n 8 -m 20000 "$DEV_A" "$DEV_B"
}

no_traffic() {
	! some_traffic >/dev/null 2>&1 || fail "the queue pairs were connected"
}

# Traffic in the background that both devices carry: offload_bg OPTION...
offload_bg() {
	soak_bg "$@"
	wait_for "queue pairs at $DEV_A" more_than 0 ofl "$DEV_A" qp_active
	wait_for "queue pairs at $DEV_B" more_than 0 ofl "$DEV_B" qp_active
	wait_for "packets of $DEV_A" more_than 0 ofl "$DEV_A" tx_packets
}

soak_is_over() { ! kill -0 "$soak_pid" 2>/dev/null; }

# The traffic in the background ends by itself, as its queue pairs are lost.
soak_breaks() {
	wait_for "the end of the traffic" soak_is_over
	! wait "$soak_pid" || fail "the traffic has not noticed anything"
}
