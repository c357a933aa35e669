// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues as the tests have them. */
#include "srq.h"

#include <errno.h>
#include <string.h>

struct ibv_srq *srq_new(struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr, .max_sge = sge } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);

	if (!srq && (errno == EOPNOTSUPP || errno == ENOSYS))
		SKIP("no shared receive queues");
	CHECK(srq, "ibv_create_srq(%u, %u): %m", wr, sge);
	CHECK(init.attr.max_wr >= wr && init.attr.max_sge >= sge, "SRQ smaller than asked for");
	return srq;
}

int srq_post(struct ibv_srq *srq, uint64_t wr_id, void *p, uint32_t len, uint32_t lkey)
{
	struct ibv_sge sge = { (uintptr_t)p, len, lkey };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = len ? 1 : 0,
	};

	return ibv_post_srq_recv(srq, &wr, &bad);
}

int srq_modify(struct ibv_srq *srq, uint32_t max_wr, uint32_t limit, int mask)
{
	struct ibv_srq_attr attr = { .max_wr = max_wr, .srq_limit = limit };

	return ibv_modify_srq(srq, &attr, mask);
}

struct ibv_srq_attr srq_query(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	OK(ibv_query_srq(srq, &attr));
	return attr;
}

void send_one(struct end *end, uint64_t wr_id, struct buf *src, uint32_t len)
{
	OK(post_send(end, IBV_WR_SEND, wr_id, src ? src->p : NULL, len, src ? src->mr->lkey : 0,
		     NULL, 0, IBV_SEND_SIGNALED));
}

void deliver(struct pair *pair, uint64_t recv, struct buf *src, uint32_t len)
{
	send_one(&pair->a, WR, src, len);
	cq_expect(&pair->a.scq, WR, IBV_WC_SUCCESS);
	cq_expect(&pair->b.rcq, recv, IBV_WC_SUCCESS);
}
