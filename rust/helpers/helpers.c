// SPDX-License-Identifier: GPL-2.0

#include "helpers.h"

#include "net.c"
#include "odp.c"
#include "params.c"
#include "sync.c"

unsigned int metaroce_skb_headlen(const struct sk_buff *skb)
{
	return skb_headlen(skb);
}

#include "ib_verbs.c"
