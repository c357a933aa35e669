#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A user-space peer speaks the wire protocol to a device, see conformance/run.py.
# Only host B has a device; the peers are at host A, at addresses of their own.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require python3 ethtool
is_metaroce || skip_all "about metaroce only"
python3 -c 'import pyverbs.qp' 2>/dev/null || skip_all "no pyverbs"

# The addresses of the peers, more than there are tests.
FIRST=10
LAST=100

# addresses PLANE
addresses() {
	local i

	for ((i = FIRST; i <= LAST; i++)); do
		addr4 "$i" "$1"
	done
}

trap cleanup EXIT
{
	netns_up 2
	defer "link_del $DEV_B"
	for plane in 0 1; do
		for address in $(addresses $plane); do
			ip -n "$NS_A" addr add "$address/24" dev p$plane
		done
	done
	# The CRC matters on links only.
	tx_checksums off
	link_new "$NS_B" "$DEV_B" p0 || fail "rdma link add"
	link_new "$NS_B" "$DEV_B" p1 || fail "rdma link add"
	wait_for "$DEV_B active" link_state_is "$DEV_B" ACTIVE
	wait_for "GIDs of $DEV_B" has_gid "$DEV_B"
} >&2
export PYTHONDONTWRITEBYTECODE=1
# shellcheck disable=SC2046
in_a python3 "$here/conformance/run.py" "$DEV_B" "$(gid_index "$DEV_B")" \
	"$(addr4 2 0)" "$(addr4 2 1)" $(addresses 0) -- $(addresses 1)
