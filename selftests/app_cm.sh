#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Connection management: the programs that the distribution ships for it.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require rping ucmatose udaddy rdma_server rdma_client rdma_xserver rdma_xclient cmtime rstream
modprobe rdma_ucm 2>/dev/null || [ -e /dev/infiniband/rdma_cm ] || skip_all "no rdma_ucm"

# cm NAME SERVER-COMMAND -- CLIENT-COMMAND: as client_server, for programs that
# listen with rdma_cm
cm() { APP_TIMEOUT=$PATIENCE APP_LISTENS=cm_listens client_server "$@"; }

rping_works() {
	local address=$1

	shift
	cm "rping $address $*" rping -s -a "$address" -C 10 -V "$@" -- \
		rping -c -a "$address" -C 10 -V "$@"
}

test_rping() {
	hosts_up 2
	rping_works "$(addr4 1 0)"
	rping_works "$(addr4 1 0)" -S 60000
}

test_rping_over_IPv6() {
	hosts_up 2
	rping_works "$(addr6 1 0)"
}

link_address() {
	ip -n "$1" -6 -o addr show dev p0 scope link -tentative | sed 's/.*inet6 \([^/]*\).*/\1/'
}

# The kernel gives them some time after a device is up.
have_link_addresses() { [ -n "$(link_address "$NS_A")" ] && [ -n "$(link_address "$NS_B")" ]; }

test_rping_to_an_IPv6_address_of_the_link() {
	local address

	hosts_up 1
	wait_for "addresses of the link" have_link_addresses
	address=$(link_address "$NS_A")
	cm "rping $address" rping -s -a "$address%p0" -C 10 -V -- \
		rping -c -a "$address%p0" -C 10 -V
}

test_rping_on_one_host() {
	local server

	hosts_up 1
	ip netns exec "$NS_A" timeout "$PATIENCE" rping -s -a "$(addr4 1 0)" -C 5 -V &
	server=$!
	wait_for "the server listens" cm_listens
	in_a timeout "$PATIENCE" rping -c -a "$(addr4 1 0)" -C 5 -V || fail "rping: $?"
	wait $server || fail "the server: $?"
}

test_ucmatose() {
	hosts_up 2
	cm ucmatose ucmatose -b "$(addr4 1 0)" -c 8 -C 20 -S 10000 -- \
		ucmatose -s "$(addr4 1 0)" -b "$(addr4 2 0)" -c 8 -C 20 -S 10000
}

test_ucmatose_over_IPv6() {
	hosts_up 2
	cm ucmatose ucmatose -b "$(addr6 1 0)" -c 4 -C 20 -S 10000 -- \
		ucmatose -s "$(addr6 1 0)" -c 4 -C 20 -S 10000
}

test_udaddy() {
	hosts_up 2
	cm udaddy udaddy -b "$(addr4 1 0)" -c 4 -C 10 -S 1000 -- \
		udaddy -s "$(addr4 1 0)" -b "$(addr4 2 0)" -c 4 -C 10 -S 1000
}

test_udaddy_over_IPv6() {
	hosts_up 2
	cm udaddy udaddy -b "$(addr6 1 0)" -C 10 -- udaddy -s "$(addr6 1 0)" -C 10
}

# Both use rdma_create_ep().
test_rdma_client_and_server() {
	hosts_up 2
	cm rdma_server rdma_server -s "$(addr4 1 0)" -- rdma_client -s "$(addr4 1 0)"
}

test_rdma_xclient_and_xserver() {
	hosts_up 2
	cm rdma_xserver rdma_xserver -c r -- rdma_xclient -s "$(addr4 1 0)" -c r
}

# Sockets over RDMA.
test_rstream() {
	hosts_up 2
	cm rstream rstream -b "$(addr4 1 0)" -C 20 -S all -- \
		rstream -s "$(addr4 1 0)" -C 20 -S all
}

test_cmtime() {
	hosts_up 2
	cm cmtime cmtime -b "$(addr4 1 0)" -c 50 -- cmtime -s "$(addr4 1 0)" -c 50
	grep -E 'step|connect|disc' "$SCRATCH/client.$$"
}

# A request or a reply that is lost is repeated: the manager's own business. Not so the end of a
# connection whose cm_id is destroyed before the reply to it: rping's client does that, and its
# server waits for ever if that one request is lost. ucmatose waits for the reply.
test_loss() {
	local ns

	hosts_up 1
	neighbours_known 1
	for ns in "$NS_A" "$NS_B"; do
		tc -n "$ns" qdisc add dev p0 root netem limit 10000 loss 10% seed 7 ||
			skip "no netem with a seed"
	done
	cm "ucmatose, one connection" ucmatose -b "$(addr4 1 0)" -C 10 -- \
		ucmatose -s "$(addr4 1 0)" -b "$(addr4 2 0)" -C 10
	cm "ucmatose, four connections" ucmatose -b "$(addr4 1 0)" -c 4 -C 5 -- \
		ucmatose -s "$(addr4 1 0)" -b "$(addr4 2 0)" -c 4 -C 5
}

test_nobody_listens() {
	local status=0

	hosts_up 1
	in_b timeout "$PATIENCE" rping -c -a "$(addr4 1 0)" -C 1 >"$SCRATCH/client.$$" 2>&1 ||
		status=$?
	defer "rm -f $SCRATCH/client.$$"
	cat "$SCRATCH/client.$$"
	[ $status != 0 ] || fail "connected to nobody"
	[ $status != 124 ] || fail "no refusal"
	grep -q REJECTED "$SCRATCH/client.$$" || fail "no refusal"
}

test_exclusive_namespaces() {
	netns_exclusive 1
	in_a rdma link add mr0 type "$RDMA_TYPE" netdev p0 || fail "rdma link add in A"
	in_b rdma link add mr0 type "$RDMA_TYPE" netdev p0 || fail "rdma link add in B"
	wait_for "GIDs in A" in_a "$MRVERBS" info mr0
	wait_for "GIDs in B" in_b "$MRVERBS" info mr0
	rping_works "$(addr4 1 0)"
	cm udaddy udaddy -b "$(addr4 1 0)" -C 10 -- udaddy -s "$(addr4 1 0)" -C 10
}

# A switch between the ports p0 of both hosts, so that they lose their carriers
# and are up all the same.
switch_up() {
	ip netns add "mrs$$" || fail "cannot make a namespace"
	defer "ip netns del mrs$$"
	ip -n "mrs$$" link add switch type bridge
	ip -n "mrs$$" link set switch up
	switch_port "$NS_A" 1
	switch_port "$NS_B" 2
}

switch_port() {
	ip link add p0 mtu 9000 netns "$1" type veth peer name "port$2" mtu 9000 netns "mrs$$" ||
		fail "cannot make a veth pair"
	ip -n "mrs$$" link set "port$2" master switch up
	ip -n "$1" addr add "$(addr4 "$2" 0)/24" dev p0
	ip -n "$1" link set p0 up
}

# Hosts that have a connection make others over the planes that they have left.
test_primary_plane_lost() {
	local i

	need_metaroce
	netns_up 0
	switch_up
	plane_new 1
	defer links_down
	for ((i = 0; i < 2; i++)); do
		link_new "$NS_A" "$DEV_A" "p$i" || fail "rdma link add $DEV_A, plane $i"
		link_new "$NS_B" "$DEV_B" "p$i" || fail "rdma link add $DEV_B, plane $i"
	done
	links_ready
	neighbours_known 2
	rping_works "$(addr4 1 0)"
	soak_bg -q 1 -d 2 -m 5000 -p 20
	wait_for_value "a connection" 1 counter "$DEV_B" connections
	ip -n "mrs$$" link set port1 down
	ip -n "mrs$$" link set port2 down
	rping_works "$(addr4 1 0)"
	soak_alive
	soak_end
	ip -n "mrs$$" link set port1 up
	ip -n "mrs$$" link set port2 up
	rping_works "$(addr4 1 0)"
}

# Both hosts lose their device in the middle of an exchange: the client is told so, the server
# that the connection has ended, and both end by themselves.
test_device_goes_while_connected() {
	local server client

	need_metaroce
	hosts_up 1
	defer "rm -f $SCRATCH/server.$$ $SCRATCH/client.$$"
	ip netns exec "$NS_A" timeout "$PATIENCE" rping -s -a "$(addr4 1 0)" -C 1000000 \
		>"$SCRATCH/server.$$" 2>&1 &
	server=$!
	wait_for "the server listens" cm_listens
	ip netns exec "$NS_B" timeout "$PATIENCE" rping -c -a "$(addr4 1 0)" -C 1000000 \
		>"$SCRATCH/client.$$" 2>&1 &
	client=$!
	wait_for "an exchange" more_than 10000 counter "$DEV_B" tx_bytes
	rdma link del "$DEV_B"
	wait_for "$DEV_B gone" link_gone "$DEV_B"
	rdma link del "$DEV_A"
	wait_for "$DEV_A gone" link_gone "$DEV_A"
	wait $client
	[ $? != 124 ] || fail "the client goes on"
	wait $server
	[ $? != 124 ] || fail "the server goes on"
	cat "$SCRATCH/client.$$" "$SCRATCH/server.$$"
	grep -q 'device removal' "$SCRATCH/client.$$" || fail "the client was not told"
	grep -qE 'DISCONNECT EVENT|device removal' "$SCRATCH/server.$$" || fail "the server was not told"
}

ktap_run_all \
	test_rping \
	test_rping_over_IPv6 \
	test_rping_to_an_IPv6_address_of_the_link \
	test_rping_on_one_host \
	test_ucmatose \
	test_ucmatose_over_IPv6 \
	test_udaddy \
	test_udaddy_over_IPv6 \
	test_rdma_client_and_server \
	test_rdma_xclient_and_xserver \
	test_rstream \
	test_cmtime \
	test_loss \
	test_nobody_listens \
	test_exclusive_namespaces \
	test_primary_plane_lost \
	test_device_goes_while_connected
ktap_exit
