// SPDX-License-Identifier: GPL-2.0

#include "helpers.h"

#include "ib_verbs.c"
#include "net.c"
#include "netdev.c"
#include "odp.c"
#include "params.c"
#include "sync.c"
