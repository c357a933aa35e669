#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What becomes of the module when the kernel refuses it memory: failslab (the kernel's
# Documentation/fault-injection) lets a part of the allocations fail that its own code asks for,
# whoever's work that is: a system call's, a worker's or a softirq's.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip
FAILSLAB=/sys/kernel/debug/failslab
[ -w $FAILSLAB/require-start ] || skip_all "no failslab with a filter by stack trace"
is_metaroce || skip_all "about metaroce only"
MANY=1000000000

# range require|reject FIRST LAST: calls through code between these addresses alone, or not these
range() {
	echo "0x$2" >"$FAILSLAB/$1-start"
	echo "0x$3" >"$FAILSLAB/$1-end"
}

address_of() { awk -v name="$1" '$3 == name { print $1; exit }' /proc/kallsyms; }

# What is refused, once that is so: what the module asks for, also where one has to wait.
choose_module() {
	local code

	modprobe "$MODULE"
	mapfile -t code < <(awk -v m="[$MODULE]" '$4 == m && tolower($2) == "t" { print $1 }' \
		/proc/kallsyms | sort)
	[ ${#code[@]} -gt 1 ] || fail "no code of $MODULE in kallsyms"
	range require "${code[0]}" "${code[-1]}"
	# It says so in the log if it has to do without.
	range reject "$(address_of kmemleak_alloc)" "$(address_of kmemleak_ignore_phys)"
	echo 32 >$FAILSLAB/stacktrace-depth
	echo N >$FAILSLAB/ignore-gfp-wait
	echo 0 >$FAILSLAB/verbose
}

# refuse PERCENT [OF_EVERY], until refuse_none: so many of every 100 allocations, or of 100 times
# OF_EVERY
refuse() {
	defer refuse_none
	echo $MANY >$FAILSLAB/times
	echo "${2:-1}" >$FAILSLAB/interval
	echo "$1" >$FAILSLAB/probability
}

refuse_none() { echo 0 >$FAILSLAB/probability; }

# Ends it, and tells how many were refused; some must have been.
refuse_end() {
	local refused

	refuse_none
	refused=$((MANY - $(cat $FAILSLAB/times)))
	echo "$refused allocations refused"
	[ $refused -gt 0 ] || fail "no allocation was refused"
}

# Everything that the tests left is gone, and everything works.
as_before() {
	wait_for "no resources of $DEV_A" res_empty "$DEV_A"
	wait_for "no resources of $DEV_B" res_empty "$DEV_B"
	wait_for_value "no reference to the module" 0 module_refs
	check_traffic
}

# attempt COMMAND...: it works or says that there is no memory; counts in worked and refused. For
# a socket without an inode, and for a message of netlink, the kernel has other words.
attempt() {
	if "$@" 2>"$SCRATCH/attempt.$$"; then
		worked=$((worked + 1))
		return 0
	fi
	grep -qE 'Cannot allocate memory|Too many open files in system|No buffer space available' \
		"$SCRATCH/attempt.$$" || {
		cat "$SCRATCH/attempt.$$"
		fail "neither worked nor told of memory: $*"
	}
	refused=$((refused + 1))
	return 1
}

test_devices() {
	local i worked=0 refused=0

	netns_up 2
	defer "rm -f $SCRATCH/attempt.$$"
	defer links_down
	for ((i = 0; i < 30; i++)); do
		# A device takes hundreds of allocations.
		refuse 1 $((i % 10 * 10 + 1))
		if attempt link_new "$NS_A" "$DEV_A" p0; then
			attempt link_new "$NS_A" "$DEV_A" p1
			rdma link del "$DEV_A" || fail "cannot delete"
		fi
		refuse_none
		wait_for "$DEV_A gone" link_gone "$DEV_A"
	done
	echo "$worked times added, $refused times refused"
	[ $worked != 0 ] || fail "never worked"
	[ $refused != 0 ] || fail "never refused"
	links_over 0 1
	check_traffic
}

# Each test of the group may fail, but ends, and leaves nothing.
group_ends() {
	local status=0

	hosts_up 2
	res_remember "$DEV_A"
	refuse "$1"
	shift
	MRVERBS_WAIT=$((5 * SLOW)) timeout "$((PATIENCE * 10))" "$MRVERBS" test \
		"$DEV_A" "$DEV_B" "$@" >"$SCRATCH/group.$$" || status=$?
	defer "rm -f $SCRATCH/group.$$"
	refuse_end
	echo "$(grep -c '^ok' "$SCRATCH/group.$$") passed, $(grep -c '^not ok' "$SCRATCH/group.$$") failed"
	[ $status != 124 ] || fail "stuck"
	as_before
}

test_queue_pairs() { group_ends 1 qp; }
test_regions() { group_ends 1 mr mw; }
test_completion_queues() { group_ends 1 cq ex; }
test_shared_receive_queues() { group_ends 1 srq; }
test_datagrams() { group_ends 1 ud; }
test_direct_verbs() { group_ends 1 dv; }

# For what exists, memory that is not there is like a lost packet.
test_traffic() {
	hosts_up 2
	res_remember "$DEV_A"
	soak_bg -q 4 -d 8 -m 60000
	wait_for "data" more_than 1000000 counter "$DEV_A" tx_bytes
	refuse 2
	sleep 5
	soak_alive
	refuse_end
	soak_end
	as_before
}

choose_module
ktap_run_all \
	test_devices \
	test_queue_pairs \
	test_regions \
	test_completion_queues \
	test_shared_receive_queues \
	test_datagrams \
	test_direct_verbs \
	test_traffic
ktap_exit
