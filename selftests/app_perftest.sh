#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# perftest, as the distribution ships it. Events instead of spinning where the
# programs can: two spinning processes leave a small machine no time for its
# kernel.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat ib_atomic_bw \
	ib_atomic_lat
modprobe -q rdma_ucm

# perf PROGRAM OPTION...
perf() {
	local program=$1 listens=server_listens server=() client=()

	shift
	if [[ " $* " = *' -R '* ]]; then
		listens=cm_listens
	else
		server=(-d "$DEV_A" -x "$(gid_index "$DEV_A")")
		client=(-d "$DEV_B" -x "$(gid_index "$DEV_B")")
	fi
	APP_LISTENS=$listens client_server "$program $*" \
		"$program" -F "${server[@]}" "$@" -- \
		"$program" -F "${client[@]}" "$@" "$(addr4 1 0)"
	echo "$program $*"
	# All sizes that were asked for have a line of numbers.
	grep -E '^ *[0-9]+ +[0-9]+ +[0-9.]+' "$SCRATCH/client.$$" || {
		cat "$SCRATCH/client.$$"
		fail "$program $*: no result"
	}
	[[ " $* " != *' -a '* ]] || grep -qE '^ *(8388608|4096) ' "$SCRATCH/client.$$" ||
		fail "$program $*: not all sizes"
}

# Programs with their options, one a line, from stdin.
runs() {
	local lines line words

	mapfile -t lines
	hosts_up 2
	for line in "${lines[@]}"; do
		read -ra words <<<"$line"
		perf "${words[@]}"
	done
}

test_ib_send_bw() {
	runs <<-END
		ib_send_bw -e -n 1000 -s 65536
		ib_send_bw -e -n 20 -a
		ib_send_bw -e -n 500 -s 64 -I 64
		ib_send_bw -e -b -n 500 -s 65536
		ib_send_bw -e -q 16 -n 100 -s 32768
		ib_send_bw -e -q 16 -b -n 100 -s 8192
		ib_send_bw -e -R -n 500 -s 65536
		ib_send_bw -e -R -q 16 -n 100 -s 8192
	END
}

test_ib_send_bw_with_a_shared_receive_queue() {
	runs <<-END
		ib_send_bw -e --use-srq -q 4 -n 200 -s 32768
		ib_send_bw -e --use-srq -q 16 -n 100 -s 1000
		ib_send_bw -e --use-srq -R -q 4 -n 200 -s 32768
	END
}

test_ib_send_lat() {
	runs <<-END
		ib_send_lat -e -n 500 -s 64
		ib_send_lat -e -n 200 -s 64 -I 64
		ib_send_lat -e -n 20 -a
		ib_send_lat -e --use-srq -n 200 -s 64
		ib_send_lat -e -R -n 200 -s 64
	END
}

test_ib_write_bw() {
	runs <<-END
		ib_write_bw -n 1000 -s 65536
		ib_write_bw -n 20 -a
		ib_write_bw -n 500 -s 64 -I 64
		ib_write_bw -b -n 500 -s 65536
		ib_write_bw -q 16 -n 100 -s 32768
		ib_write_bw -R -n 500 -s 65536
		ib_write_bw -n 500 -s 65536 --write_with_imm
	END
}

test_ib_write_lat() {
	runs <<-END
		ib_write_lat -n 200 -s 2
		ib_write_lat -n 200 -s 64 -I 64
		ib_write_lat -n 10 -a
		ib_write_lat -R -n 100 -s 4096
	END
}

test_ib_read_bw() {
	runs <<-END
		ib_read_bw -e -n 500 -s 65536
		ib_read_bw -e -n 20 -a
		ib_read_bw -e -b -n 300 -s 65536
		ib_read_bw -e -q 16 -n 100 -s 32768
		ib_read_bw -e -R -n 300 -s 65536
	END
}

test_ib_read_lat() {
	runs <<-END
		ib_read_lat -e -n 200 -s 4096
		ib_read_lat -e -n 20 -a
		ib_read_lat -e -R -n 100 -s 4096
	END
}

test_ib_atomic_bw() {
	runs <<-END
		ib_atomic_bw -e -n 1000
		ib_atomic_bw -e -n 1000 -A CMP_AND_SWAP
		ib_atomic_bw -e -b -n 500
		ib_atomic_bw -e -q 16 -n 100
		ib_atomic_bw -e -R -n 500
	END
}

test_ib_atomic_lat() {
	runs <<-END
		ib_atomic_lat -e -n 200
		ib_atomic_lat -e -n 200 -A CMP_AND_SWAP
		ib_atomic_lat -e -R -n 200
	END
}

test_unreliable_connections() {
	runs <<-END
		ib_send_bw -e -c UC -n 200 -r 512 -s 32768
		ib_send_lat -e -c UC -n 200 -s 64
		ib_write_bw -c UC -n 200 -s 32768
		ib_write_lat -c UC -n 100 -s 64
	END
}

# No more than there are receives: what comes faster than they are posted again
# is lost, and the program waits for it.
test_datagrams() {
	runs <<-END
		ib_send_lat -c UD -n 500 -s 64
		ib_send_lat -c UD -n 200 -s 64 -I 64
		ib_send_lat -c UD -n 500 -s 4096
		ib_send_lat -c UD -n 20 -a
		ib_send_lat -c UD -R -n 200 -s 1024
		ib_send_bw -c UD -n 500 -r 512 -s 1024
		ib_send_bw -c UD -n 500 -r 512 -s 4096
		ib_send_bw -c UD -e -n 500 -r 512 -s 64 -I 64
		ib_send_bw -c UD -R -n 500 -r 512 -s 1024
		ib_send_bw -c UD --use-srq -n 200 -r 512 -s 1024
	END
}

ktap_run_all \
	test_ib_send_bw \
	test_ib_send_bw_with_a_shared_receive_queue \
	test_ib_send_lat \
	test_ib_write_bw \
	test_ib_write_lat \
	test_ib_read_bw \
	test_ib_read_lat \
	test_ib_atomic_bw \
	test_ib_atomic_lat \
	test_unreliable_connections \
	test_datagrams
ktap_exit
