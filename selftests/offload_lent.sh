#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The suite of offload as on hardware: over network devices that are there already, each
# registered by a driver once and for all. The driver is that of the simulated NIC, which
# the suite does not know then.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
# shellcheck source=lib/offload.sh
. "$here/lib/offload.sh"
is_sim || skip_all "is on hardware already"
require_offload

# Two cables, and a NIC at each end of the first.
cables() {
	local i

	sim_load
	for i in 0 1; do
		ip link add "mrlenta$i" mtu 9000 type veth peer name "mrlentb$i" mtu 9000 ||
			fail "cannot make a veth pair"
		defer "ip link del mrlenta$i"
	done
	echo "mrlenta0 $SIM_A" >"$SIM/register" || fail "cannot register"
	echo "mrlentb0 $SIM_B" >"$SIM/register" || fail "cannot register"
}

# The script NAME passes, and nothing in it fails.
script() {
	cables
	OFFLOAD_NIC=lent NETDEVS_A="mrlenta0 mrlenta1" NETDEVS_B="mrlentb0 mrlentb1" \
		"$here/$1.sh" || fail "$1 fails"
	[ -e /sys/class/net/mrlenta0 ] || fail "the network devices were not given back"
	[ "$(cat $SIM/register)" = "$SIM_A"$'\n'"$SIM_B" ] || fail "the registrations are gone"
	[ "$(sim_ops "$SIM_A" qp_add)" -gt 0 ] || fail "the NIC has carried nothing"
}

fns=()
for name in policy mixed move verbs; do
	eval "test_offload_$name() { script offload_$name; }"
	fns+=("test_offload_$name")
done
ktap_run_all "${fns[@]}"
ktap_exit
