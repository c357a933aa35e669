#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tests of verbs/t_ud.c between two hosts, over IPv6 GIDs.
. "$(dirname "$0")/lib/lib.sh"
verbs_group ud -6
