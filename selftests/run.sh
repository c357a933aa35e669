#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Runs the tests of this folder, or those named, one after the other, as root
# on a machine where they may do as they please (the VM). Prints KTAP.
# After each test the kernel's log is read: a warning, an oops, a stall or a
# leak report since its start fails it, and so does a device, a namespace or a
# reference to the module left behind.
# Usage: run.sh [TEST...]     (netns or netns.sh)
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"

[ "$(id -u)" = 0 ] || { echo "run.sh: to be run as root, in a VM" >&2; exit "$KSFT_FAIL"; }
cd "$here" || exit "$KSFT_FAIL"
default_timeout=$(($(sed -n 's/^timeout=//p' settings) * SLOW))

all_tests() {
	sed -n '/^TEST_PROGS :=/,/^# end/s/^\t\(.*\.sh\).*/\1/p' Makefile
}

bad_log='WARNING:|BUG:|Oops|general protection|Call Trace|KASAN|KCSAN|UBSAN|kmemleak'
bad_log+='|possible (circular|recursive) locking|suspicious RCU|inconsistent lock state'
bad_log+='|self-detected stall|detected stalls|blocked for more than|soft lockup|hard LOCKUP'
bad_log+='|refcount_t:|unregister_netdevice: waiting|list_(add|del) corruption|bad page'
bad_log+='|scheduling while atomic|sleeping function|still (has|held)|[Ll]eak(ed|ing)?\b'
bad_log+='|panicked at|DEBUG_LOCKS|restrack: '

# log_since MARK: what the kernel has said since
log_since() {
	dmesg | awk -v mark="$1" 'seen { print } index($0, mark) { seen = 1 }'
}

# What kmemleak finds that it has not found before. It believes that memory is lost when two scans
# say so, and not before it is 5 s old.
KMEMLEAK=/sys/kernel/debug/kmemleak
memory_left() {
	[ -w $KMEMLEAK ] || return 0
	sleep 6
	echo scan >$KMEMLEAK
	echo scan >$KMEMLEAK
	# Not what is the kernel's own: a failed UVERBS_METHOD_GET_CONTEXT keeps its reference to the
	# task (7.3 frees the context without rdma_restrack_put()), and a failed insertion into the
	# radix tree of uverbs_alloc_api() leaves empty nodes there.
	awk 'function told() { if (object && !api && (mm || !task)) printf "%s", object }
		/^unreferenced object/ { told(); object = "left: "; api = task = mm = 0 }
		/ uverbs_alloc_api\+/ { api = 1 }
		/ copy_process\+/ { task = 1 }
		/ dup_mm\+/ { mm = 1 }
		{ object = object $0 "\n" }
		END { told() }' $KMEMLEAK
	echo clear >$KMEMLEAK
}

leaks() {
	local refs

	rdma link show | sed 's/^/left: /'
	ip netns list | sed -n 's/^mr[ab][0-9]/left: namespace &/p'
	# Without a name they live as long as somebody is in them.
	lsns -nr -t net -o NS,PID,COMMAND 2>/dev/null | sed -n '2,$s/^/left: namespace with /p'
	refs=$(module_refs)
	[ "${refs:-0}" = 0 ] || echo "left: $refs references to $MODULE"
}

tests=()
for name; do
	tests+=("${name%.sh}.sh")
done
[ ${#tests[@]} != 0 ] || mapfile -t tests < <(all_tests)
for name in "${tests[@]}"; do
	[ -x "$name" ] || { echo "run.sh: no test $name" >&2; exit "$KSFT_FAIL"; }
done

# failures FILE: what a test's output says of each of its failures and after its end, not more than
# 20 lines of each
failures() {
	awk '
		function told() {
			for (i = n > 20 ? n - 19 : 1; i <= n; i++) print line[i]
			n = 0
		}
		/^ok [0-9]/ { n = 0; next }
		/^(TAP version|1\.\.|# Totals:)/ { next }
		{ line[++n] = $0 }
		/^not ok [0-9]/ { told() }
		END { told() }' "$1"
}

out=$(mktemp "$SCRATCH/run.XXXXXX")
why=$(mktemp "$SCRATCH/why.XXXXXX")
trap 'rm -f "$out" "$why"' EXIT
pass=0 fails=0 skips=0
failed_tests=()
# What the kernel has lost before is not the tests' doing.
memory_left >/dev/null
ktap_header "${#tests[@]}"
for name in "${tests[@]}"; do
	mark="selftests: metaroce: $name $RANDOM$RANDOM"
	echo "<5>$mark" >/dev/kmsg
	echo "# selftests: metaroce: $name"
	began=$SECONDS
	timeout -k 30 "$default_timeout" "./$name" </dev/null 2>&1 | tee "$out" | sed -u 's/^/# /'
	status=${PIPESTATUS[0]}
	[ "$status" != 124 ] || echo "# not finished after $default_timeout s"
	pass=$((pass + $(grep -cE '^ok [0-9]+' "$out") - $(grep -c '^ok .*# SKIP' "$out")))
	skips=$((skips + $(grep -cE '^ok .*# SKIP|^1\.\.0 # SKIP' "$out")))
	fails=$((fails + $(grep -cE '^not ok [0-9]+' "$out")))
	# As many results as planned, or the program ended early.
	planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$out" | head -n 1)
	results=$(grep -cE '^(not )?ok [0-9]+' "$out")
	if [ "${planned:-none}" != "$results" ]; then
		echo "# $results results of ${planned:-no} tests planned" | tee -a "$out"
		fails=$((fails + 1))
		[ "$status" != 0 ] || status=$KSFT_FAIL
	fi
	log=$(log_since "$mark" | grep -E "$bad_log")
	if [ -n "$log" ]; then
		head -n 20 <<<"$log" | sed 's/^/kernel log: /' >>"$out"
		log_since "$mark" | grep -E -m 1 -B 5 -A 80 "$bad_log" | sed 's/^/# kernel log: /'
		fails=$((fails + 1))
		status=$KSFT_FAIL
	fi
	# Namespaces and device removal are asynchronous: some patience.
	for ((i = 0; i < 200; i++)); do
		left=$(leaks)
		[ -n "$left" ] || break
		sleep 0.1
	done
	left+=${left:+$'\n'}$(memory_left)
	if [ -n "$left" ]; then
		printf '# %s\n' "${left//$'\n'/$'\n# '}"
		printf '%s\n' "$left" >>"$out"
		fails=$((fails + 1))
		status=$KSFT_FAIL
	fi
	ktap_result "$status" "selftests: metaroce: $name ($((SECONDS - began)) s)"
	[ "$status" = 0 ] || [ "$status" = "$KSFT_SKIP" ] || {
		failed_tests+=("$name")
		echo "--- $name" >>"$why"
		failures "$out" >>"$why"
	}
done
# Once more at the end, where it is not to be looked for among a thousand lines.
sed 's/^/# /' "$why"
[ ${#failed_tests[@]} = 0 ] || echo "# failed: ${failed_tests[*]}"
echo "# Totals: pass:$pass fail:$fails xfail:0 xpass:0 skip:$skips error:0"
[ ${#failed_tests[@]} = 0 ]
