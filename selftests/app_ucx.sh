#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# UCX, as the distribution ships it: ucx_perftest over its two transports for
# plain verbs, and io_demo, which looks at the bytes. Both processes of a test
# spin, which is why there are so few iterations.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/lib/lib.sh"
require ucx_perftest ucx_info io_demo

ucx_listens() { server_listens 13337; }
demo_listens() { server_listens 1337; }

# UCX says for every device but mlx5 that it cannot flush a peer's memory, when
# ucx_perftest asks for it at the end of a test, and goes on.
harmless='flush\(remote\) is not supported|error during flush: Unsupported operation'

# with_ucx TRANSPORTS SERVER-COMMAND -- CLIENT-COMMAND: as client_server, with
# these transports and the host's device alone. What UCX complains of, fails.
with_ucx() {
	local transports=$1 server=()

	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	client_server "$*, $transports" \
		env UCX_TLS="$transports" UCX_NET_DEVICES="$DEV_A:1" "${server[@]}" -- \
		env UCX_TLS="$transports" UCX_NET_DEVICES="$DEV_B:1" "$@"
	! grep -E ' (ERROR|WARN|FATAL) ' "$SCRATCH/server.$$" "$SCRATCH/client.$$" |
		grep -vE "$harmless" || fail "UCX complains"
}

# perf TRANSPORTS OPTION..., with the tests, one a line, from stdin: a name, then
# ucx_perftest's options
perf() {
	local transports=$1 batch=$SCRATCH/ucx.$$ tests results
	local program=(ucx_perftest -P 0 -f -v -w 5 -b "$batch")

	shift
	defer "rm -f $batch"
	sed 's/^[[:space:]]*//; /^$/d' >"$batch"
	APP_LISTENS=ucx_listens with_ucx "$transports" "${program[@]}" "$@" -- \
		"${program[@]}" "$@" "$(addr4 1 0)"
	grep , "$SCRATCH/client.$$"
	tests=$(grep -c . "$batch")
	results=$(cut -f 1 "$batch" | grep -cFf - "$SCRATCH/client.$$")
	[ "$results" = "$tests" ] || fail "$results results of $tests tests"
}

# section TRANSPORT: what ucx_info says of it on the device
section() {
	in_a env UCX_NET_DEVICES="$DEV_A:1" ucx_info -d |
		awk -v name="$1" '/Transport:/ { on = $NF == name } on'
}

test_transports_are_found() {
	hosts_up 2
	section rc_verbs
	section rc_verbs | grep -q "Device: $DEV_A:1" || fail "no rc_verbs"
	section rc_verbs | grep -q 'atomic_fadd: .*64' || fail "no atomics"
	section ud_verbs
	section ud_verbs | grep -q "Device: $DEV_A:1" || fail "no ud_verbs"
}

tags() {
	hosts_up 2
	perf "$1" <<-END
		tag_lat_8	-t tag_lat -n 100 -s 8
		tag_lat_1000	-t tag_lat -n 100 -s 1000
		tag_lat_10000	-t tag_lat -n 50 -s 10000
		tag_lat_500000	-t tag_lat -n 20 -s 500000
		tag_unexpected	-t tag_lat -n 50 -s 3000 -U
		tag_wildcard	-t tag_lat -n 50 -s 3000 -C
		tag_bw_8	-t tag_bw -n 500 -s 8
		tag_bw_8192	-t tag_bw -n 200 -s 8192
		tag_bw_1000000	-t tag_bw -n 20 -s 1000000
		tag_sync	-t tag_sync_lat -n 50 -s 2000
		stream_lat	-t stream_lat -n 50 -s 3000
		stream_bw	-t stream_bw -n 100 -s 10000
	END
	# Of lists of lengths it reads but one a process.
	perf "$1" -D iov,iov -s 16,480,8192,8000,14 <<<'tag_vector	-t tag_lat -n 50'
}

messages() {
	hosts_up 2
	perf "$1" <<-END
		am_lat_8	-t ucp_am_lat -n 100 -s 8
		am_lat_5000	-t ucp_am_lat -n 50 -s 5000 -H 16
		am_bw_8		-t ucp_am_bw -n 500 -s 8
		am_bw_8192	-t ucp_am_bw -n 200 -s 8192
		am_bw_1000000	-t ucp_am_bw -n 20 -s 1000000
	END
}

memory() {
	hosts_up 2
	perf "$1" <<-END
		put_lat_8	-t ucp_put_lat -n 100 -s 8
		put_lat_100000	-t ucp_put_lat -n 20 -s 100000
		put_bw_1000000	-t ucp_put_bw -n 20 -s 1000000
		get_8		-t ucp_get -n 100 -s 8
		get_10000	-t ucp_get -n 50 -s 10000
		get_1000000	-t ucp_get -n 20 -s 1000000
	END
}

atomics() {
	hosts_up 2
	perf "$1" <<-END
		add_4	-t ucp_add -n 200 -s 4
		add_8	-t ucp_add -n 200 -s 8
		fadd_8	-t ucp_fadd -n 100 -s 8
		swap_8	-t ucp_swap -n 100 -s 8
		cswap_8	-t ucp_cswap -n 100 -s 8
		cswap_4	-t ucp_cswap -n 100 -s 4
	END
}

test_tags_over_rc() { tags rc_v; }
test_messages_over_rc() { messages rc_v; }
test_put_and_get_over_rc() { memory rc_v; }
test_atomics_over_rc() { atomics rc_v; }
test_tags_over_ud() { tags ud_v; }
test_messages_over_ud() { messages ud_v; }
test_put_and_get_over_ud() { memory ud_v; }
test_atomics_over_ud() { atomics ud_v; }

# The processes sleep until an event comes.
sleeping() {
	hosts_up 2
	perf "$1" -M multi <<-END
		tag_lat_8	-t tag_lat -n 100 -s 8 -E sleep
		tag_lat_100000	-t tag_lat -n 20 -s 100000 -E sleep
	END
}

test_sleeping_over_rc() { sleeping rc_v; }
test_sleeping_over_ud() { sleeping ud_v; }

# The layer below, with each way that it has to hand over data.
test_lower_layer_of_rc() {
	hosts_up 2
	lower_layer rc_verbs <<-END
		am_short	-t am_lat -n 100 -s 16 -D short
		am_bcopy	-t am_lat -n 100 -s 1000 -D bcopy
		am_zcopy	-t am_lat -n 100 -s 1000 -D zcopy
		am_bw		-t am_bw -n 200 -s 2000 -D bcopy
		put_short	-t put_lat -n 100 -s 16 -D short
		put_bcopy	-t put_lat -n 100 -s 1000 -D bcopy
		put_zcopy	-t put_bw -n 20 -s 500000 -D zcopy
		get_bcopy	-t get -n 50 -s 1000 -D bcopy
		get_zcopy	-t get_bw -n 20 -s 500000 -D zcopy
		add		-t add_mr -n 100 -s 8
		fadd		-t fadd -n 100 -s 8
		cswap		-t cswap -n 100 -s 8
	END
}

test_lower_layer_of_ud() {
	hosts_up 2
	lower_layer ud_verbs <<-END
		am_short	-t am_lat -n 100 -s 16 -D short
		am_bcopy	-t am_lat -n 100 -s 1000 -D bcopy
		am_zcopy	-t am_lat -n 100 -s 1000 -D zcopy
		am_bw		-t am_bw -n 200 -s 2000 -D bcopy
	END
}

# The devices have names of their own, but the tests are read from one file.
lower_layer() {
	local transport=$1 batch=$SCRATCH/uct.$$ name options

	cat >"$batch"
	defer "rm -f $batch"
	while read -r name options; do
		# shellcheck disable=SC2086
		APP_LISTENS=ucx_listens client_server "$name, $transport" \
			ucx_perftest -P 0 -f -v -w 5 -x "$transport" -d "$DEV_A:1" $options -- \
			ucx_perftest -P 0 -f -v -w 5 -x "$transport" -d "$DEV_B:1" $options \
			"$(addr4 1 0)"
		tail -n 1 "$SCRATCH/client.$$" | grep -E '^ *[0-9]+,' || {
			cat "$SCRATCH/client.$$"
			fail "$name: no result"
		}
	done <"$batch"
}

# Runs a command until a file is there: for servers that have no end of their own.
until_done() {
	local file=$1 pid

	shift
	"$@" &
	pid=$!
	until [ -e "$file" ]; do
		kill -0 $pid || return
		sleep 0.1
	done
	kill $pid
	wait $pid
	[ $? = 143 ]
}

and_say_done() {
	local file=$1 status=0

	shift
	"$@" || status=$?
	touch "$file"
	return $status
}
export -f until_done and_say_done

# demo TRANSPORTS OPTION...: writes and reads; each side checks all bytes it gets
demo() {
	local transports=$1 file=$SCRATCH/done.$$ program

	shift
	program=(io_demo -o "write,read" -d 1:200000 -q "$@")
	rm -f "$file"
	defer "rm -f $file"
	with_ucx "$transports" bash -c 'until_done "$@"' x "$file" "${program[@]}" -- \
		bash -c 'and_say_done "$@"' x "$file" "${program[@]}" -i 200 "$(addr4 1 0)"
	tail -n 8 "$SCRATCH/client.$$"
	! grep -E 'ERROR:|corruption' "$SCRATCH/server.$$" "$SCRATCH/client.$$" ||
		fail "io_demo complains"
}

test_data_over_rc() {
	hosts_up 2
	APP_LISTENS=demo_listens demo rc_v,tcp
	APP_LISTENS=demo_listens demo rc_v,tcp -A
}

test_data_over_ud() {
	hosts_up 2
	APP_LISTENS=demo_listens demo ud_v,tcp
	APP_LISTENS=demo_listens demo ud_v,tcp -A
}

# Each plane loses packets.
test_data_under_loss() {
	hosts_up 2
	planes_lose 1
	APP_LISTENS=demo_listens demo rc_v,tcp
}

ktap_run_all \
	test_transports_are_found \
	test_tags_over_rc \
	test_messages_over_rc \
	test_put_and_get_over_rc \
	test_atomics_over_rc \
	test_tags_over_ud \
	test_messages_over_ud \
	test_put_and_get_over_ud \
	test_atomics_over_ud \
	test_sleeping_over_rc \
	test_sleeping_over_ud \
	test_lower_layer_of_rc \
	test_lower_layer_of_ud \
	test_data_over_rc \
	test_data_over_ud \
	test_data_under_loss
ktap_exit
