# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# KTAP, as Documentation/dev-tools/ktap.rst of the kernel has it.

KSFT_PASS=0
KSFT_FAIL=1
KSFT_SKIP=4

ktap_number=0
ktap_passed=0
ktap_failed=0
ktap_skipped=0

ktap_header() {
	echo "TAP version 13"
	echo "1..$1"
}

# ktap_result STATUS DESCRIPTION
ktap_result() {
	ktap_number=$((ktap_number + 1))
	case $1 in
	"$KSFT_PASS")
		ktap_passed=$((ktap_passed + 1))
		echo "ok $ktap_number $2"
		;;
	"$KSFT_SKIP")
		ktap_skipped=$((ktap_skipped + 1))
		echo "ok $ktap_number $2 # SKIP"
		;;
	*)
		ktap_failed=$((ktap_failed + 1))
		echo "not ok $ktap_number $2"
		;;
	esac
}

ktap_totals() {
	echo "# Totals: pass:$ktap_passed fail:$ktap_failed xfail:0 xpass:0 skip:$ktap_skipped error:0"
}

ktap_exit() {
	ktap_totals
	[ "$ktap_failed" = 0 ] || exit "$KSFT_FAIL"
	[ "$ktap_passed" != 0 ] || exit "$KSFT_SKIP"
	exit "$KSFT_PASS"
}

# ktap_run_all FUNCTION... - runs each in a subshell, in this order; its name,
# with blanks for underscores and without "test_", is the description. A
# function says why with fail or skip; its other output becomes comments.
# TEST_ONLY, an extended regular expression, selects some.
ktap_run_all() {
	local fn list=()

	for fn; do
		[[ ! ${TEST_ONLY:-} || $fn =~ $TEST_ONLY ]] && list+=("$fn")
	done
	ktap_header "${#list[@]}"
	for fn in "${list[@]}"; do
		(
			trap 'cleanup' EXIT
			cleanup_stack=()
			"$fn"
		) 2>&1 </dev/null | sed -u 's/^/# /'
		ktap_result "${PIPESTATUS[0]}" "$(sed 's/^test_//; s/_/ /g' <<<"$fn")"
	done
}

fail() {
	echo "FAIL: $*"
	exit "$KSFT_FAIL"
}

skip() {
	echo "SKIP: $*"
	exit "$KSFT_SKIP"
}

# What is to be undone at the end of this (sub)shell, last first.
cleanup_stack=()
defer() {
	cleanup_stack=("$*" "${cleanup_stack[@]}")
}

cleanup() {
	local status=$? what

	set +e
	for what in "${cleanup_stack[@]}"; do
		eval "$what"
	done
	cleanup_stack=()
	exit "$status"
}
