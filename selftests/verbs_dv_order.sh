#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Polling on last bytes, while one of two planes is slow, reorders, and loses packets.
. "$(dirname "$0")/lib/lib.sh"
export QDISC="netem delay 1ms 800us loss 1% limit 10000"
verbs_group dv_order
