#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The module's KUnit suites, which run when it is loaded into a kernel with KUnit.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ip
RESULTS=/sys/kernel/debug/kunit
[ -d $RESULTS ] || skip_all "no KUnit in this kernel"
trap cleanup EXIT

# They take UDP packets over the loopback device of the initial namespace.
ip link set lo up
[ ! -e "/sys/module/$MODULE" ] || rmmod "$MODULE" || skip_all "cannot load $MODULE anew"
modprobe "$MODULE" || fail "modprobe $MODULE"
defer "rmmod $MODULE"

# One result for each test case; what a suite says of a failure becomes comments.
cases() { cat "$RESULTS/$MODULE"_*/results; }
count=$(cases | grep -cE '^ +(not )?ok [0-9]+ ')
[ "$count" != 0 ] || fail "no suite in $MODULE"
ktap_header "$count"
for suite in "$RESULTS/$MODULE"_*; do
	while IFS= read -r line; do
		case $line in
		"    ok "*" # SKIP"*) status=$KSFT_SKIP ;;
		"    ok "*) status=$KSFT_PASS ;;
		"    not ok "*) status=$KSFT_FAIL ;;
		*"speed: normal") continue ;;
		*)
			echo "# $line"
			continue
			;;
		esac
		name=${line#*ok * }
		ktap_result "$status" "${suite##*/"$MODULE"_}: ${name%% # *}"
	done <"$suite/results"
done
ktap_exit
