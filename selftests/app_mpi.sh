#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# OpenMPI over UCX, both as the distribution ships them: four ranks on four hosts
# (network namespaces), each with a device over two planes, which are switches.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require mpirun python3 unshare tc
python3 -c 'import mpi4py' 2>/dev/null || skip_all "no mpi4py"

HOSTS=4
WORK=$SCRATCH/mpi.$$
SWITCH_NS=mrsw$$

host_ns() { echo "mrh$1-$$"; }
host_dev() { echo "mrh$1-$$"; }

host_up() {
	local i ns

	ns=$(host_ns "$1")
	ip netns add "$ns" || fail "cannot make a namespace"
	defer "ip netns del $ns"
	ip -n "$ns" link set lo up
	for i in 0 1; do
		ip link add "p$i" mtu 9000 netns "$ns" type veth peer name "h$1p$i" mtu 9000 \
			netns "$SWITCH_NS" || fail "cannot make a veth pair"
		ip -n "$SWITCH_NS" link set "h$1p$i" master "plane$i" up
		ip -n "$ns" addr add "$(addr4 "$1" "$i")/24" dev "p$i"
		ip -n "$ns" link set "p$i" up
		link_new "$ns" "$(host_dev "$1")" "p$i" || fail "rdma link add, plane $i"
	done
	defer "link_del $(host_dev "$1")"
	wait_for "GIDs of host $1" has_gid "$(host_dev "$1")"
}

# What starts a program on a host, as ssh would: ADDRESS COMMAND...
agent_new() {
	mkdir -p "$WORK"
	defer "rm -rf $WORK"
	cat >"$WORK/agent" <<-END
		#!/bin/bash
		host=\${1##*.}
		shift
		exec ip netns exec mrh\$host-$$ unshare -u sh -c "hostname host\$host; \$*"
	END
	# The rank's own device.
	cat >"$WORK/rank" <<-END
		#!/bin/bash
		host=\$(hostname)
		export UCX_NET_DEVICES=mrh\${host#host}-$$:1
		exec "\$@"
	END
	chmod +x "$WORK/agent" "$WORK/rank"
}

up() {
	local i

	need_metaroce
	rdma system | grep -q 'netns shared' || rdma system set netns shared || fail "netns mode"
	ip netns add "$SWITCH_NS" || fail "cannot make a namespace"
	defer "ip netns del $SWITCH_NS"
	for i in 0 1; do
		ip -n "$SWITCH_NS" link add "plane$i" mtu 9000 type bridge mcast_snooping 0
		ip -n "$SWITCH_NS" link set "plane$i" up
	done
	for ((i = 1; i <= HOSTS; i++)); do
		host_up "$i"
	done
	agent_new
}

# mpi TRANSPORTS ROUNDS [FILE]
mpi() {
	local hosts i transports=$1

	shift
	hosts=$(for ((i = 1; i <= HOSTS; i++)); do addr4 "$i" 0; done | paste -sd,)
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		ip netns exec "$(host_ns 1)" unshare -u sh -c 'hostname host1; exec "$@"' x \
		timeout 600 mpirun -n "$HOSTS" --map-by ppr:1:node:OVERSUBSCRIBE --host "$hosts" \
		--prtemca plm_ssh_agent "$WORK/agent" --prtemca prte_if_include p0 \
		--mca pml ucx --mca mpi_yield_when_idle 1 -x "UCX_TLS=$transports" \
		"$WORK/rank" python3 "$here/mpi.py" "$@" >"$WORK/out" 2>&1 || {
		cat "$WORK/out"
		fail "mpirun: $?"
	}
	cat "$WORK/out"
	[ "$(grep -c '^rank . of 4 on host' "$WORK/out")" = 4 ] || fail "not four ranks"
	for ((i = 1; i <= HOSTS; i++)); do
		[ "$(counter "$(host_dev "$i")" tx_packets)" -gt 0 ] ||
			[ "$(counter "$(host_dev "$i")" tx_datagrams)" -gt 100 ] ||
			fail "nothing was sent by $(host_dev "$i")"
	done
}

test_collectives_over_rc() {
	up
	mpi rc_v,self 3
}

test_collectives_over_ud() {
	up
	mpi ud_v,self 2
}

test_loss_and_a_plane_that_fails() {
	local i job file=$WORK/third

	up
	for ((i = 1; i <= HOSTS; i++)); do
		tc -n "$SWITCH_NS" qdisc add dev "h${i}p1" root netem limit 10000 loss 1% || skip "no netem"
	done
	mpi rc_v,self 12 "$file" &
	job=$!
	wait_for "a third of the rounds" test -e "$file"
	ip -n "$SWITCH_NS" link set plane1 down
	wait $job || fail "the ranks"
}

ktap_run_all \
	test_collectives_over_rc \
	test_collectives_over_ud \
	test_loss_and_a_plane_that_fails
ktap_exit
