#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The tests of verbs/t_dmabuf.c between two hosts.
. "$(dirname "$0")/lib/lib.sh"
verbs_group dmabuf
