/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of failing requests share. */
#ifndef ERROR_H
#define ERROR_H

#include "mrverbs.h"

enum {
	WR = 0x51,
	WR_NEXT = 0x52,
	RECV = 0x61,
	RECV_NEXT = 0x62,
};

/*
 * The requester has failed with status: the QP is in the error state, what was
 * posted behind the failed request is flushed.
 */
void requester_failed(struct end *end, enum ibv_wc_status status);
void post_next(struct end *end);
/* A failing one-sided request, with a second one behind it. */
void request_fails(struct pair *pair, enum ibv_wr_opcode op, const void *p, uint32_t len,
		   uint32_t lkey, const void *remote, uint32_t rkey, enum ibv_wc_status status);
/* Nothing of a refused request is in the memory, and the devices work. */
void no_trace(struct env *env, struct buf *dst);

#endif /* ERROR_H */
