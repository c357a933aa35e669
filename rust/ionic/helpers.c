// SPDX-License-Identifier: GPL-2.0
/* Of the helpers, those that this module needs. */

#include "../helpers/netdev.c"
#include "../helpers/sync.c"
