// SPDX-License-Identifier: GPL-2.0
/* The helpers once more, for this module, but for parameters that it has not. */

#include "helpers.h"

#include "../helpers/ib_verbs.c"
#include "../helpers/net.c"
#include "../helpers/netdev.c"
#include "../helpers/sync.c"
