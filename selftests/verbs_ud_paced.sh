#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Datagrams over a link that is slower than their sender: the sender waits.
. "$(dirname "$0")/lib/lib.sh"
export QDISC="tbf rate 100mbit burst 20k limit 600k"
verbs_group ud_paced
