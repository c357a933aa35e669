# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Two hosts in one machine: network namespaces joined by planes (veth pairs),
# one RDMA device in each. The tests source this.
#
# RDMA_TYPE chooses the driver, metaroce if unset. With another one (rxe), the
# tests that are not about metaroce itself show that they test the right thing.

here=${here:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
# shellcheck source=ktap.sh
. "$here/lib/ktap.sh"

export RDMA_TYPE=${RDMA_TYPE:-metaroce}
OUTPUT=${OUTPUT:-$here/../build/selftests}
MRVERBS=${MRVERBS:-$OUTPUT/mrverbs}
SCRATCH=${TMPDIR:-/tmp}

# Namespaces and devices; planes are p0, p1, ... in both namespaces.
NS_A=mra$$
NS_B=mrb$$
DEV_A=mra$$
DEV_B=mrb$$

# How many times slower than usual a kernel is that checks itself.
SLOW=${SLOW:-$([ -e /sys/kernel/debug/kmemleak ] && echo 5 || echo 1)}
# Longest wait for something that should happen at once. No test measures it.
export PATIENCE=${PATIENCE:-$((60 * SLOW))}
export MRVERBS_WAIT=${MRVERBS_WAIT:-$PATIENCE}

in_a() { ip netns exec "$NS_A" "$@"; }
in_b() { ip netns exec "$NS_B" "$@"; }

module_of() {
	case $RDMA_TYPE in
	rxe | siw) echo "rdma_$RDMA_TYPE" ;;
	*) echo "$RDMA_TYPE" ;;
	esac
}
MODULE=$(module_of)

is_metaroce() { [ "$RDMA_TYPE" = metaroce ]; }
need_metaroce() { is_metaroce || skip "about metaroce only"; }

# Skips the whole program; before any plan is printed.
skip_all() {
	echo "TAP version 13"
	echo "1..0 # SKIP $*"
	exit "$KSFT_SKIP"
}

require() {
	local tool

	[ "$(id -u)" = 0 ] || skip_all "not root"
	for tool in ip rdma "$@"; do
		command -v "$tool" >/dev/null || skip_all "no $tool"
	done
	[ -x "$MRVERBS" ] || skip_all "no $MRVERBS (make -C selftests)"
	modinfo "$MODULE" >/dev/null 2>&1 || [ -e "/sys/module/$MODULE" ] ||
		modprobe "rdma-link-$RDMA_TYPE" 2>/dev/null ||
		skip_all "no module $MODULE"
}

# wait_for WHAT COMMAND... - until COMMAND succeeds
wait_for() {
	local what=$1 end=$((SECONDS + PATIENCE))

	shift
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || fail "$what: not within $PATIENCE s"
		sleep 0.05
	done
}

# wait_for_value WHAT VALUE COMMAND... - until COMMAND prints VALUE
wait_for_value() {
	local what=$1 value=$2

	prints() { [ "$("${@:2}" 2>/dev/null)" = "$1" ]; }
	shift 2
	wait_for "$what" prints "$value" "$@"
}

# more_than NUMBER COMMAND...: what the command prints is
more_than() { [ "$("${@:2}")" -gt "$1" ]; }

# The address of host A (1) or B (2) on a plane.
addr4() { echo "192.168.$((100 + $2)).$1"; }
addr6() { echo "fd00:6d52:$2::$1"; }

# The GID of an IPv4 address, as in sysfs.
gid4() {
	local octets

	IFS=. read -ra octets <<<"$1"
	printf '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' "${octets[@]}"
}

# plane_new INDEX [MTU]: a veth pair, or network devices of the machine that are
# joined by a cable: those of this index in the lists NETDEVS_A and NETDEVS_B.
plane_new() {
	local i=$1 mtu=${2:-9000} host ns

	if [ "${NETDEVS_A:-}" ]; then
		netdev_lend "$NS_A" "$i" "$NETDEVS_A"
		netdev_lend "$NS_B" "$i" "${NETDEVS_B:-}"
	elif [ "${SWITCH:-}" ]; then
		switch_new "$i" "$mtu"
	else
		ip link add "p$i" mtu "$mtu" netns "$NS_A" type veth peer name "p$i" \
			mtu "$mtu" netns "$NS_B" || fail "cannot make a veth pair"
	fi
	for host in 1 2; do
		ns=$([ $host = 1 ] && echo "$NS_A" || echo "$NS_B")
		plane_ready "$ns" $host "$i"
	done
}

# netdev_lend NAMESPACE INDEX LIST: one of the list is that namespace's pINDEX for now
netdev_lend() {
	local list name

	read -ra list <<<"$3"
	name=${list[$2]:-}
	[ "$name" ] || fail "no network device for plane $2 of $1"
	ip link set "$name" netns "$1" name "p$2" || fail "cannot lend $name"
	defer "ip -n $1 link set p$2 down; ip -n $1 link set p$2 name $name netns 1"
}

# Veth hands memory on, and what comes by it needs no CRC, unless the kernel
# computes its checksum: then it looks as if from a link. tx_checksums on|off
tx_checksums() {
	local i

	for i in 0 1; do
		in_a ethtool -K "p$i" tx "$1" >/dev/null || fail "ethtool"
		in_b ethtool -K "p$i" tx "$1" >/dev/null || fail "ethtool"
	done
}

# switch_new INDEX MTU: a plane through a switch in the namespace $SWITCH, with the
# ports aN and bN. Bursts are cut to packets in front of it.
switch_new() {
	local ns port

	ip -n "$SWITCH" link add "switch$1" type bridge mcast_snooping 0 || fail "no bridge"
	for port in a b; do
		ns=$([ $port = a ] && echo "$NS_A" || echo "$NS_B")
		ip link add "p$1" mtu "$2" netns "$ns" type veth peer name "$port$1" mtu "$2" \
			netns "$SWITCH" || fail "cannot make a veth pair"
		ip -n "$SWITCH" link set "$port$1" master "switch$1" up
		ip netns exec "$ns" ethtool -K "p$1" tso off gso off tx-udp-segmentation off \
			>/dev/null || fail "ethtool"
	done
	ip -n "$SWITCH" link set "switch$1" mtu "$2" up
}

# plane_ready NAMESPACE HOST INDEX: addresses, and up
plane_ready() {
	ip -n "$1" addr add "$(addr4 "$2" "$3")/24" dev "p$3"
	ip -n "$1" addr add "$(addr6 "$2" "$3")/64" dev "p$3" nodad
	ip -n "$1" link set "p$3" up
}

# For networks that lose packets: ARP is not what is tested. neighbours_known PLANES
neighbours_known() {
	local i host ns peer mac

	for ((i = 0; i < $1; i++)); do
		for host in 1 2; do
			ns=$([ $host = 1 ] && echo "$NS_A" || echo "$NS_B")
			peer=$([ $host = 1 ] && echo "$NS_B" || echo "$NS_A")
			mac=$(ip -n "$peer" -o link show "p$i" |
				sed -n 's/.*link.ether \([^ ]*\).*/\1/p')
			ip -n "$ns" neigh replace "$(addr4 $((3 - host)) "$i")" lladdr "$mac" \
				dev "p$i" nud permanent || fail "ip neigh"
		done
	done
}

# Each plane loses packets, always the same ones: planes_lose PERCENT
planes_lose() {
	local ns i

	neighbours_known 2
	for ns in "$NS_A" "$NS_B"; do
		for i in 0 1; do
			tc -n "$ns" qdisc add dev "p$i" root netem limit 10000 loss "$1%" seed 7 ||
				skip "no netem with a seed"
		done
	done
}

# netns_up [PLANES] [MTU]: namespaces and planes, no RDMA device
netns_up() {
	local planes=${1:-2} i

	rdma system | grep -q 'netns shared' || rdma system set netns shared ||
		fail "cannot share RDMA devices between namespaces"
	defer "netns_down"
	ip netns add "$NS_A" || fail "cannot make a namespace"
	ip netns add "$NS_B" || fail "cannot make a namespace"
	netns_ready
	for ((i = 0; i < planes; i++)); do
		plane_new "$i" "${2:-9000}"
	done
}

# netns_exclusive PLANES: as netns_up, each device in one namespace alone. Only
# without other namespaces can the mode be changed.
netns_exclusive() {
	local i

	netns_down
	wait_for "exclusive mode" rdma system set netns exclusive
	defer "wait_for 'shared mode' rdma system set netns shared"
	defer "netns_down; sleep 0.5"
	ip netns add "$NS_A"
	ip netns add "$NS_B"
	netns_ready
	for ((i = 0; i < $1; i++)); do
		plane_new "$i"
	done
}

netns_ready() {
	local ns

	for ns in "$NS_A" "$NS_B"; do
		ip -n "$ns" link set lo up
		ip netns exec "$ns" sysctl -qw net.ipv6.conf.default.accept_dad=0 \
			net.ipv6.conf.all.accept_dad=0
	done
}

netns_down() {
	ip netns del "$NS_A" 2>/dev/null
	ip netns del "$NS_B" 2>/dev/null
	return 0
}

# link_new NAMESPACE DEVICE NETDEV
link_new() {
	ip netns exec "$1" rdma link add "$2" type "$RDMA_TYPE" netdev "$3"
}

link_exists() { rdma link show "$1/1" >/dev/null 2>&1; }
link_gone() { ! link_exists "$1"; }
link_state() { rdma link show "$1/1" 2>/dev/null | sed -n 's/.* state \([^ ]*\).*/\1/p'; }
link_state_is() { [ "$(link_state "$1")" = "$2" ]; }
# The kernel names a netdev only within its namespace: link_netdev NAMESPACE DEVICE
link_netdev() {
	ip netns exec "$1" rdma link show "$2/1" | sed -n 's/.* netdev \([^ ]*\).*/\1/p'
}

link_del() {
	link_gone "$1" || rdma link del "$1"
}

# A value that mrverbs prints: info DEVICE NAME
info() { "$MRVERBS" info "$1" | sed -n "s/^$2 //p"; }
gid_index() { info "$1" gid_index; }
has_gid() { "$MRVERBS" info "$1" >/dev/null 2>&1; }

# hosts_up [PLANES] [MTU]: two hosts, a device in each, over all planes.
hosts_up() {
	netns_up "$@"
	# shellcheck disable=SC2046
	links_over $(seq 0 $((${1:-2} - 1)))
}

# links_over INDEX...: a device in each host over the netdevs of these indices. With a
# driver that knows no planes, over the first.
links_over() {
	local i

	defer "links_down"
	for i; do
		link_new "$NS_A" "$DEV_A" "p$i" || fail "rdma link add $DEV_A, plane $i"
		link_new "$NS_B" "$DEV_B" "p$i" || fail "rdma link add $DEV_B, plane $i"
		is_metaroce || break
	done
	links_ready
}

links_ready() {
	wait_for "$DEV_A active" link_state_is "$DEV_A" ACTIVE
	wait_for "$DEV_B active" link_state_is "$DEV_B" ACTIVE
	wait_for "GIDs of $DEV_A" has_gid "$DEV_A"
	wait_for "GIDs of $DEV_B" has_gid "$DEV_B"
}

links_down() {
	link_del "$DEV_A"
	link_del "$DEV_B"
}

# The two devices still (or again) carry data: every byte checked.
check_traffic() {
	timeout "$PATIENCE" "$MRVERBS" soak -q 2 -d 8 -n 24 -m 100000 "$DEV_A" "$DEV_B" ||
		fail "no traffic between $DEV_A and $DEV_B"
}

# soak_bg OPTION...: traffic in the background; soak_end stops it, or waits,
# and fails if a byte differed or it got stuck.
soak_bg() {
	"$MRVERBS" soak -n 1000000000 "$@" "$DEV_A" "$DEV_B" >"$SCRATCH/soak.$$" 2>&1 &
	soak_pid=$!
	defer "kill -9 $soak_pid 2>/dev/null; rm -f $SCRATCH/soak.$$"
}

soak_alive() {
	kill -0 "$soak_pid" 2>/dev/null || {
		cat "$SCRATCH/soak.$$"
		fail "the traffic ended"
	}
}

soak_end() {
	local status=0

	kill -TERM "$soak_pid" 2>/dev/null
	wait "$soak_pid" || status=$?
	cat "$SCRATCH/soak.$$"
	[ $status = 0 ] || fail "the traffic failed ($status)"
}

# A process that holds one of each object of a device until hold_end, and tells
# of events: hold DEVICE, then hold_says TEXT
hold() {
	local pipe=$SCRATCH/hold.$$.in

	hold_log=$SCRATCH/hold.$$.out
	rm -f "$pipe"
	mkfifo "$pipe"
	"$MRVERBS" hold "$1" <"$pipe" >"$hold_log" 2>&1 &
	hold_pid=$!
	defer "kill -9 $hold_pid 2>/dev/null; rm -f $hold_log"
	exec {hold_fd}>"$pipe"
	rm -f "$pipe"
	hold_says ready
}

hold_says() {
	log_says "$hold_log" "$1"
}

hold_end() {
	exec {hold_fd}>&-
	wait "$hold_pid" || {
		cat "$hold_log"
		fail "the holder's exit status is $?"
	}
}

# log_says FILE TEXT: waits for the text
log_says() {
	local end=$((SECONDS + PATIENCE))

	until grep -q "$2" "$1"; do
		[ "$SECONDS" -lt "$end" ] || {
			cat "$1"
			fail "no \"$2\" within $PATIENCE s"
		}
		sleep 0.05
	done
}

# Bytes that a netdev has sent: tx_bytes NAMESPACE NETDEV
tx_bytes() { ip -n "$1" -s -j link show "$2" | sed -n 's/.*"tx":{"bytes":\([0-9]*\).*/\1/p'; }

# A counter of a device, 0 if there is none of that name: counter DEVICE NAME
counter() {
	rdma statistic show link "$1/1" | tr ' ' '\n' | awk -v name="$2" '
		found { print; exit } $0 == name { found = 1 } END { if (!found) print 0 }'
}

# more_packets DEVICE PLANE: waits for the plane to carry data (again)
more_packets() {
	local before

	before=$(counter "$1" "plane$2_tx_packets")
	# shellcheck disable=SC2317
	carries() { [ "$(counter "$1" "plane$2_tx_packets")" -gt $(($3 + 100)) ]; }
	wait_for "data of $1 on plane $2" carries "$1" "$2" "$before"
}

# The file NAME of a device in debugfs, or those of devices of that name: settings DEVICE NAME
settings() {
	local file

	for file in "/sys/kernel/debug/metaroce/$1"{,.*}"/$2"; do
		[ ! -e "$file" ] || echo "$file"
	done
}

# choose DEVICE NAME VALUE, in these files
choose() {
	local file

	for file in $(settings "$1" "$2"); do
		echo "$3" >"$file" || fail "cannot choose $3"
	done
}

# Chooses the law of congestion control of both devices: law LAW
law() {
	is_metaroce || return 0
	choose "$DEV_A" cc "$1"
	choose "$DEV_B" cc "$1"
}

# All counters that are not 0, in one line, for diagnosis
counters() {
	# shellcheck disable=SC2046
	echo "$1:" $(rdma statistic show link "$1/1" | grep -v ' 0 *$' | grep -v '^link')
}

# Number of resources of a kind: res_count DEVICE qp|cq|mr|pd|ctx
res_count() {
	rdma res show "$1" | tr ' ' '\n' | awk -v name="$2" '
		found { print; exit } $0 == name { found = 1 }'
}

res_empty() {
	local kind

	for kind in pd cq qp cm_id mr ctx; do
		[ "$(res_count "$1" $kind)" -le "${res_idle[$kind]:-0}" ] || return 1
	done
}

# What a device holds for the kernel's own clients.
declare -A res_idle
res_remember() {
	local kind

	for kind in pd cq qp cm_id mr ctx; do
		res_idle[$kind]=$(res_count "$1" $kind)
	done
}

module_refs() { lsmod | awk -v m="$MODULE" '$1 == m { print $3 }'; }

# client_server NAME SERVER-COMMAND -- CLIENT-COMMAND: in A and in B, the client
# once APP_LISTENS says that the server listens (perftest's port by default). Their
# output is left in $SCRATCH/server.$$ and client.$$.
client_server() {
	local name=$1 server=() server_pid status=0 device timeout=${APP_TIMEOUT:-900}

	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	defer "rm -f $SCRATCH/server.$$ $SCRATCH/client.$$"
	ip netns exec "$NS_A" timeout "$timeout" "${server[@]}" >"$SCRATCH/server.$$" 2>&1 &
	server_pid=$!
	wait_for "$name: the server listens" "${APP_LISTENS:-server_listens}"
	ip netns exec "$NS_B" timeout "$timeout" "$@" >"$SCRATCH/client.$$" 2>&1 || status=$?
	[ "$status" = 0 ] || kill "$server_pid" 2>/dev/null
	wait $server_pid || status="$status, server $?"
	[ "$status" = 0 ] || {
		echo "--- server: ${server[*]}"
		cat "$SCRATCH/server.$$"
		echo "--- client: $*"
		cat "$SCRATCH/client.$$"
		! is_metaroce || for device in "$DEV_A" "$DEV_B"; do
			! link_exists "$device" || counters "$device"
		done
		fail "$name: client's exit status $status"
	}
}

# Does a program in A listen on this TCP port? (perftest's by default)
server_listens() { [ -n "$(in_a ss -Hltn "sport = :${1:-18515}")" ]; }

# Kernel memory that has no user that could be asked to give it up, in KiB. What
# waits for an RCU grace period is not counted as kept.
kernel_memory() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 1
	awk '/^(SUnreclaim|KernelStack|PageTables|VmallocUsed|Percpu):/ { sum += $2 }
		END { print sum }' /proc/meminfo
}

# Does a program in A listen by rdma_cm?
cm_listens() { in_a rdma resource show cm_id | grep -q 'state LISTEN'; }

# verbs_group GROUP [OPTION...]: the body of verbs_*.sh. QDISC is for the links of the first host.
verbs_group() {
	local group=$1 status=0

	shift
	require rdma
	trap cleanup EXIT
	hosts_up 2 >&2
	# shellcheck disable=SC2086
	[ -z "${QDISC:-}" ] ||
		ip netns exec "$NS_A" tc qdisc add dev p0 root $QDISC || skip "no ${QDISC%% *}"
	"$MRVERBS" test ${TEST_ONLY:+-k "$TEST_ONLY"} "$@" "$DEV_A" "$DEV_B" "$group" || status=$?
	exit $status
}
