// SPDX-License-Identifier: GPL-2.0
/* Requests that fail, and what is seen of that at their own end. */
#include "error.h"

#include <string.h>

void requester_failed(struct end *end, enum ibv_wc_status status)
{
	cq_expect(&end->scq, WR, status);
	cq_expect(&end->scq, WR_NEXT, IBV_WC_WR_FLUSH_ERR);
	end_expect_error(end);
	cq_expect_empty(&end->scq, "after the flush");
	cq_expect_empty(&end->rcq, "after the flush");
}

void post_next(struct end *end)
{
	OK(post_send(end, IBV_WR_SEND, WR_NEXT, NULL, 0, 0, NULL, 0, IBV_SEND_SIGNALED));
}

void request_fails(struct pair *pair, enum ibv_wr_opcode op, const void *p, uint32_t len,
		   uint32_t lkey, const void *remote, uint32_t rkey, enum ibv_wc_status status)
{
	OK(post_send(&pair->a, op, WR, p, len, lkey, remote, rkey, IBV_SEND_SIGNALED));
	post_next(&pair->a);
	requester_failed(&pair->a, status);
}

void no_trace(struct env *env, struct buf *dst)
{
	check_byte(dst->p, dst->len, 0, "memory that the request had no right to");
	buf_check_guards(dst, "memory that the request had no right to");
	env_check_works(env);
}
